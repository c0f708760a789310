/* beside.c - see beside.h. */
#include "base/beside.h"

#include <dlfcn.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* An address inside this file's code. */
static const void *self_address(void)
{
    static const char here = 0;
    return &here;
}

/* The folder that holds a file, links resolved; 0 if there is none. */
static int folder_of(char out[PATH_MAX], const char *path)
{
    char *slash;
    if (!strchr(path, '/') || !realpath(path, out))
        return 0;
    slash = strrchr(out, '/');
    slash[slash == out] = '\0';
    return 1;
}

static int is_there(char out[PATH_MAX], const char *folder, const char *rest, const char *file)
{
    const int n = snprintf(out, PATH_MAX, "%s%s%s", folder, rest, file);
    return n > 0 && n < PATH_MAX && access(out, F_OK) == 0;
}

/* ---- a Python package's other packages ---- */

/* Without its ending; 0 if it has another one. */
static int cut(char *folder, const char *ending)
{
    const size_t n = strlen(folder), m = strlen(ending);
    if (n <= m || strcmp(folder + n - m, ending) != 0)
        return 0;
    folder[n - m] = '\0';
    return 1;
}

/* A name as a pattern that only it fits. */
static int quote(char *out, size_t size, const char *name)
{
    size_t n = 0;
    for (; *name && n + 2 < size; name++) {
        if (strchr("*?[\\", *name))
            out[n++] = '\\';
        out[n++] = *name;
    }
    out[n] = '\0';
    return !*name;
}

/* Of two paths that differ in one number: python3.12 is newer than python3.9. */
static int is_newer(const char *a, const char *b)
{
    while (*a && *a == *b) {
        a++;
        b++;
    }
    return strtoul(a, NULL, 10) > strtoul(b, NULL, 10);
}

/* Where several fit, the one of the newest Python. */
static int newest(char out[PATH_MAX], const char *pattern)
{
    glob_t g;
    const char *best = NULL;
    if (glob(pattern, GLOB_NOSORT, NULL, &g) != 0)
        return 0;
    for (size_t k = 0; k < g.gl_pathc; k++)
        if (strlen(g.gl_pathv[k]) < PATH_MAX && (!best || is_newer(g.gl_pathv[k], best)))
            best = g.gl_pathv[k];
    if (best)
        strcpy(out, best);
    globfree(&g);
    return best != NULL;
}

/* `folder` is that of a program or of the library in a Python package: what else pip installed lies
 * below the same prefix. Only there: of a folder that is neither, nothing is known, least of all
 * who may write what is beside it. */
static int in_package(char out[PATH_MAX], const char *folder, const char *file)
{
    static const char *const places[] = {
        "/lib/python3.*/*-packages/pgfit_*/", /* Debian's Python: dist-packages */
        "/pgfit_*/",                          /* pip install --target */
    };
    char prefix[PATH_MAX], quoted[PATH_MAX], pattern[PATH_MAX];
    (void)snprintf(prefix, sizeof prefix, "%s", folder);
    if ((!cut(prefix, "/bin") && !cut(prefix, "/" PG_LIBDIR "/libpg")) ||
        !quote(quoted, sizeof quoted, prefix))
        return 0;
    for (size_t k = 0; k < sizeof places / sizeof *places; k++) {
        const int n = snprintf(pattern, sizeof pattern, "%s%s%s", quoted, places[k], file);
        if (n > 0 && (size_t)n < sizeof pattern && newest(out, pattern))
            return 1;
    }
    return 0;
}

/* ---- beside ---- */

/* Path of the library, or of a program that contains it, which may have been found through PATH. */
static int is_beside(char out[PATH_MAX], const char *self, const char *file, const char *built_in)
{
    static const char *const installed[] = {
        "/libpg/",                  /* of the library */
        "/",                        /* of the library in a Python package */
        "/../" PG_LIBDIR "/libpg/", /* of a tool */
    };
    /* in a build folder: of the library, a tool, a test */
    static const char *const built[] = {"", "/../libpg", "/../../libpg"};
    char folder[PATH_MAX], rest[128];
    if (!folder_of(folder, self))
        return 0;
    for (size_t k = 0; k < sizeof installed / sizeof *installed; k++)
        if (is_there(out, folder, installed[k], file))
            return 1;
    for (size_t k = 0; k < sizeof built / sizeof *built; k++) {
        const int n = snprintf(rest, sizeof rest, "%s/%s/", built[k], built_in);
        if (n > 0 && (size_t)n < sizeof rest && is_there(out, folder, rest, file))
            return 1;
    }
    return PG_PYTHON_PACKAGE && in_package(out, folder, file);
}

int pg__find_beside(char out[PATH_MAX], const char *file, const char *built_in)
{
    Dl_info self = {0};
    return (dladdr(self_address(), &self) && self.dli_fname &&
            is_beside(out, self.dli_fname, file, built_in)) ||
           is_beside(out, "/proc/self/exe", file, built_in) ||
           is_there(out, PG_PREFIX "/" PG_LIBDIR, "/libpg/", file);
}

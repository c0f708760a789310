/* beside.c - see beside.h. */
#include "base/beside.h"

#include <dlfcn.h>
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
    return 0;
}

int pg__find_beside(char out[PATH_MAX], const char *file, const char *built_in)
{
    Dl_info self = {0};
    return (dladdr(self_address(), &self) && self.dli_fname &&
            is_beside(out, self.dli_fname, file, built_in)) ||
           is_beside(out, "/proc/self/exe", file, built_in) ||
           is_there(out, PG_PREFIX "/" PG_LIBDIR, "/libpg/", file);
}

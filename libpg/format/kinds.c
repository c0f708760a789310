/* kinds.c - see kinds.h; testdata/extra/modern has a small one of each. */
#include "format/kinds.h"

#include <errno.h>
#include <fnmatch.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/try.h"
#include "io/folder.h"

enum { DCP_HF, ORBAX, ORBAX_STEP, N_KINDS };

static const struct kind {
    const char *what;
    const char *holds[2]; /* patterns: a folder of this kind has a file of each */
    const char *parts[3]; /* patterns of the files that are recognised by name alone */
    unsigned above;       /* folders between a part and the whole */
    const char *hint;     /* each %s: the path of the whole */
} kinds[N_KINDS] = {
    [DCP_HF] = {"a torch DCP checkpoint in safetensors (tensors cut in pieces)",
                {NULL},
                {NULL},
                0,
                "in Python: torch.distributed.checkpoint._consolidate_hf_safetensors"
                ".consolidate_safetensors_files(\"%s\", \"OUT\")"},
    [ORBAX] = {"an Orbax checkpoint (JAX)",
               {"_METADATA"},
               {"_METADATA", "manifest.ocdbt"},
               0,
               "in Python: orbax.checkpoint.PyTreeCheckpointer().restore(\"%s\")"},
    [ORBAX_STEP] = {"one step of an Orbax checkpoint (JAX)",
                    {"_CHECKPOINT_METADATA"},
                    {"_CHECKPOINT_METADATA"},
                    0,
                    "in Python, for each item of the step: "
                    "orbax.checkpoint.PyTreeCheckpointer().restore(\"%s/ITEM\")"},
};

/* ---- words ---- */

/* whole: what the hint is about; quoted for a shell if the hint is a command, else for Python. */
static pg_status name_it(size_t k, const char *part, const char *whole, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str hint = {0};
    const int shell = strncmp(kinds[k].hint, "python ", 7) == 0;
    for (const char *p = kinds[k].hint; *p;) {
        const char *mark = strstr(p, "%s");
        const size_t n = mark ? (size_t)(mark - p) : strlen(p);
        PG_TRY(pg__str_add(&hint, p, n, err));
        p += n;
        if (!mark)
            continue;
        PG_TRY(pg__str_puts(&hint, shell ? PG_QUOTE(whole) : PG_SHOW(whole), err));
        p += 2;
    }
    st = pg_fail(err, PG_E_UNSUPPORTED, "%s%s, which this version does not read", part,
                 kinds[k].what);
    pg_err_hint(err, "%s", hint.s);
done:
    pg__str_fini(&hint);
    return st;
}

/* The folder that contains a path, or the one `above` levels higher. */
static char *folder_above(const char *path, unsigned above)
{
    size_t n = strlen(path);
    for (unsigned i = 0; i <= above; i++) {
        while (n && path[n - 1] != '/')
            n--;
        while (n > 1 && path[n - 1] == '/')
            n--;
        if (n == 0)
            return pg__mem_strdup(i < above ? ".." : ".");
    }
    return pg__mem_strndup(path, n);
}

static pg_status name_part(size_t k, const char *path, pg_err *err)
{
    char *whole = folder_above(path, kinds[k].above);
    if (!whole)
        return pg__nomem(err);
    const pg_status st = name_it(k, "one file of ", whole, err);
    pg__mem_free(whole);
    return st;
}

static const char *base_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* ---- folders ---- */

typedef struct found {
    unsigned has[N_KINDS]; /* bit i: a file of pattern i */
} found;

static pg_status look_into(found *f, const char *folder, pg_err *err)
{
    int sys = 0;
    DIR *d = pg__folder_list(folder);
    if (!d)
        return pg_fail_sys(err, PG_E_IO, errno, "%s", PG_SHOW(folder));
    for (const struct dirent *e; (e = pg__folder_next(d, &sys));) {
        for (size_t k = 0; k < N_KINDS; k++)
            for (size_t i = 0; i < 2; i++)
                if (kinds[k].holds[i] && fnmatch(kinds[k].holds[i], e->d_name, 0) == 0)
                    f->has[k] |= 1u << i;
    }
    closedir(d);
    return sys ? pg_fail_sys(err, PG_E_IO, sys, "%s", PG_SHOW(folder)) : PG_OK;
}

static int is_kind(const found *f, size_t k)
{
    const unsigned all = kinds[k].holds[1] ? 3 : 1;
    return kinds[k].holds[0] && f->has[k] == all;
}

static pg_status name_folder(size_t k, const char *folder, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str path = {0};
    char *whole = NULL;
    size_t n = strlen(folder);
    while (n > 1 && folder[n - 1] == '/')
        n--;
    PG_TRY(pg__str_add(&path, folder, n, err));
    if (kinds[k].above) {
        const char *base = base_of(path.s);
        if (strcmp(base, ".") == 0 || strcmp(base, "..") == 0)
            PG_TRY(pg__str_puts(&path, "/../.", err));
        whole = folder_above(path.s, kinds[k].above - 1);
        st = whole ? name_it(k, "one step of ", whole, err) : pg__nomem(err);
    } else {
        st = name_it(k, "", path.s, err);
    }
done:
    pg__mem_free(whole);
    pg__str_fini(&path);
    return st;
}

pg_status pg__kind_of_folder(const char *folder, pg_err *err)
{
    found f = {{0}};
    const pg_status st = look_into(&f, folder, err);
    for (size_t k = 0; st == PG_OK && k < N_KINDS; k++)
        if (is_kind(&f, k))
            return name_folder(k, folder, err);
    return st;
}

/* ---- files ---- */

pg_status pg__kind_of_file(const char *path, pg_err *err)
{
    const char *base = base_of(path);
    for (size_t k = 0; k < N_KINDS; k++)
        for (size_t i = 0; i < 3 && kinds[k].parts[i]; i++)
            if (fnmatch(kinds[k].parts[i], base, FNM_PERIOD) == 0)
                return name_part(k, path, err);
    return PG_OK;
}

pg_status pg__kind_of_shard(const char *path, pg_err *err)
{
    return name_part(DCP_HF, path, err);
}

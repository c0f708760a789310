/* find.c - pg_find(): a walk over folders that stops where a folder is one checkpoint. */
#include "pg/find.h"

#include <ctype.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/limits.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/try.h"
#include "format/format.h"
#include "format/pytorch.h"
#include "io/folder.h"

typedef struct walk {
    pg_found *out;
    size_t cap;
    pg__str path;
} walk;

void pg_found_fini(pg_found *f)
{
    if (!f)
        return;
    for (size_t i = 0; i < f->n; i++)
        pg__mem_free(f->paths[i]);
    pg__mem_free(f->paths);
    *f = (pg_found){0};
}

static pg_status add(walk *w, pg_err *err)
{
    char *copy = pg__mem_strdup(w->path.s);
    if (!copy || pg__mem_grow(&w->out->paths, &w->cap, w->out->n + 1, sizeof *w->out->paths)) {
        pg__mem_free(copy);
        return pg__nomem(err);
    }
    w->out->paths[w->out->n++] = copy;
    return PG_OK;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* ---- files ---- */

/* A file that cannot be read may begin so, too: who opens it finds out why. */
static int begins_with(const char *path, const char *const *starts, size_t n)
{
    uint8_t head[4] = {0};
    pg__io *io = NULL;
    pg_status st = pg__io_open_if(&io, path, NULL);
    int found = 0;
    if (io && pg__io_size(io) >= sizeof head)
        st = pg__io_read(io, 0, head, sizeof head, NULL);
    for (size_t i = 0; i < n; i++)
        found |= memcmp(head, starts[i], strlen(starts[i])) == 0;
    pg__io_close(io);
    return found || st == PG_E_IO;
}

/* A pickle may be anything: one that holds a model, or several. */
static int is_read(const char *path)
{
    pg_store *s = NULL;
    const pg_status st = pg_store_open(&s, path, NULL, NULL);
    pg_store_close(s);
    return st == PG_OK || st == PG_E_AMBIGUOUS || st == PG_E_IO;
}

/* Does a file of PyTorch's hold a model, readable or not? Arguments, an optimizer's state and
 * archives of other programs have such names, too. */
static int holds_model(const char *path)
{
    pg_store *s = NULL;
    pg_err why = {0};
    const pg_status st = pg_store_open(&s, path, NULL, &why);
    pg_store_close(s);
    return st != PG_E_UNKNOWN && !(st == PG_E_UNSUPPORTED && strstr(why.msg, PG_PT_NO_MODEL));
}

/* fnmatch() of a name in any case of letters. */
static int matches(const char *pattern, const char *name)
{
    char lower[256];
    size_t n = 0;
    for (; name[n] && n + 1 < sizeof lower; n++)
        lower[n] = (char)tolower((unsigned char)name[n]);
    lower[n] = 0;
    return fnmatch(pattern, name[n] ? name : lower, 0) == 0;
}

/* loose: the folder holds an index of TensorFlow's among other files. */
static int is_checkpoint(const char *path, const char *name, int loose)
{
    static const char *const patterns[] = {
        "*.h5",      "*.hdf5", "*.keras", "*.safetensors", "*.weights.json", "*.pt",  "*.pth",
        "*.pth.tar", "*.ckpt", "*.npz",   "*.msgpack",     "*.distcp",       "*.onnx"};
    static const char *const torch[] = {"PK\3\4", "\x80\2\x8a\n"}; /* since 1.6, before */
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
        if (matches(patterns[i], name))
            return 1;
    if (matches("*.bin", name))
        return begins_with(path, torch, 2) && holds_model(path);
    if (matches("*.pkl", name))
        return is_read(path);
    return loose && matches("*.index", name);
}

/* What belongs to an index of TensorFlow's beside it. */
static int is_of_index(const char *name)
{
    return strcmp(name, "checkpoint") == 0 ||
           fnmatch("*.data-[0-9][0-9][0-9][0-9][0-9]-of-[0-9][0-9][0-9][0-9][0-9]", name, 0) == 0;
}

/* ---- folders ---- */

/* Whether a folder is one checkpoint. *loose: it is TensorFlow's, whose files may be among
 * others. What may not be read in it is no reason to leave the rest out. */
static pg_status judge(const char *folder, int *whole, int *loose, pg_err *err)
{
    static const char single[] = "/model.safetensors"; /* a file among others, like any */
    static const char saved_model[] = "/variables/variables.index";
    pg_err why = {0};
    char *index = NULL;
    const pg_status st = pg__folder_index(&index, folder, &why);
    *loose = st == PG_E_AMBIGUOUS || st == PG_E_FORMAT || /* a list names what is not there */
             (index && pg__ends_with(index, ".index") && !pg__ends_with(index, saved_model));
    *whole = !*loose && (st == PG_OK ? !pg__ends_with(index, single) : st == PG_E_UNSUPPORTED);
    pg__mem_free(index);
    if (st == PG_E_NOMEM || (st == PG_E_IO && why.sys != EISDIR && why.sys != EACCES))
        return pg__fail_as(err, &why);
    return PG_OK;
}

static pg_status walk_folder(walk *w, unsigned depth, pg_err *err);

static pg_status walk_below(walk *w, unsigned depth, pg_err *err)
{
    pg_err why = {0};
    if (depth == PG_LIMIT_FOLDERS) {
        w->out->n_deep++;
        return PG_OK;
    }
    const pg_status st = walk_folder(w, depth + 1, &why);
    if (st == PG_E_IO) {
        w->out->n_closed++;
        return PG_OK;
    }
    return st == PG_OK ? PG_OK : pg__fail_as(err, &why);
}

/* What cannot be looked at, except for what may not, must not be left out. */
static int says_nothing(int sys)
{
    return !pg__is_absence(sys) && sys != EACCES;
}

static pg_status walk_entry(walk *w, const char *name, int loose, unsigned depth, pg_err *err)
{
    struct stat sb, target;
    const int there = lstat(w->path.s, &sb) == 0;
    const int link = there && S_ISLNK(sb.st_mode);
    const int readable = there && (link ? stat(w->path.s, &target) == 0 : (target = sb, 1));
    if (!readable && says_nothing(errno))
        return pg_fail_sys(err, PG_E_IO, errno, "%s", PG_SHOW(w->path.s));
    if (there && name[0] == '.') {
        w->out->n_hidden++;
    } else if (readable && link && S_ISDIR(target.st_mode)) {
        w->out->n_links++;
    } else if (readable && S_ISDIR(target.st_mode)) {
        return walk_below(w, depth, err);
    } else if (readable && S_ISREG(target.st_mode) && is_checkpoint(w->path.s, name, loose)) {
        return add(w, err);
    } else if (there && !(loose && is_of_index(name))) {
        w->out->n_others++;
    }
    return PG_OK;
}

static pg_status list_folder(walk *w, int loose, unsigned depth, pg_err *err)
{
    pg_status st = PG_OK;
    int sys = 0;
    const size_t n = w->path.n;
    const int slash = n && w->path.s[n - 1] == '/';
    DIR *d = pg__folder_list(w->path.s);
    if (!d)
        return pg_fail_sys(err, PG_E_IO, errno, "%s", PG_SHOW(w->path.s));
    for (const struct dirent *e; st == PG_OK && (e = pg__folder_next(d, &sys));) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        st = pg__str_printf(&w->path, err, "%s%s", slash ? "" : "/", e->d_name);
        if (st == PG_OK)
            st = walk_entry(w, e->d_name, loose, depth, err);
        w->path.n = n;
        w->path.s[n] = 0;
    }
    closedir(d);
    return sys ? pg_fail_sys(err, PG_E_IO, sys, "%s", PG_SHOW(w->path.s)) : st;
}

static pg_status walk_folder(walk *w, unsigned depth, pg_err *err)
{
    pg_status st = PG_OK;
    int whole = 0, loose = 0;
    PG_TRY(judge(w->path.s, &whole, &loose, err));
    st = whole ? add(w, err) : list_folder(w, loose, depth, err);
done:
    return st;
}

pg_status pg_find(pg_found *out, const char *folder, pg_err *err)
{
    pg_status st = PG_OK;
    walk w = {.out = out};
    *out = (pg_found){0};
    if (!folder || !*folder)
        return pg_fail(err, PG_E_ARG, "a folder is needed");
    PG_TRY(pg__str_puts(&w.path, folder, err));
    PG_TRY(walk_folder(&w, 0, err));
    if (out->n)
        qsort(out->paths, out->n, sizeof *out->paths, by_path);
done:
    pg__str_fini(&w.path);
    if (st != PG_OK)
        pg_found_fini(out);
    return st;
}

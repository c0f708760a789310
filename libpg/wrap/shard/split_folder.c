/* split_folder.c - makes, continues, replaces and commits the folder of a split.
 *
 * Files appear whole (io/sink.c) but without a sync each; one sync of the file system precedes the
 * index, which is the commit record. So a folder without an index is an interrupted split: the same
 * command compares its files, byte by byte, with those that it would write, and keeps them. A
 * folder with anything else in it, or locked by another run, is not touched. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/try.h"
#include "io/folder.h"
#include "io/system.h"
#include "wrap/shard/split.h"

#define SUMS   "SHA256SUMS"
#define BESIDE ".pg-new" /* where the files that replace an earlier split are written */

static const char *const indexes[] = {PG_MANIFEST, /* first: it may be another program's */
                                      "model.safetensors.index.json", "model.weights.json"};

pg_status pg__split_path(pg__str *out, const pg__split *s, const char *path, pg_err *err)
{
    out->n = 0;
    return pg__str_printf(out, err, "%s/%s", s->into ? s->into : s->dir, path);
}

/* ---- what a folder holds ---------------------------------------------------------------------
 */

/* A walk over a folder: counts listed files and keeps the first other one, or removes the listed
 * ones except indexes, which say what belongs to the split. */
typedef struct walk {
    const char **known; /* sorted */
    size_t n_known, n_files, n_folders;
    int remove;
    pg__str path, foreign;
} walk;

static int is_index(const char *name)
{
    for (size_t i = 0; i < sizeof indexes / sizeof *indexes; i++)
        if (strcmp(name, indexes[i]) == 0)
            return 1;
    return 0;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* ".NAME.pg-XXXXXX": a temporary of a run that was killed. */
static int is_temporary(const char *name)
{
    const size_t n = strlen(name);
    return name[0] == '.' && n > 11 && strncmp(name + n - 10, ".pg-", 4) == 0;
}

static pg_status walk_folder(walk *w, size_t base, unsigned depth, pg_err *err);

static pg_status walk_entry(walk *w, size_t base, const char *name, unsigned depth, pg_err *err)
{
    struct stat sb;
    pg_status st = PG_OK;
    const size_t n = w->path.n;
    PG_TRY(pg__str_printf(&w->path, err, "/%s", name));
    const char *rel = w->path.s + base + 1;
    if (lstat(w->path.s, &sb)) {
        if (errno != ENOENT) /* else it is gone meanwhile */
            st = pg_fail_sys(err, PG_E_IO, errno, "%s", PG_SHOW(w->path.s));
        goto done;
    }
    if (S_ISDIR(sb.st_mode) && depth < PG_LIMIT_SHARD_DEPTH) {
        w->n_folders++;
        PG_TRY(walk_folder(w, base, depth + 1, err));
        if (w->remove && rmdir(w->path.s) && errno != ENOENT)
            st = pg_fail_sys(err, PG_E_IO, errno, "%s: cannot be removed", PG_SHOW(w->path.s));
    } else if (S_ISREG(sb.st_mode) &&
               (is_temporary(name) || strncmp(name, PG_JOB_RECORD, sizeof PG_JOB_RECORD - 1) == 0 ||
                (w->n_known && bsearch(&rel, w->known, w->n_known, sizeof *w->known, by_text)))) {
        w->n_files++;
        if (w->remove && !is_index(rel) && unlink(w->path.s) && errno != ENOENT)
            st = pg_fail_sys(err, PG_E_IO, errno, "%s: cannot be removed", PG_SHOW(w->path.s));
    } else if (!w->foreign.n) {
        PG_TRY(pg__str_puts(&w->foreign, rel, err));
    }
done:
    w->path.n = n;
    if (w->path.s)
        w->path.s[n] = 0;
    return st;
}

static pg_status walk_folder(walk *w, size_t base, unsigned depth, pg_err *err)
{
    pg_status st = PG_OK;
    int sys = 0;
    DIR *d = pg__folder_list(w->path.s);
    if (!d)
        return pg_fail_sys(err, PG_E_IO, errno, "%s", PG_SHOW(w->path.s));
    for (const struct dirent *e; st == PG_OK && (e = pg__folder_next(d, &sys));)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            st = walk_entry(w, base, e->d_name, depth, err);
    if (st == PG_OK && sys)
        st = pg_fail_sys(err, PG_E_IO, sys, "%s", PG_SHOW(w->path.s));
    closedir(d);
    return st;
}

static void walk_fini(walk *w)
{
    pg__mem_free(w->known);
    pg__str_fini(&w->path);
    pg__str_fini(&w->foreign);
}

/* *n is 1 or 0: the number of indexes to pass over. */
static pg_status has_foreign_manifest(size_t *n, const char *dir, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str path = {0};
    pg__io *io = NULL;
    int foreign = 0;
    PG_TRY(pg__str_printf(&path, err, "%s/" PG_MANIFEST, dir));
    PG_TRY(pg__io_open_if(&io, path.s, err));
    if (io && (st = pg__manifest_is_foreign(&foreign, io, err)) != PG_OK)
        pg_err_prefix(err, PG_SHOW(path.s));
    *n = (size_t)foreign;
done:
    pg__io_close(io);
    pg__str_fini(&path);
    return st;
}

/* Walks folder `dir`, of which the files of a split are known. */
static pg_status walk_split(walk *w, const char *dir, const pg__strs *files, pg_err *err)
{
    pg_status st = PG_OK;
    size_t foreign = 0;
    w->known = pg__mem_array(files->n + 4, sizeof *w->known);
    if (!w->known)
        return pg__nomem(err);
    PG_TRY(has_foreign_manifest(&foreign, dir, err));
    for (size_t i = 0; i < files->n; i++)
        if (!foreign || strcmp(files->v[i], PG_MANIFEST) != 0)
            w->known[w->n_known++] = files->v[i];
    w->known[w->n_known++] = SUMS;
    for (size_t i = foreign; i < sizeof indexes / sizeof *indexes; i++)
        w->known[w->n_known++] = indexes[i];
    qsort(w->known, w->n_known, sizeof *w->known, by_text);
    PG_TRY(pg__str_puts(&w->path, dir, err));
    PG_TRY(walk_folder(w, w->path.n, 0, err));
done:
    return st;
}

static pg_status add_mapped(pg__strs *out, const pg__json *value, pg_err *err)
{
    const char *s = pg__json_str(value);
    return s ? pg__strs_add(out, s, strlen(s), err) : PG_OK;
}

/* The files that an index of any format names. */
static pg_status list_indexed(pg__strs *out, const char *path, pg_err *err)
{
    pg_status st = PG_OK;
    pg__io *io = NULL;
    pg__json *root = NULL;
    char *text = NULL;
    PG_TRY(pg__io_open(&io, path, err));
    const uint64_t n = pg__io_size(io);
    text = n > PG_LIMIT_JSON_BYTES ? NULL : pg__mem_array((size_t)n + 1, 1);
    if (!text)
        PG_FAIL(PG_E_LIMIT, "%s: not read", PG_SHOW(path));
    PG_TRY(pg__io_read(io, 0, text, (size_t)n, err));
    PG_TRY(pg__json_parse(&root, text, (size_t)n, err));
    static const char *const lists[] = {"tensors", "datasets"};
    for (size_t l = 0; l < 2; l++) {
        const pg__json *list = pg__json_get(root, lists[l]);
        for (size_t i = 0; i < pg__json_len(list); i++) {
            const pg__json *files = pg__json_get(pg__json_at(list, i), "files");
            for (size_t k = 0; k < pg__json_len(files); k++)
                PG_TRY(add_mapped(out, pg__json_get(pg__json_at(files, k), "path"), err));
        }
    }
    pg__json_iter it = {.obj = pg__json_get(root, "weight_map")};
    while (pg__json_next(&it)) {
        PG_TRY(add_mapped(out, it.value, err));
        for (size_t k = 0; k < pg__json_len(it.value); k++)
            PG_TRY(add_mapped(out, pg__json_at(it.value, k), err));
    }
done:
    pg__json_free(root);
    pg__mem_free(text);
    pg__io_close(io);
    return st;
}

/* The manifest beside safetensors and Keras' shards is written before their index, so it does not
 * end a split. */
static pg_status is_side_manifest(int *is, const char *path, pg_err *err)
{
    char head[64] = "";
    pg__io *io = NULL;
    pg_status st = PG_OK;
    *is = 0;
    PG_TRY(pg__io_open_if(&io, path, err));
    if (!io)
        goto done;
    const uint64_t n = pg__io_size(io);
    st = pg__io_read(io, 0, head, n < sizeof head - 1 ? (size_t)n : sizeof head - 1, err);
    if (st != PG_OK)
        pg_err_prefix(err, PG_SHOW(path));
    *is = pg__manifest_is_side(head);
done:
    pg__io_close(io);
    return st;
}

/* Whether an index is in the folder; its path. */
static pg_status find_index(pg__str *out, int *found, const char *dir, pg_err *err)
{
    pg_status st = PG_OK;
    size_t i = 0;
    *found = 0;
    PG_TRY(has_foreign_manifest(&i, dir, err));
    for (; i < sizeof indexes / sizeof *indexes && !*found; i++) {
        struct stat sb;
        int is_side = 0;
        out->n = 0;
        PG_TRY(pg__str_printf(out, err, "%s/%s", dir, indexes[i]));
        *found = lstat(out->s, &sb) == 0;
        if (!*found && !pg__is_absence(errno))
            PG_TRY(pg_fail_sys(err, PG_E_IO, errno, "%s", PG_SHOW(out->s)));
        if (*found && strcmp(indexes[i], PG_MANIFEST) == 0)
            PG_TRY(is_side_manifest(&is_side, out->s, err));
        *found = *found && !is_side;
    }
done:
    return st;
}

/* The files that an index in the folder lists; *whole: there is one. If it is not JSON, the power
 * failed before it was on the disk, and its split is an interrupted one. */
static pg_status read_index(pg__strs *files, int *whole, const char *dir, pg_err *err)
{
    pg__str index = {0};
    pg_status st = find_index(&index, whole, dir, err);
    if (st == PG_OK && *whole)
        st = list_indexed(files, index.s, err);
    if (st == PG_E_FORMAT) {
        *whole = 0;
        st = PG_OK;
    }
    pg__str_fini(&index);
    return st;
}

/* Removes the files that an index in the folder lists, and the indexes last: after a kill, the next
 * run can remove the rest. */
static pg_status empty_split(const char *dir, pg_err *err)
{
    pg_status st = PG_OK;
    int known;
    size_t first = 0;
    pg__strs files = {0};
    walk w = {.remove = 1};
    PG_TRY(has_foreign_manifest(&first, dir, err));
    PG_TRY(read_index(&files, &known, dir, err));
    PG_TRY(walk_split(&w, dir, &files, err));
    for (size_t i = first; (known || !w.foreign.n) && i < sizeof indexes / sizeof *indexes; i++) {
        w.path.n = 0;
        PG_TRY(pg__str_printf(&w.path, err, "%s/%s", dir, indexes[i]));
        (void)unlink(w.path.s);
    }
done:
    walk_fini(&w);
    pg__strs_fini(&files);
    return st;
}

static pg_status remove_split(const char *dir, pg_err *err)
{
    const pg_status st = empty_split(dir, err);
    if (st == PG_OK && rmdir(dir))
        return pg_fail_sys(err, PG_E_IO, errno, "%s: cannot be removed", PG_SHOW(dir));
    return st;
}

/* ---- preparing -------------------------------------------------------------------------------
 */

static pg_status check_space(const pg__split *s, uint64_t n_bytes, pg_err *err)
{
    struct statvfs vfs;
    uint64_t n_free;
    if (statvfs(s->dir, &vfs) || vfs.f_blocks == 0 ||
        __builtin_mul_overflow((uint64_t)vfs.f_bavail, (uint64_t)vfs.f_frsize, &n_free) ||
        n_free >= n_bytes)
        return PG_OK;
    (void)pg_fail_sys(err, PG_E_IO, ENOSPC, "%s", PG_SHOW(s->dir));
    pg_err_detail(err, "needs %s bytes, %s are free; nothing written", PG_NUM(n_bytes),
                  PG_NUM(n_free));
    return PG_E_IO;
}

static pg_status refuse(const char *dir, const walk *w, int whole, pg_err *err)
{
    if (w->foreign.n)
        return pg_fail(err, PG_E_ARG, "%s: not empty (\"%s\" is not part of %s)", PG_SHOW(dir),
                       PG_SHOW(w->foreign.s), whole ? "the split there" : "this split");
    (void)pg_fail(err, PG_E_ARG, "%s: not empty (%zu files of an earlier split)", PG_SHOW(dir),
                  w->n_files);
    pg_err_do(err, PG_DO_OVERWRITE, NULL);
    pg_err_arg(err, "split", "%s", dir);
    return PG_E_ARG;
}

/* The folder exists. */
static pg_status check_folder(pg__split *s, const char *dir, const pg__strs *files, pg_err *err)
{
    pg_status st = PG_OK;
    walk w = {0};
    int whole;
    pg__strs old = {0};
    PG_TRY(read_index(&old, &whole, dir, err));
    PG_TRY(walk_split(&w, dir, whole ? &old : files, err));
    if (whole && (s->o->n_jobs || s->o->finish))
        PG_FAIL(PG_E_ARG,
                "%s: complete already; several jobs do not replace it, so remove it first",
                PG_SHOW(dir));
    if (w.foreign.n || (whole && !s->o->write.force)) {
        st = refuse(dir, &w, whole, err);
        goto done;
    }
    s->replaces = whole;
    s->fresh = w.n_files == 0;
    s->is_ours = s->fresh && w.n_folders == 0;
done:
    walk_fini(&w);
    pg__strs_fini(&old);
    return st;
}

/* Handles what a killed run left beside the folder: the beginning of this split, which continues;
 * or, if the two had been exchanged already, the earlier split, whose files are removed. */
static pg_status check_beside(pg__split *s, const char *dir, const pg__strs *files, pg_err *err)
{
    pg_status st = PG_OK;
    walk w = {0}, old = {0};
    int whole;
    pg__strs listed = {0};
    PG_TRY(read_index(&listed, &whole, dir, err));
    PG_TRY(walk_split(&w, dir, files, err));
    s->fresh = w.n_files == 0;
    s->is_ours = s->fresh && w.n_folders == 0 && !w.foreign.n;
    if (!w.foreign.n)
        goto done;
    if (whole)
        PG_TRY(walk_split(&old, dir, &listed, err));
    if (!whole || old.foreign.n) {
        st = refuse(dir, &w, 0, err);
        goto done;
    }
    PG_TRY(empty_split(dir, err));
    s->fresh = 1;
done:
    walk_fini(&w);
    walk_fini(&old);
    pg__strs_fini(&listed);
    return st;
}

/* Locks a folder, which is open as *fd until it is closed; how: for flock(). On file systems
 * without locks, the run goes on without one. */
static pg_status lock_folder(int *fd, const char *path, int how, const pg__split *s, pg_err *err)
{
    const char *dir = s->dir;
    struct stat open_sb, sb;
    int rc = 0;
    *fd = pg__folder_open(path, 0);
    if (*fd < 0 || fstat(*fd, &open_sb))
        return pg_fail_sys(err, PG_E_IO, errno, "%s", PG_SHOW(path));
    while ((rc = flock(*fd, how)) && errno == EINTR)
        if (pg__cancelled(s->o->write.cancel))
            return pg_fail(err, PG_E_CANCELLED, "%s: interrupted", PG_SHOW(dir));
    const int taken = rc && errno == EWOULDBLOCK;
    if (taken || stat(path, &sb) || sb.st_dev != open_sb.st_dev || sb.st_ino != open_sb.st_ino)
        return pg_fail(err, PG_E_IO, "%s: another run is writing to this folder", PG_SHOW(dir));
    return PG_OK;
}

/* Locks the folder, and looks again: another run may just have ended there. */
static pg_status enter(pg__split *s, const pg__strs *files, pg_err *err)
{
    pg_status st = PG_OK;
    const int beside = s->replaces;
    pg__split_look(s);
    PG_TRY(pg__folder_make(s->into, 1, err));
    PG_TRY(lock_folder(&s->lock, s->into, (s->o->n_jobs ? LOCK_SH : LOCK_EX) | LOCK_NB, s, err));
    PG_TRY(beside ? check_beside(s, s->into, files, err) : check_folder(s, s->into, files, err));
    if (s->replaces != beside)
        PG_FAIL(PG_E_IO, "%s: another run has just written to this folder", PG_SHOW(s->dir));
    s->entered = 1;
done:
    return st;
}

pg_status pg__split_prepare(pg__split *s, const char *index, const pg__strs *files,
                            uint64_t n_bytes, pg_err *err)
{
    pg_status st = PG_OK;
    struct stat sb;
    int there;
    pg__str into = {0};
    size_t n = strlen(s->dir);
    (void)index;
    while (n > 1 && s->dir[n - 1] == '/')
        n--;
    PG_TRY(pg__str_add(&into, s->dir, n, err));
    there = stat(into.s, &sb) == 0;
    if (!there && errno != ENOENT)
        PG_TRY(pg_fail_sys(err, PG_E_IO, errno, "%s", PG_SHOW(into.s)));
    s->fresh = !there;
    if (there && !S_ISDIR(sb.st_mode))
        PG_FAIL(PG_E_ARG, "%s: is not a folder", PG_SHOW(s->dir));
    if (there)
        PG_TRY(check_folder(s, into.s, files, err));
    if (s->replaces)
        PG_TRY(pg__str_puts(&into, BESIDE, err));
    s->into = pg__mem_strdup(into.s);
    if (!s->into) {
        st = pg__nomem(err);
        goto done;
    }
    if (!s->o->write.dry_run) {
        PG_TRY(enter(s, files, err));
        if (!s->o->finish)
            PG_TRY(check_space(s, s->o->n_jobs ? n_bytes / s->o->n_jobs : n_bytes, err));
    }
done:
    pg__str_fini(&into);
    return st;
}

/* ---- the end ---------------------------------------------------------------------------------
 */

static pg_status put_text(pg__split *s, pg__split_out *f, void *ctx, pg_err *err)
{
    const pg__str *text = ctx;
    pg_status st = PG_OK;
    for (size_t at = 0; at < text->n && st == PG_OK;) {
        const size_t n = text->n - at < PG_COPY_BYTES ? text->n - at : PG_COPY_BYTES;
        st = pg__split_put(s, f, text->s + at, n, err);
        at += n;
    }
    return st;
}

pg_status pg__split_side_manifest(pg__split *s, const pg__manifest *m, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str text = {0};
    PG_TRY(pg__manifest_print(&text, m, err));
    if (s->o->write.dry_run)
        st = pg__split_file(s, PG_MANIFEST, m->n_tensors, text.n, err);
    else
        st = pg__split_make(s, PG_MANIFEST, m->n_tensors, text.n, put_text, &text, NULL, err);
done:
    pg__str_fini(&text);
    return st;
}

static pg_status write_sums(pg__split *s, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str text = {0};
    const int wanted = s->o->sha256;
    for (size_t i = 0; i < s->sums.n; i++)
        PG_TRY(pg__str_printf(&text, err, "%s\n", s->sums.v[i]));
    if (wanted)
        PG_TRY(pg__split_make(s, SUMS, 0, text.n, put_text, &text, NULL, err));
done:
    pg__str_fini(&text);
    return st;
}

pg_status pg__split_sync(const pg__split *s, pg_err *err)
{
    if (s->o->write.no_sync)
        return PG_OK;
    const int fd = pg__folder_open(s->into, 0);
    int rc = fd < 0 ? errno : 0;
    if (fd >= 0) {
        do
            rc = pg__sys_sync_all(fd) ? errno : 0;
        while (rc == EINTR);
    }
    if (fd >= 0)
        close(fd);
    return rc ? pg_fail_sys(err, PG_E_IO, rc, "%s", PG_SHOW(s->dir)) : PG_OK;
}

/* Exchanges the new folder with the old one and removes the latter, but not before the exchange is
 * on the disk: otherwise a power failure could bring back the old name without its files. The old
 * one is locked before it gets the name under which another run would begin; whoever holds it has
 * just put it there and is about to end. */
static pg_status replace(pg__split *s, pg_err *err)
{
    pg_status st = PG_OK;
    pg_err why = {0};
    int old = -1, above = -1;
    char *dir = pg__mem_strndup(s->into, strlen(s->into) - strlen(BESIDE)), *parent = NULL;
    if (dir)
        parent = pg__mem_strndup(dir, (size_t)(pg__base_name(dir) - dir));
    if (!parent)
        PG_TRY(pg__nomem(err));
    PG_TRY(lock_folder(&old, dir, LOCK_EX, s, err));
    above = pg__folder_open(*parent ? parent : ".", 0); /* now: later it might fail */
    if (above < 0) {
        st = pg_fail_sys(err, PG_E_IO, errno, "%s", PG_SHOW(dir));
        goto done;
    }
    if (pg__sys_exchange(s->into, dir)) {
        st = pg_fail_sys(err, PG_E_IO, errno, "%s: cannot take the place of the earlier split",
                         PG_SHOW(s->into));
        goto done;
    }
    if (!s->o->write.no_sync && pg__folder_fsync(above) != 0) {
        st = pg_fail(err, PG_E_IO, "%s: written, but the folder could not be synced", PG_SHOW(dir));
        pg_err_detail(err, "the earlier split is in %s", PG_SHOW(s->into));
        goto done;
    }
    if (remove_split(s->into, &why) != PG_OK) /* the save itself is through */
        PG_TRY(pg__split_note(s, err, "the earlier split is left over: %s", why.msg));
done:
    if (old >= 0)
        close(old);
    if (above >= 0)
        close(above);
    pg__mem_free(parent);
    pg__mem_free(dir);
    return st;
}

pg_status pg__split_finish(pg__split *s, const char *index, const pg__str *text, size_t n_entries,
                           pg_err *err)
{
    pg_status st = PG_OK;
    pg__str path = {0};
    pg__sink *sink = NULL;
    const pg__sink_opts o = {
        .force = 1, .no_sync = s->o->write.no_sync, .cancel = s->o->write.cancel};
    PG_TRY(write_sums(s, err));
    PG_TRY(pg_store_check_same(s->r.s, err));
    PG_TRY(pg__split_sync(s, err));
    PG_TRY(pg__split_path(&path, s, index, err));
    PG_TRY(pg__sink_open(&sink, path.s, &o, err));
    PG_TRY(pg__sink_write(sink, 0, text->s, text->n, err));
    PG_TRY(pg__sink_commit(sink, err));
    PG_TRY(pg__split_file(s, index, n_entries, text->n, err));
    if (s->o->write.prove && (st = s->o->write.prove(s->o->write.user, s->into, err)) != PG_OK) {
        (void)unlink(path.s); /* so it is a split that was interrupted */
        goto done;
    }
    if (s->replaces)
        PG_TRY(replace(s, err));
done:
    pg__sink_close(sink);
    pg__str_fini(&path);
    return st;
}

pg_status pg_shards_remove(const char *dir, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str path = {0};
    int found = 0;
    PG_TRY(find_index(&path, &found, dir, err));
    if (!found)
        PG_FAIL(PG_E_UNKNOWN, "%s: not a folder of shards", PG_SHOW(dir));
    st = remove_split(dir, err);
done:
    pg__str_fini(&path);
    return st;
}

/* checkpoint.c - writes a file of a ModelCheckpoint so that a complete one exists at every moment:
 * the file gets its name once it is proven (save.c), then the links move to it, and only then old
 * files are removed. Failures of links or removals are reported, but do not cost the file. */
#include "train/fit/checkpoint.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/try.h"
#include "io/folder.h"
#include "pg/shard.h"

void pg__checkpoint_free(pg__checkpoint *c)
{
    if (!c)
        return;
    pg__snapshot_drop(c->from);
    pg__mem_free(c->name);
    pg__strs_fini(&c->surplus);
    pg__strs_fini(&c->remove);
    pg__saved_fini(&c->saved);
    pg__strs_fini(&c->reported);
    pg__mem_free(c);
}

/* The folder of the file; "" is the current one. */
static pg_status folder_of(pg__str *out, const pg__checkpoint *c, pg_err *err)
{
    const char *slash = strrchr(c->name, '/');
    const size_t n = slash ? (size_t)(slash - c->name) : 0;
    return pg__str_add(out, c->name, n, err);
}

static int folder_is_gone(const pg__checkpoint *c)
{
    pg__str folder = {0};
    struct stat sb;
    const int gone = folder_of(&folder, c, NULL) == PG_OK && folder.n > 0 &&
                     stat(folder.s, &sb) != 0 && errno == ENOENT;
    pg__str_fini(&folder);
    return gone;
}

/* Keras makes the folder when it saves, so one that was removed is made again. */
static pg_status make_folder(pg__checkpoint *c, pg_err *err)
{
    pg__str folder = {0};
    struct stat sb;
    pg_status st = PG_OK;
    PG_TRY(folder_of(&folder, c, err));
    if (folder.n == 0 || stat(folder.s, &sb) == 0)
        goto done;
    c->folder_was_gone |= c->had_folder;
    PG_TRY(pg__folder_make_synced(folder.s, err));
done:
    pg__str_fini(&folder);
    return st;
}

/* ---- links ---- */

/* Only a link may be replaced: anything else is not ours. */
static int is_free(const char *path)
{
    struct stat sb;
    return lstat(path, &sb) != 0 || S_ISLNK(sb.st_mode);
}

static int leads_to(const char *path, const char *target)
{
    char now[PATH_MAX];
    const ssize_t n = readlink(path, now, sizeof now);
    return n >= 0 && (size_t)n == strlen(target) && memcmp(now, target, (size_t)n) == 0;
}

/* Renames a new link over the old one, so that a link exists at every moment. */
static pg_status move_link(const char *folder, const char *link, const char *target, pg_err *err)
{
    pg__str path = {0}, fresh = {0};
    pg_status st = PG_OK;
    PG_TRY(pg__str_printf(&path, err, "%s%s", folder, link));
    PG_TRY(pg__str_printf(&fresh, err, "%s.%s.pg-new", folder, link));
    if (!is_free(path.s))
        PG_FAIL(PG_E_ARG, "%s: is not a link, and left alone", PG_SHOW(path.s));
    if (leads_to(path.s, target))
        goto done;
    if ((unlink(fresh.s) && errno != ENOENT) || symlink(target, fresh.s) ||
        rename(fresh.s, path.s)) {
        st = pg_fail_sys(err, PG_E_IO, errno, "%s: cannot be made a link", PG_SHOW(path.s));
        (void)unlink(fresh.s);
    }
done:
    pg__str_fini(&path);
    pg__str_fini(&fresh);
    return st;
}

static pg_status note_failure(pg__checkpoint *c, pg_status st, const pg_err *why, pg_err *err)
{
    return st == PG_OK ? PG_OK : pg__strs_add(&c->reported, why->msg, strlen(why->msg), err);
}

static pg_status move_links(pg__checkpoint *c, pg_err *err)
{
    static const char *const links[] = {"last", "best"};
    const char *target = c->saved.path + c->n_linked;
    pg__str folder = {0};
    pg_err why = {0};
    pg_status st = PG_OK;
    PG_TRY(pg__str_add(&folder, c->name, c->n_linked, err));
    for (int i = 0; i < 1 + c->is_best; i++)
        PG_TRY(note_failure(c, move_link(folder.s ? folder.s : "", links[i], target, &why), &why,
                            err));
    if (c->remove.n > 0) /* a removed file must not outlive its link, nor a link its file */
        PG_TRY(note_failure(c, pg__folder_sync(folder.s ? folder.s : "", &why), &why, err));
done:
    pg__str_fini(&folder);
    return st;
}

/* ---- the file ---- */

static pg_status remove_file(const char *path, pg_err *err)
{
    struct stat sb;
    if (lstat(path, &sb) != 0)
        return PG_OK; /* it is gone already */
    if (S_ISDIR(sb.st_mode))
        return pg_shards_remove(path, err);
    return unlink(path) == 0 || errno == ENOENT
               ? PG_OK
               : pg_fail_sys(err, PG_E_IO, errno, "%s: cannot be removed", PG_SHOW(path));
}

pg_status pg__checkpoint_write(pg__checkpoint *c, pg_err *err)
{
    pg_err why = {0};
    pg_status st = PG_OK;
    PG_TRY(make_folder(c, err));
    st = pg__save(&c->saved, c->t, &c->order, err);
    if (st == PG_E_IO && folder_is_gone(c)) { /* removed during writing */
        c->had_folder = 1;
        PG_TRY(make_folder(c, err));
        st = pg__save(&c->saved, c->t, &c->order, err);
    }
    PG_TRY(st);
    if (c->n_linked != PG_NONE)
        PG_TRY(move_links(c, err));
    for (size_t i = 0; i < c->remove.n; i++)
        PG_TRY(note_failure(c, remove_file(c->remove.v[i], &why), &why, err));
done:
    return st;
}

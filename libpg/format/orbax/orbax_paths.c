/* orbax_paths.c - from the folder that people name (all steps, a step, an item of it) to the
 * _METADATA of one tree of arrays. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "format/orbax/orbax.h"
#include "io/folder.h"

#define TREE       "_METADATA"
#define STEP       "_CHECKPOINT_METADATA"
#define UNFINISHED ".orbax-checkpoint-tmp"

static pg_status is_file(int *is, const char *folder, const char *name, pg_err *err)
{
    char path[PATH_MAX]; /* a longer one cannot be opened */
    *is = snprintf(path, sizeof path, "%s%s", folder, name) < PATH_MAX;
    return *is ? pg__is_file(is, path, err) : PG_OK;
}

static int is_number(const char *s)
{
    return *s && s[strspn(s, "0123456789")] == 0;
}

/* Folders below `folder` that hold a file of that name; digits: whose own name is a number. */
static pg_status list(pg__strs *out, const char *folder, const char *name, int digits, pg_err *err)
{
    pg_status st = PG_OK;
    int sys = 0;
    pg__str path = {0};
    DIR *d = NULL;
    PG_TRY(pg__folder_list_if(&d, folder, err));
    for (const struct dirent *e; d && (e = pg__folder_next(d, &sys));) {
        int is = 0;
        if (e->d_name[0] == '.' || (digits && !is_number(e->d_name)) ||
            strstr(e->d_name, UNFINISHED))
            continue;
        path.n = 0;
        PG_TRY(pg__str_printf(&path, err, "%s%s/", folder, e->d_name));
        PG_TRY(is_file(&is, path.s, name, err));
        if (is)
            PG_TRY(pg__strs_add(out, path.s, path.n, err));
    }
    if (sys) /* half a list might lack the newest step */
        PG_TRY(pg_fail_sys(err, PG_E_IO, sys, "%s", PG_SHOW(folder)));
    pg__strs_sort(out);
done:
    if (d)
        closedir(d);
    pg__str_fini(&path);
    return st;
}

/* The only item of a step that is a tree of arrays. */
static pg_status item_of(char **out, const char *step, pg_err *err)
{
    pg_status st = PG_OK;
    pg__strs items = {0};
    int is = 0;
    PG_TRY(list(&items, step, TREE, 0, err));
    if (items.n > 1) {
        st = pg_fail(err, PG_E_AMBIGUOUS, "%zu items of this step hold arrays: name one of them",
                     items.n);
        for (size_t i = 0; i < items.n && i < 8; i++)
            pg_err_detail(err, "%s", PG_SHOW(items.v[i]));
        goto done;
    }
    if (items.n == 0)
        PG_TRY(is_file(&is, step, TREE, err));
    if (items.n == 0 && !is)
        PG_FAIL(PG_E_UNSUPPORTED, "no item of this Orbax step holds arrays");
    *out = pg__mem_strdup(is ? step : items.v[0]);
    if (!*out)
        st = pg__nomem(err);
done:
    pg__strs_fini(&items);
    return st;
}

/* The newest step: the highest number. */
static pg_status newest(char **out, const char *folder, pg_err *err)
{
    pg_status st = PG_OK;
    pg__strs steps = {0};
    const char *best = NULL;
    unsigned long long most = 0;
    PG_TRY(list(&steps, folder, STEP, 1, err));
    for (size_t i = 0; i < steps.n; i++) {
        const unsigned long long n = strtoull(steps.v[i] + strlen(folder), NULL, 10);
        if (!best || n > most) {
            best = steps.v[i];
            most = n;
        }
    }
    if (best && !(*out = pg__mem_strdup(best)))
        st = pg__nomem(err);
done:
    pg__strs_fini(&steps);
    return st;
}

/* The folder of the tree: of a folder that is one, of a step's only item, of the newest step's.
 * folder ends with a slash. */
static pg_status find_tree(char **out, const char *folder, pg_err *err)
{
    pg_status st = PG_OK;
    char *step = NULL;
    int is_tree = 0, is_step = 0;
    PG_TRY(is_file(&is_tree, folder, TREE, err));
    if (!is_tree)
        PG_TRY(is_file(&is_step, folder, STEP, err));
    if (is_tree && !(*out = pg__mem_strdup(folder)))
        PG_TRY(pg__nomem(err));
    if (!is_tree && !is_step)
        PG_TRY(newest(&step, folder, err));
    if (is_step || step)
        st = item_of(out, step ? step : folder, err);
done:
    pg__mem_free(step);
    return st;
}

pg_status pg__orbax_in_folder(char **out, const char *folder, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str at = {0};
    char *tree = NULL;
    *out = NULL;
    PG_TRY(pg__folder_path(&at, folder, "", err));
    if (strstr(folder, UNFINISHED))
        PG_FAIL(PG_E_FORMAT, "%s: an Orbax checkpoint that was not finished", PG_SHOW(folder));
    st = find_tree(&tree, at.s, err);
    if (st != PG_OK && st != PG_E_IO) /* whose message has the path */
        pg_err_prefix(err, PG_SHOW(folder));
    if (!tree)
        goto done;
    at.n = 0;
    PG_TRY(pg__str_printf(&at, err, "%s" TREE, tree));
    *out = at.s;
    at = (pg__str){0};
done:
    pg__mem_free(tree);
    pg__str_fini(&at);
    return st;
}

pg_status pg__orbax_of_path(char **out, const char *path, pg_err *err)
{
    static const char *const names[] = {"manifest.ocdbt", "_CHECKPOINT_METADATA", "_sharding"};
    int is_folder = 0;
    pg_status st = PG_OK;
    if (PG_IS_ANY(pg__base_name(path), names))
        st = pg__is_folder(&is_folder, path, err);
    if (st != PG_OK || is_folder || !PG_IS_ANY(pg__base_name(path), names))
        return st;
    char *folder = pg__mem_strndup(path, (size_t)(pg__base_name(path) - path));
    if (!folder)
        return pg__nomem(err);
    st = pg__orbax_in_folder(out, *folder ? folder : ".", err);
    pg__mem_free(folder);
    return st;
}

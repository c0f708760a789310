/* below.c - see below.h. */
#include "format/below.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/try.h"
#include "io/folder.h"

#define MAX_LOOKED 4096u /* folders */
#define MAX_ASKED  8u

/* Accelerate writes optimizer_0 beside the model. */
static int could_be_model(const char *name)
{
    return name[0] != '.' && strncasecmp(name, "optim", 5) != 0;
}

/* What the folders hold that were looked at. */
typedef struct below {
    pg__strs names; /* of those that are checkpoints */
    char *index;    /* of the first */
    pg_err why;     /* ... or why it cannot be opened */
} below;

/* One that is damaged counts, too: another is not to be taken in its place. */
static pg_status look_at(below *b, const char *path, const char *name, pg__folder_look look,
                         pg_err *err)
{
    pg_err why = {0};
    char *index = NULL;
    pg_status st = look(&index, path, &why);
    if (st == PG_E_IO && why.sys == EISDIR)
        return PG_OK;
    if (st == PG_E_IO || st == PG_E_NOMEM)
        return pg__fail_as(err, &why);
    if (b->names.n == 0) {
        b->index = index;
        b->why = why;
    } else {
        pg__mem_free(index);
    }
    return pg__strs_add(&b->names, name, strlen(name), err);
}

static pg_status look_at_all(below *b, const char *folder, const pg__strs *names,
                             pg__folder_look look, pg_err *err)
{
    pg_status st = PG_OK;
    int is = 0;
    pg__str path = {0};
    unsigned looked = 0;
    for (size_t i = 0; i < names->n; i++) {
        PG_TRY(pg__folder_path(&path, folder, names->v[i], err));
        PG_TRY(pg__is_folder(&is, path.s, err));
        if (!is)
            continue;
        if (++looked > MAX_LOOKED && b->names.n == 0)
            break; /* of something else */
        if (looked > MAX_LOOKED)
            PG_FAIL(PG_E_LIMIT, "%s: more than %u folders: name the checkpoint itself",
                    PG_SHOW(folder), MAX_LOOKED);
        PG_TRY(look_at(b, path.s, names->v[i], look, err));
    }
done:
    pg__str_fini(&path);
    return st;
}

static pg_status list(pg__strs *out, const char *folder, pg_err *err)
{
    pg_status st = PG_OK;
    int sys = 0;
    DIR *d = pg__folder_list(*folder ? folder : ".");
    if (!d)
        return pg_fail_sys(err, PG_E_IO, errno, "%s", PG_SHOW(folder));
    for (const struct dirent *e; st == PG_OK && (e = pg__folder_next(d, &sys));)
        if (could_be_model(e->d_name))
            st = pg__strs_add(out, e->d_name, strlen(e->d_name), err);
    closedir(d);
    if (st == PG_OK && sys)
        st = pg_fail_sys(err, PG_E_IO, sys, "%s", PG_SHOW(folder));
    pg__strs_sort(out);
    return st;
}

static pg_status ask(const char *folder, const pg__strs *found, pg_err *err)
{
    (void)pg_fail(err, PG_E_AMBIGUOUS, "%s: %zu checkpoints are in this folder: name one",
                  PG_SHOW(folder), found->n);
    for (size_t i = 0; i < found->n && i < MAX_ASKED; i++)
        pg_err_detail(err, "%s", PG_SHOW(found->v[i]));
    if (found->n > MAX_ASKED)
        pg_err_detail(err, "and %zu more", found->n - MAX_ASKED);
    return PG_E_AMBIGUOUS;
}

pg_status pg__folder_below(char **out, const char *folder, pg__folder_look look, pg_err *err)
{
    pg_status st = PG_OK;
    pg__strs names = {0};
    below b = {.index = NULL};
    PG_TRY(list(&names, folder, err));
    PG_TRY(look_at_all(&b, folder, &names, look, err));
    if (b.names.n > 1) {
        st = ask(folder, &b.names, err);
    } else if (b.names.n == 1 && !b.index) {
        st = pg__fail_as(err, &b.why);
    } else {
        *out = b.index;
        b.index = NULL;
    }
done:
    pg__mem_free(b.index);
    pg__strs_fini(&b.names);
    pg__strs_fini(&names);
    return st;
}

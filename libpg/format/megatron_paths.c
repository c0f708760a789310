/* megatron_paths.c - the files of a Megatron-LM job:
 *
 *     latest_checkpointed_iteration.txt      "100", or "release"
 *     iter_0000100/ or release/
 *         mp_rank_TT[_PPP][_EEE]/            ranks of tensor, pipeline, expert parallelism
 *             model_optim_rng.pt or model_rng.pt
 */
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "format/megatron.h"
#include "io/folder.h"

#define TRACKER      "latest_checkpointed_iteration.txt"
#define TRACKER_MOST 64u
#define RANK         "mp_rank_"
#define MAX_RANKS    65536u

static const char *const files[] = {"model_optim_rng.pt", "model_rng.pt"};

/* ---- the folders of ranks ---- */

/* "mp_rank_00_001" */
static int read_name(pg__megatron_rank *r, const char *name)
{
    *r = (pg__megatron_rank){0};
    if (strncmp(name, RANK, strlen(RANK)) != 0)
        return 0;
    for (const char *s = name + strlen(RANK); r->n_parts < 3;) {
        const size_t digits = strspn(s, "0123456789");
        if (digits < 2 || digits > 5)
            return 0;
        r->at[r->n_parts++] = strtoul(s, NULL, 10);
        s += digits;
        if (*s++ != '_')
            return s[-1] == 0;
    }
    return 0;
}

static int by_number(const void *a, const void *b)
{
    const pg__megatron_rank *x = a, *y = b;
    for (size_t k = 0; k < 3; k++)
        if (x->at[k] != y->at[k])
            return x->at[k] < y->at[k] ? -1 : 1;
    return strcmp(x->file, y->file);
}

/* folder ends with a slash. A folder without a model is none of a rank: early versions put parts of
 * the optimizer into folders with such names. */
static pg_status add_rank(pg__megatron_ranks *l, const char *folder, const char *name, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str path = {0};
    pg__megatron_rank r;
    if (!read_name(&r, name))
        return PG_OK;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        int is = 0;
        path.n = 0;
        PG_TRY(pg__str_printf(&path, err, "%s%s/%s", folder, name, files[i]));
        PG_TRY(pg__is_file(&is, path.s, err));
        if (!is)
            continue;
        if (l->n == MAX_RANKS)
            PG_FAIL(PG_E_LIMIT, "more than %u ranks", MAX_RANKS);
        r.file = pg__mem_strdup(path.s + strlen(folder));
        if (!r.file || pg__mem_grow(&l->v, &l->cap, l->n + 1, sizeof r)) {
            pg__mem_free(r.file);
            PG_TRY(pg__nomem(err));
        }
        l->v[l->n++] = r;
        break;
    }
done:
    pg__str_fini(&path);
    return st;
}

static pg_status list_ranks(pg__megatron_ranks *out, const char *folder, pg_err *err)
{
    pg_status st = PG_OK;
    int sys = 0;
    pg__megatron_ranks l = {0};
    DIR *d = NULL;
    PG_TRY(pg__folder_list_if(&d, folder, err));
    for (const struct dirent *e; d && (e = pg__folder_next(d, &sys));)
        PG_TRY(add_rank(&l, folder, e->d_name, err));
    if (sys)
        st = pg_fail_sys(err, PG_E_IO, sys, "%s", PG_SHOW(folder));
    if (l.n)
        qsort(l.v, l.n, sizeof *l.v, by_number);
    *out = l;
    l = (pg__megatron_ranks){0};
done:
    if (d)
        closedir(d);
    pg__megatron_ranks_fini(&l);
    return st;
}

void pg__megatron_ranks_fini(pg__megatron_ranks *r)
{
    for (size_t i = 0; i < r->n; i++)
        pg__mem_free(r->v[i].file);
    pg__mem_free(r->v);
    *r = (pg__megatron_ranks){0};
}

/* The folder that holds the folder of a rank's file, with a slash: fresh, or NULL if the path has
 * another form. */
static pg_status folder_of_ranks(char **out, const char *path, pg_err *err)
{
    const char *base = pg__base_name(path);
    pg__megatron_rank r;
    *out = NULL;
    if (!PG_IS_ANY(base, files) || base == path)
        return PG_OK;
    char *folder = pg__mem_strndup(path, (size_t)(base - path) - 1);
    if (!folder)
        return pg__nomem(err);
    char *name = folder + (pg__base_name(folder) - folder);
    pg__str ranks = {0};
    pg_status st = PG_OK;
    if (read_name(&r, name)) {
        *name = 0;
        st = pg__str_puts(&ranks, *folder ? folder : "./", err);
        *out = ranks.s;
    }
    pg__mem_free(folder);
    return st;
}

pg_status pg__megatron_list(pg__megatron_ranks *out, const char *path, pg_err *err)
{
    char *folder = NULL;
    pg_status st = folder_of_ranks(&folder, path, err);
    if (st == PG_OK)
        st = folder ? list_ranks(out, folder, err)
                    : pg_fail(err, PG_E_UNKNOWN, "not a rank's file of Megatron-LM");
    pg__mem_free(folder);
    return st;
}

/* ---- iterations ---- */

static int is_iteration(const char *name)
{
    return fnmatch("iter_[0-9][0-9][0-9][0-9][0-9][0-9][0-9]*", name, 0) == 0 ||
           strcmp(name, "release") == 0;
}

/* Folders of iterations in `folder`, but not `but`. */
static pg_status list_iterations(pg__strs *out, const char *folder, const char *but, pg_err *err)
{
    pg_status st = PG_OK;
    int sys = 0;
    DIR *d = NULL;
    PG_TRY(pg__folder_list_if(&d, folder, err));
    for (const struct dirent *e; d && (e = pg__folder_next(d, &sys));)
        if (is_iteration(e->d_name) && (!but || strcmp(e->d_name, but) != 0))
            PG_TRY(pg__strs_add(out, e->d_name, strlen(e->d_name), err));
    if (sys)
        PG_TRY(pg_fail_sys(err, PG_E_IO, sys, "%s", PG_SHOW(folder)));
    pg__strs_sort(out);
done:
    if (d)
        closedir(d);
    return st;
}

static pg_status join_names(pg__str *out, const pg__strs *names, pg_err *err)
{
    pg_status st = PG_OK;
    for (size_t i = 0; st == PG_OK && i < names->n; i++)
        st = pg__str_printf(out, err, "%s%s", i ? ", " : "", PG_SHOW(names->v[i]));
    return st;
}

pg_status pg__megatron_iterations(pg__str *out, const char *path, pg_err *err)
{
    pg_status st = PG_OK;
    char *ranks = NULL;
    pg__strs names = {0};
    PG_TRY(folder_of_ranks(&ranks, path, err));
    if (ranks) {
        ranks[strlen(ranks) - 1] = 0; /* the slash */
        char *name = ranks + (pg__base_name(ranks) - ranks);
        pg__str but = {0};
        if (!is_iteration(name))
            goto done;
        st = pg__str_puts(&but, name, err);
        *name = 0;
        if (st == PG_OK)
            st = list_iterations(&names, ranks, but.s, err);
        if (st == PG_OK)
            st = join_names(out, &names, err);
        pg__str_fini(&but);
    }
done:
    pg__strs_fini(&names);
    pg__mem_free(ranks);
    return st;
}

/* The name of the folder that the tracker file says; *out stays NULL if there is no such file. */
static pg_status read_tracker(pg__str *out, const char *folder, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str path = {0};
    pg__io *io = NULL;
    char text[TRACKER_MOST + 1] = {0};
    PG_TRY(pg__str_printf(&path, err, "%s" TRACKER, folder));
    PG_TRY(pg__io_open_if(&io, path.s, err));
    if (!io)
        goto done;
    if (pg__io_size(io) > TRACKER_MOST)
        PG_FAIL(PG_E_FORMAT, "%s is not the number of an iteration", PG_SHOW(path.s));
    st = pg__io_read(io, 0, text, (size_t)pg__io_size(io), err);
    if (st != PG_OK) {
        pg_err_prefix(err, PG_SHOW(path.s));
        goto done;
    }
    text[strcspn(text, " \t\r\n")] = 0;
    char *end = NULL;
    const unsigned long long n = strtoull(text, &end, 10);
    if (strcmp(text, "release") == 0)
        st = pg__str_puts(out, text, err);
    else if (text[0] >= '0' && text[0] <= '9' && *end == 0 && n <= INT64_MAX)
        st = pg__str_printf(out, err, "iter_%07llu", n);
    else
        PG_FAIL(PG_E_FORMAT, "%s is not the number of an iteration", PG_SHOW(path.s));
done:
    pg__io_close(io);
    pg__str_fini(&path);
    return st;
}

/* ---- from a folder to a file ---- */

/* The file to open in the folder of an iteration, which ends with a slash: the first rank's, or the
 * .metadata of torch_dist. */
static pg_status in_iteration(char **out, const char *folder, pg_err *err)
{
    pg_status st = PG_OK;
    pg__megatron_ranks ranks = {0};
    pg__str path = {0};
    int is = 0;
    PG_TRY(list_ranks(&ranks, folder, err));
    PG_TRY(pg__str_printf(&path, err, "%s%s", folder, ranks.n ? ranks.v[0].file : ".metadata"));
    PG_TRY(pg__is_file(&is, path.s, err));
    if (is) {
        *out = path.s;
        path = (pg__str){0};
    }
done:
    pg__str_fini(&path);
    pg__megatron_ranks_fini(&ranks);
    return st;
}

/* The same in the folder of a rank. */
static pg_status in_rank(char **out, const char *folder, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str path = {0};
    char *ranks = NULL;
    for (size_t i = 0; i < sizeof files / sizeof *files && !ranks; i++) {
        int is = 0;
        path.n = 0;
        PG_TRY(pg__str_printf(&path, err, "%s%s", folder, files[i]));
        PG_TRY(pg__is_file(&is, path.s, err));
        if (is)
            PG_TRY(folder_of_ranks(&ranks, path.s, err));
    }
    if (ranks) {
        *out = path.s;
        path = (pg__str){0};
    }
done:
    pg__mem_free(ranks);
    pg__str_fini(&path);
    return st;
}

/* Several iterations, and nothing says which: only if they are Megatron's. */
static pg_status refuse_several(const char *folder, const pg__strs *names, const char *list,
                                pg_err *err)
{
    pg_status st = PG_OK;
    pg__str at = {0};
    char *first = NULL;
    PG_TRY(pg__str_printf(&at, err, "%s%s/", folder, names->v[names->n - 1]));
    PG_TRY(in_iteration(&first, at.s, err));
    if (first) {
        (void)pg_fail(err, PG_E_AMBIGUOUS, "%s: several iterations (%s) and no " TRACKER,
                      PG_SHOW(folder), list);
        pg_err_hint(err, "give one of them: %s", PG_QUOTE(at.s));
        st = PG_E_AMBIGUOUS;
    }
done:
    pg__mem_free(first);
    pg__str_fini(&at);
    return st;
}

/* folder ends with a slash. */
static pg_status in_job(char **out, const char *folder, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str tracked = {0}, path = {0}, list = {0};
    pg__strs names = {0};
    PG_TRY(read_tracker(&tracked, folder, err));
    PG_TRY(list_iterations(&names, folder, NULL, err));
    PG_TRY(join_names(&list, &names, err));
    if (!tracked.s && names.n > 1) {
        st = refuse_several(folder, &names, list.s, err);
        goto done;
    }
    if (!tracked.s && names.n == 0)
        goto done;
    PG_TRY(pg__str_printf(&path, err, "%s%s/", folder, tracked.s ? tracked.s : names.v[0]));
    PG_TRY(in_iteration(out, path.s, err));
    if (tracked.s && !*out)
        PG_FAIL(PG_E_FORMAT, "%s: " TRACKER " names %s, where no rank's file is%s%s",
                PG_SHOW(folder), PG_SHOW(tracked.s), names.n ? "; there are: " : "",
                names.n ? list.s : "");
done:
    pg__strs_fini(&names);
    pg__str_fini(&tracked);
    pg__str_fini(&path);
    pg__str_fini(&list);
    return st;
}

/* folder ends with a slash. */
static pg_status find_in(char **out, const char *folder, pg_err *err)
{
    pg_status st = PG_OK;
    pg__megatron_ranks ranks = {0};
    PG_TRY(list_ranks(&ranks, folder, err));
    if (ranks.n)
        PG_TRY(in_iteration(out, folder, err));
    if (!*out)
        PG_TRY(in_rank(out, folder, err));
    if (!*out)
        PG_TRY(in_job(out, folder, err));
done:
    pg__megatron_ranks_fini(&ranks);
    return st;
}

pg_status pg__megatron_in_folder(char **out, const char *folder, pg_err *err)
{
    pg__str at = {0};
    *out = NULL;
    pg_status st = pg__folder_path(&at, folder, "", err);
    if (st == PG_OK)
        st = find_in(out, at.s, err);
    pg__str_fini(&at);
    return st;
}

pg_status pg__megatron_of_path(char **out, const char *path, pg_err *err)
{
    const char *base = pg__base_name(path);
    pg_status st = PG_OK;
    pg__str folder = {0};
    int is_file = 0;
    *out = NULL;
    if (strcmp(base, TRACKER) == 0)
        PG_TRY(pg__is_file(&is_file, path, err));
    if (!is_file)
        goto done;
    PG_TRY(base > path ? pg__str_add(&folder, path, (size_t)(base - path), err)
                       : pg__str_puts(&folder, "./", err));
    st = in_job(out, folder.s, err);
done:
    pg__str_fini(&folder);
    return st;
}

/* fmt_st_cut.c - see st_cut.h. fmt_safetensors.c opens one file and leads here. libpg does not
 * write this format.
 *
 *     shard-RRRRR-model-FFFFF-of-NNNNN.safetensors   rank R (from 1 on), file F of N of each rank
 *     {"__metadata__": {"DCP_SHARDING_INFO": "{\"a.weight\": {\"saved_offsets\": [9, 0]}}"}, ...}
 *
 * No file says the shape of the whole or how many ranks there were: a tensor is as large as its
 * pieces reach, which must tile it. A rank without tensors writes no file, but the last ranks
 * are the first to have none: a gap in the numbers is a missing file. Whether files after the last
 * are missing is settled by a tensor whose last piece is smaller, or by the caller. */
#include "format/st_cut.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/try.h"
#include "format/format.h"
#include "format/pieces.h"
#include "format/shards.h"
#include "io/folder.h"

#define MAX_DIGITS 5

/* The numbers of a name. */
typedef struct numbers {
    unsigned rank, file, files;
} numbers;

static int literal(const char **p, const char *text)
{
    const size_t n = strlen(text);
    const int is = strncmp(*p, text, n) == 0;
    *p += is ? n : 0;
    return is;
}

static int digits(const char **p, unsigned *out)
{
    const size_t n = strspn(*p, "0123456789");
    *out = n && n <= MAX_DIGITS ? (unsigned)strtoul(*p, NULL, 10) : 0;
    *p += n;
    return *out > 0;
}

static int read_name(numbers *out, const char *name)
{
    const char *p = name;
    return literal(&p, "shard-") && digits(&p, &out->rank) && literal(&p, "-model-") &&
           digits(&p, &out->file) && literal(&p, "-of-") && digits(&p, &out->files) &&
           strcmp(p, ".safetensors") == 0;
}

int pg__st_cut_by_name(const char *path)
{
    numbers x;
    unsigned file = 0, files = 0;
    const char *name = pg__base_name(path), *p = name;
    if (read_name(&x, name))
        return 1;
    return literal(&p, "model-") && digits(&p, &file) && literal(&p, "-of-") &&
                   digits(&p, &files) && strcmp(p, ".safetensors") == 0
               ? 0
               : -1;
}

/* ---- one file ---- */

static pg_status read_start(pg__rank_piece *x, const pg__json *info, pg_err *err)
{
    const pg__json *list = pg__json_get(pg__json_get(info, x->name), "saved_offsets");
    if (pg__json_type_of(list) != PG_J_ARRAY || pg__json_len(list) != x->rank)
        return pg_fail(err, PG_E_FORMAT, "%s: its metadata do not say where it begins",
                       PG_SHOW(x->name));
    for (uint32_t k = 0; k < x->rank; k++) {
        int64_t v = 0;
        if (!pg__json_int(pg__json_at(list, k), &v) || v < 0)
            return pg_fail(err, PG_E_FORMAT, "%s: its metadata do not say where it begins",
                           PG_SHOW(x->name));
        x->start[k] = (uint64_t)v;
    }
    return PG_OK;
}

static pg_status add_tensors(pg__pieces *p, const pg_store *s, const pg__json *info, pg_err *err)
{
    pg_status st = PG_OK;
    for (size_t i = 0; i < pg_store_n_weights(s); i++) {
        const pg_weight *w = pg_store_weight(s, i);
        pg__rank_piece x = {.name = w->name,
                            .dtype = w->dtype,
                            .rank = w->rank,
                            .file = pg__pieces_n_files(p) - 1,
                            .tensor = i};
        memcpy(x.size, w->dims, sizeof x.size);
        PG_TRY(read_start(&x, info, err));
        PG_TRY(pg__pieces_add(p, &x, err));
    }
done:
    return st;
}

/* The text of the metadata is JSON that holds JSON in a string. */
static pg_status read_info(pg__json **out, const pg_store *s, pg_err *err)
{
    pg_status st = PG_OK;
    pg__json *json = NULL;
    size_t n = 0, n_text = 0;
    const char *all = pg_store_text(s, PG_TEXT_METADATA, &n_text);
    if (!all)
        return pg_fail(err, PG_E_FORMAT, "no " PG_ST_CUT " in its metadata");
    PG_TRY(pg__json_parse(&json, all, n_text, err));
    const char *text = pg__json_bytes(pg__json_get(json, PG_ST_CUT), &n);
    if (!text)
        PG_FAIL(PG_E_FORMAT, "no " PG_ST_CUT " in its metadata");
    st = pg__json_parse(out, text, n, err);
done:
    pg__json_free(json);
    return st;
}

/* path: of the file that messages begin with. */
static pg_status add_file(pg__pieces *p, const char *name, const char *path, pg_err *err)
{
    static const pg_open_opts defaults = {0};
    pg_status st = PG_OK;
    pg__io *io = NULL;
    pg_store *s = NULL;
    pg__json *info = NULL;
    PG_TRY(pg__pieces_open(&io, p, name, err));
    st = pg__io_size(io) < 9 ? pg_fail(err, PG_E_FORMAT, "not a safetensors file")
                             : pg__fmt_safetensors.open(&s, io, NULL, &defaults, err);
    if (st == PG_OK)
        st = read_info(&info, s, err);
    if (st == PG_OK) {
        pg_store *const file = s;
        s = NULL;
        PG_TRY(pg__pieces_add_file(p, file, name, err));
        st = add_tensors(p, file, info, err);
    }
    if (st != PG_OK && strcmp(name, pg__base_name(path)) != 0)
        pg_err_prefix(err, PG_SHOW(name));
done:
    pg_store_close(s);
    pg__json_free(info);
    pg__io_close(io);
    return st;
}

/* ---- all files ---- */

static pg_status list_files(pg__strs *out, const char *folder, pg_err *err)
{
    pg_status st = PG_OK;
    int sys = 0;
    numbers x;
    DIR *d = pg__folder_list(*folder ? folder : ".");
    if (!d)
        return pg_fail_sys(err, PG_E_IO, errno, "%s", PG_SHOW(folder));
    for (const struct dirent *e; (e = pg__folder_next(d, &sys));)
        if (read_name(&x, e->d_name))
            PG_TRY(pg__strs_add(out, e->d_name, strlen(e->d_name), err));
    if (sys)
        PG_TRY(pg_fail_sys(err, PG_E_IO, sys, "%s", PG_SHOW(folder)));
    pg__strs_sort(out);
done:
    closedir(d);
    return st;
}

/* Every file must say the same number of files, each of which some rank must have. *n_ranks: of
 * ranks that wrote any. */
static pg_status check_names(const pg__strs *names, unsigned *n_ranks, pg_err *err)
{
    pg_status st = PG_OK;
    numbers first = {0}, x = {0};
    pg__shard_faults faults = {0};
    unsigned char *seen = NULL; /* by number of a file */
    unsigned last = 0;
    if (names->n == 0)
        return pg_fail(err, PG_E_IO, "its files are not there any more");
    (void)read_name(&first, names->v[0]);
    seen = pg__mem_array((size_t)first.files + 1, 1);
    if (!seen)
        return pg__nomem(err);
    for (size_t i = 0; i < names->n; i++) {
        (void)read_name(&x, names->v[i]);
        if (x.files != first.files || x.file > x.files)
            PG_FAIL(PG_E_FORMAT, "%s and %s belong to different checkpoints", PG_SHOW(names->v[0]),
                    PG_SHOW(names->v[i]));
        seen[x.file] = 1;
        *n_ranks += x.rank != last;
        last = x.rank;
    }
    for (unsigned k = 1; k <= first.files; k++)
        if (!seen[k])
            PG_TRY(pg__strs_printf(&faults.missing, err, "shard-*-model-%05u-of-%05u.safetensors",
                                   k, first.files));
    st = pg__shard_faults_report(&faults, first.files, 1, err);
done:
    pg__shard_faults_fini(&faults);
    pg__mem_free(seen);
    return st;
}

/* The ranks before the last of which no file is there. What is left may tile: of HSDP, a rank may
 * hold whole tensors or the ends of others. */
static pg_status report_missing(const pg__strs *names, unsigned n_ranks, pg_err *err)
{
    pg_status st = PG_OK;
    pg__shard_faults faults = {0};
    numbers x = {0};
    unsigned last = 0;
    for (size_t i = 0; i < names->n; i++) {
        (void)read_name(&x, names->v[i]);
        for (last++; last < x.rank; last++)
            PG_TRY(pg__strs_printf(&faults.missing, err, "shard-%05u-model-*.safetensors", last));
        last = x.rank;
    }
    st = pg__shard_faults_report(&faults, n_ranks + faults.missing.n, 1, err);
done:
    pg__shard_faults_fini(&faults);
    return st;
}

static pg_status describe(pg_store *s, unsigned n_ranks, pg_err *err)
{
    static const char metadata[] = "{\"format\":\"pt\"}";
    pg_status st = PG_OK;
    PG_TRY(pg__store_set_text(s, PG_TEXT_METADATA, metadata, sizeof metadata - 1, err));
    PG_TRY(pg__store_set_n_ranks(s, n_ranks, err));
done:
    return st;
}

/* Are the n ranks that wrote files all? rules: "ranks=4", from the caller. */
static pg_status check_ranks(const pg__pieces *p, unsigned n, const char *rules, pg_err *err)
{
    unsigned given = 0;
    int end = 0;
    if (rules && (sscanf(rules, "ranks=%9u%n", &given, &end) != 1 || rules[end] || !given))
        return pg_fail(err, PG_E_ARG, "'%s' is not a rule for these files; use ranks=N",
                       PG_SHOW(rules));
    if (given && given != n)
        return pg_fail(err, PG_E_FORMAT, "found files of %u ranks, not of %u", n, given);
    if (given || pg__pieces_most_ranks(p) <= n)
        return PG_OK;
    (void)pg_fail(
        err, PG_E_AMBIGUOUS,
        "found files of %u rank%s; they do not say whether any are missing: N is how many saved", n,
        n == 1 ? "" : "s");
    pg_err_set(err, "rules", "ranks=N"); /* not n: that would be the answer without a look */
    return PG_E_AMBIGUOUS;
}

pg_status pg__st_cut_open(pg_store **out, const char *path, const char *rules, pg_err *err)
{
    pg_status st = PG_OK;
    pg__strs names = {0};
    pg__pieces *p = NULL;
    pg_store *s = NULL;
    int fd = -1;
    unsigned n_ranks = 0;
    char *folder = pg__mem_strndup(path, (size_t)(pg__base_name(path) - path));
    if (!folder)
        return pg__nomem(err);
    PG_TRY(list_files(&names, folder, err));
    PG_TRY(check_names(&names, &n_ranks, err));
    PG_TRY(report_missing(&names, n_ranks, err));
    PG_TRY(pg__io_folder_of(&fd, path, path, err));
    PG_TRY(pg__pieces_new(&p, fd, 0, err));
    for (size_t i = 0; i < names.n; i++)
        PG_TRY(add_file(p, names.v[i], path, err));
    PG_TRY(pg__pieces_store(&s, p, pg__fmt_st_cut.name, err));
    const pg__pieces *pieces = p;
    p = NULL; /* of the store */
    PG_TRY(check_ranks(pieces, n_ranks, rules, err));
    PG_TRY(describe(s, n_ranks, err));
    *out = s;
    s = NULL;
done:
    pg_store_close(s);
    pg__pieces_free(p);
    pg__strs_fini(&names);
    pg__mem_free(folder);
    return st;
}

pg_status pg__st_cut_in_folder(char **out, const char *folder, pg_err *err)
{
    pg_status st = PG_OK;
    pg__strs names = {0};
    pg__str path = {0};
    *out = NULL;
    PG_TRY(list_files(&names, folder, err));
    if (names.n == 0)
        goto done;
    PG_TRY(pg__folder_path(&path, folder, names.v[0], err));
    *out = path.s;
    path = (pg__str){0};
done:
    pg__strs_fini(&names);
    pg__str_fini(&path);
    return st;
}

/* Never asked: fmt_safetensors.c leads here. */
static pg_status open_nothing(pg_store **out, pg__io *io, const char *path,
                              const pg_open_opts *opts, pg_err *err)
{
    (void)out, (void)io, (void)path, (void)opts;
    return pg_fail(err, PG_E_UNKNOWN, "not a safetensors file");
}

const pg__format pg__fmt_st_cut = {
    .name = "torch-dcp-safetensors",
    .open = open_nothing,
    .in_folder = pg__st_cut_in_folder,
    .has_rules = 1,
    .of_ranks = 1,
};

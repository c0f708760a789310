/* fmt_ranks.c - puts the files of ranks together: DTensors and ShardedTensors that each process
 * saved with torch.save(). fmt_pytorch.c opens them and leads here. libpg does not write this
 * format. */
#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "format/format.h"
#include "format/pieces.h"
#include "format/pytorch_impl.h"
#include "format/ranks.h"
#include "format/shards.h"

#define MAX_RANKS 65536u
#define METADATA  "{\"format\":\"pt\"}"

typedef struct reading {
    const char *path;
    const pg_open_opts *opts;
    pg__rank_files files;
    pg__pieces *pieces;
    uint64_t world; /* ranks, at least, as the files say */
    pg__shard_faults faults;
    pg_err *err;
} reading;

int pg__ranks_is_one(const pg__pickle *p)
{
    for (size_t i = 0; p->n_foreign && i < p->n; i++)
        if (pg__pt_is_cut(p, &p->v[i]))
            return 1;
    return 0;
}

/* ---- one file ---- */

/* FSDP1's LOCAL_STATE_DICT: all parameters of a module in one row. */
static pg_status refuse_flat(const char *name, pg_err *err)
{
    (void)pg_fail(
        err, PG_E_UNSUPPORTED,
        "%s: a flat parameter (LOCAL_STATE_DICT of FSDP): the files say neither the names "
        "nor the shapes of what is in it",
        PG_SHOW(name));
    pg_err_hint(err, "load it in the job that wrote it and save with "
                     "StateDictType.SHARDED_STATE_DICT");
    return PG_E_UNSUPPORTED;
}

static int is_flat(const char *name)
{
    const char *dot = strrchr(name, '.');
    return strncmp(dot ? dot + 1 : name, "_flat_param", 11) == 0 ||
           strncmp(dot ? dot + 1 : name, "flat_param", 10) == 0;
}

/* The part of a tensor; w: as the file has it. */
static pg_status part_of(pg__rank_piece *x, const pg__pt_cut *c, const pg_weight *w, pg_err *err)
{
    const int pairs = w->rank == c->rank + 1 && w->dims[c->rank] == 2; /* complex numbers */
    if (!c->empty && ((w->rank != c->rank && !pairs) ||
                      memcmp(w->dims, c->size, c->rank * sizeof *c->size) != 0))
        return pg_fail(err, PG_E_FORMAT, "%s: its part has another shape than its placement says",
                       PG_SHOW(w->name));
    x->rank = c->rank;
    memcpy(x->dims, c->dims, sizeof x->dims);
    memcpy(x->start, c->start, sizeof x->start);
    memcpy(x->size, c->size, sizeof x->size);
    if (pairs && !c->empty) {
        x->dims[x->rank] = x->size[x->rank] = 2;
        x->rank++;
    }
    return PG_OK;
}

static pg_status add_tensor(reading *r, const pg__pt_source *f, const pg__rank_file *file,
                            const pg_store *s, size_t i)
{
    pg_status st = PG_OK;
    pg_err *err = r->err;
    const pg_weight *w = pg_store_weight(s, i);
    pg__rank_piece x = {.name = w->name,
                        .dtype = w->dtype,
                        .rank = w->rank,
                        .file = pg__pieces_n_files(r->pieces) - 1,
                        .tensor = i};
    pg__pt_cut c = {0};
    if (!f->cuts[i]) { /* every rank has all of it */
        memcpy(x.dims, w->dims, sizeof x.dims);
        memcpy(x.size, w->dims, sizeof x.size);
        return pg__pieces_add(r->pieces, &x, err);
    }
    if (is_flat(w->name))
        return refuse_flat(w->name, err);
    st = pg__pt_read_cut(&c, &f->pickle, &f->pickle.v[f->cuts[i]], err);
    if (st != PG_OK) {
        pg_err_prefix(err, PG_SHOW(w->name));
        return st;
    }
    if (c.knows_who && c.who != file->rank)
        return pg_fail(err, PG_E_FORMAT, "%s: %s says that it is of rank %s", PG_SHOW(w->name),
                       PG_SHOW(file->name), PG_NUM(c.who));
    r->world = c.world > r->world && c.world <= MAX_RANKS ? c.world : r->world;
    PG_TRY(part_of(&x, &c, w, err));
    if (!c.empty || c.rank)
        st = pg__pieces_add(r->pieces, &x, err);
done:
    return st;
}

/* The tensors of one rank's file. */
static pg_status add_file(reading *r, const pg__rank_file *file)
{
    pg_status st = PG_OK;
    pg__pt_source f = {.of_ranks = 1};
    pg_store *s = NULL;
    pg_err e = {0};
    st = pg__pieces_open(&f.io, r->pieces, file->name, &e);
    if (st == PG_OK)
        st = pg__pt_read_zip(&f, &e);
    if (st == PG_OK)
        st = pg__pt_zip_store(&s, &f, r->opts, &e);
    if (st == PG_E_FORMAT || st == PG_E_UNKNOWN || st == PG_E_IO) {
        st = pg__strs_printf(&r->faults.damaged, r->err, "%s (%s)", PG_SHOW(file->name), e.msg);
        goto done;
    }
    if (st != PG_OK) {
        if (r->err)
            *r->err = e;
        goto done;
    }
    PG_TRY(pg__pieces_add_file(r->pieces, s, file->name, r->err));
    for (size_t i = 0; i < pg_store_n_weights(s); i++)
        PG_TRY(add_tensor(r, &f, file, s, i));
done:
    pg__io_close(f.io);
    pg__pt_source_fini(&f);
    return st;
}

/* ---- rules ---- */

/* "NAME=first" */
static pg_status take_rule(reading *r, const char *rule, size_t n)
{
    static const char how[] = "=first";
    pg_status st = PG_OK;
    size_t n_tensors = 0;
    const size_t n_name = n > sizeof how - 1 ? n - (sizeof how - 1) : 0;
    char *name = pg__mem_strndup(rule, n_name);
    if (!name)
        return pg__nomem(r->err);
    if (!n_name || strncmp(rule + n_name, how, sizeof how - 1) != 0)
        PG_TRY(pg_fail(r->err, PG_E_ARG, "'%.*s' is not a rule for these files; use NAME=first",
                       (int)n, rule));
    PG_TRY(pg__pieces_take_first(&n_tensors, r->pieces, name, r->err));
    if (!n_tensors)
        st = pg_fail(r->err, PG_E_ARG, "no tensor has the name in the rule '%.*s'", (int)n, rule);
done:
    pg__mem_free(name);
    return st;
}

static pg_status take_rules(reading *r, const char *rules)
{
    pg_status st = PG_OK;
    while (st == PG_OK && rules && *rules) {
        const size_t n = strcspn(rules, ",");
        st = take_rule(r, rules, n);
        rules += n + (rules[n] == ',');
    }
    return st;
}

/* ---- all files ---- */

/* Which rank wrote f, if its tensors say. */
static int find_who(uint64_t *who, const pg__pickle *p)
{
    pg__pt_cut c;
    for (size_t i = 0; i < p->n; i++)
        if (pg__pt_is_cut(p, &p->v[i]) && pg__pt_read_cut(&c, p, &p->v[i], NULL) == PG_OK &&
            c.knows_who) {
            *who = c.who;
            return 1;
        }
    return 0;
}

/* The ranks below `world`, and before the last, whose files are not there; nothing happens if all
 * are. */
static pg_status report_missing(reading *r, uint64_t world)
{
    pg_status st = PG_OK;
    uint64_t next = 0;
    for (size_t i = 0; i <= r->files.n; i++) {
        const uint64_t end = i < r->files.n ? r->files.v[i].rank : world;
        for (; next < end; next++)
            PG_TRY(pg__strs_printf(&r->faults.missing, r->err, "%s%llu%s", PG_SHOW(r->files.prefix),
                                   (unsigned long long)next, PG_SHOW(r->files.suffix)));
        next = end + 1;
    }
    st = pg__shard_faults_report(&r->faults, r->files.n + r->faults.missing.n, 1, r->err);
done:
    return st;
}

/* What the first rank has beside the tensors holds for all. */
static pg_status describe(pg_store *s, const pg_store *first, pg_err *err)
{
    pg_status st = PG_OK;
    PG_TRY(pg__store_set_text(s, PG_TEXT_METADATA, METADATA, sizeof METADATA - 1, err));
    if (pg_store_others(first))
        PG_TRY(pg__store_set_others(s, pg_store_others(first), err));
    for (size_t i = 0; i < pg_store_n_parts(first); i++)
        PG_TRY(pg__store_add_part(s, pg_store_part(first, i), err));
done:
    return st;
}

static pg_status make_store(pg_store **out, reading *r)
{
    pg_err why = {0};
    pg_store *s = NULL;
    pg_status st = report_missing(r, 0); /* what is left may tile: a stage of a pipeline does */
    if (st != PG_OK)
        return st;
    st = pg__pieces_store(&s, r->pieces, pg__fmt_ranks.name, &why);
    if (st == PG_E_FORMAT) {
        const pg_status missing = report_missing(r, r->world);
        if (missing != PG_OK)
            return missing;
    }
    if (st != PG_OK) {
        if (r->err)
            *r->err = why;
        return st;
    }
    const pg_store *first = pg__pieces_file(r->pieces, 0);
    r->pieces = NULL; /* of the store */
    st = describe(s, first, r->err);
    if (st == PG_OK)
        st = pg__store_set_n_ranks(s, r->files.n, r->err);
    if (st == PG_OK)
        *out = s;
    else
        pg_store_close(s);
    return st;
}

pg_status pg__ranks_open(pg_store **out, pg__pt_source *f, const char *path,
                         const pg_open_opts *opts, pg_err *err)
{
    pg_status st = PG_OK;
    uint64_t who = 0;
    int folder = -1;
    reading r = {.path = path, .opts = opts, .err = err};
    const int knows = find_who(&who, &f->pickle);
    PG_TRY(pg__ranks_list(&r.files, path, knows, who, err));
    PG_TRY(pg__io_folder_of(&folder, path, path, err));
    PG_TRY(pg__pieces_new(&r.pieces, folder, 1, err));
    for (size_t i = 0; i < r.files.n; i++)
        PG_TRY(add_file(&r, &r.files.v[i]));
    PG_TRY(pg__shard_faults_report(&r.faults, r.files.n, 1, err));
    PG_TRY(take_rules(&r, opts->rules));
    st = make_store(out, &r);
done:
    pg__pieces_free(r.pieces);
    pg__rank_files_fini(&r.files);
    pg__shard_faults_fini(&r.faults);
    return st;
}

/* Never asked: fmt_pytorch.c leads here. */
static pg_status open_nothing(pg_store **out, pg__io *io, const char *path,
                              const pg_open_opts *opts, pg_err *err)
{
    (void)out, (void)io, (void)path, (void)opts;
    return pg_fail(err, PG_E_UNKNOWN, "not a file of PyTorch");
}

const pg__format pg__fmt_ranks = {
    .name = "torch-ranks",
    .open = open_nothing,
    .in_folder = pg__ranks_in_folder,
    .has_parts = 1,
    .has_rules = 1,
    .of_ranks = 1,
};

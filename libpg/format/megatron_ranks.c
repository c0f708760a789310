/* megatron_ranks.c - the files of all ranks of a Megatron-LM checkpoint, opened and compared: they
 * must be of one job and of one step. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/try.h"
#include "format/megatron.h"
#include "format/pytorch_file.h"
#include "format/pytorch_impl.h"
#include "format/ranks.h"
#include "format/shards.h"
#include "io/folder.h"

#define MAX_STAGES 65536u

/* What is open while the files are read. */
typedef struct reading {
    pg__megatron *m;
    pg__megatron_ranks listed; /* as they are in the folder */
    const char *path;
    size_t n_open;
    pg__shard_faults faults;
    pg_err *err;
} reading;

/* ---- one file ---- */

static pg_status is_stream(int *is, pg__io *io, pg_err *err)
{
    uint8_t head[16] = {0};
    pg_status st = PG_OK;
    if (pg__io_size(io) >= sizeof head)
        st = pg__io_read(io, 0, head, sizeof head, err);
    *is = pg__pt_is_stream(head, sizeof head);
    return st;
}

/* Reads the pickle of f->io. */
static pg_status read_pickle(pg__pt_source *f, pg_err *err)
{
    pg_store *none = NULL;
    int stream = 0;
    pg_status st = is_stream(&stream, f->io, err);
    if (st == PG_OK)
        st = stream ? pg__pt_open_stream(&none, f, &(pg_open_opts){.part = ""}, err)
                    : pg__pt_read_zip(f, err);
    pg_store_close(none);
    return st;
}

/* The tensors of a part of the file whose pickle was read. */
static pg_status read_part(pg_store **out, pg__pt_source *f, const char *part, pg_err *err)
{
    const pg_open_opts opts = {.part = part};
    pg__pt_source again = {.io = f->io};
    int stream = 0;
    pg_status st = is_stream(&stream, f->io, err);
    if (st == PG_OK)
        st = stream ? pg__pt_open_stream(out, &again, &opts, err)
                    : pg__pt_zip_store(out, f, &opts, err);
    pg__pt_source_fini(&again);
    return st;
}

/* Notes a file that is missing or damaged, and returns PG_E_UNKNOWN. */
static pg_status note_fault(reading *r, const char *name, const pg_err *e)
{
    const int gone = e->code == PG_E_IO && e->sys == ENOENT;
    const pg_status st =
        gone ? pg__strs_printf(&r->faults.missing, r->err, "%s", PG_SHOW(name))
             : pg__strs_printf(&r->faults.damaged, r->err, "%s (%s)", PG_SHOW(name), e->msg);
    return st == PG_OK ? PG_E_UNKNOWN : st;
}

/* Has a model any tensor? A stage of a virtual pipeline may have none. */
static pg_status has_tensors(int *yes, const pg__pickle *p, const char *part, pg_err *err)
{
    pg__pt_walk w = {0};
    uint64_t n = 0;
    const pg__pk_value *v = pg__pickle_get(p, &p->v[p->root], part);
    pg_status st = pg__pt_walk_begin(&w, p, err);
    if (st == PG_OK && v)
        st = pg__pt_count(&w, v, &n);
    pg__pt_walk_end(&w);
    *yes = n > 0;
    return st;
}

/* Both of the same job and step? */
static pg_status compare_facts(const pg__megatron_facts *a, const pg__megatron_facts *b,
                               const char *name_a, const char *name_b, pg_err *err)
{
    const char *what = NULL;
    uint64_t x = 0, y = 0;
    if (a->iteration != b->iteration)
        what = "iteration", x = (uint64_t)a->iteration, y = (uint64_t)b->iteration;
    else if (a->version != b->version)
        what = "checkpoint_version", x = (uint64_t)a->version, y = (uint64_t)b->version;
    else if (a->n_models != b->n_models || a->is_numbered != b->is_numbered)
        what = "models", x = a->n_models, y = b->n_models;
#define PG_MEGATRON_ARG(name) \
    else if (a->args.name != b->args.name) what = #name, x = a->args.name, y = b->args.name;
    PG_MEGATRON_ARGS(PG_MEGATRON_ARG)
#undef PG_MEGATRON_ARG
    if (!what)
        return PG_OK;
    return pg_fail(err, PG_E_FORMAT, "%s says %s %lld, %s says %lld: not of one job and step",
                   PG_SHOW(name_a), what, (long long)x, PG_SHOW(name_b), (long long)y);
}

/* What the file `name` says, and its model of virtual stage v (out NULL: none is opened). */
static pg_status read_file(pg_store **out, pg__megatron_facts *facts, reading *r, const char *name,
                           size_t v)
{
    pg_err e = {0};
    pg__pt_source f = {0};
    char part[32] = "model";
    int yes = 0;
    if (r->m->facts.is_numbered)
        (void)snprintf(part, sizeof part, "model%zu", v);
    pg_status st = pg__io_open_below(&f.io, r->m->folder, name, &e);
    if (st == PG_OK)
        st = read_pickle(&f, &e);
    if (st == PG_OK)
        st = pg__megatron_facts_of(facts, &f.pickle, &e);
    if (st == PG_OK && out)
        st = has_tensors(&yes, &f.pickle, part, &e);
    if (st == PG_OK && yes)
        st = read_part(out, &f, part, &e);
    if (st == PG_OK && yes && ++r->n_open > PG_RANK_FILES_OPEN)
        pg__io_rest(f.io, r->m->folder);
    pg__io_close(f.io);
    pg__pt_source_fini(&f);
    if (st == PG_E_UNSUPPORTED)
        return pg_fail(r->err, st, "%s: %s", PG_SHOW(name), e.msg);
    if (st == PG_E_NOMEM && r->err)
        *r->err = e;
    return st == PG_OK || st == PG_E_NOMEM ? st : note_fault(r, name, &e);
}

/* ---- which ranks there are ---- */

static uint64_t at_least_1(uint64_t n)
{
    return n ? n : 1;
}

/* Numbers of ranks by the folders alone. */
static void count_folders(pg__megatron *m, const pg__megatron_ranks *l)
{
    m->tp = m->pp = m->ep = 1;
    for (size_t i = 0; i < l->n; i++) {
        const pg__megatron_rank *x = &l->v[i];
        m->tp = x->at[0] >= m->tp ? x->at[0] + 1 : m->tp;
        m->pp = x->at[1] >= m->pp ? x->at[1] + 1 : m->pp;
        m->ep = x->at[2] >= m->ep ? x->at[2] + 1 : m->ep;
    }
}

/* Is the second number of its folders that of an expert rank? */
static int second_is_expert(const reading *r)
{
    return r->listed.v[0].n_parts == 2 && r->m->ep > 1 && r->m->pp == 1;
}

/* The place of a folder among ranks; PG_NONE: not one of them. */
static size_t place_of(const reading *r, const pg__megatron_rank *x)
{
    const pg__megatron *m = r->m;
    const int expert = second_is_expert(r);
    const uint64_t p = expert ? 0 : x->at[1], e = expert ? x->at[1] : x->at[2];
    if (x->n_parts != r->listed.v[0].n_parts || x->at[0] >= m->tp || p >= m->pp || e >= m->ep)
        return PG_NONE;
    return (size_t)((p * m->ep + e) * m->tp + x->at[0]);
}

static pg_status name_rank(pg__str *out, const reading *r, size_t i)
{
    const pg__megatron *m = r->m;
    const unsigned n = r->listed.v[0].n_parts;
    const unsigned long long t = i % m->tp, e = i / m->tp % m->ep, p = i / m->tp / m->ep;
    pg_status st = pg__str_printf(out, r->err, "mp_rank_%02llu", t);
    if (st == PG_OK && n > 1)
        st = pg__str_printf(out, r->err, "_%03llu", second_is_expert(r) ? e : p);
    if (st == PG_OK && n > 2)
        st = pg__str_printf(out, r->err, "_%03llu", e);
    return st == PG_OK ? pg__str_printf(out, r->err, "/%s", pg__base_name(r->listed.v[0].file))
                       : st;
}

/* Folders of ranks that the job does not have are of another one. */
static pg_status check_folders(const reading *r)
{
    const pg__megatron *m = r->m;
    const unsigned n = r->listed.v[0].n_parts;
    if ((n < 2 && (m->pp > 1 || m->ep > 1)) || (n == 2 && m->pp > 1 && m->ep > 1))
        return pg_fail(r->err, PG_E_FORMAT,
                       "%s does not fit its args: %s pipeline x %s expert parallel ranks",
                       PG_SHOW(r->listed.v[0].file), PG_NUM(m->pp), PG_NUM(m->ep));
    for (size_t i = 0; i < r->listed.n; i++)
        if (place_of(r, &r->listed.v[i]) == PG_NONE)
            return pg_fail(r->err, PG_E_FORMAT,
                           "%s, but the args of %s say %s tensor x %s pipeline x %s expert "
                           "parallel ranks",
                           PG_SHOW(r->listed.v[i].file), PG_SHOW(r->listed.v[0].file),
                           PG_NUM(m->tp), PG_NUM(m->pp), PG_NUM(m->ep));
    return PG_OK;
}

/* The ranks in their order, missing ones with the names that they should have. */
static pg_status sort_ranks(reading *r)
{
    pg_err *err = r->err;
    pg_status st = PG_OK;
    pg__megatron *m = r->m;
    uint64_t n = 0;
    pg__str name = {0};
    if (__builtin_mul_overflow(m->tp, m->pp, &n) || __builtin_mul_overflow(n, m->ep, &n) ||
        n > MAX_STAGES / m->facts.n_models)
        return pg_fail(r->err, PG_E_LIMIT, "more than %u ranks", MAX_STAGES);
    PG_TRY(check_folders(r));
    m->ranks.v = pg__mem_array((size_t)n, sizeof *m->ranks.v);
    if (!m->ranks.v)
        PG_TRY(pg__nomem(r->err));
    m->ranks.n = (size_t)n;
    for (size_t i = 0; i < r->listed.n; i++) {
        pg__megatron_rank *x = &m->ranks.v[place_of(r, &r->listed.v[i])];
        if (x->file)
            PG_FAIL(PG_E_FORMAT, "%s and %s are both of the same rank", PG_SHOW(x->file),
                    PG_SHOW(r->listed.v[i].file));
        *x = r->listed.v[i];
        r->listed.v[i].file = pg__mem_strdup(x->file);
        if (!r->listed.v[i].file)
            PG_TRY(pg__nomem(r->err));
    }
    for (size_t i = 0; i < m->ranks.n; i++)
        if (!m->ranks.v[i].file) {
            name = (pg__str){0};
            PG_TRY(name_rank(&name, r, i));
            m->ranks.v[i].file = name.s;
            name = (pg__str){0};
        }
done:
    pg__str_fini(&name);
    return st;
}

/* How many ranks of each kind: as the first one's arguments say, else as many as there are. */
static pg_status read_job(reading *r)
{
    pg__megatron *m = r->m;
    const pg__megatron_args *a = &m->facts.args;
    const pg_status st = read_file(NULL, &m->facts, r, r->listed.v[0].file, 0);
    if (st == PG_E_UNKNOWN)
        return pg__shard_faults_report(&r->faults, r->listed.n, 1, r->err);
    if (st != PG_OK)
        return st;
    if (m->facts.n_models == 0)
        return pg_fail(r->err, PG_E_UNKNOWN, "not a checkpoint of Megatron-LM");
    count_folders(m, &r->listed);
    if (a->tensor_model_parallel_size) {
        m->tp = a->tensor_model_parallel_size;
        m->pp = at_least_1(a->pipeline_model_parallel_size);
        m->ep = at_least_1(a->expert_model_parallel_size);
    }
    m->n_stages = (size_t)m->pp * m->facts.n_models;
    return sort_ranks(r);
}

/* ---- all ---- */

/* Where a rank's model of a stage is in m->v. */
static size_t index_of(const pg__megatron *m, size_t stage, uint64_t e, uint64_t t)
{
    return (size_t)((stage * m->ep + e) * m->tp + t);
}

pg_store *pg__megatron_store(const pg__megatron *m, size_t stage, uint64_t e, uint64_t t)
{
    return m->v[index_of(m, stage, e, t)];
}

pg__shown pg__megatron_rank_name(const pg__megatron *m, size_t stage, uint64_t e, uint64_t t)
{
    const char *file = m->ranks.v[index_of(m, stage % (size_t)m->pp, e, t)].file;
    pg__shown s = pg__show(file);
    s.s[strcspn(s.s, "/")] = 0;
    return s;
}

static pg_status read_rank(reading *r, size_t i)
{
    pg__megatron *m = r->m;
    const size_t n = m->ranks.n;
    const char *name = m->ranks.v[i].file;
    pg__megatron_facts facts;
    struct stat sb;
    pg__str optimizer = {0};
    for (size_t v = 0; v < m->facts.n_models; v++) {
        const pg_status st = read_file(&m->v[v * n + i], &facts, r, name, v);
        if (st != PG_OK)
            return st == PG_E_UNKNOWN ? PG_OK : st;
    }
    pg_status st = PG_OK;
    PG_TRY(compare_facts(&m->facts, &facts, r->listed.v[0].file, name, r->err));
    PG_TRY(pg__str_printf(&optimizer, r->err, "%.*sdistrib_optim.pt",
                          (int)(pg__base_name(name) - name), name));
    if (fstatat(m->folder, optimizer.s, &sb, 0) == 0)
        m->n_optimizers++;
    else if (!pg__is_absence(errno))
        st = pg_fail_sys(r->err, PG_E_IO, errno, "%s", PG_SHOW(optimizer.s));
done:
    pg__str_fini(&optimizer);
    return st;
}

/* The descriptor of the folder that holds the folders of the ranks. */
static pg_status open_folder(reading *r)
{
    char *rank = pg__mem_strndup(r->path, (size_t)(pg__base_name(r->path) - r->path) - 1);
    if (!rank)
        return pg__nomem(r->err);
    const pg_status st = pg__io_folder_of(&r->m->folder, rank, r->path, r->err);
    pg__mem_free(rank);
    return st;
}

static pg_status check_heads(const pg__megatron *m, pg_err *err)
{
    const uint64_t given = m->rules.heads, said = m->facts.args.num_attention_heads;
    return given && said && given != said
               ? pg_fail(err, PG_E_MISMATCH, "its args say %s attention heads, the rules say %s",
                         PG_NUM(said), PG_NUM(given))
               : PG_OK;
}

pg_status pg__megatron_read(pg__megatron *out, const char *path, const char *rules, pg_err *err)
{
    pg_status st = PG_OK;
    pg__megatron m = {.folder = -1};
    reading r = {.m = &m, .path = path, .err = err};
    PG_TRY(pg__megatron_list(&r.listed, path, err));
    if (r.listed.n == 0)
        PG_FAIL(PG_E_UNKNOWN, "not a rank's file of Megatron-LM");
    PG_TRY(open_folder(&r));
    PG_TRY(read_job(&r));
    PG_TRY(pg__megatron_rules_read(&m.rules, rules, err));
    PG_TRY(check_heads(&m, err));
    m.v = pg__mem_array(m.ranks.n * m.facts.n_models, sizeof(pg_store *));
    if (!m.v)
        PG_TRY(pg__nomem(err));
    for (size_t i = 0; i < m.ranks.n; i++)
        PG_TRY(read_rank(&r, i));
    PG_TRY(pg__shard_faults_report(&r.faults, m.ranks.n, 1, err));
    *out = m;
    m = (pg__megatron){.folder = -1};
done:
    pg__megatron_ranks_fini(&r.listed);
    pg__shard_faults_fini(&r.faults);
    pg__megatron_fini(&m);
    return st;
}

void pg__megatron_fini(pg__megatron *m)
{
    for (size_t i = 0; m->v && i < m->ranks.n * m->facts.n_models; i++)
        pg_store_close(m->v[i]);
    pg__mem_free(m->v);
    pg__megatron_ranks_fini(&m->ranks);
    pg__megatron_rules_fini(&m->rules);
    if (m->folder >= 0)
        close(m->folder);
    *m = (pg__megatron){.folder = -1};
}

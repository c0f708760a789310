/* zero_cut.c - which elements of the ranks' flat parts are which parameter's, as DeepSpeed's
 * zero_to_fp32.py decides it.
 *
 * Stages 1 and 2: a group's parts, one after the other, hold the group's parameters, one after the
 * other, each followed by its padding, and padding. Stage 3: each parameter is cut into as many
 * equal parts as there are ranks, the last one padded; a rank's parts follow each other. What the
 * optimizer keeps for each parameter is laid out like the parameters. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "format/zero.h"

#define MOST_KEYS 16u /* Adam has two */

static pg_status too_short(const char *name, pg_err *err)
{
    return pg_fail(err, PG_E_FORMAT, "%s: the ranks' parts are too short for it", PG_SHOW(name));
}

static uint64_t length(pg_store *s, size_t g)
{
    return pg_store_weight(s, g)->dims[0];
}

/* ---- stages 1 and 2 ---- */

/* Takes the n elements from *at on of the parts of group g, one after the other. */
static pg_status take_row(pg__zero_cut *c, pg__zero_tensor *t, const pg__zero *z, size_t g,
                          pg__zero_lane lane, uint64_t *at, uint64_t n, pg_err *err)
{
    pg_status st = PG_OK;
    size_t cap = 0;
    uint64_t begin = 0; /* of a rank's part, in the row */
    for (uint64_t k = 0; k < lane.n && n; k++) {
        const uint64_t r = lane.first + k * lane.step, len = length(z->flat[r], g);
        if (*at < begin + len) {
            const uint64_t skip = *at - begin, have = len - skip < n ? len - skip : n;
            const pg__zero_source in = {z->flat[r], g, skip, r, g};
            PG_TRY(pg__zero_add_run(c, t, &cap, in, have, err));
            *at += have;
            n -= have;
        }
        begin += len;
    }
    if (n)
        st = too_short(t->name, err);
done:
    return st;
}

/* What is left of a group is padding: DeepSpeed aligns to twice the number of ranks. */
static pg_status check_rest(const pg__zero *z, size_t g, pg__zero_lane lane, uint64_t used,
                            pg_err *err)
{
    uint64_t all = 0;
    const uint64_t unit = 2 * lane.n;
    for (uint64_t k = 0; k < lane.n; k++)
        all += length(z->flat[lane.first + k * lane.step], g);
    if ((used + unit - 1) / unit != (all + unit - 1) / unit)
        return pg_fail(err, PG_E_FORMAT,
                       "group %zu: the ranks' parts hold %s elements, its parameters are %s", g,
                       PG_NUM(all), PG_NUM(used));
    return PG_OK;
}

/* One copy of a group; experts have a copy, of other experts, on each set of ranks. */
static pg_status cut_row(pg__zero_cut *c, const pg__zero_job *job, const pg__zero *z, size_t g,
                         uint64_t k, pg_err *err)
{
    const pg__zero_group *group = &z->groups[g];
    const pg__zero_lane lane = pg__zero_lane_of(z, g, k);
    const int experts = group->parts < z->n_ranks;
    pg_status st = PG_OK;
    uint64_t at = 0;
    for (size_t i = 0; i < group->n; i++) {
        const pg__zero_param *p = &group->v[i];
        const char *name = p->name;
        if (experts)
            PG_TRY(pg__zero_expert_name(&name, c, z, p->name, k, err));
        pg__zero_tensor *t = pg__zero_add(c, name, PG_F32, p->rank, p->dims);
        if (!t)
            return pg__nomem(err);
        PG_TRY(take_row(c, t, z, g, lane, &at, p->n, err));
        if (experts)
            PG_TRY(pg__zero_check_expert(c, job, c->n - 1, err));
        at += p->gap;
    }
    PG_TRY(check_rest(z, g, lane, at, err));
done:
    return st;
}

static pg_status cut_rows(pg__zero_cut *c, const pg__zero_job *job, const pg__zero *z, pg_err *err)
{
    pg_status st = PG_OK;
    for (size_t g = 0; st == PG_OK && g < z->n_groups; g++)
        for (uint64_t k = 0; st == PG_OK && k < z->n_ranks / z->groups[g].parts; k++)
            st = cut_row(c, job, z, g, k, err);
    return st;
}

/* ---- stage 3 ---- */

/* Takes n elements from element `at` on of all groups of a rank, one after the other. */
static pg_status take_of_rank(pg__zero_cut *c, pg__zero_tensor *t, size_t *cap, const pg__zero *z,
                              uint64_t r, uint64_t at, uint64_t n, pg_err *err)
{
    pg_status st = PG_OK;
    pg_store *s = z->flat[r];
    uint64_t begin = 0;
    for (size_t g = 0; g < pg_store_n_weights(s) && n; g++) {
        const uint64_t len = length(s, g);
        if (at < begin + len) {
            const uint64_t skip = at - begin, have = len - skip < n ? len - skip : n;
            const pg__zero_source in = {s, g, skip, r, g};
            PG_TRY(pg__zero_add_run(c, t, cap, in, have, err));
            at += have;
            n -= have;
        }
        begin += len;
    }
    if (n)
        st = too_short(t->name, err);
done:
    return st;
}

static uint64_t held_by(pg_store *s)
{
    uint64_t n = 0;
    for (size_t g = 0; g < pg_store_n_weights(s); g++)
        n += length(s, g);
    return n;
}

/* The type in which the module holds a parameter, for its master weights rounded to it are what the
 * module computes with: stage 3 writes no other copy. */
static pg_status trained_type(pg__zero_tensor *t, const pg__zero *z, pg_err *err)
{
    const size_t at = pg__index_find(&z->in_module, t->name);
    if (at == PG_NONE)
        return pg_fail(err, PG_E_UNSUPPORTED,
                       "%s: model_states does not say in which type it was "
                       "trained",
                       PG_SHOW(t->name));
    const pg_dtype d = pg_store_weight(z->module, at)->dtype;
    if (d != PG_F32 && d != PG_F16 && d != PG_BF16)
        return pg_fail(err, PG_E_UNSUPPORTED, "%s: trained as %s", PG_SHOW(t->name),
                       pg_dtype_name(d));
    t->dtype = d;
    return PG_OK;
}

static pg_status cut_part(pg__zero_cut *c, const pg__zero_job *job, const pg__zero *z,
                          const pg__zero_param *p, uint64_t at, pg_err *err)
{
    pg_status st = PG_OK;
    const uint64_t part = p->n / z->n_ranks + (p->n % z->n_ranks != 0);
    pg__zero_tensor *t = pg__zero_add(c, p->name, PG_F32, p->rank, p->dims);
    uint64_t left = p->n;
    size_t cap = 0;
    if (!t)
        return pg__nomem(err);
    if (job->what == PG_ZERO_TRAINED)
        PG_TRY(trained_type(t, z, err));
    for (uint64_t r = 0; r < z->n_ranks && left; r++) {
        const uint64_t n = left < part ? left : part;
        PG_TRY(take_of_rank(c, t, &cap, z, r, at, n, err));
        left -= n;
    }
done:
    return st;
}

static pg_status cut_parts(pg__zero_cut *c, const pg__zero_job *job, const pg__zero *z, pg_err *err)
{
    pg_status st = PG_OK;
    uint64_t at = 0;
    for (size_t g = 0; g < z->n_groups; g++)
        for (size_t i = 0; i < z->groups[g].n; i++) {
            const pg__zero_param *p = &z->groups[g].v[i];
            PG_TRY(cut_part(c, job, z, p, at, err));
            at += p->n / z->n_ranks + (p->n % z->n_ranks != 0);
        }
    for (uint64_t r = 0; r < z->n_ranks; r++)
        if (held_by(z->flat[r]) != at)
            PG_FAIL(PG_E_FORMAT, "rank %s holds %s elements, its parameters are %s", PG_NUM(r),
                    PG_NUM(held_by(z->flat[r])), PG_NUM(at));
done:
    return st;
}

/* ---- universal checkpoints ---- */

static const pg__zero_param *find_param(const pg__zero *z, const char *name)
{
    for (size_t g = 0; g < z->n_groups; g++)
        for (size_t i = 0; i < z->groups[g].n; i++)
            if (strcmp(z->groups[g].v[i].name, name) == 0)
                return &z->groups[g].v[i];
    return NULL;
}

/* The file has the shape; flat: model_states has it, of stage 3 without slices. */
static pg_status cut_param(pg__zero_cut *c, const pg__zero *z, const pg__zero_extra *x, int flat,
                           pg_err *err)
{
    const pg__zero_param *p = flat ? find_param(z, x->name) : NULL;
    const pg_weight *w = x->s ? pg_store_weight(x->s, 0) : NULL;
    if (!w || pg_store_n_weights(x->s) != 1)
        return pg_fail(err, PG_E_FORMAT, "zero/%s/%s.pt does not hold one tensor", PG_SHOW(x->name),
                       x->key);
    if (pg__strs_printf(&c->made, err, "%s%s%s", x->name, strcmp(x->key, "fp32") ? "." : "",
                        strcmp(x->key, "fp32") ? x->key : ""))
        return err ? err->code : PG_E_NOMEM;
    const pg_status st = pg__zero_add_whole(c, x->s, 0, c->made.v[c->made.n - 1], err);
    pg__zero_tensor *t = st == PG_OK ? &c->v[c->n - 1] : NULL;
    if (!t || !p)
        return st;
    if (t->row.dims[0] != p->n)
        return pg_fail(err, PG_E_FORMAT, "zero/%s/%s.pt holds %s elements, the parameter has %s",
                       PG_SHOW(x->name), x->key, PG_NUM(t->row.dims[0]), PG_NUM(p->n));
    t->rank = p->rank;
    memcpy(t->dims, p->dims, sizeof t->dims);
    return PG_OK;
}

/* ds_to_universal.py makes float32 of what the optimizer does not have, too, which the module holds
 * as it is; but of slices only zero/ has the whole. */
static int is_better_in_module(const pg__zero_job *job, const pg__zero *z, const char *name)
{
    for (size_t i = 0; i < z->n_ties; i++)
        if (strcmp(z->ties[i].name, name) == 0)
            return 1;
    return job->n_slices > 1 ? pg__index_find(&z->in_buffers, name) != SIZE_MAX
                             : pg__index_find(&z->in_module, name) != SIZE_MAX;
}

static pg_status cut_params(pg__zero_cut *c, const pg__zero_job *job, const pg__zero *z,
                            pg_err *err)
{
    pg_status st = PG_OK;
    for (size_t i = 0; st == PG_OK && i < job->n_params; i++)
        if (job->params[i].trained || !is_better_in_module(job, z, job->params[i].name))
            st = cut_param(c, z, &job->params[i], z->stage == 3 && job->n_slices == 1, err);
    return st;
}

/* ---- the optimizer's averages ---- */

/* "0.exp_avg": the group, and *key the rest; PG_NONE if it is something else. */
static size_t group_in(const char *name, const char **key)
{
    char *end = NULL;
    const unsigned long g = strtoul(name, &end, 10);
    if (name[0] < '0' || name[0] > '9' || *end != '.' || !end[1])
        return PG_NONE;
    *key = end + 1;
    return g;
}

/* What the ranks keep. */
typedef struct kept {
    pg__strs keys;    /* of tensors of one dimension: "exp_avg" */
    pg__index *names; /* by rank: of all its tensors, "GROUP.exp_avg" */
    pg__str name;     /* to look for */
} kept;

static pg_status list_keys(kept *x, const pg__zero *z, pg_err *err)
{
    pg_status st = PG_OK;
    for (uint64_t r = 0; r < z->n_ranks; r++)
        for (size_t i = 0; z->state[r] && i < pg_store_n_weights(z->state[r]); i++) {
            const pg_weight *w = pg_store_weight(z->state[r], i);
            const char *key = "";
            if (w->rank != 1 || w->dtype != PG_F32 || group_in(w->name, &key) == PG_NONE ||
                pg__strs_find(&x->keys, key) != SIZE_MAX)
                continue;
            if (x->keys.n == MOST_KEYS)
                PG_FAIL(PG_E_LIMIT, "rank %s: the optimizer keeps more than %u tensors of a group",
                        PG_NUM(r), MOST_KEYS);
            PG_TRY(pg__strs_add(&x->keys, key, strlen(key), err));
        }
done:
    return st;
}

static pg_status list_names(kept *x, const pg__zero *z, pg_err *err)
{
    pg_status st = PG_OK;
    x->names = pg__mem_array((size_t)z->n_ranks, sizeof *x->names);
    if (!x->names)
        return pg__nomem(err);
    for (uint64_t r = 0; r < z->n_ranks; r++) {
        for (size_t i = 0; z->state[r] && i < pg_store_n_weights(z->state[r]); i++)
            PG_TRY(pg__index_add(&x->names[r], pg_store_weight(z->state[r], i)->name, i, err));
        pg__index_sort(&x->names[r]);
    }
done:
    return st;
}

static void kept_fini(kept *x, const pg__zero *z)
{
    for (uint64_t r = 0; x->names && r < z->n_ranks; r++)
        pg__index_fini(&x->names[r]);
    pg__mem_free(x->names);
    pg__strs_fini(&x->keys);
    pg__str_fini(&x->name);
}

/* Tensor i of the masters, from the optimizer's tensors of key k; none if no rank has it. */
static pg_status cut_state(pg__zero_cut *c, const pg__zero *z, kept *s, size_t i, size_t k,
                           pg_err *err)
{
    pg_status st = PG_OK;
    size_t cap = 0, n_gone = 0;
    const pg__zero_tensor master = c->v[i]; /* c->v grows */
    PG_TRY(pg__strs_printf(&c->made, err, "%s.%s", master.name, s->keys.v[k]));
    pg__zero_tensor *t =
        pg__zero_add(c, c->made.v[c->made.n - 1], PG_F32, master.rank, master.dims);
    if (!t)
        return pg__nomem(err);
    t->param = master.name;
    for (size_t x = 0; x < master.row.n; x++) {
        pg__zero_source in = c->sources[master.row.v[x].source];
        const uint64_t n = master.row.v[x].size[0];
        s->name.n = 0;
        PG_TRY(pg__str_printf(&s->name, err, "%zu.%s", in.group, s->keys.v[k]));
        in.tensor = pg__index_find(&s->names[in.rank], s->name.s);
        in.s = z->state[in.rank];
        const pg_weight *w = in.tensor == PG_NONE ? NULL : pg_store_weight(in.s, in.tensor);
        n_gone += !w;
        if (w && (w->rank != 1 || w->dtype != PG_F32 || w->dims[0] < in.first + n))
            PG_FAIL(PG_E_FORMAT, "%s: rank %s keeps too few elements", PG_SHOW(t->name),
                    PG_NUM(in.rank));
        if (w)
            PG_TRY(pg__zero_add_run(c, t, &cap, in, n, err));
    }
    if (n_gone && n_gone < master.row.n)
        PG_FAIL(PG_E_FORMAT, "%s: some ranks have no part of it", PG_SHOW(t->name));
    if (n_gone)
        pg__mem_free(c->v[--c->n].row.v);
done:
    return st;
}

/* Appends what the optimizer keeps for the first n tensors, or, if `alone`, puts it in their
 * place. */
static pg_status cut_states(pg__zero_cut *c, const pg__zero *z, size_t n, int alone, pg_err *err)
{
    pg_status st = PG_OK;
    kept s = {.names = NULL};
    PG_TRY(list_keys(&s, z, err));
    PG_TRY(list_names(&s, z, err));
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < s.keys.n; k++)
            PG_TRY(cut_state(c, z, &s, i, k, err));
    if (alone) {
        for (size_t i = 0; i < n; i++)
            pg__mem_free(c->v[i].row.v);
        c->n -= n;
        memmove(c->v, c->v + n, c->n * sizeof *c->v);
    }
done:
    kept_fini(&s, z);
    return st;
}

/* ---- order ---- */

static int by_name(const void *a, const void *b)
{
    return strcmp(((const pg__zero_tensor *)a)->name, ((const pg__zero_tensor *)b)->name);
}

/* The order of the module; what it does not list comes last. */
static pg_status sort(pg__zero_cut *c, const pg__zero *z, pg_err *err)
{
    pg_status st = PG_OK;
    size_t n = 0;
    pg__zero_tensor *sorted = pg__mem_array(c->n, sizeof *sorted);
    unsigned char *used = pg__mem_array(c->n, 1);
    if (!sorted || !used)
        PG_TRY(pg__nomem(err));
    if (c->n)
        qsort(c->v, c->n, sizeof *c->v, by_name);
    for (size_t i = 1; i < c->n; i++)
        if (strcmp(c->v[i - 1].name, c->v[i].name) == 0)
            PG_FAIL(PG_E_FORMAT, "%s: two parameters have this name", PG_SHOW(c->v[i].name));
    for (size_t i = 0; i < z->names.n; i++) {
        const pg__zero_tensor key = {.name = z->names.v[i]};
        const pg__zero_tensor *t = c->n ? bsearch(&key, c->v, c->n, sizeof key, by_name) : NULL;
        if (!t || used[t - c->v])
            continue;
        used[t - c->v] = 1;
        sorted[n++] = *t;
    }
    for (size_t i = 0; i < c->n; i++)
        if (!used[i])
            sorted[n++] = c->v[i];
    pg__mem_free(c->v);
    c->v = sorted;
    c->cap = c->n;
    sorted = NULL;
done:
    pg__mem_free(sorted);
    pg__mem_free(used);
    return st;
}

/* ---- all ---- */

static pg_status cut_weights(pg__zero_cut *c, const pg__zero_job *job, const pg__zero *z,
                             pg_err *err)
{
    if (z->universal && job->what != PG_ZERO_TRAINED)
        return z->slice ? PG_OK : cut_params(c, job, z, err);
    if (z->stage == 3 && z->universal)
        return pg_fail(err, PG_E_UNSUPPORTED,
                       "a universal checkpoint of stage 3 does not hold the "
                       "weights as they were trained");
    if (z->stage == 3)
        return cut_parts(c, job, z, err);
    return job->what == PG_ZERO_TRAINED ? PG_OK : cut_rows(c, job, z, err);
}

/* The masters are needed for it also where the module's weights are taken. */
static pg_status check_module(const pg__zero_cut *c, const pg__zero_job *job, const pg__zero *z,
                              pg_err *err)
{
    pg__zero_cut masters = {0};
    if (z->stage == 3 || z->universal || job->what == PG_ZERO_NONE)
        return PG_OK;
    if (job->what != PG_ZERO_TRAINED)
        return pg__zero_check_module(c, z, err);
    pg_status st = cut_rows(&masters, job, z, err);
    if (st == PG_OK)
        st = pg__zero_check_module(&masters, z, err);
    pg__zero_cut_fini(&masters);
    return st;
}

pg_status pg__zero_cut_of(pg__zero_cut *out, const pg__zero_job *job, const pg__zero *z,
                          pg_err *err)
{
    pg_status st = PG_OK;
    pg__zero_cut c = {0};
    if (job->what != PG_ZERO_NONE)
        PG_TRY(cut_weights(&c, job, z, err));
    PG_TRY(check_module(&c, job, z, err));
    const size_t n = c.n;
    if (z->state)
        PG_TRY(cut_states(&c, z, n, job->what == PG_ZERO_STATE, err));
    if (job->what != PG_ZERO_NONE && job->what != PG_ZERO_STATE)
        PG_TRY(pg__zero_add_rest(&c, job, z, err));
    for (size_t i = 0; i < c.n; i++)
        PG_TRY(pg__tiles_check(&c.v[i].row, err));
    PG_TRY(sort(&c, z, err));
    *out = c;
    c = (pg__zero_cut){0};
done:
    pg__zero_cut_fini(&c);
    return st;
}

void pg__zero_cut_fini(pg__zero_cut *c)
{
    for (size_t i = 0; i < c->n; i++)
        pg__mem_free(c->v[i].row.v);
    pg__mem_free(c->v);
    pg__mem_free(c->sources);
    pg__strs_fini(&c->made);
    *c = (pg__zero_cut){0};
}

pg_status pg__zero_row_read(const pg__zero_cut *c, const pg__tiled *row, uint64_t off, void *buf,
                            size_t n, pg_err *err)
{
    unsigned char *to = buf;
    for (size_t i = 0; i < row->n && n; i++) {
        const uint64_t begin = row->v[i].start[0] * row->elem, len = row->v[i].size[0] * row->elem;
        if (off >= begin + len)
            continue;
        const pg__zero_source *s = &c->sources[row->v[i].source];
        const uint64_t skip = off - begin;
        const size_t k = len - skip < n ? (size_t)(len - skip) : n;
        const pg_status st =
            pg__store_read_raw(s->s, s->tensor, s->first * row->elem + skip, to, k, err);
        if (st != PG_OK)
            return st;
        to += k;
        off += k;
        n -= k;
    }
    return PG_OK;
}

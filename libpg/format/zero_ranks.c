/* zero_ranks.c - what the optimizer of each rank wrote:
 *
 *     [bf16_]zero_pp_rank_R_mp_rank_XX_optim_states.pt   {"optimizer_state_dict": {"zero_stage",
 *         "partition_count", "single_partition_of_fp32_groups" or "fp32_flat_groups": [tensor],
 *         "base_optimizer_state" or "optimizer_state_dict": {"state": {group: {"exp_avg"}}},
 *         "param_alignment_paddings"}, "ds_version"}
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "format/zero_impl.h"

#define ROWS  "single_partition_of_fp32_groups"
#define PARTS "fp32_flat_groups"
#define BASE  "base_optimizer_state"

/* ---- stage and number of ranks ---- */

/* The number in an int, or the largest in a list. */
static uint64_t largest(const pg__pickle *p, const pg__pk_value *v)
{
    uint64_t n = v && v->kind == PG_PK_INT && v->u.i > 0 ? (uint64_t)v->u.i : 0;
    for (uint32_t i = 0; pg__zero_is_list(v) && i < v->n; i++) {
        const pg__pk_value *x = pg__zero_item(p, v, i);
        if (x->kind == PG_PK_INT && x->u.i > 0 && (uint64_t)x->u.i > n)
            n = (uint64_t)x->u.i;
    }
    return n;
}

/* The stage is a number, or an enum made of one; the optimizer for bfloat16, which works as stage 1
 * does, does not write it. 0: not a file of ZeRO. */
static int64_t stage_of(const pg__pickle *p)
{
    const pg__pk_value *states = pg__zero_root(p, PG_ZERO_OPTIMIZER);
    const pg__pk_value *stage = pg__zero_get(p, states, "zero_stage");
    const pg__pk_value *args =
        stage && stage->kind == PG_PK_CALL ? pg__zero_item(p, stage, 1) : NULL;
    if (!stage)
        return pg__zero_get(p, states, ROWS) ? 1 : 0;
    if (args && args->kind == PG_PK_TUPLE && args->n == 1)
        stage = pg__zero_item(p, args, 0);
    return stage->kind == PG_PK_INT ? stage->u.i : 0;
}

static uint64_t ranks_of(const pg__pickle *p)
{
    return largest(p, pg__zero_get(p, pg__zero_root(p, PG_ZERO_OPTIMIZER), "partition_count"));
}

pg_status pg__zero_read_job(pg__zero_reading *r, const pg__pickle *p)
{
    const int64_t stage = stage_of(p);
    if (stage == 0)
        return pg_fail(r->err, PG_E_UNKNOWN, "not a file of DeepSpeed's ZeRO");
    if (stage < 1 || stage > 3)
        return pg_fail(r->err, PG_E_UNSUPPORTED, "ZeRO stage %lld", (long long)stage);
    r->z->stage = (int)stage;
    r->z->n_ranks = ranks_of(p);
    if (r->z->n_ranks == 0 || r->z->n_ranks > PG_ZERO_MAX_RANKS)
        return pg_fail(r->err, PG_E_FORMAT, "partition_count is not a number of ranks");
    return PG_OK;
}

/* ---- groups ---- */

/* How many ranks hold a group together, and the padding between its parameters. */
static pg_status read_group(pg__zero_reading *r, const pg__pickle *p, size_t g)
{
    const pg__pk_value *states = pg__zero_root(p, PG_ZERO_OPTIMIZER);
    const pg__pk_value *count = pg__zero_get(p, states, "partition_count");
    const pg__pk_value *gaps = pg__zero_get(p, states, "param_alignment_paddings");
    pg__zero_group *x = &r->z->groups[g];
    x->parts = r->z->n_ranks;
    if (pg__zero_is_list(count) && g < count->n)
        x->parts = largest(p, pg__zero_item(p, count, (uint32_t)g));
    if (x->parts == 0 || r->z->n_ranks % x->parts)
        return pg_fail(r->err, PG_E_FORMAT, "partition_count of group %zu does not divide %s ranks",
                       g, PG_NUM(r->z->n_ranks));
    gaps = pg__zero_is_list(gaps) && g < gaps->n ? pg__zero_item(p, gaps, (uint32_t)g) : NULL;
    if (!gaps)
        return PG_OK;
    if (!pg__zero_is_list(gaps) || gaps->n != x->n)
        return pg_fail(r->err, PG_E_FORMAT,
                       "param_alignment_paddings of group %zu does not have %zu entries", g, x->n);
    for (uint32_t i = 0; i < gaps->n; i++) {
        const pg__pk_value *v = pg__zero_item(p, gaps, i);
        if (v->kind != PG_PK_INT || v->u.i < 0 || v->u.i > INT32_MAX)
            return pg_fail(r->err, PG_E_FORMAT, "param_alignment_paddings holds no number");
        x->v[i].gap = (uint64_t)v->u.i;
    }
    return PG_OK;
}

static pg_status read_groups(pg__zero_reading *r, const pg__pickle *p)
{
    pg_status st = PG_OK;
    r->z->ranks_say = pg__zero_text(pg__zero_root(p, "ds_version"));
    for (size_t g = 0; g < r->z->n_groups && st == PG_OK && r->z->stage < 3; g++)
        st = read_group(r, p, g);
    return st;
}

/* ---- which step ---- */

/* The number that a tensor of one element holds; -1 if it cannot be found. */
static pg_status number_in(int64_t *out, pg__pt_source *f, const pg__pk_value *v, pg_err *err)
{
    pg__pt_tensor t = {0};
    char *bytes = NULL;
    double x = -1;
    size_t n = 0;
    pg__str name = {0};
    pg_err e = {0};
    pg_status st = pg__pt_read_tensor(&t, &f->pickle, v, &e);
    if (st != PG_OK || t.storage.inside)
        goto done;
    st = pg__str_printf(&name, &e, "%sdata/%.*s", f->root.s, (int)t.storage.n_key, t.storage.key);
    const size_t at = st == PG_OK ? pg__zip_find(f->zip, name.s) : SIZE_MAX;
    if (at == SIZE_MAX)
        goto done;
    st = pg__zip_load(f->zip, at, 64, &bytes, &n, &e);
    if (st != PG_OK || t.view.first >= n / t.view.size ||
        !pg__pt_number(&x, t.dtype, (const unsigned char *)bytes + t.view.first * t.view.size))
        x = -1;
done:
    pg__str_fini(&name);
    pg__mem_free(bytes);
    *out = x >= 0 && x < 1e15 ? (int64_t)x : -1;
    return st == PG_E_NOMEM || st == PG_E_IO ? pg__fail_as(err, &e) : PG_OK;
}

static const pg__pk_value *first_of(const pg__pickle *p, const pg__pk_value *v)
{
    pg__pt_entries e = {0};
    if (!v || (!pg__zero_is_list(v) && !pg__pickle_is_dict(p, v)))
        return NULL;
    e = pg__pt_entries_of(p, v);
    return pg__pt_next(&e) ? e.value : NULL;
}

/* How many steps the optimizer has made: PyTorch's says it in each group's state, others in a list
 * of groups. -1: unknown. */
static pg_status step_of(int64_t *out, pg__pt_source *f, int stage, pg_err *err)
{
    const pg__pickle *p = &f->pickle;
    const pg__pk_value *states = pg__zero_root(p, PG_ZERO_OPTIMIZER);
    const pg__pk_value *base = pg__zero_get(p, states, stage == 3 ? PG_ZERO_OPTIMIZER : BASE);
    const pg__pk_value *state = pg__zero_get(p, base, "state");
    const pg__pk_value *step = pg__zero_get(p, first_of(p, state ? state : base), "step");
    if (!step)
        step = pg__zero_get(p, first_of(p, pg__zero_get(p, base, "param_groups")), "step");
    if (!step)
        step = pg__zero_get(p, states, "base_optimizer_state_step");
    *out = step && step->kind == PG_PK_INT ? step->u.i : -1;
    return step && pg__pt_is_tensor(p, step) ? number_in(out, f, step, err) : PG_OK;
}

/* ---- all ranks ---- */

static pg_status check_flat(const pg__zero_reading *r, const pg_store *s, const char *name)
{
    for (size_t i = 0; i < pg_store_n_weights(s); i++) {
        const pg_weight *w = pg_store_weight(s, i);
        if (w->rank != 1 || w->dtype != PG_F32)
            return pg_fail(r->err, PG_E_FORMAT, "%s: a group is not a row of float32",
                           PG_SHOW(name));
    }
    if (!r->z->groups) /* model_states is among the faults */
        return PG_OK;
    if (r->z->stage < 3 && pg_store_n_weights(s) != r->z->n_groups)
        return pg_fail(r->err, PG_E_FORMAT, "%s: %zu groups of parameters, model_states has %zu",
                       PG_SHOW(name), pg_store_n_weights(s), r->z->n_groups);
    return PG_OK;
}

/* The ranks of a job agree on what they say about it. */
static pg_status check_same(pg__zero_reading *r, pg__pt_source *f, const char *name)
{
    const pg__zero *z = r->z;
    int64_t step = -1;
    const pg_status st = step_of(&step, f, z->stage, r->err);
    if (st != PG_OK)
        return st;
    char *version = pg__zero_text(pg__zero_root(&f->pickle, "ds_version"));
    const int other = version && z->ranks_say && strcmp(version, z->ranks_say) != 0;
    pg__mem_free(version);
    if (stage_of(&f->pickle) != z->stage || ranks_of(&f->pickle) != z->n_ranks)
        return pg_fail(r->err, PG_E_FORMAT,
                       "%s: of another job: stage %lld on %s ranks, the first rank was in stage %d "
                       "on %s",
                       PG_SHOW(name), (long long)stage_of(&f->pickle), PG_NUM(ranks_of(&f->pickle)),
                       z->stage, PG_NUM(z->n_ranks));
    if (step != z->step)
        return pg_fail(r->err, PG_E_FORMAT,
                       "%s: of another step: %lld, the first rank made %lld; copy the files of one "
                       "step",
                       PG_SHOW(name), (long long)step, (long long)z->step);
    return other ? pg_fail(r->err, PG_E_FORMAT,
                           "%s: of another version of DeepSpeed than the "
                           "first rank's",
                           PG_SHOW(name))
                 : PG_OK;
}

/* Where the optimizer's tensors are: {"state": {group: {}}}, or a list of groups. */
static const char *state_path(const pg__zero_reading *r, const pg__pickle *p)
{
    const pg__pk_value *base = pg__zero_get(p, pg__zero_root(p, PG_ZERO_OPTIMIZER), BASE);
    if (r->z->stage == 3)
        return PG_ZERO_OPTIMIZER "." PG_ZERO_OPTIMIZER ".state";
    return pg__zero_is_list(base) ? PG_ZERO_OPTIMIZER "." BASE
                                  : PG_ZERO_OPTIMIZER "." BASE ".state";
}

/* Slices and stages of one step make a model. A stage without parameters has no step. */
static pg_status check_slice(const pg__zero_reading *r, const char *name)
{
    const int64_t step = r->z->step, first = r->job->slices[0].step;
    if (step < 0 || first < 0 || step == first)
        return PG_OK;
    return pg_fail(r->err, PG_E_FORMAT,
                   "%s: of another step: %lld, mp_rank_00 made %lld; copy the files of one step",
                   PG_SHOW(name), (long long)step, (long long)first);
}

/* The first file that can be read says what the others must agree with. */
static pg_status read_rank(pg__zero_reading *r, uint64_t i, const char *name)
{
    pg__zero *z = r->z;
    pg__pt_source f = {0};
    const char *state = NULL;
    pg_status st = pg__zero_open(r, &f, name);
    if (st == PG_OK && z->step == PG_ZERO_UNREAD) {
        st = step_of(&z->step, &f, z->stage, r->err);
        if (st == PG_OK)
            st = check_slice(r, name);
        if (st == PG_OK)
            st = read_groups(r, &f.pickle);
    }
    if (st == PG_OK)
        st = check_same(r, &f, name);
    if (st == PG_OK && z->state)
        state = state_path(r, &f.pickle);
    if (st == PG_OK)
        st =
            pg__zero_part(&z->flat[i], r, &f, name,
                          z->stage == 3 ? PG_ZERO_OPTIMIZER "." PARTS : PG_ZERO_OPTIMIZER "." ROWS);
    if (st == PG_OK)
        st = check_flat(r, z->flat[i], name);
    if (st == PG_OK && state)
        st = pg__zero_part_of(&z->state[i], r, name, state);
    pg__zero_close(&f);
    return st;
}

pg_status pg__zero_read_ranks(pg__zero_reading *r)
{
    pg_status st = PG_OK;
    pg__str name = {0};
    pg__zero *z = r->z;
    const int states = r->job->what == PG_ZERO_STATE || r->job->what == PG_ZERO_ALL;
    z->flat = pg__mem_array((size_t)z->n_ranks, sizeof(pg_store *));
    z->state = states ? pg__mem_array((size_t)z->n_ranks, sizeof(pg_store *)) : NULL;
    if (!z->flat || (states && !z->state))
        return pg__nomem(r->err);
    for (uint64_t i = 0; i < z->n_ranks && r->faults.missing.n < PG_ZERO_MOST_FAULTS; i++) {
        st = pg__zero_optim_name(&name, r, i);
        if (st == PG_OK)
            st = read_rank(r, i, name.s);
        if (st != PG_OK && st != PG_E_UNKNOWN)
            goto done;
    }
    st = PG_OK;
done:
    pg__str_fini(&name);
    return st;
}

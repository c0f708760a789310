/* lower_values.c - services for the families of layers while a model is lowered: parameters,
 * states, masks and logits of values, common operations. */
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "model/lower/lower.h"

/* ---- parameters ---- */

static pg__param *find_param(const pg__lowering *lw, const char *name)
{
    const size_t end = lw->n_vars ? lw->first_var + lw->n_vars : lw->leaf->vars.n;
    size_t first = 0;
    for (const pg__leaf *l = lw->opts->leaves->v; l != lw->leaf; l++)
        first += l->vars.n;
    for (size_t k = lw->n_vars ? lw->first_var : 0; k < end; k++) {
        const pg__var *v = &lw->leaf->vars.v[k];
        if (strcmp(v->name, name) == 0 && strcmp(v->sub, lw->sub) == 0)
            return &lw->to->params[first + k];
    }
    return NULL;
}

pg_status pg__lower_param(pg__lowering *lw, const char *name, uint32_t rank, const uint64_t *dims,
                          pg__val *out, pg_err *err)
{
    const pg__dims shape = pg__dims_of(rank, dims);
    pg__param *p = find_param(lw, name);
    pg_status st = PG_OK;
    if (!p)
        return pg_fail(err, PG_E_FORMAT, "%s: has no variable \"%s\"",
                       PG_SHOW(lw->leaf->layer->name), name);
    if (p->is_built && !pg__dims_equal(&p->shape, &shape))
        return pg_fail(err, PG_E_MISMATCH,
                       "%s: called with inputs of different sizes: %s is %s and %s",
                       PG_SHOW(lw->leaf->layer->name), name, PG_SHAPE(&p->shape), PG_SHAPE(&shape));
    p->shape = shape;
    p->is_built = 1;
    if (p->value == PG_NO_VAL) {
        p->device = lw->to->tape.device;
        PG_TRY(pg__tape_value(&lw->to->tape, &shape, PG_ELEM_REAL, PG_PARAM,
                              (uint32_t)(p - lw->to->params), p->trained && lw->opts->training,
                              &p->value, err));
    }
    *out = p->value;
done:
    return st;
}

/* ---- states of stateful layers ---- */

static pg__state *find_state(const pg__lowering *lw, uint32_t k)
{
    for (size_t i = 0; i < lw->to->n_states; i++) {
        pg__state *s = &lw->to->states[i];
        if (s->leaf == lw->leaf && s->k == k && strcmp(s->sub, lw->sub) == 0)
            return s;
    }
    return NULL;
}

pg_status pg__lower_state(pg__lowering *lw, uint32_t k, const uint64_t dims[2], pg__val *out,
                          pg_err *err)
{
    pg__lowered *to = lw->to;
    const pg__dims shape = pg__dims_of(2, dims);
    const pg__state *known = find_state(lw, k);
    pg_status st = PG_OK;
    if (known) { /* a second call continues from the end of the first */
        *out = known->after;
        return PG_OK;
    }
    if (pg__mem_grow(&to->states, &to->cap_states, to->n_states + 1, sizeof *to->states))
        return pg__nomem(err);
    pg__state *s = &to->states[to->n_states];
    *s = (pg__state){.leaf = lw->leaf, .sub = lw->sub, .k = k};
    PG_TRY(pg__tape_value(&to->tape, &shape, PG_ELEM_REAL, PG_STATE, (uint32_t)to->n_states, 0,
                          &s->before, err));
    *out = s->after = s->before;
    to->n_states++;
done:
    return st;
}

void pg__keep_state(pg__lowering *lw, uint32_t k, pg__val now)
{
    pg__state *s = find_state(lw, k);
    if (s)
        s->after = now;
}

/* ---- facts about a value besides its shape ---- */

static pg_status origin_at(pg__lowering *lw, pg__val v, pg__origin **out, pg_err *err)
{
    const size_t had = lw->to->cap_origins;
    if (pg__mem_grow(&lw->to->origins, &lw->to->cap_origins, (size_t)v + 1,
                     sizeof *lw->to->origins))
        return pg__nomem(err);
    for (size_t i = had; i < lw->to->cap_origins; i++)
        lw->to->origins[i] = (pg__origin){PG_NOT_SQUASHED, PG_NO_VAL, PG_NO_VAL};
    *out = &lw->to->origins[v];
    return PG_OK;
}

pg__val pg__mask_of(const pg__lowering *lw, pg__val v)
{
    return v < lw->to->cap_origins ? lw->to->origins[v].mask : PG_NO_VAL;
}

pg_status pg__set_mask(pg__lowering *lw, pg__val v, pg__val mask, pg_err *err)
{
    pg__origin *o = NULL;
    const pg_status st = origin_at(lw, v, &o, err);
    if (st == PG_OK)
        o->mask = mask;
    return st;
}

pg_status pg__pass_mask(pg__lowering *lw, pg__val from, pg__val to, pg_err *err)
{
    const pg__val mask = pg__mask_of(lw, from);
    return mask == PG_NO_VAL ? PG_OK : pg__set_mask(lw, to, mask, err);
}

pg_status pg__set_logits(pg__lowering *lw, pg__val v, pg__squash squash, pg__val logits,
                         pg_err *err)
{
    pg__origin *o = NULL;
    const pg_status st = origin_at(lw, v, &o, err);
    if (st == PG_OK)
        o->squash = squash, o->logits = logits;
    return st;
}

pg_status pg__lower_one_input(const pg__layer *l, size_t n_in, pg_err *err)
{
    if (n_in == 1)
        return PG_OK;
    return pg_fail(err, PG_E_FORMAT, "%s: %s takes one tensor, is called with %zu",
                   PG_SHOW(l->name), l->class_name, n_in);
}

pg_status pg__lower_moving(pg__lowering *lw, pg__val param, pg__val value, double momentum,
                           pg_err *err)
{
    pg__lowered *to = lw->to;
    const size_t n = lw->runs ? lw->runs : 1;
    if (pg__mem_grow(&to->moving, &to->cap_moving, to->n_moving + n, sizeof *to->moving))
        return pg__nomem(err);
    for (size_t k = 0; k < n; k++)
        to->moving[to->n_moving++] = (pg__moving){
            .param = to->tape.values[param].slot, .value = value, .momentum = momentum};
    return PG_OK;
}

/* Keras asks the inner layer for either of these. */
static const pg__param *find_kernel(const pg__lowering *lw, const pg__layer *inner)
{
    pg__lowering at = *lw;
    at.sub = inner->name;
    const pg__param *p = find_param(&at, "kernel");
    return p ? p : find_param(&at, "embeddings");
}

pg_status pg__lower_spectral_of(pg__lowering *lw, const pg__layer *inner, size_t iterations,
                                pg_err *err)
{
    pg__lowered *to = lw->to;
    const pg__param *kernel = find_kernel(lw, inner);
    const char *name = lw->leaf->layer->name;
    pg__val u;
    pg_status st = PG_OK;
    if (!kernel || !kernel->is_built || kernel->shape.rank == 0)
        PG_FAIL(PG_E_UNSUPPORTED, "%s: normalises a %s, which has no kernel", PG_SHOW(name),
                PG_SHOW(inner->class_name));
    const uint64_t dims[] = {1, kernel->shape.d[kernel->shape.rank - 1]};
    PG_TRY(pg__lower_param(lw, "vector_u", 2, dims, &u, err));
    if (!lw->training)
        return PG_OK;
    const pg__spectral s = {(size_t)(kernel - to->params), to->tape.values[u].slot, iterations,
                            lw->by_steps || lw->fold > 1};
    for (size_t i = 0; i < to->n_spectral; i++)
        if (to->spectral[i].kernel == s.kernel) {
            to->spectral[i].is_repeated = 1;
            return PG_OK;
        }
    if (pg__mem_grow(&to->spectral, &to->cap_spectral, to->n_spectral + 1, sizeof *to->spectral))
        PG_TRY(pg__nomem(err));
    to->spectral[to->n_spectral++] = s;
done:
    return st;
}

/* ---- operations that many families append ---- */

pg_status pg__lower_step(pg__lowering *lw, pg__val *out, pg_err *err)
{
    const pg__dims shape = pg__dims_of(1, (const uint64_t[]){PG_STEP_N});
    pg_status st = PG_OK;
    if (lw->to->step == PG_NO_VAL)
        PG_TRY(pg__tape_value(&lw->to->tape, &shape, PG_ELEM_INT, PG_PER_STEP, 0, 0, &lw->to->step,
                              err));
    *out = lw->to->step;
done:
    return st;
}

pg_status pg__lower_dropout_of(pg__lowering *lw, pg__val x, double rate, const pg__dims *noise,
                               int rows_share, pg__val *out, pg_err *err)
{
    const pg__dropout_attrs a = {.rate = rate,
                                 .stream = lw->to->n_streams++,
                                 .rows_share = rows_share,
                                 .fold = lw->fold,
                                 .noise = *noise};
    pg__val step;
    pg_status st = PG_OK;
    *out = x;
    if (!lw->training || rate <= 0)
        return PG_OK;
    PG_TRY(pg__lower_step(lw, &step, err));
    PG_TRY(pg__emit2(&lw->to->tape, PG_OP_dropout, &a, x, step, out, err));
done:
    return st;
}

pg_status pg__lower_normal(pg__lowering *lw, const pg__dims *shape, pg__val *out, pg_err *err)
{
    const pg__normal_attrs a = {.stream = lw->to->n_streams++, .shape = *shape, .fold = lw->fold};
    pg__val step;
    pg_status st = PG_OK;
    *out = PG_NO_VAL;
    if (!lw->training)
        return PG_OK;
    PG_TRY(pg__lower_step(lw, &step, err));
    PG_TRY(pg__emit1(&lw->to->tape, PG_OP_normal, &a, step, out, err));
done:
    return st;
}

pg_status pg__lower_factors(pg__lowering *lw, double rate, const pg__dims *shape, pg__val *out,
                            pg_err *err)
{
    return pg__lower_noise(lw, rate, shape, 0, out, err);
}

pg_status pg__lower_noise(pg__lowering *lw, double rate, const pg__dims *shape, int rows_share,
                          pg__val *out, pg_err *err)
{
    const double one = 1;
    const pg__dims single = pg__dims_of(1, &(const uint64_t){1});
    const pg__spread_attrs all = {.to = *shape};
    pg_status st = PG_OK;
    *out = PG_NO_VAL;
    if (!lw->training || rate <= 0)
        return PG_OK;
    PG_TRY(pg__lower_constant(lw, &single, &one, out, err));
    PG_TRY(pg__emit1(&lw->to->tape, PG_OP_spread, &all, *out, out, err));
    PG_TRY(pg__lower_dropout_of(lw, *out, rate, shape, rows_share, out, err));
done:
    return st;
}

pg_status pg__lower_constant(pg__lowering *lw, const pg__dims *shape, const double *values,
                             pg__val *out, pg_err *err)
{
    const size_t n = (size_t)pg__dims_elems(shape);
    double *copy = pg__mem_array(n, sizeof *copy);
    pg_status st = PG_OK;
    if (copy)
        memcpy(copy, values, n * sizeof *copy);
    PG_TRY(pg__tape_own(&lw->to->tape, copy, err));
    const pg__constant_attrs a = {.shape = *shape, .values = copy};
    PG_TRY(pg__emit(&lw->to->tape, PG_OP_constant, &a, NULL, 0, out, err));
done:
    return st;
}

pg_status pg__lower_binary(pg__lowering *lw, pg__binary_kind kind, pg__val a, pg__val b,
                           pg__val *out, pg_err *err)
{
    if (kind == PG_ADD && pg__dims_equal(pg__dims_at(lw, a), pg__dims_at(lw, b)))
        return pg__emit2(&lw->to->tape, PG_OP_add, NULL, a, b, out, err);
    return pg__emit2(&lw->to->tape, PG_OP_binary, &(pg__binary_attrs){kind}, a, b, out, err);
}

static pg_status cast(pg__lowering *lw, pg__val x, pg__elem to, pg__val *out, pg_err *err)
{
    const pg__cast_attrs a = {.from = lw->to->tape.values[x].elem, .to = to};
    pg_status st = PG_OK;
    *out = x;
    if (a.from == to)
        return PG_OK;
    PG_TRY(pg__emit1(&lw->to->tape, PG_OP_cast, &a, x, out, err));
    PG_TRY(pg__pass_mask(lw, x, *out, err));
done:
    return st;
}
pg_status pg__lower_as_real(pg__lowering *lw, pg__val x, pg__val *out, pg_err *err)
{
    return cast(lw, x, PG_ELEM_REAL, out, err);
}
pg_status pg__lower_as_ids(pg__lowering *lw, pg__val x, pg__val *out, pg_err *err)
{
    return cast(lw, x, PG_ELEM_INT, out, err);
}

pg_status pg__lower_reshape(pg__lowering *lw, pg__val x, const pg__dims *to, pg__val *out,
                            pg_err *err)
{
    const pg__reshape_attrs attrs = {.to = *to};
    if (pg__dims_equal(pg__dims_at(lw, x), to)) {
        *out = x;
        return PG_OK;
    }
    return pg__emit1(&lw->to->tape, PG_OP_reshape, &attrs, x, out, err);
}

pg_status pg__lower_copy(pg__lowering *lw, pg__val x, pg__val *out, pg_err *err)
{
    const pg__reshape_attrs same = {.to = *pg__dims_at(lw, x)};
    *out = x;
    return x < lw->to->cap_origins && lw->to->origins[x].squash != PG_NOT_SQUASHED
               ? pg__emit1(&lw->to->tape, PG_OP_reshape, &same, x, out, err)
               : PG_OK;
}

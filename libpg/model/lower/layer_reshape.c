/* layer_reshape.c - layers that reshape, reorder or repeat elements: Flatten, Reshape, Permute,
 * RepeatVector. */
#include "base/try.h"
#include "model/lower/layers.h"
#include "model/lower/spatial.h"

/* (rows, product of the rest); channels_first inputs are put in the order of channels_last. */
pg_status pg__lower_flatten(pg__lowering *lw, const pg__layer *l, const pg__val *in, size_t n_in,
                            pg__results *out, pg_err *err)
{
    pg_status st = PG_OK;
    PG_TRY(pg__lower_one_input(l, n_in, err));
    pg__val from = in[0];
    if (pg__dims_at(lw, from)->rank > 2)
        PG_TRY(pg__to_channels_last(lw, l, pg__dims_at(lw, from)->rank - 2, from, &from, err));
    const pg__dims *x = pg__dims_at(lw, from);
    pg__dims to = {.rank = 2, .d = {x->rank > 0 ? x->d[0] : 1, 1}};
    for (uint32_t i = 1; i < x->rank; i++)
        to.d[1] = pg__dim_mul(to.d[1], x->d[i]);
    out->n = 1;
    PG_TRY(pg__lower_reshape(lw, from, &to, &out->v[0], err));
    if (out->v[0] == in[0])
        PG_TRY(pg__lower_copy(lw, in[0], &out->v[0], err));
done:
    return st;
}

/* target_shape without the batch; one -1 takes what is left. */
pg_status pg__lower_reshape_layer(pg__lowering *lw, const pg__layer *l, const pg__val *in,
                                  size_t n_in, pg__results *out, pg_err *err)
{
    const pg__json *target = pg__json_get(l->config, "target_shape");
    const size_t n = pg__json_len(target);
    uint64_t known = 1, total = 1;
    size_t free_at = SIZE_MAX;
    pg__dims to = {.rank = 1 + (uint32_t)n};
    pg_status st = PG_OK;
    PG_TRY(pg__lower_one_input(l, n_in, err));
    const pg__dims *x = pg__dims_at(lw, in[0]);
    if (pg__json_type_of(target) != PG_J_ARRAY || n >= PG_MAX_RANK || x->rank < 1)
        PG_FAIL(PG_E_FORMAT, "%s: \"target_shape\" is not a list of at most %d numbers",
                PG_SHOW(l->name), PG_MAX_RANK - 1);
    to.d[0] = x->d[0];
    for (uint32_t i = 1; i < x->rank; i++)
        total = pg__dim_mul(total, x->d[i]);
    for (size_t i = 0; i < n; i++) {
        int64_t v;
        if (!pg__json_int(pg__json_at(target, i), &v) || v < -1 || (v < 0 && free_at != SIZE_MAX))
            PG_FAIL(PG_E_FORMAT, "%s: \"target_shape\" holds something other than sizes",
                    PG_SHOW(l->name));
        if (v < 0)
            free_at = i;
        else
            known = pg__dim_mul(known, to.d[i + 1] = (uint64_t)v);
    }
    if (free_at != SIZE_MAX)
        to.d[free_at + 1] =
            total == PG_DIM_ANY || known == 0 || total % known ? PG_DIM_ANY : total / known;
    out->n = 1;
    PG_TRY(pg__lower_reshape(lw, in[0], &to, &out->v[0], err));
    if (out->v[0] == in[0])
        PG_TRY(pg__lower_copy(lw, in[0], &out->v[0], err));
done:
    return st;
}

/* dims counts from 1 and leaves the rows where they are. */
pg_status pg__lower_permute(pg__lowering *lw, const pg__layer *l, const pg__val *in, size_t n_in,
                            pg__results *out, pg_err *err)
{
    const pg__json *dims = pg__json_get(l->config, "dims");
    uint32_t perm[PG_MAX_RANK] = {0};
    pg_status st = PG_OK;
    PG_TRY(pg__lower_one_input(l, n_in, err));
    const uint32_t rank = pg__dims_at(lw, in[0])->rank;
    for (uint32_t i = 1; i < rank; i++) {
        int64_t axis = 0;
        if (pg__json_len(dims) + 1 != rank || !pg__json_int(pg__json_at(dims, i - 1), &axis) ||
            axis < 1 || axis >= rank)
            PG_FAIL(PG_E_FORMAT, "%s: \"dims\" is not an order of %u axes", PG_SHOW(l->name),
                    rank - 1);
        perm[i] = (uint32_t)axis;
    }
    out->n = 1;
    PG_TRY(pg__lower_transpose(lw, in[0], perm, &out->v[0], err));
done:
    return st;
}

/* (rows, features) to (rows, n, features) */
pg_status pg__lower_repeat_vector(pg__lowering *lw, const pg__layer *l, const pg__val *in,
                                  size_t n_in, pg__results *out, pg_err *err)
{
    uint64_t n;
    pg__val x;
    pg_status st = PG_OK;
    PG_TRY(pg__lower_one_input(l, n_in, err));
    PG_TRY(pg__config_dim(&n, l, "n", err));
    const pg__dims *s = pg__dims_at(lw, in[0]);
    if (s->rank != 2)
        PG_FAIL(PG_E_MISMATCH, "input %s does not have two dimensions", PG_SHAPE(s));
    const pg__dims one = {.rank = 3, .d = {s->d[0], 1, s->d[1]}};
    const pg__spread_attrs a = {.to = {.rank = 3, .d = {s->d[0], n, s->d[1]}}};
    PG_TRY(pg__lower_reshape(lw, in[0], &one, &x, err));
    out->n = 1;
    PG_TRY(pg__emit1(&lw->to->tape, PG_OP_spread, &a, x, &out->v[0], err));
done:
    return st;
}

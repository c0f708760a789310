/* layer_product.c - Dot: the product of two inputs along an axis of each, row by row. Sources:
 * keras/layers/merging/dot.py of 2.15 and 3.6, which both drop masks. */
#include <math.h>

#include "base/try.h"
#include "model/layers.h"
#include "model/spatial.h"

/* "axes": one for both, or a list of two; counted from the end where negative, never the rows. */
static pg_status read_axes(pg__lowering *lw, const pg__layer *l, const pg__val *in, uint32_t *axes,
                           pg_err *err)
{
    const pg__json *j =
        pg__json_get(l->config, pg__config_has(l, "dot_axes") ? "dot_axes" : "axes");
    const int is_list = pg__json_type_of(j) == PG_J_ARRAY;
    for (size_t k = 0; k < 2; k++) {
        const uint32_t rank = pg__dims_at(lw, in[k])->rank;
        int64_t v = 0;
        if (!pg__json_int(is_list ? pg__json_at(j, k) : j, &v) || (is_list && pg__json_len(j) != 2))
            return pg_fail(err, PG_E_FORMAT, "%s: \"axes\" is no axis and no pair of them",
                           PG_SHOW(l->name));
        if (v < 0)
            v += rank;
        if (v < 1 || v >= rank)
            return pg_fail(err, PG_E_MISMATCH, "no axis %lld behind the rows of the input %s",
                           (long long)v, PG_SHAPE(pg__dims_at(lw, in[k])));
        axes[k] = (uint32_t)v;
    }
    return PG_OK;
}

/* The axis comes last; *rest is what stands before it. */
static pg_status axis_last(pg__lowering *lw, pg__val *x, uint32_t axis, pg_err *err)
{
    const uint32_t rank = pg__dims_at(lw, *x)->rank;
    uint32_t perm[PG_MAX_RANK] = {0};
    if (axis + 1 == rank)
        return PG_OK;
    for (uint32_t i = 0; i < rank; i++)
        perm[i] = i + 1 == rank ? axis : i < axis ? i : i + 1;
    return pg__lower_transpose(lw, *x, perm, x, err);
}

/* x by its length along the last axis. Layer normalisation of x and -x side by side, whose mean is
 * 0, is x / sqrt(sum x^2 / n + epsilon). Keras has a bound of 1e-12 (2.15) or 1e-14 for the sum. */
static pg_status normalise(pg__lowering *lw, pg__val *x, pg_err *err)
{
    const pg__dims d = *pg__dims_at(lw, *x);
    const uint32_t last = d.rank - 1;
    const double n = (double)d.d[last];
    const pg__layer_norm_attrs norm = {.n_axes = 1,
                                       .epsilon = (lw->opts->rules->keras3 ? 1e-14 : 1e-12) / n};
    const pg__affine_attrs minus = {-1, 0}, share = {1 / sqrt(n), 0};
    pg__pad_attrs half = {.before = {0}};
    pg__val sides[2] = {*x}, both[3];
    pg_status st = PG_OK;
    half.after[last] = -(int64_t)d.d[last];
    PG_TRY(pg__emit1(&lw->to->tape, PG__OP_affine, &minus, *x, &sides[1], err));
    PG_TRY(pg__emit(&lw->to->tape, PG__OP_concat, &(pg__concat_attrs){last}, sides, 2, both, err));
    const pg__val in[] = {both[0], PG__NO_VAL, PG__NO_VAL};
    PG_TRY(pg__emit(&lw->to->tape, PG__OP_layer_norm, &norm, in, 3, both, err));
    PG_TRY(pg__emit1(&lw->to->tape, PG__OP_pad, &half, both[0], x, err));
    PG_TRY(pg__emit1(&lw->to->tape, PG__OP_affine, &share, *x, x, err));
done:
    return st;
}

/* (rows, all between, last) */
static pg_status flatten(pg__lowering *lw, pg__val *x, pg_err *err)
{
    const pg__dims d = *pg__dims_at(lw, *x);
    pg__dims to = {.rank = 3, .d = {d.d[0], 1, d.d[d.rank - 1]}};
    for (uint32_t i = 1; i + 1 < d.rank; i++)
        to.d[1] = pg__dim_mul(to.d[1], d.d[i]);
    return pg__lower_reshape(lw, *x, &to, x, err);
}

pg_status pg__lower_dot(pg__lowering *lw, const pg__layer *l, const pg__val *in, size_t n_in,
                        pg__results *out, pg_err *err)
{
    pg__val x[2];
    uint32_t axes[2];
    pg__dims to = {.rank = 1};
    pg_status st = PG_OK;
    if (n_in != 2)
        PG_FAIL(PG_E_FORMAT, "%s: %s is called with %zu tensors, takes two", PG_SHOW(l->name),
                l->class_name, n_in);
    PG_TRY(read_axes(lw, l, in, axes, err));
    to.d[0] = pg__dims_at(lw, in[0])->d[0];
    for (size_t k = 0; k < 2; k++) {
        x[k] = in[k];
        PG_TRY(axis_last(lw, &x[k], axes[k], err));
        const pg__dims d = *pg__dims_at(lw, x[k]);
        for (uint32_t i = 1; i + 1 < d.rank; i++) {
            if (to.rank == PG_MAX_RANK)
                PG_FAIL(PG_E_LIMIT, "%s: gives more than %d dimensions", PG_SHOW(l->name),
                        PG_MAX_RANK);
            to.d[to.rank++] = d.d[i];
        }
        if (pg__config_bool(l, "normalize", 0)) {
            if (d.d[d.rank - 1] == PG_DIM_ANY || d.d[d.rank - 1] == 0)
                PG_FAIL(PG_E_MISMATCH, "input %s needs a known axis %u", PG_SHAPE(&d), axes[k]);
            PG_TRY(normalise(lw, &x[k], err));
        }
        PG_TRY(flatten(lw, &x[k], err));
    }
    if (to.rank == 1)
        to.d[to.rank++] = 1;
    PG_TRY(pg__emit2(&lw->to->tape, PG__OP_matmul, &(pg__matmul_attrs){0, 1}, x[0], x[1], x, err));
    out->n = 1;
    PG_TRY(pg__lower_reshape(lw, x[0], &to, &out->v[0], err));
done:
    return st;
}

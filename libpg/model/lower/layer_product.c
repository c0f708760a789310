/* layer_product.c - Dot: the product of two inputs along an axis of each, row by row. Sources:
 * keras/layers/merging/dot.py of 2.15 and 3.6, which both drop masks. */
#include <string.h>

#include "base/try.h"
#include "model/lower/layers.h"
#include "model/lower/spatial.h"

/* "axes": one for both, or a list of two; counted from the end if negative, never the rows. */
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
            return pg_fail(err, PG_E_FORMAT, "%s: \"axes\" must be one axis or two",
                           PG_SHOW(l->name));
        if (v < 0)
            v += rank;
        if (v < 1 || v >= rank)
            return pg_fail(err, PG_E_MISMATCH, "no axis %lld after the batch axis of the input %s",
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

/* 1 / sqrt(max(x, least)) */
static pg_status one_by_root(pg__lowering *lw, double least, pg__val x, pg__val *out, pg_err *err)
{
    const pg__dims single = pg__dims_of(1, &(const uint64_t){1});
    const pg__act_attrs rsqrt = {.kind = PG_ACT_RSQRT};
    pg__val bound;
    pg_status st = PG_OK;
    PG_TRY(pg__lower_constant(lw, &single, &least, &bound, err));
    PG_TRY(pg__lower_binary(lw, PG_MAXIMUM, x, bound, out, err));
    PG_TRY(pg__emit1(&lw->to->tape, PG_OP_act, &rsqrt, *out, out, err));
done:
    return st;
}

/* x divided by its length along the last axis, for which Keras has a minimum. */
static pg_status normalise(pg__lowering *lw, pg__val *x, pg_err *err)
{
    pg__spread_attrs sum = {.to = *pg__dims_at(lw, *x)};
    pg__val squares;
    pg_status st = PG_OK;
    sum.to.d[sum.to.rank - 1] = 1;
    PG_TRY(pg__lower_binary(lw, PG_MULTIPLY, *x, *x, &squares, err));
    PG_TRY(pg__emit1(&lw->to->tape, PG_OP_sum_to, &sum, squares, &squares, err));
    PG_TRY(one_by_root(lw, lw->opts->rules->keras3 ? 1e-14 : 1e-12, squares, &squares, err));
    PG_TRY(pg__lower_binary(lw, PG_MULTIPLY, *x, squares, x, err));
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

static pg_status dot(pg__lowering *lw, const pg__layer *l, const pg__val *in, size_t n_in,
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
        if (pg__config_bool(l, "normalize", 0))
            PG_TRY(normalise(lw, &x[k], err));
        PG_TRY(flatten(lw, &x[k], err));
    }
    if (to.rank == 1)
        to.d[to.rank++] = 1;
    PG_TRY(pg__emit2(&lw->to->tape, PG_OP_matmul, &(pg__matmul_attrs){0, 1}, x[0], x[1], x, err));
    out->n = 1;
    PG_TRY(pg__lower_reshape(lw, x[0], &to, &out->v[0], err));
done:
    return st;
}

/* "cos" of Keras 1's Merge, of vectors: their product by the root of those with themselves. */
static pg_status cosine(pg__lowering *lw, const pg__layer *l, const pg__val *in, size_t n_in,
                        pg__results *out, pg_err *err)
{
    static const size_t pairs[][2] = {{0, 1}, {0, 0}, {1, 1}};
    pg__results dots[3];
    pg__val scale;
    pg_status st = PG_OK;
    if (n_in != 2 || pg__dims_at(lw, in[0])->rank != 2 || pg__dims_at(lw, in[1])->rank != 2)
        PG_FAIL(PG_E_UNSUPPORTED,
                "%s: Merge by \"cos\" of anything but two vectors is not supported",
                PG_SHOW(l->name));
    for (size_t k = 0; k < 3; k++)
        PG_TRY(dot(lw, l, (const pg__val[]){in[pairs[k][0]], in[pairs[k][1]]}, 2, &dots[k], err));
    const pg__dims to =
        pg__dims_of(3, (const uint64_t[]){pg__dims_at(lw, dots[0].v[0])->d[0], 1, 1});
    PG_TRY(pg__lower_binary(lw, PG_MULTIPLY, dots[1].v[0], dots[2].v[0], &scale, err));
    PG_TRY(one_by_root(lw, 1e-14, scale, &scale, err));
    PG_TRY(pg__lower_binary(lw, PG_MULTIPLY, dots[0].v[0], scale, &scale, err));
    out->n = 1;
    PG_TRY(pg__lower_reshape(lw, scale, &to, &out->v[0], err));
done:
    return st;
}

pg_status pg__lower_dot(pg__lowering *lw, const pg__layer *l, const pg__val *in, size_t n_in,
                        pg__results *out, pg_err *err)
{
    const char *mode = pg__json_get_str(l->config, "mode"); /* of a Merge */
    return mode && strcmp(mode, "cos") == 0 ? cosine(lw, l, in, n_in, out, err)
                                            : dot(lw, l, in, n_in, out, err);
}

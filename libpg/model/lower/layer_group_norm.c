/* layer_group_norm.c - GroupNormalization, UnitNormalization, RMSNormalization. Sources:
 * keras/layers/normalization of 2.15 and 3.6, of 3.10 for RMSNormalization. */
#include "base/try.h"
#include "model/lower/layers.h"
#include "model/lower/norms.h"
#include "model/lower/spatial.h"

static pg__tape *tape(pg__lowering *lw)
{
    return &lw->to->tape;
}

/* ---- groups of channels ---- */

typedef struct groups {
    uint32_t axis, rank;
    uint64_t n, channels;
    double epsilon;
} groups;

/* "groups" may be -1: as many as channels. */
static pg_status read_groups(groups *g, pg__lowering *lw, const pg__layer *l, pg__val x,
                             pg_err *err)
{
    const pg__dims *d = pg__dims_at(lw, x);
    const pg__json *j = pg__json_get(l->config, "groups");
    int64_t n = 32;
    pg_status st = PG_OK;
    g->rank = d->rank;
    if (d->rank < 2)
        PG_FAIL(PG_E_MISMATCH, "input %s has no channels", PG_SHAPE(d));
    PG_TRY(pg__config_axis(&g->axis, l, "axis", -1, g->rank, err));
    PG_TRY(pg__config_num_or(&g->epsilon, l, l->config, "epsilon", 1e-3, err));
    g->channels = d->d[g->axis];
    if (g->axis == 0 || g->channels == PG_DIM_ANY || g->channels == 0)
        PG_FAIL(PG_E_MISMATCH, "input %s needs a known size along the axis %u", PG_SHAPE(d),
                g->axis);
    if (pg__json_type_of(j) > PG_J_NULL && !pg__json_int(j, &n))
        n = 0;
    g->n = n == -1 ? g->channels : (uint64_t)n;
    if (n < -1 || n == 0 || g->channels % g->n != 0)
        PG_FAIL(PG_E_FORMAT, "%s: \"groups\" does not divide the %llu channels", PG_SHOW(l->name),
                (unsigned long long)g->channels);
    if (pg__mask_of(lw, x) != PG_NO_VAL && !lw->opts->rules->keras3)
        PG_FAIL(PG_E_UNSUPPORTED,
                "%s: masked steps, which Keras 2 takes for a mask of channels, are not supported",
                PG_SHOW(l->name));
done:
    return st;
}

/* x with its channels last, as (rows, cells, groups, channels of one). */
static pg_status in_groups(pg__lowering *lw, const groups *g, pg__val x, pg__dims *turned,
                           pg__val *out, pg_err *err)
{
    uint32_t perm[PG_MAX_RANK] = {0};
    uint64_t cells = 1;
    pg_status st = PG_OK;
    for (uint32_t i = 1; i + 1 < g->rank; i++)
        perm[i] = i < g->axis ? i : i + 1;
    perm[g->rank - 1] = g->axis;
    *out = x;
    if (g->axis + 1 != g->rank)
        PG_TRY(pg__lower_transpose(lw, x, perm, out, err));
    *turned = *pg__dims_at(lw, *out);
    for (uint32_t i = 1; i + 1 < g->rank; i++)
        cells = pg__dim_mul(cells, turned->d[i]);
    const pg__dims to =
        pg__dims_of(4, (const uint64_t[]){turned->d[0], cells, g->n, g->channels / g->n});
    PG_TRY(pg__lower_reshape(lw, *out, &to, out, err));
done:
    return st;
}

/* y in groups, as x was; gamma and beta are given channel by channel. */
static pg_status out_of_groups(pg__lowering *lw, const pg__layer *l, const groups *g,
                               const pg__dims *turned, pg__val y, pg__val *out, pg_err *err)
{
    uint32_t perm[PG_MAX_RANK] = {0};
    pg__val param;
    pg_status st = PG_OK;
    PG_TRY(pg__lower_reshape(lw, y, turned, out, err));
    if (pg__config_bool(l, "scale", 1)) {
        PG_TRY(pg__lower_param(lw, "gamma", 1, &g->channels, &param, err));
        PG_TRY(pg__lower_binary(lw, PG_MULTIPLY, *out, param, out, err));
    }
    if (pg__config_bool(l, "center", 1)) {
        PG_TRY(pg__lower_param(lw, "beta", 1, &g->channels, &param, err));
        PG_TRY(pg__lower_binary(lw, PG_ADD, *out, param, out, err));
    }
    for (uint32_t i = 1; i < g->rank; i++)
        perm[i] = i < g->axis ? i : i == g->axis ? g->rank - 1 : i - 1;
    if (g->axis + 1 != g->rank)
        PG_TRY(pg__lower_transpose(lw, *out, perm, out, err));
done:
    return st;
}

/* Each group of a row is normalised as a layer normalisation does it. */
pg_status pg__lower_group_norm(pg__lowering *lw, const pg__layer *l, const pg__val *in, size_t n_in,
                               pg__results *out, pg_err *err)
{
    static const uint32_t swap[PG_MAX_RANK] = {0, 2, 1, 3};
    groups g;
    pg__dims turned;
    pg__val x, y[3];
    pg_status st = PG_OK;
    PG_TRY(pg__lower_one_input(l, n_in, err));
    PG_TRY(read_groups(&g, lw, l, in[0], err));
    PG_TRY(in_groups(lw, &g, in[0], &turned, &x, err));
    const pg__layer_norm_attrs a = {.n_axes = 2, .epsilon = g.epsilon};
    const int moves = g.n > 1 && pg__dims_at(lw, x)->d[1] != 1;
    const pg__dims cells = *pg__dims_at(lw, x);
    const pg__dims to =
        pg__dims_of(4, (const uint64_t[]){cells.d[0], cells.d[2], cells.d[1], cells.d[3]});
    PG_TRY(moves ? pg__lower_transpose(lw, x, swap, &x, err)
                 : pg__lower_reshape(lw, x, &to, &x, err));
    const pg__val operands[3] = {x, PG_NO_VAL, PG_NO_VAL};
    PG_TRY(pg__emit(tape(lw), PG_OP_layer_norm, &a, operands, 3, y, err));
    PG_TRY(moves ? pg__lower_transpose(lw, y[0], swap, &y[0], err)
                 : pg__lower_reshape(lw, y[0], &cells, &y[0], err));
    out->n = 1;
    PG_TRY(out_of_groups(lw, l, &g, &turned, y[0], &out->v[0], err));
    PG_TRY(pg__pass_mask(lw, in[0], out->v[0], err));
done:
    return st;
}

/* ---- by a root of squares ---- */

/* Axes of one row that are looked at together. */
typedef struct together {
    unsigned axes;
    pg__dims kept;  /* x's shape with 1 along them */
    pg__dims along; /* sizes of them alone */
    double n;       /* elements */
} together;

static pg_status read_together(together *t, pg__lowering *lw, const pg__layer *l, pg__val x,
                               pg_err *err)
{
    const pg__dims *d = pg__dims_at(lw, x);
    pg_status st = PG_OK;
    PG_TRY(pg__norm_axes(&t->axes, l, d->rank, err));
    t->kept = *d;
    t->along = (pg__dims){.rank = 0};
    t->n = 1;
    for (uint32_t i = 0; i < d->rank; i++) {
        if (!(t->axes >> i & 1))
            continue;
        if (d->d[i] == PG_DIM_ANY)
            PG_FAIL(PG_E_MISMATCH, "input %s: the normalised axes need known sizes", PG_SHAPE(d));
        t->along.d[t->along.rank++] = d->d[i];
        t->n *= (double)d->d[i];
        t->kept.d[i] = 1;
    }
    /* Keras gives a parameter the sizes in the order in which the config names the axes, and reads
     * its numbers in the order of the input. */
    const pg__json *axis = pg__json_get(l->config, "axis");
    for (uint32_t i = 0; i < t->along.rank && pg__json_len(axis) == t->along.rank; i++) {
        int64_t v = 0;
        if (pg__json_int(pg__json_at(axis, i), &v))
            t->along.d[i] = d->d[v < 0 ? v + d->rank : v];
    }
done:
    return st;
}

static pg_status sum_of_squares(pg__lowering *lw, const together *t, pg__val x, pg__val *out,
                                pg_err *err)
{
    const pg__spread_attrs kept = {.to = t->kept};
    pg_status st = PG_OK;
    PG_TRY(pg__lower_binary(lw, PG_MULTIPLY, x, x, out, err));
    PG_TRY(pg__emit1(tape(lw), PG_OP_sum_to, &kept, *out, out, err));
done:
    return st;
}

/* x / sqrt(root) */
static pg_status by_root(pg__lowering *lw, pg__val x, pg__val root, pg__val *out, pg_err *err)
{
    const pg__act_attrs rsqrt = {.kind = PG_ACT_RSQRT};
    pg_status st = PG_OK;
    PG_TRY(pg__emit1(tape(lw), PG_OP_act, &rsqrt, root, &root, err));
    PG_TRY(pg__lower_binary(lw, PG_MULTIPLY, x, root, out, err));
done:
    return st;
}

/* y times the parameter, whose axes are those that are normalised together. */
static pg_status scaled(pg__lowering *lw, const together *t, const char *name, pg__val y,
                        pg__val *out, pg_err *err)
{
    pg__dims to = *pg__dims_at(lw, y);
    pg__val param;
    pg_status st = PG_OK;
    PG_TRY(pg__lower_param(lw, name, t->along.rank, t->along.d, &param, err));
    for (uint32_t i = 0; i < to.rank; i++)
        to.d[i] = t->axes >> i & 1 ? to.d[i] : 1;
    PG_TRY(pg__lower_reshape(lw, param, &to, &param, err));
    PG_TRY(pg__lower_binary(lw, PG_MULTIPLY, y, param, out, err));
done:
    return st;
}

/* The sum of squares is at least 1e-12 (Keras 3: its root is). */
pg_status pg__lower_unit_norm(pg__lowering *lw, const pg__layer *l, const pg__val *in, size_t n_in,
                              pg__results *out, pg_err *err)
{
    const double least = lw->opts->rules->keras3 ? 1e-24 : 1e-12;
    const pg__dims scalar = pg__dims_of(1, (const uint64_t[]){1});
    together t;
    pg__val sum, floor;
    pg_status st = PG_OK;
    PG_TRY(pg__lower_one_input(l, n_in, err));
    PG_TRY(read_together(&t, lw, l, in[0], err));
    PG_TRY(sum_of_squares(lw, &t, in[0], &sum, err));
    PG_TRY(pg__lower_constant(lw, &scalar, &least, &floor, err));
    PG_TRY(pg__lower_binary(lw, PG_MAXIMUM, sum, floor, &sum, err));
    out->n = 1;
    PG_TRY(by_root(lw, in[0], sum, &out->v[0], err));
    PG_TRY(pg__pass_mask(lw, in[0], out->v[0], err));
done:
    return st;
}

pg_status pg__lower_rms_norm(pg__lowering *lw, const pg__layer *l, const pg__val *in, size_t n_in,
                             pg__results *out, pg_err *err)
{
    pg__affine_attrs mean = {.offset = 1e-6};
    together t;
    pg__val sum;
    pg_status st = PG_OK;
    PG_TRY(pg__lower_one_input(l, n_in, err));
    PG_TRY(read_together(&t, lw, l, in[0], err));
    PG_TRY(pg__config_num_or(&mean.offset, l, l->config, "epsilon", mean.offset, err));
    mean.scale = 1 / t.n;
    PG_TRY(sum_of_squares(lw, &t, in[0], &sum, err));
    PG_TRY(pg__emit1(tape(lw), PG_OP_affine, &mean, sum, &sum, err));
    PG_TRY(by_root(lw, in[0], sum, &sum, err));
    out->n = 1;
    PG_TRY(scaled(lw, &t, "scale", sum, &out->v[0], err));
done:
    return st;
}

/* As Keras 3 up to 3.8 computes it: divides x by the variance around the mean, but does not
 * subtract the mean from x. */
pg_status pg__lower_rms_scaling(pg__lowering *lw, const pg__layer *l, pg__val x, pg__results *out,
                                pg_err *err)
{
    pg__affine_attrs mean = {.offset = 0};
    together t;
    pg__val v;
    pg_status st = PG_OK;
    PG_TRY(read_together(&t, lw, l, x, err));
    const pg__spread_attrs kept = {.to = t.kept};
    mean.scale = 1 / t.n;
    PG_TRY(pg__emit1(tape(lw), PG_OP_sum_to, &kept, x, &v, err));
    PG_TRY(pg__emit1(tape(lw), PG_OP_affine, &mean, v, &v, err));
    PG_TRY(pg__lower_binary(lw, PG_SUBTRACT, x, v, &v, err));
    PG_TRY(sum_of_squares(lw, &t, v, &v, err));
    PG_TRY(pg__config_num_or(&mean.offset, l, l->config, "epsilon", 1e-3, err));
    PG_TRY(pg__emit1(tape(lw), PG_OP_affine, &mean, v, &v, err));
    PG_TRY(by_root(lw, x, v, &v, err));
    out->n = 1;
    PG_TRY(scaled(lw, &t, "gamma", v, &out->v[0], err));
    PG_TRY(pg__pass_mask(lw, x, out->v[0], err));
done:
    return st;
}

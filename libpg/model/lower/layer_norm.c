/* layer_norm.c - normalisation. Statistics are not trainable variables: in a wrapper's file they
 * follow all trainable ones. Keras 1's "running_std" is a variance. */
#include <string.h>

#include "base/try.h"
#include "model/lower/layers.h"
#include "model/lower/norms.h"
#include "model/lower/spatial.h"

static const uint64_t any = PG_DIM_ANY;

/* Is the normalised axis a single one, so that parameters are vectors? */
static int one_axis(const pg__layer *l)
{
    const pg__json *axis = pg__json_get(l->config, "axis");
    return pg__json_type_of(axis) != PG_J_ARRAY || pg__json_len(axis) == 1;
}

static pg_status add(pg__vars *out, int vector, const char *name, const char *alt, int trainable,
                     pg_err *err)
{
    return vector ? pg__vars_add(out, name, alt, trainable, 1, &any, err)
                  : pg__vars_add_any(out, name, alt, trainable, err);
}

pg_status pg__vars_batch_norm(pg__vars *out, const pg__layer *l, int dialect, pg_err *err)
{
    const int vector = one_axis(l) && !pg__config_has(l, "virtual_batch_size");
    pg_status st = PG_OK;
    (void)dialect;
    if (pg__config_bool(l, "renorm", 0)) /* more statistics, in a number that changed */
        return pg__vars_unknown(out);
    if (pg__config_bool(l, "scale", 1))
        PG_TRY(add(out, vector, "gamma", "", 1, err));
    if (pg__config_bool(l, "center", 1))
        PG_TRY(add(out, vector, "beta", "", 1, err));
    PG_TRY(add(out, vector, "moving_mean", "running_mean", 0, err));
    PG_TRY(add(out, vector, "moving_variance", "running_std", 0, err));
done:
    return st;
}

/* LayerNormalization, GroupNormalization. */
pg_status pg__vars_scale_norm(pg__vars *out, const pg__layer *l, int dialect, pg_err *err)
{
    const int vector = one_axis(l), rms = pg__config_bool(l, "rms_scaling", 0);
    pg_status st = PG_OK;
    (void)dialect;
    if (pg__config_bool(l, "scale", 1) || rms)
        PG_TRY(add(out, vector, "gamma", "", 1, err));
    if (pg__config_bool(l, "center", 1) && !rms)
        PG_TRY(add(out, vector, "beta", "", 1, err));
done:
    return st;
}

pg_status pg__vars_rms_norm(pg__vars *out, const pg__layer *l, int dialect, pg_err *err)
{
    (void)dialect;
    return add(out, one_axis(l), "scale", "", 1, err);
}

/* Normalization: statistics of the data set, unless the config gives them. */
pg_status pg__vars_normalization(pg__vars *out, const pg__layer *l, int dialect, pg_err *err)
{
    pg_status st = PG_OK;
    (void)dialect;
    if (pg__config_has(l, "mean"))
        return PG_OK;
    PG_TRY(pg__vars_add_any(out, "mean", "", 0, err));
    PG_TRY(pg__vars_add_any(out, "variance", "", 0, err));
    PG_TRY(pg__vars_add(out, "count", "", 0, 0, NULL, err));
done:
    return st;
}

/* ---- BatchNormalization, channels last ---- */

typedef struct norm {
    pg__val x, mask, gamma, beta, mean, variance; /* gamma, beta: PG_NO_VAL where absent */
    double epsilon, momentum;
    int is_sync;         /* meant for statistics over all devices */
    uint32_t axis, rank; /* of the layer's input */
} norm;

/* Does TensorFlow's fused kernel run (four or five dimensions, channels first or last)? It has no
 * masks, no biased moving variance, and no other devices. */
static int is_fused(const norm *n)
{
    return !n->is_sync && (n->rank == 4 || n->rank == 5) &&
           (n->axis == 1 || n->axis == n->rank - 1);
}

static pg_status read_norm(norm *n, pg__lowering *lw, const pg__layer *l, pg__val in, pg_err *err)
{
    int64_t mode = 0;
    pg_status st = PG_OK;
    if (pg__config_bool(l, "renorm", 0) || pg__config_has(l, "virtual_batch_size"))
        PG_FAIL(PG_E_UNSUPPORTED, "%s: renorm and virtual_batch_size are not supported",
                PG_SHOW(l->name));
    if (pg__json_int(pg__json_get(l->config, "mode"), &mode) && mode != 0)
        PG_FAIL(PG_E_UNSUPPORTED, "%s: mode %lld of Keras 1 is not supported", PG_SHOW(l->name),
                (long long)mode);
    n->is_sync = pg__config_bool(l, "synchronized", 0) ||
                 strcmp(l->class_name, "SyncBatchNormalization") == 0;
    n->rank = pg__dims_at(lw, in)->rank;
    PG_TRY(pg__config_axis(&n->axis, l, "axis", -1, n->rank, err));
    PG_TRY(pg__config_num_or(&n->momentum, l, l->config, "momentum", 0.99, err));
    PG_TRY(pg__config_num_or(&n->epsilon, l, l->config, "epsilon", 1e-3, err));
    n->mask = pg__mask_of(lw, in);
done:
    return st;
}

static pg_status norm_params(norm *n, pg__lowering *lw, const pg__layer *l, pg_err *err)
{
    const pg__dims *x = pg__dims_at(lw, n->x);
    const uint64_t channels = x->d[x->rank - 1];
    pg_status st = PG_OK;
    if (channels == PG_DIM_ANY)
        PG_FAIL(PG_E_MISMATCH, "input %s needs a known size along the axis", PG_SHAPE(x));
    n->gamma = n->beta = PG_NO_VAL;
    if (pg__config_bool(l, "scale", 1))
        PG_TRY(pg__lower_param(lw, "gamma", 1, &channels, &n->gamma, err));
    if (pg__config_bool(l, "center", 1))
        PG_TRY(pg__lower_param(lw, "beta", 1, &channels, &n->beta, err));
    PG_TRY(pg__lower_param(lw, "moving_mean", 1, &channels, &n->mean, err));
    PG_TRY(pg__lower_param(lw, "moving_variance", 1, &channels, &n->variance, err));
done:
    return st;
}

/* The writer's correction of the variance before it goes into the average. */
static pg__bn_correction correction_of(const norm *n, const pg__rules *rules)
{
    switch (rules->bn_moving) {
    case PG_BN_BIASED: return PG_BN_NONE;
    case PG_BN_DEBIASED:
    case PG_BN_CORRECTED_2X: return is_fused(n) && n->rank == 4 ? PG_BN_TWICE : PG_BN_LAYER;
    case PG_BN_FUSED: return is_fused(n) ? PG_BN_SAMPLE : PG_BN_NONE;
    }
    return PG_BN_NONE;
}

/* y by the batch's own statistics, which move the averages unless the layer forbids it. */
static pg_status batch_norm(norm *n, pg__lowering *lw, int moves, pg__val *y, pg_err *err)
{
    pg__tape *t = &lw->to->tape;
    const pg__rules *rules = lw->opts->rules;
    pg__bn_attrs a = {.epsilon = n->epsilon, .meets = lw->opts->lanes_meet};
    pg__val stats[3], variance, moving;
    pg_status st = PG_OK;
    if (rules->bn_moving == PG_BN_FUSED && is_fused(n))
        n->mask = PG_NO_VAL;
    lw->to->couples_rows = 1;
    PG_TRY(pg__emit2(t, PG_OP_bn_stats, NULL, n->x, n->mask, stats, err));
    if (a.meets)
        PG_TRY(pg__emit(t, PG_OP_meet_stats, NULL, stats, 3, stats, err));
    PG_TRY(pg__emit2(t, PG_OP_bn_var, &a, stats[1], stats[2], &variance, err));
    const pg__val in[] = {n->x, stats[0], variance, n->gamma, n->beta, stats[2], n->mask};
    PG_TRY(pg__emit(t, PG_OP_bn_apply, &a, in, sizeof in / sizeof *in, y, err));
    if (!moves)
        goto done;
    a.correction = correction_of(n, rules);
    moving = variance;
    if (a.correction != PG_BN_NONE)
        PG_TRY(pg__emit2(t, PG_OP_bn_var, &a, stats[1], stats[2], &moving, err));
    PG_TRY(pg__lower_moving(lw, n->mean, stats[0], n->momentum, err));
    PG_TRY(pg__lower_moving(lw, n->variance, moving, n->momentum, err));
done:
    return st;
}

/* Moves the axis to the end and back. A frozen layer infers in tf.keras and Keras 3; before, it
 * normalised with the batch, and up to 2.0 its averages moved. */
pg_status pg__lower_batch_norm(pg__lowering *lw, const pg__layer *l, const pg__val *in, size_t n_in,
                               pg__results *out, pg_err *err)
{
    const pg__bn_frozen frozen = lw->opts->rules->bn_frozen;
    const int is_frozen = !lw->leaf->trainable || !l->trainable; /* it may stand in a wrapper */
    uint32_t perm[PG_MAX_RANK] = {0}, back[PG_MAX_RANK] = {0};
    norm n;
    pg__val y;
    pg_status st = PG_OK;
    PG_TRY(pg__lower_one_input(l, n_in, err));
    PG_TRY(read_norm(&n, lw, l, in[0], err));
    for (uint32_t i = 0; i < n.rank; i++) {
        perm[i] = i < n.axis ? i : i + 1 < n.rank ? i + 1 : n.axis;
        back[perm[i]] = i;
    }
    n.x = in[0];
    if (n.axis + 1 != n.rank)
        PG_TRY(pg__lower_transpose(lw, in[0], perm, &n.x, err));
    PG_TRY(norm_params(&n, lw, l, err));
    if (lw->training && !(is_frozen && frozen == PG_BN_FROZEN_INFERS)) {
        PG_TRY(batch_norm(&n, lw, !is_frozen || frozen == PG_BN_FROZEN_MOVES, &y, err));
    } else {
        const pg__bn_attrs a = {.epsilon = n.epsilon};
        const pg__val operands[] = {n.x, n.mean, n.variance, n.gamma, n.beta};
        PG_TRY(pg__emit(&lw->to->tape, PG_OP_bn_apply, &a, operands, 5, &y, err));
    }
    if (n.axis + 1 != n.rank)
        PG_TRY(pg__lower_transpose(lw, y, back, &y, err));
    out->n = 1;
    out->v[0] = y;
    PG_TRY(pg__pass_mask(lw, in[0], y, err));
done:
    return st;
}

/* ---- LayerNormalization ---- */

pg_status pg__norm_axes(unsigned *out, const pg__layer *l, uint32_t rank, pg_err *err)
{
    const pg__json *axis = pg__json_get(l->config, "axis");
    const int is_list = pg__json_type_of(axis) == PG_J_ARRAY;
    const size_t n = is_list ? pg__json_len(axis) : 1;
    *out = 0;
    for (size_t i = 0; i < n; i++) {
        int64_t v = -1;
        if (pg__json_type_of(axis) > PG_J_NULL &&
            !pg__json_int(is_list ? pg__json_at(axis, i) : axis, &v))
            v = INT64_MAX;
        v += v < 0 ? (int64_t)rank : 0;
        if (v < 1 || v >= (int64_t)rank)
            return pg_fail(err, PG_E_FORMAT, "%s: \"axis\" names no axis of the input",
                           PG_SHOW(l->name));
        *out |= 1u << v;
    }
    return PG_OK;
}

/* An order that puts the axes last; `back` undoes it. Returns their number. */
static uint32_t axes_last(unsigned axes, uint32_t rank, pg__transpose_attrs *to,
                          pg__transpose_attrs *back)
{
    uint32_t n = 0;
    for (int last = 0; last < 2; last++)
        for (uint32_t i = 0; i < rank; i++)
            if ((int)(axes >> i & 1) == last) {
                back->perm[i] = n;
                to->perm[n++] = i;
            }
    return (uint32_t)__builtin_popcount(axes);
}

/* A parameter for the n last axes of x. Keras gives it their sizes in the order in which the config
 * names the axes, and reads its numbers in the order of the input. */
static pg_status axes_param(pg__lowering *lw, const pg__layer *l, const char *name, pg__val in,
                            uint32_t n, const pg__dims *x, pg__val *out, pg_err *err)
{
    const pg__json *axis = pg__json_get(l->config, "axis");
    const pg__dims *of = pg__dims_at(lw, in);
    pg__reshape_attrs sorted = {.to = {.rank = n}};
    pg__dims given = {.rank = n};
    pg_status st = PG_OK;
    for (uint32_t i = 0; i < n; i++) {
        int64_t v = 0;
        sorted.to.d[i] = given.d[i] = x->d[x->rank - n + i];
        if (pg__json_len(axis) == n && pg__json_int(pg__json_at(axis, i), &v))
            given.d[i] = of->d[v < 0 ? v + of->rank : v];
    }
    PG_TRY(pg__lower_param(lw, name, n, given.d, out, err));
    if (memcmp(given.d, sorted.to.d, n * sizeof *given.d) != 0)
        PG_TRY(pg__emit1(&lw->to->tape, PG_OP_reshape, &sorted, *out, out, err));
done:
    return st;
}

pg_status pg__lower_layer_norm(pg__lowering *lw, const pg__layer *l, const pg__val *in, size_t n_in,
                               pg__results *out, pg_err *err)
{
    pg__layer_norm_attrs a = {.epsilon = 1e-3};
    pg__transpose_attrs to, back;
    pg__val operands[3] = {in[0], PG_NO_VAL, PG_NO_VAL}, results[3];
    unsigned axes;
    pg_status st = PG_OK;
    PG_TRY(pg__lower_one_input(l, n_in, err));
    const uint32_t rank = pg__dims_at(lw, in[0])->rank;
    if (pg__config_bool(l, "rms_scaling", 0))
        return pg__lower_rms_scaling(lw, l, in[0], out, err);
    PG_TRY(pg__config_num_or(&a.epsilon, l, l->config, "epsilon", a.epsilon, err));
    PG_TRY(pg__norm_axes(&axes, l, rank, err));
    a.n_axes = axes_last(axes, rank, &to, &back);
    const int moved = axes != ((1u << a.n_axes) - 1) << (rank - a.n_axes);
    if (moved)
        PG_TRY(pg__emit1(&lw->to->tape, PG_OP_transpose, &to, in[0], &operands[0], err));
    const pg__dims x = *pg__dims_at(lw, operands[0]);
    const uint64_t *dims = x.d + (rank - a.n_axes);
    for (uint32_t i = 0; i < a.n_axes; i++)
        if (dims[i] == PG_DIM_ANY)
            PG_FAIL(PG_E_MISMATCH, "input %s: the normalised axes need known sizes", PG_SHAPE(&x));
    if (pg__config_bool(l, "scale", 1))
        PG_TRY(axes_param(lw, l, "gamma", in[0], a.n_axes, &x, &operands[1], err));
    if (pg__config_bool(l, "center", 1))
        PG_TRY(axes_param(lw, l, "beta", in[0], a.n_axes, &x, &operands[2], err));
    PG_TRY(pg__emit(&lw->to->tape, PG_OP_layer_norm, &a, operands, 3, results, err));
    out->n = 1;
    out->v[0] = results[0];
    if (moved)
        PG_TRY(pg__emit1(&lw->to->tape, PG_OP_transpose, &back, results[0], &out->v[0], err));
    PG_TRY(pg__pass_mask(lw, in[0], out->v[0], err));
done:
    return st;
}

/* layer_preprocessing.c - tables made by adapt(), few of which are weights (vocabularies are not),
 * and layers that scale their input by constants: Rescaling, Normalization. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "model/lower/layers.h"
#include "model/lower/spatial.h"

pg_status pg__vars_discretization(pg__vars *out, const pg__layer *l, int dialect, pg_err *err)
{
    const uint64_t dims[] = {2, PG_DIM_ANY};
    if (dialect == 3 || pg__config_has(l, "bin_boundaries"))
        return PG_OK;
    return pg__vars_add(out, "summary", "", 0, 2, dims, err);
}

/* IntegerLookup, StringLookup, TextVectorization: weights only if words are weighted. */
pg_status pg__vars_lookup(pg__vars *out, const pg__layer *l, int dialect, pg_err *err)
{
    const char *mode = pg__json_get_str(l->config, "output_mode");
    (void)dialect, (void)err;
    return mode && strcmp(mode, "tf_idf") == 0 ? pg__vars_unknown(out) : PG_OK;
}

/* ---- fixed numbers ---- */

/* The numbers of a config value, a number or lists in lists, in order. *n counts them; out, if
 * given, takes the first `room`. Lists are as deep as a tensor has axes at most. */
static int flatten(const pg__json *j, double *out, size_t room, size_t *n, unsigned depth)
{
    double v;
    if (pg__json_type_of(j) == PG_J_ARRAY && depth < PG_MAX_RANK) {
        for (size_t i = 0; i < pg__json_len(j); i++)
            if (!flatten(pg__json_at(j, i), out, room, n, depth + 1))
                return 0;
        return 1;
    }
    if (!pg__json_num(j, &v))
        return 0;
    if (out && *n < room)
        out[*n] = v;
    ++*n;
    return 1;
}

/* config.key, one number or as many as `shape` has elements, as an array of them; fresh memory. */
static pg_status read_numbers(double **out, const pg__layer *l, const char *key,
                              const pg__dims *shape, pg_err *err)
{
    const pg__json *j = pg__json_get(l->config, key);
    const size_t n = (size_t)pg__dims_elems(shape);
    size_t found = 0;
    *out = NULL;
    if (!flatten(j, NULL, 0, &found, 0) || (found != 1 && found != n))
        return pg_fail(err, PG_E_MISMATCH, "\"%s\" is neither one number nor %zu", key, n);
    double *v = pg__mem_array(n, sizeof *v);
    if (!v)
        return pg__nomem(err);
    size_t at = 0;
    (void)flatten(j, v, n, &at, 0);
    for (size_t i = 1; found == 1 && i < n; i++)
        v[i] = v[0];
    *out = v;
    return PG_OK;
}

/* scale x + offset by numbers for the axes of `shape`. */
static pg_status scale_shift(pg__lowering *lw, pg__val x, const pg__dims *shape,
                             const double *scale, const double *offset, pg__val *out, pg_err *err)
{
    pg__val a, b;
    pg_status st = PG_OK;
    PG_TRY(pg__lower_constant(lw, shape, scale, &a, err));
    PG_TRY(pg__lower_constant(lw, shape, offset, &b, err));
    PG_TRY(pg__lower_binary(lw, PG_MULTIPLY, x, a, out, err));
    PG_TRY(pg__lower_binary(lw, PG_ADD, *out, b, out, err));
done:
    return st;
}

/* Numbers, or lists of them for the last axis. */
pg_status pg__lower_rescaling(pg__lowering *lw, const pg__layer *l, const pg__val *in, size_t n_in,
                              pg__results *out, pg_err *err)
{
    double *scale = NULL, *offset = NULL;
    pg__affine_attrs a = {1, 0};
    pg_status st = PG_OK;
    PG_TRY(pg__lower_one_input(l, n_in, err));
    const pg__dims *x = pg__dims_at(lw, in[0]);
    const int is_list = pg__json_type_of(pg__json_get(l->config, "scale")) == PG_J_ARRAY ||
                        pg__json_type_of(pg__json_get(l->config, "offset")) == PG_J_ARRAY;
    out->n = 1;
    if (is_list) {
        const pg__dims last = pg__dims_of(1, &x->d[x->rank - 1]);
        if (last.d[0] == PG_DIM_ANY)
            PG_FAIL(PG_E_MISMATCH, "input %s needs a known last dimension", PG_SHAPE(x));
        PG_TRY(read_numbers(&scale, l, "scale", &last, err));
        PG_TRY(read_numbers(&offset, l, "offset", &last, err));
        PG_TRY(scale_shift(lw, in[0], &last, scale, offset, &out->v[0], err));
    } else {
        PG_TRY(pg__config_num_or(&a.scale, l, l->config, "scale", 1, err));
        PG_TRY(pg__config_num_or(&a.offset, l, l->config, "offset", 0, err));
        PG_TRY(pg__emit1(&lw->to->tape, PG_OP_affine, &a, in[0], &out->v[0], err));
    }
    if (lw->opts->rules->keras3)
        PG_TRY(pg__pass_mask(lw, in[0], out->v[0], err));
done:
    pg__mem_free(offset);
    pg__mem_free(scale);
    return st;
}

#define SMALLEST_DEVIATION 1e-7 /* Keras' epsilon */

/* x's shape with 1 along all axes but those that have statistics of their own. */
static pg_status statistics_shape(pg__dims *out, const pg__layer *l, const pg__dims *x, pg_err *err)
{
    const pg__json *axis = pg__json_get(l->config, "axis");
    const size_t n = pg__json_type_of(axis) == PG_J_ARRAY  ? pg__json_len(axis)
                     : pg__json_type_of(axis) == PG_J_NULL ? 0
                                                           : 1;
    *out = *x;
    for (uint32_t i = 0; i < x->rank; i++)
        out->d[i] = 1;
    for (size_t i = 0; i < n; i++) {
        const pg__json *j = pg__json_type_of(axis) == PG_J_ARRAY ? pg__json_at(axis, i) : axis;
        int64_t at = -1;
        if (pg__json_type_of(j) != PG_J_NONE && !pg__json_int(j, &at))
            return pg_fail(err, PG_E_FORMAT, "%s: \"axis\" holds something other than axes",
                           PG_SHOW(l->name));
        at += at < 0 ? x->rank : 0;
        if (at < 1 || at >= x->rank || x->d[at] == PG_DIM_ANY)
            return pg_fail(err, PG_E_MISMATCH, "\"axis\" is not a known axis of %s", PG_SHAPE(x));
        out->d[at] = x->d[at];
    }
    return PG_OK;
}

/* (x - mean) / deviation, or with "invert" x deviation + mean, with constants of the config. */
static pg_status by_numbers(pg__lowering *lw, const pg__layer *l, pg__val x, const pg__dims *shape,
                            pg__val *out, pg_err *err)
{
    const int invert = pg__config_bool(l, "invert", 0);
    const size_t n = (size_t)pg__dims_elems(shape);
    double *mean = NULL, *scale = NULL;
    pg_status st = PG_OK;
    PG_TRY(read_numbers(&mean, l, "mean", shape, err));
    PG_TRY(read_numbers(&scale, l, "variance", shape, err));
    for (size_t i = 0; i < n; i++) {
        const double deviation = fmax(sqrt(scale[i]), SMALLEST_DEVIATION);
        scale[i] = invert ? deviation : 1 / deviation;
        mean[i] = invert ? mean[i] : -mean[i] * scale[i];
    }
    PG_TRY(scale_shift(lw, x, shape, scale, mean, out, err));
done:
    pg__mem_free(scale);
    pg__mem_free(mean);
    return st;
}

/* The same with weights, over the last axis, as a batch normalisation does with its averages. */
static pg_status by_weights(pg__lowering *lw, const pg__layer *l, pg__val x, const pg__dims *shape,
                            pg__val *out, pg_err *err)
{
    const uint64_t channels = shape->d[shape->rank - 1], one = 1;
    const pg__dims scalar = pg__dims_of(1, &one);
    const double least = SMALLEST_DEVIATION * SMALLEST_DEVIATION;
    const pg__bn_attrs a = {.epsilon = 0};
    pg__val in[] = {x, PG_NO_VAL, PG_NO_VAL}, count, floor;
    pg_status st = PG_OK;
    if (pg__config_bool(l, "invert", 0) || pg__dims_elems(shape) != channels)
        PG_FAIL(
            PG_E_UNSUPPORTED,
            "%s: statistics in weights over any axis but the last, or inverted, are not supported",
            PG_SHOW(l->name));
    PG_TRY(pg__lower_param(lw, "mean", 1, &channels, &in[1], err));
    PG_TRY(pg__lower_param(lw, "variance", 1, &channels, &in[2], err));
    PG_TRY(pg__lower_param(lw, "count", 0, NULL, &count, err));
    PG_TRY(pg__lower_constant(lw, &scalar, &least, &floor, err));
    PG_TRY(pg__lower_binary(lw, PG_MAXIMUM, in[2], floor, &in[2], err));
    PG_TRY(pg__emit(&lw->to->tape, PG_OP_bn_apply, &a, in, 3, out, err));
done:
    return st;
}

pg_status pg__lower_normalization(pg__lowering *lw, const pg__layer *l, const pg__val *in,
                                  size_t n_in, pg__results *out, pg_err *err)
{
    pg__dims shape;
    pg_status st = PG_OK;
    PG_TRY(pg__lower_one_input(l, n_in, err));
    PG_TRY(statistics_shape(&shape, l, pg__dims_at(lw, in[0]), err));
    out->n = 1;
    PG_TRY((pg__config_has(l, "mean") ? by_numbers : by_weights)(lw, l, in[0], &shape, &out->v[0],
                                                                 err));
    if (lw->opts->rules->keras3)
        PG_TRY(pg__pass_mask(lw, in[0], out->v[0], err));
done:
    return st;
}

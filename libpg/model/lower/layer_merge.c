/* layer_merge.c - layers that join several inputs: Add, Subtract, Multiply, Average, Maximum,
 * Minimum, Concatenate, and Merge of Keras 1, which is one of them by its "mode".
 *
 * Masks: Keras 2 joins them by "and", an unmasked input counts as true everywhere; Keras 3 by "or",
 * and an unmasked input ends them; its Multiply, Maximum and Minimum leave masked steps out. */
#include <string.h>

#include "base/try.h"
#include "model/lower/layers.h"
#include "model/lower/spatial.h"

/* Inputs of fewer dimensions get axes of size 1 after the rows. */
static pg_status align(pg__lowering *lw, pg__val x, uint32_t rank, pg__val *out, pg_err *err)
{
    const pg__dims *s = pg__dims_at(lw, x);
    pg__dims to = {.rank = rank, .d = {s->d[0]}};
    const uint32_t added = rank - s->rank;
    for (uint32_t i = 1; i < rank; i++)
        to.d[i] = i <= added ? 1 : s->d[i - added];
    return pg__lower_reshape(lw, x, &to, out, err);
}

static pg_status join_masks(pg__lowering *lw, const pg__val *in, size_t n_in, pg__val y,
                            pg_err *err)
{
    const int any = lw->opts->rules->masks_or;
    pg__val mask = PG_NO_VAL;
    pg_status st = PG_OK;
    for (size_t k = 0; k < n_in; k++) {
        const pg__val m = pg__mask_of(lw, in[k]);
        if (m == PG_NO_VAL && any)
            return PG_OK;
        if (mask != PG_NO_VAL && m != PG_NO_VAL && m != mask)
            PG_TRY(pg__lower_binary(lw, any ? PG_MAXIMUM : PG_MULTIPLY, mask, m, &mask, err));
        mask = mask == PG_NO_VAL ? m : mask;
    }
    if (mask != PG_NO_VAL)
        PG_TRY(pg__set_mask(lw, y, mask, err));
done:
    return st;
}

/* The mask of x as (rows, steps, 1, ...), PG_NO_VAL if there is none. */
static pg_status steps_of(pg__lowering *lw, pg__val x, pg__val *out, pg_err *err)
{
    pg__dims to = *pg__dims_at(lw, x);
    *out = pg__mask_of(lw, x);
    if (*out == PG_NO_VAL)
        return PG_OK;
    const pg__dims *mask = pg__dims_at(lw, *out);
    for (uint32_t i = 0; i < to.rank; i++)
        to.d[i] = i < mask->rank ? mask->d[i] : 1;
    return pg__lower_reshape(lw, *out, &to, out, err);
}

/* a if the mask is 1, otherwise b, or 1 if b is PG_NO_VAL. */
static pg_status where(pg__lowering *lw, pg__val mask, pg__val a, pg__val b, pg__val *out,
                       pg_err *err)
{
    pg__val rest;
    pg_status st = PG_OK;
    if (mask == PG_NO_VAL) {
        *out = a;
        return PG_OK;
    }
    PG_TRY(pg__emit1(&lw->to->tape, PG_OP_affine, &(pg__affine_attrs){-1, 1}, mask, &rest, err));
    if (b != PG_NO_VAL)
        PG_TRY(pg__lower_binary(lw, PG_MULTIPLY, b, rest, &rest, err));
    PG_TRY(pg__lower_binary(lw, PG_MULTIPLY, a, mask, &a, err));
    PG_TRY(pg__lower_binary(lw, PG_ADD, a, rest, out, err));
done:
    return st;
}

/* Keras 3: if one of two steps is masked, the other one counts; if both are, 0 (a product) or
 * either (the extremes). mask: that of *sum, then of the result. */
static pg_status join_masked(pg__lowering *lw, pg__binary_kind kind, pg__val *sum, pg__val *mask,
                             pg__val next, pg__val next_mask, pg_err *err)
{
    const int both = *mask != PG_NO_VAL && next_mask != PG_NO_VAL;
    const pg__val neutral = kind == PG_MULTIPLY ? PG_NO_VAL : *sum;
    pg_status st = PG_OK;
    PG_TRY(where(lw, next_mask, next, neutral, &next, err));
    PG_TRY(where(lw, *mask, *sum, kind == PG_MULTIPLY ? PG_NO_VAL : next, sum, err));
    PG_TRY(pg__lower_binary(lw, kind, *sum, next, sum, err));
    if (both)
        PG_TRY(pg__lower_binary(lw, PG_MAXIMUM, *mask, next_mask, mask, err));
    else
        *mask = PG_NO_VAL;
    if (both && kind == PG_MULTIPLY)
        PG_TRY(pg__lower_binary(lw, PG_MULTIPLY, *sum, *mask, sum, err));
done:
    return st;
}

static pg_status combine(pg__lowering *lw, pg__binary_kind kind, uint32_t rank, const pg__val *in,
                         size_t n_in, pg__val *sum, pg_err *err)
{
    const int masked = lw->opts->rules->masks_or && kind != PG_ADD && kind != PG_SUBTRACT;
    pg__val mask = PG_NO_VAL, next_mask = PG_NO_VAL, next;
    pg_status st = PG_OK;
    if (masked)
        PG_TRY(steps_of(lw, in[0], &mask, err));
    PG_TRY(align(lw, in[0], rank, sum, err));
    for (size_t k = 1; k < n_in; k++) {
        if (masked)
            PG_TRY(steps_of(lw, in[k], &next_mask, err));
        PG_TRY(align(lw, in[k], rank, &next, err));
        PG_TRY(join_masked(lw, kind, sum, &mask, next, next_mask, err));
    }
done:
    return st;
}

static pg_status merge(pg__lowering *lw, const pg__layer *l, pg__binary_kind kind, int average,
                       const pg__val *in, size_t n_in, pg__results *out, pg_err *err)
{
    const pg__affine_attrs share = {1.0 / (double)(n_in ? n_in : 1), 0};
    uint32_t rank = 0;
    pg__val sum;
    pg_status st = PG_OK;
    if (n_in < 1 || (kind == PG_SUBTRACT && n_in != 2))
        PG_FAIL(PG_E_FORMAT, "%s: %s is called with %zu tensors", PG_SHOW(l->name), l->class_name,
                n_in);
    for (size_t k = 0; k < n_in; k++)
        rank = pg__dims_at(lw, in[k])->rank > rank ? pg__dims_at(lw, in[k])->rank : rank;
    PG_TRY(combine(lw, kind, rank, in, n_in, &sum, err));
    if (average)
        PG_TRY(pg__emit1(&lw->to->tape, PG_OP_affine, &share, sum, &sum, err));
    out->n = 1;
    out->v[0] = sum;
    PG_TRY(join_masks(lw, in, n_in, sum, err));
done:
    return st;
}

#define MERGE_LAYER(name, kind, average)                                                \
    pg_status pg__lower_##name(pg__lowering *lw, const pg__layer *l, const pg__val *in, \
                               size_t n_in, pg__results *out, pg_err *err)              \
    {                                                                                   \
        return merge(lw, l, kind, average, in, n_in, out, err);                         \
    }
MERGE_LAYER(add, PG_ADD, 0)
MERGE_LAYER(subtract, PG_SUBTRACT, 0)
MERGE_LAYER(multiply, PG_MULTIPLY, 0)
MERGE_LAYER(average, PG_ADD, 1)
MERGE_LAYER(maximum, PG_MAXIMUM, 0)
MERGE_LAYER(minimum, PG_MINIMUM, 0)

/* A mask of ones for an input without one. */
static pg_status true_mask(pg__lowering *lw, pg__val x, pg__val *out, pg_err *err)
{
    const pg__dims *s = pg__dims_at(lw, x);
    const pg__spread_attrs a = {.to = {.rank = 2, .d = {s->d[0], s->d[1]}}};
    const double one = 1;
    const uint64_t d[] = {1, 1};
    const pg__dims shape = pg__dims_of(2, d);
    pg_status st = PG_OK;
    PG_TRY(pg__lower_constant(lw, &shape, &one, out, err));
    PG_TRY(pg__emit1(&lw->to->tape, PG_OP_spread, &a, *out, out, err));
done:
    return st;
}

/* Joined along the steps, so are the masks. */
static pg_status concat_masks(pg__lowering *lw, const pg__val *in, size_t n_in, pg__val y,
                              pg_err *err)
{
    pg__val masks[PG_MAX_OUTPUTS], mask;
    size_t n_masked = 0;
    pg_status st = PG_OK;
    for (size_t k = 0; k < n_in; k++)
        n_masked += pg__mask_of(lw, in[k]) != PG_NO_VAL;
    if (n_masked == 0)
        return PG_OK;
    if (n_in > PG_MAX_OUTPUTS)
        PG_FAIL(PG_E_LIMIT, "%zu masked inputs, at most %d are supported", n_in, PG_MAX_OUTPUTS);
    for (size_t k = 0; k < n_in; k++) {
        masks[k] = pg__mask_of(lw, in[k]);
        if (masks[k] == PG_NO_VAL)
            PG_TRY(true_mask(lw, in[k], &masks[k], err));
    }
    PG_TRY(pg__emit(&lw->to->tape, PG_OP_concat, &(pg__concat_attrs){1}, masks, n_in, &mask, err));
    PG_TRY(pg__set_mask(lw, y, mask, err));
done:
    return st;
}

static pg_status concatenate(pg__lowering *lw, const pg__layer *l, const char *key,
                             const pg__val *in, size_t n_in, pg__results *out, pg_err *err)
{
    pg__concat_attrs a;
    pg_status st = PG_OK;
    if (n_in < 1)
        PG_FAIL(PG_E_FORMAT, "%s: called without tensors", PG_SHOW(l->name));
    const uint32_t rank = pg__dims_at(lw, in[0])->rank;
    PG_TRY(pg__config_axis(&a.axis, l, key, -1, rank, err));
    if (a.axis == 0)
        PG_FAIL(PG_E_UNSUPPORTED, "%s: joining along the batch axis is not supported",
                PG_SHOW(l->name));
    out->n = 1;
    PG_TRY(pg__emit(&lw->to->tape, PG_OP_concat, &a, in, n_in, &out->v[0], err));
    PG_TRY(a.axis == 1 && rank > 2 ? concat_masks(lw, in, n_in, out->v[0], err)
                                   : join_masks(lw, in, n_in, out->v[0], err));
done:
    return st;
}

pg_status pg__lower_concatenate(pg__lowering *lw, const pg__layer *l, const pg__val *in,
                                size_t n_in, pg__results *out, pg_err *err)
{
    return concatenate(lw, l, "axis", in, n_in, out, err);
}

pg_status pg__lower_merge(pg__lowering *lw, const pg__layer *l, const pg__val *in, size_t n_in,
                          pg__results *out, pg_err *err)
{
    static const struct {
        const char *mode;
        pg__lower_fn fn;
    } modes[] = {{"sum", pg__lower_add},     {"mul", pg__lower_multiply},
                 {"ave", pg__lower_average}, {"max", pg__lower_maximum},
                 {"dot", pg__lower_dot},     {"cos", pg__lower_dot}};
    const char *mode = pg__json_get_str(l->config, "mode");
    if (mode && strcmp(mode, "concat") == 0)
        return concatenate(lw, l, "concat_axis", in, n_in, out, err);
    for (size_t i = 0; mode && i < sizeof modes / sizeof *modes; i++)
        if (strcmp(mode, modes[i].mode) == 0)
            return modes[i].fn(lw, l, in, n_in, out, err);
    return pg_fail(err, PG_E_UNSUPPORTED, "%s: Merge by \"%s\" is not supported", PG_SHOW(l->name),
                   mode ? PG_SHOW(mode) : "a function");
}

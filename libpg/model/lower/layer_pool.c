/* layer_pool.c - pooling: MaxPooling and AveragePooling over windows, and the Global ones over
 * everything, in one to three dimensions. Masks end here; GlobalAveragePooling1D counts only
 * unmasked steps. */
#include <string.h>

#include "base/try.h"
#include "model/lower/layers.h"
#include "model/lower/spatial.h"

static pg_status read_windows(pg__pool_attrs *a, const pg__layer *l, const pg__dims *x, pg_err *err)
{
    const int old = pg__config_has(l, "pool_length"); /* Keras 1's 1D */
    const char *strides = old ? "stride" : "strides";
    pg__padding padding;
    pg_status st = PG_OK;
    PG_TRY(pg__config_dims_or(a->window, a->rank, l, old ? "pool_length" : "pool_size", 2, err));
    PG_TRY(pg__config_dims_or(a->stride, a->rank, l, strides, 0, err));
    PG_TRY(pg__config_padding(&padding, l, err));
    if (padding == PG_PAD_CAUSAL)
        PG_FAIL(PG_E_FORMAT, "%s: pooling has no causal padding", PG_SHOW(l->name));
    a->same = padding == PG_PAD_SAME;
    for (uint32_t i = 0; i < a->rank; i++) {
        a->stride[i] = a->stride[i] ? a->stride[i] : a->window[i];
        if (padding == PG_PAD_SAME)
            pg__pad_same(x->d[i + 1], a->window[i], a->stride[i], &a->before[i], &a->after[i]);
    }
done:
    return st;
}

pg_status pg__lower_pool(pg__lowering *lw, const pg__layer *l, const pg__val *in, size_t n_in,
                         pg__results *out, pg_err *err)
{
    pg__pool_attrs a = {.rank = pg__spatial_rank(l->class_name),
                        .max = strncmp(l->class_name, "Max", 3) == 0};
    pg__val x, y;
    pg_status st = PG_OK;
    PG_TRY(pg__lower_one_input(l, n_in, err));
    PG_TRY(pg__to_channels_last(lw, l, a.rank, in[0], &x, err));
    PG_TRY(read_windows(&a, l, pg__dims_at(lw, x), err));
    PG_TRY(pg__emit1(&lw->to->tape, PG_OP_pool, &a, x, &y, err));
    out->n = 1;
    PG_TRY(pg__from_channels_last(lw, l, y, &out->v[0], err));
done:
    return st;
}

/* sum(mask x) / sum(mask) over the steps of x (rows, steps, channels); one step is left. */
static pg_status masked_mean(pg__lowering *lw, pg__val x, pg__val mask, pg__val *out, pg_err *err)
{
    const pg__dims s = *pg__dims_at(lw, x);
    const pg__dims steps = {.rank = 3, .d = {s.d[0], s.d[1], 1}};
    const pg__spread_attrs sums = {.to = {.rank = 3, .d = {s.d[0], 1, s.d[2]}}};
    const pg__spread_attrs count = {.to = {.rank = 3, .d = {s.d[0], 1, 1}}};
    pg__val n;
    pg_status st = PG_OK;
    PG_TRY(pg__lower_reshape(lw, mask, &steps, &mask, err));
    PG_TRY(pg__lower_binary(lw, PG_MULTIPLY, x, mask, &x, err));
    PG_TRY(pg__emit1(&lw->to->tape, PG_OP_sum_to, &sums, x, &x, err));
    PG_TRY(pg__emit1(&lw->to->tape, PG_OP_sum_to, &count, mask, &n, err));
    PG_TRY(pg__lower_binary(lw, PG_DIVIDE, x, n, out, err));
done:
    return st;
}

pg_status pg__lower_global_pool(pg__lowering *lw, const pg__layer *l, const pg__val *in,
                                size_t n_in, pg__results *out, pg_err *err)
{
    pg__pool_attrs a = {.rank = pg__spatial_rank(l->class_name),
                        .max = strncmp(l->class_name, "GlobalMax", strlen("GlobalMax")) == 0};
    pg__dims flat = {.rank = 2};
    pg__val x, y, mask;
    pg_status st = PG_OK;
    PG_TRY(pg__lower_one_input(l, n_in, err));
    PG_TRY(pg__to_channels_last(lw, l, a.rank, in[0], &x, err));
    for (uint32_t i = 0; i < a.rank; i++)
        a.stride[i] = 1;
    mask = pg__mask_of(lw, in[0]);
    if (mask != PG_NO_VAL && !a.max && a.rank == 1)
        PG_TRY(masked_mean(lw, x, mask, &y, err));
    else
        PG_TRY(pg__emit1(&lw->to->tape, PG_OP_pool, &a, x, &y, err));
    out->n = 1;
    if (pg__config_bool(l, "keepdims", 0)) {
        PG_TRY(pg__from_channels_last(lw, l, y, &out->v[0], err));
        goto done;
    }
    flat.d[0] = pg__dims_at(lw, y)->d[0];
    flat.d[1] = pg__dims_at(lw, y)->d[a.rank + 1];
    PG_TRY(pg__lower_reshape(lw, y, &flat, &out->v[0], err));
done:
    return st;
}

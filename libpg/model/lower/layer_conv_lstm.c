/* layer_conv_lstm.c - ConvLSTM1D, ConvLSTM2D, ConvLSTM3D: an LSTM whose products are convolutions,
 * step by step. Sources: keras/layers/rnn/base_conv_lstm.py of 2.15, conv_lstm.py of 3.6. */
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "model/lower/layers.h"
#include "model/lower/recurrent.h"
#include "model/lower/spatial.h"

#define MAX_STEPS 2048 /* each has two dozens of operations of its own */

enum { GATES = 4 }; /* i, f, c, o, side by side in kernels and bias */

typedef struct conv_lstm {
    const pg__layer *l;
    pg__conv_attrs input, recurrent;
    pg__act_attrs act, gate;
    uint64_t filters, rows, steps;
    pg__val kernel, recurrent_kernel, bias, mask; /* PG_NO_VAL where absent */
    pg__val x_factors[GATES], h_factors[GATES];   /* of dropout, or PG_NO_VAL */
    pg__val h, c, y;                              /* after the last step; y: what came out of it */
} conv_lstm;

static pg__tape *tape(pg__lowering *lw)
{
    return &lw->to->tape;
}

/* ---- the config ---- */

static pg_status read_config(conv_lstm *c, pg__lowering *lw, const pg__layer *l, pg_err *err)
{
    const char *hard = lw->opts->rules->keras3 ? "sigmoid" : "hard_sigmoid";
    const uint32_t rank = pg__spatial_rank(l->class_name + strlen("ConvLSTM"));
    pg_status st = PG_OK;
    *c = (conv_lstm){.l = l, .mask = PG_NO_VAL, .bias = PG_NO_VAL};
    if (pg__config_has(l, "nb_filter"))
        PG_FAIL(PG_E_UNSUPPORTED,
                "%s: ConvLSTM2D of Keras 1, whose gates are stored separately, is not supported",
                PG_SHOW(l->name));
    c->input.rank = c->recurrent.rank = rank;
    c->input.groups = c->recurrent.groups = 1;
    PG_TRY(pg__config_dim(&c->filters, l, "filters", err));
    PG_TRY(pg__config_dim_list(c->input.kernel, rank, l, "kernel_size", err));
    PG_TRY(pg__config_dims_or(c->input.stride, rank, l, "strides", 1, err));
    PG_TRY(pg__config_dims_or(c->input.dilation, rank, l, "dilation_rate", 1, err));
    for (uint32_t i = 0; i < rank; i++) {
        c->recurrent.kernel[i] = c->input.kernel[i];
        c->recurrent.stride[i] = c->recurrent.dilation[i] = 1;
    }
    PG_TRY(
        pg__activation_attrs(lw, l, pg__json_get(l->config, "activation"), "tanh", &c->act, err));
    PG_TRY(pg__activation_attrs(lw, l, pg__json_get(l->config, "recurrent_activation"), hard,
                                &c->gate, err));
done:
    return st;
}

static uint64_t reach_of(const pg__conv_attrs *a, uint32_t i)
{
    return (a->kernel[i] - 1) * a->dilation[i] + 1;
}

/* x: one step of the input, channels last. */
static pg_status read_padding(conv_lstm *c, const pg__dims *x, pg_err *err)
{
    pg__padding padding;
    pg_status st = PG_OK;
    PG_TRY(pg__config_padding(&padding, c->l, err));
    if (padding == PG_PAD_CAUSAL && c->input.rank != 1)
        PG_FAIL(PG_E_FORMAT, "%s: causal padding has one dimension", PG_SHOW(c->l->name));
    for (uint32_t i = 0; i < c->input.rank; i++) {
        pg__conv_attrs *a = &c->input;
        if (padding == PG_PAD_SAME)
            pg__pad_same(x->d[i + 1], reach_of(a, i), a->stride[i], &a->before[i], &a->after[i]);
        else if (padding == PG_PAD_CAUSAL)
            a->before[i] = reach_of(a, i) - 1;
    }
done:
    return st;
}

static pg_status load(conv_lstm *c, pg__lowering *lw, uint64_t channels, pg_err *err)
{
    const uint32_t rank = c->input.rank;
    const uint64_t all = GATES * c->filters;
    pg__dims own = pg__dims_of(rank, c->input.kernel);
    pg_status st = PG_OK;
    own.rank = rank + 2;
    own.d[rank] = channels;
    own.d[rank + 1] = all;
    PG_TRY(pg__lower_param(lw, "kernel", own.rank, own.d, &c->kernel, err));
    own.d[rank] = c->filters;
    PG_TRY(pg__lower_param(lw, "recurrent_kernel", own.rank, own.d, &c->recurrent_kernel, err));
    if (pg__config_bool(c->l, "use_bias", 1))
        PG_TRY(pg__lower_param(lw, "bias", 1, &all, &c->bias, err));
done:
    return st;
}

/* Each gate drops elements of its own, the same at all steps. */
static pg_status load_factors(conv_lstm *c, pg__lowering *lw, const char *key,
                              const pg__dims *shape, pg__val *out, pg_err *err)
{
    double rate;
    pg_status st = PG_OK;
    PG_TRY(pg__config_num_or(&rate, c->l, c->l->config, key, 0, err));
    if (!(rate >= 0 && rate < 1))
        PG_FAIL(PG_E_FORMAT, "%s: \"%s\" is not in [0, 1)", PG_SHOW(c->l->name), key);
    for (size_t g = 0; g < GATES; g++)
        PG_TRY(pg__lower_factors(lw, rate, shape, &out[g], err));
done:
    return st;
}

/* ---- one step ---- */

/* `n` of axis `axis`, from `first`. */
static pg_status cut(pg__lowering *lw, pg__val v, uint32_t axis, uint64_t first, uint64_t n,
                     pg__val *out, pg_err *err)
{
    pg__pad_attrs a = {.before = {0}};
    a.before[axis] = -(int64_t)first;
    a.after[axis] = -(int64_t)(pg__dims_at(lw, v)->d[axis] - first - n);
    return pg__emit1(tape(lw), PG_OP_pad, &a, v, out, err);
}

/* One convolution for all gates, or one for each if elements are dropped separately. */
static pg_status convolve(conv_lstm *c, pg__lowering *lw, const pg__conv_attrs *a, pg__val x,
                          pg__val kernel, pg__val bias, const pg__val *factors, pg__val *out,
                          pg_err *err)
{
    const pg__concat_attrs last = {.axis = a->rank + 1};
    pg__val in[3] = {x, kernel, bias}, z[GATES];
    pg_status st = PG_OK;
    if (factors[0] == PG_NO_VAL)
        return pg__emit(tape(lw), PG_OP_conv, a, in, 3, out, err);
    for (uint64_t g = 0; g < GATES; g++) {
        PG_TRY(pg__lower_binary(lw, PG_MULTIPLY, x, factors[g], &in[0], err));
        PG_TRY(cut(lw, kernel, a->rank + 1, g * c->filters, c->filters, &in[1], err));
        if (bias != PG_NO_VAL)
            PG_TRY(cut(lw, bias, 0, g * c->filters, c->filters, &in[2], err));
        PG_TRY(pg__emit(tape(lw), PG_OP_conv, a, in, 3, &z[g], err));
    }
    PG_TRY(pg__emit(tape(lw), PG_OP_concat, &last, z, GATES, out, err));
done:
    return st;
}

/* What h and c become by z, the sum of both convolutions. */
static pg_status gates(conv_lstm *c, pg__lowering *lw, pg__val z, pg__val *h, pg__val *cell,
                       pg_err *err)
{
    pg__val v[GATES], carried;
    pg_status st = PG_OK;
    for (uint64_t g = 0; g < GATES; g++) {
        PG_TRY(cut(lw, z, c->input.rank + 1, g * c->filters, c->filters, &v[g], err));
        PG_TRY(pg__emit1(tape(lw), PG_OP_act, g == 2 ? &c->act : &c->gate, v[g], &v[g], err));
    }
    PG_TRY(pg__lower_binary(lw, PG_MULTIPLY, v[1], c->c, &carried, err));
    PG_TRY(pg__lower_binary(lw, PG_MULTIPLY, v[0], v[2], cell, err));
    PG_TRY(pg__lower_binary(lw, PG_ADD, carried, *cell, cell, err));
    PG_TRY(pg__emit1(tape(lw), PG_OP_act, &c->act, *cell, h, err));
    PG_TRY(pg__lower_binary(lw, PG_MULTIPLY, v[3], *h, h, err));
done:
    return st;
}

/* now where the step counts, before where it does not. */
static pg_status choose(pg__lowering *lw, pg__val counts, pg__val not, pg__val now, pg__val before,
                        pg__val *out, pg_err *err)
{
    pg_status st = PG_OK;
    PG_TRY(pg__emit2(tape(lw), PG_OP_mask_rows, NULL, now, counts, &now, err));
    PG_TRY(pg__emit2(tape(lw), PG_OP_mask_rows, NULL, before, not, &before, err));
    PG_TRY(pg__lower_binary(lw, PG_ADD, now, before, out, err));
done:
    return st;
}

/* Step t of v, (rows, steps, ...). The number of steps may be unknown; then only shapes are
 * known. */
static pg_status step_of(conv_lstm *c, pg__lowering *lw, pg__val v, uint64_t t, pg__val *out,
                         pg_err *err)
{
    pg__dims to = *pg__dims_at(lw, v);
    pg__spread_attrs one = {.to = to};
    pg_status st = PG_OK;
    one.to.d[1] = 1;
    if (to.d[1] == PG_DIM_ANY)
        PG_TRY(pg__emit1(tape(lw), PG_OP_sum_to, &one, v, out, err));
    else
        PG_TRY(cut(lw, v, 1, pg__config_bool(c->l, "go_backwards", 0) ? c->steps - 1 - t : t, 1,
                   out, err));
    for (uint32_t i = 2; i < to.rank; i++)
        to.d[i - 1] = to.d[i];
    to.rank--;
    PG_TRY(pg__lower_reshape(lw, *out, &to, out, err));
done:
    return st;
}

static pg_status step(conv_lstm *c, pg__lowering *lw, pg__val x, uint64_t t, pg_err *err)
{
    const pg__affine_attrs opposite = {.scale = -1, .offset = 1};
    pg__val z, r, h, cell, counts, not, y;
    pg_status st = PG_OK;
    PG_TRY(convolve(c, lw, &c->input, x, c->kernel, c->bias, c->x_factors, &z, err));
    PG_TRY(convolve(c, lw, &c->recurrent, c->h, c->recurrent_kernel, PG_NO_VAL, c->h_factors, &r,
                    err));
    PG_TRY(pg__lower_binary(lw, PG_ADD, z, r, &z, err));
    PG_TRY(gates(c, lw, z, &h, &cell, err));
    y = h;
    if (c->mask != PG_NO_VAL) {
        PG_TRY(step_of(c, lw, c->mask, t, &counts, err));
        PG_TRY(pg__emit1(tape(lw), PG_OP_affine, &opposite, counts, &not, err));
        if (pg__config_bool(c->l, "zero_output_for_mask", 0))
            PG_TRY(pg__emit2(tape(lw), PG_OP_mask_rows, NULL, h, counts, &y, err));
        else
            PG_TRY(choose(lw, counts, not, h, c->y, &y, err));
        PG_TRY(choose(lw, counts, not, h, c->h, &h, err));
        PG_TRY(choose(lw, counts, not, cell, c->c, &cell, err));
    }
    c->h = h;
    c->c = cell;
    c->y = y;
done:
    return st;
}

/* ---- the sequence ---- */

/* (rows, steps, ...) and (rows * steps, ...) */
static pg_status fold(pg__lowering *lw, pg__val v, pg__val *out, pg_err *err)
{
    const pg__dims *d = pg__dims_at(lw, v);
    pg__dims to = {.rank = d->rank - 1, .d = {pg__dim_mul(d->d[0], d->d[1])}};
    for (uint32_t i = 2; i < d->rank; i++)
        to.d[i - 1] = d->d[i];
    return pg__lower_reshape(lw, v, &to, out, err);
}
static pg_status unfold(pg__lowering *lw, pg__val v, uint64_t rows, uint64_t steps, pg__val *out,
                        pg_err *err)
{
    const pg__dims *d = pg__dims_at(lw, v);
    pg__dims to = {.rank = d->rank + 1, .d = {rows, steps}};
    for (uint32_t i = 1; i < d->rank; i++)
        to.d[i + 1] = d->d[i];
    return pg__lower_reshape(lw, v, &to, out, err);
}

/* x as (rows, steps, cells, channels). */
static pg_status channels_last(conv_lstm *c, pg__lowering *lw, pg__val *x, pg_err *err)
{
    pg_status st = PG_OK;
    PG_TRY(fold(lw, *x, x, err));
    PG_TRY(pg__to_channels_last(lw, c->l, c->input.rank, *x, x, err));
    PG_TRY(unfold(lw, *x, c->rows, c->steps, x, err));
done:
    return st;
}

/* What one step gives, from what it is given. */
static uint64_t cells_of(const pg__conv_attrs *a, uint32_t i, uint64_t n)
{
    const uint64_t reach = reach_of(a, i), all = pg__dim_add(n, a->before[i] + a->after[i]);
    return all == PG_DIM_ANY || all < reach ? PG_DIM_ANY : (all - reach) / a->stride[i] + 1;
}

/* State k before the first step: given, kept from the previous batch, or zeros. */
static pg_status first_state(conv_lstm *c, pg__lowering *lw, uint32_t k, const pg__val *in,
                             size_t n_in, const pg__dims *shape, pg__val *out, pg_err *err)
{
    const pg__dims single = pg__dims_of(1, (const uint64_t[]){1});
    const pg__spread_attrs all = {.to = *shape};
    const double zero = 0;
    uint64_t flat[2] = {shape->d[0], 1};
    pg_status st = PG_OK;
    for (uint32_t i = 1; i < shape->rank; i++)
        flat[1] = pg__dim_mul(flat[1], shape->d[i]);
    if (n_in > 1) {
        PG_TRY(pg__to_channels_last(lw, c->l, c->input.rank, in[1 + k], out, err));
        const pg__dims *given = pg__dims_at(lw, *out);
        for (uint32_t i = 1; i < shape->rank; i++)
            if (given->d[i] != shape->d[i] && given->d[i] != PG_DIM_ANY &&
                shape->d[i] != PG_DIM_ANY)
                PG_FAIL(PG_E_MISMATCH, "initial state %s where %s is needed", PG_SHAPE(given),
                        PG_SHAPE(shape));
    } else if (pg__config_bool(c->l, "stateful", 0)) {
        PG_TRY(pg__lower_state(lw, k, flat, out, err));
        PG_TRY(pg__lower_reshape(lw, *out, shape, out, err));
    } else {
        PG_TRY(pg__lower_constant(lw, &single, &zero, out, err));
        PG_TRY(pg__emit1(tape(lw), PG_OP_spread, &all, *out, out, err));
    }
done:
    return st;
}

static pg_status keep_state(conv_lstm *c, pg__lowering *lw, uint32_t k, pg__val v, pg_err *err)
{
    const pg__dims *d = pg__dims_at(lw, v);
    pg__dims flat = {.rank = 2, .d = {d->d[0], 1}};
    pg_status st = PG_OK;
    if (!pg__config_bool(c->l, "stateful", 0))
        return PG_OK;
    for (uint32_t i = 1; i < d->rank; i++)
        flat.d[1] = pg__dim_mul(flat.d[1], d->d[i]);
    PG_TRY(pg__lower_reshape(lw, v, &flat, &v, err));
    pg__keep_state(lw, k, v);
done:
    return st;
}

/* All steps; sequence: their outputs, or NULL. */
static pg_status run(conv_lstm *c, pg__lowering *lw, pg__val x, pg__val *sequence, pg_err *err)
{
    const pg__concat_attrs over_steps = {.axis = 1};
    const uint64_t n = c->steps == PG_DIM_ANY ? 1 : c->steps;
    pg__val *ys = pg__mem_array((size_t)n, sizeof *ys), one;
    pg_status st = PG_OK;
    if (!ys)
        return pg__nomem(err);
    for (uint64_t t = 0; t < n; t++) {
        PG_TRY(step_of(c, lw, x, t, &one, err));
        PG_TRY(step(c, lw, one, t, err));
        PG_TRY(unfold(lw, c->y, c->rows, 1, &ys[t], err));
    }
    if (!sequence)
        goto done;
    pg__spread_attrs all = {.to = *pg__dims_at(lw, ys[0])};
    all.to.d[1] = c->steps;
    if (c->steps == PG_DIM_ANY)
        PG_TRY(pg__emit1(tape(lw), PG_OP_spread, &all, ys[0], sequence, err));
    else
        PG_TRY(pg__emit(tape(lw), PG_OP_concat, &over_steps, ys, (size_t)n, sequence, err));
done:
    pg__mem_free(ys);
    return st;
}

/* The input's sizes, and what the first step begins with. */
static pg_status begin(conv_lstm *c, pg__lowering *lw, const pg__val *in, size_t n_in, pg__val *x,
                       pg_err *err)
{
    const pg__dims *d = pg__dims_at(lw, in[0]);
    const uint32_t rank = c->input.rank;
    pg_status st = PG_OK;
    if (d->rank != rank + 3)
        PG_FAIL(PG_E_MISMATCH, "input %s is not (rows, steps, %u spatial dimensions, channels)",
                PG_SHAPE(d), rank);
    c->rows = d->d[0];
    c->steps = d->d[1];
    if (c->steps == 0 ||
        (c->steps != PG_DIM_ANY && pg__dim_mul(lw->calls ? lw->calls : 1, c->steps) > MAX_STEPS))
        PG_FAIL(PG_E_LIMIT, "%s: %llu steps; 1 to %d are supported", PG_SHOW(c->l->name),
                (unsigned long long)c->steps, MAX_STEPS);
    *x = in[0];
    PG_TRY(channels_last(c, lw, x, err));
    d = pg__dims_at(lw, *x);
    if (d->d[rank + 2] == PG_DIM_ANY)
        PG_FAIL(PG_E_MISMATCH, "input %s needs a known number of channels", PG_SHAPE(d));
    pg__dims one = {.rank = rank + 2, .d = {c->rows}}, state = one;
    for (uint32_t i = 0; i <= rank; i++)
        one.d[i + 1] = d->d[i + 2];
    PG_TRY(read_padding(c, &one, err));
    for (uint32_t i = 0; i < rank; i++) {
        state.d[i + 1] = cells_of(&c->input, i, one.d[i + 1]);
        pg__pad_same(state.d[i + 1], c->recurrent.kernel[i], 1, &c->recurrent.before[i],
                     &c->recurrent.after[i]);
    }
    state.d[rank + 1] = c->filters;
    PG_TRY(load(c, lw, one.d[rank + 1], err));
    PG_TRY(load_factors(c, lw, "dropout", &one, c->x_factors, err));
    PG_TRY(load_factors(c, lw, "recurrent_dropout", &state, c->h_factors, err));
    PG_TRY(first_state(c, lw, 0, in, n_in, &state, &c->h, err));
    PG_TRY(first_state(c, lw, 1, in, n_in, &state, &c->c, err));
    c->y = c->h;
    if (c->mask != PG_NO_VAL && (n_in > 1 || pg__config_bool(c->l, "stateful", 0)))
        PG_TRY(pg__emit1(tape(lw), PG_OP_affine, &(pg__affine_attrs){0, 0}, c->h, &c->y, err));
done:
    return st;
}

pg_status pg__lower_conv_lstm(pg__lowering *lw, const pg__layer *l, const pg__val *in, size_t n_in,
                              pg__results *out, pg_err *err)
{
    const int all = pg__config_bool(l, "return_sequences", 0);
    conv_lstm c;
    pg__val x, sequence;
    pg_status st = PG_OK;
    if (n_in != 1 && n_in != 3)
        PG_FAIL(PG_E_FORMAT, "%s: called with %zu initial states, has 2", PG_SHOW(l->name),
                n_in - 1);
    for (size_t k = 1; lw->args && k < n_in; k++)
        if (lw->args[k] && strcmp(lw->args[k], "initial_state") != 0)
            PG_FAIL(PG_E_UNSUPPORTED, "%s: a call with \"%s\" is not supported", PG_SHOW(l->name),
                    PG_SHOW(lw->args[k]));
    PG_TRY(read_config(&c, lw, l, err));
    c.mask = pg__call_ignores_mask(lw, n_in) ? PG_NO_VAL : pg__mask_of(lw, in[0]);
    if (c.mask != PG_NO_VAL && pg__dims_at(lw, c.mask)->rank != 2)
        PG_FAIL(PG_E_UNSUPPORTED, "%s: the mask must have rows and steps only", PG_SHOW(l->name));
    PG_TRY(begin(&c, lw, in, n_in, &x, err));
    PG_TRY(run(&c, lw, x, all ? &sequence : NULL, err));
    out->n = 1;
    if (all) {
        PG_TRY(fold(lw, sequence, &sequence, err));
        PG_TRY(pg__from_channels_last(lw, l, sequence, &sequence, err));
        PG_TRY(unfold(lw, sequence, c.rows, c.steps, &out->v[0], err));
        PG_TRY(pg__pass_mask(lw, in[0], out->v[0], err));
    } else {
        PG_TRY(pg__from_channels_last(lw, l, c.y, &out->v[0], err));
    }
    if (n_in == 1) {
        PG_TRY(keep_state(&c, lw, 0, c.h, err));
        PG_TRY(keep_state(&c, lw, 1, c.c, err));
    }
    if (pg__config_bool(l, "return_state", 0)) {
        PG_TRY(pg__from_channels_last(lw, l, c.h, &out->v[1], err));
        PG_TRY(pg__from_channels_last(lw, l, c.c, &out->v[2], err));
        out->n = 3;
    }
done:
    return st;
}

/* layer_recurrent.c - recurrent layers as operations: LSTM, GRU, SimpleRNN of every generation, and
 * CuDNNLSTM and CuDNNGRU. The kernel of the inputs is a matrix product over all steps; the rest is
 * one operation. Sources: keras/layers/rnn of 2.15 and 3.6, keras/layers/recurrent.py of 1.2.2 and
 * 2.2.4, preprocess_weights_for_loading() for the layout of the CuDNN layers. */
#include "model/lower/recurrent.h"

#include <math.h>
#include <string.h>

#include "base/try.h"
#include "model/lower/layers.h"
#include "model/lower/spatial.h"

typedef struct kind {
    const char *suffix; /* of the class */
    uint64_t gates;
    pg__op_kind op;
    size_t n_states;
} kind;

static const kind kinds[] = {
    {"LSTM", 4, PG_OP_lstm, 2},
    {"GRU", 3, PG_OP_gru, 1},
    {"SimpleRNN", 1, PG_OP_rnn, 1},
};

typedef struct cell {
    const pg__layer *l,
        *around; /* around: the layer that configures the steps, l itself or an RNN */
    const kind *kind;
    int is_cudnn, is_keras1, has_bias;
    uint64_t units;
    pg__rnn_attrs attrs;
    double dropout, recurrent_dropout;
    int gates_differ;                                /* each gate drops elements of its own */
    pg__val kernel, recurrent, bias, recurrent_bias; /* as the operation wants them */
} cell;

static const kind *kind_of(const char *class_name)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strstr(class_name, kinds[i].suffix))
            return &kinds[i];
    return NULL;
}

static pg__tape *tape(pg__lowering *lw)
{
    return &lw->to->tape;
}

/* ---- variables, in the layouts that they are stored in ---- */

/* Columns first .. first + n of a matrix, elements of a vector. */
static pg_status cut(pg__lowering *lw, pg__val v, uint64_t first, uint64_t n, pg__val *out,
                     pg_err *err)
{
    const pg__dims *d = pg__dims_at(lw, v);
    const uint32_t axis = d->rank - 1;
    pg__pad_attrs a = {.before = {0}};
    a.before[axis] = -(int64_t)first;
    a.after[axis] = -(int64_t)(d->d[axis] - first - n);
    return pg__emit1(tape(lw), PG_OP_pad, &a, v, out, err);
}

static pg_status join(pg__lowering *lw, const pg__val *v, size_t n, pg__val *out, pg_err *err)
{
    const pg__concat_attrs a = {.axis = pg__dims_at(lw, v[0])->rank - 1};
    return pg__emit(tape(lw), PG_OP_concat, &a, v, n, out, err);
}

static pg_status transposed(pg__lowering *lw, pg__val v, pg__val *out, pg_err *err)
{
    const pg__transpose_attrs a = {.perm = {1, 0}};
    return pg__emit1(tape(lw), PG_OP_transpose, &a, v, out, err);
}

/* Each gate's block of a CuDNN kernel (rows, units) holds a matrix (units, rows). */
static pg_status from_cudnn(pg__lowering *lw, const cell *c, pg__val *kernel, pg_err *err)
{
    const uint64_t rows = pg__dims_at(lw, *kernel)->d[0];
    const pg__dims turned = pg__dims_of(2, (const uint64_t[]){c->units, rows});
    pg__val blocks[4];
    pg_status st = PG_OK;
    for (uint64_t g = 0; g < c->kind->gates; g++) {
        PG_TRY(cut(lw, *kernel, g * c->units, c->units, &blocks[g], err));
        PG_TRY(pg__lower_reshape(lw, blocks[g], &turned, &blocks[g], err));
        PG_TRY(transposed(lw, blocks[g], &blocks[g], err));
    }
    PG_TRY(join(lw, blocks, (size_t)c->kind->gates, kernel, err));
done:
    return st;
}

/* A row of a bias (2, n) as a vector. */
static pg_status bias_row(pg__lowering *lw, pg__val bias, uint64_t row, pg__val *out, pg_err *err)
{
    const uint64_t n = pg__dims_at(lw, bias)->d[1];
    const pg__dims flat = pg__dims_of(1, &(uint64_t){2 * n});
    pg_status st = PG_OK;
    PG_TRY(pg__lower_reshape(lw, bias, &flat, out, err));
    PG_TRY(cut(lw, *out, row * n, n, out, err));
done:
    return st;
}

static pg_status load_bias(pg__lowering *lw, cell *c, pg_err *err)
{
    const uint64_t n = c->kind->gates * c->units;
    pg__val half[2];
    pg_status st = PG_OK;
    if (c->is_cudnn) {
        PG_TRY(pg__lower_param(lw, "bias", 1, &(uint64_t){2 * n}, &c->bias, err));
        PG_TRY(cut(lw, c->bias, 0, n, &half[0], err));
        PG_TRY(cut(lw, c->bias, n, n, &half[1], err));
        c->bias = half[0];
        c->recurrent_bias = half[1];
        if (c->kind->op == PG_OP_lstm) {
            PG_TRY(pg__emit2(tape(lw), PG_OP_add, NULL, half[0], half[1], &c->bias, err));
            c->recurrent_bias = PG_NO_VAL;
        }
    } else if (c->attrs.reset_after) {
        PG_TRY(pg__lower_param(lw, "bias", 2, (const uint64_t[]){2, n}, &half[0], err));
        PG_TRY(bias_row(lw, half[0], 0, &c->bias, err));
        PG_TRY(bias_row(lw, half[0], 1, &c->recurrent_bias, err));
    } else {
        PG_TRY(pg__lower_param(lw, "bias", 1, &n, &c->bias, err));
    }
done:
    return st;
}

/* Keras 1: an array for every gate, named by its letter; put side by side as Keras 2 has them. */
static pg_status load_gates(pg__lowering *lw, cell *c, uint64_t features, pg_err *err)
{
    static const char *const lstm[][3] = {
        {"W_i", "U_i", "b_i"}, {"W_f", "U_f", "b_f"}, {"W_c", "U_c", "b_c"}, {"W_o", "U_o", "b_o"}};
    static const char *const gru[][3] = {
        {"W_z", "U_z", "b_z"}, {"W_r", "U_r", "b_r"}, {"W_h", "U_h", "b_h"}};
    const size_t n = (size_t)c->kind->gates;
    pg__val w[4], u[4], b[4];
    pg_status st = PG_OK;
    for (size_t g = 0; g < n; g++) {
        const char *const *names = n == 4 ? lstm[g] : gru[g];
        PG_TRY(
            pg__lower_param(lw, names[0], 2, (const uint64_t[]){features, c->units}, &w[g], err));
        PG_TRY(
            pg__lower_param(lw, names[1], 2, (const uint64_t[]){c->units, c->units}, &u[g], err));
        PG_TRY(pg__lower_param(lw, names[2], 1, &c->units, &b[g], err));
    }
    PG_TRY(join(lw, w, n, &c->kernel, err));
    PG_TRY(join(lw, u, n, &c->recurrent, err));
    PG_TRY(join(lw, b, n, &c->bias, err));
done:
    return st;
}

static pg_status load(pg__lowering *lw, cell *c, uint64_t features, pg_err *err)
{
    const char *mode = pg__json_get_str(c->l->config, "consume_less");
    const int apart = c->is_keras1 && c->kind->gates > 1 && !(mode && strcmp(mode, "gpu") == 0);
    const uint64_t n = c->kind->gates * c->units;
    const uint64_t w[] = {features, n}, u[] = {c->units, n};
    pg_status st = PG_OK;
    c->bias = c->recurrent_bias = PG_NO_VAL;
    if (apart)
        return load_gates(lw, c, features, err);
    PG_TRY(pg__lower_param(lw, c->is_keras1 ? "W" : "kernel", 2, w, &c->kernel, err));
    PG_TRY(pg__lower_param(lw, c->is_keras1 ? "U" : "recurrent_kernel", 2, u, &c->recurrent, err));
    if (c->is_cudnn) {
        PG_TRY(from_cudnn(lw, c, &c->kernel, err));
        PG_TRY(from_cudnn(lw, c, &c->recurrent, err));
    }
    if (c->is_keras1)
        PG_TRY(pg__lower_param(lw, "b", 1, &n, &c->bias, err));
    else if (c->has_bias)
        PG_TRY(load_bias(lw, c, err));
done:
    return st;
}

/* ---- the config ---- */

/* `key`, in Keras 1 `old`; absent: fallback. */
static pg_status read_activation(pg__lowering *lw, const cell *c, const char *key, const char *old,
                                 const char *fallback, pg__act_attrs *out, pg_err *err)
{
    const pg__json *which = pg__json_get(c->l->config, c->is_keras1 ? old : key);
    return pg__activation_attrs(lw, c->l, which, c->is_cudnn ? NULL : fallback, out, err);
}

/* Decides which elements are dropped: in Keras 3 the same for all gates; before, only with
 * implementation 2, which tf.keras does not use with recurrent dropout. If they are the same, the
 * state that a GRU carries over is dropped too. */
static pg_status read_dropout(pg__lowering *lw, cell *c, pg_err *err)
{
    const pg__rules *rules = lw->opts->rules;
    const pg__layer *l = c->l;
    int64_t implementation = rules->keras3 ? 2 : 1;
    pg_status st = PG_OK;
    PG_TRY(pg__config_rate(&c->dropout, l, c->is_keras1 ? "dropout_W" : "dropout", err));
    PG_TRY(pg__config_rate(&c->recurrent_dropout, l,
                           c->is_keras1 ? "dropout_U" : "recurrent_dropout", err));
    if (!rules->keras3)
        (void)pg__json_int(pg__json_get(l->config, "implementation"), &implementation);
    if (rules->bidirectional_zeros && !rules->keras3 && c->recurrent_dropout > 0)
        implementation = 1;
    c->gates_differ = implementation != 2 && c->kind->gates > 1;
    c->attrs.drop_carried = !c->gates_differ;
done:
    return st;
}

static pg_status read_cell(pg__lowering *lw, const pg__layer *l, const pg__layer *around, cell *c,
                           pg_err *err)
{
    const int hard = lw->opts->rules->recurrent_hard || pg__config_has(l, "inner_activation");
    pg_status st = PG_OK;
    *c = (cell){.l = l,
                .around = around,
                .kind = kind_of(l->class_name),
                .is_cudnn = strncmp(l->class_name, "CuDNN", 5) == 0,
                .is_keras1 = !pg__config_has(l, "units") && pg__config_has(l, "output_dim"),
                .has_bias = pg__config_bool(l, "use_bias", 1)};
    PG_TRY(pg__check_flags(l, err)); /* of a cell, or of one direction */
    PG_TRY(pg__config_dim(&c->units, l, c->is_keras1 ? "output_dim" : "units", err));
    c->attrs.act = (pg__act_attrs){.kind = PG_ACT_TANH};
    c->attrs.gate = (pg__act_attrs){.kind = PG_ACT_SIGMOID};
    c->attrs.reset_after =
        c->kind->op == PG_OP_gru && (c->is_cudnn || pg__config_bool(l, "reset_after", 0));
    c->attrs.reverse = pg__config_bool(around, "go_backwards", 0);
    c->attrs.zero_masked = pg__config_bool(around, "zero_output_for_mask", 0);
    PG_TRY(read_dropout(lw, c, err));
    if (c->is_cudnn)
        goto done;
    PG_TRY(read_activation(lw, c, "activation", "activation", "tanh", &c->attrs.act, err));
    if (c->kind->gates > 1)
        PG_TRY(read_activation(lw, c, "recurrent_activation", "inner_activation",
                               hard ? "hard_sigmoid" : "sigmoid", &c->attrs.gate, err));
done:
    return st;
}

/* ---- the sequence ---- */

/* Initial states: given, or those of a stateful layer, or absent (zeros). */
static pg_status first_states(pg__lowering *lw, const cell *c, const pg__rnn_call *call,
                              uint64_t rows, pg__val *h0, pg_err *err)
{
    const uint64_t shape[] = {rows, c->units};
    pg_status st = PG_OK;
    h0[0] = h0[1] = PG_NO_VAL;
    if (call->n_states > 0 && call->n_states != c->kind->n_states)
        PG_FAIL(PG_E_FORMAT, "%s: called with %zu initial states, has %zu", PG_SHOW(c->l->name),
                call->n_states, c->kind->n_states);
    for (size_t k = 0; k < call->n_states; k++)
        h0[k] = call->states[k];
    for (size_t k = 0; call->n_states == 0 && k < c->kind->n_states; k++)
        if (pg__config_bool(c->around, "stateful", 0))
            PG_TRY(pg__lower_state(lw, call->first_state + (uint32_t)k, shape, &h0[k], err));
done:
    return st;
}

static void keep_states(pg__lowering *lw, const cell *c, const pg__rnn_call *call,
                        const pg__val *results)
{
    if (call->n_states > 0 || !pg__config_bool(c->around, "stateful", 0))
        return;
    for (size_t k = 0; k < c->kind->n_states; k++)
        pg__keep_state(lw, call->first_state + (uint32_t)k, results[2 + k]);
}

/* (steps, rows, ...) and (rows, steps, ...) */
static pg_status swap_steps(pg__lowering *lw, pg__val *v, pg_err *err)
{
    pg__transpose_attrs a = {.perm = {1, 0, 2}};
    if (*v == PG_NO_VAL)
        return PG_OK;
    return pg__emit1(tape(lw), PG_OP_transpose, &a, *v, v, err);
}

/* x W + b; every step of a row drops the same features. */
static pg_status product(pg__lowering *lw, const cell *c, pg__val x, pg__val *out, pg_err *err)
{
    const pg__dims d = *pg__dims_at(lw, x);
    const pg__dims noise = pg__dims_of(3, (const uint64_t[]){d.d[0], 1, d.d[2]});
    const int apart = c->gates_differ && c->dropout > 0 && lw->training;
    const uint64_t n = apart ? c->kind->gates : 1, width = c->kind->gates / n * c->units;
    pg__val z[4];
    pg_status st = PG_OK;
    for (uint64_t g = 0; g < n; g++) {
        pg__val in[3] = {x, c->kernel, c->bias};
        PG_TRY(pg__lower_dropout_of(lw, x, c->dropout, &noise, 0, &in[0], err));
        if (apart)
            PG_TRY(cut(lw, c->kernel, g * width, width, &in[1], err));
        if (apart && c->bias != PG_NO_VAL)
            PG_TRY(cut(lw, c->bias, g * width, width, &in[2], err));
        PG_TRY(pg__emit(tape(lw), PG_OP_dense, NULL, in, 3, &z[g], err));
    }
    *out = z[0];
    if (apart)
        PG_TRY(join(lw, z, (size_t)n, out, err));
done:
    return st;
}

/* The operation's results; x and mask with the rows first. */
static pg_status run(pg__lowering *lw, cell *c, const pg__rnn_call *call, pg__val x, pg__val mask,
                     pg__val *results, pg_err *err)
{
    const uint64_t rows = pg__dims_at(lw, x)->d[0], features = pg__dims_at(lw, x)->d[2];
    const pg__dims kept =
        pg__dims_of(3, (const uint64_t[]){rows, c->gates_differ ? c->kind->gates : 1, c->units});
    pg__val h0[2], zx, factors;
    pg_status st = PG_OK;
    PG_TRY(first_states(lw, c, call, rows, h0, err));
    PG_TRY(load(lw, c, features, err));
    PG_TRY(product(lw, c, x, &zx, err));
    PG_TRY(pg__lower_factors(lw, c->recurrent_dropout, &kept, &factors, err));
    const pg__val in[] = {zx, c->recurrent, c->recurrent_bias, h0[0], h0[1], mask, factors};
    PG_TRY(pg__emit(tape(lw), c->kind->op, &c->attrs, in, sizeof in / sizeof *in, results, err));
    keep_states(lw, c, call, results);
done:
    return st;
}

pg_status pg__lower_recurrence(pg__lowering *lw, const pg__layer *l, const pg__rnn_call *call,
                               pg__results *out, pg_err *err)
{
    const pg__layer *around = call->around ? call->around : l;
    const int time_major = pg__config_bool(around, "time_major", 0);
    const int all = call->within || pg__config_bool(around, "return_sequences", 0);
    pg__val x = call->x, results[PG_MAX_OUTPUTS];
    pg__val mask = call->ignores_mask ? PG_NO_VAL : pg__mask_of(lw, x);
    cell c;
    pg_status st = PG_OK;
    PG_TRY(read_cell(lw, l, around, &c, err));
    c.attrs.reverse ^= call->turned;
    c.attrs.flip = call->within ? c.attrs.reverse : call->flip && all; /* within: as they came */
    c.attrs.zero_masked |= call->zero_masked && all;
    if (pg__dims_at(lw, x)->rank != 3 || pg__dims_at(lw, x)->d[2] == PG_DIM_ANY)
        PG_FAIL(PG_E_MISMATCH, "input %s is not (rows, steps, features)",
                PG_SHAPE(pg__dims_at(lw, x)));
    if (time_major) {
        lw->to->steps_first = 1;
        PG_TRY(swap_steps(lw, &x, err));
        PG_TRY(swap_steps(lw, &mask, err));
    }
    PG_TRY(run(lw, &c, call, x, mask, results, err));
    out->n = 1;
    out->v[0] = results[all ? 0 : 1];
    if (all && time_major)
        PG_TRY(swap_steps(lw, &out->v[0], err));
    if (all)
        PG_TRY(pg__pass_mask(lw, call->x, out->v[0], err));
    for (size_t k = 0; pg__config_bool(around, "return_state", 0) && k < c.kind->n_states; k++)
        out->v[out->n++] = results[2 + k];
done:
    return st;
}

int pg__call_ignores_mask(const pg__lowering *lw, size_t n_in)
{
    const pg__json *mask = lw->kwargs ? pg__json_get(lw->kwargs, "mask") : NULL;
    const int given = mask && pg__json_type_of(mask) != PG_J_NULL;
    return lw->opts->rules->keras3 && n_in > 1 && !given;
}

size_t pg__cell_states(const char *class_name)
{
    const kind *k = kind_of(class_name);
    return k ? k->n_states : 0;
}

static pg_status lower_layer(pg__lowering *lw, const pg__layer *l, const pg__val *in, size_t n_in,
                             pg__results *out, pg_err *err)
{
    const pg__rnn_call call = {.x = in[0],
                               .states = in + 1,
                               .n_states = n_in - 1,
                               .ignores_mask = pg__call_ignores_mask(lw, n_in)};
    for (size_t k = 1; lw->args && k < n_in; k++)
        if (lw->args[k] && strcmp(lw->args[k], "initial_state") != 0)
            return pg_fail(err, PG_E_UNSUPPORTED, "%s: a call with \"%s\" is not supported",
                           PG_SHOW(l->name), PG_SHOW(lw->args[k]));
    return pg__lower_direction(lw, l, lw->n_vars ? lw->first_var : 0, &call, out, err);
}

pg_status pg__lower_rnn(pg__lowering *lw, const pg__layer *l, const pg__val *in, size_t n_in,
                        pg__results *out, pg_err *err)
{
    return lower_layer(lw, l, in, n_in, out, err);
}

pg_status pg__lower_cells(pg__lowering *lw, const pg__layer *l, const pg__val *in, size_t n_in,
                          pg__results *out, pg_err *err)
{
    return lower_layer(lw, l, in, n_in, out, err);
}

/* op_cases.h - a case of every operation of ops.def, at shapes that are awkward on purpose. */
#ifndef PG_TESTS_OP_CASES_H
#define PG_TESTS_OP_CASES_H

#include <math.h>

#include "ops/attrs.h"
#include "ops/op.h"

#define MAX_IN  16
#define MAX_OUT 8
#define LARGE   100

/* How an operand is filled; what is not smooth is kept away from its kinks. */
typedef enum fill {
    NONE,
    NORMAL,
    SMALL,
    POSITIVE,
    PROBABILITY,
    ONE_HOT,
    CLASS,
    MASK,
    OPEN,
    SCALAR,
    STEP,   /* what dropout's numbers depend on */
    IDS,    /* many, some often, some that no table has */
    MISSING /* a value that nobody gives when it is run */
} fill;

typedef struct operand {
    fill fill;
    pg__dims shape;
} operand;

typedef struct op_case {
    pg__op_kind kind;
    const void *attrs;
    operand in[MAX_IN];
    size_t n_in;
    size_t n_grads; /* the first operands, as far as they are numbers, have gradients to check; */
                    /* with LARGE not by differences, for which a smaller case is there */
} op_case;

#define S(...)                                                \
    {                                                         \
        sizeof((uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t), \
        {                                                     \
            __VA_ARGS__                                       \
        }                                                     \
    }
#define ACT(...)           \
    &(const pg__act_attrs) \
    {                      \
        __VA_ARGS__        \
    }
#define BN_ACT(...)                                          \
    &(const pg__bn_attrs)                                    \
    {                                                        \
        .epsilon = 1e-3, .has_act = 1, .act = {__VA_ARGS__}, \
    }
#define NORM(attrs, x, width, grads)                                                            \
    {                                                                                           \
        PG_OP_bn_stats, attrs, {{NORMAL, x}, {NORMAL, width}, {NORMAL, width}, {NONE, {0}}}, 4, \
            grads                                                                               \
    }
#define NORM_ACT(...) NORM(BN_ACT(__VA_ARGS__), S(5, 2, 17), S(17), 3)
#define LOSS(...)           \
    &(const pg__loss_attrs) \
    {                       \
        __VA_ARGS__         \
    }
#define RESHAPE(...)           \
    &(const pg__reshape_attrs) \
    {                          \
        S(__VA_ARGS__)         \
    }
#define ROW_LOSS(...)                                                                     \
    {                                                                                     \
        PG_OP_loss, LOSS(__VA_ARGS__),                                                    \
            {{NORMAL, S(3, 5)}, {NORMAL, S(3, 5)}, {POSITIVE, S(3)}, {SCALAR, {0}}}, 4, 1 \
    }
#define PROB_LOSS(target, ...)                                                                 \
    {                                                                                          \
        PG_OP_loss, LOSS(__VA_ARGS__),                                                         \
            {{PROBABILITY, S(4, 5)}, {target, S(4, 5)}, {POSITIVE, S(4)}, {SCALAR, {0}}}, 4, 1 \
    }
/* More predictions than fill a vector. */
#define WIDE_LOSS(grads, from, shape, target, targets, rows, ...)                         \
    {                                                                                     \
        PG_OP_loss, LOSS(__VA_ARGS__),                                                    \
            {{from, shape}, {target, targets}, {POSITIVE, rows}, {SCALAR, {0}}}, 4, grads \
    }
#define CLASS_LOSS(from, ...)                                                        \
    {                                                                                \
        PG_OP_loss, LOSS(__VA_ARGS__),                                               \
            {{from, S(2, 3, 5)}, {CLASS, S(2, 3)}, {NONE, {0}}, {SCALAR, {0}}}, 4, 1 \
    }
#define ACT_CASE(...)                                           \
    {                                                           \
        PG_OP_act, ACT(__VA_ARGS__), {{NORMAL, S(3, 17)}}, 1, 1 \
    }

#define ATTRS(type, ...)        \
    &(const pg__##type##_attrs) \
    {                           \
        __VA_ARGS__             \
    }
#define CONV(...) ATTRS(conv, __VA_ARGS__)
#define POOL(...) ATTRS(pool, __VA_ARGS__)
#define HALVES(is_max) \
    POOL(.rank = 2, .max = is_max, .window = {2, 2}, .stride = {2, 2}) /* of each side */
#define RNN(...) ATTRS(rnn, __VA_ARGS__)
#define TANH     .act = {PG_ACT_TANH, 0, 0, 0}
#define SIGMOID  .gate = {PG_ACT_SIGMOID, 0, 0, 0}
/* clang-format off */
#define ABSENT {NONE, {0}}
/* Rows, steps, units, gates: everything given; then only what must be. */
#define RNN_OF(grads, op, B, T, H, G, bias, cell, n_factors, ...)                                 \
    {PG_OP_##op, RNN(__VA_ARGS__),                                                               \
     {{NORMAL, S(B, T, (G) * (H))}, {SMALL, S(H, (G) * (H))}, {bias, S((G) * (H))},              \
      {NORMAL, S(B, H)}, {cell, S(B, H)}, {MASK, S(B, T)}, {POSITIVE, S(B, n_factors, H)}},       \
     7, grads}
#define BARE_RNN_OF(grads, op, B, T, H, G, ...)                                                   \
    {PG_OP_##op, RNN(__VA_ARGS__),                                                               \
     {{NORMAL, S(B, T, (G) * (H))}, {SMALL, S(H, (G) * (H))}, ABSENT, ABSENT, ABSENT, ABSENT,    \
      ABSENT},                                                                                    \
     7, grads}
#define RNN_CASE(...)            RNN_OF(5, __VA_ARGS__)
#define BARE_RNN_CASE(...)       BARE_RNN_OF(2, __VA_ARGS__)
#define LARGE_RNN_CASE(...)      RNN_OF(LARGE + 5, __VA_ARGS__)
#define LARGE_BARE_RNN_CASE(...) BARE_RNN_OF(LARGE + 2, __VA_ARGS__)
/* clang-format on */
#define ATTENTION(...) ATTRS(attention, __VA_ARGS__)

#ifdef PG_SIZE_CASES
static const op_case cases[] = {
#include "ops/op_cases_sizes.def"
};
#else
static const op_case cases[] = {
    RNN_CASE(lstm, 3, 5, 3, 4, NONE, NORMAL, 4, TANH, SIGMOID),
    RNN_CASE(lstm, 3, 5, 3, 4, NONE, NORMAL, 1, TANH, SIGMOID, .reverse = 1, .zero_masked = 1),
    BARE_RNN_CASE(lstm, 1, 4, 5, 4, TANH, .gate = {PG_ACT_HARD_SIGMOID, 0.2, 0.5, 0}, .flip = 1),
    BARE_RNN_CASE(lstm, 2, 1, 1, 4, .act = {PG_ACT_SOFTSIGN, 0, 0, 0}, SIGMOID),
    RNN_CASE(gru, 3, 5, 3, 3, NORMAL, NONE, 3, TANH, SIGMOID, .reset_after = 1),
    RNN_CASE(gru, 3, 5, 3, 3, NORMAL, NONE, 1, TANH, SIGMOID, .reset_after = 1, .drop_carried = 1,
             .reverse = 1, .flip = 1),
    RNN_CASE(gru, 3, 5, 3, 3, NONE, NONE, 3, TANH, SIGMOID, .zero_masked = 1),
    BARE_RNN_CASE(gru, 1, 4, 5, 3, TANH, .gate = {PG_ACT_HARD_SIGMOID, 0.2, 0.5, 0}),
    BARE_RNN_CASE(gru, 2, 3, 1, 3, TANH, SIGMOID, .reset_after = 1),
    RNN_CASE(rnn, 3, 5, 3, 1, NONE, NONE, 1, TANH, SIGMOID),
    BARE_RNN_CASE(rnn, 2, 4, 5, 1, .act = {PG_ACT_RELU, INFINITY, 1, 0}, SIGMOID, .reverse = 1),
    /* a row whose only step is masked */
    RNN_CASE(lstm, 3, 1, 3, 4, NONE, NORMAL, 1, TANH, SIGMOID),
    RNN_CASE(gru, 3, 1, 3, 3, NORMAL, NONE, 3, TANH, SIGMOID, .reset_after = 1),
    RNN_CASE(gru, 3, 1, 3, 3, NONE, NONE, 1, TANH, SIGMOID, .zero_masked = 1),
    RNN_CASE(rnn, 3, 1, 3, 1, NONE, NONE, 1, TANH, SIGMOID),
    /* so many steps that the recurrent kernel is packed for them, and more units than are summed at
     * once */
    LARGE_BARE_RNN_CASE(lstm, 10, 16, 101, 4, TANH, SIGMOID),
    LARGE_BARE_RNN_CASE(lstm, 33, 16, 128, 4, TANH, SIGMOID),
    LARGE_RNN_CASE(lstm, 21, 16, 18, 4, NONE, NORMAL, 1, TANH, SIGMOID, .reverse = 1),
    LARGE_RNN_CASE(gru, 15, 17, 19, 3, NONE, NONE, 3, TANH, SIGMOID, .zero_masked = 1),
    LARGE_BARE_RNN_CASE(gru, 19, 16, 17, 3, TANH, SIGMOID, .reverse = 1),
    LARGE_RNN_CASE(lstm, 67, 21, 17, 4, NONE, NORMAL, 4, TANH, SIGMOID, .flip = 1),
    LARGE_BARE_RNN_CASE(lstm, 5, 121, 33, 4, TANH, SIGMOID, .reverse = 1),
    LARGE_RNN_CASE(gru, 67, 21, 17, 3, NORMAL, NONE, 3, TANH, SIGMOID, .reset_after = 1),
    LARGE_RNN_CASE(gru, 66, 9, 17, 3, NONE, NONE, 1, TANH, SIGMOID, .reverse = 1),
    LARGE_BARE_RNN_CASE(gru, 5, 121, 16, 3, TANH, SIGMOID, .reset_after = 1),
    LARGE_RNN_CASE(rnn, 67, 21, 17, 1, NONE, NONE, 1, TANH, SIGMOID, .reverse = 1),
    LARGE_BARE_RNN_CASE(rnn, 5, 121, 16, 1, TANH, SIGMOID),
    {PG_OP_attention,
     ATTENTION(.heads = 2, .scale = 0.5),
     {{NORMAL, S(3, 5, 6)},
      {NORMAL, S(3, 4, 6)},
      {NORMAL, S(3, 4, 2)},
      {OPEN, S(3, 5)},
      {MASK, S(3, 4)},
      {MASK, S(3, 4)},
      {MASK, S(3, 1, 4)},
      {POSITIVE, S(3, 2, 5, 4)}},
     8,
     3},
    {PG_OP_attention,
     ATTENTION(.heads = 3, .scale = 1, .causal = 1),
     {{NORMAL, S(1, 4, 3)},
      {NORMAL, S(1, 4, 3)},
      {NORMAL, S(1, 4, 51)},
      ABSENT,
      ABSENT,
      ABSENT,
      {MASK, S(1, 1, 4, 4)},
      ABSENT},
     8,
     3},
    {PG_OP_attention,
     ATTENTION(.heads = 2, .scale = 0.3, .causal = 1),
     {{NORMAL, S(2, 37, 38)},
      {SMALL, S(2, 41, 38)},
      {NORMAL, S(2, 41, 22)},
      {MASK, S(2, 37)},
      {MASK, S(2, 41)},
      {MASK, S(2, 41)},
      {MASK, S(2, 2, 37, 1)},
      {POSITIVE, S(2, 2, 37, 41)}},
     8,
     LARGE + 3},
    {PG_OP_attention,
     ATTENTION(.heads = 4, .scale = 0.25),
     {{NORMAL, S(1, 33, 64)},
      {SMALL, S(1, 129, 64)},
      {NORMAL, S(1, 129, 4)},
      ABSENT,
      {MASK, S(1, 129)},
      ABSENT,
      {MASK, S(1, 4, 1, 129)},
      ABSENT},
     8,
     LARGE + 3},
    {PG_OP_attention,
     ATTENTION(.heads = 1, .scale = 0.3),
     {{NORMAL, S(2, 3, 8)},
      {SMALL, S(2, 600, 8)},
      {NORMAL, S(2, 600, 5)},
      ABSENT,
      {MASK, S(2, 600)},
      ABSENT,
      ABSENT,
      {POSITIVE, S(2, 1, 3, 600)}},
     8,
     LARGE + 3},
    {PG_OP_dense,
     NULL,
     {{NORMAL, S(67, 3, 37)}, {SMALL, S(37, 65)}, {NORMAL, S(65)}},
     3,
     LARGE + 3},
    /* so many rows that kernels and biases have their gradients from kernels of our own */
    {PG_OP_dense, NULL, {{NORMAL, S(2050, 9)}, {SMALL, S(9, 17)}, {NORMAL, S(17)}}, 3, LARGE + 3},
    {PG_OP_dense, NULL, {{NORMAL, S(2050, 12)}, {SMALL, S(12, 8)}, {NORMAL, S(8)}}, 3, LARGE + 3},
    {PG_OP_dense, NULL, {{NORMAL, S(1, 130)}, {SMALL, S(130, 10)}, ABSENT}, 3, LARGE + 2},
    /* enough cells to a row for the CPU's own products */
    {PG_OP_dense,
     NULL,
     {{NORMAL, S(3, 41, 65)}, {SMALL, S(65, 37)}, {NORMAL, S(37)}},
     3,
     LARGE + 3},
    {PG_OP_layer_norm,
     &(const pg__layer_norm_attrs){1, 1e-3},
     {{NORMAL, S(3, 2, 7)}, {NORMAL, S(7)}, {NORMAL, S(7)}},
     3,
     3},
    {PG_OP_layer_norm,
     &(const pg__layer_norm_attrs){2, 1e-12},
     {{NORMAL, S(1, 3, 5)}, {NORMAL, S(3, 5)}, ABSENT},
     3,
     2},
    {PG_OP_layer_norm,
     &(const pg__layer_norm_attrs){1, 1e-3},
     {{NORMAL, S(5, 37)}, {NORMAL, S(37)}, {NORMAL, S(37)}},
     3,
     3},
    {PG_OP_layer_norm,
     &(const pg__layer_norm_attrs){1, 1e-3},
     {{NORMAL, S(4, 70, 40)}, {NORMAL, S(40)}, {NORMAL, S(40)}},
     3,
     LARGE + 3},
    {PG_OP_layer_norm,
     &(const pg__layer_norm_attrs){2, 1e-5},
     {{NORMAL, S(3, 12, 100)}, {NORMAL, S(12, 100)}, ABSENT},
     3,
     LARGE + 2},
    {PG_OP_embedding, NULL, {{CLASS, S(2, 7)}, {NORMAL, S(5, 3)}}, 2, 2},
    {PG_OP_mask_rows, NULL, {{NORMAL, S(3, 2, 5)}, {MASK, S(3, 2)}}, 2, 1},
    {PG_OP_dense, NULL, {{NORMAL, S(3, 5)}, {NORMAL, S(5, 7)}, {NORMAL, S(7)}}, 3, 3},
    {PG_OP_dense, NULL, {{NORMAL, S(2, 3, 1)}, {NORMAL, S(1, 17)}, {NONE, {0}}}, 3, 2},
    {PG_OP_add, NULL, {{NORMAL, S(3, 5)}, {NORMAL, S(3, 5)}}, 2, 2},
    {PG_OP_softmax, NULL, {{NORMAL, S(3, 2, 5)}}, 1, 1},
    {PG_OP_softmax, NULL, {{NORMAL, S(3, 1)}}, 1, 1},
    {PG_OP_softmax, NULL, {{NORMAL, S(2, 37)}}, 1, 1},
    {PG_OP_reshape, RESHAPE(3, 10), {{NORMAL, S(3, 2, 5)}}, 1, 1},
    ACT_CASE(PG_ACT_RELU, INFINITY, 0, 0),
    ACT_CASE(PG_ACT_RELU, 0.9, 0.1, 0.3),
    ACT_CASE(PG_ACT_RELU, INFINITY, 0.2, 0),
    ACT_CASE(PG_ACT_SIGMOID, 0, 0, 0),
    ACT_CASE(PG_ACT_TANH, 0, 0, 0),
    ACT_CASE(PG_ACT_HARD_SIGMOID, 0.2, 0.5, 0),
    ACT_CASE(PG_ACT_HARD_SIGMOID, 1.0 / 6, 0.5, 0),
    ACT_CASE(PG_ACT_ELU, 1, 0, 0),
    ACT_CASE(PG_ACT_ELU, -0.5, 0, 0),
    ACT_CASE(PG_ACT_SELU, 0, 0, 0),
    ACT_CASE(PG_ACT_SOFTPLUS, 0, 0, 0),
    ACT_CASE(PG_ACT_SOFTSIGN, 0, 0, 0),
    ACT_CASE(PG_ACT_EXPONENTIAL, 0, 0, 0),
    ACT_CASE(PG_ACT_GELU, 0, 0, 0),
    ACT_CASE(PG_ACT_GELU_TANH, 0, 0, 0),
    ACT_CASE(PG_ACT_SWISH, 0, 0, 0),
    ACT_CASE(PG_ACT_MISH, 0, 0, 0),
    {PG_OP_act, ACT(PG_ACT_RSQRT, 0, 0, 0), {{POSITIVE, S(3, 17)}}, 1, 1},
    {PG_OP_activity, ATTRS(activity, 0.3, 0.2), {{NORMAL, S(3, 7)}, {SCALAR, {0}}}, 2, 1},
#include "ops/op_cases_conv.def"
#include "ops/op_cases_norm.def"
    {PG_OP_binary, ATTRS(binary, PG_ADD), {{NORMAL, S(2, 3, 5)}, {NORMAL, S(5)}}, 2, 2},
    {PG_OP_binary, ATTRS(binary, PG_SUBTRACT), {{NORMAL, S(3, 1)}, {NORMAL, S(2, 1, 4)}}, 2, 2},
    {PG_OP_binary,
     ATTRS(binary, PG_MULTIPLY),
     {{NORMAL, S(2, 1, 1, 3)}, {NORMAL, S(2, 2, 2, 3)}},
     2,
     2},
    {PG_OP_binary, ATTRS(binary, PG_MULTIPLY), {{NORMAL, S(3, 5)}, {NORMAL, S(3, 5)}}, 2, 2},
    {PG_OP_binary, ATTRS(binary, PG_DIVIDE), {{NORMAL, S(2, 3)}, {POSITIVE, S(2, 1)}}, 2, 2},
    {PG_OP_binary, ATTRS(binary, PG_MAXIMUM), {{NORMAL, S(2, 3, 5)}, {NORMAL, S(3, 1)}}, 2, 2},
    {PG_OP_binary, ATTRS(binary, PG_MINIMUM), {{NORMAL, S(17)}, {NORMAL, S(1, 17)}}, 2, 2},
    {PG_OP_affine, ATTRS(affine, -0.3, 2), {{NORMAL, S(3, 5)}}, 1, 1},
    {PG_OP_spread, ATTRS(spread, S(2, 4, 3)), {{NORMAL, S(2, 1, 3)}}, 1, 1},
    {PG_OP_spread, ATTRS(spread, S(2, 4, 3)), {{NORMAL, S(1, 1)}}, 1, 1},
    {PG_OP_sum_to, ATTRS(spread, S(1, 3)), {{NORMAL, S(2, 4, 3)}}, 1, 1},
    {PG_OP_sum_to, ATTRS(spread, S(2, 1, 1)), {{NORMAL, S(2, 4, 17)}}, 1, 1},
    {PG_OP_concat, ATTRS(concat, 1), {{NORMAL, S(2, 3, 5)}, {NORMAL, S(2, 1, 5)}}, 2, 2},
    {PG_OP_concat, ATTRS(concat, 2), {{NORMAL, S(2, 2, 1)}, {NORMAL, S(2, 2, 17)}}, 2, 2},
    {PG_OP_pad, ATTRS(pad, {0, 1, -1}, {0, -2, 2}, {0}), {{NORMAL, S(2, 5, 3)}}, 1, 1},
    {PG_OP_pad, ATTRS(pad, {0, 1, 2, 0}, {0, 2, 1, 0}, {0}), {{NORMAL, S(2, 2, 3, 5)}}, 1, 1},
    {PG_OP_pad, ATTRS(pad, {1, 0, 2}, {1, 0, -3}, {0}), {{NORMAL, S(2, 2, 3)}}, 1, 1},
    {PG_OP_pad, ATTRS(pad, {0, 0, -17}, {0}, {0}), {{NORMAL, S(2, 3, 50)}}, 1, 1},
    {PG_OP_pad, ATTRS(pad, {-1}, {0, -2}, {0}), {{NORMAL, S(4, 5, 70)}}, 1, LARGE + 1},
    {PG_OP_transpose, ATTRS(transpose, {0, 3, 1, 2}), {{NORMAL, S(2, 3, 1, 5)}}, 1, 1},
    {PG_OP_transpose, ATTRS(transpose, {2, 0, 1}), {{NORMAL, S(2, 3, 5)}}, 1, 1},
    {PG_OP_transpose, ATTRS(transpose, {0, 2, 1}), {{NORMAL, S(2, 19, 35)}}, 1, 1},
    {PG_OP_transpose, ATTRS(transpose, {0, 2, 1, 3}), {{NORMAL, S(2, 3, 4, 5)}}, 1, 1},
    {PG_OP_transpose, ATTRS(transpose, {3, 1, 0, 2}), {{NORMAL, S(2, 3, 4, 17)}}, 1, 1},
    {PG_OP_resize, ATTRS(resize, 1, 0, {3}), {{NORMAL, S(2, 4, 17)}}, 1, 1},
    {PG_OP_resize, ATTRS(resize, 3, 0, {2, 3, 2}), {{NORMAL, S(2, 2, 3, 2, 5)}}, 1, 1},
    {PG_OP_resize, ATTRS(resize, 2, 0, {2, 3}), {{NORMAL, S(2, 3, 2, 5)}}, 1, 1},
    {PG_OP_resize, ATTRS(resize, 2, 1, {3, 2}), {{NORMAL, S(1, 3, 2, 3)}}, 1, 1},
    {PG_OP_resize, ATTRS(resize, 3, 0, {1, 2, 2}), {{NORMAL, S(1, 2, 1, 3, 1)}}, 1, 1},
    {PG_OP_dropout,
     ATTRS(dropout, 0.4, 7, 0, S(3, 17), 0),
     {{NORMAL, S(3, 17)}, {CLASS, S(PG_STEP_N)}},
     2,
     1},
    {PG_OP_dropout,
     ATTRS(dropout, 0.3, 7, 0, S(3, 171), 0),
     {{NORMAL, S(3, 171)}, {CLASS, S(PG_STEP_N)}},
     2,
     1},
    {PG_OP_dropout,
     ATTRS(dropout, 0.5, 7, 0, S(2, 1, 5), 0),
     {{NORMAL, S(2, 3, 5)}, {CLASS, S(PG_STEP_N)}},
     2,
     1},
    {PG_OP_constant, ATTRS(constant, S(3), (const double[]){0.25, -1, 7}), {{NONE, {0}}}, 0, 0},
#include "ops/op_cases_loss.def"
#include "ops/op_cases_move.def"
};
#endif
#define N_CASES (sizeof cases / sizeof *cases)

#endif

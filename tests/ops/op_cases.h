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
#define NORM(attrs, x, width, grads)                                                             \
    {                                                                                            \
        PG__OP_bn_stats, attrs, {{NORMAL, x}, {NORMAL, width}, {NORMAL, width}, {NONE, {0}}}, 4, \
            grads                                                                                \
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
        PG__OP_loss, LOSS(__VA_ARGS__),                                                   \
            {{NORMAL, S(3, 5)}, {NORMAL, S(3, 5)}, {POSITIVE, S(3)}, {SCALAR, {0}}}, 4, 1 \
    }
#define PROB_LOSS(target, ...)                                                                 \
    {                                                                                          \
        PG__OP_loss, LOSS(__VA_ARGS__),                                                        \
            {{PROBABILITY, S(4, 5)}, {target, S(4, 5)}, {POSITIVE, S(4)}, {SCALAR, {0}}}, 4, 1 \
    }
/* More predictions than fill a vector. */
#define WIDE_LOSS(grads, from, shape, target, targets, rows, ...)                         \
    {                                                                                     \
        PG__OP_loss, LOSS(__VA_ARGS__),                                                   \
            {{from, shape}, {target, targets}, {POSITIVE, rows}, {SCALAR, {0}}}, 4, grads \
    }
#define CLASS_LOSS(from, ...)                                                        \
    {                                                                                \
        PG__OP_loss, LOSS(__VA_ARGS__),                                              \
            {{from, S(2, 3, 5)}, {CLASS, S(2, 3)}, {NONE, {0}}, {SCALAR, {0}}}, 4, 1 \
    }
#define ACT_CASE(...)                                            \
    {                                                            \
        PG__OP_act, ACT(__VA_ARGS__), {{NORMAL, S(3, 17)}}, 1, 1 \
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
#define TANH     .act = {PG__ACT_TANH, 0, 0, 0}
#define SIGMOID  .gate = {PG__ACT_SIGMOID, 0, 0, 0}
/* clang-format off */
#define ABSENT {NONE, {0}}
/* Rows, steps, units, gates: everything given; then only what must be. */
#define RNN_OF(grads, op, B, T, H, G, bias, cell, n_factors, ...)                                 \
    {PG__OP_##op, RNN(__VA_ARGS__),                                                               \
     {{NORMAL, S(B, T, (G) * (H))}, {SMALL, S(H, (G) * (H))}, {bias, S((G) * (H))},              \
      {NORMAL, S(B, H)}, {cell, S(B, H)}, {MASK, S(B, T)}, {POSITIVE, S(B, n_factors, H)}},       \
     7, grads}
#define BARE_RNN_OF(grads, op, B, T, H, G, ...)                                                   \
    {PG__OP_##op, RNN(__VA_ARGS__),                                                               \
     {{NORMAL, S(B, T, (G) * (H))}, {SMALL, S(H, (G) * (H))}, ABSENT, ABSENT, ABSENT, ABSENT,    \
      ABSENT},                                                                                    \
     7, grads}
#define RNN_CASE(...)            RNN_OF(5, __VA_ARGS__)
#define BARE_RNN_CASE(...)       BARE_RNN_OF(2, __VA_ARGS__)
#define LARGE_RNN_CASE(...)      RNN_OF(LARGE + 5, __VA_ARGS__)
#define LARGE_BARE_RNN_CASE(...) BARE_RNN_OF(LARGE + 2, __VA_ARGS__)
/* clang-format on */
#define ATTENTION(...) ATTRS(attention, __VA_ARGS__)

static const op_case cases[] = {
    RNN_CASE(lstm, 3, 5, 3, 4, NONE, NORMAL, 4, TANH, SIGMOID),
    RNN_CASE(lstm, 3, 5, 3, 4, NONE, NORMAL, 1, TANH, SIGMOID, .reverse = 1, .zero_masked = 1),
    BARE_RNN_CASE(lstm, 1, 4, 5, 4, TANH, .gate = {PG__ACT_HARD_SIGMOID, 0.2, 0.5, 0}, .flip = 1),
    BARE_RNN_CASE(lstm, 2, 1, 1, 4, .act = {PG__ACT_SOFTSIGN, 0, 0, 0}, SIGMOID),
    RNN_CASE(gru, 3, 5, 3, 3, NORMAL, NONE, 3, TANH, SIGMOID, .reset_after = 1),
    RNN_CASE(gru, 3, 5, 3, 3, NORMAL, NONE, 1, TANH, SIGMOID, .reset_after = 1, .drop_carried = 1,
             .reverse = 1, .flip = 1),
    RNN_CASE(gru, 3, 5, 3, 3, NONE, NONE, 3, TANH, SIGMOID, .zero_masked = 1),
    BARE_RNN_CASE(gru, 1, 4, 5, 3, TANH, .gate = {PG__ACT_HARD_SIGMOID, 0.2, 0.5, 0}),
    BARE_RNN_CASE(gru, 2, 3, 1, 3, TANH, SIGMOID, .reset_after = 1),
    RNN_CASE(rnn, 3, 5, 3, 1, NONE, NONE, 1, TANH, SIGMOID),
    BARE_RNN_CASE(rnn, 2, 4, 5, 1, .act = {PG__ACT_RELU, INFINITY, 1, 0}, SIGMOID, .reverse = 1),
    /* a row whose only step is masked */
    RNN_CASE(lstm, 3, 1, 3, 4, NONE, NORMAL, 1, TANH, SIGMOID),
    RNN_CASE(gru, 3, 1, 3, 3, NORMAL, NONE, 3, TANH, SIGMOID, .reset_after = 1),
    RNN_CASE(gru, 3, 1, 3, 3, NONE, NONE, 1, TANH, SIGMOID, .zero_masked = 1),
    RNN_CASE(rnn, 3, 1, 3, 1, NONE, NONE, 1, TANH, SIGMOID),
    LARGE_RNN_CASE(lstm, 67, 11, 17, 4, NONE, NORMAL, 4, TANH, SIGMOID, .flip = 1),
    LARGE_BARE_RNN_CASE(lstm, 5, 121, 33, 4, TANH, SIGMOID, .reverse = 1),
    LARGE_RNN_CASE(gru, 67, 11, 17, 3, NORMAL, NONE, 3, TANH, SIGMOID, .reset_after = 1),
    LARGE_RNN_CASE(gru, 66, 9, 17, 3, NONE, NONE, 1, TANH, SIGMOID, .reverse = 1),
    LARGE_BARE_RNN_CASE(gru, 5, 121, 16, 3, TANH, SIGMOID, .reset_after = 1),
    LARGE_RNN_CASE(rnn, 67, 11, 17, 1, NONE, NONE, 1, TANH, SIGMOID, .reverse = 1),
    LARGE_BARE_RNN_CASE(rnn, 5, 121, 16, 1, TANH, SIGMOID),
    {PG__OP_attention,
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
    {PG__OP_attention,
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
    {PG__OP_attention,
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
    {PG__OP_attention,
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
    {PG__OP_attention,
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
    {PG__OP_dense,
     NULL,
     {{NORMAL, S(67, 3, 37)}, {SMALL, S(37, 65)}, {NORMAL, S(65)}},
     3,
     LARGE + 3},
    {PG__OP_dense, NULL, {{NORMAL, S(1, 130)}, {SMALL, S(130, 10)}, ABSENT}, 3, LARGE + 2},
    /* enough cells to a row for the CPU's own products */
    {PG__OP_dense,
     NULL,
     {{NORMAL, S(3, 41, 65)}, {SMALL, S(65, 37)}, {NORMAL, S(37)}},
     3,
     LARGE + 3},
    {PG__OP_layer_norm,
     &(const pg__layer_norm_attrs){1, 1e-3},
     {{NORMAL, S(3, 2, 7)}, {NORMAL, S(7)}, {NORMAL, S(7)}},
     3,
     3},
    {PG__OP_layer_norm,
     &(const pg__layer_norm_attrs){2, 1e-12},
     {{NORMAL, S(1, 3, 5)}, {NORMAL, S(3, 5)}, ABSENT},
     3,
     2},
    {PG__OP_layer_norm,
     &(const pg__layer_norm_attrs){1, 1e-3},
     {{NORMAL, S(5, 37)}, {NORMAL, S(37)}, {NORMAL, S(37)}},
     3,
     3},
    {PG__OP_layer_norm,
     &(const pg__layer_norm_attrs){1, 1e-3},
     {{NORMAL, S(4, 70, 40)}, {NORMAL, S(40)}, {NORMAL, S(40)}},
     3,
     LARGE + 3},
    {PG__OP_layer_norm,
     &(const pg__layer_norm_attrs){2, 1e-5},
     {{NORMAL, S(3, 12, 100)}, {NORMAL, S(12, 100)}, ABSENT},
     3,
     LARGE + 2},
    {PG__OP_embedding, NULL, {{CLASS, S(2, 7)}, {NORMAL, S(5, 3)}}, 2, 2},
    {PG__OP_mask_rows, NULL, {{NORMAL, S(3, 2, 5)}, {MASK, S(3, 2)}}, 2, 1},
    {PG__OP_dense, NULL, {{NORMAL, S(3, 5)}, {NORMAL, S(5, 7)}, {NORMAL, S(7)}}, 3, 3},
    {PG__OP_dense, NULL, {{NORMAL, S(2, 3, 1)}, {NORMAL, S(1, 17)}, {NONE, {0}}}, 3, 2},
    {PG__OP_add, NULL, {{NORMAL, S(3, 5)}, {NORMAL, S(3, 5)}}, 2, 2},
    {PG__OP_softmax, NULL, {{NORMAL, S(3, 2, 5)}}, 1, 1},
    {PG__OP_softmax, NULL, {{NORMAL, S(3, 1)}}, 1, 1},
    {PG__OP_softmax, NULL, {{NORMAL, S(2, 37)}}, 1, 1},
    {PG__OP_reshape, RESHAPE(3, 10), {{NORMAL, S(3, 2, 5)}}, 1, 1},
    ACT_CASE(PG__ACT_RELU, INFINITY, 0, 0),
    ACT_CASE(PG__ACT_RELU, 0.9, 0.1, 0.3),
    ACT_CASE(PG__ACT_RELU, INFINITY, 0.2, 0),
    ACT_CASE(PG__ACT_SIGMOID, 0, 0, 0),
    ACT_CASE(PG__ACT_TANH, 0, 0, 0),
    ACT_CASE(PG__ACT_HARD_SIGMOID, 0.2, 0.5, 0),
    ACT_CASE(PG__ACT_HARD_SIGMOID, 1.0 / 6, 0.5, 0),
    ACT_CASE(PG__ACT_ELU, 1, 0, 0),
    ACT_CASE(PG__ACT_ELU, -0.5, 0, 0),
    ACT_CASE(PG__ACT_SELU, 0, 0, 0),
    ACT_CASE(PG__ACT_SOFTPLUS, 0, 0, 0),
    ACT_CASE(PG__ACT_SOFTSIGN, 0, 0, 0),
    ACT_CASE(PG__ACT_EXPONENTIAL, 0, 0, 0),
    ACT_CASE(PG__ACT_GELU, 0, 0, 0),
    ACT_CASE(PG__ACT_GELU_TANH, 0, 0, 0),
    ACT_CASE(PG__ACT_SWISH, 0, 0, 0),
    ACT_CASE(PG__ACT_MISH, 0, 0, 0),
    {PG__OP_act, ACT(PG__ACT_RSQRT, 0, 0, 0), {{POSITIVE, S(3, 17)}}, 1, 1},
    {PG__OP_activity, ATTRS(activity, 0.3, 0.2), {{NORMAL, S(3, 7)}, {SCALAR, {0}}}, 2, 1},
    /* strides and padding of "same"; one channel; one row */
    {PG__OP_conv,
     CONV(.rank = 2, .kernel = {3, 2}, .stride = {2, 1}, .before = {1, 0}, .after = {1, 1},
          .groups = 1, .dilation = {1, 1, 1}),
     {{NORMAL, S(2, 5, 4, 3)}, {NORMAL, S(3, 2, 3, 17)}, {NORMAL, S(17)}},
     3,
     3},
    {PG__OP_conv,
     CONV(.rank = 2, .kernel = {2, 2}, .dilation = {2, 1}, .groups = 1, .stride = {1, 1, 1}),
     {{NORMAL, S(1, 5, 4, 1)}, {NORMAL, S(2, 2, 1, 1)}, {NONE, {0}}},
     3,
     2},
    {PG__OP_conv,
     CONV(.rank = 2, .kernel = {3, 3}, .groups = 3, .before = {1, 1}, .after = {1, 1},
          .stride = {1, 1, 1}, .dilation = {1, 1, 1}),
     {{NORMAL, S(1, 3, 3, 3)}, {NORMAL, S(3, 3, 1, 3)}, {NORMAL, S(3)}},
     3,
     3},
    {PG__OP_conv,
     CONV(.rank = 1, .kernel = {3}, .groups = 2, .before = {2}, .stride = {1, 1, 1},
          .dilation = {1, 1, 1}),
     {{NORMAL, S(2, 5, 4)}, {NORMAL, S(3, 2, 6)}, {NORMAL, S(6)}},
     3,
     3},
    {PG__OP_conv,
     CONV(.rank = 3, .kernel = {2, 1, 2}, .stride = {1, 2, 2}, .groups = 1, .dilation = {1, 1, 1}),
     {{NORMAL, S(1, 3, 3, 4, 2)}, {NORMAL, S(2, 1, 2, 2, 3)}},
     2,
     2},
    /* by constants: Winograd's, one product, each channel by itself, tap by tap */
    {PG__OP_conv_norm,
     ATTRS(conv_norm,
           .conv = {.rank = 2,
                    .kernel = {3, 3},
                    .groups = 1,
                    .before = {1, 1},
                    .after = {1, 1},
                    .stride = {1, 1, 1},
                    .dilation = {1, 1, 1}},
           .epsilon = 1e-3, .has_act = 1, .act = {PG__ACT_RELU, INFINITY, 0, 0}),
     {{NORMAL, S(2, 12, 9, 17)},
      {NORMAL, S(3, 3, 17, 33)},
      {NONE, {0}},
      {NORMAL, S(33)},
      {POSITIVE, S(33)},
      {NORMAL, S(33)},
      {NORMAL, S(33)}},
     7,
     0},
    {PG__OP_conv_norm,
     ATTRS(
         conv_norm,
         .conv =
             {.rank = 2, .kernel = {1, 1}, .groups = 1, .stride = {1, 1, 1}, .dilation = {1, 1, 1}},
         .epsilon = 1e-3, .has_act = 1, .act = {PG__ACT_SWISH, 0, 0, 0}),
     {{NORMAL, S(3, 4, 3, 5)},
      {NORMAL, S(1, 1, 5, 18)},
      {NORMAL, S(18)},
      {NORMAL, S(18)},
      {POSITIVE, S(18)},
      {NONE, {0}},
      {NORMAL, S(18)}},
     7,
     0},
    {PG__OP_conv_norm,
     ATTRS(conv_norm,
           .conv = {.rank = 2,
                    .kernel = {3, 3},
                    .groups = 19,
                    .before = {0, 0},
                    .after = {1, 1},
                    .stride = {2, 2, 1},
                    .dilation = {1, 1, 1}},
           .epsilon = 1e-3, .has_act = 1, .act = {PG__ACT_RELU, 6, 0, 0}),
     {{NORMAL, S(2, 8, 6, 19)},
      {NORMAL, S(3, 3, 1, 19)},
      {NONE, {0}},
      {NORMAL, S(19)},
      {POSITIVE, S(19)},
      {NORMAL, S(19)},
      {NONE, {0}}},
     7,
     0},
    {PG__OP_conv_norm,
     ATTRS(conv_norm,
           .conv = {.rank = 1,
                    .kernel = {3, 1, 1},
                    .groups = 2,
                    .stride = {2, 1, 1},
                    .dilation = {2, 1, 1}},
           .epsilon = 1e-2),
     {{NORMAL, S(2, 9, 4)},
      {NORMAL, S(3, 2, 6)},
      {NORMAL, S(6)},
      {NORMAL, S(6)},
      {POSITIVE, S(6)},
      {NORMAL, S(6)},
      {NORMAL, S(6)}},
     7,
     0},
    {PG__OP_conv_dx,
     CONV(.rank = 2, .kernel = {3, 2}, .stride = {2, 2}, .before = {0, 0}, .after = {1, 0},
          .size = {6, 5}, .groups = 1, .dilation = {1, 1, 1}),
     {{NORMAL, S(2, 3, 2, 5)}, {NORMAL, S(3, 2, 3, 5)}},
     2,
     2},
    /* one matrix product: kernels of one cell, kernels as large as all there is */
    {PG__OP_conv,
     CONV(.rank = 2, .kernel = {1, 1}, .groups = 1, .stride = {1, 1, 1}, .dilation = {1, 1, 1}),
     {{NORMAL, S(2, 3, 2, 5)}, {NORMAL, S(1, 1, 5, 7)}, {NORMAL, S(7)}},
     3,
     3},
    {PG__OP_conv,
     CONV(.rank = 1, .kernel = {3}, .groups = 1, .stride = {2, 1, 1}, .dilation = {1, 1, 1}),
     {{NORMAL, S(3, 3, 4)}, {NORMAL, S(3, 4, 5)}, {NONE, {0}}},
     3,
     2},
    /* two filters to a channel, each by itself; cells that are summed in many parts */
    {PG__OP_conv,
     CONV(.rank = 2, .kernel = {3, 2}, .groups = 5, .stride = {2, 1}, .before = {1, 0},
          .after = {1, 1}, .dilation = {1, 2, 1}),
     {{NORMAL, S(2, 5, 6, 5)}, {NORMAL, S(3, 2, 1, 10)}, {NORMAL, S(10)}},
     3,
     3},
    {PG__OP_conv,
     CONV(.rank = 2, .kernel = {3, 3}, .groups = 1, .before = {1, 1}, .after = {1, 1},
          .stride = {1, 1, 1}, .dilation = {1, 1, 1}),
     {{NORMAL, S(3, 33, 31, 2)}, {NORMAL, S(3, 3, 2, 3)}, {NORMAL, S(3)}},
     3,
     LARGE + 3},
    {PG__OP_conv,
     CONV(.rank = 2, .kernel = {3, 3}, .groups = 3, .before = {1, 1}, .after = {1, 1},
          .stride = {1, 1, 1}, .dilation = {1, 1, 1}),
     {{NORMAL, S(3, 33, 31, 3)}, {NORMAL, S(3, 3, 1, 3)}, {NORMAL, S(3)}},
     3,
     LARGE + 3},
    /* no cell left of a kernel that is turned over tile by tile */
    {PG__OP_conv,
     CONV(.rank = 2, .kernel = {2, 3}, .groups = 1, .after = {1, 2}, .stride = {1, 1, 1},
          .dilation = {1, 1, 1}),
     {{NORMAL, S(1, 4, 5, 11)}, {NORMAL, S(2, 3, 11, 17)}, {NORMAL, S(17)}},
     3,
     LARGE + 3},
    {PG__OP_pool,
     POOL(.rank = 2, .max = 1, .window = {2, 3}, .stride = {2, 1}, .before = {0, 1},
          .after = {1, 1}),
     {{NORMAL, S(2, 5, 4, 3)}},
     1,
     1},
    {PG__OP_pool,
     POOL(.rank = 2, .window = {2, 3}, .stride = {2, 1}, .before = {0, 1}, .after = {1, 1}),
     {{NORMAL, S(2, 5, 4, 17)}},
     1,
     1},
    /* windows side by side: even and odd images, channels that fill vectors and that do not */
    {PG__OP_pool, HALVES(1), {{NORMAL, S(2, 5, 4, 3)}}, 1, 1},
    {PG__OP_pool, HALVES(1), {{NORMAL, S(2, 4, 5, 5)}}, 1, 1},
    {PG__OP_pool, HALVES(1), {{NORMAL, S(1, 5, 5, 17)}}, 1, 1},
    {PG__OP_pool, HALVES(1), {{NORMAL, S(1, 4, 4, 32)}}, 1, 1},
    {PG__OP_pool, HALVES(0), {{NORMAL, S(2, 4, 6, 5)}}, 1, 1},
    {PG__OP_pool,
     POOL(.rank = 1, .max = 1, .window = {2}, .stride = {2}),
     {{NORMAL, S(3, 6, 300)}},
     1,
     1},
    {PG__OP_pool,
     POOL(.rank = 2, .max = 1, .window = {1, 2}, .stride = {2, 3}),
     {{NORMAL, S(2, 5, 6, 3)}},
     1,
     1},
    {PG__OP_pool, POOL(.rank = 1, .max = 1, .stride = {1, 1, 1}), {{NORMAL, S(3, 7, 1)}}, 1, 1},
    {PG__OP_pool, POOL(.rank = 3, .stride = {1, 1, 1}), {{NORMAL, S(1, 2, 3, 2, 3)}}, 1, 1},
    {PG__OP_pool, POOL(.rank = 1, .window = {3}, .stride = {2}), {{NORMAL, S(1, 8, 1)}}, 1, 1},
    {PG__OP_bn_apply,
     ATTRS(bn, .epsilon = 1e-3),
     {{NORMAL, S(3, 2, 17)}, {NORMAL, S(17)}, {POSITIVE, S(17)}, {NORMAL, S(17)}, {NORMAL, S(17)}},
     5,
     1},
    {PG__OP_bn_stats,
     ATTRS(bn, .epsilon = 1e-3),
     {{NORMAL, S(3, 2, 40)}, {NORMAL, S(40)}, {NORMAL, S(40)}, {NONE, {0}}},
     4,
     3},
    {PG__OP_bn_stats,
     ATTRS(bn, .epsilon = 1e-2),
     {{NORMAL, S(3, 2, 1, 3)}, {NONE, {0}}, {NONE, {0}}, {ONE_HOT, S(3, 2)}},
     4,
     1},
    {PG__OP_bn_stats,
     ATTRS(bn, .epsilon = 1e-2),
     {{NORMAL, S(5, 1)}, {NORMAL, S(1)}, {NONE, {0}}, {NONE, {0}}},
     4,
     2},
    /* many rows of few channels, more channels than are taken at once, blocks that are not full */
    {PG__OP_bn_stats,
     ATTRS(bn, .epsilon = 1e-3),
     {{NORMAL, S(400, 3)}, {NORMAL, S(3)}, {NORMAL, S(3)}, {NONE, {0}}},
     4,
     3},
    {PG__OP_bn_stats,
     ATTRS(bn, .epsilon = 1e-3),
     {{NORMAL, S(2, 530)}, {NORMAL, S(530)}, {NONE, {0}}, {NONE, {0}}},
     4,
     2},
    {PG__OP_bn_stats,
     ATTRS(bn, .epsilon = 1e-3),
     {{NORMAL, S(7, 5, 33)}, {NORMAL, S(33)}, {NORMAL, S(33)}, {NONE, {0}}},
     4,
     3},
    /* more rows than a thread takes; rows that share a mask; all the corrections */
    {PG__OP_bn_stats,
     ATTRS(bn, .epsilon = 1e-3, .correction = PG__BN_SAMPLE),
     {{NORMAL, S(5, 40, 30, 3)}, {NORMAL, S(3)}, {NORMAL, S(3)}, {NONE, {0}}},
     4,
     LARGE + 3},
    {PG__OP_bn_stats,
     ATTRS(bn, .epsilon = 1e-3, .correction = PG__BN_LAYER),
     {{NORMAL, S(300, 70)}, {NORMAL, S(70)}, {NORMAL, S(70)}, {MASK, S(300)}},
     4,
     LARGE + 3},
    {PG__OP_bn_stats,
     ATTRS(bn, .epsilon = 1e-3, .correction = PG__BN_TWICE),
     {{NORMAL, S(20, 9, 4, 33)}, {NORMAL, S(33)}, {NONE, {0}}, {MASK, S(20, 9)}},
     4,
     LARGE + 2},
    {PG__OP_bn_stats,
     ATTRS(bn, .epsilon = 1e-3),
     {{NORMAL, S(2500, 33)}, {NORMAL, S(33)}, {NORMAL, S(33)}, {NONE, {0}}},
     4,
     LARGE + 3},
#ifdef PG_NORM_ACT_CASES /* GPUs know none of them: train/rewrite.c */
    /* an activation behind it: slopes that are found anew, and such that are stored */
    NORM_ACT(PG__ACT_RELU, INFINITY, 0, 0),
    NORM_ACT(PG__ACT_RELU, 1, 0, 0),
    NORM_ACT(PG__ACT_RELU, INFINITY, 0.2, 0),
    NORM_ACT(PG__ACT_RELU, 1, 0.1, 0.3),
    NORM_ACT(PG__ACT_HARD_SIGMOID, 0.2, 0.5, 0),
    NORM_ACT(PG__ACT_SIGMOID, 0, 0, 0),
    NORM_ACT(PG__ACT_TANH, 0, 0, 0),
    NORM_ACT(PG__ACT_ELU, 0.7, 0, 0),
    NORM_ACT(PG__ACT_ELU, -0.5, 0, 0),
    NORM_ACT(PG__ACT_SELU, 0, 0, 0),
    NORM_ACT(PG__ACT_SOFTPLUS, 0, 0, 0),
    NORM_ACT(PG__ACT_SOFTSIGN, 0, 0, 0),
    NORM_ACT(PG__ACT_EXPONENTIAL, 0, 0, 0),
    NORM_ACT(PG__ACT_GELU, 0, 0, 0),
    NORM_ACT(PG__ACT_GELU_TANH, 0, 0, 0),
    NORM_ACT(PG__ACT_SWISH, 0, 0, 0),
    NORM_ACT(PG__ACT_MISH, 0, 0, 0),
    /* by constant statistics; without gamma and beta; one channel; under masks */
    {PG__OP_bn_apply,
     BN_ACT(PG__ACT_RELU, 1, 0, 0),
     {{NORMAL, S(3, 2, 17)}, {NORMAL, S(17)}, {POSITIVE, S(17)}, {NORMAL, S(17)}, {NORMAL, S(17)}},
     5,
     1},
    {PG__OP_bn_apply,
     BN_ACT(PG__ACT_SWISH, 0, 0, 0),
     {{NORMAL, S(3, 2, 17)}, {NORMAL, S(17)}, {POSITIVE, S(17)}, {NORMAL, S(17)}, {NORMAL, S(17)}},
     5,
     1},
    {PG__OP_bn_stats,
     BN_ACT(PG__ACT_TANH, 0, 0, 0),
     {{NORMAL, S(5, 1)}, {NORMAL, S(1)}, {NONE, {0}}, {NONE, {0}}},
     4,
     2},
    {PG__OP_bn_stats,
     BN_ACT(PG__ACT_RELU, INFINITY, 0, 0),
     {{NORMAL, S(3, 2, 1, 3)}, {NONE, {0}}, {NONE, {0}}, {ONE_HOT, S(3, 2)}},
     4,
     1},
    {PG__OP_bn_stats,
     BN_ACT(PG__ACT_SWISH, 0, 0, 0),
     {{NORMAL, S(20, 9, 4, 33)}, {NORMAL, S(33)}, {NORMAL, S(33)}, {MASK, S(20, 9)}},
     4,
     LARGE + 3},
    /* many rows of few channels, and many channels in several parts */
    NORM(BN_ACT(PG__ACT_RELU, 1, 0, 0), S(5, 40, 30, 3), S(3), LARGE + 3),
    NORM(BN_ACT(PG__ACT_SWISH, 0, 0, 0), S(5, 40, 30, 3), S(3), LARGE + 3),
    NORM(BN_ACT(PG__ACT_RELU, INFINITY, 0.3, 0), S(43, 530), S(530), LARGE + 3),
    NORM(BN_ACT(PG__ACT_SIGMOID, 0, 0, 0), S(43, 1100), S(1100), LARGE + 3),
#endif
    {PG__OP_binary, ATTRS(binary, PG__ADD), {{NORMAL, S(2, 3, 5)}, {NORMAL, S(5)}}, 2, 2},
    {PG__OP_binary, ATTRS(binary, PG__SUBTRACT), {{NORMAL, S(3, 1)}, {NORMAL, S(2, 1, 4)}}, 2, 2},
    {PG__OP_binary,
     ATTRS(binary, PG__MULTIPLY),
     {{NORMAL, S(2, 1, 1, 3)}, {NORMAL, S(2, 2, 2, 3)}},
     2,
     2},
    {PG__OP_binary, ATTRS(binary, PG__MULTIPLY), {{NORMAL, S(3, 5)}, {NORMAL, S(3, 5)}}, 2, 2},
    {PG__OP_binary, ATTRS(binary, PG__DIVIDE), {{NORMAL, S(2, 3)}, {POSITIVE, S(2, 1)}}, 2, 2},
    {PG__OP_binary, ATTRS(binary, PG__MAXIMUM), {{NORMAL, S(2, 3, 5)}, {NORMAL, S(3, 1)}}, 2, 2},
    {PG__OP_binary, ATTRS(binary, PG__MINIMUM), {{NORMAL, S(17)}, {NORMAL, S(1, 17)}}, 2, 2},
    {PG__OP_affine, ATTRS(affine, -0.3, 2), {{NORMAL, S(3, 5)}}, 1, 1},
    {PG__OP_spread, ATTRS(spread, S(2, 4, 3)), {{NORMAL, S(2, 1, 3)}}, 1, 1},
    {PG__OP_spread, ATTRS(spread, S(2, 4, 3)), {{NORMAL, S(1, 1)}}, 1, 1},
    {PG__OP_sum_to, ATTRS(spread, S(1, 3)), {{NORMAL, S(2, 4, 3)}}, 1, 1},
    {PG__OP_sum_to, ATTRS(spread, S(2, 1, 1)), {{NORMAL, S(2, 4, 17)}}, 1, 1},
    {PG__OP_concat, ATTRS(concat, 1), {{NORMAL, S(2, 3, 5)}, {NORMAL, S(2, 1, 5)}}, 2, 2},
    {PG__OP_concat, ATTRS(concat, 2), {{NORMAL, S(2, 2, 1)}, {NORMAL, S(2, 2, 17)}}, 2, 2},
    {PG__OP_pad, ATTRS(pad, {0, 1, -1}, {0, -2, 2}), {{NORMAL, S(2, 5, 3)}}, 1, 1},
    {PG__OP_pad, ATTRS(pad, {0, 1, 2, 0}, {0, 2, 1, 0}), {{NORMAL, S(2, 2, 3, 5)}}, 1, 1},
    {PG__OP_pad, ATTRS(pad, {1, 0, 2}, {1, 0, -3}), {{NORMAL, S(2, 2, 3)}}, 1, 1},
    {PG__OP_pad, ATTRS(pad, {0, 0, -17}, {0}), {{NORMAL, S(2, 3, 50)}}, 1, 1},
    {PG__OP_pad, ATTRS(pad, {-1}, {0, -2}), {{NORMAL, S(4, 5, 70)}}, 1, LARGE + 1},
    {PG__OP_transpose, ATTRS(transpose, {0, 3, 1, 2}), {{NORMAL, S(2, 3, 1, 5)}}, 1, 1},
    {PG__OP_transpose, ATTRS(transpose, {2, 0, 1}), {{NORMAL, S(2, 3, 5)}}, 1, 1},
    {PG__OP_transpose, ATTRS(transpose, {0, 2, 1}), {{NORMAL, S(2, 19, 35)}}, 1, 1},
    {PG__OP_transpose, ATTRS(transpose, {0, 2, 1, 3}), {{NORMAL, S(2, 3, 4, 5)}}, 1, 1},
    {PG__OP_transpose, ATTRS(transpose, {3, 1, 0, 2}), {{NORMAL, S(2, 3, 4, 17)}}, 1, 1},
    {PG__OP_resize, ATTRS(resize, 1, 0, {3}), {{NORMAL, S(2, 4, 17)}}, 1, 1},
    {PG__OP_resize, ATTRS(resize, 3, 0, {2, 3, 2}), {{NORMAL, S(2, 2, 3, 2, 5)}}, 1, 1},
    {PG__OP_resize, ATTRS(resize, 2, 0, {2, 3}), {{NORMAL, S(2, 3, 2, 5)}}, 1, 1},
    {PG__OP_resize, ATTRS(resize, 2, 1, {3, 2}), {{NORMAL, S(1, 3, 2, 3)}}, 1, 1},
    {PG__OP_resize, ATTRS(resize, 3, 0, {1, 2, 2}), {{NORMAL, S(1, 2, 1, 3, 1)}}, 1, 1},
    {PG__OP_dropout,
     ATTRS(dropout, 0.4, 7, 0, S(3, 17), 0),
     {{NORMAL, S(3, 17)}, {CLASS, S(PG__STEP_N)}},
     2,
     1},
    {PG__OP_dropout,
     ATTRS(dropout, 0.3, 7, 0, S(3, 171), 0),
     {{NORMAL, S(3, 171)}, {CLASS, S(PG__STEP_N)}},
     2,
     1},
    {PG__OP_dropout,
     ATTRS(dropout, 0.5, 7, 0, S(2, 1, 5), 0),
     {{NORMAL, S(2, 3, 5)}, {CLASS, S(PG__STEP_N)}},
     2,
     1},
    {PG__OP_constant, ATTRS(constant, S(3), (const double[]){0.25, -1, 7}), {{NONE, {0}}}, 0, 0},
    ROW_LOSS(.kind = PG__LOSS_mean_squared_error),
    ROW_LOSS(.kind = PG__LOSS_mean_absolute_error),
    ROW_LOSS(.kind = PG__LOSS_mean_absolute_percentage_error),
    ROW_LOSS(.kind = PG__LOSS_log_cosh),
    ROW_LOSS(.kind = PG__LOSS_huber, .param = 0.7),
    ROW_LOSS(.kind = PG__LOSS_cosine_similarity),
    ROW_LOSS(.kind = PG__LOSS_hinge),
    ROW_LOSS(.kind = PG__LOSS_squared_hinge),
    ROW_LOSS(.kind = PG__LOSS_categorical_crossentropy, .logits = 1),
    ROW_LOSS(.kind = PG__LOSS_binary_crossentropy, .logits = 1, .smoothing = 0.1),
    ROW_LOSS(.kind = PG__LOSS_categorical_crossentropy, .logits = 1, .smoothing = 0.2),
    WIDE_LOSS(1, NORMAL, S(5, 37), ONE_HOT, S(5, 37), S(5),
              .kind = PG__LOSS_categorical_crossentropy, .logits = 1, .smoothing = 0.1),
    WIDE_LOSS(1, NORMAL, S(5, 37), CLASS, S(5), S(5),
              .kind = PG__LOSS_sparse_categorical_crossentropy, .logits = 1),
    WIDE_LOSS(1, NORMAL, S(2, 300), ONE_HOT, S(2, 300), S(2), .kind = PG__LOSS_binary_crossentropy,
              .logits = 1),
    WIDE_LOSS(1, NORMAL, S(300, 1), ONE_HOT, S(300, 1), S(300),
              .kind = PG__LOSS_binary_crossentropy, .logits = 1),
    WIDE_LOSS(1, PROBABILITY, S(1, 300, 1), PROBABILITY, S(1, 300, 1), S(1, 300),
              .kind = PG__LOSS_binary_crossentropy, .bce = PG__BCE_ADD_EPSILON),
    WIDE_LOSS(LARGE + 1, NORMAL, S(3, 1500), ONE_HOT, S(3, 1500), S(3),
              .kind = PG__LOSS_categorical_crossentropy, .logits = 1),
    WIDE_LOSS(LARGE + 1, NORMAL, S(3, 1500), CLASS, S(3), S(3),
              .kind = PG__LOSS_sparse_categorical_crossentropy, .logits = 1),
    WIDE_LOSS(LARGE + 1, PROBABILITY, S(2, 1100), ONE_HOT, S(2, 1100), S(2),
              .kind = PG__LOSS_categorical_hinge),
    WIDE_LOSS(LARGE + 1, PROBABILITY, S(2, 1100), PROBABILITY, S(2, 1100), S(2),
              .kind = PG__LOSS_cosine_similarity),
    WIDE_LOSS(LARGE + 1, NORMAL, S(70000, 1), ONE_HOT, S(70000, 1), S(70000),
              .kind = PG__LOSS_binary_crossentropy, .logits = 1),
    WIDE_LOSS(LARGE + 1, PROBABILITY, S(300, 20), PROBABILITY, S(300, 20), S(300),
              .kind = PG__LOSS_jaccard_distance, .param = 100),
    WIDE_LOSS(1, NORMAL, S(5, 37), ONE_HOT, S(5, 37), S(5),
              .kind = PG__LOSS_binary_focal_crossentropy, .logits = 1, .param = 0.3, .gamma = 1.5,
              .balanced = 1),
    WIDE_LOSS(1, NORMAL, S(5, 37), ONE_HOT, S(5, 37), S(5),
              .kind = PG__LOSS_categorical_focal_crossentropy, .logits = 1, .param = 0.3,
              .gamma = 2, .smoothing = 0.1),
    PROB_LOSS(ONE_HOT, .kind = PG__LOSS_binary_focal_crossentropy, .param = 0.25, .gamma = 2,
              .smoothing = 0.1),
    PROB_LOSS(ONE_HOT, .kind = PG__LOSS_categorical_focal_crossentropy, .param = 0.25, .gamma = 2),
    CLASS_LOSS(NORMAL, .kind = PG__LOSS_sparse_categorical_crossentropy, .logits = 1, .ignores = 1,
               .ignored = 1),
    PROB_LOSS(PROBABILITY, .kind = PG__LOSS_mean_squared_logarithmic_error),
    PROB_LOSS(PROBABILITY, .kind = PG__LOSS_poisson),
    PROB_LOSS(PROBABILITY, .kind = PG__LOSS_kl_divergence),
    PROB_LOSS(PROBABILITY, .kind = PG__LOSS_jaccard_distance, .param = 100),
    PROB_LOSS(ONE_HOT, .kind = PG__LOSS_categorical_hinge),
    PROB_LOSS(ONE_HOT, .kind = PG__LOSS_categorical_crossentropy, .smoothing = 0.1),
    PROB_LOSS(ONE_HOT, .kind = PG__LOSS_binary_crossentropy, .bce = PG__BCE_ADD_EPSILON),
    PROB_LOSS(ONE_HOT, .kind = PG__LOSS_binary_crossentropy, .bce = PG__BCE_CLIP),
    CLASS_LOSS(NORMAL, .kind = PG__LOSS_sparse_categorical_crossentropy, .logits = 1),
    CLASS_LOSS(PROBABILITY, .kind = PG__LOSS_sparse_categorical_crossentropy),
#include "ops/op_cases_move.def"
};
#define N_CASES (sizeof cases / sizeof *cases)

#endif

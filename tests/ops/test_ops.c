/* Every operation of ops.def, at shapes that are awkward on purpose: gradients against finite
 * differences in double, float against double within the operation's own bound. */
#include "pg_test.h"

#include <math.h>

#include "backend/backend.h"
#include "backend/cpu/isa.h"
#include "base/mem.h"
#include "ops/attrs.h"
#include "ops/op.h"
#include "ops/overwrite.h"

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
    SCALAR
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
#define WIDE_LOSS(from, shape, target, targets, rows, ...)                            \
    {                                                                                 \
        PG__OP_loss, LOSS(__VA_ARGS__),                                               \
            {{from, shape}, {target, targets}, {POSITIVE, rows}, {SCALAR, {0}}}, 4, 1 \
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
    {PG__OP_dense,
     NULL,
     {{NORMAL, S(67, 3, 37)}, {SMALL, S(37, 65)}, {NORMAL, S(65)}},
     3,
     LARGE + 3},
    {PG__OP_dense, NULL, {{NORMAL, S(1, 130)}, {SMALL, S(130, 10)}, ABSENT}, 3, LARGE + 2},
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
    {PG__OP_conv_dx,
     CONV(.rank = 2, .kernel = {3, 2}, .stride = {2, 2}, .before = {0, 0}, .after = {1, 0},
          .size = {6, 5}, .groups = 1, .dilation = {1, 1, 1}),
     {{NORMAL, S(2, 3, 2, 5)}, {NORMAL, S(3, 2, 3, 5)}},
     2,
     2},
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
    {PG__OP_concat,
     ATTRS(concat, 1),
     {{NORMAL, S(2, 3, 5)}, {NORMAL, S(2, 1, 5)}, {NORMAL, S(2, 2, 5)}},
     3,
     3},
    {PG__OP_concat, ATTRS(concat, 2), {{NORMAL, S(2, 2, 1)}, {NORMAL, S(2, 2, 17)}}, 2, 2},
    {PG__OP_pad, ATTRS(pad, {0, 1, -1}, {0, -2, 2}), {{NORMAL, S(2, 5, 3)}}, 1, 1},
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
    WIDE_LOSS(NORMAL, S(5, 37), ONE_HOT, S(5, 37), S(5), .kind = PG__LOSS_categorical_crossentropy,
              .logits = 1, .smoothing = 0.1),
    WIDE_LOSS(NORMAL, S(5, 37), CLASS, S(5), S(5), .kind = PG__LOSS_sparse_categorical_crossentropy,
              .logits = 1),
    WIDE_LOSS(NORMAL, S(2, 300), ONE_HOT, S(2, 300), S(2), .kind = PG__LOSS_binary_crossentropy,
              .logits = 1),
    WIDE_LOSS(NORMAL, S(300, 1), ONE_HOT, S(300, 1), S(300), .kind = PG__LOSS_binary_crossentropy,
              .logits = 1),
    WIDE_LOSS(PROBABILITY, S(1, 300, 1), PROBABILITY, S(1, 300, 1), S(1, 300),
              .kind = PG__LOSS_binary_crossentropy, .bce = PG__BCE_ADD_EPSILON),
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
};
#define N_CASES (sizeof cases / sizeof *cases)

/* xorshift: the same numbers on every machine. */
static double uniform(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return (double)(*state >> 11) / 9007199254740992.0;
}

static void fill_values(double *v, uint64_t n, const operand *o, uint64_t *state)
{
    const uint64_t last = o->shape.rank ? o->shape.d[o->shape.rank - 1] : 1;
    for (uint64_t i = 0; i < n; i++) {
        const double u = uniform(state);
        const double sign = uniform(state) < 0.5 ? -1 : 1;
        const double value = o->fill == NORMAL || o->fill == SCALAR ? sign * (0.05 + 1.7 * u)
                             : o->fill == SMALL                     ? sign * 0.3 * u
                             : o->fill == ONE_HOT ? (double)(i % last == (i / last) % last)
                             : o->fill == CLASS   ? (double)(i % 5)
                             : o->fill == MASK    ? (double)(i % 3 != 1)
                             : o->fill == OPEN    ? 1
                                                  : 0.1 + 0.8 * u;
        v[i] = (float)value; /* the same operands for both types */
    }
}

/* The tape of a case: its operands are parameters, so that all have gradients. */
typedef struct built {
    pg__tape tape;
    pg__val in[MAX_IN], out[MAX_OUT];
    size_t n_read;
    uint32_t n_forward;
    double *in_values[MAX_IN];
    double **values; /* per value of the tape */
} built;

static uint64_t elems(const built *b, pg__val v)
{
    return pg__dims_elems(&b->tape.values[v].shape);
}

/* Operands x, gamma, beta, mask: normalised with x's own statistics. */
static void emit_batch_norm(built *b, const void *attrs)
{
    pg__val stats[3], variance;
    assert_ok(pg__emit2(&b->tape, PG__OP_bn_stats, NULL, b->in[0], b->in[3], stats, NULL));
    assert_ok(pg__emit2(&b->tape, PG__OP_bn_var, attrs, stats[1], stats[2], &variance, NULL));
    const pg__val in[] = {b->in[0], stats[0], variance, b->in[1], b->in[2], stats[2], b->in[3]};
    assert_ok(pg__emit(&b->tape, PG__OP_bn_apply, attrs, in, 7, b->out, NULL));
}

static int has_grad(const operand *o)
{
    return o->fill != NONE && o->fill != CLASS && o->fill != MASK && o->fill != OPEN;
}

static void build(built *b, const op_case *c)
{
    const pg__op *op = pg__op_of(c->kind);
    uint64_t state = 0x9E3779B97F4A7C15u;
    *b = (built){0};
    for (size_t k = 0; k < c->n_in; k++) {
        b->in[k] = PG__NO_VAL;
        if (c->in[k].fill == NONE)
            continue;
        assert_ok(pg__tape_value(
            &b->tape, &c->in[k].shape, c->in[k].fill == CLASS ? PG__INT : PG__REAL, PG__PARAM,
            (uint32_t)k, k < c->n_grads % LARGE && has_grad(&c->in[k]), &b->in[k], NULL));
    }
    if (c->kind == PG__OP_bn_stats)
        emit_batch_norm(b, c->attrs);
    else
        assert_ok(pg__emit(&b->tape, c->kind, c->attrs, b->in, c->n_in, b->out, NULL));
    b->n_forward = b->tape.n_insts;
    b->n_read = c->kind == PG__OP_bn_stats    ? 1
                : c->kind == PG__OP_attention ? op->n_out
                                              : op->n_out - op->n_kept;
    for (size_t k = 0; k < c->n_in; k++)
        if (b->in[k] != PG__NO_VAL) {
            b->in_values[k] = pg__mem_array(elems(b, b->in[k]), sizeof(double));
            fill_values(b->in_values[k], elems(b, b->in[k]), &c->in[k], &state);
        }
}

/* Who computes: the plain answers, or the back end that users have. */
typedef enum engine { FLOAT, DOUBLE, CPU } engine; /* CPU + isa: its builds of the kernels */

/* What memory holds before anything is written to it. */
static unsigned char held = 0;

/* Numbers in the element type of a run. */
static void store(void *p, pg__elem elem, int f64, uint64_t i, double v)
{
    if (elem == PG__INT)
        ((int32_t *)p)[i] = (int32_t)v;
    else if (f64)
        ((double *)p)[i] = v;
    else
        ((float *)p)[i] = (float)v;
}

static void run_plain(const built *b, const pg__inst *i, int f64, void **mem)
{
    pg__arg in[MAX_IN] = {{0}}, out[MAX_IN] = {{0}};
    for (uint32_t k = 0; k < i->n_in; k++) {
        const pg__val v = pg__in(&b->tape, i, k);
        if (v != PG__NO_VAL)
            in[k] = (pg__arg){&b->tape.values[v].shape, mem[v], elems(b, v)};
    }
    for (uint32_t k = 0; k < i->n_out; k++) {
        const pg__val v = pg__out(&b->tape, i, k);
        out[k] = (pg__arg){&b->tape.values[v].shape, mem[v], elems(b, v)};
    }
    (f64 ? i->op->ref_f64 : i->op->ref_f32)(i->attrs, in, i->n_in, out, i->n_out);
}

/* As a program does it. *isa: the build of the kernels. */
static void run_on_cpu(const built *b, const pg__inst *i, const char *isa, void **mem)
{
    const pg__backend *cpu = &pg__backend_cpu;
    pg__dev *dev;
    pg__kernel *kernel;
    pg__needs needs;
    void *args[2 * MAX_IN] = {NULL}, *params[2 * MAX_IN] = {NULL};
    assert_ok(cpu->open(&dev, 0, &(pg__dev_opts){.n_threads = 1, .isa = isa}, NULL));
    assert_ok(cpu->prepare(&kernel, dev, &b->tape, i, &needs, NULL));
    for (uint32_t k = 0; k < i->n_in + i->n_out; k++) {
        const pg__val v = k < i->n_in ? pg__in(&b->tape, i, k) : pg__out(&b->tape, i, k - i->n_in);
        args[k] = v != PG__NO_VAL ? mem[v] : NULL;
        if (v != PG__NO_VAL && b->tape.values[v].role == PG__PARAM)
            params[k] = mem[v];
    }
    void *scratch = pg__mem_aligned(needs.scratch_bytes);
    void *shared = needs.shared_bytes ? pg__mem_aligned(needs.shared_bytes) : NULL;
    memset(scratch, held, needs.scratch_bytes);
    if (shared)
        assert_ok(cpu->share(dev, kernel, params, shared));
    assert_ok(cpu->run(dev, kernel, args, scratch, shared));
    pg__mem_free(scratch);
    pg__mem_free(shared);
    cpu->release(kernel);
    cpu->close(dev);
}

static void run_one(const built *b, const pg__inst *i, engine e, void **mem)
{
    if (e >= CPU)
        run_on_cpu(b, i, pg__isa_name((pg__isa)(e - CPU)), mem);
    else
        run_plain(b, i, e == DOUBLE, mem);
}

static void run_all(built *b, engine e, void **mem)
{
    for (uint32_t at = 0; at < b->tape.n_insts; at++)
        run_one(b, &b->tape.insts[at], e, mem);
}

static void **alloc_all(const built *b, engine e)
{
    void **mem = pg__mem_array(b->tape.n_values, sizeof *mem);
    for (pg__val v = 0; v < b->tape.n_values; v++) {
        mem[v] = pg__mem_aligned((size_t)elems(b, v) * sizeof(double));
        memset(mem[v], held, (size_t)elems(b, v) * sizeof(double));
        for (size_t k = 0; k < MAX_IN; k++)
            if (b->in_values[k] && b->in[k] == v)
                for (uint64_t i = 0; i < elems(b, v); i++)
                    store(mem[v], b->tape.values[v].elem, e == DOUBLE, i, b->in_values[k][i]);
    }
    return mem;
}

static void free_all(const built *b, void **mem)
{
    for (pg__val v = 0; v < b->tape.n_values; v++)
        pg__mem_free(mem[v]);
    pg__mem_free(mem);
}

static void drop(built *b)
{
    for (size_t k = 0; k < MAX_IN; k++)
        pg__mem_free(b->in_values[k]);
    pg__tape_fini(&b->tape);
}

/* The number whose gradient is checked: the sum of all results, each times a number of its own; the
 * weights of a loss are part of it, its seed is the common factor. */
static double factor(const built *b, uint64_t i)
{
    const int is_loss = b->tape.insts[0].op == pg__op_of(PG__OP_loss);
    if (b->tape.insts[0].op == pg__op_of(PG__OP_activity))
        return b->in_values[1][0];
    return is_loss ? b->in_values[3][0] : (float)(0.3 + 0.1 * (double)(i % 7));
}

static double objective(built *b)
{
    void **mem = alloc_all(b, DOUBLE);
    const uint32_t all = b->tape.n_insts;
    double sum = 0;
    b->tape.n_insts = b->n_forward;
    run_all(b, DOUBLE, mem);
    b->tape.n_insts = all;
    for (size_t k = 0; k < b->n_read; k++)
        for (uint64_t i = 0; i < elems(b, b->out[k]); i++)
            sum += factor(b, i) * ((double *)mem[b->out[k]])[i];
    free_all(b, mem);
    return sum;
}

/* Adds the backward pass; results of no loss get the factors as their gradients. */
static void add_backward(built *b)
{
    if (b->tape.insts[0].op != pg__op_of(PG__OP_loss))
        for (size_t k = 0; k < b->n_read; k++) {
            const pg__dims shape = b->tape.values[b->out[k]].shape; /* the array moves */
            pg__val seed;
            assert_ok(pg__tape_value(&b->tape, &shape, PG__REAL, PG__SEED, 0, 0, &seed, NULL));
            b->tape.values[b->out[k]].grad = seed;
        }
    assert_ok(pg__tape_backward(&b->tape, NULL));
}

static void **run_case(built *b, engine e)
{
    void **mem = alloc_all(b, e);
    for (pg__val v = 0; v < b->tape.n_values; v++)
        for (uint64_t i = 0; b->tape.values[v].role == PG__SEED && i < elems(b, v); i++)
            store(mem[v], PG__REAL, e == DOUBLE, i, factor(b, i));
    run_all(b, e, mem);
    return mem;
}

static void gradients_equal_finite_differences(void **state)
{
    (void)state;
    for (size_t c = 0; c < N_CASES; c++) {
        built b;
        if (cases[c].n_grads >= LARGE)
            continue;
        build(&b, &cases[c]);
        add_backward(&b);
        void **mem = run_case(&b, DOUBLE);
        for (size_t k = 0; k < cases[c].n_grads; k++) {
            if (!has_grad(&cases[c].in[k]))
                continue;
            const double *grad = mem[b.tape.values[b.in[k]].grad];
            for (uint64_t i = 0; i < elems(&b, b.in[k]); i++) {
                const double was = b.in_values[k][i], h = 1e-5;
                b.in_values[k][i] = was + h;
                const double up = objective(&b);
                b.in_values[k][i] = was - h;
                const double slope = (up - objective(&b)) / (2 * h);
                b.in_values[k][i] = was;
                if (!(fabs(slope - grad[i]) <= 1e-6 * (1 + fabs(slope))))
                    fail_msg("case %zu (%s), operand %zu, element %llu: %.9g by differences, %.9g "
                             "by the rule",
                             c, b.tape.insts[0].op->name, k, (unsigned long long)i, slope, grad[i]);
            }
        }
        free_all(&b, mem);
        drop(&b);
    }
}

static void compare_value(const built *b, pg__val v, const pg__op *op, size_t c, void **exact,
                          void **mem)
{
    double top = 0, worst = 0;
    for (uint64_t e = 0; e < elems(b, v); e++) {
        const double want = ((double *)exact[v])[e], got = ((float *)mem[v])[e];
        top = fmax(top, fabs(want));
        worst = fmax(worst, fabs(want - got));
        if (isnan(got) && !isnan(want))
            worst = INFINITY;
    }
    if (!(worst <= op->tol_f32 * top))
        fail_msg("case %zu, %s, value %u: off by %.3g of %.3g", c, op->name, v, worst, top);
}

/* What an operation keeps for its gradient is its own business; not so gradients that it keeps
 * because it works in them. */
static void compare(const built *b, size_t c, void **exact, void **mem)
{
    const pg__inst *last = &b->tape.insts[b->tape.n_insts - 1];
    for (uint32_t at = 0; at < b->tape.n_insts; at++) {
        const pg__inst *i = &b->tape.insts[at];
        for (uint32_t k = 0; k < i->n_out - i->op->n_kept; k++)
            compare_value(b, pg__out(&b->tape, i, k), i->op, c, exact, mem);
    }
    for (size_t k = 0; k < MAX_IN; k++)
        if (b->in_values[k] && b->tape.values[b->in[k]].grad != PG__NO_VAL)
            compare_value(b, b->tape.values[b->in[k]].grad, last->op, c, exact, mem);
}

static void agrees_with_double(engine e)
{
    for (size_t c = 0; c < N_CASES; c++) {
        built b;
        build(&b, &cases[c]);
        add_backward(&b);
        void **exact = run_case(&b, DOUBLE), **mem = run_case(&b, e);
        compare(&b, c, exact, mem);
        free_all(&b, mem);
        free_all(&b, exact);
        drop(&b);
    }
}

static void float_agrees_with_double(void **state)
{
    (void)state;
    agrees_with_double(FLOAT);
}

static void cpu_agrees_with_double(void **state)
{
    (void)state;
    for (int isa = 0; isa < PG__N_ISAS; isa++)
        if (pg__isa_present((pg__isa)isa))
            agrees_with_double((engine)(CPU + isa));
}

static void same_bits(const built *b, size_t c, pg__val v, void **one, void **other)
{
    if (memcmp(one[v], other[v], (size_t)elems(b, v) * sizeof(float)) != 0)
        fail_msg("case %zu, %s, value %u: other bits", c, b->tape.insts[0].op->name, v);
}

static void equal_operands_give_equal_bits_whatever_memory_held(void **state)
{
    pg__isa isa;
    (void)state;
    assert_ok(pg__isa_named(&isa, NULL, NULL));
    for (size_t c = 0; c < N_CASES; c++) {
        built b;
        build(&b, &cases[c]);
        add_backward(&b);
        void **one = run_case(&b, (engine)(CPU + isa));
        held = 0xff; /* NaN */
        void **other = run_case(&b, (engine)(CPU + isa));
        held = 0;
        for (size_t k = 0; k < b.n_read; k++)
            same_bits(&b, c, b.out[k], one, other);
        for (size_t k = 0; k < MAX_IN; k++)
            if (b.in_values[k] && b.tape.values[b.in[k]].grad != PG__NO_VAL)
                same_bits(&b, c, b.tape.values[b.in[k]].grad, one, other);
        free_all(&b, one);
        free_all(&b, other);
        drop(&b);
    }
}

/* The result of one instruction once more, in the place of an operand. */
static void check_overwriting(const built *b, const pg__inst *i, engine e, void **mem)
{
    const pg__val result = pg__out(&b->tape, i, 0);
    const size_t bytes = (size_t)elems(b, result) * (e == DOUBLE ? sizeof(double) : sizeof(float));
    uint32_t operands[2];
    for (size_t k = pg__overwrites(&b->tape, i, operands); k-- > 0;) {
        const pg__val v = pg__in(&b->tape, i, operands[k]);
        void *own = mem[v], *want = mem[result];
        mem[v] = mem[result] = pg__mem_aligned(bytes);
        memcpy(mem[v], own, bytes);
        run_one(b, i, e, mem);
        if (memcmp(mem[v], want, bytes) != 0)
            fail_msg("%s cannot write over its operand %u", i->op->name, operands[k]);
        pg__mem_free(mem[v]);
        mem[v] = own;
        mem[result] = want;
    }
}

static void results_may_lie_over_operands(void **state)
{
    size_t n = 0;
    (void)state;
    for (size_t c = 0; c < N_CASES; c++)
        for (int e = FLOAT; e < (int)CPU + PG__N_ISAS; e++) {
            built b;
            uint32_t unused[2];
            if (e >= CPU && !pg__isa_present((pg__isa)(e - CPU)))
                continue;
            build(&b, &cases[c]);
            add_backward(&b);
            void **mem = run_case(&b, (engine)e);
            for (uint32_t at = 0; at < b.tape.n_insts; at++) {
                check_overwriting(&b, &b.tape.insts[at], (engine)e, mem);
                n += pg__overwrites(&b.tape, &b.tape.insts[at], unused);
            }
            free_all(&b, mem);
            drop(&b);
        }
    assert_true(n > 100);
}

static void every_operation_has_a_case(void **state)
{
    (void)state;
    for (int kind = 0; kind < PG__N_OPS; kind++) {
        const pg__op *op = pg__op_of((pg__op_kind)kind);
        int found = !op->backward; /* gradients come with their operation */
        for (size_t c = 0; c < N_CASES; c++)
            found |= pg__op_of(cases[c].kind) == op;
        if (!found)
            fail_msg("no case for %s", op->name);
    }
}

static void steps_masked_everywhere_attend_to_all_alike(void **state)
{
    const op_case c = {PG__OP_attention,
                       ATTENTION(.heads = 1, .scale = 1),
                       {{NORMAL, S(1, 2, 3)},
                        {NORMAL, S(1, 4, 3)},
                        {NORMAL, S(1, 4, 3)},
                        {MASK, S(1, 2)},
                        ABSENT,
                        ABSENT,
                        ABSENT,
                        ABSENT},
                       8,
                       3};
    (void)state;
    for (int f64 = 0; f64 < 2; f64++) {
        built b;
        build(&b, &c);
        void **mem = run_case(&b, (engine)f64);
        for (size_t s = 0; s < 4; s++) { /* the second step is masked */
            const size_t at = 4 + s;
            const void *p = mem[b.out[1]];
            assert_true((f64 ? ((const double *)p)[at] : (double)((const float *)p)[at]) == 0.25);
        }
        free_all(&b, mem);
        drop(&b);
    }
}

static void ids_beyond_the_table_give_no_numbers(void **state)
{
    const int32_t ids[] = {-1, 1, 2};
    const float table[] = {1, 2, 3, 4};
    float y[6], dw[4], ones[] = {1, 1, 1, 1, 1, 1};
    const pg__dims three = S(3), square = S(2, 2), result = S(3, 2);
    union {
        const void *in;
        void *p;
    } from = {ids}, of = {table};
    (void)state;
    const pg__arg in[] = {{&three, from.p, 3}, {&square, of.p, 4}}, out = {&result, y, 6};
    pg__op_of(PG__OP_embedding)->ref_f32(NULL, in, 2, &out, 1);
    assert_true(isnan(y[0]) && isnan(y[1]) && y[2] == 3 && y[3] == 4 && isnan(y[4]));
    const pg__arg grad[] = {{&three, from.p, 3}, {&result, ones, 6}, {&square, of.p, 4}};
    const pg__arg to = {&square, dw, 4};
    pg__op_of(PG__OP_embedding_dw)->ref_f32(NULL, grad, 3, &to, 1);
    assert_true(dw[0] == 0 && dw[1] == 0 && dw[2] == 1 && dw[3] == 1);
}

static void operands_that_do_not_fit_are_refused(void **state)
{
    pg__tape t = {0};
    pg_err err;
    pg__val x, w, y;
    (void)state;
    assert_ok(pg__tape_value(&t, &(pg__dims)S(3, 5), PG__REAL, PG__INPUT, 0, 0, &x, NULL));
    assert_ok(pg__tape_value(&t, &(pg__dims)S(4, 7), PG__REAL, PG__PARAM, 0, 1, &w, NULL));
    assert_int_equal(pg__emit2(&t, PG__OP_dense, NULL, x, w, &y, &err), PG_E_MISMATCH);
    assert_string_equal(err.msg, "input (3, 5) does not fit the kernel (4, 7)");
    assert_int_equal(t.n_insts, 0);
    pg__tape_fini(&t);
}

/* Rows first .. first + n of a batch of ones through dropout. */
static void drop_rows(float *y, const pg__dropout_attrs *all, int32_t first, size_t n,
                      int32_t count)
{
    const int32_t step[PG__STEP_N] = {5, 0, count, 0, first, 0};
    const pg__dims shape = S(n, 3, 5), six = S(PG__STEP_N);
    float ones[8 * 15];
    pg__dropout_attrs a = *all;
    for (size_t i = 0; i < n * 15; i++)
        ones[i] = 1;
    a.noise.d[0] = a.rows_share ? 1 : n;
    const pg__arg in[] = {{&shape, ones, n * 15}, {&six, (int32_t *)(uintptr_t)step, PG__STEP_N}};
    const pg__arg out = {&shape, y, n * 15};
    pg__op_of(PG__OP_dropout)->ref_f32(&a, in, 2, &out, 1);
}

static void dropout_is_a_function_of_the_row_in_the_batch(void **state)
{
    const pg__dropout_attrs kinds[] = {{0.5, 3, 0, S(8, 3, 5), 0}, {0.5, 3, 0, S(8, 1, 5), 0}};
    (void)state;
    for (size_t k = 0; k < 2; k++) {
        float whole[120], part[120], later[120];
        drop_rows(whole, &kinds[k], 0, 8, 0);
        drop_rows(part, &kinds[k], 0, 3, 0);
        drop_rows(part + 45, &kinds[k], 3, 1, 0);
        drop_rows(part + 60, &kinds[k], 4, 4, 0);
        assert_memory_equal(whole, part, sizeof whole);
        drop_rows(later, &kinds[k], 0, 8, 1);
        assert_memory_not_equal(whole, later, sizeof whole);
    }
}

static void dropout_knows_rows_that_are_steps(void **state)
{
    const pg__dropout_attrs two_steps = {0.5, 3, 0, S(8, 3, 5), 2};
    float whole[120], part[120];
    (void)state;
    drop_rows(whole, &two_steps, 0, 8, 0); /* four rows of the batch */
    drop_rows(part, &two_steps, 0, 2, 0);
    drop_rows(part + 30, &two_steps, 1, 6, 0);
    assert_memory_equal(whole, part, sizeof whole);
}

static void dropout_keeps_its_share(void **state)
{
    const pg__dims shape = S(1000, 20), six = S(PG__STEP_N);
    const pg__dropout_attrs a = {0.3, 1, 0, shape, 0};
    int32_t step[PG__STEP_N] = {1, 2, 3, 0, 0, 0};
    static double x[20000], y[20000];
    size_t kept = 0;
    (void)state;
    for (size_t i = 0; i < 20000; i++)
        x[i] = 1;
    const pg__arg in[] = {{&shape, x, 20000}, {&six, step, PG__STEP_N}}, out = {&shape, y, 20000};
    pg__op_of(PG__OP_dropout)->ref_f64(&a, in, 2, &out, 1);
    for (size_t i = 0; i < 20000; i++) {
        assert_true(y[i] == 0 || fabs(y[i] - 1 / 0.7) < 1e-12);
        kept += y[i] != 0;
    }
    assert_true(kept > 13740 && kept < 14260); /* four standard deviations */
}

static void equal_cells_of_a_window_give_all_to_the_first(void **state)
{
    const pg__pool_attrs a = {.rank = 1, .max = 1, .window = {3}, .stride = {3}, .size = {6}};
    const pg__dims x = S(1, 6, 1), y = S(1, 2, 1);
    double cells[] = {1, 2, 2, 3, 3, 3}, dy[] = {10, 20}, dx[6];
    const double want[] = {0, 10, 0, 20, 0, 0};
    const pg__arg in[] = {{&x, cells, 6}, {&y, dy, 2}}, out = {&x, dx, 6};
    (void)state;
    pg__op_of(PG__OP_pool_grad)->ref_f64(&a, in, 2, &out, 1);
    assert_memory_equal(dx, want, sizeof want);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_equal_finite_differences),
        cmocka_unit_test(float_agrees_with_double),
        cmocka_unit_test(cpu_agrees_with_double),
        cmocka_unit_test(equal_operands_give_equal_bits_whatever_memory_held),
        cmocka_unit_test(results_may_lie_over_operands),
        cmocka_unit_test(every_operation_has_a_case),
        cmocka_unit_test(steps_masked_everywhere_attend_to_all_alike),
        cmocka_unit_test(ids_beyond_the_table_give_no_numbers),
        cmocka_unit_test(operands_that_do_not_fit_are_refused),
        cmocka_unit_test(dropout_is_a_function_of_the_row_in_the_batch),
        cmocka_unit_test(dropout_knows_rows_that_are_steps),
        cmocka_unit_test(dropout_keeps_its_share),
        cmocka_unit_test(equal_cells_of_a_window_give_all_to_the_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

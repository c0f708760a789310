/* What stands in for plain answers, where the bound of tests/ops/test_ops.c says too little. */
#include "pg_test.h"

#include <math.h>

#include "backend/cpu/isa.h"
#include "base/mem.h"
#include "ops/attrs.h"

#define S(...)                                                \
    (pg__dims)                                                \
    {                                                         \
        sizeof((uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t), \
        {                                                     \
            __VA_ARGS__                                       \
        }                                                     \
    }

static pg__ref_fn fast(int isa, pg__op_kind kind)
{
    return pg__isa_fns_of((pg__isa)isa)->fast[kind];
}

/* Rows that begin and end anywhere between the numbers that are drawn together. */
static void dropout_draws_the_same_numbers(void **state)
{
    (void)state;
    for (int32_t first = 0; first < 9; first++)
        for (size_t n = 1; n < 1300; n += 257) {
            const pg__dims shape = S(1, n), six = S(PG_STEP_N);
            const pg__dropout_attrs a = {.rate = 0.3, .stream = 11, .noise = shape};
            int32_t step[PG_STEP_N] = {5, 7, 3, 1, first, 0};
            float x[1300], want[1300], got[1300];
            for (size_t i = 0; i < n; i++)
                x[i] = 1 + (float)i;
            const pg__arg in[] = {{&shape, x, n}, {&six, step, PG_STEP_N}};
            const pg__arg to = {&shape, want, n}, other = {&shape, got, n};
            pg__op_of(PG_OP_dropout)->ref_f32(&a, in, 2, &to, 1);
            for (int isa = 0; isa < PG_N_ISAS; isa++)
                if (pg__isa_present((pg__isa)isa)) {
                    fast(isa, PG_OP_dropout)(&a, in, 2, &other, 1);
                    assert_memory_equal(want, got, n * sizeof *got);
                }
        }
}

static float of_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Ties to even, the smallest numbers, and what rounds to infinity; NaN stays NaN. */
static void to_bf16_rounds_to_nearest(void **state)
{
    static const uint32_t bits[][2] = {
        {0x3f800000, 0x3f800000}, {0x3f808000, 0x3f800000}, {0x3f808001, 0x3f810000},
        {0x3f818000, 0x3f820000}, {0xbf817fff, 0xbf810000}, {0x80000000, 0x80000000},
        {0x00008000, 0x00000000}, {0x00008001, 0x00010000}, {0x80018000, 0x80020000},
        {0x7f7fffff, 0x7f800000}, {0x7f7f7fff, 0x7f7f0000}, {0xff800000, 0xff800000},
    };
    enum { N = sizeof bits / sizeof *bits };
    (void)state;
    for (int isa = 0; isa < PG_N_ISAS; isa++) {
        float v[N + 2], want[N];
        if (!pg__isa_present((pg__isa)isa))
            continue;
        for (size_t k = 0; k < N; k++) {
            v[k] = of_bits(bits[k][0]);
            want[k] = of_bits(bits[k][1]);
        }
        v[N] = of_bits(0x7fffffff);
        v[N + 1] = of_bits(0xff800001);
        pg__isa_fns_of((pg__isa)isa)->to_bf16(v, N + 2);
        assert_memory_equal(v, want, sizeof want);
        assert_true(isnan(v[N]) && isnan(v[N + 1]));
    }
}

/* Not even that of a rounding: Adam divides gradients by their size. */
static void layer_norm_of_one_number_has_no_slope(void **state)
{
    const pg__layer_norm_attrs a = {.n_axes = 1, .epsilon = 1e-2};
    const pg__dims shape = S(9, 1), row = S(1), each = S(9);
    float x[9], dy[9], scale[9], dx[9], gamma = 1.1f, dgamma, dbeta;
    (void)state;
    for (size_t i = 0; i < 9; i++) {
        x[i] = 0.3f * (float)i;
        dy[i] = 0.7f + 0.1f * (float)i;
        scale[i] = 10;
    }
    const pg__arg in[] = {
        {&shape, x, 9}, {&shape, dy, 9}, {&row, &gamma, 1}, {&each, x, 9}, {&each, scale, 9}};
    for (int isa = 0; isa < PG_N_ISAS; isa++)
        for (int plain = 0; plain < 2 && pg__isa_present((pg__isa)isa); plain++) {
            const pg__arg out[] = {{&shape, dx, 9},
                                   {&row, &dgamma, 1},
                                   {&row, plain ? NULL : &dbeta, 1}}; /* rarely: the answer */
            fast(isa, PG_OP_layer_norm_grad)(&a, in, 5, out, 3);
            for (size_t i = 0; i < 9; i++)
                assert_true(dx[i] == 0);
        }
}

/* The low half of the counter runs over. */
static void dropout_knows_batches_beyond_32_bits(void **state)
{
    const pg__dims six = S(PG_STEP_N);
    int32_t step[PG_STEP_N] = {1, 0, 0, 0, (1 << 22) - 1, 0}; /* x 4096 / 4: below 2^32 */
    float *mem = pg__mem_array(3 * 8192, sizeof *mem);
    (void)state;
    for (size_t i = 0; i < 8192; i++)
        mem[i] = 1;
    const pg__dims two = S(2, 4096);
    const pg__dropout_attrs both = {.rate = 0.5, .stream = 1, .noise = two};
    const pg__arg in[] = {{&two, mem, 8192}, {&six, step, PG_STEP_N}};
    const pg__arg want = {&two, mem + 8192, 8192}, got = {&two, mem + 16384, 8192};
    pg__op_of(PG_OP_dropout)->ref_f32(&both, in, 2, &want, 1);
    for (int isa = 0; isa < PG_N_ISAS; isa++)
        if (pg__isa_present((pg__isa)isa)) {
            fast(isa, PG_OP_dropout)(&both, in, 2, &got, 1);
            assert_memory_equal(want.p, got.p, 8192 * sizeof(float));
        }
    pg__mem_free(mem);
}

/* Keras 2.15 and 3.6 give these numbers. */
static void relu_is_keras_at_its_threshold(void **state)
{
    static const struct {
        pg__act_attrs relu;
        float y[5], slope[5];
    } cases[] = {
        {{PG_ACT_RELU, INFINITY, 0.5, 1}, {-0.5F, -0.25F, 0, 1.5F, 3}, {0.5F, 0.5F, 0, 1, 1}},
        {{PG_ACT_RELU, 2, 0.5, 1}, {-0.5F, -0.25F, 0, 1.5F, 2}, {0.5F, 0.5F, 0, 1, 0}},
        {{PG_ACT_RELU, 1, 0.5, 2}, {-1, -0.75F, -0.5F, -0.25F, 1}, {0.5F, 0.5F, 0.5F, 0.5F, 0}},
        {{PG_ACT_RELU, 2, 0.5, 0}, {0, 0.5F, 1, 1.5F, 2}, {0, 1, 1, 1, 0}},
        {{PG_ACT_RELU, INFINITY, 0.5, 0}, {0, 0.5F, 1, 1.5F, 3}, {0.5F, 1, 1, 1, 1}},
        {{PG_ACT_RELU, INFINITY, 0, 1}, {0, 0, 0, 1.5F, 3}, {0, 0, 0, 1, 1}},
    };
    const pg__dims row = S(1, 5);
    float x[5] = {0, 0.5F, 1, 1.5F, 3}, dy[5] = {1, 1, 1, 1, 1}, y[5];
    const pg__arg in[] = {{&row, x, 5}, {&row, dy, 5}}, out = {&row, y, 5};
    (void)state;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
        for (int isa = -1; isa < PG_N_ISAS; isa++) { /* -1: the plain functions */
            if (isa >= 0 && !pg__isa_present((pg__isa)isa))
                continue;
            (isa < 0 ? pg__op_of(PG_OP_act)->ref_f32 : fast(isa, PG_OP_act))(&cases[k].relu, in, 1,
                                                                             &out, 1);
            for (size_t i = 0; i < 5; i++)
                assert_true(y[i] == cases[k].y[i]);
            (isa < 0 ? pg__op_of(PG_OP_act_grad)->ref_f32
                     : fast(isa, PG_OP_act_grad))(&cases[k].relu, in, 2, &out, 1);
            for (size_t i = 0; i < 5; i++)
                assert_true(y[i] == cases[k].slope[i]);
        }
}

static void no_number_is_hidden(void **state)
{
    const pg__dims cells = S(1, 2, 2, 17), one = S(1, 1, 1, 17), line = S(4, 17);
    const pg__pool_attrs pool = {.rank = 2, .max = 1, .window = {2, 2}, .stride = {2, 2}};
    const pg__act_attrs relu = {PG_ACT_RELU, INFINITY, 0, 0};
    float x[68], y[68];
    (void)state;
    for (int isa = 0; isa < PG_N_ISAS; isa++)
        for (size_t bad = 0; bad < 68 && pg__isa_present((pg__isa)isa); bad++) {
            for (size_t i = 0; i < 68; i++)
                x[i] = i == bad ? NAN : (float)i;
            const pg__arg all = {&cells, x, 68}, largest = {&one, y, 17};
            fast(isa, PG_OP_pool)(&pool, &all, 1, &largest, 1);
            assert_true(isnan(y[bad % 17]));
            const pg__arg in = {&line, x, 68}, out = {&line, y, 68};
            fast(isa, PG_OP_act)(&relu, &in, 1, &out, 1);
            assert_true(isnan(y[bad]));
            fast(isa, PG_OP_softmax)(NULL, &in, 1, &out, 1);
            assert_true(isnan(y[bad]));
        }
}

static void channels_without_variance_have_none(void **state)
{
    const pg__dims x = S(1000, 70), c = S(70), scalar = {.rank = 0};
    float *mem = pg__mem_array(1000 * 70, sizeof *mem), mean[70], m2[70], n;
    (void)state;
    for (size_t i = 0; i < 1000 * 70; i++)
        mem[i] = 1000.1f + (float)(i % 70);
    const pg__arg in = {&x, mem, 1000 * 70};
    const pg__arg out[] = {{&c, mean, 70}, {&c, m2, 70}, {&scalar, &n, 1}};
    for (int isa = 0; isa < PG_N_ISAS; isa++) {
        if (!pg__isa_present((pg__isa)isa))
            continue;
        fast(isa, PG_OP_bn_stats)(NULL, &in, 1, out, 3);
        assert_true(n == 1000);
        for (size_t i = 0; i < 70; i++) {
            assert_true(fabsf(mean[i] - mem[i]) <= 1e-3f);
            assert_true(m2[i] / n <= 1e-6f);
        }
    }
    pg__mem_free(mem);
}

PG_TEST_MAIN(cmocka_unit_test(dropout_draws_the_same_numbers),
             cmocka_unit_test(to_bf16_rounds_to_nearest),
             cmocka_unit_test(relu_is_keras_at_its_threshold),
             cmocka_unit_test(layer_norm_of_one_number_has_no_slope),
             cmocka_unit_test(dropout_knows_batches_beyond_32_bits),
             cmocka_unit_test(no_number_is_hidden),
             cmocka_unit_test(channels_without_variance_have_none))

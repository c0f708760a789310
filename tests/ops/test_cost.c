/* What an instruction is said to cost, against numbers worked out by hand. */
#include "pg_test.h"

#include "ops/attrs.h"
#include "ops/cost.h"

static pg__val param(pg__tape *t, uint32_t rank, const uint64_t *d)
{
    const pg__dims shape = pg__dims_of(rank, d);
    pg__val v = PG_NO_VAL;
    assert_ok(pg__tape_value(t, &shape, PG_ELEM_REAL, PG_PARAM, 0, 1, &v, NULL));
    return v;
}
#define PARAM(t, ...) \
    param(t, sizeof((uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t), (const uint64_t[]){__VA_ARGS__})

static pg__cost last_cost(const pg__tape *t)
{
    return pg__cost_of(t, &t->insts[t->n_insts - 1], sizeof(float));
}

static void convolutions(void **state)
{
    (void)state;
    pg__tape t = {0};
    const pg__conv_attrs a = {.rank = 2,
                              .groups = 2,
                              .kernel = {3, 5},
                              .stride = {2, 1},
                              .dilation = {1, 1},
                              .size = {9, 8}};
    const pg__val x = PARAM(&t, 7, 9, 8, 4), w = PARAM(&t, 3, 5, 2, 6), b = PARAM(&t, 6);
    pg__val y, dx, dw[2];
    assert_ok(pg__emit3(&t, PG_OP_conv, &a, x, w, b, &y, NULL)); /* (7, 4, 4, 6) */
    const double flops = 2.0 * (7 * 4 * 4 * 6) * (3 * 5) * 2;
    assert_true(last_cost(&t).flops == flops);
    assert_true(last_cost(&t).bytes == 4.0 * (7 * 9 * 8 * 4 + 3 * 5 * 2 * 6 + 6 + 7 * 4 * 4 * 6));
    assert_ok(pg__emit2(&t, PG_OP_conv_dx, &a, y, w, &dx, NULL));
    assert_true(last_cost(&t).flops == flops);
    assert_ok(pg__emit2(&t, PG_OP_conv_dw, &a, x, y, dw, NULL));
    assert_true(last_cost(&t).flops == flops);
    pg__tape_fini(&t);
}

static void products(void **state)
{
    (void)state;
    pg__tape t = {0};
    const pg__val x = PARAM(&t, 3, 5, 4), w = PARAM(&t, 4, 6), m = PARAM(&t, 3, 5, 6);
    pg__val y, dx, dw[2], z;
    assert_ok(pg__emit2(&t, PG_OP_dense, NULL, x, w, &y, NULL));
    assert_true(last_cost(&t).flops == 2.0 * 15 * 4 * 6);
    assert_ok(pg__emit2(&t, PG_OP_dense_dx, NULL, y, w, &dx, NULL));
    assert_true(last_cost(&t).flops == 2.0 * 15 * 4 * 6);
    assert_ok(pg__emit2(&t, PG_OP_dense_dw, NULL, x, y, dw, NULL));
    assert_true(last_cost(&t).flops == 2.0 * 15 * 4 * 6);
    const pg__matmul_attrs turned = {.a_turned = 1};
    assert_ok(pg__emit2(&t, PG_OP_matmul, &turned, x, m, &z, NULL)); /* (3, 4, 5) (3, 5, 6) */
    assert_true(last_cost(&t).flops == 2.0 * 3 * 4 * 5 * 6);
    const pg__act_attrs relu = {PG_ACT_RELU, 6, 0, 0};
    assert_ok(pg__emit1(&t, PG_OP_act, &relu, x, &z, NULL));
    assert_true(last_cost(&t).flops == 0 && last_cost(&t).bytes == 2 * 4.0 * 60);
    pg__tape_fini(&t);
}

static void sequences(void **state)
{
    (void)state;
    pg__tape t = {0};
    const pg__rnn_attrs tanh = {.act = {.kind = PG_ACT_TANH}};
    pg__val in[7], out[8];
    for (size_t k = 0; k < 7; k++)
        in[k] = PG_NO_VAL;
    in[0] = PARAM(&t, 3, 5, 4);
    in[1] = PARAM(&t, 4, 4);
    assert_ok(pg__emit(&t, PG_OP_rnn, &tanh, in, 7, out, NULL));
    assert_true(last_cost(&t).flops == 2.0 * 3 * 5 * 4 * 4);
    const pg__attention_attrs a = {.heads = 2, .scale = 1};
    pg__val of[8];
    for (size_t k = 0; k < 8; k++)
        of[k] = PG_NO_VAL;
    of[0] = PARAM(&t, 3, 5, 8);
    of[1] = PARAM(&t, 3, 7, 8);
    of[2] = PARAM(&t, 3, 7, 6);
    assert_ok(pg__emit(&t, PG_OP_attention, &a, of, 8, out, NULL));
    assert_true(last_cost(&t).flops == 2.0 * 3 * 5 * 7 * (8 + 6));
    pg__tape_fini(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convolutions),
        cmocka_unit_test(products),
        cmocka_unit_test(sequences),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

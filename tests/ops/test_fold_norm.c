/* A convolution and the normalisation behind it become one instruction where that may be, and give
 * the same numbers. */
#include "pg_test.h"

#include "ops/attrs.h"
#include "ops/fold_norm.h"
#include "ops/tape_run.h"

#define MANY 24

static const pg__conv_attrs conv = {.rank = 2,
                                    .groups = 1,
                                    .kernel = {3, 2},
                                    .stride = {2, 1},
                                    .dilation = {1, 1},
                                    .before = {1, 0}};
static const pg__bn_attrs plain = {.epsilon = 1e-3};
static const pg__bn_attrs relu6 = {.epsilon = 1e-3, .has_act = 1, .act = {PG_ACT_RELU, 6, 0, 0}};

typedef struct model {
    pg__tape tape;
    pg__val x, kernel, bias, between, y;
    double *mem[MANY];
} model;

/* statistics: what mean and variance are; reshaped: the kernel comes by another shape. */
static void build(model *m, const pg__bn_attrs *bn, pg__role statistics, int reshaped)
{
    *m = (model){.between = 0};
    m->x = VALUE(m, PG_INPUT, 2, 5, 4, 3);
    m->kernel = VALUE(m, PG_PARAM, 3, 2, 3, 7);
    m->bias = VALUE(m, PG_PARAM, 7);
    const pg__val mean = VALUE(m, statistics, 7), variance = VALUE(m, statistics, 7);
    const pg__val gamma = VALUE(m, PG_PARAM, 7), beta = VALUE(m, PG_PARAM, 7);
    const pg__reshape_attrs to = {.to = {4, {3, 2, 3, 7}}};
    if (reshaped) {
        m->kernel = VALUE(m, PG_PARAM, 6, 21);
        assert_ok(pg__emit1(&m->tape, PG_OP_reshape, &to, m->kernel, &m->kernel, NULL));
    }
    assert_ok(pg__emit3(&m->tape, PG_OP_conv, &conv, m->x, m->kernel, m->bias, &m->between, NULL));
    const pg__val in[] = {m->between, mean, variance, gamma, beta};
    assert_ok(pg__emit(&m->tape, PG_OP_bn_apply, bn, in, 5, &m->y, NULL));
}

static void fold(model *m, pg__val also_kept)
{
    unsigned char kept[MANY] = {0};
    kept[m->y] = 1;
    kept[also_kept] = 1;
    assert_ok(pg__tape_fold_norm(&m->tape, kept, NULL));
}

static void the_same_numbers(void **state)
{
    (void)state;
    for (int k = 0; k < 4; k++) {
        model apart, joined;
        build(&apart, k & 1 ? &relu6 : &plain, PG_PARAM, k & 2);
        build(&joined, k & 1 ? &relu6 : &plain, PG_PARAM, k & 2);
        fold(&joined, joined.y);
        assert_int_equal(tape_count(&joined.tape, PG_OP_conv_norm), 1);
        assert_int_equal(
            tape_count(&joined.tape, PG_OP_conv) + tape_count(&joined.tape, PG_OP_bn_apply), 0);
        tape_run(&apart.tape, apart.mem, 1);
        tape_run(&joined.tape, joined.mem, 1);
        double most = 0;
        for (uint64_t i = 0; i < pg__dims_elems(&apart.tape.values[apart.y].shape); i++) {
            assert_true(fabs(apart.mem[apart.y][i] - joined.mem[joined.y][i]) < 1e-12);
            most = fmax(most, apart.mem[apart.y][i]);
        }
        assert_true(k & 1 ? most == 6 : most > 6); /* the activation is there, and matters */
        tape_release(&apart.tape, apart.mem);
        tape_release(&joined.tape, joined.mem);
    }
}

static void what_must_stay_apart(void **state)
{
    (void)state;
    model m;
    build(&m, &plain, PG_TEMP, 0); /* statistics of the batch */
    fold(&m, m.y);
    assert_int_equal(tape_count(&m.tape, PG_OP_bn_apply), 1);
    tape_release(&m.tape, m.mem);
    build(&m, &plain, PG_PARAM, 0); /* somebody else reads what the convolution gives */
    fold(&m, m.between);
    assert_int_equal(tape_count(&m.tape, PG_OP_bn_apply), 1);
    tape_release(&m.tape, m.mem);
    build(&m, &plain, PG_PARAM, 0);
    pg__val other;
    assert_ok(pg__emit2(&m.tape, PG_OP_add, NULL, m.between, m.y, &other, NULL));
    fold(&m, m.y);
    assert_int_equal(tape_count(&m.tape, PG_OP_bn_apply), 1);
    tape_release(&m.tape, m.mem);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_numbers),
        cmocka_unit_test(what_must_stay_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

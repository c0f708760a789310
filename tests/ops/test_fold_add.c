/* The end of a residual block, a sum and an activation behind a normalised convolution, becomes
 * part of it where that may be, and gives the same numbers. */
#include "pg_test.h"

#include "ops/attrs.h"
#include "ops/fold_add.h"
#include "ops/tape_run.h"

#define MANY 24
#define N    7 /* channels */

static const pg__conv_norm_attrs plain = {
    .conv = {.rank = 2, .groups = 1, .kernel = {1, 1}, .stride = {1, 1}, .dilation = {1, 1}},
    .epsilon = 1e-3};
static const pg__act_attrs relu = {PG_ACT_RELU, 6, 0, 0};

typedef struct model {
    pg__tape tape;
    pg__val x, first, second, sum, y;
    double *mem[MANY];
} model;

static pg__val conv(model *m, pg__val x, const pg__conv_norm_attrs *a, uint32_t origin)
{
    const pg__val in[] = {x,
                          VALUE(m, PG_PARAM, 1, 1, N, N),
                          PG_NO_VAL,
                          VALUE(m, PG_PARAM, N),
                          VALUE(m, PG_PARAM, N),
                          PG_NO_VAL,
                          PG_NO_VAL};
    pg__val y = PG_NO_VAL;
    m->tape.origin = origin;
    assert_ok(pg__emit(&m->tape, PG_OP_conv_norm, a, in, 7, &y, NULL));
    m->tape.origin = 0;
    return y;
}

/* Convolutions of x and of that; the sum of both, or of x and one; an activation. */
static void build(model *m, const pg__conv_norm_attrs *last, int with_x, int swapped)
{
    *m = (model){.y = 0};
    m->x = VALUE(m, PG_INPUT, 2, 3, 4, N);
    m->first = conv(m, m->x, &plain, 1);
    m->second = conv(m, m->first, last, 1);
    const pg__val other = with_x ? m->x : m->first;
    assert_ok(pg__emit2(&m->tape, PG_OP_add, NULL, swapped ? m->second : other,
                        swapped ? other : m->second, &m->sum, NULL));
    assert_ok(pg__emit1(&m->tape, PG_OP_act, &relu, m->sum, &m->y, NULL));
}

static void fold(model *m, pg__val also_kept, const pg__elem *elems)
{
    unsigned char kept[MANY] = {0};
    kept[m->y] = 1;
    kept[also_kept] = 1;
    assert_ok(pg__tape_fold_add(&m->tape, kept, elems, 2, NULL));
}

static void the_same_numbers(void **state)
{
    (void)state;
    for (int k = 0; k < 4; k++) {
        model apart, joined;
        size_t n_low = 0, n_high = 0, n = 0;
        build(&apart, &plain, k & 1, k & 2);
        build(&joined, &plain, k & 1, k & 2);
        fold(&joined, joined.y, NULL);
        assert_int_equal(joined.tape.n_insts, 2);
        assert_int_equal(tape_count(&joined.tape, PG_OP_conv_norm), 2);
        tape_run(&apart.tape, apart.mem, 0.5);
        tape_run(&joined.tape, joined.mem, 0.5);
        for (; n < pg__dims_elems(&apart.tape.values[apart.y].shape); n++) {
            const double y = joined.mem[joined.y][n];
            assert_true(fabs(apart.mem[apart.y][n] - y) < 1e-12);
            n_low += y < 6;
            n_high += y >= 6;
        }
        assert_true(n_low > 0 && n_high > 0); /* the activation is there, and matters */
        tape_release(&apart.tape, apart.mem);
        tape_release(&joined.tape, joined.mem);
    }
}

/* What is read twice is not gone: the first of two, which the other reads, stays what it was. */
static void the_later_one_takes_the_sum(void **state)
{
    model m;
    (void)state;
    m = (model){.y = 0};
    m.x = VALUE(&m, PG_INPUT, 2, 3, 4, N);
    m.first = conv(&m, m.x, &plain, 1);
    m.second = conv(&m, m.x, &plain, 1);
    assert_ok(pg__emit2(&m.tape, PG_OP_add, NULL, m.second, m.first, &m.y, NULL));
    fold(&m, m.y, NULL);
    assert_int_equal(m.tape.n_insts, 2);
    assert_int_equal(m.tape.insts[1].n_in, 8);
    assert_int_equal(pg__in(&m.tape, &m.tape.insts[1], 7), m.first);
    assert_int_equal(pg__out(&m.tape, &m.tape.insts[1], 0), m.y);
    tape_release(&m.tape, m.mem);
}

static void what_must_stay_apart(void **state)
{
    static const pg__elem both[2] = {PG_ELEM_BF16, PG_ELEM_REAL};
    pg__conv_norm_attrs activated = plain;
    model m;
    (void)state;
    build(&m, &plain, 1, 0); /* somebody else reads what the convolution gives */
    fold(&m, m.second, NULL);
    assert_int_equal(tape_count(&m.tape, PG_OP_add), 1);
    tape_release(&m.tape, m.mem);
    build(&m, &plain, 1, 0); /* ... or the sum */
    fold(&m, m.sum, NULL);
    assert_int_equal(tape_count(&m.tape, PG_OP_add), 0);
    assert_int_equal(tape_count(&m.tape, PG_OP_act), 1);
    tape_release(&m.tape, m.mem);
    activated.has_act = 1;
    activated.act = relu;
    build(&m, &activated, 1, 0); /* an activation comes in between */
    fold(&m, m.y, NULL);
    assert_int_equal(tape_count(&m.tape, PG_OP_add), 1);
    tape_release(&m.tape, m.mem);
    build(&m, &plain, 1, 0); /* layers compute with different numbers */
    fold(&m, m.y, both);
    assert_int_equal(tape_count(&m.tape, PG_OP_add), 1);
    tape_release(&m.tape, m.mem);
    build(&m, &plain, 1, 0); /* a convolution takes one sum, and not the next */
    assert_ok(pg__emit2(&m.tape, PG_OP_add, NULL, m.y, m.y, &m.sum, NULL));
    fold(&m, m.sum, NULL);
    assert_int_equal(tape_count(&m.tape, PG_OP_add), 1);
    tape_release(&m.tape, m.mem);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_numbers),
        cmocka_unit_test(the_later_one_takes_the_sum),
        cmocka_unit_test(what_must_stay_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

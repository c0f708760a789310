/* The end of a residual block, a sum and an activation behind a normalised convolution, becomes
 * part of it where that may be, and gives the same numbers. */
#include "pg_test.h"

#include <math.h>

#include "base/mem.h"
#include "ops/attrs.h"
#include "ops/fold_add.h"

#define MANY 24
#define N    7 /* channels */

static const pg__conv_norm_attrs plain = {
    .conv = {.rank = 2, .groups = 1, .kernel = {1, 1}, .stride = {1, 1}, .dilation = {1, 1}},
    .epsilon = 1e-3};
static const pg__act_attrs relu = {PG__ACT_RELU, 6, 0, 0};

typedef struct model {
    pg__tape tape;
    pg__val x, first, second, sum, y;
    double *mem[MANY];
} model;

static pg__val value(model *m, pg__role role, uint32_t rank, const uint64_t *d)
{
    const pg__dims shape = pg__dims_of(rank, d);
    pg__val v = PG__NO_VAL;
    assert_ok(pg__tape_value(&m->tape, &shape, PG__REAL, role, 0, 0, &v, NULL));
    return v;
}
#define VALUE(m, role, ...)                                              \
    value(m, role, sizeof((uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t), \
          (const uint64_t[]){__VA_ARGS__})

static pg__val conv(model *m, pg__val x, const pg__conv_norm_attrs *a, uint32_t origin)
{
    const pg__val in[] = {x,
                          VALUE(m, PG__PARAM, 1, 1, N, N),
                          PG__NO_VAL,
                          VALUE(m, PG__PARAM, N),
                          VALUE(m, PG__PARAM, N),
                          PG__NO_VAL,
                          PG__NO_VAL};
    pg__val y = PG__NO_VAL;
    m->tape.origin = origin;
    assert_ok(pg__emit(&m->tape, PG__OP_conv_norm, a, in, 7, &y, NULL));
    m->tape.origin = 0;
    return y;
}

/* Convolutions of x and of that; the sum of both, or of x and one; an activation. */
static void build(model *m, const pg__conv_norm_attrs *last, int with_x, int swapped)
{
    *m = (model){.y = 0};
    m->x = VALUE(m, PG__INPUT, 2, 3, 4, N);
    m->first = conv(m, m->x, &plain, 1);
    m->second = conv(m, m->first, last, 1);
    const pg__val other = with_x ? m->x : m->first;
    assert_ok(pg__emit2(&m->tape, PG__OP_add, NULL, swapped ? m->second : other,
                        swapped ? other : m->second, &m->sum, NULL));
    assert_ok(pg__emit1(&m->tape, PG__OP_act, &relu, m->sum, &m->y, NULL));
}

static size_t count(const model *m, pg__op_kind kind)
{
    size_t n = 0;
    for (uint32_t at = 0; at < m->tape.n_insts; at++)
        n += m->tape.insts[at].op == pg__op_of(kind);
    return n;
}

static void run(model *m)
{
    for (pg__val v = 0; v < m->tape.n_values; v++) {
        const uint64_t n = pg__dims_elems(&m->tape.values[v].shape);
        m->mem[v] = pg__mem_array(n, sizeof(double));
        for (uint64_t i = 0; m->tape.values[v].role != PG__TEMP && i < n; i++)
            m->mem[v][i] = 0.1 + fabs(sin((double)(17 * v + i))) / 2; /* variances are positive */
    }
    for (uint32_t at = 0; at < m->tape.n_insts; at++) {
        const pg__inst *i = &m->tape.insts[at];
        pg__arg in[8] = {{0}}, out = {0};
        for (uint32_t k = 0; k < i->n_in; k++) {
            const pg__val v = pg__in(&m->tape, i, k);
            if (v != PG__NO_VAL)
                in[k] = (pg__arg){&m->tape.values[v].shape, m->mem[v],
                                  pg__dims_elems(&m->tape.values[v].shape)};
        }
        const pg__val v = pg__out(&m->tape, i, 0);
        out = (pg__arg){&m->tape.values[v].shape, m->mem[v],
                        pg__dims_elems(&m->tape.values[v].shape)};
        i->op->ref_f64(i->attrs, in, i->n_in, &out, 1);
    }
}

static void release(model *m)
{
    for (pg__val v = 0; v < m->tape.n_values; v++)
        pg__mem_free(m->mem[v]);
    pg__tape_fini(&m->tape);
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
        assert_int_equal(count(&joined, PG__OP_conv_norm), 2);
        run(&apart);
        run(&joined);
        for (; n < pg__dims_elems(&apart.tape.values[apart.y].shape); n++) {
            const double y = joined.mem[joined.y][n];
            assert_true(fabs(apart.mem[apart.y][n] - y) < 1e-12);
            n_low += y < 6;
            n_high += y >= 6;
        }
        assert_true(n_low > 0 && n_high > 0); /* the activation is there, and matters */
        release(&apart);
        release(&joined);
    }
}

/* What is read twice is not gone: the first of two, which the other reads, stays what it was. */
static void the_later_one_takes_the_sum(void **state)
{
    model m;
    (void)state;
    m = (model){.y = 0};
    m.x = VALUE(&m, PG__INPUT, 2, 3, 4, N);
    m.first = conv(&m, m.x, &plain, 1);
    m.second = conv(&m, m.x, &plain, 1);
    assert_ok(pg__emit2(&m.tape, PG__OP_add, NULL, m.second, m.first, &m.y, NULL));
    fold(&m, m.y, NULL);
    assert_int_equal(m.tape.n_insts, 2);
    assert_int_equal(m.tape.insts[1].n_in, 8);
    assert_int_equal(pg__in(&m.tape, &m.tape.insts[1], 7), m.first);
    assert_int_equal(pg__out(&m.tape, &m.tape.insts[1], 0), m.y);
    release(&m);
}

static void what_must_stay_apart(void **state)
{
    static const pg__elem both[2] = {PG__REAL_BF16, PG__REAL};
    pg__conv_norm_attrs activated = plain;
    model m;
    (void)state;
    build(&m, &plain, 1, 0); /* somebody else reads what the convolution gives */
    fold(&m, m.second, NULL);
    assert_int_equal(count(&m, PG__OP_add), 1);
    release(&m);
    build(&m, &plain, 1, 0); /* ... or the sum */
    fold(&m, m.sum, NULL);
    assert_int_equal(count(&m, PG__OP_add), 0);
    assert_int_equal(count(&m, PG__OP_act), 1);
    release(&m);
    activated.has_act = 1;
    activated.act = relu;
    build(&m, &activated, 1, 0); /* an activation comes in between */
    fold(&m, m.y, NULL);
    assert_int_equal(count(&m, PG__OP_add), 1);
    release(&m);
    build(&m, &plain, 1, 0); /* layers compute with different numbers */
    fold(&m, m.y, both);
    assert_int_equal(count(&m, PG__OP_add), 1);
    release(&m);
    build(&m, &plain, 1, 0); /* a convolution takes one sum, and not the next */
    assert_ok(pg__emit2(&m.tape, PG__OP_add, NULL, m.y, m.y, &m.sum, NULL));
    fold(&m, m.sum, NULL);
    assert_int_equal(count(&m, PG__OP_add), 1);
    release(&m);
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

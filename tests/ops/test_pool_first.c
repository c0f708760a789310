/* Pooling before ReLU gives the same numbers, forward and backward. */
#include "pg_test.h"

#include <math.h>

#include "base/mem.h"
#include "ops/attrs.h"
#include "ops/pool_first.h"

#define MANY 16

static const pg__act_attrs relu = {PG_ACT_RELU, INFINITY, 0, 0};
static const pg__act_attrs leaky = {PG_ACT_RELU, INFINITY, 0.1, 0};
static const pg__pool_attrs largest = {
    .rank = 2, .max = 1, .window = {2, 3}, .stride = {2, 1}, .before = {0, 1}};
static const pg__pool_attrs mean = {.rank = 2, .window = {2, 2}, .stride = {2, 2}};

/* x -> activation -> pooling, x a parameter. */
static void build(pg__tape *t, const pg__act_attrs *act, const pg__pool_attrs *pool, pg__val v[3])
{
    const pg__dims shape = {4, {2, 4, 5, 3}};
    *t = (pg__tape){0};
    assert_ok(pg__tape_value(t, &shape, PG_ELEM_REAL, PG_PARAM, 0, 1, &v[0], NULL));
    assert_ok(pg__emit1(t, PG_OP_act, act, v[0], &v[1], NULL));
    assert_ok(pg__emit1(t, PG_OP_pool, pool, v[1], &v[2], NULL));
}

static void run(const pg__tape *t, double *mem[MANY])
{
    for (uint32_t at = 0; at < t->n_insts; at++) {
        const pg__inst *i = &t->insts[at];
        pg__arg in[4] = {{0}}, out[4] = {{0}};
        for (uint32_t k = 0; k < i->n_in + i->n_out; k++) {
            const pg__val v = k < i->n_in ? pg__in(t, i, k) : pg__out(t, i, k - i->n_in);
            if (v != PG_NO_VAL)
                *(k < i->n_in ? &in[k] : &out[k - i->n_in]) =
                    (pg__arg){&t->values[v].shape, mem[v], pg__dims_elems(&t->values[v].shape)};
        }
        i->op->ref_f64(i->attrs, in, i->n_in, out, i->n_out);
    }
}

/* Result and gradient of x: numbers around 0, some equal, some windows without positive ones. */
static void compute(pg__tape *t, const pg__val v[3], double *y, double *dx)
{
    double *mem[MANY] = {NULL};
    pg__val seed;
    const pg__dims shape = t->values[v[2]].shape;
    assert_ok(pg__tape_value(t, &shape, PG_ELEM_REAL, PG_SEED, 0, 0, &seed, NULL));
    t->values[v[2]].grad = seed;
    assert_ok(pg__tape_backward(t, NULL));
    assert_true(t->n_values <= MANY);
    for (pg__val i = 0; i < t->n_values; i++)
        mem[i] = pg__mem_array(pg__dims_elems(&t->values[i].shape), sizeof(double));
    for (size_t i = 0; i < 120; i++)
        mem[v[0]][i] = (double)((i * 7919) % 11) - 7;
    for (size_t i = 0; i < pg__dims_elems(&shape); i++)
        mem[seed][i] = 1 + (double)i;
    run(t, mem);
    memcpy(y, mem[v[2]], pg__dims_elems(&shape) * sizeof *y);
    memcpy(dx, mem[t->values[v[0]].grad], 120 * sizeof *dx);
    for (pg__val i = 0; i < t->n_values; i++)
        pg__mem_free(mem[i]);
}

static void gives_the_same_numbers(void **state)
{
    const unsigned char kept[MANY] = {0};
    double y[2][120] = {{0}}, dx[2][120];
    (void)state;
    for (int pass = 0; pass < 2; pass++) {
        pg__tape t;
        pg__val v[3];
        build(&t, &relu, &largest, v);
        if (pass)
            assert_ok(pg__tape_pool_first(&t, kept, NULL));
        assert_true(t.insts[0].op == pg__op_of(pass ? PG_OP_pool : PG_OP_act));
        compute(&t, v, y[pass], dx[pass]);
        pg__tape_fini(&t);
    }
    for (size_t i = 0; i < 120; i++) {
        assert_true(y[0][i] == y[1][i]);
        assert_true(dx[0][i] == dx[1][i]);
    }
}

static int is_changed(const pg__act_attrs *act, const pg__pool_attrs *pool, int kept, int read)
{
    unsigned char all[MANY] = {0};
    pg__tape t;
    pg__val v[3], other;
    build(&t, act, pool, v);
    if (read)
        assert_ok(pg__emit1(&t, PG_OP_act, &relu, v[1], &other, NULL));
    all[v[1]] = (unsigned char)kept;
    assert_ok(pg__tape_pool_first(&t, all, NULL));
    const int changed = t.insts[0].op == pg__op_of(PG_OP_pool);
    pg__tape_fini(&t);
    return changed;
}

static void leaves_all_others_as_they_are(void **state)
{
    (void)state;
    assert_true(is_changed(&relu, &largest, 0, 0));
    assert_false(is_changed(&leaky, &largest, 0, 0));
    assert_false(is_changed(&relu, &mean, 0, 0));
    assert_false(is_changed(&relu, &largest, 1, 0)); /* an output of the model */
    assert_false(is_changed(&relu, &largest, 0, 1)); /* read by another layer too */
}

PG_TEST_MAIN(cmocka_unit_test(gives_the_same_numbers),
             cmocka_unit_test(leaves_all_others_as_they_are))

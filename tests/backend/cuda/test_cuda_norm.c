/* Normalisation on the GPU of plain C (host.h) of numbers whose mean is large beside their
 * variance: no precision is lost to the mean. */
#include "pg_test.h"

#include <math.h>

#include "backend/cuda/plugin.h"
#include "base/mem.h"
#include "ops/attrs.h"

/* Float arrays on the device, the results of an instruction whose only operand with numbers is x.
 */
typedef struct run {
    pg__tape tape;
    pg__val in[4], out[3];
    float *x, *results[3];
    uint64_t n_x;
} run;

static uint64_t elems(const run *r, pg__val v)
{
    return pg__dims_elems(&r->tape.values[v].shape);
}

/* Numbers about 1000, their distances from it below 2. */
static void setup(run *r, uint64_t rows, uint64_t n)
{
    uint32_t seed = 7;
    const pg__dims shape = pg__dims_of(2, (const uint64_t[]){rows, n});
    *r = (run){.n_x = rows * n};
    for (size_t k = 0; k < 4; k++)
        r->in[k] = PG_NO_VAL;
    assert_ok(pg__tape_value(&r->tape, &shape, PG_ELEM_REAL, PG_PARAM, 0, 0, &r->in[0], NULL));
    r->x = pg__mem_array(r->n_x, sizeof *r->x);
    for (uint64_t i = 0; i < r->n_x; i++) {
        seed = seed * 1664525u + 1013904223u;
        r->x[i] = 1000 + (float)(seed >> 8) / 8388608.0f - 1 + (float)(i % n) / (float)n;
    }
}

static void go(run *r, pg__op_kind kind, const void *attrs, size_t n_in)
{
    const pg__backend *cuda = pg_backend_get(PG_BACKEND_ABI);
    pg__dev *dev;
    pg__kernel *k;
    pg__needs needs;
    void *args[8] = {NULL}, *scratch;
    assert_ok(pg__emit(&r->tape, kind, attrs, r->in, n_in, r->out, NULL));
    assert_ok(cuda->open(&dev, 0, &(pg__dev_opts){.n_threads = 1}, NULL));
    assert_ok(cuda->prepare(&k, dev, &r->tape, &r->tape.insts[0], &needs, NULL));
    assert_ok(cuda->alloc(dev, &scratch, needs.scratch_bytes + 1, NULL));
    assert_ok(cuda->alloc(dev, &args[0], r->n_x * sizeof(float), NULL));
    assert_ok(cuda->put(dev, args[0], r->x, r->n_x * sizeof(float)));
    for (size_t i = 0; i < 3; i++)
        assert_ok(cuda->alloc(dev, &args[n_in + i], elems(r, r->out[i]) * sizeof(float), NULL));
    assert_ok(cuda->run(dev, k, args, scratch, NULL));
    for (size_t i = 0; i < 3; i++) {
        const size_t bytes = elems(r, r->out[i]) * sizeof(float);
        r->results[i] = pg__mem_array(1, bytes);
        assert_ok(cuda->get(dev, r->results[i], args[n_in + i], bytes));
    }
    for (size_t i = 0; i < 8; i++)
        cuda->free(dev, args[i]);
    cuda->free(dev, scratch);
    cuda->release(k);
    cuda->close(dev);
}

static void drop(run *r)
{
    for (size_t i = 0; i < 3; i++)
        pg__mem_free(r->results[i]);
    pg__mem_free(r->x);
    pg__tape_fini(&r->tape);
}

/* Mean and squared distances of n numbers, `step` apart. */
static void exact(const float *x, uint64_t n, uint64_t step, double *mean, double *m2)
{
    *mean = *m2 = 0;
    for (uint64_t i = 0; i < n; i++)
        *mean += (double)x[i * step] / (double)n;
    for (uint64_t i = 0; i < n; i++)
        *m2 += ((double)x[i * step] - *mean) * ((double)x[i * step] - *mean);
}

static void check_statistics(uint64_t rows, uint64_t n)
{
    run r;
    double mean, m2;
    setup(&r, rows, n);
    r.x[0] = 1007; /* what all is taken relative to may lie far off */
    go(&r, PG_OP_bn_stats, NULL, 2);
    assert_true((double)r.results[2][0] == (double)rows);
    for (uint64_t c = 0; c < n; c++) {
        exact(r.x + c, rows, n, &mean, &m2);
        if (!(fabs((double)r.results[0][c] - mean) <= 1e-7 * mean &&
              fabs((double)r.results[1][c] - m2) <= 3e-6 * m2))
            fail_msg("%u rows, channel %u: %.9g and %.9g, not %.9g and %.9g", (unsigned)rows,
                     (unsigned)c, (double)r.results[0][c], (double)r.results[1][c], mean, m2);
    }
    drop(&r);
}

static void statistics_stand_a_large_mean(void **state)
{
    (void)state;
    check_statistics(2, 5);
    check_statistics(63, 3);
    check_statistics(4099, 33);
    check_statistics(70001, 1);
}

static void check_rows(uint64_t rows, uint64_t n)
{
    run r;
    setup(&r, rows, n);
    go(&r, PG_OP_layer_norm, &(const pg__layer_norm_attrs){1, 1e-3}, 3);
    for (uint64_t i = 0; i < r.n_x; i++) {
        double mean, m2;
        exact(r.x + i / n * n, n, 1, &mean, &m2);
        const double want = ((double)r.x[i] - mean) / sqrt(m2 / (double)n + 1e-3);
        if (!(fabs((double)r.results[0][i] - want) <= 3e-6))
            fail_msg("%u rows of %u: %.9g, not %.9g", (unsigned)rows, (unsigned)n,
                     (double)r.results[0][i], want);
    }
    drop(&r);
}

static void rows_stand_a_large_mean(void **state)
{
    (void)state;
    check_rows(3, 5); /* by one thread, by a warp, by a block */
    check_rows(3, 200);
    check_rows(2, 1300);
}

static void activations_stand_apart(void **state)
{
    const pg__backend *cuda = pg_backend_get(PG_BACKEND_ABI);
    (void)state;
    for (int has_act = 0; has_act < 2; has_act++) {
        const pg__bn_attrs attrs = {.epsilon = 1e-3, .has_act = has_act};
        const pg__dims one = {1, {5}};
        char why[128];
        run r;
        pg__dev *dev;
        setup(&r, 3, 5);
        for (size_t k = 1; k < 3; k++)
            assert_ok(pg__tape_value(&r.tape, &one, PG_ELEM_REAL, PG_PARAM, 0, 0, &r.in[k], NULL));
        assert_ok(pg__emit(&r.tape, PG_OP_bn_apply, &attrs, r.in, 3, r.out, NULL));
        assert_ok(cuda->open(&dev, 0, &(pg__dev_opts){.n_threads = 1}, NULL));
        assert_true(cuda->supports(dev, &r.tape, &r.tape.insts[0], why) == !has_act);
        assert_true(!has_act || strstr(why, "activation"));
        cuda->close(dev);
        drop(&r);
    }
}

PG_TEST_MAIN(cmocka_unit_test(activations_stand_apart),
             cmocka_unit_test(statistics_stand_a_large_mean),
             cmocka_unit_test(rows_stand_a_large_mean))

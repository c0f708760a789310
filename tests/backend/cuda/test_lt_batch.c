/* Batches of more products than cuBLASLt takes at once, on the GPU of plain C (lt_host.c). */
#include "pg_test.h"

#include "backend/cuda/blas.h"
#include "backend/cuda/plugin.h"
#include "base/mem.h"

#define K 2 /* A: 1 x K, B: K x 1 */

static void *on_device(pg__dev *d, const float *v, size_t n)
{
    void *p = NULL;
    assert_ok(pg__rt_alloc(d->rt, &p, n * sizeof *v, NULL));
    assert_ok(pg__rt_put(d->rt, p, v, n * sizeof *v, NULL));
    return p;
}

/* Small whole numbers, whose sums are exact. */
static float *numbers(size_t n, size_t below)
{
    float *v = pg__mem_array(n, sizeof *v);
    assert_non_null(v);
    for (size_t i = 0; i < n; i++)
        v[i] = (float)(i % below);
    return v;
}

/* C = A B + beta C; shares: all products have one B. */
static void check(pg__dev *d, size_t batch, int shares, float beta)
{
    const size_t n_b = shares ? K : K * batch;
    float *a = numbers(K * batch, 97), *b = numbers(n_b, 31), *c = numbers(batch, 13);
    float *got = pg__mem_array(batch, sizeof *got);
    void *at_a = on_device(d, a, K * batch), *at_b = on_device(d, b, n_b);
    void *at_c = on_device(d, c, batch), *scratch = NULL;
    const pg__blas_shape s = {.m = 1,
                              .n = 1,
                              .k = K,
                              .batch = batch,
                              .stride_a = K,
                              .stride_b = shares ? 0 : K,
                              .stride_c = 1,
                              .alpha = 1,
                              .beta = beta,
                              .align = 4};
    pg__blas_plan *p = NULL;
    pg__needs needs = {0};
    pg_err err = {0};
    if (pg__blas_new(&p, d, &s, &needs, &err) != PG_OK)
        fail_msg("batch of %zu: %s", batch, err.msg);
    assert_ok(pg__rt_alloc(d->rt, &scratch, needs.scratch_bytes, NULL));
    assert_ok(pg__blas_run(d, p, at_a, at_b, at_c, NULL, scratch));
    assert_ok(pg__rt_get(d->rt, got, at_c, batch * sizeof *got, NULL));
    assert_ok(pg__rt_sync(d->rt, NULL));
    for (size_t i = 0; i < batch; i++) {
        const float *of_b = shares ? b : b + K * i;
        const float want = a[K * i] * of_b[0] + a[K * i + 1] * of_b[1] + beta * c[i];
        if (got[i] != want)
            fail_msg("%zu of %zu: %g, not %g", i, batch, (double)got[i], (double)want);
    }
    pg__blas_free(p);
    pg__rt_free(d->rt, at_a);
    pg__rt_free(d->rt, at_b);
    pg__rt_free(d->rt, at_c);
    pg__rt_free(d->rt, scratch);
    pg__mem_free(a);
    pg__mem_free(b);
    pg__mem_free(c);
    pg__mem_free(got);
}

static void any_number_of_products_is_a_batch(void **state)
{
    static const size_t sizes[] = {1, 65535, 65536, 131070, 200001};
    const pg__backend *on = pg_backend_get(PG_BACKEND_ABI);
    (void)state;
    for (int deterministic = 0; deterministic < 2; deterministic++) {
        pg__dev *d = NULL;
        assert_ok(on->open(
            &d, 0, &(pg__dev_opts){.n_threads = 1, .deterministic = deterministic, .tune = 1},
            NULL));
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
            check(d, sizes[k], 0, 0);
            check(d, sizes[k], 0, 1);
            check(d, sizes[k], 1, 0);
        }
        on->close(d);
    }
}

static int several_ways(void **state)
{
    (void)state;
    return setenv("FAKE_CUDA_PLANS", "slow fast", 1);
}

PG_TEST_MAIN_WITH(several_ways, NULL, cmocka_unit_test(any_number_of_products_is_a_batch))

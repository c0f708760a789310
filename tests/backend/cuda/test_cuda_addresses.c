/* Libraries are given addresses as their tensors were described and as memory is handed out; the
 * GPU of plain C refuses others, as they would. */
#include "pg_test.h"

#include "backend/cuda/blas.h"
#include "backend/cuda/dnn.h"
#include "backend/cuda/dnn_attend.h"
#include "backend/cuda/dnn_rnn.h"
#include "backend/cuda/plugin.h"

#define BYTES 16384
#define N     12

static pg__dev *dev;
static char *at[N];

static int open_device(void **state)
{
    const pg__backend *b = pg_backend_get(PG_BACKEND_ABI);
    (void)state;
    assert_int_equal(setenv("FAKE_CUDA_RNN", "fast", 1), 0);
    assert_int_equal(setenv("FAKE_CUDA_ATTEND", "fast", 1), 0);
    assert_ok(b->open(&dev, 0, &(pg__dev_opts){.n_threads = 1}, NULL));
    for (size_t k = 0; k < N; k++) {
        void *p = NULL;
        assert_ok(pg__rt_alloc(dev->rt, &p, BYTES, NULL));
        at[k] = p;
    }
    return 0;
}

static int close_device(void **state)
{
    (void)state;
    for (size_t k = 0; k < N; k++)
        pg__rt_free(dev->rt, at[k]);
    pg_backend_get(PG_BACKEND_ABI)->close(dev);
    return 0;
}

/* Runs with all addresses as they are, then with each of n in turn moved by so many bytes. */
static void check(pg_status (*run)(const void *plan, char *const *p), const void *plan, size_t n,
                  const unsigned *by)
{
    char *p[N];
    memcpy(p, at, sizeof p);
    assert_ok(run(plan, p));
    for (size_t k = 0; k < n; k++) {
        p[k] += by[k];
        assert_int_equal(run(plan, p), PG_E_DEVICE);
        assert_non_null(strstr(dev->failure.msg, "not a multiple of"));
        dev->failure = (pg_err){0};
        p[k] = at[k];
    }
    assert_ok(pg__rt_sync(dev->rt, NULL));
}

static pg_status multiply(const void *plan, char *const *p)
{
    return pg__blas_run(dev, plan, p[0], p[1], p[2], p[3], p[4]);
}

static void products(void **state)
{
    const pg__blas_shape s = {.m = 4, .n = 4, .k = 4, .alpha = 1, .epilogue = PG_BLAS_BIAS};
    pg__blas_plan *plan = NULL;
    pg__needs needs = {0};
    (void)state;
    assert_ok(pg__blas_new(&plan, dev, &s, &needs, NULL));
    check(multiply, plan, 5, (const unsigned[]){8, 8, 8, 8, 128});
    pg__blas_free(plan);
}

static pg_status convolve(const void *plan, char *const *p)
{
    return pg__dnn_run(dev, plan, p[0], p[1], p[2], p[3], p[4]);
}

static void convolutions(void **state)
{
    static const uint64_t shape[] = {1, 2, 2, 4};
    const pg__dnn_conv c = {
        .conv = {.rank = 2, .kernel = {1, 1}, .stride = {1, 1}, .dilation = {1, 1}, .groups = 1},
        .x = pg__dims_of(4, shape),
        .y = pg__dims_of(4, shape),
        .bias = 1};
    pg__dnn_plan *plan = NULL;
    pg__needs needs = {0};
    (void)state;
    assert_ok(pg__dnn_new(&plan, dev, &c, &needs, NULL));
    check(convolve, plan, 5, (const unsigned[]){8, 8, 8, 8, 128});
    pg__dnn_free(plan);
}

static pg_status attend(const void *plan, char *const *p)
{
    const pg__dnn_attend_io io = {
        .q = p[0], .k = p[1], .v = p[2], .y = p[3], .stats = (float *)(void *)p[4], .work = p[5]};
    return pg__dnn_attend_run(dev, plan, &io);
}

static void attention(void **state)
{
    const pg__dnn_attend a = {.rows = 1,
                              .heads = 1,
                              .t = 8,
                              .s = 8,
                              .a = 8,
                              .b = 8,
                              .scale = 1,
                              .trains = 1,
                              .type = PGK_BF16};
    pg__dnn_attend_plan *plan = NULL;
    size_t work;
    (void)state;
    assert_ok(pg__dnn_attend_new(&plan, dev, &a, BYTES, &work, NULL));
    check(attend, plan, 6, (const unsigned[]){8, 8, 8, 8, 8, 128});
    pg__dnn_attend_free(plan);
}

static pg_status go(const void *plan, char *const *p)
{
    const pg__dnn_rnn_io io = {.weights = p[0],
                               .x = p[1],
                               .h0 = p[2],
                               .c0 = p[3],
                               .y = p[4],
                               .c = p[5],
                               .work = p[6],
                               .reserve = p[7]};
    return pg__dnn_rnn_forward(dev, plan, &io);
}

static void recurrent_layers(void **state)
{
    const pg__dnn_rnn r = {PG_DNN_LSTM, 2, 3, 4, 4, PGK_F32};
    pg__dnn_rnn_plan *plan = NULL;
    pg__dnn_rnn_layout l;
    (void)state;
    assert_ok(pg__dnn_rnn_new(&plan, dev, &r, 1, &l, NULL));
    check(go, plan, 8, (const unsigned[]){128, 8, 8, 8, 8, 8, 128, 128});
    pg__dnn_rnn_free(plan);
}

PG_TEST_MAIN_WITH(open_device, close_device, cmocka_unit_test(products),
                  cmocka_unit_test(convolutions), cmocka_unit_test(attention),
                  cmocka_unit_test(recurrent_layers))

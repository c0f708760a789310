/* Plans of cuDNN are not run by two threads at once, as they would be where replicas share a GPU.
 * What is called of cuDNN is here: it takes everything, and looks who comes. */
#include "pg_test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "backend/cuda/cudnn_graph.h"
#include "backend/cuda/dnn.h"

#define N_THREADS 4
#define N_RUNS    20

static atomic_int n_there, n_clashes, n_runs;

cudnnStatus_t cudnnCreate(cudnnHandle_t *h)
{
    *h = NULL;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t h)
{
    (void)h;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t h, cudaStream_t stream)
{
    (void)h, (void)stream;
    return CUDNN_STATUS_SUCCESS;
}

size_t cudnnGetVersion(void)
{
    return 91600;
}

const char *cudnnGetErrorString(cudnnStatus_t s)
{
    return s == CUDNN_STATUS_SUCCESS ? "no error" : "failure";
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t *d)
{
    static int something;
    (void)type;
    *d = &something;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t d)
{
    (void)d;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t n,
                                       const void *values)
{
    (void)d, (void)name, (void)type, (void)n, (void)values;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t d)
{
    (void)d;
    return CUDNN_STATUS_SUCCESS;
}

/* One engine without notes, whose plan needs no memory. */
cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t most, int64_t *n,
                                       void *values)
{
    (void)d, (void)type, (void)most;
    *n = name != CUDNN_ATTR_ENGINE_NUMERICAL_NOTE;
    if (name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE)
        *(int64_t *)values = 0;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t h, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t pack)
{
    (void)h, (void)plan, (void)pack;
    atomic_fetch_add(&n_clashes, atomic_fetch_add(&n_there, 1) > 0);
    usleep(500);
    atomic_fetch_sub(&n_there, 1);
    atomic_fetch_add(&n_runs, 1);
    return CUDNN_STATUS_SUCCESS;
}

/* ---- runs ---- */

/* A plan, and the queue of one of its users. */
typedef struct user {
    pg__dev d;
    const pg__dnn_plan *conv;
    const pg__dnn_attend_plan *attend;
    pthread_t thread;
} user;

static void *run(void *of)
{
    user *u = of;
    const pg__dnn_attend_io io = {NULL};
    for (size_t k = 0; k < N_RUNS; k++) {
        const pg_status st = u->conv ? pg__dnn_run(&u->d, u->conv, NULL, NULL, NULL, NULL, NULL)
                                     : pg__dnn_attend_run(&u->d, u->attend, &io);
        if (st != PG_OK)
            return u;
    }
    return NULL;
}

static void run_at_once(struct pg__dnn_lib *lib, const pg__dnn_plan *conv,
                        const pg__dnn_attend_plan *attend)
{
    user users[N_THREADS];
    atomic_store(&n_runs, 0);
    for (size_t k = 0; k < N_THREADS; k++) {
        users[k] = (user){.d = {.dnn = lib}, .conv = conv, .attend = attend};
        assert_int_equal(pthread_create(&users[k].thread, NULL, run, &users[k]), 0);
    }
    for (size_t k = 0; k < N_THREADS; k++) {
        void *failed;
        assert_int_equal(pthread_join(users[k].thread, &failed), 0);
        assert_null(failed);
    }
    assert_int_equal(atomic_load(&n_runs), N_THREADS * N_RUNS);
    assert_int_equal(atomic_load(&n_clashes), 0);
}

static void a_convolution_is_run_by_one_at_a_time(void **state)
{
    static const uint64_t shape[] = {4, 8, 8, 16};
    struct pg__dnn_lib lib = {NULL};
    pg__dev d = {.dnn = &lib, .opts = {.deterministic = 1}};
    const pg__dnn_conv c = {
        .conv = {.rank = 2, .kernel = {1, 1}, .stride = {1, 1}, .dilation = {1, 1}, .groups = 1},
        .x = pg__dims_of(4, shape),
        .y = pg__dims_of(4, shape)};
    pg__dnn_plan *p = NULL;
    pg__needs needs = {0};
    (void)state;
    assert_ok(pg__dnn_new(&p, &d, &c, &needs, NULL));
    run_at_once(&lib, p, NULL);
    pg__dnn_free(p);
}

static void attention_is_run_by_one_at_a_time(void **state)
{
    struct pg__dnn_lib lib = {NULL};
    pg__dev d = {.dnn = &lib};
    const pg__dnn_attend a = {
        .rows = 4, .heads = 2, .t = 16, .s = 16, .a = 8, .b = 8, .scale = 1, .type = PGK_BF16};
    pg__dnn_attend_plan *p = NULL;
    size_t work;
    (void)state;
    assert_ok(pg__dnn_attend_new(&p, &d, &a, 1 << 20, &work, NULL));
    run_at_once(&lib, NULL, p);
    pg__dnn_attend_free(p);
    pg__dnn_attends_fini(&lib);
}

PG_TEST_MAIN(cmocka_unit_test(a_convolution_is_run_by_one_at_a_time),
             cmocka_unit_test(attention_is_run_by_one_at_a_time))

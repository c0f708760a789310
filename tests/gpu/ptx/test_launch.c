/* Launches that CUDA refuses are refused here too (cudart.c): blocks and grids that are too large
 * or empty, kernels that are not known, shared memory that nobody asked leave for. */
#include "pg_test.h"

#include <cuda_runtime_api.h>

#include "backend/cuda/rt.h"
#include "engine.h"

void __cudaRegisterFunction(void **handle, const char *stub, char *name, const char *device_name,
                            int limit, void *tid, void *bid, void *block, void *grid, int *warp);

static int n_runs;

static ptx_stop nothing(ptx_thread *t)
{
    (void)t;
    n_runs++;
    return PTX_ENDED;
}

static char name[] = "_Z14nothing_kernelv";
static const ptx_kernel kernels[] = {
    {.name = name, .run = nothing, .register_bytes = 16, .max_threads = 256}, {.name = NULL}};
extern const ptx_module ptx_kernels;
const ptx_module ptx_kernels = {kernels};

static const char stub, other_stub;

typedef struct launch {
    dim3 grid, block;
    size_t shared;
    cudaError_t e;
} launch;

static void launches_keep_within_limits(void **state)
{
    static const launch all[] = {
        {{1, 1, 1}, {256, 1, 1}, 0, cudaSuccess},
        {{65536, 1, 1}, {1, 1, 1}, 0, cudaSuccess},
        {{1, 1, 1}, {257, 1, 1}, 0, cudaErrorInvalidConfiguration},
        {{1, 1, 1}, {16, 17, 1}, 0, cudaErrorInvalidConfiguration},
        {{1, 1, 1}, {1, 1, 65}, 0, cudaErrorInvalidConfiguration},
        {{1, 1, 1}, {0, 1, 1}, 0, cudaErrorInvalidConfiguration},
        {{0, 1, 1}, {1, 1, 1}, 0, cudaErrorInvalidConfiguration},
        {{1, 65536, 1}, {1, 1, 1}, 0, cudaErrorInvalidConfiguration},
        {{1, 1, 65536}, {1, 1, 1}, 0, cudaErrorInvalidConfiguration},
        {{0x80000000u, 1, 1}, {1, 1, 1}, 0, cudaErrorInvalidConfiguration},
        {{1, 1, 1}, {1, 1, 1}, 49153, cudaErrorInvalidValue},
        {{1, 1, 1}, {1, 1, 1}, 16, cudaErrorNotSupported}, /* no kernel of ours wants any */
    };
    struct cudaFuncAttributes a;
    pg__rt *rt = NULL;
    (void)state;
    __cudaRegisterFunction(NULL, &stub, name, name, 0, NULL, NULL, NULL, NULL, NULL);
    assert_ok(pg__rt_open(&rt, 0, NULL));
    const cudaStream_t s = (cudaStream_t)pg__rt_stream(rt);
    assert_int_equal(cudaFuncGetAttributes(&a, &stub), cudaSuccess);
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
        const launch *l = &all[k];
        if (cudaLaunchKernel(&stub, l->grid, l->block, NULL, l->shared, s) != l->e)
            fail_msg("launch %zu", k);
    }
    assert_int_equal(cudaFuncGetAttributes(&a, &other_stub), cudaErrorInvalidDeviceFunction);
    assert_int_equal(cudaLaunchKernel(&other_stub, all[0].grid, all[0].block, NULL, 0, s),
                     cudaErrorInvalidDeviceFunction);
    assert_ok(pg__rt_sync(rt, NULL));
    assert_int_equal(n_runs, 256 + 65536);
    pg__rt_close(rt);
}

PG_TEST_MAIN(cmocka_unit_test(launches_keep_within_limits))

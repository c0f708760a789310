/* kernels.cu - the kernels of kernels.def for the GPU. */
#include "backend/cuda/kernels.h"

/* More blocks than a GPU holds at once only cost time: threads continue with the next element
 * instead. */
static unsigned blocks_for(uint64_t n, uint64_t each)
{
    const uint64_t most = 1u << 16, blocks = (n + each - 1) / each;
    return (unsigned)(blocks < most ? blocks : most);
}

/* Returns this launch's error, not one that a library left for cudaGetLastError(). */
static int launch(const void *kernel, const void *args, uint64_t n, unsigned blocks, dim3 threads,
                  void *stream)
{
    void *all[] = {const_cast<void *>(args), &n};
    if (n == 0)
        return 0;
    const cudaError_t e =
        cudaLaunchKernel(kernel, dim3(blocks), threads, all, 0, (cudaStream_t)stream);
    if (e != cudaSuccess)
        (void)cudaGetLastError();
    return (int)e;
}

#define PGK_MAP(name)                                                                      \
    static __global__ void __launch_bounds__(PGK_T)                                        \
        name##_kernel(const __grid_constant__ pgk_##name a, uint64_t n)                    \
    {                                                                                      \
        const uint64_t all = (uint64_t)gridDim.x * PGK_T;                                  \
        for (uint64_t i = (uint64_t)blockIdx.x * PGK_T + threadIdx.x; i < n; i += all)     \
            pgk_##name##_at(&a, i);                                                        \
    }                                                                                      \
    int pgk_launch_##name(const void *args, uint64_t n, void *stream)                      \
    {                                                                                      \
        return launch((const void *)name##_kernel, args, n, blocks_for(n, PGK_T),          \
                      dim3(PGK_T), stream);                                                \
    }

/* blockDim.x threads to a row, blockDim.y rows to a block. */
#define PGK_ROW_KERNEL(name)                                                           \
    static __global__ void __launch_bounds__(PGK_T)                                    \
        name##_kernel(const __grid_constant__ pgk_##name a, uint64_t n)                \
    {                                                                                  \
        const uint64_t all = (uint64_t)gridDim.x * blockDim.y;                         \
        for (uint64_t r = (uint64_t)blockIdx.x * blockDim.y + threadIdx.y; r < n; r += all) \
            pgk_##name##_row(&a, r);                                                   \
    }                                                                                  \
    static int name##_by(const pgk_##name *a, uint64_t n, void *stream, unsigned team) \
    {                                                                                  \
        return launch((const void *)name##_kernel, a, n, blocks_for(n, PGK_T / team),  \
                      dim3(team, PGK_T / team), stream);                               \
    }

#define PGK_ROWS(name)                                                     \
    PGK_ROW_KERNEL(name)                                                   \
    int pgk_launch_##name(const void *args, uint64_t n, void *stream)      \
    {                                                                      \
        return name##_by((const pgk_##name *)args, n, stream, PGK_T);      \
    }

#define PGK_LINES(name)                                                              \
    PGK_ROW_KERNEL(name)                                                             \
    int pgk_launch_##name(const void *args, uint64_t n, void *stream)                \
    {                                                                                \
        const pgk_##name *a = (const pgk_##name *)args;                              \
        return name##_by(a, n, stream, pgk_team_for(a->n));                          \
    }

#include "backend/cuda/kernels.def"
#undef PGK_MAP
#undef PGK_ROWS
#undef PGK_LINES

/* Asking for a kernel loads its code, which the runtime would otherwise do at its first launch, and
 * then waits for all work of the device: perhaps for a sum whose other ranks never come. */
#define PGK_MAP(name) (const void *)name##_kernel,
#define PGK_ROWS(name) PGK_MAP(name)
#define PGK_LINES(name) PGK_MAP(name)

int pgk_usable(void)
{
    static const void *const all[] = {
#include "backend/cuda/kernels.def"
    };
    cudaFuncAttributes a;
    cudaError_t e = cudaSuccess;
    for (size_t k = 0; k < sizeof all / sizeof *all && e == cudaSuccess; k++)
        e = cudaFuncGetAttributes(&a, all[k]);
    return (int)e;
}

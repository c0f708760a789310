/* cudart.c - takes the launches of nvcc's objects, in place of NVIDIA's runtime: kernels are known
 * by the address of their stub on the host, and run from PTX when the stream comes to them. */
#include "backend/cuda/host_names.h"

#include "backend/cuda/host.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"

extern const ptx_module ptx_kernels; /* of kernels.cu */

/* What nvcc's objects call when they are loaded, which no header declares; and what stubs call that
 * nobody calls here. */
void **__cudaRegisterFatBinary(void *fat);
void __cudaRegisterFatBinaryEnd(void **handle);
void __cudaUnregisterFatBinary(void **handle);
void __cudaRegisterFunction(void **handle, const char *stub, char *name, const char *device_name,
                            int limit, void *tid, void *bid, void *block, void *grid, int *warp);
cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *stub);
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **args,
                               size_t shared, cudaStream_t stream);
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream);

#define MAX_KERNELS 1024
static struct {
    const void *stub;
    const ptx_kernel *kernel;
    char name[64];  /* in kernels.def */
    _Atomic long n; /* launches that were done */
    _Atomic int is_loaded;
} known[MAX_KERNELS];
static size_t n_known;

void **__cudaRegisterFatBinary(void *fat)
{
    static void *handle;
    (void)fat;
    return &handle;
}

void __cudaRegisterFatBinaryEnd(void **handle)
{
    (void)handle;
}

void __cudaUnregisterFatBinary(void **handle)
{
    (void)handle;
}

static _Noreturn void die(const char *what, const char *name)
{
    fprintf(stderr, "ptx: %s%s\n", what, name);
    abort();
}

/* Of "_Z10add_kernel7pgk_addm", "add". */
static void name_of(char name[64], const char *mangled)
{
    const size_t digits = strspn(mangled, "_ZL");
    char *at;
    const long n = strtol(mangled + digits, &at, 10) - (long)strlen("_kernel");
    (void)snprintf(name, 64, "%.*s", (int)(n > 0 ? n : 0), at);
}

void __cudaRegisterFunction(void **handle, const char *stub, char *name, const char *device_name,
                            int limit, void *tid, void *bid, void *block, void *grid, int *warp)
{
    (void)handle, (void)name, (void)limit, (void)tid, (void)bid, (void)block, (void)grid;
    (void)warp;
    const ptx_kernel *k = ptx_kernel_of(&ptx_kernels, device_name);
    if (!k || n_known == MAX_KERNELS)
        die("there is no PTX of ", device_name);
    known[n_known].stub = stub;
    known[n_known].kernel = k;
    name_of(known[n_known++].name, k->name);
}

cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *stub)
{
    (void)kernel, (void)stub;
    return cudaErrorNotSupported;
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **args,
                               size_t shared, cudaStream_t stream)
{
    (void)kernel, (void)grid, (void)block, (void)args, (void)shared, (void)stream;
    return cudaErrorNotSupported;
}

cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream)
{
    (void)grid, (void)block, (void)shared, (void)stream;
    return cudaErrorNotSupported;
}

/* Into the file that PTX_LOG names: how often each kernel ran. */
static void tell(void)
{
    const char *path = getenv("PTX_LOG");
    FILE *f = path ? fopen(path, "a") : NULL;
    for (size_t k = 0; f && k < n_known; k++)
        fprintf(f, "%s %ld\n", known[k].name, known[k].n);
    if (f)
        fclose(f);
}

static void on_memory(const void *device, void *host, size_t n)
{
    ptx_memory((uint64_t)(uintptr_t)device, host, n, 1);
}

__attribute__((constructor)) static void begin(void)
{
    pg__fake_on_memory = on_memory;
    (void)atexit(tell);
}

/* ---- launches ---- */

#define MOST_SHARED 49152u /* without cudaFuncSetAttribute(), which nobody calls */

typedef struct call {
    size_t which;
    uint32_t grid[3], block[3];
    _Alignas(16) unsigned char params[4096];
} call;

static void run(const void *args, uint64_t device)
{
    const call *c = args;
    char message[1024];
    known[c->which].n++;
    if (ptx_run(known[c->which].kernel, c->grid, c->block, c->params, (unsigned)device, message,
                sizeof message) != 0)
        die(message, "");
}

static size_t number_of(const void *stub)
{
    size_t k = 0;
    while (k < n_known && known[k].stub != stub)
        k++;
    return k;
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *a, const void *stub)
{
    const size_t k = number_of(stub);
    memset(a, 0, sizeof *a);
    if (k == n_known)
        return cudaErrorInvalidDeviceFunction;
    known[k].is_loaded = 1;
    return cudaSuccess;
}

cudaError_t cudaLaunchKernel(const void *stub, dim3 grid, dim3 block, void **args, size_t shared,
                             cudaStream_t stream)
{
    pg__rt *rt = (pg__rt *)(void *)stream;
    call c = {number_of(stub), {grid.x, grid.y, grid.z}, {block.x, block.y, block.z}, {0}};
    if (c.which == n_known)
        return cudaErrorInvalidDeviceFunction;
    if (!known[c.which].is_loaded)
        die("its first launch would wait for all work of the device: ", known[c.which].name);
    const ptx_kernel *k = known[c.which].kernel;
    const uint64_t threads = (uint64_t)block.x * block.y * block.z;
    if (threads == 0 || threads > k->max_threads || (uint64_t)grid.x * grid.y * grid.z == 0 ||
        grid.x > INT32_MAX || grid.y > UINT16_MAX || grid.z > UINT16_MAX || block.z > 64)
        return cudaErrorInvalidConfiguration;
    if (shared > MOST_SHARED)
        return cudaErrorInvalidValue;
    if (shared > 0 || k->param_bytes > sizeof c.params)
        return cudaErrorNotSupported;
    ptx_pack(k, args, c.params);
    return (cudaError_t)pg__fake_queue(stream, known[c.which].name, run, &c,
                                       offsetof(call, params) + k->param_bytes,
                                       pg__rt_ordinal(rt) + 1);
}

/* wrong.cu - kernels for test_ptx.c, each wrong in one way. What is reported must be of a line that
 * ends in the kernel's name. */
#define KERNEL(name, ...) extern "C" __global__ void __launch_bounds__(64) name(__VA_ARGS__)

KERNEL(race, float *y)
{
    __shared__ float s[64];
    const unsigned i = threadIdx.x;
    s[i] = (float)i;
    __syncthreads();
    s[i] = 2.0f * (float)i; /* race */
    y[i] = s[63 - i];       /* race */
}

KERNEL(race_of_blocks, float *y)
{
    y[threadIdx.x / 2] = (float)blockIdx.x; /* race_of_blocks */
}

KERNEL(race_with_atomic, unsigned *y)
{
    __shared__ unsigned n;
    if (threadIdx.x == 0)
        n = 0;         /* race_with_atomic */
    atomicAdd(&n, 1u); /* race_with_atomic */
    __syncthreads();
    y[threadIdx.x] = n;
}

/* A shuffle puts nothing in order. */
KERNEL(race_over_shuffle, float *y)
{
    __shared__ float s[64];
    const unsigned i = threadIdx.x;
    s[i] = 1;
    __syncthreads();
    s[i] = (float)i; /* race_over_shuffle */
    const float other = __shfl_xor_sync(0xffffffffu, (float)i, 1);
    y[i] = other + s[i ^ 1u]; /* race_over_shuffle */
}

KERNEL(missing_barrier, float *y)
{
    __shared__ float s[64];
    s[threadIdx.x] = y[threadIdx.x];
    if (threadIdx.x >= 32)
        return;
    __syncthreads(); /* missing_barrier */
    y[threadIdx.x] = s[threadIdx.x + 32];
}

KERNEL(divergent_shuffle, float *y)
{
    float v = y[threadIdx.x];
    if (threadIdx.x % 2)
        v = __shfl_sync(0xffffffffu, v, 1); /* divergent_shuffle */
    y[threadIdx.x] = v;
}

KERNEL(shuffle_of_others, float *y)
{
    float v = y[threadIdx.x];
    if (threadIdx.x % 2)
        v = __shfl_sync(0xaaaaaaaau, v, 0); /* shuffle_of_others */
    y[threadIdx.x] = v;
}

KERNEL(shuffle_without_oneself, float *y)
{
    y[threadIdx.x] = __shfl_xor_sync(0x7fffffffu, y[threadIdx.x], 1); /* shuffle_without_oneself */
}

KERNEL(divergent_vote, int *y)
{
    int v = 0;
    if (threadIdx.x < 7)
        v = __any_sync(0xffu, y[threadIdx.x]); /* divergent_vote */
    y[threadIdx.x] = v;
}

KERNEL(one_past_the_end, float *y)
{
    y[threadIdx.x + 1] = 1; /* one_past_the_end */
}

KERNEL(before_the_begin, float *y)
{
    if (threadIdx.x == 0 && blockIdx.x == 0)
        y[0] = y[-1]; /* before_the_begin */
}

KERNEL(beyond_shared, float *y)
{
    __shared__ float s[64];
    s[threadIdx.x] = 1;
    __syncthreads();
    y[threadIdx.x] = s[threadIdx.x + 1]; /* beyond_shared */
}

KERNEL(misaligned, float *y)
{
    *(float4 *)(y + 1) = make_float4(1, 2, 3, 4); /* misaligned */
}

KERNEL(unknown_shared, float *y)
{
    __shared__ float s[64];
    if (threadIdx.x != 5)
        s[threadIdx.x] = 1;
    __syncthreads();
    y[threadIdx.x] = s[threadIdx.x]; /* unknown_shared */
}

KERNEL(unknown_local, float *y)
{
    volatile float of[8];
    for (unsigned k = 0; k < 7; k++)
        of[k] = (float)k;
    y[threadIdx.x] = of[threadIdx.x % 8]; /* unknown_local */
}

KERNEL(unknown_memory, float *y)
{
    if (threadIdx.x < 63)
        y[threadIdx.x] = 1;
    y[threadIdx.x] += 1; /* unknown_memory */
}

KERNEL(host_memory, float *y)
{
    (void)y;
    *(volatile float *)4096 = 1; /* host_memory */
}

KERNEL(no_divisor, unsigned *y)
{
    y[threadIdx.x] = 7 / (threadIdx.x - 3); /* no_divisor */
}

/* The wrong line lies in a function of another line's. */
static __device__ __forceinline__ float deep(const float *x, unsigned i)
{
    return x[i]; /* called */
}

KERNEL(called, float *y)
{
    const float v = deep(y, threadIdx.x + 64);
    y[threadIdx.x] = v;
}

/* right.cu - kernels for test_ptx.c in which nothing is wrong. */
#define KERNEL(name, ...) extern "C" __global__ void __launch_bounds__(256) name(__VA_ARGS__)

/* By halves in shared memory, then by shuffles: one sum a block. */
KERNEL(sum, const float *x, float *y, unsigned n)
{
    __shared__ float s[256];
    const unsigned i = blockIdx.x * 256 + threadIdx.x;
    s[threadIdx.x] = i < n ? x[i] : 0;
    __syncthreads();
    for (unsigned half = 128; half >= 32; half /= 2) {
        if (threadIdx.x < half)
            s[threadIdx.x] += s[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x >= 32)
        return;
    float v = s[threadIdx.x];
    for (unsigned by = 16; by > 0; by /= 2)
        v += __shfl_down_sync(0xffffffffu, v, by);
    if (threadIdx.x == 0)
        y[blockIdx.x] = v;
}

KERNEL(histogram, const unsigned *x, unsigned *y, unsigned n)
{
    __shared__ unsigned counts[8];
    if (threadIdx.x < 8)
        counts[threadIdx.x] = 0;
    __syncthreads();
    for (unsigned i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256)
        atomicAdd(&counts[x[i] % 8], 1u);
    __syncthreads();
    if (threadIdx.x < 8)
        atomicAdd(&y[threadIdx.x], counts[threadIdx.x]);
}

/* Through shared memory that only a warp knows. */
KERNEL(turned, unsigned *y)
{
    __shared__ unsigned s[256];
    const unsigned first = threadIdx.x & ~31u, lane = threadIdx.x % 32;
    s[threadIdx.x] = lane;
    __syncwarp();
    const unsigned other = s[first + 31 - lane];
    __syncwarp();
    s[threadIdx.x] = other * other;
    __syncwarp();
    y[threadIdx.x] = s[first + (lane + 1) % 32];
}

KERNEL(votes, unsigned *y)
{
    const unsigned lane = threadIdx.x % 32;
    const unsigned ballot = __ballot_sync(0xffffffffu, lane % 3 == 0);
    const int any = __any_sync(0xffffffffu, lane == 7), all = __all_sync(0xffffffffu, lane < 31);
    y[threadIdx.x] = ballot ^ (unsigned)any << 1 ^ (unsigned)all;
}

/* Lane k takes part in its own group of eight only. */
KERNEL(groups, float *y)
{
    const unsigned lane = threadIdx.x % 32;
    float v = (float)threadIdx.x;
    for (int by = 4; by > 0; by /= 2)
        v += __shfl_xor_sync(0xffu << lane / 8 * 8, v, by, 8);
    const float up = __shfl_up_sync(0xffffffffu, v, 8), first = __shfl_sync(0xffffffffu, v, 0, 16);
    y[threadIdx.x] = v + 1000 * up + 1e6f * first;
}

/* Whatever the compiler does with tables, switches, local arrays and doubles. */
KERNEL(odds, const int *x, double *y)
{
    volatile int of[16];
    const int v = x[threadIdx.x];
    for (int k = 0; k < 16; k++)
        of[k] = k * v;
    double d;
    switch (v % 6) {
    case 0: d = 1.5 * v; break;
    case 1: d = sqrt((double)v); break;
    case 2: d = (double)(v / 3) - v % 5; break;
    case 3: d = (double)((long long)v * 1000003 / 17); break;
    case 4: d = (double)(float)v / 3; break;
    default: d = -v; break;
    }
    y[threadIdx.x] = d + of[v & 15];
}

KERNEL(exponentials, const float *x, float *y, unsigned n)
{
    for (unsigned i = threadIdx.x; i < n; i += blockDim.x)
        y[i] = expf(x[i]) + logf(1 + fabsf(x[i])) + tanhf(x[i]) + erff(x[i]) + cosf(100 * x[i]);
}

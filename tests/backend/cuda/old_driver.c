/* A driver of another age, as far as the CUDA runtime asks it: it stands in for libcuda.so.1. */
#pragma GCC visibility push(default)
int cuInit(unsigned flags);
int cuDriverGetVersion(int *version);
#pragma GCC visibility pop

int cuInit(unsigned flags)
{
    (void)flags;
    return 0;
}

int cuDriverGetVersion(int *version)
{
    *version = 11040;
    return 0;
}

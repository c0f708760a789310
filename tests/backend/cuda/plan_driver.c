/* A driver without a device that takes every kernel: it stands in for libcuda.so.1 where cuDNN is
 * only asked for plans, of which some are compiled and handed to the driver. */
#define NO_DEVICE 100

/* What cuDNN looks for and does not call before it runs something. */
#define MISSING(name)     \
    int name(void);       \
    int name(void)        \
    {                     \
        return NO_DEVICE; \
    }

static int some;

#pragma GCC visibility push(default)
MISSING(cuCtxGetCurrent)
MISSING(cuCtxGetLimit)
MISSING(cuCtxPopCurrent)
MISSING(cuCtxPushCurrent)
MISSING(cuDeviceGet)
MISSING(cuDeviceGetCount)
MISSING(cuGetErrorName)
MISSING(cuGetErrorString)
MISSING(cuInit)
MISSING(cuKernelGetAttribute)
MISSING(cuKernelSetAttribute)
MISSING(cuLaunchCooperativeKernel)
MISSING(cuLaunchKernel)
MISSING(cuLaunchKernelEx)
MISSING(cuLibraryLoadFromFile)
MISSING(cuLibraryUnload)
MISSING(cuLinkAddData)
MISSING(cuLinkComplete)
MISSING(cuLinkCreate)
MISSING(cuLinkDestroy)
MISSING(cuOccupancyMaxPotentialClusterSize)
MISSING(cuStreamGetCtx)
int cuDriverGetVersion(int *version);
int cuLibraryGetKernel(void **kernel);
int cuLibraryLoadData(void **library);

int cuDriverGetVersion(int *version)
{
    *version = 13000;
    return 0;
}

int cuLibraryGetKernel(void **kernel)
{
    *kernel = &some;
    return 0;
}

/* What else it is given does not matter. */
int cuLibraryLoadData(void **library)
{
    *library = &some;
    return 0;
}
#pragma GCC visibility pop

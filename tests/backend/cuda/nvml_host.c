/* nvml_host.c - a libnvidia-ml.so.1 as far as nvml.c asks it, of the GPUs of plain C (host.h): the
 * first works three quarters of its time, the second is a part of a GPU, of which that is not
 * known. */
#include <string.h>

#pragma GCC visibility push(default)

typedef struct memory {
    unsigned long long total, free, used;
} memory;
typedef struct utilization {
    unsigned gpu, memory;
} utilization;
enum { SUCCESS = 0, UNINITIALIZED = 1, NOT_SUPPORTED = 3, NOT_FOUND = 6 };

int nvmlInit_v2(void);
int nvmlShutdown(void);
int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **device);
int nvmlDeviceGetMemoryInfo(const int *device, memory *out);
int nvmlDeviceGetUtilizationRates(const int *device, utilization *out);

static int n_users, devices[2] = {0, 1};

int nvmlInit_v2(void)
{
    n_users++;
    return SUCCESS;
}

int nvmlShutdown(void)
{
    return n_users-- > 0 ? SUCCESS : UNINITIALIZED;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **device)
{
    const int k = strcmp(bus, "0000:10:00.0") == 0 ? 0 : strcmp(bus, "0000:11:00.0") == 0 ? 1 : 2;
    *device = k < 2 ? &devices[k] : NULL;
    return n_users <= 0 ? UNINITIALIZED : k < 2 ? SUCCESS : NOT_FOUND;
}

int nvmlDeviceGetMemoryInfo(const int *device, memory *out)
{
    const unsigned long long used = *device == 0 ? 4200000000u : 1000000000u;
    *out = (memory){16000000000u, 16000000000u - used, used};
    return n_users > 0 ? SUCCESS : UNINITIALIZED;
}

int nvmlDeviceGetUtilizationRates(const int *device, utilization *out)
{
    *out = (utilization){75, 20};
    return n_users <= 0 ? UNINITIALIZED : *device == 0 ? SUCCESS : NOT_SUPPORTED;
}

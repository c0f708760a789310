/* nvml.c - see nvml.h. Its few types are declared here as in the driver's nvml.h, because that
 * header comes with the CUDA Toolkit, and this file is built without it. */
#include "backend/cuda/nvml.h"

#include <dlfcn.h>

#include "base/mem.h"

typedef struct device *handle;
typedef struct memory {
    unsigned long long total, free, used;
} memory;
typedef struct utilization {
    unsigned gpu, memory; /* percent of the last second, or of a sixth of it */
} utilization;

#define FUNCTIONS(X)                                                             \
    X(init, "nvmlInit_v2", int (*)(void))                                        \
    X(shutdown, "nvmlShutdown", int (*)(void))                                   \
    X(find, "nvmlDeviceGetHandleByPciBusId_v2", int (*)(const char *, handle *)) \
    X(memory, "nvmlDeviceGetMemoryInfo", int (*)(handle, memory *))              \
    X(busy, "nvmlDeviceGetUtilizationRates", int (*)(handle, utilization *))

struct pg__nvml {
    void *lib;
    handle device;
    int is_open;
#define X(name, symbol, type) __typeof__((type)0) name;
    FUNCTIONS(X)
#undef X
};

static int find_functions(pg__nvml *m)
{
#define X(name, symbol, type)                           \
    *(void **)(void *)&m->name = dlsym(m->lib, symbol); \
    if (!m->name)                                       \
        return 0;
    FUNCTIONS(X)
#undef X
    return 1;
}

pg__nvml *pg__nvml_open(const char *bus)
{
    pg__nvml *m = pg__mem_array(1, sizeof *m);
    if (!m)
        return NULL;
    m->lib = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    m->is_open = m->lib && find_functions(m) && m->init() == 0;
    if (m->is_open && m->find(bus, &m->device) == 0)
        return m;
    pg__nvml_close(m);
    return NULL;
}

void pg__nvml_close(pg__nvml *m)
{
    if (!m)
        return;
    if (m->is_open)
        (void)m->shutdown(); /* it counts who opened it */
    if (m->lib)
        (void)dlclose(m->lib);
    pg__mem_free(m);
}

int pg__nvml_read(const pg__nvml *m, pg__gauge *out)
{
    memory all = {0};
    utilization busy = {0};
    if (m->memory(m->device, &all) != 0)
        return 0;
    *out = (pg__gauge){all.used, all.total, -1};
    if (m->busy(m->device, &busy) == 0) /* a part of a GPU has none */
        out->busy = (int)busy.gpu;
    return 1;
}

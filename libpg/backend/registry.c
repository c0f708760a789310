/* registry.c - finds the back end of a device by the device's name. */
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "backend/plugin.h"
#include "base/bsd.h"
#include "base/str.h"

static const pg__backend *const backends[] = {&pg__backend_cpu, &pg__backend_ref};
/* Of the plug-in's back end; the first is its own. */
static const char *const gpu_names[] = {"cuda", "gpu"};

const char *pg__gpu_name(void)
{
    return gpu_names[0];
}

int pg__begins_with_gpu(const char *devices)
{
    for (size_t i = 0; i < sizeof gpu_names / sizeof *gpu_names; i++)
        if (strncmp(devices, gpu_names[i], strlen(gpu_names[i])) == 0)
            return 1;
    return 0;
}

int pg__cuda_computes(pg__op_kind kind)
{
    switch (kind) {
#define PG_CUDA(name) case PG_OP_##name:
#include "backend/cuda/cuda_ops.def"
#undef PG_CUDA
        return 1;
    default: return 0;
    }
}

pg_status pg__backend_of(const pg__backend **out, size_t *ordinal, const char *device, pg_err *err)
{
    const char *colon = strchr(device, ':');
    const size_t len = colon ? (size_t)(colon - device) : strlen(device);
    char *end = NULL;
    const unsigned long number = colon ? strtoul(colon + 1, &end, 10) : 0;
    if (colon && (colon[1] < '0' || colon[1] > '9' || *end != '\0'))
        return pg_fail(err, PG_E_ARG, "\"%s\" is not a device: write cpu:0 or cuda:0",
                       PG_SHOW(device));
    for (size_t i = 0; i < sizeof backends / sizeof *backends; i++)
        if (strlen(backends[i]->name) == len && strncmp(device, backends[i]->name, len) == 0) {
            *out = backends[i];
            *ordinal = number;
            return PG_OK;
        }
    for (size_t i = 0; i < sizeof gpu_names / sizeof *gpu_names; i++)
        if (strlen(gpu_names[i]) == len && strncmp(device, gpu_names[i], len) == 0) {
            *ordinal = number;
            return pg__plugin_cuda(out, device, err);
        }
    (void)pg_fail(err, PG_E_ARG,
                  "\"%s\" is not a device: the devices are cpu, cuda and, for comparison, ref",
                  PG_SHOW(device));
    if (strcmp(device, "all") == 0)
        pg_err_hint(err, "auto: every GPU, or the CPU");
    else
        pg_err_hint(err, "%s",
                    strcasestr(device, "gpu") || strcasestr(device, "cuda") ? "cuda:0"
                                                                            : "cpu:0,cpu:1");
    return PG_E_ARG;
}

/* assign.c - finds the device of a call. */
#include "model/lower/assign.h"

#include <fnmatch.h>

void pg__assign_call(pg__assigned *p, const char *layer, uint32_t call, uint32_t *device)
{
    for (size_t i = 0; p && i < p->n; i++) {
        pg__assignment *one = &p->v[i];
        if ((one->call != PG_EVERY_CALL && one->call != call) || fnmatch(one->layer, layer, 0) != 0)
            continue;
        *device = one->device;
        one->used = 1;
    }
}

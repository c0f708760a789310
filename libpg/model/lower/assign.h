/* assign.h - model parallelism: assigns the calls of a model to devices. */
#ifndef PG_MODEL_LOWER_ASSIGN_H
#define PG_MODEL_LOWER_ASSIGN_H

#include <stddef.h>
#include <stdint.h>

#define PG_EVERY_CALL UINT32_MAX

/* "lstm#1=cpu:1": the second call of a layer; the layer's name may be a pattern. */
typedef struct pg__assignment {
    char *layer;
    uint32_t call;
    uint32_t device; /* number of the device among those that share the work */
    int used;        /* it matched a call */
} pg__assignment;

typedef struct pg__assigned {
    pg__assignment *v;
    size_t n;
    uint32_t n_devices;
} pg__assigned;

/* The last placement that names the call sets *device; otherwise it stays that of the model around
 * the layer. NULL places nothing. */
void pg__assign_call(pg__assigned *p, const char *layer, uint32_t call, uint32_t *device);

#endif

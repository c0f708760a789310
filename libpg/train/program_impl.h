/* program_impl.h - between program.c, which compiles, and program_run.c, which runs. */
#ifndef PG_TRAIN_PROGRAM_IMPL_H
#define PG_TRAIN_PROGRAM_IMPL_H

#include "train/program.h"

typedef enum pg__where {
    IN_ARENA,
    IN_INPUT,
    IN_TARGET,
    IN_WEIGHT,
    IN_PARAM,
    IN_GRAD,
    IN_SEED,
    IN_STATE,
    IN_STEP,
    NOWHERE /* nobody reads it */
} pg__where;

/* Where a value lies. */
typedef struct pg__home {
    pg__where place;
    uint64_t at; /* offset in the arena, or slot */
} pg__home;

typedef struct pg__step_call {
    pg__kernel *kernel; /* NULL: the lanes meet */
    int is_stats;
    uint32_t first; /* of its operands and results in `operands` */
    uint32_t n, n_in;
    uint32_t device;
    uint32_t *after; /* per device: so many of the program's calls must be done; NULL: none */
    int awaited;     /* another device waits for it */
    size_t shared, shared_bytes; /* what it shares, from the start of the program's */
    uint32_t origin;             /* leaf that it belongs to */
} pg__step_call;

struct pg__program {
    const pg__backend *backend;
    pg__dev *dev;
    pg__lowered model;
    pg__val *targets, *losses; /* per output; PG__NO_VAL without a loss */
    pg__val *masks;            /* per output, PG__NO_VAL without a mask */
    int masks_only;
    pg__home *homes; /* per value */
    pg__step_call *calls;
    size_t n_calls, n_meetings;
    size_t *settled;    /* per parameter: calls behind which its gradient is left alone */
    uint32_t n_devices; /* that share the work */
    uint32_t *after;    /* memory of the calls' */
    uint64_t meeting_elems;
    pg__val *operands;
    size_t max_args;
    uint64_t arena_bytes;
    size_t scratch_bytes, shared_bytes;
    void *shared; /* what kernels make of parameters, for all lanes */
};

#endif

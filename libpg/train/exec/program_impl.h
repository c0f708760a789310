/* program_impl.h - between program.c, which compiles, and program_run.c, which runs. */
#ifndef PG_TRAIN_EXEC_PROGRAM_IMPL_H
#define PG_TRAIN_EXEC_PROGRAM_IMPL_H

#include "ops/cost.h"
#include "train/exec/arena.h"
#include "train/exec/profile.h"
#include "train/exec/program.h"

typedef enum pg__where {
    PG_IN_ARENA,
    PG_IN_INPUT,
    PG_IN_TARGET,
    PG_IN_WEIGHT,
    PG_IN_PARAM,
    PG_IN_GRAD,
    PG_IN_SEED,
    PG_IN_STATE,
    PG_IN_STEP,
    PG_NOWHERE /* not read */
} pg__where;

/* Where a value lies. */
typedef struct pg__home {
    pg__where place;
    uint64_t at;   /* offset in the arena, or slot */
    uint64_t each; /* in the arena: bytes from one lane's value to the next one's */
} pg__home;

typedef struct pg__step_call {
    pg__kernel *kernel; /* NULL: the lanes meet */
    pg__kernel *lanes;  /* for all lanes at once; NULL: one by one */
    int gives_gradients;
    int is_stats;
    uint32_t first; /* index of its operands and results in `operands` */
    uint32_t n, n_in;
    uint32_t device;
    uint32_t
        *after;  /* per device: number of the program's calls that must be finished; NULL: none */
    int awaited; /* another device waits for it */
    size_t shared, shared_bytes; /* its prepared data, from the start of the program's */
    uint32_t origin;             /* its leaf */
    uint32_t kind;               /* pg__op_kind */
    int is_backward;
    pg__cost cost;
} pg__step_call;

typedef struct pg__mp_program pg__mp_program;

struct pg__program {
    const pg__backend *backend;
    pg__dev *dev;
    pg__mp_program *apart; /* program_model_parallel.c; NULL: the devices have one memory */
    pg__lowered model;
    pg__val *targets, *losses; /* per output; PG_NO_VAL without a loss */
    pg__val *masks;            /* per output, PG_NO_VAL without a mask */
    pg__val *logits;           /* per output, PG_NO_VAL if no metric starts from them */
    uint32_t *on_logits;       /* per output: 1 << kind of losses that do */
    int masks_only;
    pg__home *homes; /* per value */
    pg__step_call *calls;
    size_t n_calls, n_meetings, n_in_int8;
    size_t *settled;    /* per parameter: calls after which its gradient is final */
    uint32_t n_devices; /* devices that share the work */
    uint32_t *after;    /* memory of the calls' `after` */
    uint64_t meeting_elems;
    pg__val *operands;
    size_t max_args;
    uint64_t arena_bytes;
    size_t scratch_bytes, shared_bytes;
    void *shared;   /* what kernels prepare from parameters, for all lanes */
    size_t n_lanes; /* lanes run at once */
    pg__home *
        kept; /* per parameter, in the lanes' arena: gradients that are read again; or PG_NOWHERE */
    uint64_t lane_bytes; /* of the arena including them */
    uint64_t sum_bytes;  /* of a lane's other gradients of one call, which are summed at once */
};

/* Values to place, by device. */
typedef struct pg__spans {
    pg__span_of *v;
    pg__home **home; /* per span: where to store its place */
    uint32_t *device;
    size_t n;
} pg__spans;

/* The memory of a home; arena: that of its device. */
void *pg__home_at(const pg__frame *f, pg__home h, void *arena);

/* program_run.c: sets f->args to the arguments of a call. */
void pg__call_bind(const pg__program *p, const pg__frame *f, const pg__step_call *c);
pg_status pg__call_do(const pg__program *p, const pg__frame *f, const pg__step_call *c,
                      const pg__kernel *kernel, size_t n_lanes);

/* program_lanes.c: makes kernels for n lanes at once from calls prepared for one. */
pg_status pg__program_join_lanes(pg__program *p, size_t n, pg_err *err);

/* rewrite.c: before losses and gradients are added to the tape. */
pg_status pg__program_rewrite(pg__program *p, const pg__program_opts *opts, pg_err *err);

/* program_model_parallel.c, in the order of the calls: finds what crosses between devices, before
 * memory is planned; adds the copies that device d needs room for; sets the dev of a device; orders
 * the calls once they are known. */
pg_status pg__mp_program_new(pg__program *p, pg__dev *const *devs, pg_err *err);
void pg__mp_program_free(pg__program *p);
uint32_t pg__mp_program_home(const pg__program *p, pg__val v); /* the device that v lies on */
size_t pg__mp_program_n_copies(const pg__program *p);
pg__val pg__mp_program_copied(const pg__program *p, size_t k);
void pg__mp_program_add_spans(const pg__program *p, uint32_t device, pg__spans *spans);
pg__dev *pg__mp_program_dev(const pg__program *p, uint32_t device);
/* Adds what a call needs on its device. */
void pg__mp_program_add_needs(pg__program *p, uint32_t device, const pg__needs *needs,
                              size_t *shared);
void pg__mp_program_set_arena(pg__program *p, uint32_t device, uint64_t n_bytes);
pg_status pg__mp_program_order(pg__program *p, pg_err *err);

pg_status pg__mp_program_share(const pg__program *p, const pg__frame *f);
pg_status pg__mp_program_run(const pg__program *p, const pg__frame *f);
/* Where a run left v on a device. */
void *pg__mp_program_at(const pg__program *p, const pg__frame *f, pg__val v, uint32_t device);

/* program_losses.c: adds the losses of the outputs and, in training, their gradients. */
pg_status pg__program_add_losses(pg__program *p, const pg__program_opts *opts, pg_err *err);

#endif

/* backend.h - who executes operations: the interface of the CPU, of the reference, and of the
 * plug-in for CUDA.
 *
 * At compile time a back end is asked what it can do and prepares each instruction; at run time it
 * is handed pointers and neither allocates nor fails for reasons that could have been known before.
 * Layouts other than Keras' never leave a back end. */
#ifndef PG_BACKEND_BACKEND_H
#define PG_BACKEND_BACKEND_H

#include "ops/op.h"
#include "ops/optimiser.h"

#define PG_BACKEND_ABI 8u

typedef struct pg__dev pg__dev;       /* an open device */
typedef struct pg__kernel pg__kernel; /* a prepared instruction; may be run by several threads */
typedef struct pg__graph_run pg__graph_run; /* recorded calls of run() */
typedef struct pg__group pg__group;         /* devices that sum what they have */
typedef struct pg__event pg__event;         /* a place in a device's work */

/* Products of float32 numbers on a GPU. */
typedef enum pg__precision {
    PG__FLOAT32,
    PG__TF32 /* of what their first 10 bits after the point are */
} pg__precision;

typedef struct pg__dev_opts {
    int n_threads;     /* that a device may use inside an operation */
    int deterministic; /* equal runs give equal bits */
    int conv;        /* convolutions: 0 as fast as can be, 1 direct, 2 Winograd's where possible */
    int precision;   /* pg__precision; the CPU knows float32 */
    const char *isa; /* instruction set of the CPU's kernels (cpu/isa.h); NULL: the best there is */
} pg__dev_opts;

/* A variable or its gradient, where all of them are worked on at once. */
typedef struct pg__piece {
    void *p; /* NULL: left out */
    size_t n;
    double l1, l2; /* what regularizers add for it */
} pg__piece;

/* What a prepared instruction works with beside its operands and results. */
typedef struct pg__needs {
    size_t scratch_bytes; /* of one run, for that run alone */
    size_t shared_bytes;  /* made by share() from parameters; read by all runs until they change */
    double tol_f32;       /* 0: the operation's own bound; else that of the way that was chosen */
} pg__needs;

/* What a device is at. */
typedef struct pg__gauge {
    uint64_t used, total; /* bytes of its memory, by whoever uses it */
    int busy;             /* percent of the last second or less in which it worked; -1: not known */
} pg__gauge;

#define PG_GROUP_ID 128 /* bytes */
#define PG_BUS      20  /* characters of a place on the bus, with the end */

/* Waiting for other devices. */
typedef struct pg__patience {
    double seconds;
    int (*ends)(void *of); /* asked now and then, by any thread: will nobody come? NULL: they may */
    void *of;
} pg__patience;

/* A group's place among those of other processes, where all of them are one group. */
typedef struct pg__group_place {
    unsigned char id[PG_GROUP_ID]; /* group_id() of one of them */
    size_t first, n_all;           /* the rank of its first device; devices of all */
    pg__patience patience;         /* for the beginning, and for every sum to be begun */
} pg__group_place;

typedef struct pg__backend {
    uint32_t abi, size; /* compared before anything else is read */
    const char *name;   /* "cpu", "cuda", "ref": what stands before the colon in "cpu:0" */
    size_t real_bytes;  /* of one PG__REAL element: 4, or 8 in the reference */
    int host_memory;    /* the host reads and writes its memory directly */

    pg_status (*count)(size_t *n, pg_err *err);
    /* PG_E_ARG: no such device; PG_E_UNSUPPORTED: something is missing, named in the message. */
    pg_status (*open)(pg__dev **out, size_t ordinal, const pg__dev_opts *o, pg_err *err);
    /* Another queue of work on the same device, for a thread of its own; what is prepared for one
     * may be run on the other, and memory is the device's. NULL: threads share a pg__dev. */
    pg_status (*fork)(pg__dev **out, pg__dev *of, pg_err *err);
    void (*close)(pg__dev *d);
    pg_status (*memory)(pg__dev *d, uint64_t *free_bytes, uint64_t *total_bytes, pg_err *err);
    const char *(*kind)(pg__dev *d); /* what its last bits depend on: "avx512" */
    /* 0: nobody knows. NULL: the same. */
    int (*gauge)(pg__dev *d, pg__gauge *out);
    /* What the last call without a pg_err failed for, or NULL; this member may be NULL. */
    const pg_err *(*failure)(pg__dev *d);

    /* Is the instruction covered? If not, why[] says what is missing. */
    int (*supports)(pg__dev *d, const pg__tape *t, const pg__inst *i, char why[128]);
    pg_status (*prepare)(pg__kernel **out, pg__dev *d, const pg__tape *t, const pg__inst *i,
                         pg__needs *needs, pg_err *err);
    /* n runs of a kernel at once, for lanes (train/exec/lanes.h) whose memory lies one after the
     * other: it is run with that of the first. What it reads of parameters is the same for all,
     * shared memory is that of the one; the gradient of a parameter is the sum over the lanes in
     * the order of their tree. The same bits as n runs. n: a power of two. *out stays NULL: one by
     * one is as good. NULL: always. */
    pg_status (*prepare_lanes)(pg__kernel **out, pg__dev *d, const pg__kernel *one, size_t n,
                               size_t *scratch_bytes, pg_err *err);
    void (*release)(pg__kernel *k);
    /* args: as for run(), but only parameters are set. Called where needs.shared_bytes is not 0,
     * and again whenever parameters have changed. */
    pg_status (*share)(pg__dev *d, const pg__kernel *k, void *const *args, void *shared);
    /* args: memory of the operands, then of the results; NULL where an operand is absent or a
     * result is not wanted. scratch, shared: as prepare() asked. */
    pg_status (*run)(pg__dev *d, const pg__kernel *k, void *const *args, void *scratch,
                     const void *shared);

    pg_status (*alloc)(pg__dev *d, void **p, size_t n_bytes, pg_err *err); /* zeroed */
    void (*free)(pg__dev *d, void *p);
    pg_status (*put)(pg__dev *d, void *dst, const void *src, size_t n_bytes);  /* from the host */
    pg_status (*get)(pg__dev *d, void *dst, const void *src, size_t n_bytes);  /* to the host */
    pg_status (*copy)(pg__dev *d, void *dst, const void *src, size_t n_bytes); /* within it */
    /* From the memory of another device of the kind, whose calls that made it are done, or awaited.
     * NULL: there is one memory. */
    pg_status (*copy_from)(pg__dev *d, void *dst, pg__dev *of, const void *src, size_t n_bytes);
    /* Calls on a device are done in their order, but perhaps later: this waits for all of them, as
     * get() does. */
    pg_status (*sync)(pg__dev *d);
    /* get() that does not wait: what came may be read after sync(). NULL: get() is as good. */
    pg_status (*fetch)(pg__dev *d, void *dst, const void *src, size_t n_bytes);
    /* Order between devices of the kind, without the host: what e is set to on d is all that d was
     * given so far; another device's work from here on waits for that. NULL: calls are done when
     * they return. */
    pg_status (*event_new)(pg__event **out, pg__dev *d, pg_err *err);
    void (*event_free)(pg__event *e);
    pg_status (*mark)(pg__dev *d, pg__event *e);
    pg_status (*await)(pg__dev *d, const pg__event *e);
    /* Memory of the host that put() and fetch() are fastest with; what put() is given must not
     * change before sync(). NULL: any is. */
    pg_status (*host_alloc)(pg__dev *d, void **p, size_t n_bytes, pg_err *err); /* zeroed */
    void (*host_free)(pg__dev *d, void *p);
    /* Calls of run() between begin and end are recorded, not done; replay() does them on the same
     * memory. *out stays NULL where they cannot be; failure() says nothing of it. NULL: nothing is
     * recorded. */
    pg_status (*record_begin)(pg__dev *d);
    pg_status (*record_end)(pg__dev *d, pg__graph_run **out);
    pg_status (*replay)(pg__dev *d, pg__graph_run *g);
    void (*forget)(pg__graph_run *g);
    /* Devices that differ, each by its first queue: their order is that of their ranks. `among`: of
     * several processes, which all come here; NULL: of this one. NULL: a back end of one device. */
    pg_status (*group_new)(pg__group **out, pg__dev *const *devs, size_t n,
                           const pg__group_place *among, pg_err *err);
    void (*group_free)(pg__group *g);
    /* What processes find each other by, once; NULL: can there be groups here? PG_E_UNSUPPORTED:
     * no, with what is missing. */
    pg_status (*group_id)(unsigned char id[PG_GROUP_ID], pg_err *err);
    const char *(*bus)(
        pg__dev *d); /* "0000:3b:00.0": no two devices of a group on one; "": unknown */
    /* By a thread for each of them, all the same in the same order, `rank` counted from 0 in every
     * process: p[0 .. n), reals, becomes the sum over all, the same bits on each. Once what was
     * called on d so far is done, beside what is called from here on; nobody else touches p until d
     * has joined its sums. */
    pg_status (*group_sum)(pg__group *g, size_t rank, pg__dev *d, void *p, size_t n);
    pg_status (*group_join)(pg__group *g, size_t rank, pg__dev *d); /* calls from here on wait */
    /* Waits for the rank's sums; another that does not come is PG_E_DEVICE, or PG_E_PEER where it
     * may be another process'. Before any other wait for what joined them, which would have no
     * patience.
     */
    pg_status (*group_wait)(pg__group *g, size_t rank, const pg__patience *p, pg_err *err);
    /* No sum is waited for any more; there will be no others. */
    void (*group_drop)(pg__group *g);
    pg_status (*update)(pg__dev *d, pg__optimiser_kind kind, const pg__update *u, void *w,
                        const void *g, void *const *slots, size_t n);
    /* g += l1 sign(w) + 2 l2 w, where g is not NULL; adds l1 |w| + l2 w^2 to *penalty, where that
     * is wanted: on a GPU this waits. */
    pg_status (*regularise)(pg__dev *d, void *g, const void *w, size_t n, double l1, double l2,
                            double *penalty);
    pg_status (*squares)(pg__dev *d, const void *g, size_t n, double *sum); /* in a fixed order */
    /* g *= scale, then each within +-limit; 0: no limit. */
    pg_status (*clip)(pg__dev *d, void *g, size_t n, double scale, double limit);
    /* Both for n variables, and nobody waits: *sum, a double in the device's memory, becomes what
     * regularizers add to the loss; gradients are scaled by what their norms ask for, then kept
     * within +-limit. NULL: one variable after the other is as good. */
    pg_status (*penalty_of_all)(pg__dev *d, const pg__piece *w, size_t n, void *sum);
    pg_status (*clip_all)(pg__dev *d, const pg__piece *g, size_t n, const pg__norm_limits *l,
                          double limit);
    /* into[i] = keep into[i] + take from[i]: moving averages. A share of 0 is nothing, whatever it
     * is of: 0 inf would be no number for good. */
    pg_status (*blend)(pg__dev *d, void *into, double keep, const void *from, double take,
                       size_t n);
    /* into[i] += from[i]; the order of the sum is the caller's. */
    pg_status (*accumulate)(pg__dev *d, void *into, const void *from, size_t n);
} pg__backend;

/* "cpu:1", "cpu", "ref:0": back end and ordinal. PG_E_ARG: not a device's name; PG_E_UNSUPPORTED:
 * the back end is not there, with what to install. */
pg_status pg__backend_of(const pg__backend **out, size_t *ordinal, const char *device, pg_err *err);

/* Does the back end for NVIDIA's GPUs that belongs to this libpg have the operation? */
int pg__cuda_computes(pg__op_kind kind);

extern const pg__backend pg__backend_cpu, pg__backend_ref;

#endif

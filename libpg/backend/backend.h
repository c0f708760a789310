/* backend.h - the interface of what executes operations: of the CPU, of the reference, and of the
 * plug-in for CUDA.
 *
 * At compile time a back end is asked what it supports, and prepares each instruction. At run time
 * it gets pointers, and neither allocates nor fails for reasons that could have been known before.
 * Layouts other than Keras' never leave a back end. */
#ifndef PG_BACKEND_BACKEND_H
#define PG_BACKEND_BACKEND_H

#include "ops/op.h"
#include "ops/optimizer.h"

#define PG_BACKEND_ABI 13u

typedef struct pg__dev pg__dev;       /* an open device */
typedef struct pg__kernel pg__kernel; /* a prepared instruction; may be run by several threads */
typedef struct pg__graph_run pg__graph_run; /* recorded calls of run() */
typedef struct pg__group pg__group;         /* devices that sum their data */
typedef struct pg__event pg__event;         /* a point in a device's work */

/* Precision of products of float32 numbers on a GPU. */
typedef enum pg__precision {
    PG_FLOAT32,
    PG_TF32 /* only the first 10 bits after the point are used */
} pg__precision;

typedef struct pg__dev_opts {
    int n_threads;     /* that a device may use inside an operation */
    int deterministic; /* equal runs give equal bits */
    int tune;          /* GPUs: ways of doing the same work may be timed, and the fastest taken */
    int conv;          /* convolutions: 0 as fast as possible, 1 direct, 2 Winograd's if possible */
    int precision;     /* pg__precision; the CPU supports float32 */
    int warm;        /* prepare beside the caller's work what the first operations would wait for */
    const char *isa; /* instruction set of the CPU's kernels (cpu/isa.h); NULL: the best there is */
} pg__dev_opts;

/* A variable or its gradient, for functions that process all of them at once. */
typedef struct pg__piece {
    void *p; /* NULL: left out */
    size_t n;
    double l1, l2; /* added by regularizers for it */
} pg__piece;

/* Memory that a prepared instruction needs besides its operands and results. */
typedef struct pg__needs {
    size_t scratch_bytes; /* per run, not shared */
    size_t shared_bytes;  /* made by share() from parameters; all runs read it until those change */
    int in_int8;          /* parameters and operands are rounded to 8 bits (pg__tape.in_int8) */
    double tol_f32;       /* 0: the operation's own bound; else that of the chosen implementation */
} pg__needs;

/* The load of a device. */
typedef struct pg__gauge {
    uint64_t used, total; /* bytes of its memory in use, by any program */
    int busy;             /* percent of the last second or less in which it worked; -1: unknown */
} pg__gauge;

#define PG_GROUP_ID 128 /* bytes */
#define PG_BUS      20  /* characters of a place on the bus, with the end */

/* How to wait for other devices. */
typedef struct pg__timeout {
    double seconds;
    int (*ends)(void *of); /* called now and then, by any thread: should the wait end? NULL: no */
    void *of;
} pg__timeout;

/* A group's place among those of other processes, if all of them form one group. */
typedef struct pg__group_place {
    unsigned char id[PG_GROUP_ID]; /* group_id() of one of them */
    size_t first, n_all;           /* the rank of its first device; devices in all */
    pg__timeout timeout;           /* to begin, and to begin every sum */
} pg__group_place;

typedef struct pg__backend {
    uint32_t abi, size; /* compared before anything else is read */
    const char *name;   /* "cpu", "cuda", "ref": the part before the colon in "cpu:0" */
    size_t real_bytes;  /* of one PG_ELEM_REAL element: 4, or 8 in the reference */
    int host_memory;    /* the host can read and write its memory directly */

    pg_status (*count)(size_t *n, pg_err *err);
    /* PG_E_ARG: no such device; PG_E_UNSUPPORTED: the message names what is missing. */
    pg_status (*open)(pg__dev **out, size_t ordinal, const pg__dev_opts *o, pg_err *err);
    /* Another queue of work on the same device, for a thread of its own. A kernel prepared for one
     * queue may run on the other, and they share the device's memory. NULL: threads share a
     * pg__dev. */
    pg_status (*fork)(pg__dev **out, pg__dev *of, pg_err *err);
    void (*close)(pg__dev *d);
    pg_status (*memory)(pg__dev *d, uint64_t *free_bytes, uint64_t *total_bytes, pg_err *err);
    const char *(*kind)(pg__dev *d); /* what the last bits of results depend on: "avx512" */
    /* In the host's memory: are products faster where operands are rounded to bfloat16, as
     * PG_ELEM_AS_BF16? NULL: no. */
    int (*has_bf16)(pg__dev *d);
    /* In the host's memory: are products of 8 bits (pg__tape.in_int8) faster than those of float32?
     * -1: there are none. NULL: the same. */
    int (*has_int8)(pg__dev *d);
    /* 0: unknown. NULL: the same. */
    int (*gauge)(pg__dev *d, pg__gauge *out);
    /* The reason why the last call without a pg_err failed, or NULL; this member may be NULL. */
    const pg_err *(*failure)(pg__dev *d);

    /* Is the instruction supported? If not, why[] says what is missing. */
    int (*supports)(pg__dev *d, const pg__tape *t, const pg__inst *i, char why[128]);
    pg_status (*prepare)(pg__kernel **out, pg__dev *d, const pg__tape *t, const pg__inst *i,
                         pg__needs *needs, pg_err *err);
    /* n runs of a kernel at once, for lanes (train/exec/lanes.h) whose memory lies one after the
     * other; it runs with the memory of the first. Parameters are the same for all, and shared
     * memory is that of one run; the gradient of a parameter is the sum over the lanes in the order
     * of their tree. Gives the same bits as n runs. n: a power of two. *out stays NULL if running
     * them one by one is as good. NULL: always. */
    pg_status (*prepare_lanes)(pg__kernel **out, pg__dev *d, const pg__kernel *one, size_t n,
                               size_t *scratch_bytes, pg_err *err);
    void (*release)(pg__kernel *k);
    /* args: as for run(), but only parameters are set. Called if needs.shared_bytes is not 0, and
     * again whenever parameters have changed. */
    pg_status (*share)(pg__dev *d, const pg__kernel *k, void *const *args, void *shared);
    /* args: memory of the operands, then of the results; NULL if an operand is absent or a result
     * is not wanted. scratch, shared: as requested by prepare(). */
    pg_status (*run)(pg__dev *d, const pg__kernel *k, void *const *args, void *scratch,
                     const void *shared);

    pg_status (*alloc)(pg__dev *d, void **p, size_t n_bytes, pg_err *err); /* zeroed */
    void (*free)(pg__dev *d, void *p);
    pg_status (*put)(pg__dev *d, void *dst, const void *src, size_t n_bytes);  /* from the host */
    pg_status (*get)(pg__dev *d, void *dst, const void *src, size_t n_bytes);  /* to the host */
    pg_status (*copy)(pg__dev *d, void *dst, const void *src, size_t n_bytes); /* within the
                                                                                  device */
    /* Copies from the memory of another device of the same kind. The calls that wrote it must be
     * finished, or have been waited for. NULL: there is only one memory. */
    pg_status (*copy_from)(pg__dev *d, void *dst, pg__dev *of, const void *src, size_t n_bytes);
    /* Calls on a device are executed in order, but perhaps later: this waits for all of them, as
     * get() does. */
    pg_status (*sync)(pg__dev *d);
    /* As get(), but does not wait: the data may be read after sync(). NULL: get() is as good. */
    pg_status (*fetch)(pg__dev *d, void *dst, const void *src, size_t n_bytes);
    /* Orders work between devices of the kind, without the host: mark() sets e to all work given to
     * d so far; further work of another device then awaits e. NULL: calls are finished when they
     * return. */
    struct {
        pg_status (*new)(pg__event **out, pg__dev *d, pg_err *err);
        void (*free)(pg__event *e);
        pg_status (*mark)(pg__dev *d, pg__event *e);
        pg_status (*await)(pg__dev *d, const pg__event *e);
    } event;
    /* Host memory with which put() and fetch() are fastest; memory passed to put() must not change
     * before sync(). NULL: any memory is as fast. */
    pg_status (*host_alloc)(pg__dev *d, void **p, size_t n_bytes, pg_err *err); /* zeroed */
    void (*host_free)(pg__dev *d, void *p);
    /* Graph capture: calls of run() between begin and end are recorded, not executed; replay()
     * executes them on the same memory. *out stays NULL if that is not possible, and failure() does
     * not report it. NULL: no capture here. */
    struct {
        pg_status (*begin)(pg__dev *d);
        pg_status (*end)(pg__dev *d, pg__graph_run **out);
        pg_status (*replay)(pg__dev *d, pg__graph_run *g);
        void (*forget)(pg__graph_run *g);
    } capture;
    const char *(*bus)(pg__dev *d); /* "0000:3b:00.0": no two devices of a group may share one; "":
                                       unknown */
    /* All-reduce over different devices. */
    struct {
        /* A group of devices, each with its first queue, ranked in this order. `among`: a group
         * over several processes, which all call this; NULL: over this process. NULL member: a back
         * end of one device. */
        pg_status (*new)(pg__group **out, pg__dev *const *devs, size_t n,
                         const pg__group_place *among, pg_err *err);
        void (*free)(pg__group *g);
        /* An identifier by which processes find each other, once; with NULL: are groups supported
         * here? PG_E_UNSUPPORTED: no, and what is missing. */
        pg_status (*id)(unsigned char id[PG_GROUP_ID], pg_err *err);
        /* Called by one thread for each device, all with the same calls in the same order; `rank`
         * counts from 0 in every process. p[0 .. n), reals, becomes the sum over all, the same bits
         * on each. It starts when all previous calls on d are done, and runs beside later ones;
         * nobody else may touch p until d has joined its sums. */
        pg_status (*sum)(pg__group *g, size_t rank, pg__dev *d, void *p, size_t n);
        pg_status (*join)(pg__group *g, size_t rank,
                          pg__dev *d); /* later calls wait for the sums */
        /* Waits for the rank's sums. If another one does not arrive: PG_E_DEVICE, or PG_E_PEER if
         * it may belong to another process. To be called before any other wait for work that joined
         * the sums, because that would have no timeout. */
        pg_status (*wait)(pg__group *g, size_t rank, const pg__timeout *p, pg_err *err);
        void (*drop)(pg__group *g); /* abandons all sums; there will be no others */
    } group;
    /* On whole buffers, element by element: parameters, gradients, slots. */
    struct {
        pg_status (*update)(pg__dev *d, pg__optimizer_kind kind, const pg__update *u, void *w,
                            const void *g, void *const *slots, size_t n);
        /* g += l1 sign(w) + 2 l2 w, if g is not NULL; adds l1 |w| + l2 w^2 to *penalty, if that is
         * wanted, which on a GPU waits. */
        pg_status (*regularise)(pg__dev *d, void *g, const void *w, size_t n, double l1, double l2,
                                double *penalty);
        pg_status (*squares)(pg__dev *d, const void *g, size_t n,
                             double *sum); /* in a fixed order */
        /* g *= scale, then each number is limited to +-limit; 0: no limit. */
        pg_status (*clip)(pg__dev *d, void *g, size_t n, double scale, double limit);
        /* Both for n variables, without waiting: *sum, a double in the device's memory, becomes
         * what regularizers add to the loss; gradients are scaled as their norms require, then
         * limited to
         * +-limit. NULL: processing one variable after the other is as good. */
        pg_status (*penalty_of_all)(pg__dev *d, const pg__piece *w, size_t n, void *sum);
        pg_status (*clip_all)(pg__dev *d, const pg__piece *g, size_t n, const pg__norm_limits *l,
                              double limit);
        /* into[i] = keep into[i] + take from[i]: moving averages. A share of 0 contributes 0, even
         * of infinity: 0 inf would make the average NaN for ever. */
        pg_status (*blend)(pg__dev *d, void *into, double keep, const void *from, double take,
                           size_t n);
        /* into[i] += from[i]; the caller determines the order of the sum. */
        pg_status (*accumulate)(pg__dev *d, void *into, const void *from, size_t n);
    } flat;
} pg__backend;

/* "cpu:1", "cpu", "ref:0": back end and ordinal. PG_E_ARG: not a device's name; PG_E_UNSUPPORTED:
 * the back end is missing; the message says what to install. */
pg_status pg__backend_of(const pg__backend **out, size_t *ordinal, const char *device, pg_err *err);

/* The name of the back end that a plug-in has for GPUs: their devices are NAME:0, NAME:1, ... */
const char *pg__gpu_name(void);
/* Does a device or a list of devices begin with a GPU, under that name or another one? */
int pg__begins_with_gpu(const char *devices);

/* Does this libpg's back end for NVIDIA GPUs support the operation? */
int pg__cuda_computes(pg__op_kind kind);

extern const pg__backend pg__backend_cpu, pg__backend_ref;

#endif

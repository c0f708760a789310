/* cuda.h - the back end for NVIDIA GPUs, for its own files.
 *
 * Our own part (kernels, the order of work, memory) uses six small headers and needs neither a GPU
 * nor the CUDA Toolkit: rt.h (devices, streams, memory, recorded steps), blas.h (matrix products),
 * dnn.h (convolutions), dnn_rnn.h (recurrent layers), dnn_attend.h (attention), coll.h (sums over
 * devices). Each has two implementations: one over NVIDIA's library (rt_cuda.c, blas_lt.c,
 * dnn_cudnn.c, rnn_cudnn.c, attend_cudnn.c, coll_nccl.c), which make pg-cuda.so, and one in plain C
 * (host_*.c), which the tests run everywhere. */
#ifndef PG_BACKEND_CUDA_H
#define PG_BACKEND_CUDA_H

#include "backend/backend.h"
#include "backend/cuda/kernels.h"
#include "backend/cuda/pick.h"
#include "backend/cuda/rt.h"

typedef struct pg__flat pg__flat; /* flat.h */

/* One stream of work on one GPU: each worker of a trainer opens its own. */
struct pg__dev {
    pg__rt *rt;
    struct pg__blas_lib *blas; /* the libraries behind blas.h and dnn.h */
    struct pg__dnn_lib *dnn;
    pg__flat *flat;
    pg__picks picks;       /* of the libraries' ways */
    struct pg__nvml *nvml; /* NULL: not opened, or not there */
    int nvml_asked;
    pg__dev_opts opts;
    char kind[64]; /* "NVIDIA H100 80GB HBM3, sm_90" */
    pg_err failure, before_recording;
};

/* May trials decide how work is done? Not if equal runs must give equal bits. */
static inline int pg__cuda_tries(const pg__dev *d)
{
    return d->opts.tune && !d->opts.deterministic;
}

/* An instruction as it is prepared. */
typedef struct pg__cuda_inst {
    pg__dev *dev;
    const pg__tape *tape;
    const pg__inst *inst;
    const void *attrs;
    const pg__dims *shapes; /* of operands, then results; rank 0 where one is absent */
} pg__cuda_inst;

/* The implementation of an operation, one line of cuda_ops.def. Nothing here waits for the GPU:
 * run() and share() only queue work on the device's stream. Pointers are the GPU's memory, args the
 * host's. */
typedef struct pg__cuda_op {
    /* *state: new memory, owned by the kernel. PG_E_UNSUPPORTED: this instruction is not supported;
     * the message says why. */
    pg_status (*prepare)(void **state, const pg__cuda_inst *i, pg__needs *needs, pg_err *err);
    void (*release)(void *state); /* NULL: pg__mem_free() */
    pg_status (*share)(pg__dev *d, const void *state, void *const *args,
                       void *shared); /* or NULL */
    pg_status (*run)(pg__dev *d, const void *state, void *const *args, void *scratch,
                     const void *shared);
} pg__cuda_op;

/* Shapes of an instruction's operands, then results; the caller's. */
pg_status pg__cuda_shapes(pg__dims **out, const pg__tape *t, const pg__inst *i, pg_err *err);

/* The implementation of an operation, or NULL. */
const pg__cuda_op *pg__cuda_op_of(const pg__op *op);

/* For operand or result k: the type of its memory (p stays NULL); its elements, and those of its
 * last axis; rows of the last axis; whether it is given. */
pgk_real pg__cuda_real(const pg__cuda_inst *i, size_t k);
uint64_t pg__cuda_n(const pg__cuda_inst *i, size_t k);
uint64_t pg__cuda_last(const pg__cuda_inst *i, size_t k);
uint64_t pg__cuda_rows(const pg__cuda_inst *i, size_t k);
int pg__cuda_has(const pg__cuda_inst *i, size_t k);

/* Is it a parameter, so that share() may use it? */
int pg__cuda_is_param(const pg__cuda_inst *i, size_t k);

/* Reserves n bytes of scratch after all that are reserved so far; returns where they begin. */
size_t pg__cuda_reserve(pg__needs *needs, size_t n);

/* An operand's address as a pgk_real: kernels do not write to it. */
static inline void *pg__cuda_const(const void *p)
{
    union {
        const void *in;
        void *out;
    } u = {.in = p};
    return u.out;
}

/* The status of a launch; the message is the device's failure. */
pg_status pg__cuda_launched(pg__dev *d, int code, const char *what);

/* Launches a kernel of kernels.def; args: its pgk_name. */
#define PG_LAUNCH(d, name, args, n) \
    pg__cuda_launched(d, pgk_launch_##name(args, n, pg__rt_stream((d)->rt)), #name)

/* An operation that is one kernel: its arguments begin with a pgk_real for each operand and each
 * result, which need not be filled; n: elements or rows. */
typedef int (*pg__cuda_launch_fn)(const void *args, uint64_t n, void *stream);
pg_status pg__cuda_one(void **state, const pg__cuda_inst *i, const char *name,
                       pg__cuda_launch_fn launch, const void *args, size_t n_bytes, uint64_t n,
                       pg_err *err);
pg_status pg__cuda_run_one(pg__dev *d, const void *state, void *const *args, void *scratch,
                           const void *shared);
#define PG_ONE(name, args, n) \
    pg__cuda_one(state, i, #name, pgk_launch_##name, args, sizeof *(args), n, err)
#define PG_CUDA_ONE(fn)                        \
    {                                          \
        .prepare = fn, .run = pg__cuda_run_one \
    }
#define PG_CUDA_PREPARE(fn) \
    static pg_status fn(void **state, const pg__cuda_inst *i, pg__needs *needs, pg_err *err)

#endif

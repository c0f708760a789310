/* cpu.h - operations that the CPU computes faster than the plain C references.
 *
 * There are two ways: the reference built for better instructions (isa.h), or a kernel of its own,
 * which is prepared once for an instruction's shapes. A kernel runs on one thread, gives equal bits
 * for equal operands, and does not allocate; it works in scratch memory. Data that depends on
 * parameters alone (kernels of a convolution in another order, transformed, ...) is made by
 * share(), once for all lanes and only when parameters have changed. */
#ifndef PG_BACKEND_CPU_H
#define PG_BACKEND_CPU_H

#include "backend/backend.h"
#include "backend/cpu/isa.h"

/* An instruction as a kernel is prepared for it. */
typedef struct pg__cpu_inst {
    const pg__tape *tape;
    const pg__inst *inst;
    const void *attrs;
    const pg__dims *shapes; /* of operands, then results; rank 0 if one is absent */
    const pg__dev_opts *opts;
    pg__isa isa; /* threads that kernels may use */
} pg__cpu_inst;

typedef struct pg__cpu_kernel {
    /* *state stays NULL if the kernel does not support this instruction, or would not be faster. */
    pg_status (*prepare)(void **state, const pg__cpu_inst *i, pg__needs *needs, pg_err *err);
    void (*release)(void *state);
    void (*share)(const void *state, void *const *args, void *shared); /* NULL: shares nothing */
    void (*run)(const void *state, void *const *args, void *scratch, const void *shared);
    /* As in backend.h, with the state for one lane. NULL: lanes run one by one. */
    pg_status (*prepare_lanes)(void **state, const void *one, size_t n, size_t *scratch_bytes,
                               pg_err *err);
} pg__cpu_kernel;

/* Is operand k given? Is it a parameter, in any shape, so that share() may use it? */
int pg__cpu_has(const pg__cpu_inst *i, size_t k);
int pg__cpu_is_param(const pg__cpu_inst *i, size_t k);

/* What the first two operands hold, or are to be made into: numbers of bfloat16 only if both do,
 * int8 only if the second one is a parameter. */
pg__numbers pg__cpu_numbers(const pg__cpu_inst *i);

/* The kernel for an operation, or NULL. */
const pg__cpu_kernel *pg__cpu_kernel_of(const pg__op *op);

/* The function for an operation that has no kernel. */
pg__ref_fn pg__cpu_fn(const pg__op *op, pg__isa isa);

#endif

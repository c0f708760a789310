/* kernel_copy.h - the kernel of a layer in the order and the type that a library needs: made once
 * for all runs if it is a parameter, else in every run. */
#ifndef PG_BACKEND_KERNEL_COPY_H
#define PG_BACKEND_KERNEL_COPY_H

#include "backend/cuda/cuda.h"

typedef struct pg__kernel_copy {
    size_t operand; /* which is copied */
    int is_copied;  /* else it is taken as it is */
    int is_shared, is_turned;
    uint64_t rows, cols; /* in memory */
    pgk_type from, to;
    size_t at; /* in what is shared, else in scratch */
} pg__kernel_copy;

/* Operand k is rows x cols; turned: cols x rows are wanted. After the last plan. */
pg__kernel_copy pg__kernel_copy_new(const pg__cuda_inst *i, size_t k, uint64_t rows, uint64_t cols,
                                    int turned, pgk_type to, pg__needs *needs);
pg_status pg__kernel_copy_share(pg__dev *d, const pg__kernel_copy *c, void *const *args,
                                void *shared);
/* *out: where a run finds it. */
pg_status pg__kernel_copy_run(pg__dev *d, const pg__kernel_copy *c, void *const *args,
                              void *scratch, const void *shared, const void **out);

/* Bytes of n numbers. */
static inline size_t pgk_bytes(pgk_type type, uint64_t n)
{
    return (size_t)n * (type == PGK_F32 ? 4 : 2);
}

#endif

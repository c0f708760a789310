/* pointwise.h - matrix products of long, narrow operands, as convolutions of one cell and dense
 * layers have them: kernels that are compiled for each instruction set.
 *
 * The operand with many rows is read in place, once and in order; it comes from memory rather than
 * from a cache, so the data of the next steps is prefetched while the registers are busy. */
#ifndef PG_BACKEND_CPU_POINTWISE_H
#define PG_BACKEND_CPU_POINTWISE_H

#include "backend/cpu/isa.h"
#include "backend/cpu/range.h"

typedef struct pg__pointwise {
    /* Made by pack() from w[k x n], with rows of ld; turned: from w[n x k] in memory. */
    size_t (*packed_floats)(size_t k, size_t n);
    void (*pack)(size_t k, size_t n, const float *w, size_t ld, int turned, float *packed);
    /* c[m x n] = a[m x k] w (+ bias, + plus[m x n], if they are not NULL), within a range. A row's
     * result depends neither on the others nor on their number. plus is not c. */
    void (*multiply)(size_t m, size_t n, size_t k, const float *a, const float *packed,
                     const float *bias, const float *plus, pg__range range, float *c);
    /* c = a w, or c += a w, of few rows that are in a cache: those of a are lda apart, of c ldc. A
     * row's result depends neither on the others nor on their number. NULL for bfloat16. */
    void (*multiply_near)(size_t m, size_t n, size_t k, const float *a, size_t lda,
                          const float *packed, int add, float *c, size_t ldc);
    /* c[k x n] = a' b of a[m x k] and b[m x n], in an order that depends on m; sums[n] += the rows
     * of b, one after the other, unless it is NULL; scratch holds scratch_floats. */
    size_t (*scratch_floats)(size_t m, size_t n, size_t k);
    void (*gradient)(size_t m, size_t n, size_t k, const float *a, const float *b, float *c,
                     float *sums, float *scratch);
    /* c = a' b or c += a' b, where rows of b are ldb apart, of c ldc. NULL for bfloat16. */
    void (*gradient_part)(size_t m, size_t n, size_t k, const float *a, const float *b, size_t ldb,
                          int add, float *c, size_t ldc, float *scratch);
} pg__pointwise;

const pg__pointwise *pg__pointwise_of(pg__isa isa);

/* For operands that hold numbers of bfloat16; NULL: this processor, or this build, has no
 * instructions for them. */
const pg__pointwise *pg__pointwise_bf16_of(pg__isa isa);

#endif

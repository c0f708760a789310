/* wino.h - Winograd's convolution F(4x4, 3x3): kernels that are compiled for each instruction set.
 *
 * A tile of 4x4 results comes from 6x6 cells of the operand. Operand and kernel are transformed to
 * 36 numbers for each tile and channel, and the convolution becomes 36 matrix products over
 * channels: a quarter of the multiplications. Lavin and Gray, "Fast Algorithms for Convolutional
 * Neural Networks" (2015). */
#ifndef PG_BACKEND_CPU_WINO_H
#define PG_BACKEND_CPU_WINO_H

#include <stddef.h>

#include "backend/cpu/range.h"

#define PG_WINO_CELLS  36 /* numbers of a transformed tile, each in a plane of its own */
#define PG_WINO_LEVELS 8  /* of the tree in which lanes are summed: up to 128 */
#define PG_WINO_GAP    16 /* floats between planes, or all would use the same cache lines */

/* From an operand (rows, h, w, in) to a result (rows, out_h, out_w, out). For the gradient of the
 * kernel the latter is given too. */
typedef struct pg__wino {
    size_t rows, in, out;
    size_t h, w, out_h, out_w;
    size_t before_h, before_w;  /* zeros in front of the operand, 0 to 2 */
    int rotated;                /* the kernel is applied rotated, its channels exchanged */
    size_t tiles_h, tiles_w;    /* of one row */
    size_t tiles, block;        /* of all rows; that are transformed at a time */
    size_t ld_in, ld_out;       /* floats from tile to tile within a plane */
    size_t plane_in, plane_out; /* from plane to plane */
    size_t group;               /* panels of a large kernel that are transformed at a time, in
                                   scratch; 0: all are packed beforehand */
    size_t block_in, block_out; /* gradient of the kernel: channels that are multiplied at a time */
    pg__range range;            /* of the result */
    size_t lanes;               /* gradients of this many times `rows` rows are summed */
} pg__wino;

typedef struct pg__wino_kernels {
    size_t vec;       /* floats in a vector */
    size_t mr, panel; /* a product's inner block: mr tiles (or channels) by `panel` channels */
    /* packed: planes of panels of (in, panel), with gaps */
    void (*pack)(const pg__wino *p, const float *w, float *packed);
    /* kernel: packed, or with p->group as it is; bias may be NULL, and so may plus, which is
     * added to the result; scratch: planes of the operand,
     * then of the result, then with p->group of that many panels */
    void (*convolve)(const pg__wino *p, const float *operand, const float *kernel,
                     const float *bias, const float *plus, float *result, float *scratch);
    /* dw or db may be NULL; scratch: planes of both operands, then of the products: block_in x
     * block_out, or in x out where there is more than one block of tiles */
    void (*gradient)(const pg__wino *p, const float *x, const float *dy, float *dw, float *db,
                     float *scratch);
    /* Of p->lanes lanes, each of one block, whose operands lie one after the other: the sum in the
     * order of their tree. Scratch: planes of each, then block_in x block_out (a panel) products,
     * the same of PG_WINO_LEVELS gradients, `out` sums for each. */
    void (*gradient_lanes)(const pg__wino *p, const float *x, const float *dy, float *dw, float *db,
                           float *scratch);
} pg__wino_kernels;

#endif

/* conv_kernels.h - kernels of convolutions other than Winograd's, compiled for each instruction
 * set. */
#ifndef PG_BACKEND_CPU_CONV_KERNELS_H
#define PG_BACKEND_CPU_CONV_KERNELS_H

#include <stddef.h>

#include "backend/cpu/range.h"

/* A kernel cell and the cell of an operand that it meets. */
typedef struct pg__tap {
    size_t k, cell;
} pg__tap;

/* Along one axis, for each cell of the result, the taps that meet the operand: taps[first[i] ..
 * first[i + 1]). */
typedef struct pg__taps {
    size_t n;
    const size_t *first;
    const pg__tap *taps;
} pg__taps;

/* A convolution that does not mix channels, over three axes: rows and channels; sizes of result and
 * operand in cells; sizes of the kernel. */
typedef struct pg__depthwise {
    size_t rows, channels;
    size_t of[3], from[3], k[3];
    pg__taps axis[3];
    int back;              /* the gradient of an operand: `from` is the result's */
    size_t stride, before; /* of the convolution, along the last axis */
    pg__range range;       /* of the result: only if it is computed line by line */
} pg__depthwise;

typedef struct pg__depthwise_lines pg__depthwise_lines; /* depthwise_kernels.h */

typedef struct pg__conv_kernels {
    /* scratch that the next two functions need */
    size_t (*depthwise_bytes)(const pg__depthwise *d, int dw);
    /* to = operand * w (+ bias, if it is not NULL), by the taps of each cell of `to` */
    void (*depthwise)(const pg__depthwise *d, const float *from, const float *w, const float *bias,
                      float *to, void *scratch);
    /* dw from the operand and the gradient of the result */
    void (*depthwise_dw)(const pg__depthwise *d, const float *from, const float *dy, float *dw,
                         void *scratch);
    /* sums[n] of the rows of v[m x n], in an order that depends on m alone */
    void (*column_sums)(const float *v, size_t m, size_t n, float *sums);
    const pg__depthwise_lines *lines;
} pg__conv_kernels;

#endif

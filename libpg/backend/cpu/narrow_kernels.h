/* narrow_kernels.h - convolutions of few channels, as those of images in a first layer: kernels
 * that are compiled for each instruction set. */
#ifndef PG_BACKEND_CPU_NARROW_KERNELS_H
#define PG_BACKEND_CPU_NARROW_KERNELS_H

#include <stddef.h>

#include "backend/cpu/range.h"

/* One image, with its zeros around it, and one of the result. */
typedef struct pg__narrow {
    size_t out;         /* channels of the result */
    size_t cells[2];    /* of the result */
    size_t step[2];     /* floats of the image from cell to cell */
    size_t n_taps;      /* numbers that meet in a cell, */
    const size_t *taps; /* each this many floats after the first; in the order of the kernel's */
    pg__range range;    /* of the result */
} pg__narrow;

typedef struct pg__narrow_kernels {
    /* y from x and w[n_taps x out]; bias may be NULL */
    void (*convolve)(const pg__narrow *d, const float *x, const float *w, const float *bias,
                     float *y);
    /* Adds to dw[n_taps x out] and to db[out]; either may be NULL. */
    void (*gradient)(const pg__narrow *d, const float *x, const float *dy, float *dw, float *db);
} pg__narrow_kernels;

#endif

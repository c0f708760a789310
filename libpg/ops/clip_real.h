/* clip_real.h - the factor by which gradients are scaled to limit a norm: the CPU and the GPU share
 * this code. Clipping: keras/optimizers of 2.15 and 2.3.1. */
#ifndef PG_OPS_CLIP_REAL_H
#define PG_OPS_CLIP_REAL_H

#include <math.h>
#include <stdint.h>

#include "base/shared.h"
#include "ops/optimizer.h"

PG_SHARED double pg__clip_factor(double limit, double squares)
{
    const double norm = sqrt(squares);
    return limit > 0 && norm > limit ? limit / norm : 1;
}

/* squares: per variable; 0 for a variable that is not trained. */
PG_SHARED void pg__clip_scales(const pg__norm_limits *l, const double *squares, double *scales,
                               uint64_t n)
{
    double all = 0;
    for (uint64_t i = 0; i < n; i++) {
        scales[i] = pg__clip_factor(l->each, squares[i]);
        all += scales[i] * scales[i] * squares[i];
    }
    for (uint64_t i = 0; i < n && (l->each == 0 || l->both); i++)
        scales[i] *= pg__clip_factor(l->together, all);
}

#endif

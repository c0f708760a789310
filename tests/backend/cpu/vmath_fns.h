/* The functions of vmath.h over arrays, once for each instruction set. */
#ifndef VMATH_FNS_H
#define VMATH_FNS_H

#include <stddef.h>

#define VMATH_FNS(DO) \
    DO(exp) DO(exp_down) DO(expm1) DO(tanh) DO(sigmoid) DO(log) DO(softplus) DO(erf)

typedef struct vmath_fns {
#define DO(name) void (*name)(const float *x, float *y, size_t n);
    VMATH_FNS(DO)
#undef DO
} vmath_fns;

extern const vmath_fns vmath_fns_f32, vmath_fns_avx2, vmath_fns_avx512;

#endif

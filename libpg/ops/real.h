/* real.h - the type that the plain C answers compute in. Every ref_*.c is compiled twice: for
 * float, which back ends fall back on, and for double, which is what they are all judged by. */
#ifndef PG_OPS_REAL_H
#define PG_OPS_REAL_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "ops/attrs.h"
#include "ops/rules.h"

#ifdef PG_REAL_F64
typedef double real;
#define PG_REF(name) pg__ref_##name##_f64
#define R(fn)        fn
#else
typedef float real;
#define PG_REF(name) pg__ref_##name##_f32
#define R(fn)        fn##f
#endif

/* The signature of all of them; views of absent operands have p == NULL. */
#define PG_REF_ARGS \
    const void *attrs_, const pg__arg *in, size_t n_in, const pg__arg *out, size_t n_out

#define PG_UNUSED(x) ((void)(x))

static inline const real *pg__reals(const pg__arg *v)
{
    return v->p;
}
static inline real *pg__reals_out(const pg__arg *v)
{
    return v->p;
}

/* A view as rows of its last axis. */
static inline size_t pg__last(const pg__dims *s)
{
    return s->rank > 0 ? (size_t)s->d[s->rank - 1] : 1;
}
static inline size_t pg__rows(const pg__arg *v)
{
    const size_t last = pg__last(v->shape);
    return last > 0 ? (size_t)v->n / last : 0;
}

/* Eight sums side by side, so that the compiler can use its vectors without reordering anything. */
static inline real pg__dot(const real *a, const real *b, size_t n)
{
    real part[8] = {0}, sum = 0;
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (size_t k = 0; k < 8; k++)
            part[k] += a[i + k] * b[i + k];
    for (; i < n; i++)
        sum += a[i] * b[i];
    for (size_t k = 0; k < 8; k++)
        sum += part[k];
    return sum;
}

#endif

/* real.h - the number type of the plain C references. Every ref_*.c is compiled for float, as the
 * fallback of back ends, and for double, against which all of them are tested; for float also once
 * for each instruction set that the CPU's back end chooses from (PG_ISA names it). */
#ifndef PG_OPS_REAL_H
#define PG_OPS_REAL_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/shared.h"
#include "ops/attrs.h"
#include "ops/optimizer.h"

#ifdef PG_REAL_F64
#define PG_ISA f64
typedef double real;
#define R(fn) fn
#else
#ifndef PG_ISA
#define PG_ISA f32 /* the baseline */
#endif
typedef float real;
#define R(fn) fn##f
#endif

#define PG_JOIN_(a, b)  a##b
#define PG_JOIN(a, b)   PG_JOIN_(a, b)
#define PG_REF(name)    PG_JOIN(pg__ref_##name##_, PG_ISA)
#define PG_UPDATE(name) PG_JOIN(pg__update_##name##_, PG_ISA)

/* The signature of all references; views of absent operands have p == NULL. */
#define PG_REF_ARGS \
    const void *attrs_, const pg__arg *in, size_t n_in, const pg__arg *out, size_t n_out
#define PG_UPDATE_ARGS                       const pg__update *u, void *w_, const void *g_, void *const *slots, size_t n

#define PG_OP(name, n_outs, tol, attrs)      void PG_REF(name)(PG_REF_ARGS);
#define PG_GRAD_OP(name, n_outs, tol, attrs) void PG_REF(name)(PG_REF_ARGS);
#include "ops/ops.def"
#undef PG_OP
#undef PG_GRAD_OP
#define PG_OPTIMIZER(name, slots) void PG_UPDATE(name)(PG_UPDATE_ARGS);
#include "ops/optimizers.def"
#undef PG_OPTIMIZER

#define PG_UNUSED(x) ((void)(x))

static inline const real *pg__reals(const pg__arg *v)
{
    return (const real *)v->p;
}
static inline real *pg__reals_out(const pg__arg *v)
{
    return (real *)v->p;
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

/* Eight partial sums, so that the compiler can use vectors without reordering anything. */
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

/* ops.c - the table of operations (ops.def). */
#include "ops/attrs.h"
#include "ops/rules.h"

#ifdef PG_HAVE_TRAINER
#define PG_REF(op, type) pg__ref_##op##_##type
#else /* nothing is computed */
#define PG_REF(op, type) NULL
#endif

static const pg__op ops[PG_N_OPS] = {
#define PG_ENTRY(op, outs, tol, back, attrs) \
    {.name = #op,                            \
     .kind = PG_OP_##op,                     \
     .n_out = (outs)&255,                    \
     .n_kept = (outs) >> 8,                  \
     .tol_f32 = tol,                         \
     .shape = pg__shape_##op,                \
     .backward = back,                       \
     .ref_f32 = PG_REF(op, f32),             \
     .ref_f64 = PG_REF(op, f64),             \
     .attrs_bytes = sizeof(attrs)},
#define PG_OP(name, n_out, tol, attrs)      PG_ENTRY(name, n_out, tol, pg__backward_##name, attrs)
#define PG_GRAD_OP(name, n_out, tol, attrs) PG_ENTRY(name, n_out, tol, NULL, attrs)
#include "ops/ops.def"
#undef PG_OP
#undef PG_GRAD_OP
#undef PG_ENTRY
#undef PG_REF
};

const pg__op *pg__op_of(pg__op_kind kind)
{
    return &ops[kind];
}

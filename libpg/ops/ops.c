/* ops.c - the table of operations (ops.def). */
#include "ops/attrs.h"
#include "ops/rules.h"

static const pg__op ops[PG_N_OPS] = {
#define PG_ENTRY(op, outs, tol, back, attrs) \
    {.name = #op,                            \
     .kind = PG_OP_##op,                     \
     .n_out = (outs)&255,                    \
     .n_kept = (outs) >> 8,                  \
     .tol_f32 = tol,                         \
     .shape = pg__shape_##op,                \
     .backward = back,                       \
     .ref_f32 = pg__ref_##op##_f32,          \
     .ref_f64 = pg__ref_##op##_f64,          \
     .attrs_bytes = sizeof(attrs)},
#define PG_OP(name, n_out, tol, attrs)      PG_ENTRY(name, n_out, tol, pg__backward_##name, attrs)
#define PG_GRAD_OP(name, n_out, tol, attrs) PG_ENTRY(name, n_out, tol, NULL, attrs)
#include "ops/ops.def"
#undef PG_OP
#undef PG_GRAD_OP
#undef PG_ENTRY
};

const pg__op *pg__op_of(pg__op_kind kind)
{
    return &ops[kind];
}

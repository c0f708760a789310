/* rules.h - declares everything that ops.def names: the rules and the plain C reference of every
 * operation. */
#ifndef PG_OPS_RULES_H
#define PG_OPS_RULES_H

#include "ops/op.h"

#define PG_GRAD_OP(name, n_out, tol, attrs)                                                \
    pg_status pg__shape_##name(const void *attrs_, const pg__dims *const *in, size_t n_in, \
                               pg__dims *out, pg_err *err);                                \
    void pg__ref_##name##_f32(const void *attrs_, const pg__arg *in, size_t n_in,          \
                              const pg__arg *out, size_t n_out_);                          \
    void pg__ref_##name##_f64(const void *attrs_, const pg__arg *in, size_t n_in,          \
                              const pg__arg *out, size_t n_out_);
#define PG_OP(name, n_out, tol, attrs)  \
    PG_GRAD_OP(name, n_out, tol, attrs) \
    pg_status pg__backward_##name(pg__tape *t, const pg__inst *i, pg_err *err);
#include "ops/ops.def"
#undef PG_OP
#undef PG_GRAD_OP

/* Shared by the rules: results have the shape of operand k. */
pg_status pg__shape_like(const pg__dims *const *in, size_t k, pg__dims *out);

#endif

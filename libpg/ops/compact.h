/* compact.h - mixed precision: decides which values of a tape are stored in 16 bits, and inserts
 * the casts between those and float32.
 *
 * A layer that computes with bfloat16 or float16 reads and writes values of that type. These stay
 * float32: parameters and their gradients, statistics of normalisations, masks, losses, and values
 * that are read from outside (predictions, states, moving averages), including the activation or
 * sum that makes such a value. Arithmetic inside an operation is always in float32.
 *
 * PG_ELEM_AS_BF16 gives host back ends the same numbers without memory of 16 bits: what would be
 * bfloat16 has the bytes of a real, and is rounded (to nearest, ties to even) after the operation
 * that makes it. */
#ifndef PG_OPS_COMPACT_H
#define PG_OPS_COMPACT_H

#include "ops/attrs.h"
#include "ops/op.h"

/* What types an operation takes and makes. */
typedef enum pg__wants_elem {
    PG_ANY,     /* operand: any type */
    PG_OWN,     /* only the type with which its layer computes */
    PG_OWN_OR,  /* result: the same, or float32 if required */
    PG_FLOAT,   /* float32 */
    PG_FOLLOWS, /* result: the layer's type if an operand has 16 bits and float32 is not
                    required */
} pg__wants_elem;

pg__wants_elem pg__operand_elem(const pg__op *op, uint32_t k);
pg__wants_elem pg__result_elem(const pg__op *op, uint32_t k);

/* Is result k rounded as soon as it is made: of type PG_ELEM_AS_BF16, and only zeros and numbers of
 * operands of that type? */
int pg__is_rounded(const pg__tape *t, const pg__inst *i, uint32_t k);
/* ReLU without a maximum, a threshold or a slope: rounding before it or behind it is the same. */
int pg__commutes_with_rounding(const pg__act_attrs *act);

/* Gives the values of a complete tape their types, and inserts the casts. elems: per origin, the
 * type with which it computes; for those beyond n: PG_ELEM_REAL. floats: values read from outside,
 * and gradients of parameters; PG_NO_VAL is allowed. PG_E_NOMEM. */
pg_status pg__tape_compact(pg__tape *t, const pg__elem *elems, size_t n, const pg__val *floats,
                           size_t n_floats, pg_err *err);

#endif

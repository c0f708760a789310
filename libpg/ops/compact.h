/* compact.h - mixed precision: which values of a tape are kept in 16 bits, and the casts between
 * those and float32.
 *
 * A layer that computes with bfloat16 or float16 reads and makes values of that type. float32 stay:
 * parameters and their gradients, statistics of normalisations, masks, losses, and what is read
 * from outside (predictions, states, moving averages); with it the activation or the sum that such
 * a value comes from. Arithmetic inside an operation is in float32 whatever memory holds. */
#ifndef PG_OPS_COMPACT_H
#define PG_OPS_COMPACT_H

#include "ops/op.h"

/* What an operation takes, and what it makes. */
typedef enum pg__wants_elem {
    PG__ANY,     /* operand: it reads what there is */
    PG__OWN,     /* the type that its layer computes with, and no other */
    PG__OWN_OR,  /* result: the same, or float32 where that is asked for */
    PG__FLOAT,   /* float32 */
    PG__FOLLOWS, /* result: the layer's type, if an operand is of 16 bits and nobody asks for
                    float32 */
} pg__wants_elem;

pg__wants_elem pg__operand_elem(const pg__op *op, uint32_t k);
pg__wants_elem pg__result_elem(const pg__op *op, uint32_t k);

/* Gives the values of a tape that is complete their types, and inserts the casts. elems: per
 * origin, what it computes with; those beyond n: PG__REAL. floats: what is read from outside, and
 * gradients of parameters; PG__NO_VAL is allowed. PG_E_NOMEM. */
pg_status pg__tape_compact(pg__tape *t, const pg__elem *elems, size_t n, const pg__val *floats,
                           size_t n_floats, pg_err *err);

#endif

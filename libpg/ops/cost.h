/* cost.h - how much an instruction does: what its time is held against. */
#ifndef PG_OPS_COST_H
#define PG_OPS_COST_H

#include "ops/op.h"

typedef struct pg__cost {
    double flops; /* multiplications and additions of its products, by their definition; 0: it has
                     none, and memory is what it works with */
    double bytes; /* of operands and results, each once */
} pg__cost;

/* All shapes known; real_bytes: of a PG__REAL. */
pg__cost pg__cost_of(const pg__tape *t, const pg__inst *i, size_t real_bytes);

#endif

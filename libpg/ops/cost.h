/* cost.h - how much work an instruction is, to compare its time with. */
#ifndef PG_OPS_COST_H
#define PG_OPS_COST_H

#include "ops/op.h"

typedef struct pg__cost {
    double flops; /* multiplications and additions of its products, by definition; 0: it has none,
                     and memory limits it */
    double bytes; /* of operands and results, each counted once */
} pg__cost;

/* All shapes known; real_bytes: of a PG_ELEM_REAL. */
pg__cost pg__cost_of(const pg__tape *t, const pg__inst *i, size_t real_bytes);

#endif

/* binary_real.h - what the operations of op_binary.c do to two numbers. */
#ifndef PG_OPS_BINARY_REAL_H
#define PG_OPS_BINARY_REAL_H

#include "ops/real.h"

PG_SHARED real pg__combine(pg__binary_kind kind, real a, real b)
{
    switch (kind) {
    case PG_ADD: return a + b;
    case PG_SUBTRACT: return a - b;
    case PG_MULTIPLY: return a * b;
    case PG_DIVIDE: return a / b;
    case PG_MAXIMUM: return a >= b || isnan(a) ? a : b;
    case PG_MINIMUM: return a <= b || isnan(a) ? a : b;
    }
    return 0;
}

/* Does the gradient of a maximum or minimum go to a? If both are equal, it does. */
PG_SHARED int pg__picks_first(pg__binary_kind kind, real a, real b)
{
    return kind == PG_MAXIMUM ? a >= b : a <= b;
}

#endif

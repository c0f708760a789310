/* spec.h - Python's format specifications: [[fill]align][sign][#][0][width][,][.precision][type],
 * for numbers. Not supported: 'c', 'z', widths and precisions beyond 200. */
#ifndef PG_BASE_SPEC_H
#define PG_BASE_SPEC_H

#include "base/str.h"

typedef enum pg__spec_kind {
    PG_SPEC_INT,
    PG_SPEC_FLOAT,
    PG_SPEC_FLOAT32 /* NumPy's str() */
} pg__spec_kind;

typedef struct pg__spec_value {
    pg__spec_kind kind;
    double v; /* an int: exact to 2^53 */
} pg__spec_value;

/* Appends what Python's format(value, spec) returns, spec being the n bytes at s. PG_E_ARG says
 * what Python would reject. */
pg_status pg__spec_format(pg__str *out, const char *s, size_t n, pg__spec_value value, pg_err *err);

#endif

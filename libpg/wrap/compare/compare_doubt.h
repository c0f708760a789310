/* compare_doubt.h - were tensors of two layouts paired rightly, where no description decides? */
#ifndef PG_WRAP_COMPARE_COMPARE_DOUBT_H
#define PG_WRAP_COMPARE_COMPARE_DOUBT_H

#include "wrap/compare/compare_values.h"
#include "wrap/compare/view.h"

typedef struct pg__doubt {
    const pg__view *a, *b;
    const char *path_a, *path_b;
    const size_t *of_a, *of_b;  /* the partners */
    const unsigned char *equal; /* by tensor of a: it equals its partner, or is not compared */
    unsigned char *buf;         /* PG_COPY_BYTES */
} pg__doubt;

/* PG_E_MISMATCH, with both names, if a tensor that differs from its partner equals another one that
 * does, or that has none. Reads those tensors once more. */
pg_status pg__doubt_pairs(const pg__doubt *d, pg_err *err);

#endif

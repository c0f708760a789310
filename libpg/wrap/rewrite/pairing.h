/* pairing.h - pairs the weights of two files of one model, whose automatic names may have different
 * numbers. */
#ifndef PG_WRAP_REWRITE_PAIRING_H
#define PG_WRAP_REWRITE_PAIRING_H

#include "base/str.h"
#include "pg/store.h"

/* For each weight i of `to` in [first, first + n), the weight of `from` that replaces it: all of
 * `from`, each once. Names are compared exactly; if they differ, weights whose names differ only in
 * numbers are paired in the order of their numbers (then *renumbered is 1), provided that shapes
 * agree and layers stay together. PG_E_MISMATCH with details (missing, extra, shapes). Freed with
 * pg__mem_free(). */
pg_status pg__pair(size_t **out, int *renumbered, const pg_store *from, const pg_store *to,
                   size_t first, size_t n, pg_err *err);

/* "3×3×32×64" of a tensor; "scalar". */
pg__shown pg__shape_text(const pg_weight *w);

#endif

/* archive.h - state as bytes, written and read by the same function, so that both sides cannot
 * differ:
 *
 *     pg__archive_u64(a, &self->wait);
 *     pg__archive_real(a, &self->best);
 *
 * stores the values when the archive writes, and sets them when it reads. Numbers are
 * little-endian, reals are IEEE doubles. The first failure stays: look at a->st once, at the end.
 */
#ifndef PG_TRAIN_FIT_ARCHIVE_H
#define PG_TRAIN_FIT_ARCHIVE_H

#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "io/append.h"

typedef struct pg__archive {
    int writes;
    pg__str out;             /* what was written */
    const unsigned char *in; /* what is read: n bytes, at the first `at` of them */
    size_t n, at;
    pg_status st; /* PG_E_NOMEM; PG_E_FORMAT: there is less, or other, than asked for */
} pg__archive;

void pg__archive_u64(pg__archive *a, uint64_t *v);
void pg__archive_size(pg__archive *a, size_t *v);
void pg__archive_int(pg__archive *a, int *v);
void pg__archive_real(pg__archive *a, double *v);
/* Exactly n bytes. */
void pg__archive_bytes(pg__archive *a, void *p, size_t n);
/* A string of any length; read, it is fresh memory and the old one is freed. NULL stays NULL. */
void pg__archive_text(pg__archive *a, char **s);
/* A growing file: which, how much of it counts, and what has yet to be written. */
void pg__archive_append(pg__archive *a, pg__append *file);
void pg__archive_fini(pg__archive *a);

#endif

/* read_ahead.h - the bytes of many tensors, one after the other, which a thread reads while the
 * caller uses those before, unless they are small and at hand: reading, checking and decompressing
 * go on beside writing or comparing.
 *
 *     PG_TRY(pg__read_ahead_start(&r, store, v, n, err));
 *     for (pg__block b; (st = pg__read_ahead_next(r, &b, err)) == PG_OK && b.n;)
 *         ...
 *     pg__read_ahead_close(r);
 *
 * Nobody else may read from the store until then; what it says about its tensors stays at hand. */
#ifndef PG_STORE_READ_AHEAD_H
#define PG_STORE_READ_AHEAD_H

#include "store/store_impl.h"

typedef struct pg__to_read {
    size_t tensor; /* number in the store, see store_impl.h */
    int native;    /* in this machine's byte order, not the file's */
} pg__to_read;

typedef struct pg__block {
    size_t item; /* number in the list */
    uint64_t off;
    const unsigned char *bytes; /* until the next call */
    size_t n;                   /* at most PG_COPY_BYTES; 0: that was all */
} pg__block;

typedef struct pg__read_ahead pg__read_ahead;

/* v is borrowed. While there is no thread (the tensors are small and at hand, the bytes are few,
 * the store must not or cannot have one), each call of pg__read_ahead_next() reads. */
pg_status pg__read_ahead_start(pg__read_ahead **out, pg_store *s, const pg__to_read *v, size_t n,
                               pg_err *err);

/* Tensors in the order of the list, each from its first byte to its last; those without bytes are
 * left out. A message begins with the store's path. Not to be called again after a failure or the
 * end. */
pg_status pg__read_ahead_next(pg__read_ahead *r, pg__block *out, pg_err *err);

void pg__read_ahead_close(pg__read_ahead *r); /* at any time; NULL is allowed */

#endif

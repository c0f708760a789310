/* prefetch.h - reads batches in a thread of its own while earlier ones train. */
#ifndef PG_TRAIN_MODEL_PREFETCH_H
#define PG_TRAIN_MODEL_PREFETCH_H

#include "train/data/data.h"
#include "train/model/feed.h"

#define PG_PREFETCH_BATCHES 3 /* in memory */

typedef struct pg__prefetch pg__prefetch;

/* Begins to read. train or val may be NULL if the run has no such turns; all are borrowed, and must
 * not be used otherwise until pg__prefetch_free(). */
pg_status pg__prefetch_new(pg__prefetch **out, pg__batch_order *order, const pg__feed *train,
                           const pg__feed *val, size_t batch_size, pg_err *err);

/* The next batch, valid until the next call; *out NULL: no more. A read error is returned in place
 * of its batch. */
pg_status pg__prefetch_next(pg__prefetch *a, const pg__batch **out, pg__turn *turn, pg_err *err);

/* Stops at once, within the rows of a batch. NULL is allowed. */
void pg__prefetch_free(pg__prefetch *a);

#endif

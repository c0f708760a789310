/* result.h - what a run tells: losses and metrics. */
#ifndef PG_TRAIN_RESULT_H
#define PG_TRAIN_RESULT_H

#include "train/trainer.h"

/* Rows of a lane in the host's memory: per output, weights may be NULL. */
typedef struct pg__rows {
    const void *const *targets, *const *weights;
} pg__rows;

/* n_rows: of the whole batch. Adds what a program's run in this frame gave. shares: per output, of
 * its terms, what the sum of its losses is divided by. */
pg_status pg__result_add(pg_trainer *t, const pg__program *p, const pg__frame *f,
                         const pg__rows *rows, const double *shares, uint64_t n_rows,
                         pg__totals *totals, pg_err *err);

#endif

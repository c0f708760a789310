/* result.h - results of a run: losses and metrics. */
#ifndef PG_TRAIN_STEP_RESULT_H
#define PG_TRAIN_STEP_RESULT_H

#include "train/step/trainer.h"

/* Rows of a lane in host memory, per output; weights may be NULL. */
typedef struct pg__rows {
    const void *const *targets, *const *weights;
} pg__rows;

/* A lane's results, fetched from a device with memory of its own; grows. */
typedef struct pg__landing {
    pg__dev *dev;
    char *mem; /* from the back end's host_alloc() */
    size_t n_bytes;
    struct pg__landed {
        pg__dev *dev;
        const void *from;
        size_t at, n;
    } * landed;
    size_t n_landed, cap_landed;
} pg__landing;

/* Queues the copies that pg__result_add() will read, after the device's sync(); does nothing if the
 * host can read the device's memory. */
pg_status pg__result_fetch(pg_trainer *t, pg__landing *l, const pg__program *p, const pg__frame *f,
                           pg_err *err);
void pg__landing_free(const pg__trainer_devs *devs, pg__landing *l);

/* Adds the results of a program's run in this frame. n_rows: of the whole batch. shares: per
 * output, the fraction of its terms that the sum of its losses is divided by. */
pg_status pg__result_add(pg_trainer *t, const pg__program *p, const pg__frame *f,
                         const pg__landing *l, const pg__rows *rows, const double *shares,
                         uint64_t n_rows, pg__totals *totals, pg_err *err);

#endif

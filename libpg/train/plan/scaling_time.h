/* scaling_time.h - a device's part of a step, timed without training. */
#ifndef PG_TRAIN_PLAN_SCALING_TIME_H
#define PG_TRAIN_PLAN_SCALING_TIME_H

#include "train/model/model.h"
#include "train/plan/scaling.h"

/* Some devices of this machine at once. */
typedef struct pg__trial {
    size_t n_devices, n_threads; /* threads: of each */
    size_t n_lanes;              /* deterministic: of all of them; else 0 */
    uint64_t n_rows;             /* of each */
    int on_cpus;                 /* buckets are those of CPU devices */
} pg__trial;

typedef struct pg__timed {
    pg__pace pace; /* of one among them */
    pg__load load;
    double flops;         /* of a device's step */
    pg_forecast forecast; /* of one device alone */
} pg__timed;

/* Steps by these devices, of the feed's rows over and over. Nothing of the trainer has changed
 * behind it; with_update: the update is timed
 * too, which takes the memory of another set of variables. */
pg_status pg__scaling_time(pg__timed *out, pg_trainer *t, const pg__feed *f, const pg__trial *what,
                           int with_update, pg_err *err);

#endif

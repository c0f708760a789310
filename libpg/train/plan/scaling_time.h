/* scaling_time.h - times a device's part of a step without training. */
#ifndef PG_TRAIN_PLAN_SCALING_TIME_H
#define PG_TRAIN_PLAN_SCALING_TIME_H

#include "train/model/model.h"
#include "train/plan/scaling.h"

/* Some devices of this machine at once. */
typedef struct pg__trial {
    size_t n_devices, n_threads; /* n_threads: of each */
    size_t n_lanes;              /* deterministic: of all together; else 0 */
    uint64_t n_rows;             /* of each device */
    int on_cpus;                 /* cut buckets as for CPU devices */
} pg__trial;

typedef struct pg__timed {
    pg__pace pace; /* of one of them */
    pg__load load;
    double flops;         /* of a device's step */
    pg_forecast forecast; /* of one device alone */
} pg__timed;

/* Times steps of these devices, repeating the feed's rows. Leaves the trainer unchanged;
 * with_update: times the update too, which takes memory for another set of variables. */
pg_status pg__scaling_time(pg__timed *out, pg_trainer *t, const pg__feed *f, const pg__trial *what,
                           int with_update, pg_err *err);

#endif

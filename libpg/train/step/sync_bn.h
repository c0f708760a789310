/* sync_bn.h - between step.c and sync_bn.c: lanes that are normalised together. */
#ifndef PG_TRAIN_STEP_SYNC_BN_H
#define PG_TRAIN_STEP_SYNC_BN_H

#include "train/step/trainer.h"

/* Do lanes meet at all? They do if the model's rows depend on each other and a replica (or, with
 * all replicas normalised together, a batch) has more than one lane. */
int pg__lanes_sync_bn(const pg_trainer *t);

/* Do two lanes use the same statistics? */
int pg__same_statistics(const pg__trainer_net *net, const pg__lane *a, const pg__lane *b);

/* What the lanes of a part brought to the last two meetings. A lane can be one meeting ahead of
 * another, not two, so two places are enough. */
typedef struct pg__sync_bn {
    double *numbers;        /* per place, per lane: `each` */
    double *work;           /* per worker, per lane: `each` */
    double *raw;            /* per worker: `each`, as the device has them */
    const pg__lane **there; /* per place, per lane: the lane that brought it, or NULL */
    pg__lane elsewhere;     /* stands for lanes of other processes */
    uint64_t each;
    size_t n_lanes;
} pg__sync_bn;

/* One lane at one meeting. */
typedef struct pg__visit {
    const pg__program *program;
    const pg__frame *frame;
    size_t at; /* call of the program */
    size_t index;
    const pg__lane *lane;
    size_t meeting;
} pg__visit;

pg_status pg__sync_bn_open(pg__sync_bn *b, const pg__trainer_pool *pool, uint64_t each,
                           size_t n_lanes, pg_err *err);
void pg__sync_bn_close(pg__sync_bn *b);
void pg__sync_bn_clear(
    pg__sync_bn *b); /* before each part: a lane of the last part may be absent */

/* Records what a lane brings; all workers must meet before any of them takes. */
pg_status pg__sync_bn_bring(pg__sync_bn *b, pg__trainer_devs *devs, const pg__visit *v);
/* Gives what the lanes with the same statistics brought, merged. Several lanes may take at once. */
pg_status pg__sync_bn_take(pg__sync_bn *b, pg_trainer *t, const pg__visit *v);

#endif

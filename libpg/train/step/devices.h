/* devices.h - the devices that a trainer's replicas run on. Device 0 holds the variables:
 * t->vars.params, t->vars.slots. Another GPU has copies, which make the same updates, so that they
 * stay equal to the bit. */
#ifndef PG_TRAIN_STEP_DEVICES_H
#define PG_TRAIN_STEP_DEVICES_H

#include "train/step/trainer.h"

#define PG_MAX_REPLICAS 64

/* "cpu:0,cpu:1": replicas, in this order; a device may be named more than once. All of one kind. */
pg_status pg__devices_open(pg_trainer *t, const pg_train_opts *o, pg_err *err);
/* One more, which shares the work of the replica. */
pg_status pg__devices_add(pg__trainer_devs *devs, size_t ordinal, const pg_train_opts *o,
                          pg_err *err);
void pg__devices_close(pg_trainer *t); /* what lies on them is freed before */

/* Queues of the workers, and their end: t->pool.workers[i].device and .dev. */
pg_status pg__devices_staff(pg_trainer *t, pg_err *err);
void pg__devices_dismiss(pg_trainer *t);

/* What device d has of the variables. */
pg__flat *pg__params_on(pg_trainer *t, size_t d);
pg__flat *pg__slots_on(pg_trainer *t, size_t d);

/* Copies what has changed on device 0 since the last time to the others; before every step. */
pg_status pg__devices_mirror(pg_trainer *t, pg_err *err);
/* The step in hand changed all of them alike. */
void pg__devices_mirrored(pg_trainer *t);

/* Memory of flat f, which lies on another device, as device d's, until the next call for that
 * device. */
pg_status pg__flat_on(pg__trainer_devs *devs, size_t d, pg__flat *f, uint64_t from, uint64_t to,
                      pg__flat **out, pg_err *err);

/* Each device's first queue does what is done for all of them: it waits for the others, and they
 * for it. */
pg_status pg__devices_join(pg_trainer *t, pg_err *err);
pg_status pg__devices_settle(pg__trainer_devs *devs, pg_err *err);

/* st, with the device's own words where it has some. */
pg_status pg__device_failed(const pg__trainer_devs *devs, pg__dev *d, pg_status st, pg_err *err);

/* The same where nobody told anything yet, of whichever device failed: what is returned to callers
 * of the library always comes with a message. */
pg_status pg__told(const pg_trainer *t, pg_status st, pg_err *err);

#endif

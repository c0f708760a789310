/* devices.h - the devices that a trainer's replicas run on. Device 0 holds the variables:
 * t->vars.params, t->vars.slots. Other GPUs have copies, to which they apply the same updates, so
 * that all stay bit-identical. */
#ifndef PG_TRAIN_STEP_DEVICES_H
#define PG_TRAIN_STEP_DEVICES_H

#include "train/step/trainer.h"

#define PG_MAX_REPLICAS 64

/* "cpu:0,cpu:1": replicas, in this order; a device may be named more than once. All of one kind. */
pg_status pg__devices_open(pg_trainer *t, const pg_train_opts *o, pg_err *err);
/* Adds a device that shares the work of the replica. */
pg_status pg__devices_add(pg__trainer_devs *devs, size_t ordinal, const pg_train_opts *o,
                          pg_err *err);
void pg__devices_close(pg_trainer *t); /* free everything on them before */

/* Opens the workers' queues, t->pool.workers[i].device and .dev; and closes them. */
pg_status pg__devices_staff(pg_trainer *t, pg_err *err);
void pg__devices_dismiss(pg_trainer *t);

/* Device d's copy of the variables. */
pg__flat *pg__params_on(pg_trainer *t, size_t d);
pg__flat *pg__slots_on(pg_trainer *t, size_t d);

/* Copies what has changed on device 0 since the last call to the other devices; before every step.
 */
pg_status pg__devices_mirror(pg_trainer *t, pg_err *err);
/* Notes that the current step changed all of them alike. */
void pg__devices_mirrored(pg_trainer *t);

/* *out: elements [from, to) of flat f, which lies on another device, in device d's memory; valid
 * until the next call for d. */
pg_status pg__flat_on(pg__trainer_devs *devs, size_t d, pg__flat *f, uint64_t from, uint64_t to,
                      pg__flat **out, pg_err *err);

/* A device's first queue does the work common to all its queues: join makes it wait for the others,
 * settle makes them wait for it. */
pg_status pg__devices_join(pg_trainer *t, pg_err *err);
pg_status pg__devices_settle(pg__trainer_devs *devs, pg_err *err);

/* Returns st; err gets the device's own message if it has one. */
pg_status pg__device_failed(const pg__trainer_devs *devs, pg__dev *d, pg_status st, pg_err *err);

/* The same if err has no message yet, for whichever device failed: every status that the library
 * returns comes with a message. */
pg_status pg__with_message(const pg_trainer *t, pg_status st, pg_err *err);

#endif

/* model_parallel.h - variables that are divided over devices, each with those of its layers: device
 * parallelism where devices have memories of their own. What is the same either way is asked here,
 * too. */
#ifndef PG_TRAIN_STEP_MODEL_PARALLEL_H
#define PG_TRAIN_STEP_MODEL_PARALLEL_H

#include "train/step/trainer.h"

/* Where each variable lies, once their sizes are known. */
pg_status pg__mp_plan(pg_trainer *t, pg_err *err);
void pg__mp_free(pg_trainer *t);

/* The device of a variable, of all flats that device 0 has or that are divided. */
pg__dev *pg__param_dev(const pg_trainer *t, size_t param);

/* Memory of a divided flat. */
pg_status pg__mp_alloc(pg_trainer *t, pg__flat *f, pg_err *err);
void pg__mp_release(pg__trainer_devs *devs, pg__flat *f);
uint64_t pg__mp_bytes(const pg_trainer *t, size_t device); /* of a flat */

/* All of a flat to the host's memory, where it is in one piece by t->vars.offsets; and n bytes of
 * that from byte `at` on back. */
pg_status pg__flat_get(pg_trainer *t, void *to, const pg__flat *f, pg_err *err);
pg_status pg__flat_put(pg_trainer *t, pg__flat *f, uint64_t at, const void *from, size_t n,
                       pg_err *err);

/* a += b; adds the sum of the squares of a to *sum; a *= by; of divided flats. */
pg_status pg__mp_add(pg_trainer *t, pg__flat *a, const pg__flat *b);
pg_status pg__mp_squares(pg_trainer *t, const pg__flat *a, double *sum);
pg_status pg__mp_scale(pg_trainer *t, pg__flat *a, double by);

/* Are the gradients of all trained variables? dev: where they lie, if they are not divided. The
 * room of the others has averages, or nothing. */
pg_status pg__grads_finite(pg_trainer *t, pg__dev *dev, const pg__flat *grads, int *finite);

/* Per device, what a step runs on: of the workers' memory; arena: that of device 0. */
void pg__mp_equip(pg_trainer *t, void *arena);

#endif

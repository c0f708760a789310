/* model_parallel.h - model parallelism: variables divided over devices with memories of their own,
 * each holding those of its layers. The functions below work for undivided variables too. */
#ifndef PG_TRAIN_STEP_MODEL_PARALLEL_H
#define PG_TRAIN_STEP_MODEL_PARALLEL_H

#include "train/step/trainer.h"

/* Places the variables once their sizes are known. */
pg_status pg__mp_plan(pg_trainer *t, pg_err *err);
void pg__mp_free(pg_trainer *t);

/* The device of a variable, in flats that are on device 0 or divided. */
pg__dev *pg__param_dev(const pg_trainer *t, size_t param);

/* Memory of a divided flat. */
pg_status pg__mp_alloc(pg_trainer *t, pg__flat *f, pg_err *err);
void pg__mp_release(pg__trainer_devs *devs, pg__flat *f);
uint64_t pg__mp_bytes(const pg_trainer *t, size_t device); /* of a flat */

/* Copies a whole flat to host memory, contiguous by t->vars.offsets; and n bytes from byte `at` of
 * that layout back. */
pg_status pg__flat_get(pg_trainer *t, void *to, const pg__flat *f, pg_err *err);
pg_status pg__flat_put(pg_trainer *t, pg__flat *f, uint64_t at, const void *from, size_t n,
                       pg_err *err);

/* For divided flats: a += b; *sum += the sum of the squares of a; a *= by. */
pg_status pg__mp_add(pg_trainer *t, pg__flat *a, const pg__flat *b);
pg_status pg__mp_squares(pg_trainer *t, const pg__flat *a, double *sum);
pg_status pg__mp_scale(pg_trainer *t, pg__flat *a, double by);

/* *finite: are the gradients of all trained variables? dev: their device, unless they are divided.
 * Room for untrained variables holds averages, or garbage. */
pg_status pg__grads_finite(pg_trainer *t, pg__dev *dev, const pg__flat *grads, int *finite);

/* Sets what a step runs on, per device, from the workers' memory; arena: that of device 0. */
void pg__mp_equip(pg_trainer *t, void *arena);

#endif

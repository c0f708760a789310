/* states.h - between step.c, fit.c and states.c: the states of stateful layers. */
#ifndef PG_TRAIN_STEP_STATES_H
#define PG_TRAIN_STEP_STATES_H

#include "train/step/trainer.h"

/* Memory for batches of n_rows, zeros at first. PG_E_MISMATCH: earlier batches had another number.
 */
pg_status pg__states_reserve(pg_trainer *t, uint64_t n_rows, pg_err *err);
void pg__states_free(pg_trainer *t);
pg_status pg__states_reset(pg_trainer *t, pg_err *err);

/* Bytes of state k: for one row, for all rows. */
size_t pg__state_row_bytes(const pg_trainer *t, size_t k);
size_t pg__states_bytes(const pg_trainer *t, size_t k);

/* Sets out[k], for each of the model's states, to its rows from `first` on. */
void pg__states_bind(const pg_trainer *t, uint64_t first, void **out);

/* After a run, in the worker: copies the new states; to: from pg__states_bind(). Those from another
 * device than the first go to *kept, fresh memory that the caller owns; pg__states_land() puts them
 * in place once the workers have ended. */
pg_status pg__states_keep(const pg_trainer *t, const pg__program *p, const pg__frame *f,
                          size_t device, void *const *to, uint64_t n_rows, char **kept,
                          pg_err *err);
pg_status pg__states_land(const pg_trainer *t, void *const *to, uint64_t n_rows, const char *kept);

#endif

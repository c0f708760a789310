/* states.h - between step.c, fit.c and states.c: what stateful layers keep. */
#ifndef PG_TRAIN_STEP_STATES_H
#define PG_TRAIN_STEP_STATES_H

#include "train/step/trainer.h"

/* Memory for batches of n_rows, zeros at first. PG_E_MISMATCH: the batches before had others. */
pg_status pg__states_reserve(pg_trainer *t, uint64_t n_rows, pg_err *err);
void pg__states_free(pg_trainer *t);
pg_status pg__states_reset(pg_trainer *t, pg_err *err);

/* Bytes of state k: of one row, of all rows. */
size_t pg__state_row_bytes(const pg_trainer *t, size_t k);
size_t pg__states_bytes(const pg_trainer *t, size_t k);

/* The states' rows from `first` on: as many pointers as the model has states. */
void pg__states_bind(const pg_trainer *t, uint64_t first, void **out);

/* After a run, by the worker: takes over what the states are now; to: as pg__states_bind() gave it.
 * From another device than the first to *kept, fresh memory of the caller's, which
 * pg__states_land() takes to where it belongs, when the workers have ended. */
pg_status pg__states_keep(const pg_trainer *t, const pg__program *p, const pg__frame *f,
                          size_t device, void *const *to, uint64_t n_rows, char **kept,
                          pg_err *err);
pg_status pg__states_land(const pg_trainer *t, void *const *to, uint64_t n_rows, const char *kept);

#endif

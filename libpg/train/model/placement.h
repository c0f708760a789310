/* placement.h - between trainer.c and placement.c: devices that share the work of one replica. */
#ifndef PG_TRAIN_MODEL_PLACEMENT_H
#define PG_TRAIN_MODEL_PLACEMENT_H

#include "train/step/step.h"

/* Reads opts->place; without it nothing is placed. PG_E_ARG, PG_E_UNSUPPORTED. */
pg_status pg__placement_parse(pg_trainer *t, const pg_train_opts *o, pg_err *err);

/* After lowering: checks that every placement names a call and that the model can be shared. Notes
 * what runs where. */
pg_status pg__placement_check(pg_trainer *t, const pg_train_opts *o, pg_err *err);

void pg__placement_free(pg_trainer *t);

#endif

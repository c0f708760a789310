/* transfer.h - transfer learning: freezes layers, replaces the number of classes, takes weights
 * from a file as far as they fit. */
#ifndef PG_TRAIN_MODEL_TRANSFER_H
#define PG_TRAIN_MODEL_TRANSFER_H

#include "train/step/step.h"

/* Changes a model as opts.freeze and opts.replace_head say. PG_E_ARG, PG_E_UNSUPPORTED. */
pg_status pg__transfer_edit(pg__graph **g, const pg_train_opts *o, pg_err *err);

/* Notes the effect of opts.freeze. */
pg_status pg__transfer_note(pg_trainer *t, const pg_train_opts *o, pg_err *err);

/* Takes the layers of opts.init_from that the model has under the same names and with all variables
 * in the same shapes; leaves others unchanged. Notes what was taken and what was not.
 * PG_E_MISMATCH: nothing fits. */
pg_status pg__transfer_start(pg_trainer *t, const pg_train_opts *o, pg_err *err);

/* The same, for a file that must hold all layers but the new heads. */
pg_status pg__transfer_load(pg_trainer *t, const pg_train_opts *o, pg_store *file, const char *path,
                            pg_err *err);

#endif

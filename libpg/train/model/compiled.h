/* compiled.h - what compile() was given, as Keras' files store it: optimizer, loss, metrics. */
#ifndef PG_TRAIN_MODEL_COMPILED_H
#define PG_TRAIN_MODEL_COMPILED_H

#include "train/step/step.h"

/* The trainer's training_config, as its Keras writes it, with the values of `o`, the trainer's
 * optimizer at some point in time. in_h5: for a legacy full .h5, in which Keras 2.15 describes its
 * metrics. */
pg_status pg__compiled_text(pg__str *out, const pg_trainer *t, const pg__optimizer *o, int in_h5,
                            pg_err *err);

/* A file's settings, in the form of pg_train_opts; empty: not given. */
typedef struct pg__compiled {
    pg__str optimizer, loss, loss_weights; /* optimizer: {"class_name", "config"} */
    pg__str metrics, weighted_metrics;
    int legacy; /* 1: rules of Keras to 2.10, 0: of later versions, -1: not given */
} pg__compiled;
void pg__compiled_fini(pg__compiled *c);

/* For a full model whose inputs and outputs t knows already; fills nothing if there is no
 * training_config. PG_E_UNSUPPORTED: something that pgfit cannot compute. */
pg_status pg__compiled_of(pg__compiled *out, const pg_trainer *t, const pg_store *file,
                          pg_err *err);

#endif

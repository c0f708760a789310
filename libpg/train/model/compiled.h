/* compiled.h - what Keras calls compiling, as its files tell it: optimizer, loss, metrics. */
#ifndef PG_TRAIN_MODEL_COMPILED_H
#define PG_TRAIN_MODEL_COMPILED_H

#include "train/step/step.h"

/* The trainer's training_config, as its Keras writes it; with the numbers of `o`, the trainer's own
 * optimizer at some time. in_h5: into a legacy full .h5, where Keras 2.15 describes its metrics. */
pg_status pg__compiled_text(pg__str *out, const pg_trainer *t, const pg__optimiser *o, int in_h5,
                            pg_err *err);

/* What a file says, in the words of pg_train_opts; empty: it says nothing. */
typedef struct pg__compiled {
    pg__str optimizer, loss, loss_weights; /* optimizer: {"class_name", "config"} */
    pg__str metrics, weighted_metrics;
    int legacy; /* rules of Keras to 2.10: 1, of the later ones: 0, not said: -1 */
} pg__compiled;
void pg__compiled_fini(pg__compiled *c);

/* Of a full model whose inputs and outputs t knows already; nothing is filled where there is no
 * training_config. PG_E_UNSUPPORTED: what pgfit cannot compute. */
pg_status pg__compiled_of(pg__compiled *out, const pg_trainer *t, const pg_store *file,
                          pg_err *err);

#endif

/* slots.h - the optimizer's state as Keras' files list it. Only the order matters: names are
 * arbitrary, and every generation has its own order (slots.c). */
#ifndef PG_TRAIN_MODEL_SLOTS_H
#define PG_TRAIN_MODEL_SLOTS_H

#include "train/step/step.h"

typedef enum pg__era {
    PG_ERA_2_2,   /* standalone Keras to 2.2 */
    PG_ERA_2_3,   /* and 2.3 */
    PG_ERA_OLD,   /* tf.keras to 2.10, keras.optimizers.legacy since */
    PG_ERA_NEW,   /* Keras 2.11 to 2.15 */
    PG_ERA_THREE, /* Keras 3 */
} pg__era;

typedef enum pg__state_kind {
    PG_STATE_STEPS,   /* int64 scalar: updates made */
    PG_STATE_RATE,    /* the learning rate */
    PG_STATE_PRODUCT, /* Nadam: product of the momenta so far */
    PG_STATE_SLOT,    /* of one parameter */
    PG_STATE_ZEROS,   /* shaped like a parameter, unused */
    PG_STATE_ZERO     /* one element, unused */
} pg__state_kind;

typedef struct pg__state_entry {
    pg__state_kind kind;
    size_t slot, param;
} pg__state_entry;

typedef struct pg__state_list {
    pg__state_entry *v;
    size_t n, cap;
} pg__state_list;

/* The era of the trainer's own files. */
pg__era pg__era_of(const pg_trainer *t);

/* The list of a file of that era, in its order: as the trainer's Keras writes it, or else the other
 * variant. Standalone Keras from 2.1 on adds one-element slots for Adam without amsgrad; Keras 3
 * lists the learning rate unless a schedule sets it. */
pg_status pg__state_list_of(pg__state_list *out, const pg_trainer *t, pg__era era, int as_written,
                            pg_err *err);
void pg__state_list_fini(pg__state_list *l);

/* "Adam/m/dense/kernel:0": the name of an entry in that era. */
pg_status pg__state_name(pg__str *out, const pg_trainer *t, pg__era era, const pg__state_entry *e,
                         pg_err *err);

/* Visits the entries of the trainer's own list with their tensors in a file, i in the state; *found
 * 0: the file has n tensors of state, but not that list. */
typedef pg_status (*pg__state_visit)(void *ctx, const pg__state_entry *e, pg_store *file, size_t i,
                                     pg_err *err);
pg_status pg__state_walk(int *found, size_t *n, const pg_trainer *t, pg_store *file,
                         pg__state_visit visit, void *ctx, pg_err *err);

/* Tensor i of a file's state, a scalar. */
pg_status pg__state_number(double *out, pg_store *file, size_t i, pg_err *err);

/* Takes the optimizer's state from a file, and notes that, or why not; name: the file's. */
pg_status pg__state_take(pg_trainer *t, pg_store *file, const char *name, pg_err *err);

#endif

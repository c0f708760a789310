/* penalty.h - what a layer's config requires of its variables: regularizers, which add to loss and
 * gradient, and constraints, which hold after every update. */
#ifndef PG_TRAIN_RULES_PENALTY_H
#define PG_TRAIN_RULES_PENALTY_H

#include "model/lower/lower.h"

typedef enum pg__constraint_kind {
    PG_FREE,
    PG_MAX_NORM,
    PG_NON_NEG,
    PG_UNIT_NORM,
    PG_MIN_MAX_NORM
} pg__constraint_kind;

typedef struct pg__penalty {
    double l1, l2; /* l1 sum |w| + l2 sum w^2 */
    pg__constraint_kind constraint;
    double min, max, rate;
    unsigned axes; /* bit i: the norm runs over axis i */
} pg__penalty;

/* From the layer's "<variable>_regularizer" and "<variable>_constraint". PG_E_UNSUPPORTED names one
 * that is not Keras', or not supported. */
pg_status pg__penalty_of(pg__penalty *out, const pg__param *p, pg_err *err);

/* Brings w (shape as given, doubles) within its constraint. */
void pg__constrain(const pg__penalty *p, const pg__dims *shape, double *w);

#endif

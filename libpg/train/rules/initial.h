/* initial.h - initial values of weights that no file provides. */
#ifndef PG_TRAIN_RULES_INITIAL_H
#define PG_TRAIN_RULES_INITIAL_H

#include "model/lower/lower.h"

/* Fills out[0 .. elements of p->shape) as Keras' initializers would, by the config of its layer:
 * "kernel_initializer" and the like, or the class' default. number: of the parameter; seed: of the
 * run. PG_E_UNSUPPORTED names an initializer that is not Keras'. */
pg_status pg__initial_values(double *out, const pg__param *p, size_t number, uint64_t seed,
                             pg_err *err);

#endif

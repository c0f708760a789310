/* facts.h - what a run is made of, by name, so that another one is told apart and told why. */
#ifndef PG_TRAIN_FIT_FACTS_H
#define PG_TRAIN_FIT_FACTS_H

#include "train/fit/callback.h"

/* Lines of "name\tvalue\n", of the model, how it was compiled, the data's shape, the options of
 * fit() that the numbers depend on, and callbacks. */
pg_status pg__facts_of(pg__str *out, const pg__fit *f, pg_err *err);

/* PG_E_MISMATCH names what is different in `then` (as pg__facts_of() made it), and both values. */
pg_status pg__facts_compare(const pg__str *now, const char *then, pg_err *err);

#endif

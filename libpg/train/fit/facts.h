/* facts.h - what the numbers of a run depend on, by name, so that a different run is refused with
 * the reason. */
#ifndef PG_TRAIN_FIT_FACTS_H
#define PG_TRAIN_FIT_FACTS_H

#include "train/fit/callback.h"

/* Lines of "name\tvalue\n": the model, how it was compiled, the data's shape, the options of fit()
 * that affect the numbers, and callbacks. */
pg_status pg__facts_of(pg__str *out, const pg__fit *f, pg_err *err);

/* PG_E_MISMATCH names the fact that differs in `then` (from pg__facts_of()), and both values. */
pg_status pg__facts_compare(const pg__str *now, const char *then, pg_err *err);

#endif

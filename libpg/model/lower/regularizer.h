/* regularizer.h - the term that a layer's config adds to the loss for a value: l1 sum |v| + l2 sum
 * v^2. */
#ifndef PG_MODEL_LOWER_REGULARIZER_H
#define PG_MODEL_LOWER_REGULARIZER_H

#include "base/json.h"
#include "pg/err.h"

/* A config value as name and own config: "l2", {"class_name": "L2", "config": {"l2": 0.01}}, and
 * Keras 1's {"name": "L1L2Regularizer", "l2": 0.01}. */
typedef struct pg__named {
    const char *name; /* NULL: none */
    const pg__json *config;
} pg__named;
pg__named pg__named_of(const pg__json *value);

/* Both are 0 if there is none. PG_E_UNSUPPORTED names the layer and a regularizer that is not
 * Keras'. */
pg_status pg__regularizer_of(const pg__json *value, const char *layer, double *l1, double *l2,
                             pg_err *err);

#endif

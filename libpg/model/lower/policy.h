/* policy.h - the dtype of a layer, which Keras writes as a name or as a policy. */
#ifndef PG_MODEL_LOWER_POLICY_H
#define PG_MODEL_LOWER_POLICY_H

#include "model/graph/graph.h"
#include "ops/op.h"

/* "float32", "mixed_float16", ...; NULL: it says none. */
const char *pg__layer_policy(const pg__layer *l);

/* The type in which a policy lets a layer compute: PG_ELEM_BF16 or PG_ELEM_F16 if it is of that
 * type, or mixed with it; otherwise PG_ELEM_REAL. NULL is allowed. */
pg__elem pg__policy_elem(const char *policy);

#endif

/* policy.c - see policy.h. Keras 2: {"class_name": "Policy", "config": {"name": "mixed_float16"}},
 * Keras 3: the same as "DTypePolicy"; both: "float32" by its name alone. */
#include "model/lower/policy.h"

#include <string.h>

#include "base/json.h"

const char *pg__layer_policy(const pg__layer *l)
{
    const pg__json *dtype = pg__json_get(l->config, "dtype");
    return pg__json_type_of(dtype) == PG_J_OBJECT
               ? pg__json_get_str(pg__json_get(dtype, "config"), "name")
               : pg__json_str(dtype);
}

pg__elem pg__policy_elem(const char *policy)
{
    const char *type = policy && strncmp(policy, "mixed_", 6) == 0 ? policy + 6 : policy;
    if (type && strcmp(type, "bfloat16") == 0)
        return PG_ELEM_BF16;
    return type && strcmp(type, "float16") == 0 ? PG_ELEM_F16 : PG_ELEM_REAL;
}

/* config_check.c - checks the config of every layer before it is made, for settings that would
 * silently mean something else. Keras refuses all of them. */
#include <string.h>

#include "base/try.h"
#include "model/lower/policy.h"
#include "model/lower/spatial.h"

static pg_status check_choice(const pg__layer *l, const char *key, const char *a, const char *b,
                              pg_err *err)
{
    const char *is = pg__json_get_str(l->config, key);
    if (!pg__config_has(l, key) || (is && (strcmp(is, a) == 0 || strcmp(is, b) == 0)))
        return PG_OK;
    return pg_fail(err, PG_E_UNSUPPORTED, "%s: \"%s\" is neither %s nor %s", PG_SHOW(l->name), key,
                   a, b);
}

static pg_status check_data_format(const pg__layer *l, pg_err *err)
{
    const pg_status st = check_choice(l, "data_format", "channels_last", "channels_first", err);
    return st == PG_OK ? check_choice(l, "dim_ordering", "tf", "th", err) : st;
}

pg_status pg__check_flags(const pg__layer *l, pg_err *err)
{
    static const char *const flags[] = {"causal",
                                        "center",
                                        "crop_to_aspect_ratio",
                                        "go_backwards",
                                        "keepdims",
                                        "mask_zero",
                                        "normalize",
                                        "pad_to_aspect_ratio",
                                        "rms_scaling",
                                        "reset_after",
                                        "return_sequences",
                                        "return_state",
                                        "stateful",
                                        "time_major",
                                        "use_bias",
                                        "use_scale",
                                        "pad_to_max_tokens",
                                        "sparse",
                                        "invert",
                                        "zero_output_for_mask"};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (pg__json_type_of(pg__json_get(l->config, flags[i])) > PG_J_REAL)
            return pg_fail(err, PG_E_FORMAT, "%s: \"%s\" is neither true nor false",
                           PG_SHOW(l->name), flags[i]);
    return PG_OK;
}

/* A hand-edited file: other layers name this one by its entry, variables by its config. */
static pg_status check_name(const pg__layer *l, pg_err *err)
{
    const char *name = pg__json_get_str(l->config, "name");
    if (!name || strcmp(name, l->name) == 0 ||
        strcmp(l->class_name, "TensorFlowOpLayer") == 0) /* "tf_op_layer_add" of the node "add" */
        return PG_OK;
    return pg_fail(err, PG_E_FORMAT, "%s: its config has the \"name\" %s", PG_SHOW(l->name),
                   PG_SHOW(name));
}

/* Keras' and numpy's names of types, and the names of its policies in all releases. */
static pg_status check_type(const pg__layer *l, pg_err *err)
{
    static const char *const types[] = {"bfloat16", "bool",    "complex64", "complex128", "double",
                                        "float",    "float16", "float32",   "float64",    "half",
                                        "int",      "int8",    "int16",     "int32",      "int64",
                                        "string",   "uint8",   "uint16",    "uint32",     "uint64"};
    const char *policy = pg__layer_policy(l);
    if (!policy || strncmp(policy, "mixed_", 6) == 0 || strstr(policy, "infer") ||
        strstr(policy, "_from_") || PG_IS_ANY(policy, types))
        return PG_OK;
    return pg_fail(err, PG_E_FORMAT, "%s: \"dtype\" %s is not a type", PG_SHOW(l->name),
                   PG_SHOW(policy));
}

pg_status pg__check_config(const pg__layer *l, pg_err *err)
{
    pg_status st = PG_OK;
    PG_TRY(check_name(l, err));
    PG_TRY(check_type(l, err));
    PG_TRY(check_data_format(l, err));
    PG_TRY(pg__check_flags(l, err));
done:
    return st;
}

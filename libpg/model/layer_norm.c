/* layer_norm.c - normalisation. Statistics are no trainable variables: in a wrapper's file they
 * stand behind all trainable ones. Keras 1's "running_std" is a variance. */
#include "base/try.h"
#include "model/layers.h"

static const uint64_t any = PG_DIM_ANY;

/* Is the normalised axis a single one, so that parameters are vectors? */
static int one_axis(const pg__layer *l)
{
    const pg__json *axis = pg__json_get(l->config, "axis");
    return pg__json_type_of(axis) != PG_J_ARRAY || pg__json_len(axis) == 1;
}

static pg_status add(pg__vars *out, int vector, const char *name, const char *alt, int trainable,
                     pg_err *err)
{
    return vector ? pg__vars_add(out, name, alt, trainable, 1, &any, err)
                  : pg__vars_add_any(out, name, alt, trainable, err);
}

pg_status pg__vars_batch_norm(pg__vars *out, const pg__layer *l, int dialect, pg_err *err)
{
    const int vector = one_axis(l) && !pg__config_has(l, "virtual_batch_size");
    pg_status st = PG_OK;
    (void)dialect;
    if (pg__config_bool(l, "renorm", 0)) /* more statistics, in a number that changed */
        return pg__vars_unknown(out);
    if (pg__config_bool(l, "scale", 1))
        PG_TRY(add(out, vector, "gamma", "", 1, err));
    if (pg__config_bool(l, "center", 1))
        PG_TRY(add(out, vector, "beta", "", 1, err));
    PG_TRY(add(out, vector, "moving_mean", "running_mean", 0, err));
    PG_TRY(add(out, vector, "moving_variance", "running_std", 0, err));
done:
    return st;
}

/* LayerNormalization, GroupNormalization. */
pg_status pg__vars_scale_norm(pg__vars *out, const pg__layer *l, int dialect, pg_err *err)
{
    const int vector = one_axis(l), rms = pg__config_bool(l, "rms_scaling", 0);
    pg_status st = PG_OK;
    (void)dialect;
    if (pg__config_bool(l, "scale", 1) || rms)
        PG_TRY(add(out, vector, "gamma", "", 1, err));
    if (pg__config_bool(l, "center", 1) && !rms)
        PG_TRY(add(out, vector, "beta", "", 1, err));
done:
    return st;
}

pg_status pg__vars_rms_norm(pg__vars *out, const pg__layer *l, int dialect, pg_err *err)
{
    (void)dialect;
    return add(out, one_axis(l), "scale", "", 1, err);
}

/* Normalization: statistics of the data set, unless the config gives them. */
pg_status pg__vars_normalization(pg__vars *out, const pg__layer *l, int dialect, pg_err *err)
{
    pg_status st = PG_OK;
    (void)dialect;
    if (pg__config_has(l, "mean"))
        return PG_OK;
    PG_TRY(pg__vars_add_any(out, "mean", "", 0, err));
    PG_TRY(pg__vars_add_any(out, "variance", "", 0, err));
    PG_TRY(pg__vars_add(out, "count", "", 0, 0, NULL, err));
done:
    return st;
}

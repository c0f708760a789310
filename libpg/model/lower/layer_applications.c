/* layer_applications.c - layers that keras.applications defines: CustomScaleLayer of
 * InceptionResNetV2, LayerScale and StochasticDepth of ConvNeXt. A .h5 does not show where a class
 * of that name comes from: one with other keys is a different class. */
#include "base/try.h"
#include "model/lower/layers.h"
#include "model/lower/spatial.h"

static pg_status not_keras(const pg__layer *l, const char *key, pg_err *err)
{
    return pg_fail(err, PG_E_UNSUPPORTED, "%s: %s has no \"%s\", it is not Keras' own",
                   PG_SHOW(l->name), PG_SHOW(l->class_name), key);
}

pg_status pg__vars_layer_scale(pg__vars *out, const pg__layer *l, int dialect, pg_err *err)
{
    uint64_t dim;
    pg_status st = PG_OK;
    (void)dialect;
    if (!pg__config_has(l, "init_values") || !pg__config_has(l, "projection_dim"))
        return pg__vars_unknown(out);
    PG_TRY(pg__config_dim(&dim, l, "projection_dim", err));
    PG_TRY(pg__vars_add(out, "gamma", "variable", 1, 1, &dim, err)); /* Keras 3 gives no name */
done:
    return st;
}

pg_status pg__lower_layer_scale(pg__lowering *lw, const pg__layer *l, const pg__val *in,
                                size_t n_in, pg__results *out, pg_err *err)
{
    uint64_t dim;
    pg__val gamma;
    pg_status st = PG_OK;
    PG_TRY(pg__lower_one_input(l, n_in, err));
    if (!pg__config_has(l, "init_values") || !pg__config_has(l, "projection_dim"))
        return not_keras(l, pg__config_has(l, "init_values") ? "projection_dim" : "init_values",
                         err);
    PG_TRY(pg__config_dim(&dim, l, "projection_dim", err));
    PG_TRY(pg__lower_param(lw, "gamma", 1, &dim, &gamma, err));
    out->n = 1;
    PG_TRY(pg__lower_binary(lw, PG_MULTIPLY, in[0], gamma, &out->v[0], err));
done:
    return st;
}

/* The first input and the scaled second. */
pg_status pg__lower_custom_scale(pg__lowering *lw, const pg__layer *l, const pg__val *in,
                                 size_t n_in, pg__results *out, pg_err *err)
{
    pg__affine_attrs a = {.offset = 0};
    pg__val scaled;
    pg_status st = PG_OK;
    if (!pg__config_has(l, "scale"))
        return not_keras(l, "scale", err);
    if (n_in != 2)
        PG_FAIL(PG_E_FORMAT, "%s: %s takes two tensors, is called with %zu", PG_SHOW(l->name),
                l->class_name, n_in);
    PG_TRY(pg__config_num_or(&a.scale, l, l->config, "scale", 1, err));
    PG_TRY(pg__emit1(&lw->to->tape, PG_OP_affine, &a, in[1], &scaled, err));
    out->n = 1;
    PG_TRY(pg__lower_binary(lw, PG_ADD, in[0], scaled, &out->v[0], err));
done:
    return st;
}

/* Drops whole rows and scales the others: a dropout whose noise all other axes share. */
pg_status pg__lower_stochastic_depth(pg__lowering *lw, const pg__layer *l, const pg__val *in,
                                     size_t n_in, pg__results *out, pg_err *err)
{
    double rate = 0;
    pg_status st = PG_OK;
    PG_TRY(pg__lower_one_input(l, n_in, err));
    if (!pg__config_has(l, "drop_path_rate"))
        return not_keras(l, "drop_path_rate", err);
    PG_TRY(pg__config_num_or(&rate, l, l->config, "drop_path_rate", 0, err));
    if (!(rate >= 0 && rate < 1))
        PG_FAIL(PG_E_FORMAT, "%s: \"drop_path_rate\" is not in [0, 1)", PG_SHOW(l->name));
    pg__dims noise = *pg__dims_at(lw, in[0]);
    for (uint32_t i = 1; i < noise.rank; i++)
        noise.d[i] = 1;
    out->n = 1;
    PG_TRY(pg__lower_dropout_of(lw, in[0], rate, &noise, 0, &out->v[0], err));
done:
    return st;
}

/* layer_dropout.c - Dropout, SpatialDropout, which drops whole channels, AlphaDropout,
 * GaussianNoise and GaussianDropout. Outside of training they do nothing, as Identity and
 * ActivityRegularization always do. Sources: keras/layers/regularization and core/identity.py
 * of 2.15 and 3.6. */
#include <math.h>
#include <string.h>

#include "base/try.h"
#include "model/lower/layers.h"
#include "model/lower/spatial.h"

/* "rate", "p" in Keras 1. */
static pg_status read_rate(double *out, const pg__layer *l, pg_err *err)
{
    const pg_status st =
        pg__config_num_or(out, l, l->config, pg__config_has(l, "p") ? "p" : "rate", -1, err);
    if (st != PG_OK)
        return st;
    if (!(*out >= 0 && *out < 1))
        return pg_fail(err, PG_E_FORMAT, "%s: the rate is not in [0, 1)", PG_SHOW(l->name));
    return PG_OK;
}

static pg_status drop(pg__lowering *lw, const pg__layer *l, pg__val x, const pg__dims *noise,
                      int rows_share, pg__results *out, pg_err *err)
{
    double rate;
    pg_status st = PG_OK;
    PG_TRY(read_rate(&rate, l, err));
    out->n = 1;
    PG_TRY(pg__lower_dropout_of(lw, x, rate, noise, rows_share, &out->v[0], err));
    if (out->v[0] == x && !lw->opts->rules->keras3) /* Keras 2 calls tf.identity() */
        PG_TRY(pg__lower_copy(lw, x, &out->v[0], err));
    PG_TRY(pg__pass_mask(lw, x, out->v[0], err));
done:
    return st;
}

/* noise_shape: null if an axis has its full size, 1 if it shares the noise. */
static pg_status read_noise(const pg__layer *l, pg__dims *noise, int *rows_share, pg_err *err)
{
    const pg__json *list = pg__json_get(l->config, "noise_shape");
    const int given = pg__json_type_of(list) > PG_J_NULL;
    *rows_share = 0;
    for (uint32_t i = 0; given && i < noise->rank; i++) {
        const pg__json *at = pg__json_len(list) == noise->rank ? pg__json_at(list, i) : NULL;
        int64_t v = 0;
        if (at && pg__json_type_of(at) == PG_J_NULL)
            continue;
        if (!pg__json_int(at, &v) || (v != 1 && !(i > 0 && v > 0 && (uint64_t)v == noise->d[i])))
            return pg_fail(err, PG_E_MISMATCH, "\"noise_shape\" does not fit the input %s",
                           PG_SHAPE(noise));
        *rows_share |= i == 0;
        noise->d[i] = v == 1 ? 1 : noise->d[i];
    }
    return PG_OK;
}

pg_status pg__lower_dropout_layer(pg__lowering *lw, const pg__layer *l, const pg__val *in,
                                  size_t n_in, pg__results *out, pg_err *err)
{
    int rows_share;
    pg_status st = PG_OK;
    PG_TRY(pg__lower_one_input(l, n_in, err));
    pg__dims noise = *pg__dims_at(lw, in[0]);
    PG_TRY(read_noise(l, &noise, &rows_share, err));
    PG_TRY(drop(lw, l, in[0], &noise, rows_share, out, err));
done:
    return st;
}

/* Dropped elements get the limit of SELU, and all are scaled and shifted so that mean and variance
 * stay. */
pg_status pg__lower_alpha_dropout(pg__lowering *lw, const pg__layer *l, const pg__val *in,
                                  size_t n_in, pg__results *out, pg_err *err)
{
    const double least = -1.6732632423543772848170429916717 * 1.0507009873554804934193349852946;
    int rows_share;
    double rate;
    pg__val kept, rest;
    pg_status st = PG_OK;
    PG_TRY(pg__lower_one_input(l, n_in, err));
    pg__dims noise = *pg__dims_at(lw, in[0]);
    PG_TRY(read_noise(l, &noise, &rows_share, err));
    PG_TRY(read_rate(&rate, l, err));
    PG_TRY(pg__lower_noise(lw, rate, &noise, rows_share, &kept, err)); /* 0 or 1 / (1 - rate) */
    out->n = 1;
    out->v[0] = in[0];
    if (kept == PG_NO_VAL)
        return PG_OK;
    const double a = 1 / sqrt((1 - rate) * (1 + rate * least * least)), b = -a * least * rate;
    const pg__affine_attrs factor = {a * (1 - rate), 0},
                           offset = {-a * least * (1 - rate), a * least + b};
    PG_TRY(pg__emit1(&lw->to->tape, PG_OP_affine, &offset, kept, &rest, err));
    PG_TRY(pg__emit1(&lw->to->tape, PG_OP_affine, &factor, kept, &kept, err));
    PG_TRY(pg__lower_binary(lw, PG_MULTIPLY, in[0], kept, &out->v[0], err));
    PG_TRY(pg__lower_binary(lw, PG_ADD, out->v[0], rest, &out->v[0], err));
    PG_TRY(pg__pass_mask(lw, in[0], out->v[0], err));
done:
    return st;
}

/* x + deviation * noise, or x times 1 + deviation * noise. */
static pg_status add_normal(pg__lowering *lw, pg__binary_kind kind, double deviation, pg__val x,
                            pg__results *out, pg_err *err)
{
    const pg__affine_attrs spread = {deviation, kind == PG_MULTIPLY ? 1 : 0};
    pg__val noise;
    pg_status st = PG_OK;
    out->n = 1;
    out->v[0] = x;
    PG_TRY(pg__lower_normal(lw, pg__dims_at(lw, x), &noise, err));
    if (noise == PG_NO_VAL || deviation == 0)
        return PG_OK;
    PG_TRY(pg__emit1(&lw->to->tape, PG_OP_affine, &spread, noise, &noise, err));
    PG_TRY(pg__lower_binary(lw, kind, x, noise, &out->v[0], err));
    PG_TRY(pg__pass_mask(lw, x, out->v[0], err));
done:
    return st;
}

/* "stddev", "sigma" in Keras 1. */
pg_status pg__lower_gaussian_noise(pg__lowering *lw, const pg__layer *l, const pg__val *in,
                                   size_t n_in, pg__results *out, pg_err *err)
{
    double deviation;
    pg_status st = PG_OK;
    PG_TRY(pg__lower_one_input(l, n_in, err));
    PG_TRY(pg__config_num_or(&deviation, l, l->config,
                             pg__config_has(l, "sigma") ? "sigma" : "stddev", -1, err));
    if (!(deviation >= 0 && deviation <= 1e30))
        PG_FAIL(PG_E_FORMAT, "%s: \"stddev\" must be a number from 0 on", PG_SHOW(l->name));
    PG_TRY(add_normal(lw, PG_ADD, deviation, in[0], out, err));
done:
    return st;
}

pg_status pg__lower_gaussian_dropout(pg__lowering *lw, const pg__layer *l, const pg__val *in,
                                     size_t n_in, pg__results *out, pg_err *err)
{
    double rate;
    pg_status st = PG_OK;
    PG_TRY(pg__lower_one_input(l, n_in, err));
    PG_TRY(read_rate(&rate, l, err));
    PG_TRY(add_normal(lw, PG_MULTIPLY, sqrt(rate / (1 - rate)), in[0], out, err));
done:
    return st;
}

/* lower.c adds to the loss what the layer is there for. */
pg_status pg__lower_activity(pg__lowering *lw, const pg__layer *l, const pg__val *in, size_t n_in,
                             pg__results *out, pg_err *err)
{
    (void)lw;
    out->n = 1;
    out->v[0] = in[0];
    return pg__lower_one_input(l, n_in, err);
}

/* As many results as tensors. Masks end here in Keras 2. */
pg_status pg__lower_identity(pg__lowering *lw, const pg__layer *l, const pg__val *in, size_t n_in,
                             pg__results *out, pg_err *err)
{
    pg_status st = PG_OK;
    if (n_in < 1 || n_in > PG_MAX_OUTPUTS)
        PG_FAIL(PG_E_LIMIT, "%s: is called with %zu tensors", PG_SHOW(l->name), n_in);
    out->n = n_in;
    for (size_t k = 0; k < n_in; k++) {
        const pg__reshape_attrs same = {.to = *pg__dims_at(lw, in[k])};
        out->v[k] = in[k];
        if (!lw->opts->rules->keras3 && pg__mask_of(lw, in[k]) != PG_NO_VAL)
            PG_TRY(pg__emit1(&lw->to->tape, PG_OP_reshape, &same, in[k], &out->v[k], err));
        else if (!lw->opts->rules->keras3)
            PG_TRY(pg__lower_copy(lw, in[k], &out->v[k], err));
    }
done:
    return st;
}

pg_status pg__lower_spatial_dropout(pg__lowering *lw, const pg__layer *l, const pg__val *in,
                                    size_t n_in, pg__results *out, pg_err *err)
{
    const uint32_t rank = pg__spatial_rank(l->class_name + strlen("SpatialDropout"));
    const uint32_t first = pg__is_channels_first(l) ? 2 : 1;
    pg_status st = PG_OK;
    PG_TRY(pg__lower_one_input(l, n_in, err));
    pg__dims noise = *pg__dims_at(lw, in[0]);
    if (noise.rank != rank + 2)
        PG_FAIL(PG_E_MISMATCH, "input %s does not have %u spatial dimensions", PG_SHAPE(&noise),
                rank);
    for (uint32_t i = 0; i < rank; i++)
        noise.d[first + i] = 1;
    PG_TRY(drop(lw, l, in[0], &noise, 0, out, err));
done:
    return st;
}

/* layer_dropout.c - Dropout, and SpatialDropout, which drops whole channels. Outside of training
 * they do nothing. */
#include <string.h>

#include "base/try.h"
#include "model/layers.h"
#include "model/spatial.h"

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
    PG_TRY(pg__pass_mask(lw, x, out->v[0], err));
done:
    return st;
}

/* noise_shape: null where an axis has its full size, 1 where it shares the noise. */
pg_status pg__lower_dropout_layer(pg__lowering *lw, const pg__layer *l, const pg__val *in,
                                  size_t n_in, pg__results *out, pg_err *err)
{
    const pg__json *list = pg__json_get(l->config, "noise_shape");
    const int given = pg__json_type_of(list) > PG_J_NULL;
    int rows_share = 0;
    pg_status st = PG_OK;
    PG_TRY(pg__lower_one_input(l, n_in, err));
    pg__dims noise = *pg__dims_at(lw, in[0]);
    for (uint32_t i = 0; given && i < noise.rank; i++) {
        const pg__json *at = pg__json_len(list) == noise.rank ? pg__json_at(list, i) : NULL;
        int64_t v = 0;
        if (at && pg__json_type_of(at) == PG_J_NULL)
            continue;
        if (!pg__json_int(at, &v) || (v != 1 && !(i > 0 && v > 0 && (uint64_t)v == noise.d[i])))
            PG_FAIL(PG_E_MISMATCH, "\"noise_shape\" does not fit the input %s", PG_SHAPE(&noise));
        rows_share |= i == 0;
        noise.d[i] = 1;
    }
    PG_TRY(drop(lw, l, in[0], &noise, rows_share, out, err));
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
        PG_FAIL(PG_E_MISMATCH, "input %s has not %u spatial dimensions", PG_SHAPE(&noise), rank);
    for (uint32_t i = 0; i < rank; i++)
        noise.d[first + i] = 1;
    PG_TRY(drop(lw, l, in[0], &noise, 0, out, err));
done:
    return st;
}

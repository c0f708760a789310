/* layer_pad.c - layers that change the number of cells of an image: ZeroPadding, Cropping,
 * UpSampling. */
#include <string.h>

#include "base/try.h"
#include "model/lower/layers.h"
#include "model/lower/resample.h"
#include "model/lower/spatial.h"

/* Cells at both ends of every axis: one number; one per axis; a pair per axis; in one dimension a
 * pair; in two dimensions of Keras 1 (top, bottom, left, right). */
static pg_status read_ends(int64_t (*ends)[2], uint32_t rank, const pg__layer *l, const char *key,
                           pg_err *err)
{
    const pg__json *j = pg__json_get(l->config, key);
    const size_t n = pg__json_len(j);
    const int is_list = pg__json_type_of(j) == PG_J_ARRAY;
    for (uint32_t i = 0; i < rank; i++)
        for (uint32_t k = 0; k < 2; k++) {
            const pg__json *at = is_list ? pg__json_at(j, n == 2 * rank ? 2 * i + k : i) : j;
            int64_t v = 0;
            if (is_list && n != rank && n != 2 * rank)
                at = NULL;
            if (pg__json_type_of(at) == PG_J_ARRAY)
                at = pg__json_len(at) == 2 ? pg__json_at(at, k) : NULL;
            if (pg__json_type_of(j) <= PG_J_NULL)
                v = 1; /* the default of both layers */
            else if (!at || !pg__json_int(at, &v) || v < 0 || v > INT32_MAX)
                return pg_fail(err, PG_E_FORMAT,
                               "%s: \"%s\" does not say how many cells at each end",
                               PG_SHOW(l->name), key);
            ends[i][k] = v;
        }
    return PG_OK;
}

static pg_status pad(pg__lowering *lw, const pg__layer *l, const pg__val *in, size_t n_in,
                     const char *key, int sign, pg__results *out, pg_err *err)
{
    const uint32_t rank = pg__spatial_rank(l->class_name), first = pg__is_channels_first(l) ? 2 : 1;
    int64_t ends[PG_MAX_SPATIAL][2];
    pg__pad_attrs a = {.before = {0}};
    pg_status st = PG_OK;
    PG_TRY(pg__lower_one_input(l, n_in, err));
    if (pg__dims_at(lw, in[0])->rank != rank + 2)
        PG_FAIL(PG_E_MISMATCH, "input %s does not have %u spatial dimensions",
                PG_SHAPE(pg__dims_at(lw, in[0])), rank);
    PG_TRY(read_ends(ends, rank, l, key, err));
    for (uint32_t i = 0; i < rank; i++) {
        a.before[first + i] = sign * ends[i][0];
        a.after[first + i] = sign * ends[i][1];
    }
    out->n = 1;
    PG_TRY(pg__emit1(&lw->to->tape, PG_OP_pad, &a, in[0], &out->v[0], err));
done:
    return st;
}

pg_status pg__lower_zero_padding(pg__lowering *lw, const pg__layer *l, const pg__val *in,
                                 size_t n_in, pg__results *out, pg_err *err)
{
    return pad(lw, l, in, n_in, "padding", 1, out, err);
}

pg_status pg__lower_cropping(pg__lowering *lw, const pg__layer *l, const pg__val *in, size_t n_in,
                             pg__results *out, pg_err *err)
{
    return pad(lw, l, in, n_in, "cropping", -1, out, err);
}

/* Repeats cells, or in two dimensions interpolates. Cases that the operation does not cover are
 * done as for any size. */
pg_status pg__lower_up_sampling(pg__lowering *lw, const pg__layer *l, const pg__val *in,
                                size_t n_in, pg__results *out, pg_err *err)
{
    const char *key = pg__config_has(l, "length") ? "length" : "size"; /* Keras 1's 1D */
    pg__resize_attrs a = {.rank = pg__spatial_rank(l->class_name)};
    pg__resample how = PG_NEAREST;
    pg__val x, y;
    pg_status st = PG_OK;
    PG_TRY(pg__lower_one_input(l, n_in, err));
    if (a.rank == 2)
        PG_TRY(pg__config_resample(&how, l, PG_NEAREST, err));
    PG_TRY(pg__config_dims_or(a.factor, a.rank, l, key, 2, err));
    PG_TRY(pg__to_channels_last(lw, l, a.rank, in[0], &x, err));
    a.bilinear = how == PG_BILINEAR;
    if (how == PG_NEAREST || how == PG_BILINEAR) {
        PG_TRY(pg__emit1(&lw->to->tape, PG_OP_resize, &a, x, &y, err));
    } else {
        const pg__dims *d = pg__dims_at(lw, x);
        const uint64_t size[2] = {pg__dim_mul(d->d[1], a.factor[0]),
                                  pg__dim_mul(d->d[2], a.factor[1])};
        PG_TRY(pg__lower_resample(lw, how, x, size, &y, err));
    }
    out->n = 1;
    PG_TRY(pg__from_channels_last(lw, l, y, &out->v[0], err));
done:
    return st;
}

/* layer_resize.c - Resizing and CenterCrop: images of a given size. Sources:
 * keras/layers/preprocessing/image_preprocessing of 2.15 and 3.6, smart_resize() of both. */
#include <string.h>

#include "base/try.h"
#include "model/lower/layers.h"
#include "model/lower/resample.h"
#include "model/lower/resizing.h"
#include "model/lower/spatial.h"

pg_status pg__image_size(uint64_t out[2], pg__lowering *lw, const pg__layer *l, pg__val x,
                         pg_err *err)
{
    const pg__dims *d = pg__dims_at(lw, x);
    pg_status st = PG_OK;
    PG_TRY(pg__config_dim(&out[0], l, "height", err));
    PG_TRY(pg__config_dim(&out[1], l, "width", err));
    if (d->d[1] == PG_DIM_ANY || d->d[2] == PG_DIM_ANY || d->d[1] == 0 || d->d[2] == 0)
        PG_FAIL(PG_E_MISMATCH, "input %s: the image size must be known to resize images",
                PG_SHAPE(d));
done:
    return st;
}

pg_status pg__lower_window(pg__lowering *lw, pg__val x, const uint64_t first[2],
                           const uint64_t size[2], pg__val *out, pg_err *err)
{
    const pg__dims *d = pg__dims_at(lw, x);
    pg__pad_attrs a = {.before = {0}};
    *out = x;
    if (d->d[1] == size[0] && d->d[2] == size[1])
        return PG_OK;
    for (uint32_t i = 0; i < 2; i++) {
        a.before[i + 1] = -(int64_t)first[i];
        a.after[i + 1] = (int64_t)first[i] + (int64_t)size[i] - (int64_t)d->d[i + 1];
    }
    return pg__emit1(&lw->to->tape, PG_OP_pad, &a, x, out, err);
}

/* a b / c, as floats give it, but at least 1 */
static uint64_t part(uint64_t a, uint64_t b, uint64_t c)
{
    const float v = (float)pg__dim_mul(a, b) / (float)c;
    return v < 1 ? 1 : v >= (float)INT32_MAX ? INT32_MAX : (uint64_t)v;
}

pg_status pg__lower_smart_resize(pg__lowering *lw, pg__resample how, pg__val x,
                                 const uint64_t size[2], pg__val *out, pg_err *err)
{
    const pg__dims *d = pg__dims_at(lw, x);
    const uint64_t h = d->d[1], w = d->d[2];
    const uint64_t fit_h = part(w, size[0], size[1]), fit_w = part(h, size[1], size[0]);
    const uint64_t window[2] = {fit_h < h ? fit_h : h, fit_w < w ? fit_w : w};
    const uint64_t first[2] = {(h - window[0]) / 2, (w - window[1]) / 2};
    pg_status st = PG_OK;
    PG_TRY(pg__lower_window(lw, x, first, window, out, err));
    PG_TRY(pg__lower_resample(lw, how, *out, size, out, err));
done:
    return st;
}

/* Adds cells of `value` around x, so that it has the proportions of the size; equally many on both
 * sides, without the odd one, as in Keras. */
static pg_status pad_to(pg__lowering *lw, const pg__layer *l, pg__val x, const uint64_t size[2],
                        pg__val *out, pg_err *err)
{
    const pg__dims d = *pg__dims_at(lw, x);
    const uint64_t fit[2] = {part(d.d[2], size[0], size[1]), part(d.d[1], size[1], size[0])};
    pg__pad_attrs a = {.before = {0}};
    pg__affine_attrs shift = {.scale = 1};
    pg_status st = PG_OK;
    PG_TRY(pg__config_num_or(&shift.offset, l, l->config, "fill_value", 0, err));
    for (uint32_t i = 0; i < 2; i++)
        a.before[i + 1] = a.after[i + 1] =
            fit[i] > d.d[i + 1] ? (int64_t)((fit[i] - d.d[i + 1]) / 2) : 0;
    *out = x;
    if (a.before[1] == 0 && a.before[2] == 0)
        goto done;
    const pg__affine_attrs back = {.scale = 1, .offset = shift.offset};
    shift.offset = -shift.offset;
    if (back.offset != 0)
        PG_TRY(pg__emit1(&lw->to->tape, PG_OP_affine, &shift, *out, out, err));
    PG_TRY(pg__emit1(&lw->to->tape, PG_OP_pad, &a, *out, out, err));
    if (back.offset != 0)
        PG_TRY(pg__emit1(&lw->to->tape, PG_OP_affine, &back, *out, out, err));
done:
    return st;
}

pg_status pg__lower_resizing(pg__lowering *lw, const pg__layer *l, const pg__val *in, size_t n_in,
                             pg__results *out, pg_err *err)
{
    const int crops = pg__config_bool(l, "crop_to_aspect_ratio", 0);
    const int pads = pg__config_bool(l, "pad_to_aspect_ratio", 0);
    const char *fill = pg__json_get_str(l->config, "fill_mode");
    uint64_t size[2];
    pg__resample how;
    pg__val x;
    pg_status st = PG_OK;
    PG_TRY(pg__lower_one_input(l, n_in, err));
    PG_TRY(pg__config_resample(&how, l, PG_BILINEAR, err));
    PG_TRY(pg__to_channels_last(lw, l, 2, in[0], &x, err));
    PG_TRY(pg__image_size(size, lw, l, x, err));
    if (crops && pads)
        PG_FAIL(PG_E_FORMAT,
                "%s: \"crop_to_aspect_ratio\" and \"pad_to_aspect_ratio\" exclude each other",
                PG_SHOW(l->name));
    if (pads && pg__config_has(l, "fill_mode") && !(fill && strcmp(fill, "constant") == 0))
        PG_FAIL(PG_E_UNSUPPORTED, "%s: \"fill_mode\" is not constant", PG_SHOW(l->name));
    if (pads)
        PG_TRY(pad_to(lw, l, x, size, &x, err));
    PG_TRY(crops ? pg__lower_smart_resize(lw, how, x, size, &x, err)
                 : pg__lower_resample(lw, how, x, size, &x, err));
    out->n = 1;
    PG_TRY(pg__from_channels_last(lw, l, x, &out->v[0], err));
done:
    return st;
}

/* The centre of the image; an image that is too small is enlarged. */
pg_status pg__lower_center_crop(pg__lowering *lw, const pg__layer *l, const pg__val *in,
                                size_t n_in, pg__results *out, pg_err *err)
{
    uint64_t size[2];
    pg__val x;
    pg_status st = PG_OK;
    PG_TRY(pg__lower_one_input(l, n_in, err));
    PG_TRY(pg__to_channels_last(lw, l, 2, in[0], &x, err));
    PG_TRY(pg__image_size(size, lw, l, x, err));
    const pg__dims *d = pg__dims_at(lw, x);
    if (d->d[1] >= size[0] && d->d[2] >= size[1]) {
        const uint64_t first[2] = {(d->d[1] - size[0]) / 2, (d->d[2] - size[1]) / 2};
        PG_TRY(pg__lower_window(lw, x, first, size, &x, err));
    } else {
        PG_TRY(pg__lower_smart_resize(lw, PG_BILINEAR, x, size, &x, err));
    }
    out->n = 1;
    PG_TRY(pg__from_channels_last(lw, l, x, &out->v[0], err));
done:
    return st;
}

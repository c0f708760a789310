/* layer_augment.c - random changes of images during training: RandomFlip, RandomTranslation,
 * RandomRotation, RandomZoom, RandomCrop, RandomContrast, RandomBrightness. The distributions are
 * Keras', the random numbers our own. Outside of training, images stay the same. Sources:
 * keras/layers/preprocessing of 2.15 and 3.6. */
#include <math.h>
#include <string.h>

#include "base/try.h"
#include "model/lower/layers.h"
#include "model/lower/resizing.h"
#include "model/lower/spatial.h"

static const double turn = 6.283185307179586;

static pg__tape *tape(pg__lowering *lw)
{
    return &lw->to->tape;
}

/* Numbers for every row of x, or some for all of them. */
static pg_status draw(pg__lowering *lw, pg__val x, pg__uniform_attrs *a, uint64_t columns,
                      pg__val *out, pg_err *err)
{
    pg__val step;
    pg_status st = PG_OK;
    a->stream = lw->to->n_streams++;
    a->fold = lw->fold;
    a->to =
        pg__dims_of(2, (const uint64_t[]){a->rows_share ? 1 : pg__dims_at(lw, x)->d[0], columns});
    PG_TRY(pg__lower_step(lw, &step, err));
    PG_TRY(pg__emit1(tape(lw), PG_OP_uniform, a, step, out, err));
done:
    return st;
}

/* ---- the config ---- */

/* config.key: two numbers, or one, f, for -f and f. */
static pg_status read_bounds(double out[2], const pg__layer *l, const char *key, double least,
                             double most, pg_err *err)
{
    const pg__json *j = pg__json_get(l->config, key);
    const int is_list = pg__json_type_of(j) == PG_J_ARRAY;
    for (size_t i = 0; i < 2; i++)
        if ((is_list && pg__json_len(j) != 2) ||
            !pg__json_num(is_list ? pg__json_at(j, i) : j, &out[i]) || !(out[i] >= least) ||
            !(out[i] <= most))
            return pg_fail(err, PG_E_FORMAT, "%s: \"%s\" must be one or two numbers from %g to %g",
                           PG_SHOW(l->name), key, least, most);
    if (!is_list) {
        out[1] = fabs(out[1]);
        out[0] = -out[1];
    }
    return PG_OK;
}

/* The same with the smaller one first. */
static pg_status read_range(double out[2], const pg__layer *l, const char *key, double least,
                            double most, pg_err *err)
{
    const pg_status st = read_bounds(out, l, key, least, most, err);
    const double first = out[0];
    if (st == PG_OK && first > out[1]) {
        out[0] = out[1];
        out[1] = first;
    }
    return st;
}

static pg_status read_fill(pg__warp_attrs *a, const pg__layer *l, pg_err *err)
{
    static const char *const fills[] = {"constant", "nearest", "reflect", "wrap"};
    const char *fill = pg__json_get_str(l->config, "fill_mode");
    const char *how = pg__json_get_str(l->config, "interpolation");
    a->fill = PG_FILL_REFLECT;
    if (pg__config_has(l, "fill_mode")) {
        size_t i = 0;
        while (i < 4 && !(fill && strcmp(fill, fills[i]) == 0))
            i++;
        if (i == 4)
            return pg_fail(err, PG_E_UNSUPPORTED,
                           "%s: \"fill_mode\" must be one of constant, nearest, reflect, wrap",
                           PG_SHOW(l->name));
        a->fill = (pg__warp_fill)i;
    }
    a->nearest = how && strcmp(how, "nearest") == 0;
    if (pg__config_has(l, "interpolation") && !a->nearest && !(how && strcmp(how, "bilinear") == 0))
        return pg_fail(err, PG_E_UNSUPPORTED,
                       "%s: \"interpolation\" is neither nearest nor bilinear", PG_SHOW(l->name));
    return pg__config_num_or(&a->value, l, l->config, "fill_value", 0, err);
}

/* ---- cells that move ---- */

/* x with its channels last, or NO_VAL: nothing is to be done. */
static pg_status begin(pg__lowering *lw, const pg__layer *l, const pg__val *in, size_t n_in,
                       pg__val *x, pg__results *out, pg_err *err)
{
    pg_status st = PG_OK;
    PG_TRY(pg__lower_one_input(l, n_in, err));
    *x = PG_NO_VAL;
    out->n = 1;
    out->v[0] = in[0];
    if (pg__dims_at(lw, in[0])->rank != 4)
        PG_FAIL(PG_E_MISMATCH, "input %s does not have 2 spatial dimensions",
                PG_SHAPE(pg__dims_at(lw, in[0])));
    if (lw->training)
        PG_TRY(pg__to_channels_last(lw, l, 2, in[0], x, err));
done:
    return st;
}

static pg_status move(pg__lowering *lw, const pg__layer *l, pg__warp_attrs *a, pg__val x,
                      pg__uniform_attrs *u, uint64_t columns, pg__results *out, pg_err *err)
{
    const pg__dims *d = pg__dims_at(lw, x);
    pg__val drawn, y;
    pg_status st = PG_OK;
    if (tape(lw)->values[x].needs_grad)
        PG_FAIL(PG_E_UNSUPPORTED, "%s: %s after trainable layers is not supported",
                PG_SHOW(l->name), l->class_name);
    if (a->kind != PG_WARP_CROP) {
        a->size[0] = d->d[1];
        a->size[1] = d->d[2];
    }
    PG_TRY(draw(lw, x, u, columns, &drawn, err));
    PG_TRY(pg__emit2(tape(lw), PG_OP_warp, a, x, drawn, &y, err));
    PG_TRY(pg__from_channels_last(lw, l, y, &out->v[0], err));
done:
    return st;
}

/* Keras 3 mirrors an image along both axes or along none. */
pg_status pg__lower_random_flip(pg__lowering *lw, const pg__layer *l, const pg__val *in,
                                size_t n_in, pg__results *out, pg_err *err)
{
    const char *mode = pg__json_get_str(l->config, "mode");
    const int both =
        !pg__config_has(l, "mode") || (mode && strcmp(mode, "horizontal_and_vertical") == 0);
    const int across = both || (mode && strcmp(mode, "horizontal") == 0);
    const int down = both || (mode && strcmp(mode, "vertical") == 0);
    pg__warp_attrs a = {.kind = PG_WARP_FLIP, .fill = PG_FILL_NEAREST, .nearest = 1};
    pg__uniform_attrs u = {.low = {across ? 0 : 1, down ? 0 : 1}, .high = {1, 1}};
    pg__val x;
    pg_status st = PG_OK;
    if (!across && !down)
        PG_FAIL(PG_E_UNSUPPORTED,
                "%s: \"mode\" must be one of horizontal, vertical, horizontal_and_vertical",
                PG_SHOW(l->name));
    PG_TRY(begin(lw, l, in, n_in, &x, out, err));
    if (x != PG_NO_VAL)
        PG_TRY(move(lw, l, &a, x, &u, both && lw->opts->rules->keras3 ? 1 : 2, out, err));
done:
    return st;
}

pg_status pg__lower_random_translation(pg__lowering *lw, const pg__layer *l, const pg__val *in,
                                       size_t n_in, pg__results *out, pg_err *err)
{
    pg__warp_attrs a = {.kind = PG_WARP_SHIFT};
    double height[2], width[2];
    pg__val x;
    pg_status st = PG_OK;
    PG_TRY(read_range(height, l, "height_factor", -1, 1, err));
    PG_TRY(read_range(width, l, "width_factor", -1, 1, err));
    PG_TRY(read_fill(&a, l, err));
    pg__uniform_attrs u = {.low = {width[0], height[0]}, .high = {width[1], height[1]}};
    PG_TRY(begin(lw, l, in, n_in, &x, out, err));
    if (x != PG_NO_VAL)
        PG_TRY(move(lw, l, &a, x, &u, 2, out, err));
done:
    return st;
}

pg_status pg__lower_random_rotation(pg__lowering *lw, const pg__layer *l, const pg__val *in,
                                    size_t n_in, pg__results *out, pg_err *err)
{
    pg__warp_attrs a = {.kind = PG_WARP_TURN};
    double factor[2];
    pg__val x;
    pg_status st = PG_OK;
    PG_TRY(read_range(factor, l, "factor", -1e3, 1e3, err));
    PG_TRY(read_fill(&a, l, err));
    pg__uniform_attrs u = {.low = {factor[0] * turn}, .high = {factor[1] * turn}};
    PG_TRY(begin(lw, l, in, n_in, &x, out, err));
    if (x != PG_NO_VAL && pg__is_channels_first(l))
        PG_FAIL(PG_E_UNSUPPORTED,
                "%s: RandomRotation with channels_first, where Keras draws an angle for each "
                "channel, is not supported",
                PG_SHOW(l->name));
    if (x != PG_NO_VAL)
        PG_TRY(move(lw, l, &a, x, &u, 1, out, err));
done:
    return st;
}

/* Without a factor of the width, it is the height's. */
pg_status pg__lower_random_zoom(pg__lowering *lw, const pg__layer *l, const pg__val *in,
                                size_t n_in, pg__results *out, pg_err *err)
{
    const int apart = pg__config_has(l, "width_factor");
    pg__warp_attrs a = {.kind = PG_WARP_ZOOM};
    double height[2], width[2];
    pg__val x;
    pg_status st = PG_OK;
    PG_TRY(read_range(height, l, "height_factor", -1, 1, err));
    PG_TRY(read_range(width, l, apart ? "width_factor" : "height_factor", -1, 1e6, err));
    PG_TRY(read_fill(&a, l, err));
    pg__uniform_attrs u = {.low = {1 + width[0], 1 + height[0]},
                           .high = {1 + width[1], 1 + height[1]}};
    PG_TRY(begin(lw, l, in, n_in, &x, out, err));
    if (x != PG_NO_VAL)
        PG_TRY(move(lw, l, &a, x, &u, apart ? 2 : 1, out, err));
done:
    return st;
}

/* Outside of training, Keras 3 begins where a window of the right proportions would, but takes one
 * of the requested size, as far as there are cells. */
static pg_status keras3_crop(pg__lowering *lw, pg__val x, const uint64_t size[2], pg__val *out,
                             pg_err *err)
{
    const uint64_t n[2] = {pg__dims_at(lw, x)->d[1], pg__dims_at(lw, x)->d[2]};
    uint64_t first[2], window[2];
    pg_status st = PG_OK;
    for (size_t i = 0; i < 2; i++) {
        const uint64_t fits = n[1 - i] * size[i] / size[1 - i];
        const uint64_t wanted = fits < 1 ? 1 : fits < n[i] ? fits : n[i];
        first[i] = (n[i] - wanted) / 2;
        window[i] = n[i] - first[i] < size[i] ? n[i] - first[i] : size[i];
    }
    PG_TRY(pg__lower_window(lw, x, first, window, out, err));
    PG_TRY(pg__lower_resample(lw, PG_BILINEAR, *out, size, out, err));
done:
    return st;
}

/* All images of a batch begin at the same cell. Images that are too small (in Keras 3 also equally
 * large ones) are resized, as all are outside of training. */
pg_status pg__lower_random_crop(pg__lowering *lw, const pg__layer *l, const pg__val *in,
                                size_t n_in, pg__results *out, pg_err *err)
{
    const uint64_t more = lw->opts->rules->keras3 ? 1 : 0;
    pg__warp_attrs a = {.kind = PG_WARP_CROP, .fill = PG_FILL_NEAREST, .nearest = 1};
    pg__uniform_attrs u = {.rows_share = 1};
    pg__val x;
    pg_status st = PG_OK;
    PG_TRY(pg__lower_one_input(l, n_in, err));
    PG_TRY(pg__to_channels_last(lw, l, 2, in[0], &x, err));
    PG_TRY(pg__image_size(a.size, lw, l, x, err));
    const uint64_t h = pg__dims_at(lw, x)->d[1], w = pg__dims_at(lw, x)->d[2];
    out->n = 1;
    if (lw->training && h >= a.size[0] + more && w >= a.size[1] + more) {
        u.high[0] = (double)(w - a.size[1] + 1);
        u.high[1] = (double)(h - a.size[0] + 1);
        PG_TRY(move(lw, l, &a, x, &u, 2, out, err));
        goto done;
    }
    if (h > INT32_MAX || w > INT32_MAX)
        PG_FAIL(PG_E_MISMATCH, "input %s is too large", PG_SHAPE(pg__dims_at(lw, x)));
    PG_TRY(lw->opts->rules->keras3 ? keras3_crop(lw, x, a.size, &x, err)
                                   : pg__lower_smart_resize(lw, PG_BILINEAR, x, a.size, &x, err));
    PG_TRY(pg__from_channels_last(lw, l, x, &out->v[0], err));
done:
    return st;
}

/* ---- other colours ---- */

/* One number for each row, or for all: drawn between the bounds, as x has axes. */
static pg_status one_each(pg__lowering *lw, pg__val x, double low, double high, int rows_share,
                          pg__val *out, pg_err *err)
{
    pg__uniform_attrs u = {.low = {low}, .high = {high}, .rows_share = rows_share};
    pg_status st = PG_OK;
    PG_TRY(draw(lw, x, &u, 1, out, err));
    const pg__dims to = pg__dims_of(4, (const uint64_t[]){pg__dims_at(lw, *out)->d[0], 1, 1, 1});
    PG_TRY(pg__lower_reshape(lw, *out, &to, out, err));
done:
    return st;
}

static pg_status clip(pg__lowering *lw, pg__val x, double least, double most, pg__val *out,
                      pg_err *err)
{
    const pg__dims scalar = pg__dims_of(1, (const uint64_t[]){1});
    pg__val bound;
    pg_status st = PG_OK;
    PG_TRY(pg__lower_constant(lw, &scalar, &least, &bound, err));
    PG_TRY(pg__lower_binary(lw, PG_MAXIMUM, x, bound, out, err));
    PG_TRY(pg__lower_constant(lw, &scalar, &most, &bound, err));
    PG_TRY(pg__lower_binary(lw, PG_MINIMUM, *out, bound, out, err));
done:
    return st;
}

/* (x - mean) f + mean for each channel of an image; f from 1 - lower to 1 + upper. Keras 2 draws
 * one for the whole batch, Keras 3 one for each image. */
pg_status pg__lower_random_contrast(pg__lowering *lw, const pg__layer *l, const pg__val *in,
                                    size_t n_in, pg__results *out, pg_err *err)
{
    const int v3 = lw->opts->rules->keras3;
    const int is_list = pg__json_type_of(pg__json_get(l->config, "factor")) == PG_J_ARRAY;
    pg__affine_attrs share = {.offset = 0};
    double factor[2];
    pg__val x, mean, f;
    pg_status st = PG_OK;
    PG_TRY(read_bounds(factor, l, "factor", -1e6, 1e6, err));
    if (!is_list)
        factor[0] = v3 ? 0 : factor[1];
    PG_TRY(begin(lw, l, in, n_in, &x, out, err));
    if (x == PG_NO_VAL)
        goto done;
    const pg__dims *d = pg__dims_at(lw, x);
    const pg__spread_attrs one = {.to = pg__dims_of(4, (const uint64_t[]){d->d[0], 1, 1, d->d[3]})};
    share.scale = 1 / (double)pg__dim_mul(d->d[1], d->d[2]);
    PG_TRY(one_each(lw, x, 1 - factor[0], 1 + factor[1], !v3, &f, err));
    PG_TRY(pg__emit1(tape(lw), PG_OP_sum_to, &one, x, &mean, err));
    PG_TRY(pg__emit1(tape(lw), PG_OP_affine, &share, mean, &mean, err));
    PG_TRY(pg__lower_binary(lw, PG_SUBTRACT, x, mean, &x, err));
    PG_TRY(pg__lower_binary(lw, PG_MULTIPLY, x, f, &x, err));
    PG_TRY(pg__lower_binary(lw, PG_ADD, x, mean, &x, err));
    PG_TRY(clip(lw, x, 0, 255, &x, err));
    PG_TRY(pg__from_channels_last(lw, l, x, &out->v[0], err));
done:
    return st;
}

pg_status pg__lower_random_brightness(pg__lowering *lw, const pg__layer *l, const pg__val *in,
                                      size_t n_in, pg__results *out, pg_err *err)
{
    double factor[2], range[2] = {0, 255};
    pg__val x, delta;
    pg_status st = PG_OK;
    PG_TRY(read_range(factor, l, "factor", -1, 1, err));
    if (pg__config_has(l, "value_range"))
        PG_TRY(read_range(range, l, "value_range", -1e30, 1e30, err));
    PG_TRY(begin(lw, l, in, n_in, &x, out, err));
    if (x == PG_NO_VAL)
        goto done;
    const double wide = range[1] - range[0];
    PG_TRY(one_each(lw, x, factor[0] * wide, factor[1] * wide, 0, &delta, err));
    PG_TRY(pg__lower_binary(lw, PG_ADD, x, delta, &x, err));
    PG_TRY(clip(lw, x, range[0], range[1], &x, err));
    PG_TRY(pg__from_channels_last(lw, l, x, &out->v[0], err));
done:
    return st;
}

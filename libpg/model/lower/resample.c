/* resample.c - resizes as tf.image.resize() of TensorFlow 2.15 does without antialiasing, which all
 * generations of Keras on that back end call: cells have their centres at 0.5, and positions are
 * computed in float. A new image is two products with constant matrices. */
#include "model/lower/resample.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "model/lower/spatial.h"
#include "model/lower/vars.h"

static const char *const names[] = {
    [PG_NEAREST] = "nearest",   [PG_BILINEAR] = "bilinear",          [PG_BICUBIC] = "bicubic",
    [PG_AREA] = "area",         [PG_LANCZOS3] = "lanczos3",          [PG_LANCZOS5] = "lanczos5",
    [PG_GAUSSIAN] = "gaussian", [PG_MITCHELLCUBIC] = "mitchellcubic"};

pg_status pg__config_resample(pg__resample *out, const pg__layer *l, pg__resample fallback,
                              pg_err *err)
{
    const char *name = pg__json_get_str(l->config, "interpolation");
    *out = fallback;
    if (!pg__config_has(l, "interpolation"))
        return PG_OK;
    for (size_t i = 0; name && i < sizeof names / sizeof *names; i++)
        if (strcasecmp(name, names[i]) == 0) {
            *out = (pg__resample)i;
            return PG_OK;
        }
    return pg_fail(err, PG_E_UNSUPPORTED,
                   "%s: \"interpolation\" is %s; it must be one of nearest, bilinear, bicubic, "
                   "area, lanczos3, lanczos5, gaussian, mitchellcubic",
                   PG_SHOW(l->name), name ? PG_SHOW(name) : "not a text");
}

static double cubic(double x) /* Keys', a = -0.5 */
{
    x = fabs(x);
    return x >= 2 ? 0 : x >= 1 ? ((-0.5 * x + 2.5) * x - 4) * x + 2 : (1.5 * x - 2.5) * x * x + 1;
}

static double mitchell(double x)
{
    x = fabs(x);
    return x >= 2   ? 0
           : x >= 1 ? ((-7 * x / 18 + 2) * x - 10.0 / 3) * x + 16.0 / 9
                    : (7 * x / 6 - 2) * x * x + 8.0 / 9;
}

static double lanczos(double x, double radius)
{
    const double pi = 3.14159265358979323846;
    x = fabs(x);
    return x > radius  ? 0
           : x <= 1e-3 ? 1
                       : radius * sin(pi * x) * sin(pi * x / radius) / (pi * pi * x * x);
}

static double gaussian(double x)
{
    return fabs(x) >= 1.5 ? 0 : exp(-2 * x * x);
}

static double share_at(pg__resample how, double x)
{
    switch (how) {
    case PG_BICUBIC: return cubic(x);
    case PG_LANCZOS3: return lanczos(x, 3);
    case PG_LANCZOS5: return lanczos(x, 5);
    case PG_GAUSSIAN: return gaussian(x);
    case PG_MITCHELLCUBIC: return mitchell(x);
    case PG_NEAREST:
    case PG_BILINEAR:
    case PG_AREA: break;
    }
    return 0;
}

/* Position of new cell k, in cells of the old image, whose first centre is at 0. */
static float centre(size_t k, size_t from, size_t to)
{
    return ((float)k + 0.5F) * ((float)from / (float)to) - 0.5F;
}

/* Weights of the cells within reach; cells beyond the edges are left out, and the others make up
 * for them. The offset of cubic interpolation is rounded to steps of 1/1024. */
static void spread_kernel(double *out, pg__resample how, size_t from, size_t to, size_t k)
{
    double at = (double)centre(k, from, to), sum = 0;
    if (how == PG_BICUBIC)
        at = floor(at) + (double)lrint((at - floor(at)) * 1024) / 1024;
    for (size_t i = 0; i < from; i++)
        sum += out[i * to + k] = share_at(how, (double)i - at);
    for (size_t i = 0; sum != 0 && i < from; i++)
        out[i * to + k] /= sum;
}

/* Weights by the length that new cell k covers. */
static void spread_area(double *out, size_t from, size_t to, size_t k)
{
    const double scale = (double)((float)from / (float)to);
    const double begin = (double)k * scale, end = begin + scale;
    for (size_t i = 0; i < from; i++) {
        const double a = fmax(begin, (double)i), b = fmin(end, (double)i + 1);
        out[i * to + k] = b > a ? (b - a) / scale : 0;
    }
}

static void spread_bilinear(double *out, size_t from, size_t to, size_t k)
{
    const float at = centre(k, from, to), low = floorf(at);
    const size_t a = low < 0 ? 0 : (size_t)low, b = low + 1 < (float)from ? (size_t)(low + 1) : a;
    out[a * to + k] += 1 - (double)(at - low);
    out[b * to + k] += (double)(at - low);
}

void pg__resample_weights(double *out, pg__resample how, size_t from, size_t to)
{
    memset(out, 0, from * to * sizeof *out);
    for (size_t k = 0; k < to; k++) {
        if (how == PG_NEAREST) {
            const float at = floorf(((float)k + 0.5F) * ((float)from / (float)to));
            out[(at < (float)from ? (size_t)at : from - 1) * to + k] = 1;
        } else if (how == PG_BILINEAR) {
            spread_bilinear(out, from, to, k);
        } else if (how == PG_AREA) {
            spread_area(out, from, to, k);
        } else {
            spread_kernel(out, how, from, to, k);
        }
    }
}

/* The last axis of x becomes `to` long. */
static pg_status last_axis(pg__lowering *lw, pg__resample how, pg__val x, uint64_t to, pg__val *out,
                           pg_err *err)
{
    const pg__dims *d = pg__dims_at(lw, x);
    const uint64_t from = d->d[d->rank - 1];
    const pg__dims shape = pg__dims_of(2, (const uint64_t[]){from, to});
    double *w = NULL;
    pg__val matrix;
    pg_status st = PG_OK;
    if (from == PG_DIM_ANY || from == 0)
        PG_FAIL(PG_E_MISMATCH, "the image size must be known to resize images");
    if (pg__dim_mul(from, to) > PG_MAX_CONSTANT)
        PG_FAIL(PG_E_MISMATCH, "%llu cells cannot be resized to %llu: the table would be too large",
                (unsigned long long)from, (unsigned long long)to);
    *out = x;
    if (from == to)
        goto done;
    w = pg__mem_array((size_t)(from * to), sizeof *w);
    if (!w)
        PG_TRY(pg__nomem(err));
    pg__resample_weights(w, how, (size_t)from, (size_t)to);
    PG_TRY(pg__lower_constant(lw, &shape, w, &matrix, err));
    PG_TRY(pg__emit2(&lw->to->tape, PG_OP_dense, NULL, x, matrix, out, err));
done:
    pg__mem_free(w);
    return st;
}

pg_status pg__lower_resample(pg__lowering *lw, pg__resample how, pg__val x, const uint64_t size[2],
                             pg__val *out, pg_err *err)
{
    static const uint32_t width_last[PG_MAX_RANK] = {0, 3, 1, 2}, swap[PG_MAX_RANK] = {0, 1, 3, 2},
                          channels_last[PG_MAX_RANK] = {0, 3, 2, 1};
    const pg__dims *d = pg__dims_at(lw, x);
    pg_status st = PG_OK;
    *out = x;
    if (d->d[1] == size[0] && d->d[2] == size[1])
        goto done;
    PG_TRY(pg__lower_transpose(lw, x, width_last, out, err));
    PG_TRY(last_axis(lw, how, *out, size[1], out, err));
    PG_TRY(pg__lower_transpose(lw, *out, swap, out, err));
    PG_TRY(last_axis(lw, how, *out, size[0], out, err));
    PG_TRY(pg__lower_transpose(lw, *out, channels_last, out, err));
done:
    return st;
}

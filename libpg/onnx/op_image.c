/* op_image.c - convolutions, pooling and resizing: ONNX has the channels before the cells. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "onnx/onnx.h"

/* ---- windows ---- */

/* Attributes that convolutions and pooling share. */
typedef struct window {
    uint32_t rank;
    const uint64_t *kernel, *stride, *dilation, *before, *after;
    int same; /* Keras pads as the size asks for, and the size is not known */
} window;

static void add_list(pg__onnx *x, pg__str *attrs, const char *name, const uint64_t *v, size_t n,
                     uint64_t usual)
{
    int64_t list[2 * PG_MAX_SPATIAL];
    int differs = 0;
    for (size_t k = 0; k < n; k++) {
        list[k] = (int64_t)v[k];
        differs |= v[k] != usual;
    }
    if (differs)
        pg__onnx_ints(x, attrs, name, list, n);
}

/* How "same" pads whatever the size. Where a window is narrower than its stride, auto_pad would cut
 * cells off the end; of two cells, the second may always lie behind it. */
typedef enum padding { AUTOMATIC, BEHIND, DEPENDS } padding;

static padding padding_of(const window *w)
{
    int narrow = 0, small = 1;
    for (uint32_t k = 0; k < w->rank; k++) {
        const uint64_t reach = (w->kernel[k] - 1) * (w->dilation ? w->dilation[k] : 1) + 1;
        narrow |= reach < w->stride[k];
        small &= reach <= 2 && reach <= w->stride[k];
    }
    return !narrow ? AUTOMATIC : small ? BEHIND : DEPENDS;
}

static void add_same(pg__onnx *x, pg__str *attrs, const window *w)
{
    uint64_t pads[2 * PG_MAX_SPATIAL] = {0};
    const padding how = padding_of(w);
    if (how == AUTOMATIC) {
        pg__onnx_text(x, attrs, "auto_pad", "SAME_UPPER");
    } else if (how == BEHIND) {
        for (uint32_t k = 0; k < w->rank; k++)
            pads[w->rank + k] = w->kernel[k] - 1;
        add_list(x, attrs, "pads", pads, 2 * (size_t)w->rank, 0);
    } else {
        pg__onnx_refuse_open(x, "pads by a size that the model leaves open, with windows narrower "
                                "than their strides, for which ONNX has no operator");
    }
}

static void add_window(pg__onnx *x, pg__str *attrs, const window *w)
{
    uint64_t pads[2 * PG_MAX_SPATIAL];
    add_list(x, attrs, "kernel_shape", w->kernel, w->rank, 0);
    add_list(x, attrs, "strides", w->stride, w->rank, 1);
    if (w->dilation)
        add_list(x, attrs, "dilations", w->dilation, w->rank, 1);
    if (w->same) {
        add_same(x, attrs, w);
        return;
    }
    memcpy(pads, w->before, w->rank * sizeof *pads);
    memcpy(pads + w->rank, w->after, w->rank * sizeof *pads);
    add_list(x, attrs, "pads", pads, 2 * (size_t)w->rank, 0);
}

static int has_unknown_cells(const pg__onnx *x, pg__val v)
{
    const pg__dims *d = pg__onnx_dims(x, v);
    for (uint32_t a = 1; a + 1 < d->rank; a++)
        if (d->d[a] == PG_DIM_ANY)
            return 1;
    return 0;
}

/* ---- convolutions ---- */

/* (cells, in, out) as (out, in, cells), or (in, out, cells): the last two axes come first. */
static pg__onnx_perm kernel_perm(uint32_t rank, int out_first)
{
    pg__onnx_perm p = pg__onnx_plain();
    p.p[0] = out_first ? rank + 1 : rank;
    p.p[1] = out_first ? rank : rank + 1;
    for (uint32_t k = 0; k < rank; k++)
        p.p[2 + k] = k;
    return p;
}

/* The normalisation that reads the result, if it goes into the kernel. */
static const pg__inst *norm_after(const pg__onnx *x, const pg__inst *i)
{
    const pg__onnx_value *out = &x->values[pg__out(x->tape, i, 0)];
    const pg__val kernel = pg__onnx_in(x, i, 1), bias = pg__onnx_in(x, i, 2);
    const pg__inst *norm;
    if (!x->o->fold_bn || out->uses != 1 || !out->user || !x->values[kernel].has_take ||
        !pg__dtype_is_float(x->values[kernel].take.from) ||
        (bias != PG_NO_VAL && !pg__onnx_is_static(x, bias)))
        return NULL;
    norm = &x->tape->insts[out->user - 1];
    if (norm->op->kind != PG_OP_bn_apply || pg__onnx_in(x, norm, 0) != pg__out(x->tape, i, 0))
        return NULL;
    for (size_t k = 1; k < 5; k++)
        if (pg__onnx_in(x, norm, k) != PG_NO_VAL && !pg__onnx_is_static(x, pg__onnx_in(x, norm, k)))
            return NULL;
    return norm;
}

/* One factor and one bias per channel: what the normalisation makes of the convolution's. */
static int fold(pg__onnx *x, const pg__inst *norm, pg__val bias, uint64_t n, double *factor,
                double *shift)
{
    const double epsilon = ((const pg__bn_attrs *)norm->attrs)->epsilon;
    const double *v[5] = {NULL}, *b = bias == PG_NO_VAL ? NULL : pg__onnx_data(x, bias);
    for (size_t k = 1; k < 5; k++)
        if (pg__onnx_in(x, norm, k) != PG_NO_VAL)
            v[k] = pg__onnx_data(x, pg__onnx_in(x, norm, k));
    for (uint64_t k = 0; k < n && x->st == PG_OK; k++) {
        factor[k] = (v[3] ? v[3][k] : 1) / sqrt(v[2][k] + epsilon);
        shift[k] = (v[4] ? v[4][k] : 0) + ((b ? b[k] : 0) - v[1][k]) * factor[k];
    }
    return x->st == PG_OK;
}

static void fold_norm(pg__onnx *x, const pg__inst *i, const pg__inst *norm, pg__onnx_name *w,
                      pg__onnx_name *b)
{
    const pg__val kernel = pg__onnx_in(x, i, 1), bias = pg__onnx_in(x, i, 2);
    const uint32_t rank = pg__onnx_dims(x, kernel)->rank - 2;
    const uint64_t n = pg__onnx_dims(x, kernel)->d[rank + 1];
    const pg__onnx_perm p = kernel_perm(rank, 1);
    double *factor = pg__mem_array((size_t)n, sizeof *factor);
    double *shift = pg__mem_array((size_t)n, sizeof *shift);
    if (!factor || !shift)
        pg__onnx_check(x, pg__nomem(x->err));
    else if (fold(x, norm, bias, n, factor, shift)) {
        *w = pg__onnx_static(x, kernel, rank + 2, &p);
        *b = pg__onnx_const(x, "bias", x->real, 1, &n, shift);
        for (size_t k = 0; k < x->g.n_inits; k++)
            if (x->g.inits[k].name == *w) {
                x->g.inits[k].factors = factor;
                factor = NULL;
            }
    }
    pg__mem_free(factor);
    pg__mem_free(shift);
}

/* Else "same" pads any size alike, and says so: auto_pad goes with no dilation. */
static int is_strided(const pg__conv_attrs *a)
{
    for (uint32_t k = 0; k < a->rank; k++)
        if (a->stride[k] > 1)
            return 1;
    return 0;
}

void pg__onnx_conv(pg__onnx *x, const pg__inst *i)
{
    const pg__conv_attrs *a = pg__onnx_sized(x, i)->attrs;
    const pg__val in = pg__onnx_in(x, i, 0), bias = pg__onnx_in(x, i, 2);
    const pg__onnx_perm first = pg__onnx_first(a->rank + 2), turned = kernel_perm(a->rank, 1);
    const window w = {a->rank,
                      a->kernel,
                      a->stride,
                      a->dilation,
                      a->before,
                      a->after,
                      a->same && is_strided(a) && has_unknown_cells(x, in)};
    const pg__inst *norm = norm_after(x, i);
    pg__onnx_name operands[3] = {pg__onnx_as(x, in, &first)};
    pg__str attrs = {0};
    add_window(x, &attrs, &w);
    if (a->groups != 1)
        pg__onnx_int(x, &attrs, "group", (int64_t)a->groups);
    if (norm) {
        fold_norm(x, i, norm, &operands[1], &operands[2]);
    } else {
        operands[1] = pg__onnx_as(x, pg__onnx_in(x, i, 1), &turned);
        operands[2] = bias == PG_NO_VAL ? PG_ONNX_ABSENT : pg__onnx_get(x, bias);
    }
    const pg__onnx_name y = pg__onnx_op(x, "Conv", &attrs, operands, 3);
    pg__onnx_set(x, pg__out(x->tape, i, 0), &first, y);
    if (norm)
        pg__onnx_set(x, pg__out(x->tape, norm, 0), &first, y);
}

/* before and after pad the result's gradient: ONNX cuts them off the result. How much that is does
 * not depend on the number of cells. */
static void add_output_size(pg__onnx *x, pg__str *attrs, const pg__conv_attrs *a,
                            const pg__dims *in)
{
    int64_t pads[2 * PG_MAX_SPATIAL], extra[PG_MAX_SPATIAL], any_pad = 0, any_extra = 0;
    for (uint32_t k = 0; k < a->rank; k++) {
        const int64_t reach = (int64_t)((a->kernel[k] - 1) * a->dilation[k] + 1);
        const int64_t all = (int64_t)(in->d[k + 1] - 1) * (int64_t)a->stride[k] + reach;
        const int64_t after = all - (int64_t)a->before[k] - (int64_t)a->size[k];
        pads[k] = (int64_t)a->before[k];
        pads[a->rank + k] = after > 0 ? after : 0;
        extra[k] = after < 0 ? -after : 0;
        any_pad |= pads[k] | pads[a->rank + k];
        any_extra |= extra[k];
    }
    if (any_pad)
        pg__onnx_ints(x, attrs, "pads", pads, 2 * (size_t)a->rank);
    if (any_extra)
        pg__onnx_ints(x, attrs, "output_padding", extra, a->rank);
}

/* The addition that reads the result, if it adds a constant for each channel. */
static const pg__inst *bias_after(const pg__onnx *x, const pg__inst *i)
{
    const pg__val out = pg__out(x->tape, i, 0);
    const pg__onnx_value *value = &x->values[out];
    const pg__inst *add = value->uses == 1 && value->user ? &x->tape->insts[value->user - 1] : NULL;
    if (!add || add->op->kind != PG_OP_binary || pg__onnx_in(x, add, 0) != out ||
        ((const pg__binary_attrs *)add->attrs)->kind != PG_ADD)
        return NULL;
    const pg__val bias = pg__onnx_in(x, add, 1);
    const pg__dims *d = pg__onnx_dims(x, bias), *all = pg__onnx_dims(x, out);
    return pg__onnx_is_static(x, bias) && d->rank == 1 && d->d[0] == all->d[all->rank - 1] ? add
                                                                                           : NULL;
}

/* The kernel (cells, out, in) is that of the convolution of which this is the gradient. */
void pg__onnx_conv_dx(pg__onnx *x, const pg__inst *i)
{
    const pg__conv_attrs *a = pg__onnx_sized(x, i)->attrs;
    const pg__val in = pg__onnx_in(x, i, 0);
    const pg__inst *add = bias_after(x, i);
    const pg__onnx_perm first = pg__onnx_first(a->rank + 2), turned = kernel_perm(a->rank, 1);
    const pg__onnx_name operands[] = {
        pg__onnx_as(x, in, &first), pg__onnx_as(x, pg__onnx_in(x, i, 1), &turned),
        add ? pg__onnx_get(x, pg__onnx_in(x, add, 1)) : PG_ONNX_ABSENT};
    pg__str attrs = {0};
    add_list(x, &attrs, "kernel_shape", a->kernel, a->rank, 0);
    add_list(x, &attrs, "strides", a->stride, a->rank, 1);
    add_list(x, &attrs, "dilations", a->dilation, a->rank, 1);
    if (a->groups != 1)
        pg__onnx_int(x, &attrs, "group", (int64_t)a->groups);
    add_output_size(x, &attrs, a, pg__onnx_sized_dims(x, in));
    const pg__onnx_name y = pg__onnx_op(x, "ConvTranspose", &attrs, operands, 3);
    pg__onnx_set(x, pg__out(x->tape, i, 0), &first, y);
    if (add)
        pg__onnx_set(x, pg__out(x->tape, add, 0), &first, y);
}

/* ---- pooling ---- */

/* A reshape that drops the cells, of which one is left, is done by the reduction itself. */
static pg__val flattened(const pg__onnx *x, pg__val out)
{
    const uint32_t user = x->values[out].user;
    const pg__inst *next = user ? &x->tape->insts[user - 1] : NULL;
    if (x->values[out].uses != 1 || !next || next->op->kind != PG_OP_reshape)
        return PG_NO_VAL;
    const pg__val flat = pg__out(x->tape, next, 0);
    const pg__dims *d = pg__onnx_dims(x, flat), *whole = pg__onnx_dims(x, out);
    return d->rank == 2 && d->d[0] == whole->d[0] && d->d[1] == whole->d[whole->rank - 1]
               ? flat
               : PG_NO_VAL;
}

static void pool_all(pg__onnx *x, const pg__inst *i)
{
    const pg__pool_attrs *a = i->attrs;
    const pg__val in = pg__onnx_in(x, i, 0), out = pg__out(x->tape, i, 0);
    const pg__val flat = flattened(x, out);
    const pg__onnx_perm p = pg__onnx_native(x, in);
    int64_t axes[PG_MAX_SPATIAL];
    uint32_t n = 0;
    for (uint32_t k = 0; k < a->rank + 2; k++)
        if (p.p[k] > 0 && p.p[k] <= a->rank)
            axes[n++] = k;
    const int in_order = pg__onnx_axis(&p, 0) < pg__onnx_axis(&p, a->rank + 1);
    const int drops = flat != PG_NO_VAL && in_order;
    const pg__onnx_name y = pg__onnx_reduce(x, a->max ? "ReduceMax" : "ReduceMean",
                                            pg__onnx_as(x, in, &p), axes, n, !drops);
    if (drops)
        pg__onnx_set_plain(x, flat, y);
    else
        pg__onnx_set(x, out, &p, y);
}

void pg__onnx_pool(pg__onnx *x, const pg__inst *i)
{
    const pg__pool_attrs *a = i->attrs;
    const pg__val in = pg__onnx_in(x, i, 0);
    const pg__onnx_perm first = pg__onnx_first(a->rank + 2);
    const window w = {a->rank,
                      a->window,
                      a->stride,
                      NULL,
                      a->before,
                      a->after,
                      a->same && has_unknown_cells(x, in)};
    pg__str attrs = {0};
    if (a->window[0] == 0) {
        pool_all(x, i);
        return;
    }
    const pg__onnx_name v = pg__onnx_as(x, in, &first);
    add_window(x, &attrs, &w);
    pg__onnx_set(x, pg__out(x->tape, i, 0), &first,
                 pg__onnx_op(x, a->max ? "MaxPool" : "AveragePool", &attrs, &v, 1));
}

/* ---- resizing ---- */

void pg__onnx_resize(pg__onnx *x, const pg__inst *i)
{
    const pg__resize_attrs *a = i->attrs;
    const pg__val in = pg__onnx_in(x, i, 0);
    const pg__onnx_perm p = pg__onnx_first(a->rank + 2);
    double scales[PG_MAX_RANK] = {1, 1};
    pg__str attrs = {0};
    for (uint32_t k = 0; k < a->rank; k++)
        scales[2 + k] = (double)a->factor[k];
    const pg__onnx_name operands[] = {
        pg__onnx_as(x, in, &p), PG_ONNX_ABSENT,
        pg__onnx_const(x, "scales", PG_F32, 1, (const uint64_t[]){a->rank + 2}, scales)};
    pg__onnx_text(x, &attrs, "mode", a->bilinear ? "linear" : "nearest");
    pg__onnx_text(x, &attrs, "coordinate_transformation_mode",
                  a->bilinear ? "half_pixel" : "asymmetric");
    if (!a->bilinear)
        pg__onnx_text(x, &attrs, "nearest_mode", "floor");
    pg__onnx_set(x, pg__out(x->tape, i, 0), &p, pg__onnx_op(x, "Resize", &attrs, operands, 3));
}

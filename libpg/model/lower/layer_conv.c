/* layer_conv.c - convolutions. Keras 2 and 3 store kernels as (*k, in, out) whatever the
 * data_format; Keras 1 as (out, in, *k) with dim_ordering "th", and its Convolution1D as
 * (length, 1, in, out). */
#include <string.h>

#include "base/try.h"
#include "model/lower/layers.h"
#include "model/lower/spatial.h"

static const uint64_t any = PG_DIM_ANY;

typedef struct conv {
    uint32_t rank; /* spatial dimensions */
    uint64_t k[3]; /* kernel size */
    uint64_t filters;
    int keras1, th, bias;
} conv;

static pg_status read_keras1_kernel(conv *c, const pg__layer *l, pg_err *err)
{
    static const char *const keys[3][3] = {
        {"filter_length"}, {"nb_row", "nb_col"}, {"kernel_dim1", "kernel_dim2", "kernel_dim3"}};
    const char *order = pg__json_get_str(l->config, "dim_ordering");
    pg_status st = PG_OK;
    for (size_t i = 0; i < c->rank; i++)
        PG_TRY(pg__config_dim(&c->k[i], l, keys[c->rank - 1][i], err));
    PG_TRY(pg__config_dim(&c->filters, l, "nb_filter", err));
    c->th = order && strcmp(order, "th") == 0;
    c->bias = pg__config_bool(l, "bias", 1);
done:
    return st;
}

static pg_status read_conv(conv *c, const pg__layer *l, int has_filters, pg_err *err)
{
    pg_status st = PG_OK;
    *c = (conv){.rank = pg__spatial_rank(l->class_name), .keras1 = pg__config_has(l, "nb_filter")};
    if (c->keras1)
        return read_keras1_kernel(c, l, err);
    PG_TRY(pg__config_dim_list(c->k, c->rank, l, "kernel_size", err));
    if (has_filters)
        PG_TRY(pg__config_dim(&c->filters, l, "filters", err));
    c->bias = pg__config_bool(l, "use_bias", 1);
done:
    return st;
}

/* A kernel's shape as it is stored: (*k, a, b); in Keras 1's "th" ordering (b, a, *k). */
static uint32_t kernel_dims(const conv *c, uint64_t a, uint64_t b, uint64_t dims[6])
{
    uint32_t n = 0;
    if (c->th)
        dims[n++] = b, dims[n++] = a;
    for (size_t i = 0; i < c->rank; i++)
        dims[n++] = c->k[i];
    if (c->keras1 && c->rank == 1) /* a 2-D convolution of width 1 */
        dims[n++] = 1;
    if (!c->th)
        dims[n++] = a, dims[n++] = b;
    return n;
}

static pg_status add_kernel(pg__vars *out, const conv *c, const char *name, const char *alt,
                            int trainable, uint64_t a, uint64_t b, pg_err *err)
{
    uint64_t dims[6];
    const uint32_t n = kernel_dims(c, a, b, dims);
    return pg__vars_add(out, name, alt, trainable, n, dims, err);
}

static pg_status add_bias(pg__vars *out, const conv *c, uint64_t n, pg_err *err)
{
    return c->bias ? pg__vars_add(out, "bias", "b", 1, 1, &n, err) : PG_OK;
}

pg_status pg__vars_conv(pg__vars *out, const pg__layer *l, int dialect, pg_err *err)
{
    conv c;
    uint64_t lora;
    pg_status st = PG_OK;
    (void)dialect;
    PG_TRY(read_conv(&c, l, 1, err));
    PG_TRY(pg__config_dim_or(&lora, l, "lora_rank", 0, err));
    PG_TRY(add_kernel(out, &c, "kernel", "W", lora == 0, any, c.filters, err));
    PG_TRY(add_bias(out, &c, c.filters, err));
    if (lora) {
        PG_TRY(add_kernel(out, &c, "lora_kernel_a", "", 1, any, lora, err));
        PG_TRY(pg__vars_add(out, "lora_kernel_b", "", 1, 2, (uint64_t[]){lora, c.filters}, err));
    }
done:
    return st;
}

pg_status pg__vars_conv_transpose(pg__vars *out, const pg__layer *l, int dialect, pg_err *err)
{
    conv c;
    pg_status st = PG_OK;
    PG_TRY(read_conv(&c, l, 1, err));
    if (c.keras1) /* Deconvolution2D keeps the order of a convolution */
        return pg__vars_conv(out, l, dialect, err);
    PG_TRY(add_kernel(out, &c, "kernel", "", 1, c.filters, any, err));
    PG_TRY(add_bias(out, &c, c.filters, err));
done:
    return st;
}

pg_status pg__vars_depthwise_conv(pg__vars *out, const pg__layer *l, int dialect, pg_err *err)
{
    conv c;
    uint64_t multiplier;
    pg_status st = PG_OK;
    (void)dialect;
    PG_TRY(read_conv(&c, l, 0, err));
    PG_TRY(pg__config_dim_or(&multiplier, l, "depth_multiplier", 1, err));
    PG_TRY(add_kernel(out, &c, "depthwise_kernel", "kernel", 1, any, multiplier, err));
    PG_TRY(add_bias(out, &c, any, err));
done:
    return st;
}

pg_status pg__vars_separable_conv(pg__vars *out, const pg__layer *l, int dialect, pg_err *err)
{
    conv c, point;
    uint64_t multiplier;
    pg_status st = PG_OK;
    (void)dialect;
    PG_TRY(read_conv(&c, l, 1, err));
    PG_TRY(pg__config_dim_or(&multiplier, l, "depth_multiplier", 1, err));
    point = c;
    for (size_t i = 0; i < c.rank; i++)
        point.k[i] = 1;
    PG_TRY(add_kernel(out, &c, "depthwise_kernel", "", 1, any, multiplier, err));
    PG_TRY(add_kernel(out, &point, "pointwise_kernel", "", 1, any, c.filters, err));
    PG_TRY(add_bias(out, &c, c.filters, err));
done:
    return st;
}

/* Every position has a kernel of its own; its storage depends on "implementation". */
pg_status pg__vars_local_conv(pg__vars *out, const pg__layer *l, int dialect, pg_err *err)
{
    conv c;
    uint64_t implementation;
    pg_status st = PG_OK;
    (void)dialect;
    PG_TRY(read_conv(&c, l, 1, err));
    PG_TRY(pg__config_dim_or(&implementation, l, "implementation", 1, err));
    if (implementation == 1)
        PG_TRY(pg__vars_add(out, "kernel", "W", 1, 3, (uint64_t[]){any, any, c.filters}, err));
    else
        PG_TRY(pg__vars_add_any(out, "kernel", "", 1, err));
    if (!c.bias)
        goto done;
    uint64_t dims[4] = {any, any, any, any};
    dims[c.th ? 0 : c.rank] = c.filters;
    PG_TRY(pg__vars_add(out, "bias", "b", 1, (uint32_t)c.rank + 1, dims, err));
done:
    return st;
}

/* ---- lowering ---- */

/* A layer with its input in hand, channels last. */
typedef struct image {
    conv c;
    pg__padding padding;
    pg__conv_attrs a;
    pg__val x;
    uint64_t channels;
} image;

static pg_status read_steps(image *m, const pg__layer *l, pg_err *err)
{
    const conv *c = &m->c;
    const char *strides = !c->keras1 ? "strides" : c->rank == 1 ? "subsample_length" : "subsample";
    const int atrous = strncmp(l->class_name, "Atrous", strlen("Atrous")) == 0;
    int strided = 0, dilated = 0;
    pg_status st = PG_OK;
    PG_TRY(pg__config_dims_or(m->a.stride, c->rank, l, strides, 1, err));
    PG_TRY(pg__config_dims_or(m->a.dilation, c->rank, l, atrous ? "atrous_rate" : "dilation_rate",
                              1, err));
    for (uint32_t i = 0; i < c->rank; i++) {
        strided |= m->a.stride[i] > 1;
        dilated |= m->a.dilation[i] > 1;
    }
    if (strided && dilated)
        PG_FAIL(PG_E_FORMAT,
                "%s: \"%s\" and \"dilation_rate\" are both above 1, which Keras refuses",
                PG_SHOW(l->name), strides);
    PG_TRY(pg__config_dim_or(&m->a.groups, l, "groups", 1, err));
    PG_TRY(pg__config_padding(&m->padding, l, err));
    if (m->padding == PG_PAD_CAUSAL && c->rank != 1)
        PG_FAIL(PG_E_FORMAT, "%s: causal padding has one dimension", PG_SHOW(l->name));
done:
    return st;
}

static uint64_t reach_of(const image *m, uint32_t i)
{
    return (m->a.kernel[i] - 1) * m->a.dilation[i] + 1;
}

static pg_status read_image(image *m, pg__lowering *lw, const pg__layer *l, const pg__val *in,
                            size_t n_in, int has_filters, pg_err *err)
{
    pg_status st = PG_OK;
    *m = (image){.channels = 0};
    PG_TRY(pg__lower_one_input(l, n_in, err));
    if (pg__config_has(l, "lora_rank") || pg__config_has(l, "quantization_config"))
        PG_FAIL(PG_E_UNSUPPORTED, "%s: low-rank adapters and quantized kernels are not supported",
                PG_SHOW(l->name));
    PG_TRY(read_conv(&m->c, l, has_filters, err));
    m->a.rank = m->c.rank;
    PG_TRY(read_steps(m, l, err));
    PG_TRY(pg__to_channels_last(lw, l, m->c.rank, in[0], &m->x, err));
    const pg__dims *x = pg__dims_at(lw, m->x);
    m->channels = x->d[x->rank - 1];
    if (m->channels == PG_DIM_ANY)
        PG_FAIL(PG_E_MISMATCH, "input %s needs a known number of channels",
                PG_SHAPE(pg__dims_at(lw, in[0])));
    m->a.same = m->padding == PG_PAD_SAME;
    for (uint32_t i = 0; i < m->c.rank; i++) {
        m->a.kernel[i] = m->c.k[i];
        if (m->padding == PG_PAD_SAME)
            pg__pad_same(x->d[i + 1], reach_of(m, i), m->a.stride[i], &m->a.before[i],
                         &m->a.after[i]);
        else if (m->padding == PG_PAD_CAUSAL)
            m->a.before[i] = reach_of(m, i) - 1;
    }
done:
    return st;
}

/* The kernel as (*k, a, b), however it is stored. */
static pg_status lower_kernel(pg__lowering *lw, const conv *c, const char *name, uint64_t a,
                              uint64_t b, pg__val *out, pg_err *err)
{
    uint64_t dims[6];
    const uint32_t n = kernel_dims(c, a, b, dims);
    pg__dims to = pg__dims_of(c->rank, c->k);
    uint32_t perm[PG_MAX_RANK] = {0};
    pg_status st = PG_OK;
    to.d[to.rank++] = a;
    to.d[to.rank++] = b;
    PG_TRY(pg__lower_param(lw, name, n, dims, out, err));
    for (uint32_t i = 0; i < n; i++)
        perm[i] = i + 2 < n ? i + 2 : n - 1 - i;
    if (c->th)
        PG_TRY(pg__lower_transpose(lw, *out, perm, out, err));
    PG_TRY(pg__lower_reshape(lw, *out, &to, out, err)); /* Keras 1: a width of 1 */
done:
    return st;
}

/* The last steps of all: channels back, activation. */
static pg_status finish(pg__lowering *lw, const pg__layer *l, pg__val y, pg__results *out,
                        pg_err *err)
{
    pg_status st = PG_OK;
    out->n = 1;
    PG_TRY(pg__from_channels_last(lw, l, y, &y, err));
    PG_TRY(
        pg__lower_activation_of(lw, l, pg__json_get(l->config, "activation"), y, &out->v[0], err));
done:
    return st;
}

pg_status pg__lower_conv(pg__lowering *lw, const pg__layer *l, const pg__val *in, size_t n_in,
                         pg__results *out, pg_err *err)
{
    image m;
    pg__val operands[3] = {PG_NO_VAL, PG_NO_VAL, PG_NO_VAL}, y;
    pg_status st = PG_OK;
    PG_TRY(read_image(&m, lw, l, in, n_in, 1, err));
    operands[0] = m.x;
    if (m.channels % m.a.groups != 0 || m.c.filters % m.a.groups != 0)
        PG_FAIL(PG_E_FORMAT, "%s: %llu groups do not divide %llu channels and %llu filters",
                PG_SHOW(l->name), (unsigned long long)m.a.groups, (unsigned long long)m.channels,
                (unsigned long long)m.c.filters);
    PG_TRY(
        lower_kernel(lw, &m.c, "kernel", m.channels / m.a.groups, m.c.filters, &operands[1], err));
    if (m.c.bias)
        PG_TRY(pg__lower_param(lw, "bias", 1, &m.c.filters, &operands[2], err));
    PG_TRY(pg__emit(&lw->to->tape, PG_OP_conv, &m.a, operands, 3, &y, err));
    PG_TRY(finish(lw, l, y, out, err));
done:
    return st;
}

/* One group per channel: the kernel (*k, in, multiplier) in memory is (*k, 1, in multiplier). */
static pg_status lower_depthwise(pg__lowering *lw, const pg__layer *l, image *m, int has_bias,
                                 uint64_t *filters, pg__val *out, pg_err *err)
{
    uint64_t multiplier;
    pg__dims kernel = pg__dims_of(m->c.rank, m->c.k);
    pg__val operands[3] = {m->x, PG_NO_VAL, PG_NO_VAL};
    pg_status st = PG_OK;
    PG_TRY(pg__config_dim_or(&multiplier, l, "depth_multiplier", 1, err));
    *filters = pg__dim_mul(m->channels, multiplier);
    PG_TRY(lower_kernel(lw, &m->c, "depthwise_kernel", m->channels, multiplier, &operands[1], err));
    kernel.d[kernel.rank++] = 1;
    kernel.d[kernel.rank++] = *filters;
    PG_TRY(pg__lower_reshape(lw, operands[1], &kernel, &operands[1], err));
    m->a.groups = m->channels;
    if (has_bias)
        PG_TRY(pg__lower_param(lw, "bias", 1, filters, &operands[2], err));
    PG_TRY(pg__emit(&lw->to->tape, PG_OP_conv, &m->a, operands, 3, out, err));
done:
    return st;
}

pg_status pg__lower_depthwise_conv(pg__lowering *lw, const pg__layer *l, const pg__val *in,
                                   size_t n_in, pg__results *out, pg_err *err)
{
    image m;
    uint64_t filters;
    pg__val y;
    pg_status st = PG_OK;
    PG_TRY(read_image(&m, lw, l, in, n_in, 0, err));
    PG_TRY(lower_depthwise(lw, l, &m, m.c.bias, &filters, &y, err));
    PG_TRY(finish(lw, l, y, out, err));
done:
    return st;
}

/* A depthwise convolution, then one over channels alone. */
pg_status pg__lower_separable_conv(pg__lowering *lw, const pg__layer *l, const pg__val *in,
                                   size_t n_in, pg__results *out, pg_err *err)
{
    image m;
    conv point;
    uint64_t between;
    pg__val operands[3] = {PG_NO_VAL, PG_NO_VAL, PG_NO_VAL}, y;
    pg__conv_attrs a = {.groups = 1};
    pg_status st = PG_OK;
    PG_TRY(read_image(&m, lw, l, in, n_in, 1, err));
    PG_TRY(lower_depthwise(lw, l, &m, 0, &between, &operands[0], err));
    point = m.c;
    a.rank = m.c.rank;
    for (uint32_t i = 0; i < m.c.rank; i++)
        point.k[i] = a.kernel[i] = a.stride[i] = a.dilation[i] = 1;
    PG_TRY(lower_kernel(lw, &point, "pointwise_kernel", between, m.c.filters, &operands[1], err));
    if (m.c.bias)
        PG_TRY(pg__lower_param(lw, "bias", 1, &m.c.filters, &operands[2], err));
    PG_TRY(pg__emit(&lw->to->tape, PG_OP_conv, &a, operands, 3, &y, err));
    PG_TRY(finish(lw, l, y, out, err));
done:
    return st;
}

/* ---- transposed ---- */

/* Number of output cells along axis i for n input cells: the rule of deconv_output_length(). */
static uint64_t made_cells(const image *m, uint32_t i, uint64_t n, const uint64_t *extra)
{
    const uint64_t reach = reach_of(m, i), stride = m->a.stride[i];
    const uint64_t cut = m->padding == PG_PAD_SAME ? reach / 2 : 0;
    if (n == PG_DIM_ANY || n == 0)
        return n;
    if (extra)
        return pg__dim_add(pg__dim_mul(n - 1, stride), reach - 2 * cut + extra[i]);
    if (m->padding == PG_PAD_SAME)
        return pg__dim_mul(n, stride);
    return pg__dim_add(pg__dim_mul(n, stride), reach > stride ? reach - stride : 0);
}

/* Deconvolution2D of Keras 1 has its output_shape in the config, with the batch. */
static pg_status given_size(image *m, const pg__layer *l, pg_err *err)
{
    const pg__json *shape = pg__json_get(l->config, "output_shape");
    for (uint32_t i = 0; i < m->c.rank; i++) {
        int64_t v = 0;
        if (!pg__json_int(pg__json_at(shape, i + (m->c.th ? 2 : 1)), &v) || v <= 0)
            return pg_fail(err, PG_E_FORMAT,
                           "%s: \"output_shape\" holds something other than sizes",
                           PG_SHOW(l->name));
        m->a.size[i] = (uint64_t)v;
    }
    return PG_OK;
}

static pg_status find_sizes(image *m, pg__lowering *lw, const pg__layer *l, pg_err *err)
{
    const int has_extra = pg__json_type_of(pg__json_get(l->config, "output_padding")) > PG_J_NULL;
    const pg__dims *x = pg__dims_at(lw, m->x);
    uint64_t extra[PG_MAX_SPATIAL] = {0};
    pg_status st = PG_OK;
    PG_TRY(pg__config_cells(extra, m->c.rank, l, "output_padding", err));
    if (m->c.keras1)
        PG_TRY(given_size(m, l, err));
    for (uint32_t i = 0; i < m->c.rank; i++) {
        if (!m->c.keras1)
            m->a.size[i] = made_cells(m, i, x->d[i + 1], has_extra ? extra : NULL);
        m->a.before[i] = m->a.after[i] = 0;
        if (m->padding == PG_PAD_SAME)
            pg__pad_same(m->a.size[i], reach_of(m, i), m->a.stride[i], &m->a.before[i],
                         &m->a.after[i]);
    }
done:
    return st;
}

/* Computes the gradient of a convolution with respect to its input; the kernel is (*k, out, in). */
pg_status pg__lower_conv_transpose(pg__lowering *lw, const pg__layer *l, const pg__val *in,
                                   size_t n_in, pg__results *out, pg_err *err)
{
    image m;
    pg__val w, y, bias;
    pg_status st = PG_OK;
    PG_TRY(read_image(&m, lw, l, in, n_in, 1, err));
    PG_TRY(find_sizes(&m, lw, l, err));
    if (m.c.keras1) {
        uint32_t perm[PG_MAX_RANK] = {0, 1, 2};
        perm[m.c.rank] = m.c.rank + 1;
        perm[m.c.rank + 1] = m.c.rank;
        PG_TRY(lower_kernel(lw, &m.c, "kernel", m.channels, m.c.filters, &w, err));
        PG_TRY(pg__lower_transpose(lw, w, perm, &w, err));
    } else {
        PG_TRY(lower_kernel(lw, &m.c, "kernel", m.c.filters, m.channels, &w, err));
    }
    PG_TRY(pg__emit2(&lw->to->tape, PG_OP_conv_dx, &m.a, m.x, w, &y, err));
    if (m.c.bias) {
        PG_TRY(pg__lower_param(lw, "bias", 1, &m.c.filters, &bias, err));
        PG_TRY(pg__lower_binary(lw, PG_ADD, y, bias, &y, err));
    }
    PG_TRY(finish(lw, l, y, out, err));
done:
    return st;
}

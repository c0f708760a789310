/* layer_conv.c - convolutions. Keras 2 and 3 store kernels as (*k, in, out) whatever the
 * data_format; Keras 1 as (out, in, *k) with dim_ordering "th", and its Convolution1D as
 * (length, 1, in, out). */
#include <string.h>

#include "base/try.h"
#include "model/layers.h"

static const uint64_t any = PG_DIM_ANY;

typedef struct conv {
    size_t rank;   /* spatial dimensions */
    uint64_t k[3]; /* kernel size */
    uint64_t filters;
    int keras1, th, bias;
} conv;

/* Number of spatial dimensions, from the class name: "Conv2DTranspose" has 2. */
static size_t spatial_rank(const char *class_name)
{
    const char *p = strpbrk(class_name, "123");
    return p ? (size_t)(*p - '0') : 2;
}

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
    *c = (conv){.rank = spatial_rank(l->class_name), .keras1 = pg__config_has(l, "nb_filter")};
    if (c->keras1)
        return read_keras1_kernel(c, l, err);
    PG_TRY(pg__config_dim_list(c->k, c->rank, l, "kernel_size", err));
    if (has_filters)
        PG_TRY(pg__config_dim(&c->filters, l, "filters", err));
    c->bias = pg__config_bool(l, "use_bias", 1);
done:
    return st;
}

/* Adds a variable of shape (*k, a, b); in Keras 1's "th" ordering (b, a, *k). */
static pg_status add_kernel(pg__vars *out, const conv *c, const char *name, const char *alt,
                            int trainable, uint64_t a, uint64_t b, pg_err *err)
{
    uint64_t dims[6];
    size_t n = 0;
    if (c->th)
        dims[n++] = b, dims[n++] = a;
    for (size_t i = 0; i < c->rank; i++)
        dims[n++] = c->k[i];
    if (c->keras1 && c->rank == 1) /* a 2-D convolution of width 1 */
        dims[n++] = 1;
    if (!c->th)
        dims[n++] = a, dims[n++] = b;
    return pg__vars_add(out, name, alt, trainable, (uint32_t)n, dims, err);
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

/* Every position has a kernel of its own; how it is stored depends on "implementation". */
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

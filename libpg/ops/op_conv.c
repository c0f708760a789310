/* op_conv.c - convolutions over one to three spatial dimensions, channels last: conv, conv_dx (its
 * transpose, also the forward pass of a transposed convolution) and conv_dw. Each is a gradient of
 * the others. conv_norm has none. Depthwise convolutions have as many groups as channels. */
#include "base/try.h"
#include "ops/attrs.h"
#include "ops/rules.h"

/* Cells of a convolution's result along one axis; 0 if the kernel is larger than the operand. */
static uint64_t out_cells(const pg__conv_attrs *a, uint32_t i, uint64_t size)
{
    const uint64_t reach = (a->kernel[i] - 1) * a->dilation[i] + 1;
    const uint64_t all = pg__dim_add(size, a->before[i] + a->after[i]);
    if (all == PG_DIM_ANY)
        return PG_DIM_ANY;
    return all < reach ? 0 : (all - reach) / a->stride[i] + 1;
}

/* x: the operand of the convolution. */
static pg_status check_kernel(const pg__conv_attrs *a, uint64_t channels, const pg__dims *kernel,
                              pg_err *err)
{
    int fits = kernel->rank == a->rank + 2 && a->groups > 0 &&
               channels == pg__dim_mul(kernel->d[a->rank], a->groups) &&
               kernel->d[a->rank + 1] % a->groups == 0;
    for (uint32_t i = 0; fits && i < a->rank; i++)
        fits = kernel->d[i] == a->kernel[i];
    if (!fits)
        return pg_fail(err, PG_E_MISMATCH, "%llu channels in %llu groups do not fit the kernel %s",
                       (unsigned long long)channels, (unsigned long long)a->groups,
                       PG_SHAPE(kernel));
    return PG_OK;
}

pg_status pg__shape_conv(const void *attrs, const pg__dims *const *in, size_t n_in, pg__dims *out,
                         pg_err *err)
{
    const pg__conv_attrs *a = attrs;
    const pg__dims *x = in[0], *kernel = in[1], *bias = n_in > 2 ? in[2] : NULL;
    pg_status st = PG_OK;
    if (x->rank != a->rank + 2)
        PG_FAIL(PG_E_MISMATCH, "input %s does not have %u spatial dimensions", PG_SHAPE(x),
                a->rank);
    PG_TRY(check_kernel(a, x->d[a->rank + 1], kernel, err));
    if (bias && (bias->rank != 1 || bias->d[0] != kernel->d[a->rank + 1]))
        PG_FAIL(PG_E_MISMATCH, "bias %s does not fit the kernel %s", PG_SHAPE(bias),
                PG_SHAPE(kernel));
    *out = *x;
    out->d[a->rank + 1] = kernel->d[a->rank + 1];
    for (uint32_t i = 0; i < a->rank; i++) {
        out->d[i + 1] = out_cells(a, i, x->d[i + 1]);
        if (out->d[i + 1] == 0)
            PG_FAIL(PG_E_MISMATCH, "input %s is smaller than the kernel %s", PG_SHAPE(x),
                    PG_SHAPE(kernel));
    }
done:
    return st;
}

/* x, kernel, bias, mean, variance, gamma, beta, plus */
pg_status pg__shape_conv_norm(const void *attrs, const pg__dims *const *in, size_t n_in,
                              pg__dims *out, pg_err *err)
{
    const pg__conv_norm_attrs *a = attrs;
    pg_status st = PG_OK;
    PG_TRY(pg__shape_conv(&a->conv, in, 3, out, err));
    for (size_t k = 3; k < 7; k++)
        if (in[k] && (in[k]->rank != 1 || in[k]->d[0] != out->d[out->rank - 1]))
            PG_FAIL(PG_E_MISMATCH, "%s of a normalisation, of %s", PG_SHAPE(in[k]), PG_SHAPE(out));
    if (n_in > 7 && in[7] && !pg__dims_equal(in[7], out))
        PG_FAIL(PG_E_MISMATCH, "cannot add %s and %s", PG_SHAPE(out), PG_SHAPE(in[7]));
done:
    return st;
}

pg_status pg__shape_conv_dx(const void *attrs, const pg__dims *const *in, size_t n_in,
                            pg__dims *out, pg_err *err)
{
    const pg__conv_attrs *a = attrs;
    const pg__dims *dy = in[0], *kernel = in[1];
    (void)n_in;
    if (dy->rank != a->rank + 2 || kernel->rank != a->rank + 2 ||
        dy->d[a->rank + 1] != kernel->d[a->rank + 1])
        return pg_fail(err, PG_E_MISMATCH, "input %s does not fit the kernel %s", PG_SHAPE(dy),
                       PG_SHAPE(kernel));
    *out = *dy;
    out->d[a->rank + 1] = pg__dim_mul(kernel->d[a->rank], a->groups);
    for (uint32_t i = 0; i < a->rank; i++) {
        out->d[i + 1] = a->size[i];
        if (!pg__dim_fits(out_cells(a, i, a->size[i]), dy->d[i + 1]))
            return pg_fail(err, PG_E_MISMATCH, "input %s does not make %llu cells along axis %u",
                           PG_SHAPE(dy), (unsigned long long)a->size[i], i + 1);
    }
    return check_kernel(a, out->d[a->rank + 1], kernel, err);
}

pg_status pg__shape_conv_dw(const void *attrs, const pg__dims *const *in, size_t n_in,
                            pg__dims *out, pg_err *err)
{
    const pg__conv_attrs *a = attrs;
    const uint32_t last = a->rank + 1;
    (void)n_in, (void)err;
    out[0] = (pg__dims){.rank = a->rank + 2};
    for (uint32_t i = 0; i < a->rank; i++)
        out[0].d[i] = a->kernel[i];
    out[0].d[a->rank] = in[0]->d[last] / a->groups;
    out[0].d[last] = in[1]->d[last];
    out[1] = pg__dims_of(1, &in[1]->d[last]);
    return PG_OK;
}

pg_status pg__backward_conv(pg__tape *t, const pg__inst *i, pg_err *err)
{
    const pg__val dy = pg__grad_of(t, i, 0), x = pg__in(t, i, 0), w = pg__in(t, i, 1);
    pg__conv_attrs a = *(const pg__conv_attrs *)i->attrs;
    pg__val dx, dw[2];
    pg_status st = PG_OK;
    for (uint32_t k = 0; k < a.rank; k++)
        a.size[k] = t->values[x].shape.d[k + 1];
    if (pg__wants(t, i, 1) || pg__wants(t, i, 2))
        PG_TRY(pg__emit2(t, PG_OP_conv_dw, &a, x, dy, dw, err));
    if (pg__wants(t, i, 1))
        PG_TRY(pg__give(t, i, 1, dw[0], err));
    if (pg__wants(t, i, 2))
        PG_TRY(pg__give(t, i, 2, dw[1], err));
    if (pg__wants(t, i, 0)) {
        PG_TRY(pg__emit2(t, PG_OP_conv_dx, &a, dy, w, &dx, err));
        PG_TRY(pg__give(t, i, 0, dx, err));
    }
done:
    return st;
}

/* z = conv_dx(y, w): the gradient of y is the convolution of z's, that of w pairs z's with y. */
pg_status pg__backward_conv_dx(pg__tape *t, const pg__inst *i, pg_err *err)
{
    const pg__val dz = pg__grad_of(t, i, 0), y = pg__in(t, i, 0), w = pg__in(t, i, 1);
    pg__val dy, dw[2];
    pg_status st = PG_OK;
    if (pg__wants(t, i, 1)) {
        PG_TRY(pg__emit2(t, PG_OP_conv_dw, i->attrs, dz, y, dw, err));
        PG_TRY(pg__give(t, i, 1, dw[0], err));
    }
    if (pg__wants(t, i, 0)) {
        PG_TRY(pg__emit2(t, PG_OP_conv, i->attrs, dz, w, &dy, err));
        PG_TRY(pg__give(t, i, 0, dy, err));
    }
done:
    return st;
}

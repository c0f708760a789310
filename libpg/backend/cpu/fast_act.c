/* fast_act.c - activations and their slopes: one loop for each kind; plain ReLU, which memory
 * limits, is separate. */
#include "backend/cpu/act_vec.h"
#include "backend/cpu/fast.h"

static int is_plain_relu(const pg__act_attrs *a)
{
    return a->kind == PG_ACT_RELU && isinf(a->a) && a->b == 0 && a->c == 0;
}

static void relu(const float *x, float *y, size_t n)
{
    PG_EACH
    for (size_t i = 0; i < n; i++)
        y[i] = x[i] < 0 ? 0 : x[i]; /* NaN stays */
}

static void relu_grad(const float *v, const float *dy, float *dx, size_t n)
{
    PG_EACH
    for (size_t i = 0; i < n; i++) {
        const float d = dy[i]; /* read unconditionally: no branch */
        dx[i] = v[i] > 0 ? d : 0;
    }
}

void PG_FAST_FN(act)(PG_REF_ARGS)
{
    const pg__act_attrs *a = attrs_;
    const pg__act_consts k = pg__act_consts_of(a);
    const float *x = in[0].p;
    float *y = out[0].p;
    const size_t n = (size_t)out[0].n;
    PG_UNUSED(n_in), PG_UNUSED(n_out);
    if (is_plain_relu(a)) {
        relu(x, y, n);
        return;
    }
#define DO(kind)                   \
    PG_EACH                        \
    for (size_t i = 0; i < n; i++) \
    y[i] = pg__vact(kind, x[i], k)
    PG_FOR_ACT(a->kind, DO)
#undef DO
}

void PG_FAST_FN(act_grad)(PG_REF_ARGS)
{
    const pg__act_attrs *a = attrs_;
    const pg__act_consts k = pg__act_consts_of(a);
    const float *v = in[0].p, *dy = in[1].p;
    float *dx = out[0].p;
    const size_t n = (size_t)out[0].n;
    PG_UNUSED(n_in), PG_UNUSED(n_out);
    if (is_plain_relu(a)) {
        relu_grad(v, dy, dx, n);
        return;
    }
#define DO(kind)                   \
    PG_EACH                        \
    for (size_t i = 0; i < n; i++) \
    dx[i] = dy[i] * pg__vact_slope(kind, v[i], k)
    PG_FOR_ACT(a->kind, DO)
#undef DO
}

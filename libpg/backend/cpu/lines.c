/* lines.c - compiled once for each instruction set, see lines.h. Sums are taken in lanes of one
 * width per build, so that equal numbers give equal bits. */
#include "backend/cpu/lines.h"

#include "backend/cpu/fast.h"
#include "ops/act_real.h"

/* ---- activations of recurrent cells ---- */

/* x = act(x) */
static void apply(const pg__act_attrs *a, float *restrict x, size_t n)
{
    if (a->kind == PG_ACT_SIGMOID)
        for (size_t i = 0; i < n; i++)
            x[i] = pg__vsigmoid(x[i]);
    else if (a->kind == PG_ACT_TANH)
        for (size_t i = 0; i < n; i++)
            x[i] = pg__vtanh(x[i]);
    else
        for (size_t i = 0; i < n; i++)
            x[i] = pg__act_value(x[i], a);
}

/* d *= the slope of act where it gave y */
static void slope(const pg__act_attrs *a, const float *restrict y, float *restrict d, size_t n)
{
    if (a->kind == PG_ACT_SIGMOID)
        for (size_t i = 0; i < n; i++)
            d[i] *= y[i] * (1 - y[i]);
    else if (a->kind == PG_ACT_TANH)
        for (size_t i = 0; i < n; i++)
            d[i] *= 1 - y[i] * y[i];
    else
        for (size_t i = 0; i < n; i++)
            d[i] *= pg__act_slope_of_result(y[i], a);
}

/* to = a + b; b may be NULL */
static void sum(const float *restrict a, const float *restrict b, float *restrict to, size_t n)
{
    if (!b)
        memcpy(to, a, n * sizeof *to);
    else
        for (size_t i = 0; i < n; i++)
            to[i] = a[i] + b[i];
}

static void add(float *restrict to, const float *restrict x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] += x[i];
}

static void times(float *restrict to, const float *restrict x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] *= x[i];
}

static void product(float *restrict to, const float *restrict a, const float *restrict b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = a[i] * b[i];
}

/* ---- attention ---- */

static void softmax(float *p, size_t n)
{
    const float top = pg__row_max(p, n);
    for (size_t i = 0; i < n; i++)
        p[i] = pg__vexp_down(p[i] - top);
    const float share = 1 / pg__row_sum(p, n);
    for (size_t i = 0; i < n; i++)
        p[i] *= share;
}

static void softmax_grad(float *restrict d, const float *restrict p, size_t n)
{
    float all = 0;
#pragma omp simd reduction(+ : all)
    for (size_t i = 0; i < n; i++)
        all += d[i] * p[i];
    for (size_t i = 0; i < n; i++)
        d[i] = p[i] * (d[i] - all);
}

static void hide(float *restrict scores, const float *restrict open, size_t n)
{
    for (size_t i = 0; i < n; i++)
        scores[i] = open[i] == 0 ? PG_MASKED : scores[i];
}

/* ---- LSTM: gates i, f, c, o side by side ---- */

/* Nearly all models: sigmoid and tanh, in few passes. What waits for c' has one of its own. */
static int is_usual(const pg__rnn_attrs *a)
{
    return a->gate.kind == PG_ACT_SIGMOID && a->act.kind == PG_ACT_TANH;
}

static void usual_lstm(size_t n, const float *restrict zx, const float *restrict zh,
                       const float *restrict c, float *restrict gates, float *restrict h_to,
                       float *restrict c_to)
{
    for (size_t k = 0; k < n; k++) {
        const float i = pg__vsigmoid(zx[k] + zh[k]);
        const float f = pg__vsigmoid(zx[n + k] + zh[n + k]);
        const float g = pg__vtanh(zx[2 * n + k] + zh[2 * n + k]);
        const float o = pg__vsigmoid(zx[3 * n + k] + zh[3 * n + k]);
        const float to = f * c[k] + i * g;
        gates[k] = i;
        gates[n + k] = f;
        gates[2 * n + k] = g;
        gates[3 * n + k] = o;
        c_to[k] = to;
    }
    for (size_t k = 0; k < n; k++)
        h_to[k] = gates[3 * n + k] * pg__vtanh(c_to[k]);
}

static void usual_lstm_grad(size_t n, const float *restrict gates, const float *restrict c,
                            const float *restrict c_to, float *restrict dh, float *restrict dc,
                            float *restrict dz)
{
    for (size_t k = 0; k < n; k++) {
        const float i = gates[k], f = gates[n + k], g = gates[2 * n + k], o = gates[3 * n + k];
        const float shown = pg__vtanh(c_to[k]), e = dh[k];
        const float d = dc[k] + e * o * (1 - shown * shown);
        dz[k] = d * g * i * (1 - i);
        dz[n + k] = d * c[k] * f * (1 - f);
        dz[2 * n + k] = d * i * (1 - g * g);
        dz[3 * n + k] = e * shown * o * (1 - o);
        dc[k] = d * f;
        dh[k] = 0;
    }
}

static void lstm(const pg__rnn_attrs *a, size_t n, const float *zx, const float *zh,
                 const float *restrict c, float *restrict gates, float *restrict h_to,
                 float *restrict c_to)
{
    const float *i = gates, *f = gates + n, *g = gates + 2 * n, *o = gates + 3 * n;
    if (c && zh && is_usual(a)) {
        usual_lstm(n, zx, zh, c, gates, h_to, c_to);
        return;
    }
    sum(zx, zh, gates, 4 * n);
    apply(&a->gate, gates, 2 * n);
    apply(&a->act, gates + 2 * n, n);
    apply(&a->gate, gates + 3 * n, n);
    if (c)
        for (size_t k = 0; k < n; k++)
            c_to[k] = f[k] * c[k] + i[k] * g[k];
    else
        for (size_t k = 0; k < n; k++)
            c_to[k] = i[k] * g[k];
    memcpy(h_to, c_to, n * sizeof *h_to);
    apply(&a->act, h_to, n);
    for (size_t k = 0; k < n; k++)
        h_to[k] *= o[k];
}

static void lstm_grad(const pg__rnn_attrs *a, size_t n, const float *restrict gates,
                      const float *restrict c, const float *restrict c_to, float *restrict dh,
                      float *restrict dc, float *restrict dz)
{
    const float *i = gates, *f = gates + n, *g = gates + 2 * n, *o = gates + 3 * n;
    float *shown = dz + 3 * n; /* act(c') until the last of the loops over it */
    if (c && is_usual(a)) {
        usual_lstm_grad(n, gates, c, c_to, dh, dc, dz);
        return;
    }
    memcpy(shown, c_to, n * sizeof *shown);
    apply(&a->act, shown, n);
    for (size_t k = 0; k < n; k++)
        dz[k] = dh[k] * o[k];
    slope(&a->act, shown, dz, n);
    for (size_t k = 0; k < n; k++) {
        const float d = dc[k] + dz[k];
        dz[k] = d * g[k];
        dz[n + k] = c ? d * c[k] : 0;
        dz[2 * n + k] = d * i[k];
        dz[3 * n + k] *= dh[k];
        dc[k] = d * f[k];
        dh[k] = 0;
    }
    slope(&a->gate, gates, dz, 2 * n);
    slope(&a->act, g, dz + 2 * n, n);
    slope(&a->gate, o, dz + 3 * n, n);
}

/* ---- the simple cell ---- */

static void rnn(const pg__rnn_attrs *a, size_t n, const float *zx, const float *zh, float *h_to)
{
    sum(zx, zh, h_to, n);
    apply(&a->act, h_to, n);
}

static void rnn_grad(const pg__rnn_attrs *a, size_t n, const float *h_to, float *dh, float *dz)
{
    memcpy(dz, dh, n * sizeof *dz);
    slope(&a->act, h_to, dz, n);
    memset(dh, 0, n * sizeof *dh);
}

/* ---- GRU: gates z, r, h side by side ---- */

static void usual_gru_gates(size_t n, const float *restrict zx, const float *restrict zh,
                            const float *restrict bias, float *restrict gates)
{
    for (size_t k = 0; k < n; k++)
        gates[k] = pg__vsigmoid(zx[k] + zh[k] + bias[k]);
}

static void gru_gates(const pg__rnn_attrs *a, size_t n, const float *zx, const float *zh,
                      const float *bias, float *gates, float *part)
{
    if (zh && bias && a->reset_after && is_usual(a)) {
        usual_gru_gates(2 * n, zx, zh, bias, gates);
    } else {
        sum(zx, zh, gates, 2 * n);
        if (bias && a->reset_after)
            add(gates, bias, 2 * n);
        apply(&a->gate, gates, 2 * n);
    }
    if (!a->reset_after)
        return;
    if (zh)
        memcpy(part, zh + 2 * n, n * sizeof *part);
    else
        memset(part, 0, n * sizeof *part);
    if (bias)
        add(part, bias + 2 * n, n);
}

static void gru_state(const pg__rnn_attrs *a, size_t n, const float *restrict zx,
                      const float *restrict part, const float *restrict h,
                      const float *restrict carried, float *restrict gates, float *restrict h_to)
{
    const float *z = gates, *r = gates + n;
    float *g = gates + 2 * n;
    for (size_t k = 0; k < n; k++)
        g[k] = zx[2 * n + k] + (a->reset_after ? r[k] * part[k] : part[k]);
    apply(&a->act, g, n);
    for (size_t k = 0; k < n; k++) {
        const float kept = h ? (carried ? h[k] * carried[k] : h[k]) : 0;
        h_to[k] = z[k] * kept + (1 - z[k]) * g[k];
    }
}

static void gru_grad(const pg__rnn_attrs *a, size_t n, const float *restrict gates,
                     const float *restrict part, const float *restrict h,
                     const float *restrict carried, float *restrict dh, float *restrict dz)
{
    const float *z = gates, *r = gates + n, *g = gates + 2 * n;
    for (size_t k = 0; k < n; k++) {
        const float keep = carried ? carried[k] : 1, kept = h ? h[k] * keep : 0;
        dz[k] = dh[k] * (kept - g[k]);
        dz[2 * n + k] = dh[k] * (1 - z[k]);
        dh[k] *= z[k] * keep;
    }
    slope(&a->gate, z, dz, n);
    slope(&a->act, g, dz + 2 * n, n);
    if (!a->reset_after)
        return;
    product(dz + n, dz + 2 * n, part, n);
    slope(&a->gate, r, dz + n, n);
}

static void gru_reset_grad(const pg__rnn_attrs *a, size_t n, const float *restrict gates,
                           const float *restrict h, const float *restrict factors,
                           const float *restrict dot, float *restrict dh, float *restrict dz)
{
    const float *r = gates + n;
    for (size_t k = 0; k < n; k++) {
        const float d = factors ? dot[k] * factors[k] : dot[k];
        dh[k] += d * r[k];
        dz[n + k] = h ? d * h[k] : 0;
    }
    slope(&a->gate, r, dz + n, n);
}

extern const pg__lines PG_JOIN(pg__lines_, PG_ISA);
const pg__lines PG_JOIN(pg__lines_, PG_ISA) = {
    .add = add,
    .times = times,
    .product = product,
    .softmax = softmax,
    .softmax_grad = softmax_grad,
    .hide = hide,
    .lstm = lstm,
    .lstm_grad = lstm_grad,
    .rnn = rnn,
    .rnn_grad = rnn_grad,
    .gru_gates = gru_gates,
    .gru_state = gru_state,
    .gru_grad = gru_grad,
    .gru_reset_grad = gru_reset_grad,
};

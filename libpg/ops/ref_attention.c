/* ref_attention.c - attention, one row of scores at a time. A masked score counts as -1e9, which is
 * what Keras' addition of -1e9 leaves in float: a row that is masked everywhere attends equally to
 * all steps. Masks have no gradient, and do not stop the gradient of the scores. */
#include "ops/real.h"

enum { Q, K, V, Q_MASK, V_MASK, K_MASK, MASK, FACTORS };

#define MASKED ((real)-1e9)

typedef struct sizes {
    size_t rows, heads, t, s, a, b; /* a: features of a head's query, b: of its value */
} sizes;

/* Features `head` of step `step` of row `row` in a tensor (rows, steps, heads * n). */
static size_t at(size_t row, size_t steps, size_t step, size_t heads, size_t head, size_t n)
{
    return ((row * steps + step) * heads + head) * n;
}

/* The attention mask for a score; axes of size 1 apply to all. */
static int is_open(const pg__arg *mask, size_t row, size_t head, size_t t, size_t s)
{
    const size_t index[] = {row, head, t, s};
    const pg__dims *d = mask->shape;
    const uint32_t skip = 4 - d->rank;
    size_t to = d->d[0] > 1 ? row : 0;
    for (uint32_t i = 1; i < d->rank; i++)
        to = to * (size_t)d->d[i] + (d->d[i] > 1 ? index[i + skip] : 0);
    return pg__reals(mask)[to] != 0;
}

static int is_masked(const pg__attention_attrs *a, const sizes *z, const pg__arg *in, size_t row,
                     size_t head, size_t t, size_t s)
{
    const real *q = pg__reals(&in[Q_MASK]), *v = pg__reals(&in[V_MASK]);
    const real *k = pg__reals(&in[K_MASK]);
    return (a->causal && s > t) || (q && q[row * z->t + t] == 0) || (v && v[row * z->s + s] == 0) ||
           (k && k[row * z->s + s] == 0) || (in[MASK].p && !is_open(&in[MASK], row, head, t, s));
}

static void softmax(real *p, size_t n)
{
    real top = p[0], sum = 0;
    for (size_t k = 1; k < n; k++)
        top = p[k] > top ? p[k] : top;
    for (size_t k = 0; k < n; k++)
        sum += p[k] = R(exp)(p[k] - top);
    for (size_t k = 0; k < n; k++)
        p[k] /= sum;
}

static void attend(const pg__attention_attrs *a, const sizes *z, const pg__arg *in, size_t row,
                   size_t head, size_t t, real *p, real *y)
{
    const real *q = pg__reals(&in[Q]) + at(row, z->t, t, z->heads, head, z->a);
    const real *factors = pg__reals(&in[FACTORS]);
    for (size_t s = 0; s < z->s; s++) {
        const real *k = pg__reals(&in[K]) + at(row, z->s, s, z->heads, head, z->a);
        real dot = 0;
        for (size_t i = 0; i < z->a; i++)
            dot += q[i] * k[i];
        p[s] = is_masked(a, z, in, row, head, t, s) ? MASKED : dot * (real)a->scale;
    }
    softmax(p, z->s);
    for (size_t i = 0; y && i < z->b; i++)
        y[i] = 0;
    for (size_t s = 0; y && s < z->s; s++) {
        const real *v = pg__reals(&in[V]) + at(row, z->s, s, z->heads, head, z->b);
        const real w =
            factors ? p[s] * factors[((row * z->heads + head) * z->t + t) * z->s + s] : p[s];
        for (size_t i = 0; i < z->b; i++)
            y[i] += w * v[i];
    }
}

static sizes sizes_of(const pg__attention_attrs *a, const pg__arg *in)
{
    const size_t heads = (size_t)a->heads;
    return (sizes){.rows = (size_t)in[Q].shape->d[0],
                   .heads = heads,
                   .t = (size_t)in[Q].shape->d[1],
                   .s = (size_t)in[K].shape->d[1],
                   .a = (size_t)in[Q].shape->d[2] / heads,
                   .b = (size_t)in[V].shape->d[2] / heads};
}

void PG_REF(attention)(PG_REF_ARGS)
{
    const sizes z = sizes_of(attrs_, in);
    real *p = pg__reals_out(&out[1]), *y = pg__reals_out(&out[0]);
    PG_UNUSED(n_in), PG_UNUSED(n_out);
    for (size_t row = 0; row < z.rows; row++)
        for (size_t head = 0; head < z.heads; head++)
            for (size_t t = 0; z.s > 0 && t < z.t; t++, p += z.s)
                attend(attrs_, &z, in, row, head, t, p,
                       y ? y + at(row, z.t, t, z.heads, head, z.b) : NULL);
}

/* ---- gradient ---- */

enum { G_FACTORS = 3, G_P, G_DY, G_DP };

/* scores: first the gradient of the probabilities, then of the scores. */
static void score_gradient(const sizes *z, const pg__arg *in, size_t row, size_t head, size_t t,
                           real *scores)
{
    const size_t line = ((row * z->heads + head) * z->t + t) * z->s;
    const real *p = pg__reals(&in[G_P]) + line;
    const real *factors = in[G_FACTORS].p ? pg__reals(&in[G_FACTORS]) + line : NULL;
    const real *dp = in[G_DP].p ? pg__reals(&in[G_DP]) + line : NULL;
    const real *dy =
        in[G_DY].p ? pg__reals(&in[G_DY]) + at(row, z->t, t, z->heads, head, z->b) : NULL;
    real sum = 0;
    for (size_t s = 0; s < z->s; s++) {
        const real *v = pg__reals(&in[V]) + at(row, z->s, s, z->heads, head, z->b);
        real dot = 0;
        for (size_t i = 0; dy && i < z->b; i++)
            dot += dy[i] * v[i];
        scores[s] = (factors ? dot * factors[s] : dot) + (dp ? dp[s] : 0);
        sum += scores[s] * p[s];
    }
    for (size_t s = 0; s < z->s; s++)
        scores[s] = p[s] * (scores[s] - sum);
}

static void add(real *to, const real *from, real by, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] += by * from[i];
}

static void line_gradient(const pg__attention_attrs *a, const sizes *z, const pg__arg *in,
                          const pg__arg *out, size_t row, size_t head, size_t t)
{
    const size_t line = ((row * z->heads + head) * z->t + t) * z->s;
    const size_t q = at(row, z->t, t, z->heads, head, z->a);
    const size_t y = at(row, z->t, t, z->heads, head, z->b);
    const real *p = pg__reals(&in[G_P]) + line, *factors = pg__reals(&in[G_FACTORS]);
    real *dq = pg__reals_out(&out[0]), *dk = pg__reals_out(&out[1]), *dv = pg__reals_out(&out[2]);
    real *scores = pg__reals_out(&out[3]);
    score_gradient(z, in, row, head, t, scores);
    for (size_t s = 0; s < z->s; s++) {
        const size_t k = at(row, z->s, s, z->heads, head, z->a);
        const size_t v = at(row, z->s, s, z->heads, head, z->b);
        const real by = scores[s] * (real)a->scale;
        if (dq)
            add(dq + q, pg__reals(&in[K]) + k, by, z->a);
        if (dk)
            add(dk + k, pg__reals(&in[Q]) + q, by, z->a);
        if (dv && in[G_DY].p)
            add(dv + v, pg__reals(&in[G_DY]) + y, factors ? p[s] * factors[line + s] : p[s], z->b);
    }
}

void PG_REF(attention_grad)(PG_REF_ARGS)
{
    const sizes z = sizes_of(attrs_, in);
    PG_UNUSED(n_in), PG_UNUSED(n_out);
    for (size_t k = 0; k < 3; k++)
        if (out[k].p)
            memset(out[k].p, 0, (size_t)out[k].n * sizeof(real));
    for (size_t row = 0; row < z.rows; row++)
        for (size_t head = 0; head < z.heads; head++)
            for (size_t t = 0; t < z.t; t++)
                line_gradient(attrs_, &z, in, out, row, head, t);
}

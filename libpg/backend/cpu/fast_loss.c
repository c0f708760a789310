/* fast_loss.c - the crossentropies with which most models are trained, in vectors: on logits, and
 * binary ones on probabilities, too. Formulas: ref_loss.c, which computes the others. */
#include "backend/cpu/fast.h"

#define EPSILON 1e-7f
#define PIECE   256 /* numbers whose losses are computed before they are added */

/* A loss, with the numbers of its formulas as floats. */
typedef struct formula {
    size_t n; /* predictions of a row */
    int logits;
    float keep, add; /* label smoothing: y keep + add */
    float epsilon;   /* added in the logarithm */
} formula;

static int is_ours(const pg__loss_attrs *a)
{
    return a->ignores ? 0
                      : a->kind == PG_LOSS_binary_crossentropy ||
                            (a->logits && (a->kind == PG_LOSS_categorical_crossentropy ||
                                           a->kind == PG_LOSS_sparse_categorical_crossentropy));
}

static formula formula_of(const pg__loss_attrs *a, size_t n)
{
    const int binary = a->kind == PG_LOSS_binary_crossentropy;
    return (formula){.n = n,
                     .logits = a->logits,
                     .keep = (float)(1 - a->smoothing),
                     .add = binary ? (float)(a->smoothing / 2) : (float)a->smoothing / (float)n,
                     .epsilon = a->bce == PG_BCE_ADD_EPSILON ? EPSILON : 0};
}

/* ---- binary: every prediction separately ---- */

static void binary_terms(const formula *f, const float *target, const float *p, size_t n,
                         float *terms)
{
    if (f->logits)
        PG_EACH
    for (size_t i = 0; i < n; i++) {
        const float y = target[i] * f->keep + f->add, top = p[i] > 0 ? p[i] : 0;
        terms[i] = top - p[i] * y + pg__vlog1pexp_down(p[i]);
    }
    else PG_EACH for (size_t i = 0; i < n; i++)
    {
        const float y = target[i] * f->keep + f->add, low = p[i] < EPSILON ? EPSILON : p[i];
        const float c = low > 1 - EPSILON ? 1 - EPSILON : low;
        terms[i] = -(y * pg__vlog(c + f->epsilon) + (1 - y) * pg__vlog(1 - c + f->epsilon));
    }
}

static void binary_slopes(const formula *f, const float *target, const float *p, size_t n,
                          float each, float *dp)
{
    if (f->logits)
        PG_EACH
    for (size_t i = 0; i < n; i++)
        dp[i] = each * (pg__vsigmoid(p[i]) - (target[i] * f->keep + f->add));
    else PG_EACH for (size_t i = 0; i < n; i++)
    {
        const float y = target[i] * f->keep + f->add, q = p[i];
        const float slope = (1 - y) / (1 - q + f->epsilon) - y / (q + f->epsilon);
        dp[i] = q < EPSILON || q > 1 - EPSILON ? 0 : each * slope;
    }
}

static void binary(const formula *f, const float *y, const float *p, const float *w, size_t rows,
                   float *loss)
{
    float terms[PIECE];
    for (size_t r = 0; f->n == 1 && r < rows; r += PIECE) {
        const size_t some = rows - r < PIECE ? rows - r : PIECE;
        binary_terms(f, y + r, p + r, some, terms);
        for (size_t i = 0; i < some; i++)
            loss[r + i] = (w ? w[r + i] : 1) * terms[i];
    }
    for (size_t r = 0; f->n != 1 && r < rows; r++) {
        float sum = 0;
        for (size_t k = 0; k < f->n; k += PIECE) {
            const size_t some = f->n - k < PIECE ? f->n - k : PIECE;
            binary_terms(f, y + r * f->n + k, p + r * f->n + k, some, terms);
            sum += pg__row_sum(terms, some);
        }
        loss[r] = (w ? w[r] : 1) * sum / (float)f->n;
    }
}

static void binary_grad(const formula *f, const float *y, const float *p, const float *w,
                        size_t rows, float seed, float *dp)
{
    const size_t n = f->n;
    if (!w)
        binary_slopes(f, y, p, rows * n, seed / (float)n, dp);
    for (size_t r = 0; w && r < rows; r++)
        binary_slopes(f, y + r * n, p + r * n, n, seed * w[r] / (float)n, dp + r * n);
}

/* ---- categorical, on logits ---- */

static float log_sum_exp(const float *z, size_t n)
{
    const float top = pg__row_max(z, n);
    return top + logf(pg__row_exp_sum(z, top, n));
}

/* y NULL: class c alone. */
static float categorical(const formula *f, const float *y, int32_t c, const float *p)
{
    const float total = log_sum_exp(p, f->n);
    float sum = 0;
    if (!y)
        return total - p[c];
#pragma omp simd reduction(+ : sum)
    for (size_t k = 0; k < f->n; k++)
        sum += (y[k] * f->keep + f->add) * (total - p[k]);
    return sum;
}

static void categorical_grad(const formula *f, const float *y, int32_t c, const float *p,
                             float scale, float *dp)
{
    const size_t n = f->n;
    const float total = log_sum_exp(p, n);
    const float mass = y ? pg__row_sum(y, n) * f->keep + (float)n * f->add : 1;
    if (y)
        PG_EACH
    for (size_t k = 0; k < n; k++)
        dp[k] = scale * (pg__vexp_down(p[k] - total) * mass - (y[k] * f->keep + f->add));
    else PG_EACH for (size_t k = 0; k < n; k++) dp[k] = scale * pg__vexp_down(p[k] - total);
    if (!y)
        dp[c] -= scale;
}

/* ---- both ---- */

void PG_FAST_FN(loss)(PG_REF_ARGS)
{
    const pg__loss_attrs *a = attrs_;
    const size_t rows = pg__rows(&in[0]);
    const formula f = formula_of(a, pg__last(in[0].shape));
    const float *p = in[0].p, *w = in[2].p;
    const int32_t *classes = pg__loss_takes_class(a->kind) ? in[1].p : NULL;
    const float *y = classes ? NULL : in[1].p;
    float *loss = out[0].p;
    if (!is_ours(a)) {
        PG_REF(loss)(attrs_, in, n_in, out, n_out);
        return;
    }
    if (a->kind == PG_LOSS_binary_crossentropy) {
        binary(&f, y, p, w, rows, loss);
        return;
    }
    for (size_t r = 0; r < rows; r++)
        loss[r] = (w ? w[r] : 1) *
                  categorical(&f, y ? y + r * f.n : NULL, classes ? classes[r] : 0, p + r * f.n);
}

void PG_FAST_FN(loss_grad)(PG_REF_ARGS)
{
    const pg__loss_attrs *a = attrs_;
    const size_t rows = pg__rows(&in[0]);
    const formula f = formula_of(a, pg__last(in[0].shape));
    const float *p = in[0].p, *w = in[2].p, *seed = in[3].p;
    const int32_t *classes = pg__loss_takes_class(a->kind) ? in[1].p : NULL;
    const float *y = classes ? NULL : in[1].p;
    float *dp = out[0].p;
    if (!is_ours(a)) {
        PG_REF(loss_grad)(attrs_, in, n_in, out, n_out);
        return;
    }
    if (a->kind == PG_LOSS_binary_crossentropy) {
        binary_grad(&f, y, p, w, rows, *seed, dp);
        return;
    }
    for (size_t r = 0; r < rows; r++)
        categorical_grad(&f, y ? y + r * f.n : NULL, classes ? classes[r] : 0, p + r * f.n,
                         *seed * (w ? w[r] : 1), dp + r * f.n);
}

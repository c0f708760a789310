/* metric_means.c - metrics that are means over rows, or use sums of squares. Sources:
 * keras/metrics/accuracy_metrics.py and regression_metrics.py of 2.15 and 3.6. */
#include <math.h>

#include "base/try.h"
#include "train/rules/metric_impl.h"

static size_t largest(const double *v, size_t n)
{
    size_t best = 0;
    for (size_t k = 1; k < n; k++)
        if (v[k] > v[best])
            best = k;
    return best;
}

double pg__value_Accuracy(const pg__metric *m, const double *y, const double *p)
{
    size_t hits = 0;
    for (size_t k = 0; k < m->n; k++)
        hits += y[k] == p[k];
    return (double)hits / (double)m->n;
}

double pg__value_BinaryAccuracy(const pg__metric *m, const double *y, const double *p)
{
    size_t hits = 0;
    for (size_t k = 0; k < m->n; k++)
        hits += (p[k] > (float)m->args.threshold) == y[k];
    return (double)hits / (double)m->n;
}

/* Are the largest numbers at the same index? The first of equal ones counts. */
double pg__value_CategoricalAccuracy(const pg__metric *m, const double *y, const double *p)
{
    return largest(y, m->n) == largest(p, m->n);
}

double pg__value_SparseCategoricalAccuracy(const pg__metric *m, const double *y, const double *p)
{
    return (double)largest(p, m->n) == y[0];
}

/* Numbers equal to the k-th largest count too. */
static double is_in_top(const pg__metric *m, size_t at, const double *p)
{
    size_t better = 0;
    if (at >= m->n || !isfinite(p[at]))
        return 0;
    for (size_t k = 0; k < m->n; k++)
        better += p[k] > p[at];
    return (double)better < m->args.k;
}

double pg__value_TopKCategoricalAccuracy(const pg__metric *m, const double *y, const double *p)
{
    return is_in_top(m, largest(y, m->n), p);
}

double pg__value_SparseTopKCategoricalAccuracy(const pg__metric *m, const double *y,
                                               const double *p)
{
    return is_in_top(m, y[0] >= 0 ? (size_t)y[0] : m->n, p);
}

static double length(const double *v, size_t n)
{
    double squares = 0;
    for (size_t k = 0; k < n; k++)
        squares += v[k] * v[k];
    return sqrt(squares < 1e-12 ? 1e-12 : squares);
}

/* Unlike the loss of this name, it is large if both agree. */
double pg__value_CosineSimilarity(const pg__metric *m, const double *y, const double *p)
{
    double sum = 0;
    for (size_t k = 0; k < m->n; k++)
        sum += y[k] * p[k];
    return sum / (length(y, m->n) * length(p, m->n));
}

double pg__value_MeanRelativeError(const pg__metric *m, const double *y, const double *p)
{
    double sum = 0;
    for (size_t k = 0; k < m->n; k++)
        sum +=
            pg__ratio(fabs(y[k] - p[k]), m->args.normalizer.v[m->args.normalizer.n == 1 ? 0 : k]);
    return sum / (double)m->n;
}

double pg__value_loss(const pg__metric *m, const double *y, const double *p)
{
    const pg__dims row = {2, {1, m->n}}, one = {1, {1}}, scalar = {0};
    const int32_t class_of = m->classes ? (int32_t)y[0] : 0;
    union {
        const void *in;
        void *p;
    } prediction = {p}, target = {m->classes ? (const void *)&class_of : (const void *)y};
    double loss = 0;
    if (m->classes && !(y[0] >= 0 && y[0] < (double)m->n)) /* a class that the loss ignores */
        return NAN;
    const pg__arg in[] = {{&row, prediction.p, m->n},
                          {m->classes ? &one : &row, target.p, m->classes ? 1 : m->n},
                          {0},
                          {&scalar, NULL, 0}};
    const pg__arg out = {&one, &loss, 1};
    pg__op_of(PG_OP_loss)->ref_f64(&m->loss, in, 4, &out, 1);
    return loss;
}

/* ---- squares ---- */

pg_status pg__shape_squares(pg__metric *m, const pg__dims *prediction, pg_err *err)
{
    (void)prediction, (void)err;
    m->n_state = 2;
    return PG_OK;
}

void pg__sums_squares(const pg__metric *m, double *state, const double *y, const double *p,
                      double w)
{
    for (size_t k = 0; k < m->n; k++)
        state[0] += w * (p[k] - y[k]) * (p[k] - y[k]);
    state[1] += w * (double)m->n;
}

void pg__result_root(const pg__metric *m, const double *state, double *out)
{
    (void)m;
    *out = sqrt(pg__ratio(state[0], state[1]));
}

/* ---- the coefficient of determination: rows, then four sums of each number ---- */

enum { AGGREGATE_NONE, AGGREGATE_UNIFORM, AGGREGATE_VARIANCE };

pg_status pg__shape_r2(pg__metric *m, const pg__dims *prediction, pg_err *err)
{
    if (prediction->rank != 2)
        return pg_fail(err, PG_E_MISMATCH, "metric %s expects rows of numbers, predictions are %s",
                       m->type->class_name, PG_SHAPE(prediction));
    m->n_state = 1 + 4 * m->n;
    m->n_results = m->args.class_aggregation == AGGREGATE_NONE ? m->n : 1;
    return PG_OK;
}

void pg__sums_r2(const pg__metric *m, double *state, const double *y, const double *p, double w)
{
    double *sums = state + 1;
    state[0] += (double)m->n; /* Keras counts numbers, not rows, even those without weight */
    for (size_t k = 0; k < m->n; k++, sums += 4) {
        sums[0] += w * y[k];
        sums[1] += w * y[k] * y[k];
        sums[2] += w * (y[k] - p[k]) * (y[k] - p[k]);
        sums[3] += w;
    }
}

void pg__result_r2(const pg__metric *m, const double *state, double *out)
{
    const double *sums = state + 1, n = state[0], left = n - m->args.num_regressors - 1;
    double score = 0, total = 0;
    for (size_t k = 0; k < m->n; k++, sums += 4) {
        const double variance = sums[1] - sums[0] * sums[0] / sums[3];
        double raw = 1 - sums[2] / variance;
        raw = isinf(raw) ? 0 : raw;
        if (m->args.class_aggregation == AGGREGATE_NONE)
            out[k] = raw;
        score += m->args.class_aggregation == AGGREGATE_VARIANCE ? variance * raw : raw;
        total += m->args.class_aggregation == AGGREGATE_VARIANCE ? variance : 1;
    }
    if (m->args.class_aggregation != AGGREGATE_NONE)
        out[0] = score / total;
    for (size_t k = 0; m->args.num_regressors != 0 && left > 0 && k < m->n_results; k++)
        out[k] = 1 - (1 - out[k]) * (n - 1) / left;
}

/* metric.c - accuracies, and losses as metrics. Source: keras/metrics/accuracy_metrics.py of 2.15.
 */
#include "train/metric.h"

#include "base/try.h"
#include "train/names.h"

static size_t largest(const double *v, size_t n)
{
    size_t best = 0;
    for (size_t k = 1; k < n; k++)
        if (v[k] > v[best])
            best = k;
    return best;
}

static double binary_accuracy(const double *y, const double *p, size_t n)
{
    size_t hits = 0;
    for (size_t k = 0; k < n; k++)
        hits += (p[k] > 0.5) == (y[k] != 0);
    return (double)hits / (double)n;
}

static double loss_of_row(const pg__metric *m, const double *y, int classes, const double *p,
                          size_t n)
{
    const pg__dims row = {2, {1, n}}, one = {1, {1}}, scalar = {0};
    const int32_t class_of = classes ? (int32_t)y[0] : 0;
    union {
        const void *in;
        void *p;
    } prediction = {p}, target = {classes ? (const void *)&class_of : (const void *)y};
    double loss = 0;
    const pg__arg in[] = {{&row, prediction.p, n},
                          {classes ? &one : &row, target.p, classes ? 1 : n},
                          {0},
                          {&scalar, NULL, 0}};
    const pg__arg out = {&one, &loss, 1};
    pg__op_of(PG__OP_loss)->ref_f64(&m->loss, in, 4, &out, 1);
    return loss;
}

static double row_value(const pg__metric *m, const double *y, int classes, const double *p,
                        size_t n)
{
    switch (m->kind) {
    case PG__METRIC_BINARY_ACCURACY: return binary_accuracy(y, p, n);
    case PG__METRIC_CATEGORICAL_ACCURACY: return largest(y, n) == largest(p, n);
    case PG__METRIC_SPARSE_ACCURACY: return (double)largest(p, n) == y[0];
    case PG__METRIC_LOSS: return loss_of_row(m, y, classes, p, n);
    }
    return 0;
}

void pg__metric_add(const pg__metric *m, pg__mean *into, const double *y, int classes,
                    const double *p, const double *weights, size_t n_rows, size_t n)
{
    for (size_t r = 0; r < n_rows; r++) {
        const double w = weights ? weights[r] : 1;
        if (w == 0)
            continue;
        into->sum += w * row_value(m, y + r * (classes ? 1 : n), classes, p + r * n, n);
        into->count += w;
    }
}

int pg__metric_fits(const pg__metric *m, int classes)
{
    switch (m->kind) {
    case PG__METRIC_SPARSE_ACCURACY: return classes;
    case PG__METRIC_BINARY_ACCURACY:
    case PG__METRIC_CATEGORICAL_ACCURACY: return !classes;
    case PG__METRIC_LOSS: return pg__loss_takes_class(m->loss.kind) == classes;
    }
    return 0;
}

static int is(const char *name, size_t len, const char *wanted)
{
    return pg__same_name(name, len, wanted);
}

pg_status pg__metric_of(pg__metric *out, const char *name, size_t len, int classes, size_t n,
                        const pg__rules *rules, pg_err *err)
{
    out->kind = PG__METRIC_LOSS;
    if (is(name, len, "accuracy") || is(name, len, "acc"))
        out->kind = classes  ? PG__METRIC_SPARSE_ACCURACY
                    : n == 1 ? PG__METRIC_BINARY_ACCURACY
                             : PG__METRIC_CATEGORICAL_ACCURACY;
    else if (is(name, len, "binary_accuracy"))
        out->kind = PG__METRIC_BINARY_ACCURACY;
    else if (is(name, len, "categorical_accuracy"))
        out->kind = PG__METRIC_CATEGORICAL_ACCURACY;
    else if (is(name, len, "sparse_categorical_accuracy"))
        out->kind = PG__METRIC_SPARSE_ACCURACY;
    if (out->kind != PG__METRIC_LOSS)
        return PG_OK;
    if (pg__loss_of(&out->loss, name, len, rules, NULL) == PG_OK)
        return PG_OK;
    (void)pg_fail(err, PG_E_ARG, "unknown metric \"%.*s\"", (int)len, name);
    pg_err_detail(err, "known: accuracy, binary_accuracy, categorical_accuracy, "
                       "sparse_categorical_accuracy, and every loss");
    return PG_E_ARG;
}

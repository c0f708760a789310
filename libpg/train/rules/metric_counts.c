/* metric_counts.c - metrics that count correct predictions: at thresholds (per label, or for all
 * together), per class, per pair of classes. Sources: keras/metrics/ confusion_metrics.py,
 * f_score_metrics.py, iou_metrics.py and metrics_utils.py of 2.15 and 3.6. */
#include <math.h>

#include "base/mem.h"
#include "base/try.h"
#include "train/rules/metric_impl.h"

#define MOST_THRESHOLDS 100000
#define MOST_CLASSES    1024

double pg__ratio(double a, double b)
{
    return b == 0 ? 0 : a / b;
}

/* From 3.0 on Keras clamps denominators. */
static double ratio_of(const pg__metric *m, double a, double b)
{
    return m->keras3 ? a / (b + 1e-7) : pg__ratio(a, b);
}

static pg_status refuse(const pg__metric *m, pg_err *err, const char *why)
{
    return pg_fail(err, PG_E_ARG, "metric %s: %s", m->type->class_name, why);
}

/* ---- thresholds: for each label, and each threshold, what lies above it of true ones and of
 * others; then all of them ---- */

static size_t n_thresholds(const pg__metric *m)
{
    return m->args.thresholds.n > 0 ? m->args.thresholds.n : (size_t)m->args.num_thresholds;
}

static size_t n_labels(const pg__metric *m)
{
    return m->args.multi_label != 0 ? m->n : 1;
}

typedef struct counts {
    double tp, fp, tn, fn;
} counts;

static double *at_threshold(double *state, const pg__metric *m, size_t label, size_t t)
{
    return state + 2 * (label * (n_thresholds(m) + 1) + t);
}

/* With evenly spaced thresholds, a cell holds the counts between two of them; these are summed from
 * the last one down. */
static counts count(const pg__metric *m, const double *state, size_t label, size_t t,
                    double above[2])
{
    const double *cell = state + 2 * (label * (n_thresholds(m) + 1) + t);
    const double *all = state + 2 * (label * (n_thresholds(m) + 1) + n_thresholds(m));
    for (size_t i = 0; i < 2; i++)
        above[i] = m->args.thresholds.n > 0 ? cell[i] : above[i] + cell[i];
    return (counts){above[0], above[1], all[1] - above[1], all[0] - above[0]};
}

static pg_status shape_thresholds(pg__metric *m, pg_err *err)
{
    if (!(m->args.num_thresholds <= MOST_THRESHOLDS) && m->args.thresholds.n == 0)
        return refuse(m, err, "at most 100,000 thresholds are supported");
    for (size_t t = 0; t < m->args.thresholds.n; t++)
        if (!(m->args.thresholds.v[t] >= -1e10 && m->args.thresholds.v[t] <= 1.1))
            return refuse(m, err, "thresholds must lie between 0 and 1");
    if (m->args.class_id >= (double)m->n)
        return refuse(m, err, "class_id is not one of the prediction's classes");
    if (m->args.top_k > (double)m->n)
        return refuse(m, err, "top_k is more than the prediction's classes");
    if (__builtin_mul_overflow(2 * (n_thresholds(m) + 1), n_labels(m), &m->n_state) ||
        m->n_state > ((size_t)1 << 22))
        return refuse(m, err, "too many thresholds for this many labels");
    return PG_OK;
}

static void add_even(const pg__metric *m, double *state, size_t label, float p, int truth, double w)
{
    const float cells = (float)(n_thresholds(m) - 1);
    float cell = ceilf((p < 0 ? 0 : p > 1 ? 1 : p) * cells) - 1;
    if (cell < 0 && m->type->result == pg__result_auc) /* nothing is below the first one */
        cell = 0;
    if (cell >= 0)
        at_threshold(state, m, label, (size_t)cell)[!truth] += w;
}

static void add_listed(const pg__metric *m, double *state, size_t label, float p, int truth,
                       double w)
{
    for (size_t t = 0; t < m->args.thresholds.n; t++)
        if (p > (float)m->args.thresholds.v[t])
            at_threshold(state, m, label, t)[!truth] += w;
}

/* The index of the k-th largest number; of equal ones the first comes first. */
static size_t last_of_top(const pg__metric *m, const double *p)
{
    size_t at = 0;
    for (size_t round = 0; round < (size_t)m->args.top_k; round++) {
        size_t best = m->n;
        for (size_t k = 0; k < m->n; k++) {
            const int is_left = round == 0 || p[k] < p[at] || (p[k] == p[at] && k > at);
            if (is_left && (best == m->n || p[k] > p[best]))
                best = k;
        }
        if (best == m->n)
            break;
        at = best;
    }
    return at;
}

static void sums_thresholds(const pg__metric *m, double *state, const double *y, const double *p,
                            double w)
{
    const size_t last = isnan(m->args.top_k) ? 0 : last_of_top(m, p);
    for (size_t k = 0; k < m->n; k++) {
        const size_t label = n_labels(m) > 1 ? k : 0;
        const int out = !isnan(m->args.top_k) && (p[k] < p[last] || (p[k] == p[last] && k > last));
        const int by_label = m->args.label_weights.n > 0 && m->args.multi_label == 0;
        const double own = by_label ? w * m->args.label_weights.v[k] : w;
        const int truth = y[k] != 0;
        float guess = (float)p[k];
        if (!isnan(m->args.class_id) && (double)k != m->args.class_id)
            continue;
        if (m->args.from_logits != 0 && !isnan(m->args.from_logits))
            guess = 1 / (1 + expf(-guess));
        guess = out ? -1e10F : guess;
        at_threshold(state, m, label, n_thresholds(m))[!truth] += own;
        if (isnan(guess))
            continue;
        if (m->args.thresholds.n > 0)
            add_listed(m, state, label, guess, truth, own);
        else
            add_even(m, state, label, guess, truth, own);
    }
}

/* ---- counts, precision, recall: a number for each threshold ---- */

static pg_status add_one(pg__metric_list *l, double v, pg_err *err)
{
    l->v = pg__mem_array(1, sizeof *l->v);
    if (!l->v)
        return pg__nomem(err);
    l->v[0] = v;
    l->n = 1;
    return PG_OK;
}

pg_status pg__shape_hits(pg__metric *m, const pg__dims *prediction, pg_err *err)
{
    pg_status st = PG_OK;
    (void)prediction;
    m->args.multi_label = 0;
    if (m->args.thresholds.n == 0)
        PG_TRY(add_one(&m->args.thresholds, isnan(m->args.top_k) ? 0.5 : -1e10, err));
    m->n_results = m->args.thresholds.n;
    PG_TRY(shape_thresholds(m, err));
done:
    return st;
}

void pg__sums_hits(const pg__metric *m, double *state, const double *y, const double *p, double w)
{
    sums_thresholds(m, state, y, p, w);
}

#define RESULT_OF_HITS(name, formula)                                             \
    void pg__result_##name(const pg__metric *m, const double *state, double *out) \
    {                                                                             \
        for (size_t t = 0; t < m->args.thresholds.n; t++) {                       \
            double above[2] = {0, 0};                                             \
            const counts c = count(m, state, 0, t, above);                        \
            out[t] = (formula);                                                   \
        }                                                                         \
    }
RESULT_OF_HITS(true_positives, c.tp)
RESULT_OF_HITS(false_positives, c.fp)
RESULT_OF_HITS(true_negatives, c.tn)
RESULT_OF_HITS(false_negatives, c.fn)
RESULT_OF_HITS(precision, pg__ratio(c.tp, c.tp + c.fp))
RESULT_OF_HITS(recall, pg__ratio(c.tp, c.tp + c.fn))
#undef RESULT_OF_HITS

/* ---- one of them, at best, where another is so much at least ---- */

pg_status pg__shape_at(pg__metric *m, const pg__dims *prediction, pg_err *err)
{
    pg_status st = PG_OK;
    (void)prediction;
    m->args.multi_label = 0;
    if (!(m->args.value >= 0 && m->args.value <= 1))
        PG_TRY(refuse(m, err, "its bound must lie between 0 and 1"));
    if (!(m->args.num_thresholds >= 1))
        PG_TRY(refuse(m, err, "num_thresholds must be at least 1"));
    if (m->args.num_thresholds == 1 && m->args.thresholds.n == 0)
        PG_TRY(add_one(&m->args.thresholds, 0.5, err));
    PG_TRY(shape_thresholds(m, err));
done:
    return st;
}

void pg__sums_at(const pg__metric *m, double *state, const double *y, const double *p, double w)
{
    sums_thresholds(m, state, y, p, w);
}

#define RESULT_AT(name, bound, wanted)                                            \
    void pg__result_##name(const pg__metric *m, const double *state, double *out) \
    {                                                                             \
        double above[2] = {0, 0};                                                 \
        *out = 0;                                                                 \
        for (size_t t = n_thresholds(m); t-- > 0;) {                              \
            const counts c = count(m, state, 0, t, above);                        \
            if ((float)(bound) >= (float)m->args.value && (wanted) > *out)        \
                *out = (wanted);                                                  \
        }                                                                         \
    }
#define SENSITIVITY pg__ratio(c.tp, c.tp + c.fn)
#define SPECIFICITY pg__ratio(c.tn, c.tn + c.fp)
#define PRECISION   pg__ratio(c.tp, c.tp + c.fp)
RESULT_AT(sensitivity_at_specificity, SPECIFICITY, SENSITIVITY)
RESULT_AT(specificity_at_sensitivity, SENSITIVITY, SPECIFICITY)
RESULT_AT(precision_at_recall, SENSITIVITY, PRECISION)
RESULT_AT(recall_at_precision, PRECISION, SENSITIVITY)
#undef RESULT_AT
#undef SENSITIVITY
#undef SPECIFICITY
#undef PRECISION

/* ---- area under a curve ---- */

enum { CURVE_ROC, CURVE_PR };
enum { INTERPOLATION, MAJORING, MINORING };

/* Sorts given thresholds and adds one below 0 and one above 1. */
static pg_status frame_thresholds(pg__metric_list *l, pg_err *err)
{
    double *v = pg__mem_array(l->n + 2, sizeof *v);
    if (!v)
        return pg__nomem(err);
    v[0] = -1e-7;
    for (size_t k = 0; k < l->n; k++) {
        size_t at = k + 1;
        for (; at > 1 && v[at - 1] > l->v[k]; at--)
            v[at] = v[at - 1];
        v[at] = l->v[k];
    }
    v[l->n + 1] = 1 + 1e-7;
    pg__mem_free(l->v);
    l->v = v;
    l->n += 2;
    return PG_OK;
}

pg_status pg__shape_auc(pg__metric *m, const pg__dims *prediction, pg_err *err)
{
    pg_status st = PG_OK;
    if (m->args.multi_label != 0 && prediction->rank != 2)
        PG_TRY(refuse(m, err, "multi_label expects rows of labels"));
    if (!isnan(m->args.num_labels) && m->args.multi_label == 0)
        PG_TRY(refuse(m, err, "num_labels is for multi_label"));
    if (!isnan(m->args.num_labels) && m->args.num_labels != (double)m->n)
        PG_TRY(refuse(m, err, "num_labels differs from the number of the prediction's labels"));
    if (m->args.label_weights.n > 0 && m->args.label_weights.n != m->n)
        PG_TRY(refuse(m, err, "label_weights differ in number from the prediction's labels"));
    if (!(m->args.num_thresholds > 1) && m->args.thresholds.n == 0)
        PG_TRY(refuse(m, err, "num_thresholds must be at least 2"));
    if (m->args.thresholds.n > 0)
        PG_TRY(frame_thresholds(&m->args.thresholds, err));
    PG_TRY(shape_thresholds(m, err));
done:
    return st;
}

void pg__sums_auc(const pg__metric *m, double *state, const double *y, const double *p, double w)
{
    sums_thresholds(m, state, y, p, w);
}

/* Area under the precision-recall curve between two thresholds, a before b, with counts
 * interpolated linearly (Davis and Goadrich). */
static double area_of_counts(const counts *a, const counts *b)
{
    const double more = a->tp - b->tp, pa = a->tp + a->fp, pb = b->tp + b->fp;
    const double slope = pa > pb ? more / (pa - pb) : 0, intercept = b->tp - slope * pb;
    const double by = pa > 0 && pb > 0 ? pa / pb : 1;
    return pg__ratio(slope * (more + intercept * log(by)), b->tp + b->fn);
}

static double area(const pg__metric *m, const counts *a, const counts *b)
{
    const double recall_a = pg__ratio(a->tp, a->tp + a->fn);
    const double recall_b = pg__ratio(b->tp, b->tp + b->fn);
    const int roc = m->args.curve == CURVE_ROC;
    const double xa = roc ? pg__ratio(a->fp, a->fp + a->tn) : recall_a;
    const double xb = roc ? pg__ratio(b->fp, b->fp + b->tn) : recall_b;
    const double ya = roc ? recall_a : pg__ratio(a->tp, a->tp + a->fp);
    const double yb = roc ? recall_b : pg__ratio(b->tp, b->tp + b->fp);
    if (!roc && m->args.summation_method == INTERPOLATION)
        return area_of_counts(a, b);
    if (m->args.summation_method == INTERPOLATION)
        return (xa - xb) * (ya + yb) / 2;
    return (xa - xb) * (m->args.summation_method == MINORING ? fmin(ya, yb) : fmax(ya, yb));
}

void pg__result_auc(const pg__metric *m, const double *state, double *out)
{
    double sum = 0, weights = 0;
    for (size_t label = 0; label < n_labels(m); label++) {
        const int weighed = m->args.label_weights.n > 0 && m->args.multi_label != 0;
        double above[2] = {0, 0}, own = 0;
        size_t t = n_thresholds(m) - 1;
        counts after = count(m, state, label, t, above);
        while (t-- > 0) {
            const counts c = count(m, state, label, t, above);
            own += area(m, &c, &after);
            after = c;
        }
        sum += weighed ? own * m->args.label_weights.v[label] : own;
        weights += weighed ? m->args.label_weights.v[label] : 1;
    }
    *out = pg__ratio(sum, weights);
}

/* ---- F scores: for each class what is right, wrong, missing, and all true ones ---- */

enum { AVERAGE_NONE, AVERAGE_MICRO, AVERAGE_MACRO, AVERAGE_WEIGHTED };

pg_status pg__shape_scores(pg__metric *m, const pg__dims *prediction, pg_err *err)
{
    if (prediction->rank != 2)
        return pg_fail(err, PG_E_MISMATCH, "metric %s expects rows of numbers, predictions are %s",
                       m->type->class_name, PG_SHAPE(prediction));
    if (isnan(m->args.beta))
        m->args.beta = 1;
    if (!(m->args.beta > 0 && m->args.beta < 1e100))
        return refuse(m, err, "beta must be more than 0");
    if (!isnan(m->args.threshold) && !(m->args.threshold > 0 && m->args.threshold <= 1))
        return refuse(m, err, "threshold must lie between 0 and 1");
    m->n_state = 4 * m->n;
    m->n_results = m->args.average == AVERAGE_NONE ? m->n : 1;
    return PG_OK;
}

void pg__sums_scores(const pg__metric *m, double *state, const double *y, const double *p, double w)
{
    double top = p[0];
    for (size_t k = 1; k < m->n; k++)
        top = p[k] > top ? p[k] : top;
    for (size_t k = 0; k < m->n; k++, state += 4) {
        const double guess = isnan(m->args.threshold) ? p[k] >= top && fabs(p[k]) > 1e-9
                                                      : p[k] > (float)m->args.threshold;
        state[0] += w * guess * y[k];
        state[1] += w * guess * (1 - y[k]);
        state[2] += w * (1 - guess) * y[k];
        state[3] += w * y[k];
    }
}

static double score(const pg__metric *m, const double *sums)
{
    const double precision = ratio_of(m, sums[0], sums[0] + sums[1]);
    const double recall = ratio_of(m, sums[0], sums[0] + sums[2]), b = m->args.beta * m->args.beta;
    return ratio_of(m, precision * recall, b * precision + recall) * (1 + b);
}

void pg__result_scores(const pg__metric *m, const double *state, double *out)
{
    double all[4] = {0, 0, 0, 0}, sum = 0;
    for (size_t k = 0; k < m->n; k++)
        for (size_t i = 0; i < 4; i++)
            all[i] += state[4 * k + i];
    if (m->args.average == AVERAGE_MICRO)
        *out = score(m, all);
    for (size_t k = 0; m->args.average == AVERAGE_NONE && k < m->n; k++)
        out[k] = score(m, state + 4 * k);
    if (m->args.average == AVERAGE_NONE || m->args.average == AVERAGE_MICRO)
        return;
    for (size_t k = 0; k < m->n; k++)
        sum += score(m, state + 4 * k) * (m->args.average == AVERAGE_MACRO
                                              ? 1 / (double)m->n
                                              : ratio_of(m, state[4 * k + 3], all[3]));
    *out = sum;
}

/* ---- intersections over unions: a matrix of true and predicted classes; after it what was of no
 * class ---- */

static int is_set(double flag)
{
    return flag == 1;
}

static pg_status shape_matrix(pg__metric *m, pg_err *err)
{
    const size_t n = (size_t)m->args.num_classes;
    if (!(m->args.num_classes >= 1 && m->args.num_classes <= MOST_CLASSES))
        return refuse(m, err, "num_classes must lie between 1 and 1024");
    for (size_t k = 0; k < m->args.target_class_ids.n; k++)
        if (!(m->args.target_class_ids.v[k] >= 0 &&
              m->args.target_class_ids.v[k] < m->args.num_classes))
            return refuse(m, err, "target_class_ids are not all among its classes");
    m->n_state = n * n + 1;
    return PG_OK;
}

pg_status pg__shape_iou(pg__metric *m, const pg__dims *prediction, pg_err *err)
{
    (void)prediction;
    if (isnan(m->args.sparse_y_true)) /* the one-hot metrics have no such key */
        m->args.sparse_y_true = 0;
    if (m->classes &&
        (!is_set(m->args.sparse_y_true) || (is_set(m->args.sparse_y_pred) && m->n > 1)))
        return pg_fail(err, PG_E_MISMATCH,
                       "metric %s does not fit targets that are classes: sparse_y_true and "
                       "sparse_y_pred say what it is given",
                       m->type->class_name);
    if (!m->classes && is_set(m->args.sparse_y_true) != is_set(m->args.sparse_y_pred) && m->n > 1)
        return pg_fail(err, PG_E_MISMATCH,
                       "metric %s does not fit targets that are numbers: sparse_y_true and "
                       "sparse_y_pred say what it is given",
                       m->type->class_name);
    return shape_matrix(m, err);
}

pg_status pg__shape_binary_iou(pg__metric *m, const pg__dims *prediction, pg_err *err)
{
    (void)prediction;
    m->args.num_classes = 2;
    m->args.sparse_y_true = m->args.sparse_y_pred = 1;
    return shape_matrix(m, err);
}

static void add_pair(const pg__metric *m, double *state, double y, double p, double w)
{
    const size_t n = (size_t)m->args.num_classes;
    const double truth = trunc(y), guess = trunc(p);
    if (!isnan(m->args.ignore_class) && y == m->args.ignore_class)
        return;
    if (truth >= 0 && guess >= 0 && truth < m->args.num_classes && guess < m->args.num_classes)
        state[(size_t)truth * n + (size_t)guess] += w;
    else
        state[n * n] += w != 0;
}

static double place_of_largest(const double *v, size_t n)
{
    size_t best = 0;
    for (size_t k = 1; k < n; k++)
        if (v[k] > v[best])
            best = k;
    return (double)best;
}

void pg__sums_iou(const pg__metric *m, double *state, const double *y, const double *p, double w)
{
    const int by_number =
        !m->classes && is_set(m->args.sparse_y_true) && is_set(m->args.sparse_y_pred);
    for (size_t k = 0; by_number && k < m->n; k++)
        add_pair(m, state, y[k], p[k], w);
    if (!by_number)
        add_pair(m, state, is_set(m->args.sparse_y_true) ? y[0] : place_of_largest(y, m->n),
                 is_set(m->args.sparse_y_pred) ? p[0] : place_of_largest(p, m->n), w);
}

void pg__sums_binary_iou(const pg__metric *m, double *state, const double *y, const double *p,
                         double w)
{
    for (size_t k = 0; k < m->n; k++)
        add_pair(m, state, y[k], p[k] >= (float)m->args.threshold, w);
}

static void add_class(const pg__metric *m, const double *state, size_t c, double *sum,
                      double *valid)
{
    const size_t n = (size_t)m->args.num_classes;
    double either = -state[c * n + c];
    for (size_t k = 0; k < n; k++)
        either += state[c * n + k] + state[k * n + c];
    *valid += m->keras3 ? either > 1e-9 : either != 0;
    *sum += ratio_of(m, state[c * n + c], either);
}

void pg__result_iou(const pg__metric *m, const double *state, double *out)
{
    const size_t n = (size_t)m->args.num_classes;
    double sum = 0, valid = 0;
    for (size_t k = 0; k < m->args.target_class_ids.n; k++)
        add_class(m, state, (size_t)m->args.target_class_ids.v[k], &sum, &valid);
    for (size_t c = 0; m->args.target_class_ids.n == 0 && c < n; c++)
        add_class(m, state, c, &sum, &valid);
    *out = state[n * n] > 0 ? NAN : ratio_of(m, sum, valid); /* Keras raises an error */
}

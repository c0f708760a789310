/* convert_losses.c - losses and metrics of a training configuration as the other Keras takes them,
 * or the same Keras in the other container. Strings stay but for short names; objects get the
 * module that .keras and Keras 3 ask for and lose the members that the other Keras refuses. Classes
 * and their members were compared in Keras 2.15 and 3.6. */
#include <string.h>

#include "base/try.h"
#include "wrap/convert/convert.h"

/* Losses and metrics that both Keras know, and what a loss is called in full: Keras 3 does not find
 * the short names of losses in an .h5. */
static const struct word {
    const char *word, *full;
    enum { EITHER, LOSS, METRIC } use;
} same_words[] = {
    {"mse", "mean_squared_error", EITHER},
    {"MSE", "mean_squared_error", EITHER},
    {"mae", "mean_absolute_error", EITHER},
    {"MAE", "mean_absolute_error", EITHER},
    {"mape", "mean_absolute_percentage_error", EITHER},
    {"MAPE", "mean_absolute_percentage_error", EITHER},
    {"msle", "mean_squared_logarithmic_error", EITHER},
    {"MSLE", "mean_squared_logarithmic_error", EITHER},
    {"bce", "binary_crossentropy", EITHER},
    {"mean_squared_error", NULL, EITHER},
    {"mean_absolute_error", NULL, EITHER},
    {"mean_absolute_percentage_error", NULL, EITHER},
    {"mean_squared_logarithmic_error", NULL, EITHER},
    {"squared_hinge", NULL, EITHER},
    {"hinge", NULL, EITHER},
    {"categorical_hinge", NULL, EITHER},
    {"categorical_crossentropy", NULL, EITHER},
    {"sparse_categorical_crossentropy", NULL, EITHER},
    {"binary_crossentropy", NULL, EITHER},
    {"poisson", NULL, EITHER},
    {"kld", "kl_divergence", LOSS},
    {"KLD", "kl_divergence", LOSS},
    {"kullback_leibler_divergence", "kl_divergence", LOSS},
    {"kl_divergence", NULL, LOSS},
    {"huber_loss", "huber", LOSS},
    {"huber", NULL, LOSS},
    {"logcosh", "log_cosh", LOSS},
    {"log_cosh", NULL, LOSS},
    {"accuracy", NULL, METRIC},
    {"acc", NULL, METRIC},
    {"binary_accuracy", NULL, METRIC},
    {"categorical_accuracy", NULL, METRIC},
    {"sparse_categorical_accuracy", NULL, METRIC},
    {"top_k_categorical_accuracy", NULL, METRIC},
    {"sparse_top_k_categorical_accuracy", NULL, METRIC},
    {"binary_focal_crossentropy", NULL, LOSS},
    {"categorical_focal_crossentropy", NULL, LOSS},
    {"AUC", NULL, METRIC},
    {"Precision", NULL, METRIC},
    {"Recall", NULL, METRIC},
};

/* A class that both have, the members of its config in Keras 3 besides those that all have, and the
 * function by which Keras 2 calls the metric within a MeanMetricWrapper. */
typedef struct object {
    const char *class_name, *members[6], *function;
} object;

static const object losses[] = {
    {"MeanSquaredError", {NULL}, NULL},
    {"MeanAbsoluteError", {NULL}, NULL},
    {"MeanAbsolutePercentageError", {NULL}, NULL},
    {"MeanSquaredLogarithmicError", {NULL}, NULL},
    {"BinaryCrossentropy", {"from_logits", "label_smoothing", "axis"}, NULL},
    {"CategoricalCrossentropy", {"from_logits", "label_smoothing", "axis"}, NULL},
    {"SparseCategoricalCrossentropy", {"from_logits", "ignore_class"}, NULL},
    {"BinaryFocalCrossentropy",
     {"apply_class_balancing", "alpha", "gamma", "from_logits", "label_smoothing", "axis"},
     NULL},
    {"CategoricalFocalCrossentropy",
     {"alpha", "gamma", "from_logits", "label_smoothing", "axis"},
     NULL},
    {"Huber", {"delta"}, NULL},
    {"LogCosh", {NULL}, NULL},
    {"Hinge", {NULL}, NULL},
    {"SquaredHinge", {NULL}, NULL},
    {"CategoricalHinge", {NULL}, NULL},
    {"Poisson", {NULL}, NULL},
    {"KLDivergence", {NULL}, NULL},
    {"CosineSimilarity", {"axis"}, NULL},
};

static const object metrics[] = {
    {"Accuracy", {NULL}, NULL},
    {"BinaryAccuracy", {"threshold"}, "binary_accuracy"},
    {"CategoricalAccuracy", {NULL}, "categorical_accuracy"},
    {"SparseCategoricalAccuracy", {NULL}, "sparse_categorical_accuracy"},
    {"TopKCategoricalAccuracy", {"k"}, "top_k_categorical_accuracy"},
    {"SparseTopKCategoricalAccuracy", {"k"}, "sparse_top_k_categorical_accuracy"},
    {"BinaryCrossentropy", {"from_logits", "label_smoothing"}, "binary_crossentropy"},
    {"CategoricalCrossentropy",
     {"from_logits", "label_smoothing", "axis"},
     "categorical_crossentropy"},
    {"SparseCategoricalCrossentropy", {"from_logits", "axis"}, "sparse_categorical_crossentropy"},
    {"MeanSquaredError", {NULL}, "mean_squared_error"},
    {"MeanAbsoluteError", {NULL}, "mean_absolute_error"},
    {"MeanAbsolutePercentageError", {NULL}, "mean_absolute_percentage_error"},
    {"MeanSquaredLogarithmicError", {NULL}, "mean_squared_logarithmic_error"},
    {"RootMeanSquaredError", {NULL}, NULL},
    {"LogCoshError", {NULL}, NULL},
    {"Hinge", {NULL}, "hinge"},
    {"SquaredHinge", {NULL}, "squared_hinge"},
    {"CategoricalHinge", {NULL}, "categorical_hinge"},
    {"Poisson", {NULL}, "poisson"},
    {"KLDivergence", {NULL}, "kl_divergence"},
    {"CosineSimilarity", {"axis"}, NULL},
    {"Precision", {"thresholds", "top_k", "class_id"}, NULL},
    {"Recall", {"thresholds", "top_k", "class_id"}, NULL},
    {"TruePositives", {"thresholds"}, NULL},
    {"TrueNegatives", {"thresholds"}, NULL},
    {"FalsePositives", {"thresholds"}, NULL},
    {"FalseNegatives", {"thresholds"}, NULL},
    {"AUC",
     {"num_thresholds", "curve", "summation_method", "multi_label", "num_labels", "from_logits"},
     NULL},
    {"SensitivityAtSpecificity", {"num_thresholds", "specificity", "class_id"}, NULL},
    {"SpecificityAtSensitivity", {"num_thresholds", "sensitivity", "class_id"}, NULL},
    {"PrecisionAtRecall", {"num_thresholds", "recall", "class_id"}, NULL},
    {"RecallAtPrecision", {"num_thresholds", "precision", "class_id"}, NULL},
    {"F1Score", {"average", "threshold"}, NULL},
    {"FBetaScore", {"average", "beta", "threshold"}, NULL},
    {"R2Score", {"class_aggregation", "num_regressors"}, NULL},
    {"BinaryIoU", {"target_class_ids", "threshold"}, NULL},
    {"IoU",
     {"num_classes", "target_class_ids", "ignore_class", "sparse_y_true", "sparse_y_pred", "axis"},
     NULL},
    {"OneHotIoU",
     {"num_classes", "target_class_ids", "ignore_class", "sparse_y_pred", "axis"},
     NULL},
    {"MeanIoU", {"num_classes", "ignore_class", "sparse_y_true", "sparse_y_pred", "axis"}, NULL},
    {"OneHotMeanIoU", {"num_classes", "ignore_class", "sparse_y_pred", "axis"}, NULL},
};

/* Members that say nothing in Keras 3, or only what is so there. */
static int is_idle(const char *text, pg__json_span key, pg__json_span value)
{
    return pg__json_is_null(text, value) || pg__json_key_is(text, key, "fn");
}

static int has_member(const object *o, const char *text, pg__json_span key, int loss)
{
    static const char *const all[][2] = {{"name", "dtype"}, {"name", "reduction"}};
    for (size_t i = 0; i < 2; i++)
        if (pg__json_key_is(text, key, all[loss != 0][i]))
            return 1;
    for (size_t i = 0; i < sizeof o->members / sizeof *o->members && o->members[i]; i++)
        if (pg__json_key_is(text, key, o->members[i]))
            return 1;
    return 0;
}

static const object *find_object(const char *text, pg__json_span class_name, pg__json_span config,
                                 int loss)
{
    const object *list = loss ? losses : metrics;
    const size_t n = loss ? sizeof losses / sizeof *losses : sizeof metrics / sizeof *metrics;
    const int wraps = !loss && pg__json_is_text(text, class_name, "MeanMetricWrapper");
    const pg__json_span fn = pg__json_member(text, config, "fn");
    for (size_t i = 0; i < n; i++)
        if (wraps ? list[i].function && pg__json_is_text(text, fn, list[i].function)
                  : pg__json_is_text(text, class_name, list[i].class_name))
            return &list[i];
    return NULL;
}

/* ---- walking ---- */

typedef struct walking {
    pg__str *out;
    pg__strs *lost; /* names of what the output cannot express */
    const char *text;
    int loss;
    pg__words_for to;
    pg_err *err;
} walking;

/* What a loss or metric is called in a note: its class, or the function that the class wraps. */
static pg_status lose(walking *w, pg__json_span s)
{
    pg_status st = PG_OK;
    pg__str name = {0};
    const pg__json_span config = pg__json_member(w->text, s, "config"),
                        class_name = pg__json_member(w->text, s, "class_name"),
                        fn = pg__json_member(w->text, config, "fn");
    const int is_function = config.n && w->text[config.off] == '"';
    const int wraps = fn.n && w->text[fn.off] == '"' &&
                      (pg__json_is_text(w->text, class_name, "MeanMetricWrapper") ||
                       pg__json_is_text(w->text, class_name, "LossFunctionWrapper"));
    const pg__json_span of = is_function ? config : wraps ? fn : class_name.n ? class_name : s;
    if (w->text[of.off] == '"')
        PG_TRY(pg__json_unquote(&name, w->text, of, w->err));
    else
        PG_TRY(pg__str_add(&name, w->text + of.off, of.n, w->err));
    if (pg__strs_find(w->lost, PG_SHOW(name.s)) == (size_t)-1) /* of another output, perhaps */
        PG_TRY(pg__strs_printf(w->lost, w->err, "%s", PG_SHOW(name.s)));
done:
    pg__str_fini(&name);
    return st;
}

/* The head of an object up to its config, and what follows it. Keras writes modules into .keras
 * only; what becomes an object of Keras 3 gets one everywhere, so that it reads it as its own. */
static pg_status add_head(walking *w, const char *own, const char *class_name)
{
    const int module = w->to.zip || (w->to.keras == 3 && !w->to.same);
    return pg__str_printf(w->out, w->err,
                          module ? "{\"module\": \"%s\", \"class_name\": \"%s\", \"config\": "
                                 : "%.0s{\"class_name\": \"%s\", \"config\": ",
                          own, class_name);
}

static pg_status add_tail(walking *w)
{
    return pg__str_puts(
        w->out,
        w->to.zip || (w->to.keras == 3 && !w->to.same) ? ", \"registered_name\": null}" : "}",
        w->err);
}

/* An object for the other container of the same Keras. *kept: 0 for a custom one, whose module is
 * not known. */
static pg_status add_same(walking *w, int *kept, pg__json_span s)
{
    pg_status st = PG_OK;
    pg__str name = {0};
    const char *text = w->text, *own = w->loss ? "keras.losses" : "keras.metrics";
    const pg__json_span class_name = pg__json_member(text, s, "class_name"),
                        config = pg__json_member(text, s, "config"),
                        module = pg__json_member(text, s, "module"),
                        custom = pg__json_member(text, s, "registered_name");
    *kept = config.n && class_name.n && text[class_name.off] == '"' &&
            !memchr(text + class_name.off, '>', class_name.n) &&
            (w->to.zip || pg__json_is_text(text, module, own)) && pg__json_is_null(text, custom);
    if (!*kept)
        return PG_OK;
    PG_TRY(pg__json_unquote(&name, text, class_name, w->err));
    PG_TRY(add_head(w, own, name.s));
    PG_TRY(pg__str_add(w->out, text + config.off, config.n, w->err));
    PG_TRY(add_tail(w));
done:
    pg__str_fini(&name);
    return st;
}

/* The reduction of a loss. *kept: 0 if the other Keras has none such. */
static pg_status add_reduction(walking *w, int *kept, pg__json_span value)
{
    static const char *const both[] = {"sum_over_batch_size", "sum", "none"};
    const char *text = w->text;
    if (w->to.keras == 3)
        return pg__json_is_text(text, value, "auto")
                   ? pg__str_puts(w->out, "\"sum_over_batch_size\"", w->err)
                   : pg__str_add(w->out, text + value.off, value.n, w->err);
    *kept = 0;
    for (size_t i = 0; i < sizeof both / sizeof *both; i++)
        *kept |= pg__json_is_text(text, value, both[i]);
    return pg__str_add(w->out, text + value.off, value.n, w->err);
}

/* May a member of an object be left out? What is null or only repeats the class, and in Keras 2 a
 * type: that of its losses cannot be given, that of a metric only as a word. */
static int is_left_out(const walking *w, pg__json_span key, pg__json_span value)
{
    return is_idle(w->text, key, value) ||
           (w->to.keras == 2 && pg__json_key_is(w->text, key, "dtype") &&
            (w->loss || w->text[value.off] != '"'));
}

/* {"class_name", "config"} for the other Keras. *kept: 0 for what it does not have. */
static pg_status add_object(walking *w, int *kept, pg__json_span s)
{
    pg_status st = PG_OK;
    const char *text = w->text, *own = w->loss ? "keras.losses" : "keras.metrics";
    const pg__json_span config = pg__json_member(text, s, "config"),
                        module = pg__json_member(text, s, "module"),
                        custom = pg__json_member(text, s, "registered_name");
    const object *o = find_object(text, pg__json_member(text, s, "class_name"), config, w->loss);
    *kept = o && config.n && text[config.off] == '{' && pg__json_is_null(text, custom) &&
            (!module.n || pg__json_is_text(text, module, own));
    if (!*kept)
        return PG_OK;
    PG_TRY(add_head(w, own, o->class_name));
    PG_TRY(pg__str_puts(w->out, "{", w->err));
    pg__json_walk m = pg__json_walk_of(text, config);
    int some = 0, can = 1;
    while (pg__json_walk_next(&m)) {
        const int reduction = w->loss && pg__json_key_is(text, m.key, "reduction");
        if (reduction && w->to.keras == 2 && pg__json_is_null(text, m.value)) {
            PG_TRY(pg__str_printf(w->out, w->err, "%s\"reduction\": \"none\"", some ? ", " : ""));
            some = 1;
            continue;
        }
        if (is_left_out(w, m.key, m.value))
            continue;
        *kept &= has_member(o, text, m.key, w->loss);
        PG_TRY(pg__str_puts(w->out, some ? ", " : "", w->err));
        PG_TRY(pg__str_add(w->out, text + m.key.off, m.key.n, w->err));
        PG_TRY(pg__str_puts(w->out, ": ", w->err));
        if (reduction)
            PG_TRY(add_reduction(w, &can, m.value));
        else
            PG_TRY(pg__str_add(w->out, text + m.value.off, m.value.n, w->err));
        *kept &= can;
        some = 1;
    }
    PG_TRY(pg__str_puts(w->out, "}", w->err));
    PG_TRY(add_tail(w));
done:
    return st;
}

/* A word, an object or null. */
static pg_status add_one(walking *w, int *kept, pg__json_span s)
{
    const char *text = w->text;
    *kept = 1;
    if (pg__json_is_null(text, s))
        return pg__str_puts(w->out, "null", w->err);
    const int in_full = w->loss && w->to.keras == 3 && !(w->to.same && w->to.zip);
    for (size_t i = 0; i < sizeof same_words / sizeof *same_words; i++) {
        const struct word *x = &same_words[i];
        if (x->use == (w->loss ? METRIC : LOSS) || !pg__json_is_text(text, s, x->word))
            continue;
        return in_full && x->full ? pg__str_printf(w->out, w->err, "\"%s\"", x->full)
                                  : pg__str_add(w->out, text + s.off, s.n, w->err);
    }
    if (text[s.off] == '{')
        return w->to.same ? add_same(w, kept, s) : add_object(w, kept, s);
    *kept = w->to.same; /* perhaps the name of the user's own */
    return *kept ? pg__str_add(w->out, text + s.off, s.n, w->err) : PG_OK;
}

static int is_container(const char *text, pg__json_span s)
{
    return s.n && (text[s.off] == '[' ||
                   (text[s.off] == '{' && !pg__json_member(text, s, "class_name").n));
}

/* Losses or metrics, in lists and dictionaries at most two deep. Of a container what Keras 3 has is
 * kept; a list within a list is that of one output, and keeps its place when it is empty. */
static pg_status add_words(walking *w, int *kept, pg__json_span s, int depth)
{
    pg_status st = PG_OK;
    const char *text = w->text;
    pg__str *out = w->out;
    if (!is_container(text, s) || depth == 3) {
        const size_t before = out->n;
        if (depth < 3)
            PG_TRY(add_one(w, kept, s));
        *kept &= depth < 3;
        if (!*kept) {
            out->n = before;
            PG_TRY(lose(w, s));
        }
        return PG_OK;
    }
    pg__json_walk m = pg__json_walk_of(text, s);
    size_t n_given = 0, n_kept = 0;
    int some = 0;
    PG_TRY(pg__str_add(out, text + s.off, 1, w->err));
    for (; pg__json_walk_next(&m); n_given++) {
        const size_t before = out->n;
        int one = 0;
        PG_TRY(pg__str_puts(out, n_kept ? ", " : "", w->err));
        if (m.is_object) {
            PG_TRY(pg__str_add(out, text + m.key.off, m.key.n, w->err));
            PG_TRY(pg__str_puts(out, ": ", w->err));
        }
        PG_TRY(add_words(w, &one, m.value, depth + 1));
        if (!one && (m.is_object || !is_container(text, m.value)))
            out->n = before;
        else
            n_kept++;
        some |= one;
    }
    PG_TRY(pg__str_puts(out, text[s.off] == '[' ? "]" : "}", w->err));
    *kept = some || n_given == 0;
done:
    return st;
}

/* The list in a list of one that Keras 2 makes of the metrics of one output; Keras 3 refuses it. */
static pg__json_span only_list(const char *text, pg__json_span s)
{
    pg__json_walk w = pg__json_walk_of(text, s);
    if (!s.n || text[s.off] != '[' || !pg__json_walk_next(&w) || text[w.value.off] != '[')
        return s;
    const pg__json_span inner = w.value;
    return pg__json_walk_next(&w) ? s : inner;
}

pg_status pg__compile_words(pg__str *out, pg__strs *lost, const char *text, pg__json_span s,
                            int loss, pg__words_for to, pg_err *err)
{
    walking w = {out, lost, text, loss, to, err};
    const size_t before = out->n;
    int kept = 0;
    pg_status st = PG_OK;
    PG_TRY(add_words(&w, &kept, loss || to.same || to.keras == 2 ? s : only_list(text, s), 0));
    if (!kept || (loss && lost->n > 0)) { /* the sum of some losses is another loss */
        out->n = before;
        PG_TRY(pg__str_puts(out, "null", err));
    }
done:
    return st;
}

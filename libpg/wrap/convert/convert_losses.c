/* convert_losses.c - losses and metrics of a training configuration of Keras 1 or 2 as Keras 3
 * takes them. Strings stay but for short names; objects get the module that Keras 3 asks for and
 * lose the members that it refuses. Classes and their members were compared in Keras 2.15 and 3.6.
 */
#include <string.h>

#include "base/try.h"
#include "wrap/convert/convert.h"

/* Losses and metrics that both Keras know, and what they are called in full: Keras 3 does not find
 * the short names of losses in an .h5. */
static const char *const same_words[][2] = {
    {"mse", "mean_squared_error"},
    {"mae", "mean_absolute_error"},
    {"mape", "mean_absolute_percentage_error"},
    {"msle", "mean_squared_logarithmic_error"},
    {"mean_squared_error", NULL},
    {"mean_absolute_error", NULL},
    {"mean_absolute_percentage_error", NULL},
    {"mean_squared_logarithmic_error", NULL},
    {"squared_hinge", NULL},
    {"hinge", NULL},
    {"categorical_hinge", NULL},
    {"categorical_crossentropy", NULL},
    {"sparse_categorical_crossentropy", NULL},
    {"binary_crossentropy", NULL},
    {"poisson", NULL},
    {"accuracy", NULL},
    {"acc", NULL},
    {"binary_accuracy", NULL},
    {"categorical_accuracy", NULL},
    {"sparse_categorical_accuracy", NULL},
    {"top_k_categorical_accuracy", NULL},
    {"sparse_top_k_categorical_accuracy", NULL},
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

/* {"class_name", "config"} of Keras 2, in .keras with a module; *known becomes 0 for what Keras 3
 * does not have. */
static pg_status add_object_3(pg__str *out, int *known, const char *text, pg__json_span s, int loss,
                              pg_err *err)
{
    pg_status st = PG_OK;
    const char *own = loss ? "keras.losses" : "keras.metrics";
    const pg__json_span config = pg__json_member(text, s, "config"),
                        module = pg__json_member(text, s, "module"),
                        custom = pg__json_member(text, s, "registered_name");
    const object *o = find_object(text, pg__json_member(text, s, "class_name"), config, loss);
    *known &= o && config.n && text[config.off] == '{' && pg__json_is_null(text, custom) &&
              (!module.n || pg__json_is_text(text, module, own));
    if (!*known)
        return PG_OK;
    PG_TRY(pg__str_printf(out, err, "{\"module\": \"%s\", \"class_name\": \"%s\", \"config\": {",
                          own, o->class_name));
    pg__json_walk w = pg__json_walk_of(text, config);
    for (int some = 0; pg__json_walk_next(&w);) {
        if (is_idle(text, w.key, w.value))
            continue;
        *known &= has_member(o, text, w.key, loss);
        PG_TRY(pg__str_puts(out, some ? ", " : "", err));
        PG_TRY(pg__str_add(out, text + w.key.off, w.key.n, err));
        PG_TRY(pg__str_puts(out, ": ", err));
        if (pg__json_key_is(text, w.key, "reduction") && pg__json_is_text(text, w.value, "auto"))
            PG_TRY(pg__str_puts(out, "\"sum_over_batch_size\"", err));
        else
            PG_TRY(pg__str_add(out, text + w.value.off, w.value.n, err));
        some = 1;
    }
    PG_TRY(pg__str_puts(out, "}, \"registered_name\": null}", err));
done:
    return st;
}

static pg_status add_words_3(pg__str *out, int *known, const char *text, pg__json_span s, int loss,
                             int depth, pg_err *err)
{
    pg_status st = PG_OK;
    pg__json_walk w = pg__json_walk_of(text, s);
    if (pg__json_is_null(text, s))
        return pg__str_puts(out, "null", err);
    for (size_t i = 0; i < sizeof same_words / sizeof *same_words; i++)
        if (pg__json_is_text(text, s, same_words[i][0]))
            return loss && same_words[i][1] ? pg__str_printf(out, err, "\"%s\"", same_words[i][1])
                                            : pg__str_add(out, text + s.off, s.n, err);
    if (text[s.off] == '{' && pg__json_member(text, s, "class_name").n)
        return add_object_3(out, known, text, s, loss, err);
    *known &= depth < 3 && strchr("[{", text[s.off]) != NULL;
    if (!*known)
        return PG_OK;
    PG_TRY(pg__str_add(out, text + s.off, 1, err));
    for (int some = 0; pg__json_walk_next(&w); some = 1) {
        PG_TRY(pg__str_puts(out, some ? ", " : "", err));
        if (w.is_object) {
            PG_TRY(pg__str_add(out, text + w.key.off, w.key.n, err));
            PG_TRY(pg__str_puts(out, ": ", err));
        }
        PG_TRY(add_words_3(out, known, text, w.value, loss, depth + 1, err));
    }
    PG_TRY(pg__str_puts(out, text[s.off] == '[' ? "]" : "}", err));
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

pg_status pg__compile_words_3(pg__str *out, int *known, const char *text, pg__json_span s, int loss,
                              pg_err *err)
{
    return add_words_3(out, known, text, loss ? s : only_list(text, s), loss, 0, err);
}

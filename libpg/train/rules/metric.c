/* metric.c - the table of metrics, by Keras' names. Source: keras/metrics of 2.15 and 3.6. */
#include "train/rules/metric.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/nearest.h"
#include "base/real.h"
#include "base/try.h"
#include "train/rules/metric_impl.h"
#include "train/rules/names.h"

static const pg__metric_type types[] = {
#define PG_METRIC_LOSS(class, name) \
    {#class, name, PG_METRIC_EITHER, pg__value_loss, NULL, NULL, NULL, 0, ""},
#define PG_METRIC_MEAN(class, name, takes, keys) \
    {#class, name, PG_METRIC_##takes, pg__value_##class, NULL, NULL, NULL, 0, keys},
#define PG_METRIC_SUMS(class, name, takes, family, made, numbered, keys) \
    {#class,                                                             \
     name,                                                               \
     PG_METRIC_##takes,                                                  \
     NULL,                                                               \
     pg__shape_##family,                                                 \
     pg__sums_##family,                                                  \
     pg__result_##made,                                                  \
     numbered,                                                           \
     keys},
#include "train/rules/metrics.def"
#undef PG_METRIC_LOSS
#undef PG_METRIC_MEAN
#undef PG_METRIC_SUMS
};
#define N_TYPES (sizeof types / sizeof *types)

/* Losses without a metric class in Keras: "huber". */
static const pg__metric_type other_loss = {
    NULL, NULL, PG_METRIC_EITHER, pg__value_loss, NULL, NULL, NULL, 0, ""};

static const pg__metric_type *type_of_class(const char *name)
{
    for (size_t i = 0; i < N_TYPES; i++)
        if (strcmp(types[i].class_name, name) == 0)
            return &types[i];
    return NULL;
}

int pg__metric_has_class(const char *name)
{
    return type_of_class(name) != NULL;
}

void pg__metric_fini(pg__metric *m)
{
    pg__mem_free(m->text);
    pg__mem_free(m->given);
    pg__mem_free(m->name);
    pg__mem_free(m->args.thresholds.v);
    pg__mem_free(m->args.label_weights.v);
    pg__mem_free(m->args.target_class_ids.v);
    pg__mem_free(m->args.normalizer.v);
    *m = (pg__metric){0};
}

/* ---- names ---- */

static int is_loss(const pg__metric_type *type)
{
    return type->value == pg__value_loss;
}

/* "accuracy" never means Keras' class Accuracy. */
static const pg__metric_type *find(const char *name, size_t n, const pg__rules *rules)
{
    pg__loss_attrs loss;
    if (pg__same_name(name, n, "exact_accuracy"))
        return type_of_class("Accuracy");
    if (pg__same_name(name, n, "cosine_proximity"))
        return type_of_class("CosineSimilarity");
    for (size_t i = 0; i < N_TYPES; i++)
        if (pg__same_name(name, n, types[i].class_name) || pg__same_name(name, n, types[i].usual))
            return &types[i];
    return pg__loss_of(&loss, name, n, rules, NULL) == PG_OK ? &other_loss : NULL;
}

static const char *usual_name(const pg__metric *m)
{
    return m->old_names && strcmp(m->type->class_name, "KLDivergence") == 0
               ? "kullback_leibler_divergence"
               : m->type->usual;
}

/* Some metrics take one array, and fit() gives two; other names are mistyped. */
static pg_status refuse(const char *name, size_t n, pg_err *err)
{
    static const char *const others[] = {"Mean", "Sum", "MeanTensor", "MeanMetricWrapper",
                                         "Metric"};
    enum { MAX_LOSSES = 64 };
    const char *names[N_TYPES + 2 + MAX_LOSSES] = {"accuracy", "crossentropy"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (pg__same_name(name, n, others[i]))
            return pg_fail(err, PG_E_UNSUPPORTED,
                           "metric %s: it does not compare targets with predictions", others[i]);
    for (size_t i = 0; i < N_TYPES; i++)
        names[i + 2] =
            strcmp(types[i].class_name, "Accuracy") == 0 ? "exact_accuracy" : types[i].usual;
    size_t n_names = N_TYPES + 2;
    for (size_t i = 0; i < MAX_LOSSES && pg__loss_name(i); i++)
        names[n_names++] = pg__loss_name(i);
    (void)pg__fail_unknown(err, "metric", name, n, names, n_names);
    (void)pg__list_known(err, PG_E_ARG, names, N_TYPES + 2);
    pg_err_detail(err, "and every loss");
    return PG_E_ARG;
}

/* The name in the logs: the given one, or for an object that of its class. */
static pg_status set_given(pg__metric *out, const char *name, size_t n, const char *own,
                           pg_err *err)
{
    const int is_class = out->type && out->type->class_name && strlen(out->type->class_name) == n &&
                         strncmp(out->type->class_name, name, n) == 0;
    const int as_written = out->keras3 && !out->is_object;
    const int is_exact = pg__same_name(name, n, "exact_accuracy");
    const char *given = own ? own : (is_class && !as_written) || is_exact ? usual_name(out) : NULL;
    out->is_named = own != NULL;
    out->is_object |= is_class || is_exact || (out->type && !out->type->value);
    out->given = given ? pg__mem_strdup(given) : pg__mem_strndup(name, n);
    return out->given ? PG_OK : pg__nomem(err);
}

static pg_status read_settings(pg__metric *out, const char *name, size_t n, const char *text,
                               const pg__rules *rules, pg_err *err)
{
    pg__settings from = {.root = NULL};
    const char *own = NULL;
    int has_name = 0;
    pg_status st = PG_OK;
    PG_TRY(pg__settings_colons(&from, text, err));
    if (out->type && is_loss(out->type))
        PG_TRY(pg__loss_of(&out->loss, text, strlen(text), rules, err));
    else if (out->type)
        PG_TRY(pg__metric_keys(out, &from, err));
    PG_TRY(pg__settings_has(&from, "name", &has_name, err));
    PG_TRY(pg__settings_text(&from, "name", &own, err));
    if (!out->type || !is_loss(out->type))
        PG_TRY(pg__settings_end(&from, err));
    PG_TRY(set_given(out, name, n, own, err));
done:
    pg__settings_fini(&from);
    return st;
}

pg_status pg__metric_of(pg__metric *out, const char *text, size_t len, const pg__rules *rules,
                        pg_err *err)
{
    const char *colon = memchr(text, ':', len);
    const size_t n = colon ? (size_t)(colon - text) : len;
    const int is_accuracy = pg__same_name(text, n, "accuracy") || pg__same_name(text, n, "acc");
    pg__metric m = {.keras3 = rules->keras3,
                    .old_names = !rules->keras3,
                    .is_object = colon != NULL,
                    .is_crossentropy =
                        pg__same_name(text, n, "crossentropy") || pg__same_name(text, n, "ce")};
    pg_status st = PG_OK;
    if (!is_accuracy && !m.is_crossentropy) {
        m.type = find(text, n, rules);
        if (!m.type)
            PG_TRY(refuse(text, n, err));
    }
    m.text = pg__mem_strndup(text, len);
    if (!m.text)
        PG_TRY(pg__nomem(err));
    PG_TRY(read_settings(&m, text, n, m.text, rules, err));
    *out = m;
    m = (pg__metric){0};
done:
    pg__metric_fini(&m);
    return st;
}

int pg__metric_is_numbered(const pg__metric *m)
{
    return m->type && m->type->numbered && !m->is_named;
}

uint32_t pg__metric_losses(const pg__metric *m)
{
    const uint32_t several = (uint32_t)1 << PG_LOSS_categorical_crossentropy |
                             (uint32_t)1 << PG_LOSS_sparse_categorical_crossentropy;
    if (!m->type)
        return m->is_crossentropy ? several : 0;
    return is_loss(m->type) ? (uint32_t)1 << m->loss.kind : 0;
}

int pg__metric_is_accuracy(const pg__metric *m)
{
    return !m->is_object && pg__same_name(m->given, strlen(m->given), "accuracy");
}

/* ---- counting ---- */

static int fits(const pg__metric *m)
{
    if (is_loss(m->type))
        return pg__loss_takes_class(m->loss.kind) == m->classes;
    return m->type->takes == PG_METRIC_EITHER || (m->type->takes == PG_METRIC_CLASS) == m->classes;
}

static pg_status resolve(pg__metric *m, const pg__rules *rules, pg_err *err)
{
    static const char *const accuracies[] = {"BinaryAccuracy", "CategoricalAccuracy",
                                             "SparseCategoricalAccuracy"};
    static const char *const losses[] = {"binary_crossentropy", "categorical_crossentropy",
                                         "sparse_categorical_crossentropy"};
    const size_t which = m->classes ? 2 : m->n > 1;
    if (m->type)
        return PG_OK;
    m->type = m->is_crossentropy ? &other_loss : type_of_class(accuracies[which]);
    m->args.threshold = 0.5;
    return m->is_crossentropy
               ? pg__loss_of(&m->loss, losses[which], strlen(losses[which]), rules, err)
               : PG_OK;
}

pg_status pg__metric_bind(pg__metric *m, const pg__dims *prediction, int classes,
                          const pg__rules *rules, pg_err *err)
{
    pg_status st = PG_OK;
    m->n = prediction->rank > 0 ? (size_t)prediction->d[prediction->rank - 1] : 1;
    m->classes = classes;
    m->n_state = 2;
    m->n_results = 1;
    PG_TRY(resolve(m, rules, err));
    if (!fits(m)) {
        (void)pg_fail(err, PG_E_MISMATCH, "metric %s does not fit targets that are %s", m->text,
                      classes ? "classes" : "numbers");
        pg_err_set(err, "metrics", "accuracy");
        st = PG_E_MISMATCH;
        goto done;
    }
    if (m->args.normalizer.n > 1 && m->args.normalizer.n != m->n)
        PG_FAIL(PG_E_MISMATCH, "metric %s: the normalizer has %zu numbers, predictions have %zu",
                m->type->class_name, m->args.normalizer.n, m->n);
    if (m->type->shape)
        PG_TRY(m->type->shape(m, prediction, err));
done:
    return st;
}

/* Rows of a class that the loss ignores do not count. */
static int is_ignored(const pg__metric *m, const double *y)
{
    return is_loss(m->type) && m->classes && m->loss.ignores && y[0] == (double)m->loss.ignored;
}

void pg__metric_add(const pg__metric *m, double *state, const double *y, const double *p,
                    const double *weights, size_t n_rows)
{
    for (size_t r = 0; r < n_rows; r++, y += m->classes ? 1 : m->n, p += m->n) {
        const double w = weights ? weights[r] : 1;
        if (m->type->sums)
            m->type->sums(m, state, y, p, w);
        if (m->type->sums || w == 0 || is_ignored(m, y))
            continue;
        state[0] += w * m->type->value(m, y, p);
        state[1] += w;
    }
}

void pg__metric_result(const pg__metric *m, const double *state, double *out)
{
    if (m->type->result)
        m->type->result(m, state, out);
    else
        *out = pg__ratio(state[0], state[1]);
}

/* ---- files ---- */

/* The function in a MeanMetricWrapper; Keras 2.15 does not find the KL divergence by its newer
 * name. */
static const char *function_of(const pg__metric *m)
{
    static const char *const names[] = {
#define PG_LOSS(name, target) #name,
#include "ops/losses.def"
#undef PG_LOSS
    };
    if (!is_loss(m->type))
        return m->type->usual;
    return m->loss.kind == PG_LOSS_kl_divergence ? "kullback_leibler_divergence"
                                                 : names[m->loss.kind];
}

/* Parses the parameters again, since bind() has changed them. */
static pg_status put_keys(pg__str *out, const pg__metric *m, pg_err *err)
{
    const pg__rules *rules;
    pg__metric asked = {0};
    pg_status st = PG_OK;
    PG_TRY(pg__rules_of(&rules, m->keras3 ? "3" : NULL, err));
    PG_TRY(pg__metric_of(&asked, m->text, strlen(m->text), rules, err));
    if (asked.type && is_loss(asked.type))
        PG_TRY(pg__loss_put_keys(out, &asked.loss, 0, err));
    else if (asked.type)
        PG_TRY(pg__metric_put_keys(out, &asked, err));
done:
    pg__metric_fini(&asked);
    return st;
}

pg_status pg__metric_put(pg__str *out, const pg__metric *m, const char *name, int with_module,
                         pg_err *err)
{
    const int is_object = m->is_object && m->type && m->type->class_name;
    const char *class_name = is_object ? m->type->class_name : "MeanMetricWrapper";
    pg_status st = PG_OK;
    PG_TRY(pg__str_printf(out, err, "{%s\"class_name\": \"%s\", \"config\": {\"name\": ",
                          with_module ? "\"module\": \"keras.metrics\", " : "", class_name));
    PG_TRY(pg__json_quote(out, name, strlen(name), err));
    PG_TRY(pg__str_puts(out, ", \"dtype\": \"float32\"", err));
    if (!is_object)
        PG_TRY(pg__str_printf(out, err,
                              with_module ? ", \"fn\": {\"module\": \"builtins\", \"class_name\": "
                                            "\"function\", \"config\": \"%s\", "
                                            "\"registered_name\": \"function\"}"
                                          : ", \"fn\": \"%s\"",
                              function_of(m)));
    PG_TRY(put_keys(out, m, err));
    PG_TRY(pg__str_puts(out, with_module ? "}, \"registered_name\": null}" : "}}", err));
done:
    return st;
}

/* A value in the form after "key="; it cannot contain the separators of the text. */
static pg_status read_value(pg__str *out, const char *key, const pg__json *v, pg_err *err)
{
    const char *s = pg__json_str(v);
    double number = 0;
    int64_t whole = 0;
    if (s && (s[strcspn(s, ":,/=")] != '\0' || *s == '\0'))
        return pg_fail(
            err, PG_E_UNSUPPORTED,
            "its training configuration has a metric's %s \"%s\", which is not supported", key,
            PG_SHOW(s));
    if (s)
        return pg__str_puts(out, s, err);
    if (pg__json_int(v, &whole))
        return pg__str_printf(out, err, "%lld", (long long)whole);
    if (pg__json_num(v, &number))
        return pg__str_puts(out, PG_REAL(number), err);
    if (pg__json_type_of(v) == PG_J_BOOL)
        return pg__str_puts(out, pg__json_bool(v, 0) ? "true" : "false", err);
    if (pg__json_type_of(v) == PG_J_NULL)
        return pg__str_puts(out, "null", err);
    return pg_fail(
        err, PG_E_UNSUPPORTED,
        "its training configuration has a metric's %s that is %s, which is not supported", key,
        pg__json_type_of(v) == PG_J_OBJECT ? "an object" : "a list of lists");
}

static pg_status read_member(pg__str *out, const char *key, const pg__json *asked, pg_err *err)
{
    /* an array of numbers is an object around its list */
    const pg__json *held = pg__json_get(pg__json_get(asked, "config"), "value");
    const pg__json *v = held ? held : asked;
    const size_t n = pg__json_type_of(v) == PG_J_ARRAY ? pg__json_len(v) : 0;
    pg_status st = PG_OK;
    PG_TRY(pg__str_printf(out, err, ":%s=", key));
    if (n == 0 && pg__json_type_of(v) != PG_J_ARRAY)
        return read_value(out, key, v, err);
    for (size_t k = 0; k < n; k++) {
        PG_TRY(pg__str_puts(out, k ? "/" : "", err));
        PG_TRY(read_value(out, key, pg__json_at(v, k), err));
    }
done:
    return st;
}

pg_status pg__metric_read(pg__str *out, const char *class_name, const pg__json *config,
                          const char *output, pg_err *err)
{
    const size_t n = output ? strlen(output) : 0;
    pg__json_iter it = {.obj = config};
    pg_status st = PG_OK;
    PG_TRY(pg__str_puts(out, strcmp(class_name, "Accuracy") == 0 ? "exact_accuracy" : class_name,
                        err));
    while (pg__json_next(&it)) {
        const char *name = strcmp(it.key, "name") == 0 ? pg__json_str(it.value) : NULL;
        const int is_null = pg__json_type_of(it.value) == PG_J_NULL;
        if (name && n && strncmp(name, output, n) == 0 && name[n] == '_' && name[n + 1])
            name += n + 1; /* "out_auc" */
        if (name) {        /* even the default: Keras 3 uses the class name as written */
            if (name[strcspn(name, ":,/=")] != '\0' || *name == '\0')
                PG_FAIL(
                    PG_E_UNSUPPORTED,
                    "its training configuration has a metric called \"%s\", which is not supported",
                    PG_SHOW(name));
            PG_TRY(pg__str_printf(out, err, ":name=%s", name));
        }
        if (!name && strcmp(it.key, "dtype") != 0 &&
            (!is_null || strcmp(it.key, "class_aggregation") == 0))
            PG_TRY(read_member(out, it.key, it.value, err));
    }
done:
    return st;
}

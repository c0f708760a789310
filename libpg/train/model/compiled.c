/* compiled.c - writes and reads training_config and compile_config.
 *
 *     legacy .h5   {"loss", "metrics", "weighted_metrics", "loss_weights", "optimizer_config"}
 *     .keras       config.json's compile_config: the same with "optimizer"
 *
 * Always written in the first form, from which the converter makes the second. Class names of
 * optimizers: Keras 2.11 to 2.15 write "Custom>Adam" for their own and "Adam" for legacy ones,
 * Keras 3 writes "Adam". Metrics have the user's names, but Keras 2.11 to 2.15 write the built
 * metrics into an .h5, MeanMetricWrappers under their names in the logs. Numbers are float32 in
 * Keras; the shortest text that reads back as the same float32 is written. */
#include "train/model/compiled.h"

#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/real.h"
#include "base/try.h"
#include "train/model/logs.h"
#include "train/model/slots.h"
#include "train/rules/rules.h"

/* ---- writing ---- */

static pg_status add_number(pg__str *out, const char *key, double v, pg_err *err)
{
    return pg__str_printf(out, err, ", \"%s\": %s", key, PG_REAL32(v));
}

static pg_status add_flag(pg__str *out, const char *key, int v, pg_err *err)
{
    return pg__str_printf(out, err, ", \"%s\": %s", key, v ? "true" : "false");
}

/* 0 means no limit. */
static pg_status add_limit(pg__str *out, const char *key, double v, int always, pg_err *err)
{
    if (v > 0)
        return add_number(out, key, v, err);
    return always ? pg__str_printf(out, err, ", \"%s\": null", key) : PG_OK;
}

static pg_status add_ftrl(pg__str *out, const pg__optimizer *o, pg_err *err)
{
    pg_status st = PG_OK;
    PG_TRY(add_number(out, "learning_rate_power", o->lr_power, err));
    PG_TRY(add_number(out, "initial_accumulator_value", o->initial_accumulator, err));
    PG_TRY(add_number(out, "l1_regularization_strength", o->l1, err));
    PG_TRY(add_number(out, "l2_regularization_strength", o->l2, err));
    PG_TRY(add_number(out, "l2_shrinkage_regularization_strength", o->l2_shrinkage, err));
    PG_TRY(add_number(out, "beta", o->beta, err));
done:
    return st;
}

static pg_status add_average(pg__str *out, const pg__optimizer *o, pg_err *err)
{
    pg_status st = PG_OK;
    PG_TRY(add_flag(out, "use_ema", o->use_ema, err));
    PG_TRY(add_number(out, "ema_momentum", o->ema_momentum, err));
    if (o->ema_frequency > 0)
        return pg__str_printf(out, err, ", \"ema_overwrite_frequency\": %.0f", o->ema_frequency);
    PG_TRY(pg__str_puts(out, ", \"ema_overwrite_frequency\": null", err));
done:
    return st;
}

static pg_status add_rules(pg__str *out, const pg__optimizer *o, pg__era era, pg_err *err)
{
    const int is_sgd = strcmp(o->name, "SGD") == 0, is_rms = strcmp(o->name, "RMSprop") == 0;
    const int tensorflow = era >= PG_ERA_OLD, is_ftrl = strcmp(o->name, "Ftrl") == 0;
    pg_status st = PG_OK;
    if (is_sgd || (is_rms && tensorflow))
        PG_TRY(add_number(out, "momentum", o->momentum, err));
    if (is_sgd)
        PG_TRY(add_flag(out, "nesterov", o->nesterov, err));
    if (is_rms || strcmp(o->name, "Adadelta") == 0)
        PG_TRY(add_number(out, "rho", o->rho, err));
    if (is_rms && tensorflow)
        PG_TRY(add_flag(out, "centered", o->centered, err));
    if (o->beta_2 > 0) {
        PG_TRY(add_number(out, "beta_1", o->beta_1, err));
        PG_TRY(add_number(out, "beta_2", o->beta_2, err));
    }
    if (is_ftrl)
        PG_TRY(add_ftrl(out, o, err));
    if (!is_sgd && !is_ftrl && strcmp(o->name, "Lion") != 0)
        PG_TRY(add_number(out, "epsilon", o->epsilon, err));
    if (strcmp(o->name, "Adam") == 0 || strcmp(o->name, "AdamW") == 0)
        PG_TRY(add_flag(out, "amsgrad", o->amsgrad, err));
    if (strcmp(o->name, "Adagrad") == 0 && tensorflow)
        PG_TRY(add_number(out, "initial_accumulator_value", o->initial_accumulator, err));
    if (strcmp(o->name, "Nadam") == 0 && !tensorflow)
        PG_TRY(add_number(out, "schedule_decay", o->nadam_decay, err));
done:
    return st;
}

/* Standalone Keras has no schedules: its files hold the current rate. */
static pg_status add_rate(pg__str *out, const pg__optimizer *o, pg__era era, pg_err *err)
{
    pg_status st = PG_OK;
    if (!o->schedule || era < PG_ERA_OLD)
        return add_number(out, era == PG_ERA_2_2 ? "lr" : "learning_rate", pg__optimizer_rate(o),
                          err);
    PG_TRY(pg__str_puts(out, ", \"learning_rate\": ", err));
    PG_TRY(pg__schedule_put(out, o->schedule, era != PG_ERA_OLD, err));
done:
    return st;
}

static pg_status add_optimizer(pg__str *out, const pg_trainer *t, const pg__optimizer *o,
                               pg_err *err)
{
    const pg__era era = pg__era_of(t);
    const int later = era >= PG_ERA_NEW, nadam = strcmp(o->name, "Nadam") == 0;
    pg_status st = PG_OK;
    PG_TRY(pg__str_printf(out, err, "{\"class_name\": \"%s%s\", \"config\": {\"name\": \"%s\"",
                          era == PG_ERA_NEW ? "Custom>" : "", o->name, o->name));
    PG_TRY(add_rate(out, o, era, err));
    if (!later && !(nadam && era < PG_ERA_OLD))
        PG_TRY(add_number(out, "decay", nadam ? o->nadam_decay : o->decay, err));
    if (later && strcmp(o->name, "AdamW") == 0) /* it does not accept null */
        PG_TRY(add_number(out, "weight_decay", o->weight_decay, err));
    else if (later)
        PG_TRY(add_limit(out, "weight_decay", o->weight_decay, 1, err));
    PG_TRY(add_limit(out, "clipnorm", o->clipnorm, later, err));
    if (era >= PG_ERA_OLD)
        PG_TRY(add_limit(out, "global_clipnorm", o->global_clipnorm, later, err));
    PG_TRY(add_limit(out, "clipvalue", o->clipvalue, later, err));
    if (later)
        PG_TRY(add_average(out, o, err));
    if (era == PG_ERA_NEW)
        PG_TRY(pg__str_puts(out, ", \"jit_compile\": false, \"is_legacy_optimizer\": false", err));
    PG_TRY(add_rules(out, o, era, err));
    PG_TRY(pg__str_puts(out, "}}", err));
done:
    return st;
}

static const char *const loss_names[] = {
#define PG_LOSS(name, target) #name,
#include "ops/losses.def"
#undef PG_LOSS
};

/* Keras' name of a loss; standalone Keras had longer ones for two. */
static const char *loss_name(const pg_trainer *t, pg__loss_kind kind)
{
    const int early = pg__era_of(t) <= PG_ERA_2_3;
    if (early && kind == PG_LOSS_kl_divergence)
        return "kullback_leibler_divergence";
    if (early && kind == PG_LOSS_cosine_similarity)
        return "cosine_proximity";
    return kind == PG_LOSS_log_cosh && !t->net.rules->keras3 ? "logcosh" : loss_names[kind];
}

/* A loss with parameters is an object of its class. */
static pg_status add_loss(pg__str *out, const pg_trainer *t, const pg__loss_attrs *l, pg_err *err)
{
    const int later = pg__era_of(t) >= PG_ERA_NEW;
    char room[64];
    pg_status st = PG_OK;
    if (pg__loss_is_plain(l) || l->kind == PG_LOSS_jaccard_distance)
        return pg__str_printf(out, err, "\"%s\"", loss_name(t, l->kind));
    PG_TRY(pg__str_printf(out, err, "{%s\"class_name\": \"%s\", \"config\": {\"name\": \"%s\"",
                          later ? "\"module\": \"keras.losses\", " : "",
                          pg__loss_class(l->kind, room, sizeof room), loss_name(t, l->kind)));
    PG_TRY(pg__loss_put_keys(out, l, 1, err));
    PG_TRY(pg__str_puts(out, later ? "}, \"registered_name\": null}" : "}}", err));
done:
    return st;
}

static pg_status add_key(pg__str *out, const char *name, pg_err *err)
{
    pg_status st = PG_OK;
    PG_TRY(pg__json_quote(out, name, strlen(name), err));
    PG_TRY(pg__str_puts(out, ": ", err));
done:
    return st;
}

/* Losses and their weights by the names of outputs, or one for each in their order: Keras 3 (to 3.6
 * at least) sorts the names and gives output k the k-th of them. */
static int goes_by_name(const pg_trainer *t)
{
    int all = 1;
    for (size_t k = 0; k < t->net.n_outputs; k++)
        all &= t->compiled.objectives[k].has_loss;
    return t->net.n_outputs > 1 && !(t->net.rules->keras3 && all);
}

static pg_status add_losses(pg__str *out, const pg_trainer *t, pg_err *err)
{
    const int by_name = goes_by_name(t);
    pg_status st = PG_OK;
    int some = 0;
    if (t->net.n_outputs == 1)
        return add_loss(out, t, &t->compiled.objectives[0].loss, err);
    PG_TRY(pg__str_puts(out, by_name ? "{" : "[", err));
    for (size_t k = 0; k < t->net.n_outputs; k++) {
        if (!t->compiled.objectives[k].has_loss)
            continue;
        PG_TRY(pg__str_puts(out, some++ ? ", " : "", err));
        if (by_name)
            PG_TRY(add_key(out, t->net.output_names[k], err));
        PG_TRY(add_loss(out, t, &t->compiled.objectives[k].loss, err));
    }
    PG_TRY(pg__str_puts(out, by_name ? "}" : "]", err));
done:
    return st;
}

static pg_status add_loss_weights(pg__str *out, const pg_trainer *t, pg_err *err)
{
    const int by_name = goes_by_name(t);
    pg_status st = PG_OK;
    int needed = 0;
    for (size_t k = 0; k < t->net.n_outputs; k++)
        needed |= t->compiled.loss_weights[k] != 1;
    if (!needed)
        return pg__str_puts(out, "null", err);
    PG_TRY(pg__str_puts(out, by_name ? "{" : "[", err));
    for (size_t k = 0; k < t->net.n_outputs; k++) {
        PG_TRY(pg__str_puts(out, k ? ", " : "", err));
        if (by_name)
            PG_TRY(add_key(out, t->net.output_names[k], err));
        PG_TRY(pg__str_puts(out, PG_REAL32(t->compiled.loss_weights[k]), err));
    }
    PG_TRY(pg__str_puts(out, by_name ? "}" : "]", err));
done:
    return st;
}

/* Counts the objects of the same class and output before `name` in the text that have no name of
 * their own either. */
static pg_status count_before(size_t *out, const pg_trainer *t, const char *text, const char *name,
                              size_t output, const pg__metric *m, pg_err *err)
{
    pg_status st = PG_OK;
    *out = 0;
    for (const char *s = text; pg__metric_is_numbered(m) && s < name;) {
        size_t len = strcspn(s, ","), n;
        pg__metric other = {0};
        const char *its = pg__metric_text(t, s, len, output, &n);
        if (its && its < name) {
            PG_TRY(pg__metric_of(&other, its, n, t->net.rules, err));
            *out += pg__metric_is_numbered(&other) && other.type == m->type;
            pg__metric_fini(&other);
        }
        s += len + (s[len] == ',');
    }
done:
    return st;
}

static pg_status add_metric(pg__str *out, const pg_trainer *t, const char *text, const char *name,
                            size_t n, size_t output, pg_err *err)
{
    const int later = pg__era_of(t) >= PG_ERA_NEW;
    pg__metric m = {0};
    pg__str own = {0};
    size_t number = 0;
    pg_status st = PG_OK;
    PG_TRY(pg__metric_of(&m, name, n, t->net.rules, err));
    PG_TRY(count_before(&number, t, text, name, output, &m, err));
    PG_TRY(pg__str_puts(&own, m.given, err));
    if (number > 0)
        PG_TRY(pg__str_printf(&own, err, "_%zu", number));
    PG_TRY(m.is_object && m.type ? pg__metric_put(out, &m, own.s, later, err)
                                 : pg__json_quote(out, name, strcspn(name, ":,"), err));
done:
    pg__str_fini(&own);
    pg__metric_fini(&m);
    return st;
}

/* "accuracy,mae", or "OUT=accuracy,OUT=mae". */
static pg_status add_metrics(pg__str *out, const pg_trainer *t, const char *text, pg_err *err)
{
    pg_status st = PG_OK;
    if (!text)
        return pg__str_puts(out, "null", err);
    const int by_output = t->net.n_outputs > 1 && pg__metrics_name_outputs(text);
    PG_TRY(pg__str_puts(out, by_output ? "{" : "[", err));
    for (size_t k = 0, outputs = 0; k < (by_output ? t->net.n_outputs : 1); k++) {
        int some = 0;
        for (const char *s = text; *s != '\0';) {
            const size_t len = strcspn(s, ",");
            size_t n;
            const char *name = pg__metric_text(t, s, len, k, &n);
            if (name && by_output && !some) {
                PG_TRY(pg__str_puts(out, outputs++ ? ", " : "", err));
                PG_TRY(add_key(out, t->net.output_names[k], err));
            }
            if (name) {
                PG_TRY(pg__str_puts(out, some++ ? ", " : by_output ? "[" : "", err));
                PG_TRY(add_metric(out, t, text, name, n, k, err));
            }
            s += len + (s[len] == ',');
        }
        PG_TRY(pg__str_puts(out, by_output && some ? "]" : "", err));
    }
    PG_TRY(pg__str_puts(out, by_output ? "}" : "]", err));
done:
    return st;
}

/* A list for each output, [null] if it has none. */
static pg_status add_all_built(pg__str *out, const pg_trainer *t, int weighted, pg_err *err)
{
    pg_status st = PG_OK;
    for (size_t k = 0; k < t->net.n_outputs; k++) {
        int some = 0;
        PG_TRY(pg__str_puts(out, k ? ", [" : "[[", err));
        for (size_t i = 0; i < t->compiled.n_metrics; i++) {
            if (t->compiled.metrics[i].output != k || t->compiled.metrics[i].weighted != weighted)
                continue;
            PG_TRY(pg__str_puts(out, some++ ? ", " : "", err));
            PG_TRY(
                pg__metric_put(out, &t->compiled.metrics[i], t->compiled.metrics[i].name, 0, err));
        }
        PG_TRY(pg__str_puts(out, some ? "]" : "null]", err));
    }
    PG_TRY(pg__str_puts(out, "]", err));
done:
    return st;
}

pg_status pg__compiled_text(pg__str *out, const pg_trainer *t, const pg__optimizer *o, int in_h5,
                            pg_err *err)
{
    const int built =
        in_h5 && t->compiled.metrics && t->net.rules->new_optimizers && !t->net.rules->keras3;
    pg_status st = PG_OK;
    PG_TRY(pg__str_puts(out, "{\"loss\": ", err));
    PG_TRY(add_losses(out, t, err));
    PG_TRY(pg__str_puts(out, ", \"metrics\": ", err));
    PG_TRY(built && t->compiled.metric_text ? add_all_built(out, t, 0, err)
                                            : add_metrics(out, t, t->compiled.metric_text, err));
    PG_TRY(pg__str_puts(out, ", \"weighted_metrics\": ", err));
    PG_TRY(built && t->compiled.weighted_metric_text
               ? add_all_built(out, t, 1, err)
               : add_metrics(out, t, t->compiled.weighted_metric_text, err));
    PG_TRY(pg__str_puts(out, ", \"loss_weights\": ", err));
    PG_TRY(add_loss_weights(out, t, err));
    if (pg__era_of(t) <= PG_ERA_2_3)
        PG_TRY(pg__str_puts(out, ", \"sample_weight_mode\": null", err));
    PG_TRY(pg__str_puts(out, ", \"optimizer_config\": ", err));
    PG_TRY(add_optimizer(out, t, o, err));
    PG_TRY(pg__str_puts(out, "}", err));
done:
    return st;
}

/* ---- reading ---- */

void pg__compiled_fini(pg__compiled *c)
{
    pg__str_fini(&c->optimizer);
    pg__str_fini(&c->loss);
    pg__str_fini(&c->loss_weights);
    pg__str_fini(&c->metrics);
    pg__str_fini(&c->weighted_metrics);
    *c = (pg__compiled){0};
}

/* ":key=value" for a loss's parameters; Keras 2 writes "auto" for those not given. */
static pg_status read_loss_keys(pg__str *out, const pg__json *config, pg_err *err)
{
    static const char *const others[] = {"name", "dtype", "fn"};
    pg__json_iter it = {.obj = config};
    pg_status st = PG_OK;
    while (pg__json_next(&it)) {
        const pg__json_type type = pg__json_type_of(it.value);
        const char *s = pg__json_str(it.value);
        double v = 0;
        if (PG_IS_ANY(it.key, others) || type == PG_J_NULL || (s && strcmp(s, "auto") == 0))
            continue;
        PG_TRY(pg__str_printf(out, err, ":%s=", it.key));
        if (s && s[strcspn(s, ":,=")] == '\0')
            PG_TRY(pg__str_puts(out, s, err));
        else if (type == PG_J_BOOL)
            PG_TRY(pg__str_puts(out, pg__json_bool(it.value, 0) ? "true" : "false", err));
        else if (pg__json_num(it.value, &v))
            PG_TRY(pg__str_puts(out, PG_REAL32(v), err));
        else
            PG_FAIL(PG_E_UNSUPPORTED,
                    "its training configuration has a loss whose %s is not a number",
                    PG_SHOW(it.key));
    }
done:
    return st;
}

/* A loss or metric: its name, with its parameters. */
static pg_status read_one(pg__str *out, const pg__json *j, const char *output, const char *what,
                          pg_err *err)
{
    const pg__json *config = pg__json_get(j, "config");
    const char *name = pg__json_str(j), *fn = pg__json_get_str(config, "fn");
    const char *class_name = pg__json_get_str(j, "class_name");
    const int is_metric = strcmp(what, "metric") == 0;
    pg_status st = PG_OK;
    /* A function by name, or a class that wraps one: MeanMetricWrapper of "accuracy". */
    if (!name && class_name && strcmp(class_name, "function") == 0)
        name = pg__json_str(config);
    if (!name && class_name && strcmp(class_name, "MeanMetricWrapper") == 0)
        name = pg__json_get_str(config, "name") ? pg__json_get_str(config, "name") : fn;
    if (!name && is_metric && class_name && pg__metric_has_class(class_name))
        return pg__metric_read(out, class_name, config, output, err);
    if (!name)
        name = class_name;
    if (!name)
        PG_FAIL(PG_E_UNSUPPORTED, "its training configuration has a %s without a name", what);
    const size_t n = output ? strlen(output) : 0;
    if (n && strncmp(name, output, n) == 0 && name[n] == '_' && name[n + 1]) /* "out_accuracy" */
        name += n + 1;
    if (fn && strncmp(name, "weighted_", 9) == 0 && name[9]) /* next to one of the same name */
        name += 9;
    PG_TRY(pg__str_puts(out, name, err));
    if (pg__json_type_of(config) == PG_J_OBJECT)
        PG_TRY(read_loss_keys(out, config, err));
done:
    return st;
}

/* A value, a list of values, or a list for one output: "a,b" or "OUT=a,OUT=b". */
static pg_status read_list(pg__str *out, const pg__json *j, const char *output, const char *what,
                           pg_err *err)
{
    pg_status st = PG_OK;
    const int is_list = pg__json_type_of(j) == PG_J_ARRAY;
    for (size_t i = 0; i < (is_list ? pg__json_len(j) : 1); i++) {
        const pg__json *one = is_list ? pg__json_at(j, i) : j;
        if (pg__json_type_of(one) == PG_J_NULL || !one)
            continue;
        if (pg__json_type_of(one) == PG_J_ARRAY) {
            PG_TRY(read_list(out, one, output, what, err));
            continue;
        }
        PG_TRY(pg__str_puts(out, out->n ? "," : "", err));
        if (output)
            PG_TRY(pg__str_printf(out, err, "%s=", output));
        PG_TRY(read_one(out, one, output, what, err));
    }
done:
    return st;
}

/* Lists with one entry per output, and dicts by output. */
static pg_status read_words(pg__str *out, const pg_trainer *t, const pg__json *j, const char *what,
                            int by_place, pg_err *err)
{
    pg__json_iter it = {.obj = j};
    pg_status st = PG_OK;
    by_place |= pg__json_type_of(pg__json_at(j, 0)) == PG_J_ARRAY;
    if (pg__json_type_of(j) == PG_J_ARRAY && by_place && t->net.n_outputs > 1) {
        for (size_t k = 0; k < pg__json_len(j) && k < t->net.n_outputs; k++)
            PG_TRY(read_list(out, pg__json_at(j, k), t->net.output_names[k], what, err));
        goto done;
    }
    if (pg__json_type_of(j) != PG_J_OBJECT || pg__json_get_str(j, "class_name"))
        return read_list(out, j, NULL, what, err);
    while (pg__json_next(&it))
        PG_TRY(read_list(out, it.value, it.key, what, err));
done:
    return st;
}

static pg_status read_loss_weights(pg__str *out, const pg__json *j, pg_err *err)
{
    pg__json_iter it = {.obj = j};
    pg_status st = PG_OK;
    double v = 0;
    if (pg__json_type_of(j) == PG_J_OBJECT) {
        while (pg__json_next(&it))
            if (pg__json_num(it.value, &v))
                PG_TRY(
                    pg__str_printf(out, err, "%s%s=%s", out->n ? "," : "", it.key, PG_REAL32(v)));
        goto done;
    }
    for (size_t i = 0; i < pg__json_len(j); i++)
        if (pg__json_num(pg__json_at(j, i), &v))
            PG_TRY(pg__str_printf(out, err, "%s%s", out->n ? "," : "", PG_REAL32(v)));
done:
    return st;
}

/* The optimizer's text as bytes, its class without Keras 2's prefix. */
static pg_status read_optimizer(pg__compiled *c, const char *text, pg__json_span s, int zip,
                                int keras3, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str name = {0};
    const pg__json_span class_name = pg__json_member(text, s, "class_name"),
                        config = pg__json_member(text, s, "config");
    pg__json_span module = pg__json_member(text, s, "module");
    if (s.n > 1 && text[s.off] == '"') /* compile("adam") */
        return pg__str_printf(&c->optimizer, err, "{\"class_name\": %.*s, \"config\": {}}",
                              (int)s.n, text + s.off);
    if (!class_name.n || !config.n)
        goto done;
    PG_TRY(pg__json_unquote(&name, text, class_name, err));
    const int custom = strncmp(name.s, "Custom>", 7) == 0;
    if (strncmp(name.s, "LossScaleOptimizer", 18) == 0) /* the inner optimizer decides the kind */
        module = pg__json_member(text, pg__json_member(text, config, "inner_optimizer"), "module");
    const int scaled = strcmp(name.s, "LossScaleOptimizerV3") == 0; /* around a newer optimizer */
    c->legacy = keras3 || custom || scaled ? 0
                : zip ? pg__json_is_text(text, module, "keras.optimizers.legacy")
                      : 1;
    PG_TRY(pg__str_puts(&c->optimizer, "{\"class_name\": ", err));
    PG_TRY(
        pg__json_quote(&c->optimizer, name.s + (custom ? 7 : 0), name.n - (custom ? 7 : 0), err));
    PG_TRY(pg__str_puts(&c->optimizer, ", \"config\": ", err));
    PG_TRY(pg__str_add(&c->optimizer, text + config.off, config.n, err));
    PG_TRY(pg__str_puts(&c->optimizer, "}", err));
done:
    pg__str_fini(&name);
    return st;
}

pg_status pg__compiled_of(pg__compiled *out, const pg_trainer *t, const pg_store *file, pg_err *err)
{
    size_t n = 0;
    const char *text = pg_store_text(file, PG_TEXT_TRAINING_CONFIG, &n);
    const char *writer = pg_store_writer(file);
    const int keras3 = writer && strncmp(writer, "keras 3", 7) == 0, zip = !text;
    pg__json_span all = {0, n};
    pg__json *j = NULL;
    pg_status st = PG_OK;
    out->legacy = -1;
    if (zip && (text = pg_store_text(file, PG_TEXT_MODEL_CONFIG, &n)))
        all = pg__json_member(text, (pg__json_span){0, n}, "compile_config");
    if (!text || pg__json_is_null(text, all))
        return PG_OK;
    PG_TRY(pg__json_parse(&j, text + all.off, all.n, err));
    PG_TRY(read_optimizer(out, text,
                          pg__json_member(text, all, zip ? "optimizer" : "optimizer_config"), zip,
                          keras3, err));
    PG_TRY(read_words(&out->loss, t, pg__json_get(j, "loss"), "loss", 1, err));
    PG_TRY(read_words(&out->metrics, t, pg__json_get(j, "metrics"), "metric", 0, err));
    PG_TRY(read_words(&out->weighted_metrics, t, pg__json_get(j, "weighted_metrics"), "metric", 0,
                      err));
    PG_TRY(read_loss_weights(&out->loss_weights, pg__json_get(j, "loss_weights"), err));
done:
    pg__json_free(j);
    if (st != PG_OK)
        pg__compiled_fini(out);
    return st;
}

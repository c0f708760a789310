/* logs.c - losses and metrics by name: in the order of Keras' history, prefixed with the output's
 * name if there are several. */
#include "train/model/logs.h"

#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "train/rules/rules.h"

/* ---- metrics ---- */

static int is_taken(const pg_trainer *t, const char *name)
{
    for (size_t i = 0; i < t->compiled.n_metrics; i++)
        if (strcmp(t->compiled.metrics[i].name, name) == 0)
            return 1;
    return 0;
}

/* "out_accuracy". A weighted metric gets the prefix "weighted_" if its name is taken; up to
 * Keras 2.2, always. number: of objects without a name of their own. */
static pg_status name_metric(const pg_trainer *t, pg__metric *m, int prefixed, size_t number,
                             pg_err *err)
{
    pg__str text = {0};
    pg_status st = PG_OK;
    if (t->net.n_outputs > 1)
        PG_TRY(pg__str_printf(&text, err, "%s_", t->net.output_names[m->output]));
    if (prefixed)
        PG_TRY(pg__str_puts(&text, "weighted_", err));
    PG_TRY(pg__str_puts(
        &text, t->net.rules->acc_short && pg__metric_is_accuracy(m) ? "acc" : m->given, err));
    if (number > 0)
        PG_TRY(pg__str_printf(&text, err, "_%zu", number));
    pg__mem_free(m->name);
    m->name = text.s;
    text.s = NULL;
done:
    pg__str_fini(&text);
    return st;
}

static pg_status name_apart(const pg_trainer *t, pg__metric *m, pg_err *err)
{
    size_t number = 0;
    pg_status st = PG_OK;
    PG_TRY(name_metric(t, m, m->weighted && t->net.rules->acc_short, 0, err));
    while (pg__metric_is_numbered(m) && is_taken(t, m->name))
        PG_TRY(name_metric(t, m, 0, ++number, err));
    if (m->weighted && is_taken(t, m->name))
        PG_TRY(name_metric(t, m, 1, 0, err));
done:
    return st;
}

/* Resolves a metric by the values that it compares. */
static pg_status add_metric(pg_trainer *t, const pg__program *p, size_t k, const char *name,
                            size_t len, int weighted, pg_err *err)
{
    const pg__lowered *model = pg__program_model(p);
    const pg__value *target = pg__program_target(p, k);
    const pg__val v = model->outputs[k];
    pg__metric m = {0};
    pg_status st = PG_OK;
    PG_TRY(pg__metric_of(&m, name, len, t->net.rules, err));
    m.output = k;
    m.weighted = weighted;
    if (v < model->cap_origins && model->origins[v].squash != PG_NOT_SQUASHED &&
        t->net.rules->logit_shortcut) /* Keras compares probabilities */
        m.loss.logits = 0;
    PG_TRY(pg__metric_bind(&m, &model->tape.values[v].shape, target->elem == PG_ELEM_INT,
                           t->net.rules, err));
    m.on_logits = (pg__metric_losses(&m) & pg__program_on_logits(p, k)) != 0;
    m.loss.logits |= m.on_logits;
    PG_TRY(name_apart(t, &m, err));
    m.at = t->compiled.n_metric_state;
    t->compiled.n_metric_state += m.n_state;
    t->compiled.metrics[t->compiled.n_metrics++] = m;
    m = (pg__metric){0};
done:
    pg__metric_fini(&m);
    return st;
}

/* The '=' after an output's name, or NULL: "huber:delta=0.5" names no output. */
static const char *output_end(const char *s, size_t len)
{
    const char *colon = memchr(s, ':', len);
    return memchr(s, '=', colon ? (size_t)(colon - s) : len);
}

const char *pg__metric_text(const pg_trainer *t, const char *s, size_t len, size_t k, size_t *n)
{
    const char *of = t->net.output_names[k], *equals = output_end(s, len);
    const char *name = equals ? equals + 1 : s;
    *n = len - (size_t)(name - s);
    if (equals && t->net.n_outputs > 1 &&
        (strlen(of) != (size_t)(equals - s) || strncmp(of, s, (size_t)(equals - s)) != 0))
        return NULL;
    return name;
}

int pg__metrics_name_outputs(const char *text)
{
    for (const char *s = text; *s != '\0';) {
        const size_t len = strcspn(s, ",");
        if (output_end(s, len))
            return 1;
        s += len + (s[len] == ',');
    }
    return 0;
}

/* "OUT=accuracy", or "accuracy" for every output. */
static pg_status add_metrics(pg_trainer *t, const pg__program *p, size_t k, const char *text,
                             int weighted, pg_err *err)
{
    pg_status st = PG_OK;
    for (const char *s = text; s && *s != '\0';) {
        const size_t len = strcspn(s, ",");
        size_t n;
        const char *name = pg__metric_text(t, s, len, k, &n);
        if (name)
            PG_TRY(add_metric(t, p, k, name, n, weighted, err));
        s += len + (s[len] == ',');
    }
done:
    return st;
}

static size_t count_names(const char *text)
{
    size_t n = text != NULL;
    for (; text && *text; text++)
        n += *text == ',';
    return n;
}

/* "TYPO=accuracy" would otherwise be ignored. */
static pg_status check_output(const pg_trainer *t, const char *name, size_t n, pg_err *err)
{
    for (size_t k = 0; k < t->net.n_outputs; k++)
        if (strlen(t->net.output_names[k]) == n && strncmp(t->net.output_names[k], name, n) == 0)
            return PG_OK;
    return pg_fail(err, PG_E_ARG, "metrics: the model has no output \"%.*s\"", (int)n, name);
}

pg_status pg__metrics_declare(pg_trainer *t, const char *text, pg_err *err)
{
    pg_status st = PG_OK;
    for (const char *s = text; s && *s != '\0';) {
        const size_t len = strcspn(s, ",");
        const char *equals = output_end(s, len), *name = equals ? equals + 1 : s;
        pg__metric any = {0}; /* only the data decide which accuracy it is */
        if (equals)
            PG_TRY(check_output(t, s, (size_t)(equals - s), err));
        PG_TRY(pg__metric_of(&any, name, len - (size_t)(name - s), t->net.rules, err));
        for (size_t k = 0, n; k < t->net.n_outputs; k++)
            if (pg__metric_text(t, s, len, k, &n))
                t->compiled.objectives[k].metric_losses |= pg__metric_losses(&any);
        pg__metric_fini(&any);
        s += len + (s[len] == ',');
    }
done:
    return st;
}

/* Per output, unweighted ones first, as in Keras. */
pg_status pg__metrics_resolve(pg_trainer *t, const pg__program *p, pg_err *err)
{
    const size_t n =
        count_names(t->compiled.metric_text) + count_names(t->compiled.weighted_metric_text);
    pg_status st = PG_OK;
    if (t->compiled.metrics)
        return PG_OK;
    t->compiled.metrics = pg__mem_array(n * t->net.n_outputs, sizeof *t->compiled.metrics);
    if (!t->compiled.metrics)
        return pg__nomem(err);
    for (size_t k = 0; k < t->net.n_outputs; k++) {
        if (!t->compiled.objectives[k].has_loss)
            continue;
        PG_TRY(add_metrics(t, p, k, t->compiled.metric_text, 0, err));
        PG_TRY(add_metrics(t, p, k, t->compiled.weighted_metric_text, 1, err));
    }
done:
    if (st != PG_OK) { /* all or nothing: the next run resolves them again */
        for (size_t i = 0; i < t->compiled.n_metrics; i++)
            pg__metric_fini(&t->compiled.metrics[i]);
        pg__mem_free(t->compiled.metrics);
        t->compiled.metrics = NULL;
        t->compiled.n_metrics = t->compiled.n_metric_state = 0;
    }
    return st;
}

/* ---- logs ---- */

const char *pg__rate_name(const pg_trainer *t)
{
    return t->net.rules->sorted_logs ? "learning_rate" : "lr";
}

/* One name, or "f1_score[0]", "f1_score[1]", ... if Keras logs an array. */
static pg_status add_names(pg__strs *out, const pg__metric *m, const char *prefix, pg_err *err)
{
    pg_status st = PG_OK;
    if (m->n_results == 1)
        return pg__strs_printf(out, err, "%s%s", prefix, m->name);
    for (size_t i = 0; i < m->n_results; i++)
        PG_TRY(pg__strs_printf(out, err, "%s%s[%zu]", prefix, m->name, i));
done:
    return st;
}

/* "loss", one more for each of several outputs, then the metrics. */
pg_status pg__logs_open(pg__logs *out, const pg_trainer *t, int has_val, pg_err *err)
{
    pg_status st = PG_OK;
    for (int val = 0; val <= has_val; val++) {
        const char *prefix = val ? "val_" : "";
        PG_TRY(pg__strs_printf(&out->names, err, "%sloss", prefix));
        for (size_t k = 0; t->net.n_outputs > 1 && k < t->net.n_outputs; k++)
            if (t->compiled.objectives[k].has_loss)
                PG_TRY(
                    pg__strs_printf(&out->names, err, "%s%s_loss", prefix, t->net.output_names[k]));
        for (size_t i = 0; i < t->compiled.n_metrics; i++)
            PG_TRY(add_names(&out->names, &t->compiled.metrics[i], prefix, err));
    }
    out->n = out->names.n / (has_val ? 2 : 1);
    PG_TRY(pg__strs_printf(&out->names, err, "%s", pg__rate_name(t)));
    out->values = pg__mem_array(2 * out->n, sizeof *out->values);
    out->shown = pg__mem_array(out->names.n, sizeof *out->shown);
    out->epoch_names = pg__mem_array(out->names.n, sizeof *out->epoch_names);
    out->epoch_values = pg__mem_array(out->names.n, sizeof *out->epoch_values);
    if (!out->values || !out->shown || !out->epoch_names || !out->epoch_values)
        PG_TRY(pg__nomem(err));
    for (size_t i = 0; i < out->names.n; i++)
        out->shown[i] = out->names.v[i];
done:
    return st;
}

void pg__logs_close(pg__logs *l)
{
    pg__strs_fini(&l->names);
    pg__mem_free(l->shown);
    pg__mem_free(l->values);
    pg__mem_free(l->epoch_names);
    pg__mem_free(l->epoch_values);
}

pg_logs pg__logs_epoch(pg__logs *l, int with_val, double rate)
{
    const size_t n = with_val ? 2 * l->n : l->n;
    for (size_t i = 0; i < n; i++) {
        l->epoch_names[i] = l->shown[i];
        l->epoch_values[i] = l->values[i];
    }
    l->epoch_names[n] = l->shown[l->names.n - 1];
    l->epoch_values[n] = rate;
    return (pg_logs){l->epoch_names, l->epoch_values, n + 1};
}

void pg__logs_fill(const pg_trainer *t, double *values, const pg__totals *totals)
{
    size_t n = 0;
    values[n++] = pg__total_loss(t, totals);
    for (size_t k = 0; t->net.n_outputs > 1 && k < t->net.n_outputs; k++)
        if (t->compiled.objectives[k].has_loss)
            values[n++] = pg__output_loss(&t->net, totals, k);
    for (size_t i = 0; i < t->compiled.n_metrics; n += t->compiled.metrics[i++].n_results)
        pg__metric_result(&t->compiled.metrics[i], totals->metrics + t->compiled.metrics[i].at,
                          values + n);
}

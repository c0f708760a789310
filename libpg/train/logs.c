/* logs.c - losses and metrics by name: in the order of Keras' history, with the output's name in
 * front where there are several. */
#include "train/logs.h"

#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "train/names.h"

/* ---- metrics ---- */

/* Metrics are resolved by what they compare. "OUT=accuracy" or "accuracy" for every output. */
static pg_status add_metric(pg_trainer *t, const pg__program *p, size_t k, const char *name,
                            size_t len, size_t at, pg_err *err)
{
    const pg__lowered *m = pg__program_model(p);
    const pg__dims *shape = &m->tape.values[m->outputs[k]].shape;
    const pg__value *target = pg__program_target(p, k);
    pg__metric *metric = &t->metrics[at];
    pg__str text = {0};
    pg_status st = PG_OK;
    metric->output = k;
    PG_TRY(pg__metric_of(metric, name, len, target->elem == PG__INT,
                         (size_t)shape->d[shape->rank - 1], t->rules, err));
    if (t->n_outputs > 1)
        PG_TRY(pg__str_printf(&text, err, "%s_", t->output_names[k]));
    if (t->rules->acc_short && pg__same_name(name, len, "accuracy"))
        PG_TRY(pg__str_puts(&text, "acc", err));
    else
        PG_TRY(pg__str_add(&text, name, len, err));
    metric->name = text.s;
    text.s = NULL;
    t->n_metrics = at + 1;
done:
    pg__str_fini(&text);
    return st;
}

pg_status pg__metrics_resolve(pg_trainer *t, const pg__program *p, pg_err *err)
{
    size_t n = 1, at = 0;
    pg_status st = PG_OK;
    if (!t->metric_text || t->metrics)
        return PG_OK;
    for (const char *c = t->metric_text; *c; c++)
        n += *c == ',';
    t->metrics = pg__mem_array(n * t->n_outputs, sizeof *t->metrics);
    if (!t->metrics)
        return pg__nomem(err);
    for (size_t k = 0; k < t->n_outputs; k++)
        for (const char *s = t->metric_text; *s != '\0';) {
            const size_t len = strcspn(s, ",");
            const char *equals = memchr(s, '=', len);
            const char *name = equals ? equals + 1 : s;
            const char *of = t->output_names[k];
            const int mine = !equals || (strlen(of) == (size_t)(equals - s) &&
                                         strncmp(of, s, (size_t)(equals - s)) == 0);
            if (mine && t->objectives[k].has_loss)
                PG_TRY(add_metric(t, p, k, name, len - (size_t)(name - s), at++, err));
            s += len + (s[len] == ',');
        }
done:
    return st;
}

/* ---- logs ---- */

/* "loss", with several outputs one for each, then the metrics. */
pg_status pg__logs_open(pg__logs *out, const pg_trainer *t, int has_val, pg_err *err)
{
    pg_status st = PG_OK;
    for (int val = 0; val <= has_val; val++) {
        const char *prefix = val ? "val_" : "";
        PG_TRY(pg__strs_printf(&out->names, err, "%sloss", prefix));
        for (size_t k = 0; t->n_outputs > 1 && k < t->n_outputs; k++)
            if (t->objectives[k].has_loss)
                PG_TRY(pg__strs_printf(&out->names, err, "%s%s_loss", prefix, t->output_names[k]));
        for (size_t i = 0; i < t->n_metrics; i++)
            PG_TRY(pg__strs_printf(&out->names, err, "%s%s", prefix, t->metrics[i].name));
    }
    out->n = out->names.n / (has_val ? 2 : 1);
    out->values = pg__mem_array(2 * out->n, sizeof *out->values);
    out->shown = pg__mem_array(out->names.n, sizeof *out->shown);
    if (!out->values || !out->shown)
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
}

void pg__logs_fill(const pg_trainer *t, double *values, const pg__totals *totals)
{
    size_t n = 0;
    values[n++] = pg__total_loss(t, totals);
    for (size_t k = 0; t->n_outputs > 1 && k < t->n_outputs; k++)
        if (t->objectives[k].has_loss)
            values[n++] = totals->loss_sums[k] / totals->loss_counts[k];
    for (size_t i = 0; i < t->n_metrics; i++)
        values[n++] = totals->metrics[i].sum / totals->metrics[i].count;
}

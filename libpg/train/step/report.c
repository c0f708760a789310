/* report.c - see report.h. */
#include "train/step/report.h"

#include <string.h>
#include <time.h>

#include "train/step/profiled.h"
#include "train/step/ranks.h"

void pg__lap(double *clock, double *into)
{
    const double t = pg__now();
    *into += t - *clock;
    *clock = t;
}

void pg__spent_step(pg_trainer *t, double began, uint64_t n_rows)
{
    t->report.spent.step += pg__now() - began;
    if (t->report.spent.n_steps++ == 0) {
        t->report.spent = (pg__spent){.n_steps = 1, .waited = pg__ranks_waited(t->ranks)};
        pg__profile_clear(t);
    } else {
        t->report.spent.n_rows += n_rows;
    }
}

static pg_shape shape_of(const pg__lowered *low, pg__val v)
{
    const pg__dims *d = &low->tape.values[v].shape;
    pg_shape s = {.rank = d->rank > 0 ? d->rank - 1 : 0};
    memcpy(s.dims, d->d + 1, s.rank * sizeof *s.dims);
    return s;
}

pg_run pg__run_of(const pg_trainer *t)
{
    const pg__lowered *low = &t->net.built_params;
    const pg__model *m = t->net.graph->root;
    pg_run r = {.n_devices = t->pool.cut.n_replicas,
                .n_cores = t->pool.n_threads,
                .devices = t->devs.device_names,
                .rank = pg__rank_of(t->ranks),
                .n_ranks = t->ranks ? pg__comm_size(t->ranks->comm) : 1,
                .mpi = t->ranks ? pg__comm_name(t->ranks->comm) : NULL,
                .kind = t->devs.backend->host_memory ? NULL : t->devs.backend->kind(t->devs.dev),
                .input = shape_of(low, low->inputs[0]),
                .output = shape_of(low, low->outputs[0]),
                .n_inputs = t->net.n_inputs,
                .n_outputs = t->net.n_outputs,
                .optimizer = t->compiled.optimizer.name,
                .learning_rate = pg__optimizer_rate(&t->compiled.optimizer)};
    for (size_t i = 0; i < m->n_layers; i++)
        r.n_layers += (size_t)(strcmp(m->layers[i].class_name, "InputLayer") != 0);
    for (size_t i = 0; i < t->vars.n_params; i++) {
        r.n_params += t->vars.weights[i].n_bytes / t->devs.backend->real_bytes;
        r.n_param_bytes += t->vars.weights[i].n_bytes;
    }
    return r;
}

int pg_trainer_gpu(pg_trainer *t, size_t k, pg_gpu *out)
{
    pg__gauge g = {0};
    if (k >= t->devs.n_devices || !t->devs.backend->gauge ||
        !t->devs.backend->gauge(t->devs.devices[k].dev, &g))
        return 0;
    *out = (pg_gpu){t->devs.backend->kind(t->devs.devices[k].dev), t->devs.devices[k].ordinal,
                    g.used, g.total, g.busy};
    return 1;
}

pg_fit_report pg__report_of(const pg__trainer_report *report, double began)
{
    const pg__spent *s = &report->spent;
    const double busy = s->step + s->input;
    pg_fit_report r = {.seconds = pg__now() - began};
    if (s->n_rows > 0 && busy > 0) {
        r.rows_per_second = (double)s->n_rows / busy;
        r.reduce = (s->reduce + s->exchange) / busy;
        r.input = s->input / busy;
    }
    return r;
}

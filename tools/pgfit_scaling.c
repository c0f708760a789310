/* pgfit_scaling.c - --plan: predicts a step on devices that are not here. */
#include <stdlib.h>
#include <string.h>

#include "json_out.h"
#include "pgfit.h"
#include "table.h"

/* ---- options ---- */

static char *devices; /* without the model; lives as long as the program */

/* model=FILE may stand among the devices; the library gets them without it. */
pg_status fit_take_plan(pg_err *err)
{
    static char *model;
    const char *at = fit_args.plan;
    if (!at)
        return PG_OK;
    devices = calloc(strlen(at) + 1, 1);
    if (!devices)
        return pg_fail(err, PG_E_NOMEM, "out of memory");
    for (char *to = devices; *at;) {
        const size_t len = strcspn(at, ",");
        if (strncmp(at, "model=", strlen("model=")) == 0) {
            if (model || fit_args.train.model)
                return pg_fail(err, PG_E_ARG, "--plan: two models are given");
            model = strndup(at + strlen("model="), len - strlen("model="));
            if (!model)
                return pg_fail(err, PG_E_NOMEM, "out of memory");
            fit_args.train.model = model;
        } else {
            if (to > devices)
                *to++ = ',';
            memcpy(to, at, len);
            to += len;
        }
        at += len + (at[len] == ',');
    }
    return PG_OK;
}

pg_status fit_check_plan(pg_err *err)
{
    const pg_status st = pg_plan_read(&fit_args.plan_for, devices, err);
    if (st != PG_OK)
        pg_err_prefix(err, "--plan");
    else if (fit_args.evaluate || fit_args.predict || fit_args.output || fit_args.fit.resume)
        return pg_fail(err, PG_E_ARG,
                       "--plan does not train: there is nothing to write, "
                       "evaluate or resume");
    else if (fit_args.train.compress)
        return pg_fail(err, PG_E_ARG,
                       "--plan knows only gradients that are sent as they are: leave "
                       "--compress out");
    return st;
}

pg_status fit_measure_links(pg_err *err)
{
    const pg_status st = pg_plan_measure(&fit_args.plan_for, &fit_args.train, err);
    fit_args.train.joins_job = 0;
    if (st == PG_E_ARG)
        pg_err_prefix(err, "--plan");
    return st;
}

/* ---- output ---- */

static void add_ms(table *t, double seconds)
{
    char s[40];
    const double ms = seconds * 1e3;
    snprintf(s, sizeof s, "%.*f", ms >= 100 ? 0 : ms >= 10 ? 1 : ms >= 1 ? 2 : 3, ms);
    table_add(t, s);
}

static void add_rate(table *t, double v)
{
    char s[40];
    snprintf(s, sizeof s, "%.1f", v);
    table_add(t, v < 100 ? s : cli_count((uint64_t)(v + 0.5)).s);
}

static void print_table(const pg_plan *p)
{
    static const char *const heading[] = {
        "devices",  "rows each", "ms/step",    "= compute",   "+ exchange",
        "+ update", "samples/s", "efficiency", "memory each", "with --shard-optimizer",
        "ms/step"};
    enum { N = sizeof heading / sizeof *heading };
    const int has_shards = p->rows[0].step_sharded > 0;
    const size_t n = has_shards ? N : N - 1;
    table t = {.n_cols = n, .right = (1u << n) - 1};
    char s[40];
    for (size_t i = 0; i < n; i++)
        table_add(&t, heading[i]);
    for (size_t i = 0; i < p->n_rows; i++) {
        const pg_plan_row *r = &p->rows[i];
        table_add(&t, cli_count(r->n_devices).s);
        table_add(&t, cli_count(r->rows).s);
        add_ms(&t, r->step);
        add_ms(&t, r->compute + r->rest);
        add_ms(&t, r->shown);
        add_ms(&t, r->update);
        add_rate(&t, r->samples_per_second);
        snprintf(s, sizeof s, "%.0f %%", r->efficiency * 100);
        table_add(&t, s);
        table_add(&t, cli_size(r->memory).s);
        table_add(&t, cli_size(r->memory_sharded).s);
        if (has_shards)
            add_ms(&t, r->step_sharded);
    }
    (void)table_print(&t, "  ", 0);
    table_free(&t);
}

static void print_rate(const char *what, double bytes, double latency, int is_measured)
{
    cli_printf(stdout, "%s %.4g Gbit/s, %.4g us%s", what, bytes * 8e-9, latency * 1e6,
               is_measured ? " (measured)" : "");
}

static void print_devices(const pg_plan *p)
{
    const pg_plan_opts *u = &p->used;
    uint64_t n_bytes = 0;
    for (size_t i = 0; i < p->n_buckets; i++)
        n_bytes += p->buckets[i];
    printf("plan: %s", cli_plural(u->hosts, "host").s);
    printf(" of %s", cli_plural(u->per_host, u->gpus ? "GPU" : "CPU device").s);
    if (p->threads > 0)
        printf(" (%s each)", cli_plural(p->threads, "core").s);
    if (u->speedup != 1)
        printf(", each %.3g times as fast as here", u->speedup);
    printf("; batch %s%s\n", cli_count(p->batch_size).s, u->weak ? " for each" : " of all");
    if (u->hosts > 1)
        print_rate("between hosts", u->bandwidth, u->latency, u->link_measured);
    if (u->per_host > 1)
        print_rate(u->hosts > 1 ? "; within" : "within a host", u->inner_bandwidth,
                   u->inner_latency, u->inner_measured);
    if (u->hosts * u->per_host > 1)
        printf("; gradients %s in %s\n", cli_size(n_bytes).s, cli_plural(p->n_buckets, "bucket").s);
}

static void print_plan(const pg_plan *p)
{
    print_devices(p);
    print_table(p);
    if (p->pays_up_to > 0)
        printf("more than %s %s not pay: twice as many give less than 1.2 times the samples/s\n",
               cli_plural(p->pays_up_to, "device").s, p->pays_up_to > 1 ? "do" : "does");
    else if (p->n_rows > 1)
        puts("all of them pay: each doubling gives at least 1.2 times the samples/s");
    for (size_t i = 0; i < p->n_notes; i++)
        printf("note: %s\n", p->notes[i]);
    cli_printf(stdout, "predictions: %s\n", p->checked);
}

static void print_json_row(const pg_plan_row *r)
{
    printf("{\"devices\": %zu", r->n_devices);
    json_count("hosts", 1, r->n_hosts);
    json_count("rows", 1, r->rows);
    json_number("step", r->step);
    json_number("samples_per_second", r->samples_per_second);
    json_number("efficiency", r->efficiency);
    json_number("compute", r->compute);
    json_number("exchange", r->exchange);
    json_number("exchange_shown", r->shown);
    json_number("update", r->update);
    json_number("rest", r->rest);
    json_number("step_sharded", r->step_sharded);
    json_count("memory", 1, r->memory);
    json_count("memory_sharded", 1, r->memory_sharded);
    printf(", \"measured\": %s}", r->measured ? "true" : "false");
}

static void print_json(const pg_plan *p)
{
    const pg_plan_opts *u = &p->used;
    printf("{\"event\": \"scaling\", \"kind\": \"%s\"", u->gpus ? "gpu" : "cpu");
    json_count("hosts", 1, u->hosts);
    json_count("per_host", 1, u->per_host);
    json_count("cores", u->cores > 0, u->cores);
    json_count("threads", p->threads > 0, p->threads);
    json_count("batch_size", 1, p->batch_size);
    json_member("scale", u->weak ? "weak" : "strong");
    json_number("speedup", u->speedup);
    json_number("link", u->hosts > 1 ? u->bandwidth : 0);
    json_number("latency", u->latency);
    json_number("inner", u->inner_bandwidth);
    json_number("inner_latency", u->inner_latency);
    printf(", \"link_measured\": %s", u->link_measured ? "true" : "false");
    printf(", \"inner_measured\": %s", u->inner_measured ? "true" : "false");
    fputs(", \"buckets\": [", stdout);
    for (size_t i = 0; i < p->n_buckets; i++)
        printf("%s%llu", i ? ", " : "", (unsigned long long)p->buckets[i]);
    fputs("], \"rows\": [", stdout);
    for (size_t i = 0; i < p->n_rows; i++) {
        fputs(i ? ", " : "", stdout);
        print_json_row(&p->rows[i]);
    }
    fputs("]", stdout);
    json_count("pays_up_to", p->pays_up_to > 0, p->pays_up_to);
    fputs(", \"notes\": [", stdout);
    for (size_t i = 0; i < p->n_notes; i++) {
        fputs(i ? ", " : "", stdout);
        json_quoted(p->notes[i]);
    }
    fputs("]", stdout);
    json_member("checked", p->checked);
    puts("}");
}

pg_status fit_print_scaling(pg_trainer *t, pg_data *data, pg_err *err)
{
    pg_plan p;
    const pg_status st = pg_fit_plan(&p, t, data, &fit_args.fit, &fit_args.plan_for, err);
    if (st == PG_E_ARG)
        pg_err_prefix(err, "--plan");
    if (st == PG_OK && cli.json)
        print_json(&p);
    else if (st == PG_OK && !cli.quiet)
        print_plan(&p);
    return st;
}

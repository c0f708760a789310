/* pgfit_profile.c - --profile: the operations that took the time, and in which layers; or a trace.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "json_out.h"
#include "pgfit.h"
#include "table.h"

/* ---- what is asked for ---- */

static char trace_file[PATH_MAX];

static int is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* "A..B" */
static int read_steps(const char *text)
{
    char *end = NULL;
    if (!is_digit(*text))
        return 0;
    fit_args.fit.trace_first = strtoul(text, &end, 10);
    if (strncmp(end, "..", 2) != 0 || !is_digit(end[2]))
        return 0;
    fit_args.fit.trace_last = strtoul(end + 2, &end, 10);
    return *end == '\0' && fit_args.fit.trace_first > 0 && fit_args.fit.trace_last > 0;
}

/* The folder of the trained model, or else the current one. */
static const char *usual_trace(void)
{
    const char *output = fit_args.output ? fit_args.output : "", *slash = strrchr(output, '/');
    const int n = slash ? (int)(slash + 1 - output) : 0;
    snprintf(trace_file, sizeof trace_file, "%.*strace.json", n, output);
    return trace_file;
}

/* What follows "trace": ":FILE", ",steps=A..B", or both. */
static int read_trace(const char *rest)
{
    static const char key[] = ",steps=";
    const char *steps = NULL;
    for (const char *s = rest; (s = strstr(s, key)); s++)
        steps = s;
    const size_t n = steps ? (size_t)(steps - rest) : strlen(rest);
    if (n == 1 || n >= sizeof trace_file || (n > 0 && *rest != ':'))
        return 0;
    if (n > 0)
        snprintf(trace_file, sizeof trace_file, "%.*s", (int)n - 1, rest + 1);
    fit_args.fit.trace = n > 0 ? trace_file : usual_trace();
    return !steps || read_steps(steps + strlen(key));
}

int fit_read_profile(int is_given, pg_err *err)
{
    const char *how = fit_args.profile;
    const int traces = how && strncmp(how, "trace", 5) == 0;
    fit_args.fit.profile = is_given && !traces;
    if (how && strcmp(how, "layers") != 0 && (!traces || !read_trace(how + 5))) {
        (void)pg_fail(err, PG_E_ARG, "--profile=%s: not layers or trace[:FILE][,steps=A..B]",
                      cli_name(how).s);
        pg_err_hint(err, "--profile=trace:trace.json,steps=3..7");
        return 0;
    }
    if (traces && (fit_args.evaluate || !fit_args.data)) {
        (void)pg_fail(err, PG_E_ARG, "--profile=trace: only training steps are traced");
        pg_err_hint(err, "--profile=layers");
        return 0;
    }
    return 1;
}

/* ---- tables ---- */

/* Sums each kind of operation over all layers into one row; `sums` has room for all. */
static size_t sum_layers(const pg_op_profile *rows, size_t n_rows, pg_op_profile *sums)
{
    size_t n = 0, at;
    for (size_t i = 0; i < n_rows; i++) {
        for (at = 0; at < n && strcmp(sums[at].op, rows[i].op) != 0; at++)
            ;
        if (at == n)
            sums[n++] = (pg_op_profile){.op = rows[i].op};
        sums[at].calls += rows[i].calls;
        sums[at].seconds += rows[i].seconds;
        sums[at].flops += rows[i].flops;
        sums[at].bytes += rows[i].bytes;
    }
    return n;
}

static int slower_first(const void *a, const void *b)
{
    const pg_op_profile *x = a, *y = b;
    return x->seconds < y->seconds ? 1 : x->seconds > y->seconds ? -1 : 0;
}

static void add_number(table *t, double v)
{
    char s[40] = "";
    if (v > 0)
        snprintf(s, sizeof s, "%.1f", v);
    table_add(t, s);
}

static void print_table(const pg_op_profile *rows, size_t n, int by_layer)
{
    static const char *const heading[] = {"layer", "operation", "calls", "ms",
                                          "%",     "GFLOP/s",   "GB/s"};
    table t = {.n_cols = by_layer ? 7 : 6, .right = by_layer ? 0x7cu : 0x3eu};
    double all = 0;
    for (size_t i = 0; i < n; i++)
        all += rows[i].seconds;
    for (size_t i = !by_layer; i < sizeof heading / sizeof *heading; i++)
        table_add(&t, heading[i]);
    for (size_t i = 0; i < n; i++) {
        const pg_op_profile *r = &rows[i];
        const double s = r->seconds > 0 ? r->seconds : 1;
        if (by_layer)
            table_add(&t, r->layer ? r->layer : "");
        table_add(&t, r->op);
        table_add(&t, cli_count(r->calls).s);
        add_number(&t, r->seconds * 1e3);
        add_number(&t, all > 0 ? r->seconds / all * 100 : 0);
        add_number(&t, r->flops / s * 1e-9);
        add_number(&t, r->bytes / s * 1e-9);
    }
    puts(fit_args.data && !fit_args.evaluate ? "time of all threads, the first step left out:"
                                             : "time of all threads, the first of several batches "
                                               "left out (one alone runs twice):");
    (void)table_print(&t, "  ", 0);
    table_free(&t);
}

static void print_json(const pg_op_profile *r)
{
    fputs("{\"event\": \"profile\"", stdout);
    if (r->layer)
        json_member("layer", r->layer);
    json_member("op", r->op);
    json_count("calls", 1, r->calls);
    json_number("seconds", r->seconds);
    json_number("flops", r->flops);
    json_number("bytes", r->bytes);
    puts("}");
}

pg_status fit_print_profile(pg_trainer *t, pg_err *err)
{
    const int by_layer = fit_args.profile && strcmp(fit_args.profile, "layers") == 0;
    const pg_op_profile *rows = NULL;
    size_t n = 0;
    const pg_status st = pg_trainer_profile(t, &rows, &n, err);
    if (st != PG_OK)
        return st;
    pg_op_profile *sums = calloc(n + 1, sizeof *sums);
    if (!sums)
        return pg_fail(err, PG_E_NOMEM, "out of memory");
    if (!by_layer) {
        n = sum_layers(rows, n, sums);
        qsort(sums, n, sizeof *sums, slower_first);
        rows = sums;
    }
    if (n == 0)
        fit_show_note(
            "the only step allocated memory and built programs, so it is not counted: profile "
            "several steps");
    for (size_t i = 0; cli.json && i < n; i++)
        print_json(&rows[i]);
    if (!cli.json && !cli.quiet && n > 0)
        print_table(rows, n, by_layer);
    free(sums);
    return PG_OK;
}

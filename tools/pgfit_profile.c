/* pgfit_profile.c - --profile: the operations that took the time, and in which layers. */
#include <stdlib.h>
#include <string.h>

#include "json_out.h"
#include "pgfit.h"
#include "table.h"

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

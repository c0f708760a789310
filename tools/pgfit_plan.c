/* pgfit_plan.c - --dry-run: estimates the memory that a run will need, and the largest batch that
 * fits. */
#include "json_out.h"
#include "pgfit.h"
#include "table.h"

static void add_row(table *t, const char *what, uint64_t n_bytes)
{
    table_add(t, what);
    table_add(t, cli_size(n_bytes).s);
}

static void print_plan(const pg_forecast *f)
{
    table t = {.n_cols = 2, .right = 1u << 1};
    char activations[64];
    snprintf(activations, sizeof activations, "activations, batch %zu", f->batch_size);
    add_row(&t, "program, model, data", f->process + f->data);
    add_row(&t, "weights + gradients", f->weights + f->gradients);
    add_row(&t, "optimizer state", f->optimizer);
    add_row(&t, activations, f->activations);
    add_row(&t, "workspace", f->workspace);
    add_row(&t, "total", f->total);
    printf("memory, %s:\n", cli_plural(f->n_devices, "device").s);
    (void)table_print(&t, "  ", 0);
    table_free(&t);
    for (size_t k = 0; k < f->n_parts; k++)
        printf("  %s: %s of %s\n", f->parts[k].device, cli_size(f->parts[k].total).s,
               cli_size(f->parts[k].room).s);
    if (f->largest_batch >= f->batch_size)
        printf("fits; largest batch %s\n", cli_count(f->largest_batch).s);
    else if (f->largest_batch > 0)
        printf("does not fit; largest batch %s\n", cli_count(f->largest_batch).s);
    else
        puts("does not fit");
    if (f->optimizer_elsewhere > 0)
        printf("optimizer state: the other processes keep %s of it\n",
               cli_size(f->optimizer_elsewhere).s);
    printf("checkpoints: %s each, %s with optimizer\n", cli_size(f->checkpoint).s,
           cli_size(f->checkpoint_full).s);
}

static void print_json(const pg_forecast *f)
{
    printf("{\"event\": \"plan\", \"devices\": %zu", f->n_devices);
    json_count("batch_size", 1, f->batch_size);
    json_count("process", 1, f->process);
    json_count("data", 1, f->data);
    json_count("weights", 1, f->weights);
    json_count("gradients", 1, f->gradients);
    json_count("optimizer", 1, f->optimizer);
    json_count("optimizer_elsewhere", 1, f->optimizer_elsewhere);
    json_count("activations", 1, f->activations);
    json_count("workspace", 1, f->workspace);
    json_count("total", 1, f->total);
    json_count("available", 1, f->available);
    json_count("largest_batch", 1, f->largest_batch);
    json_count("checkpoint", 1, f->checkpoint);
    json_count("checkpoint_full", 1, f->checkpoint_full);
    for (size_t k = 0; k < f->n_parts; k++) {
        printf("%s{\"device\": \"%s\"", k ? ", " : ", \"parts\": [", f->parts[k].device);
        json_count("total", 1, f->parts[k].total);
        json_count("activations", 1, f->parts[k].activations);
        json_count("room", 1, f->parts[k].room);
        fputs(k + 1 < f->n_parts ? "}" : "}]", stdout);
    }
    puts("}");
}

pg_status fit_plan(pg_trainer *t, pg_data *data, pg_err *err)
{
    pg_forecast f;
    const pg_status st = pg_fit_forecast(&f, t, data, &fit_args.fit, err);
    if (st == PG_OK) {
        fit_show_data_notes(data);
        fit_show_data_notes(fit_args.fit.validation);
    }
    if (st == PG_OK && cli.json)
        print_json(&f);
    else if (st == PG_OK && !cli.quiet)
        print_plan(&f);
    return st;
}

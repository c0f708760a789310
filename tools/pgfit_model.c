/* pgfit_model.c - --summary and --list-layers; a model from standard input. */
#include <string.h>

#include "pg/onnx.h"
#include "pgfit.h"
#include "table.h"

pg_status fit_take_model_text(pg_err *err)
{
    const char *model = fit_args.train.model;
    size_t n_ranks = 1;
    if (!model || strcmp(model, "-") != 0)
        return PG_OK;
    for (const cli_opt *o = fit_tool.opts; o->name; o++)
        if (o->text && *o->text && strcmp(*o->text, "-") == 0)
            return pg_fail(err, PG_E_ARG,
                           "--%s -: standard input holds the model; give a file name", o->name);
    (void)pg_job_rank(&n_ranks);
    if (fit_args.hosts || n_ranks > 1)
        return pg_fail(
            err, PG_E_ARG,
            "-: standard input reaches one process of the job; give the model as a file");
    return cli_model_text(model, &fit_args.train.model_text, err);
}

pg_status fit_print_summary(pg_err *err)
{
    char *text = NULL;
    const pg_status st = pg_model_summary(&text, &fit_args.train, err);
    if (st == PG_OK)
        cli_puts(stdout, text);
    pg_text_free(text);
    return st;
}

/* Newer keys follow the older ones. */
static pg_status print_json_classes(pg_err *err)
{
    pg_layer_support can;
    const char *name, *between = "";
    int trained;
    pg_status st = PG_OK;
    fputs("{\"event\": \"layers\", \"layers\": {", stdout);
    for (size_t i = 0; (name = pg_layer_class(i, &trained)); i++)
        printf("%s\"%s\": %s", i ? ", " : "", name, trained ? "true" : "false");
    fputs("}, \"devices\": {", stdout);
    for (size_t i = 0; st == PG_OK && (name = pg_layer_class(i, &trained)); i++) {
        st = pg_layer_support_of(&can, i, err);
        if (st == PG_OK && trained) {
            printf("%s\"%s\": {\"cpu\": %s, \"cuda\": %s, \"ref\": %s}", between, name,
                   can.cpu ? "true" : "false", can.cuda ? "true" : "false",
                   can.ref ? "true" : "false");
            between = ", ";
        }
    }
    fputs("}, \"why\": {", stdout);
    between = "";
    for (size_t i = 0; st == PG_OK && (name = pg_layer_class(i, &trained)); i++) {
        st = pg_layer_support_of(&can, i, err);
        if (st == PG_OK && !trained) {
            printf("%s\"%s\": \"%s\"", between, name, can.why);
            between = ", ";
        }
    }
    fputs("}, \"onnx\": {", stdout);
    between = "";
    for (size_t i = 0; st == PG_OK && (name = pg_layer_class(i, &trained)); i++) {
        int onnx = 0;
        if (!trained)
            continue;
        st = pg_onnx_says(&onnx, name, err);
        printf("%s\"%s\": %s", between, name, onnx ? "true" : "false");
        between = ", ";
    }
    puts("}}");
    return st;
}

static void add_row(table *t, const char *name, const pg_layer_support *can, int onnx)
{
    table_add(t, name);
    table_add(t, can->cpu ? "yes" : "-");
    table_add(t, can->cuda ? "yes" : "-");
    table_add(t, can->ref ? "yes" : "-");
    table_add(t, onnx ? "yes" : "-");
    table_add(t, can->why ? can->why : "");
}

pg_status fit_print_layers(pg_err *err)
{
    table t = {.n_cols = 6};
    size_t n[2] = {0};
    const char *name;
    int trained;
    pg_status st = PG_OK;
    if (cli.json)
        return print_json_classes(err);
    for (const char *const *head =
             (const char *const[]){"class", "cpu", "cuda", "ref", "onnx", "", NULL};
         *head; head++)
        table_add(&t, *head);
    for (size_t i = 0; st == PG_OK && (name = pg_layer_class(i, &trained)); i++) {
        pg_layer_support can;
        int onnx = 0;
        st = pg_layer_support_of(&can, i, err);
        if (st == PG_OK && trained)
            st = pg_onnx_says(&onnx, name, err);
        if (st == PG_OK)
            add_row(&t, name, &can, onnx);
        n[trained]++;
    }
    printf("%zu layer classes can be trained, %zu are known to the file tools alone:\n", n[1],
           n[0]);
    if (st == PG_OK)
        table_print(&t, "  ", 0);
    table_free(&t);
    return st;
}

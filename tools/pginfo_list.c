/* pginfo_list.c - several files: a table with one line for each. */
#include <string.h>

#include "pginfo.h"
#include "table.h"

static const char none[] = "\xE2\x80\x93";

void info_list_head(table *t)
{
    static const char *const head[] = {"file",   "format",  "layers",   "tensors",
                                       "params", "wrapped", "optimizer"};
    *t = (table){.n_cols = sizeof head / sizeof *head, .right = 0x1C};
    for (size_t i = 0; i < t->n_cols; i++)
        table_add(t, head[i]);
}

static void add_wrapped(table *t, const info *in)
{
    char text[32];
    if (in->verdict == PG_V_WRAPPER && in->found.replicas) {
        snprintf(text, sizeof text, "%zu\xC3\x97", in->found.replicas);
        table_add(t, text);
    } else if (in->verdict == PG_V_WRAPPER) {
        table_add(t, cli_name(in->found.template_name ? in->found.template_name : "yes").s);
    } else {
        table_add(t, in->found.unsettled          ? "not settled"
                     : in->verdict == PG_V_SINGLE ? none
                                                  : pg_verdict_name(in->verdict));
    }
}

void info_list_add(table *t, const info *in, const char *path)
{
    table_add(t, cli_name(path).s);
    table_add(t, in->format ? in->format : none);
    if (!in->store || in->err.code != PG_OK) { /* the error was printed */
        for (size_t i = 0; i < 3; i++)
            table_add(t, none);
        table_add(t, in->status == CLI_LACKS ? "not supported" : pg_verdict_name(in->verdict));
        table_add(t, none);
        return;
    }
    table_add(t, in->n_weighted ? cli_count(in->n_weighted).s : none);
    table_add(t, cli_count(pg_store_n_weights(in->store)).s);
    table_add(t, cli_count(in->n_params).s);
    add_wrapped(t, in);
    size_t n_beside;
    (void)pg_store_beside(in->store, &n_beside);
    table_add(t, pg_store_n_state(in->store) > n_beside ? "yes" : none);
}

/* pginfo_json.c - pginfo --json: keys and meanings are a contract with scripts (man pg). */
#include <stdlib.h>
#include <string.h>

#include "json_out.h"
#include "pginfo.h"

static void put_layers(const info *in, const info_opts *o)
{
    const char *comma = "";
    if (!in->store) {
        fputs(", \"layers\": null", stdout);
        return;
    }
    fputs(", \"layers\": [", stdout);
    for (size_t i = 0; i < pg_store_n_layers(in->store); i++) {
        if (!info_layer_wanted(in, o, i))
            continue;
        printf("%s\n  {\"name\": ", comma);
        json_quoted(pg_store_layer(in->store, i)->name);
        printf(", \"tensors\": %zu}", pg_store_layer(in->store, i)->n_weights);
        comma = ",";
    }
    putchar(']');
}

static void put_parts(const pg_store *s)
{
    fputs(", \"parts\": [", stdout);
    for (size_t i = 0; i < pg_store_n_parts(s); i++) {
        const pg_part *p = pg_store_part(s, i);
        printf("%s\n  {\"part\": ", i ? "," : "");
        json_quoted(p->path);
        json_member("kind", p->kind);
        json_count("tensors", 1, p->n_tensors);
        json_count("parameters", p->n_params > 0, p->n_params);
        printf(", \"could_be_the_model\": %s}", p->is_model ? "true" : "false");
    }
    putchar(']');
}

static void put_stats(const pg_stats *s)
{
    printf(", \"stats\": {\"crc32\": \"%08x\"", (unsigned)s->crc32);
    json_number("min", s->min);
    json_number("max", s->max);
    json_number("mean", s->mean);
    json_number("std", s->std);
    json_count("zeros", 1, s->n_zero);
    json_count("nan", 1, s->n_nan);
    json_count("inf", 1, s->n_inf);
    putchar('}');
}

static void put_pieces(const pg_pieces *cut)
{
    const char *comma = "";
    printf(", \"pieces\": %llu, \"cut_along\": [", (unsigned long long)cut->n);
    for (uint32_t k = 0; k < PG_MAX_RANK; k++)
        if (cut->axes >> k & 1) {
            printf("%s%u", comma, k);
            comma = ", ";
        }
    putchar(']');
}

static void put_tensor(const info *in, size_t i)
{
    const pg_weight *w = pg_store_weight(in->store, i);
    const pg_layer *l = pg_store_layer(in->store, w->layer);
    fputs("\n  {\"name\": ", stdout);
    json_quoted(w->name);
    json_member("layer", l ? l->name : NULL);
    fputs(", \"shape\": [", stdout);
    for (uint32_t d = 0; d < w->rank; d++)
        printf("%s%llu", d ? ", " : "", (unsigned long long)w->dims[d]);
    printf("], \"dtype\": \"%s\", \"bytes\": %llu", pg_dtype_name(w->dtype),
           (unsigned long long)w->n_bytes);
    const pg_pieces cut = pg_store_pieces(in->store, i);
    if (cut.n > 1)
        put_pieces(&cut);
    if (in->stats)
        put_stats(&in->stats[i]);
    putchar('}');
}

static void put_tensors(const info *in, const info_opts *o)
{
    size_t n = 0, *rows = in->store ? info_rows(in, o, &n) : NULL;
    if (!rows) {
        fputs(", \"tensors\": null", stdout);
        return;
    }
    fputs(", \"tensors\": [", stdout);
    for (size_t k = 0; k < n; k++) {
        fputs(k ? "," : "", stdout);
        put_tensor(in, rows[k]);
    }
    putchar(']');
    free(rows);
}

static void put_rank_counts(const pg_store *s)
{
    fputs(", \"rank_counts\": {", stdout);
    for (size_t i = 0; i < pg_store_n_rank_counts(s); i++) {
        const pg_rank_count *c = pg_store_rank_count(s, i);
        printf("%s\"%s\": %llu", i ? ", " : "", c->kind, (unsigned long long)c->n);
    }
    putchar('}');
}

/* ZeRO's optimizer is a part of its own, which has to be opened to be counted. */
static void put_optimizer(const info *in)
{
    size_t n = in->store ? pg_store_n_state(in->store) : 0;
    int known = in->store != NULL;
    if (known && !n && !cli.part && strcmp(in->format, "deepspeed-zero") == 0) {
        pg_store *s = NULL;
        const pg_open_opts opts = {.part = "optimizer"};
        known = pg_store_open(&s, in->path, &opts, NULL) == PG_OK;
        n = known ? pg_store_n_weights(s) : 0;
        pg_store_close(s);
    }
    json_count("optimizer_tensors", known, n);
}

void info_print_json(const info *in, const info_opts *o)
{
    const int known = in->store != NULL;
    fputs("{\"file\": ", stdout);
    json_quoted(in->path);
    json_member("format", in->format);
    json_member("writer", known ? pg_store_writer(in->store) : NULL);
    if (known && pg_store_ranks(in->store))
        json_member("ranks", pg_store_ranks(in->store));
    if (known && pg_store_n_rank_counts(in->store))
        put_rank_counts(in->store);
    json_member("verdict", pg_verdict_name(in->verdict));
    json_member("reason", in->err.code != PG_OK ? in->err.msg
                          : in->question.code   ? in->question.msg
                                                : in->found.reason);
    json_count("replicas", in->found.replicas > 0, in->found.replicas);
    json_member("template", in->found.template_name);
    json_member("unsettled", in->found.unsettled);
    put_layers(in, o);
    put_tensors(in, o);
    json_count("parameters", known, in->n_params);
    json_count("trainable_parameters", in->counts.known, in->counts.trainable);
    json_count("non_trainable_parameters", in->counts.known, in->counts.non_trainable);
    json_count("bytes", known, in->n_bytes);
    put_optimizer(in);
    if (known && pg_store_others(in->store))
        json_member("other_contents", pg_store_others(in->store));
    if (known && pg_store_n_parts(in->store))
        put_parts(in->store);
    if (in->err.code != PG_OK) {
        fputs(", ", stdout);
        cli_json_error(&in->err, in->status);
    }
    putchar('}');
}

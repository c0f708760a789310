/* fuzz_json_graph.c - a model description from a stranger: parsed, its variables listed, the
 * weights that it foretells placed into it again. Spans must cut valid JSON out of the text, and a
 * placing must use every variable once. */
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "model/fit/match.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#define MAX_WEIGHTS 20000

static void require(int holds)
{
    if (!holds)
        abort();
}

static void check_spans(const pg__graph *g)
{
    for (size_t i = 0; i < g->n_models; i++) {
        const pg__model *m = g->models[i];
        require(m->config_span.off + m->config_span.n <= g->n_text);
        require(i > 8 ||
                pg__json_check(g->text + m->config_span.off, m->config_span.n, NULL) == PG_OK);
        for (size_t k = 0; k < m->n_layers; k++) {
            const pg__layer *l = &m->layers[k];
            const char *text = g->text + l->config_span.off;
            require(l->entry.n > 1 && l->config_span.n > 1);
            require(l->config_span.off > l->entry.off);
            require(l->config_span.off + l->config_span.n < l->entry.off + l->entry.n);
            require(text[0] == (pg__json_type_of(l->config) == PG_J_OBJECT ? '{' : '['));
            require(pg__model_find(m, l->name) == k);
            for (size_t c = 0; c < l->n_calls; c++)
                for (size_t r = 0; r < l->calls[c].n_inputs; r++)
                    (void)pg__call_of(m, l->calls[c].inputs[r]);
        }
    }
}

/* The file that the model foretells: "layer/sub/variable:0", unknown dimensions 1. */
static void place_expected(const pg__leaves *leaves)
{
    const size_t n = leaves->n_vars;
    size_t *leaf = calloc(n + 1, sizeof *leaf), *var = calloc(n + 1, sizeof *var);
    pg__stored *stored = calloc(n + 1, sizeof *stored);
    uint64_t(*dims)[PG_MAX_RANK] = calloc(n + 1, sizeof *dims);
    unsigned char *used = calloc(n + 1, 1);
    pg__strs names = {0};
    pg__placing p = {0};
    require(leaf && var && stored && dims && used);
    pg__expected_order(leaves, leaf, var);
    for (size_t i = 0; i < n; i++) {
        const pg__leaf *l = &leaves->v[leaf[i]];
        const pg__var *v = &l->vars.v[var[i]];
        require(pg__strs_printf(&names, NULL, "%s/%s%s%s:0", l->layer->name, v->sub,
                                v->sub[0] ? "/" : "", v->name) == PG_OK);
        for (uint32_t k = 0; k < v->rank; k++)
            dims[i][k] = v->dims[k] == PG_DIM_ANY ? 1 : v->dims[k];
        stored[i] = (pg__stored){.name = names.v[i], .rank = v->rank, .dims = dims[i]};
    }
    if (pg__place(&p, leaves, stored, n, NULL) == PG_OK) {
        require(p.n == n);
        for (size_t i = 0, first = 0; i < leaves->n; first += leaves->v[i++].vars.n)
            for (size_t k = 0; k < n; k++)
                if (n <= 200 && p.leaf[k] == i && leaves->v[i].vars.known)
                    require(p.var[k] < leaves->v[i].vars.n && !used[first + p.var[k]]++);
    }
    pg__placing_fini(&p);
    pg__strs_fini(&names);
    free(leaf);
    free(var);
    free(stored);
    free(dims);
    free(used);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    pg_err err = {0};
    pg__graph *g = NULL;
    pg__leaves leaves = {0};
    if (pg__graph_parse(&g, (const char *)data, n, &err) != PG_OK) {
        require(err.code != PG_OK && err.msg[0] && !strchr(err.msg, '\n'));
        return 0;
    }
    check_spans(g);
    if (pg__leaves_of(&leaves, g->root, g->dialect, &err) == PG_OK) {
        if (leaves.n_vars <= MAX_WEIGHTS)
            place_expected(&leaves);
    } else {
        require(err.code != PG_OK && err.msg[0]);
    }
    pg__leaves_fini(&leaves);
    pg__graph_free(g);
    return 0;
}

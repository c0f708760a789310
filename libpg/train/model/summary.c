/* summary.c - prints a model like model.summary() of Keras 2.15: keras/src/utils/layer_utils.py,
 * print_summary(), print_row(), readable_memory_size().
 *
 * Three columns for a chain of layers, else four with "Connected to". Layers are in the order of
 * the config, which is that of Model.layers. Keras counts characters, not bytes. */
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "model/lower/lower.h"
#include "model/lower/policy.h"
#include "train/model/transfer.h"

typedef struct summary {
    pg__graph *graph;
    pg__leaves leaves;
    pg__lowered low;
    pg__str text;
    size_t n_columns;
    const size_t *ends; /* of the columns; the last is the width */
} summary;

static const size_t chain_ends[] = {29, 55, 65}, graph_ends[] = {29, 58, 68, 98};

/* ---- rows ---- */

static size_t n_chars(const char *s, size_t n)
{
    size_t k = 0;
    for (size_t i = 0; i < n; i++)
        k += ((unsigned char)s[i] & 0xC0) != 0x80;
    return k;
}

/* Bytes of the first n characters of s. */
static size_t first_chars(const char *s, size_t n)
{
    size_t i = 0;
    while (s[i] != '\0' && (n > 0 || ((unsigned char)s[i] & 0xC0) == 0x80)) {
        n -= ((unsigned char)s[i] & 0xC0) != 0x80;
        i++;
    }
    return i;
}

/* How much of a cell goes into this line, which may break after the first tuple, list or text. */
static size_t fit_cell(const char *s, size_t width)
{
    static const char *const breaks[] = {"),", "},", "],", "',"};
    size_t n = first_chars(s, width);
    for (size_t k = 0; k < 4; k++) {
        const char *at = strstr(s, breaks[k]);
        if (at && (size_t)(at - s) + 2 <= n)
            n = (size_t)(at - s) + 2;
    }
    return n;
}

static pg_status pad(pg__str *out, size_t line, size_t to, pg_err *err)
{
    pg_status st = PG_OK;
    for (size_t n = n_chars(out->s + line, out->n - line); n < to && st == PG_OK; n++)
        st = pg__str_add(out, " ", 1, err);
    return st;
}

/* Cells longer than their column continue on the next line. */
static pg_status print_row(summary *s, const char *const *cells, pg_err *err)
{
    const char *left[4] = {""};
    size_t more = 0;
    pg_status st = PG_OK;
    for (size_t c = 0; c < s->n_columns; c++)
        more += strlen(left[c] = cells[c]);
    while (more > 0) {
        const size_t line = s->text.n;
        more = 0;
        PG_TRY(pg__str_puts(&s->text, " ", err));
        for (size_t c = 0; c < s->n_columns; c++) {
            const int last = c + 1 == s->n_columns;
            const size_t width = s->ends[c] - (c ? s->ends[c - 1] : 0) - (last ? 0 : 3);
            const size_t n = fit_cell(left[c], width);
            PG_TRY(pg__str_add(&s->text, left[c], n, err));
            PG_TRY(pg__str_puts(&s->text, last ? "" : "  ", err));
            PG_TRY(pad(&s->text, line, s->ends[c], err));
            left[c] += n;
            more += strlen(left[c]);
        }
        PG_TRY(pg__str_puts(&s->text, "\n", err));
    }
done:
    return st;
}

static pg_status print_rule(summary *s, char of, pg_err *err)
{
    pg_status st = PG_OK;
    for (size_t n = 0; n < s->ends[s->n_columns - 1] && st == PG_OK; n++)
        st = pg__str_add(&s->text, &of, 1, err);
    return st == PG_OK ? pg__str_puts(&s->text, "\n", err) : st;
}

/* ---- cells ---- */

static int is_input(const pg__layer *l)
{
    return strcmp(l->class_name, "InputLayer") == 0;
}

static pg_status add_shape(pg__str *out, const pg__dims *d, pg_err *err)
{
    pg_status st = PG_OK;
    PG_TRY(pg__str_puts(out, "(", err));
    for (uint32_t i = 0; i < d->rank; i++) {
        if (i > 0)
            PG_TRY(pg__str_puts(out, ", ", err));
        if (d->d[i] == PG_DIM_ANY)
            PG_TRY(pg__str_puts(out, "None", err));
        else
            PG_TRY(pg__str_printf(out, err, "%llu", (unsigned long long)d->d[i]));
    }
    PG_TRY(pg__str_puts(out, d->rank == 1 ? ",)" : ")", err));
done:
    return st;
}

static pg_status add_shapes(pg__str *out, const pg__called *c, pg_err *err)
{
    const int list = c->n_out > 1 || is_input(c->layer);
    pg_status st = PG_OK;
    if (c->differ || c->n_out == 0)
        return pg__str_puts(out, c->differ ? "multiple" : "?", err);
    PG_TRY(pg__str_puts(out, list ? "[" : "", err));
    for (size_t k = 0; k < c->n_out; k++) {
        PG_TRY(pg__str_puts(out, k ? ", " : "", err));
        PG_TRY(add_shape(out, &c->out[k], err));
    }
    PG_TRY(pg__str_puts(out, list ? "]" : "", err));
done:
    return st;
}

/* As Python prints a list of strings. */
static pg_status add_connections(pg__str *out, const pg__model *m, const pg__layer *l, pg_err *err)
{
    size_t n = 0;
    pg_status st = PG_OK;
    PG_TRY(pg__str_puts(out, "[", err));
    for (size_t c = 0; c < l->n_calls; c++)
        for (size_t k = 0; k < l->calls[c].n_inputs; k++) {
            const pg__tensor_ref ref = l->calls[c].inputs[k];
            const pg__layer *from = &m->layers[ref.layer];
            const char *quote = strchr(from->name, '\'') ? "\"" : "'";
            PG_TRY(pg__str_printf(out, err, "%s%s%s[%u][%u]%s", n++ ? ", " : "", quote, from->name,
                                  from->n_calls ? ref.node - from->first_node : 0, ref.tensor,
                                  quote));
        }
    PG_TRY(pg__str_puts(out, "]", err));
done:
    return st;
}

/* Old files call functional models "Model". */
static const char *class_of(const pg__layer *l)
{
    return l->model && strcmp(l->class_name, "Model") == 0 ? "Functional" : l->class_name;
}

static pg_status print_layer(summary *s, size_t i, pg_err *err)
{
    const pg__model *m = s->graph->root;
    const pg__layer *l = &m->layers[i];
    pg__str name = {0}, shape = {0}, params = {0}, from = {0};
    unsigned long long n = 0;
    pg_status st = PG_OK;
    for (size_t p = 0; p < s->low.n_params; p++)
        if (s->low.params[p].leaf->top == i)
            n += pg__dims_elems(&s->low.params[p].shape);
    PG_TRY(pg__str_printf(&name, err, "%s (%s)", l->name, class_of(l)));
    PG_TRY(add_shapes(&shape, &s->low.called[i], err));
    PG_TRY(pg__str_printf(&params, err, "%llu", n));
    PG_TRY(add_connections(&from, m, l, err));
    PG_TRY(print_row(s, (const char *const[]){name.s, shape.s, params.s, from.s}, err));
    PG_TRY(pad(&s->text, s->text.n, s->ends[s->n_columns - 1], err));
    PG_TRY(pg__str_puts(&s->text, "\n", err));
done:
    pg__str_fini(&name);
    pg__str_fini(&shape);
    pg__str_fini(&params);
    pg__str_fini(&from);
    return st;
}

/* ---- totals ---- */

/* Bytes of one element: of the layer's dtype, which may be a policy; counts are int64. */
static unsigned variable_bytes(const pg__param *p)
{
    const char *name = pg__layer_policy(p->leaf->layer);
    if (strcmp(p->var->name, "count") == 0 || (name && strcmp(name, "float64") == 0))
        return 8;
    return name && (strcmp(name, "float16") == 0 || strcmp(name, "bfloat16") == 0) ? 2 : 4;
}

static pg_status print_total(summary *s, const char *what, int trained, int others, pg_err *err)
{
    static const char *const units[] = {"Byte", "KB", "MB", "GB", "TB", "PB"};
    unsigned long long n = 0;
    double bytes = 0;
    size_t unit = 0;
    for (size_t p = 0; p < s->low.n_params; p++) {
        const pg__param *param = &s->low.params[p];
        if (param->trained ? !trained : !others)
            continue;
        const uint64_t elems = pg__dims_elems(&param->shape);
        n += elems;
        bytes += (double)elems * variable_bytes(param);
    }
    for (; bytes >= 1024 && unit + 1 < sizeof units / sizeof *units; unit++)
        bytes /= 1024;
    return pg__str_printf(&s->text, err, "%s params: %llu (%.2f %s)\n", what, n, bytes,
                          units[unit]);
}

/* ---- the whole ---- */

/* Are the layers a chain? It has one input, no call with two inputs, no layer called twice, and no
 * result used twice. */
static pg_status find_columns(summary *s, pg_err *err)
{
    const pg__model *m = s->graph->root;
    size_t *uses = pg__mem_array(m->n_layers, sizeof *uses);
    int chain = m->sequential || m->n_inputs <= 1;
    if (!uses)
        return pg__nomem(err);
    for (size_t i = 0; !m->sequential && i < m->n_layers; i++) {
        const pg__layer *l = &m->layers[i];
        chain &= l->n_calls <= 1;
        for (size_t c = 0; c < l->n_calls; c++) {
            chain &= l->calls[c].n_inputs <= 1;
            for (size_t k = 0; k < l->calls[c].n_inputs; k++)
                chain &= uses[l->calls[c].inputs[k].layer]++ == 0;
        }
    }
    s->n_columns = chain ? 3 : 4;
    s->ends = chain ? chain_ends : graph_ends;
    pg__mem_free(uses);
    return PG_OK;
}

static pg_status read_model(summary *s, const pg_train_opts *o, pg_err *err)
{
    pg__lower_opts opts = {.leaves = &s->leaves, .n_rows = PG_DIM_ANY, .training = 1};
    const pg__model *m;
    pg_status st = PG_OK;
    PG_TRY(pg__graph_given(&s->graph, o->model, o->model_text, err));
    PG_TRY(pg__transfer_edit(&s->graph, o, err));
    opts.graph = s->graph;
    m = s->graph->root;
    PG_TRY(pg__rules_of(&opts.rules, NULL, err));
    PG_TRY(pg__leaves_of(&s->leaves, m, s->graph->dialect, err));
    for (size_t k = 0; k < m->n_inputs; k++) { /* a fixed batch size is shown */
        pg__dims shape;
        pg__elem elem;
        if (pg__input_shape(&shape, &elem, m, &m->layers[m->inputs[k].layer], NULL) == PG_OK &&
            shape.d[0] != PG_DIM_ANY)
            opts.n_rows = shape.d[0];
    }
    st = pg__lower(&s->low, &opts, err);
    if (st != PG_OK)
        pg_err_prefix(err, PG_SHOW(pg__model_name(o->model, o->model_text)));
done:
    return st;
}

static pg_status print_model(summary *s, pg_err *err)
{
    static const char *const heads[] = {"Layer (type)", "Output Shape", "Param #", "Connected to"};
    const pg__model *m = s->graph->root;
    pg_status st = PG_OK;
    PG_TRY(find_columns(s, err));
    PG_TRY(pg__str_printf(&s->text, err, "Model: \"%s\"\n", m->name ? m->name : "sequential"));
    PG_TRY(print_rule(s, '_', err));
    PG_TRY(print_row(s, heads, err));
    PG_TRY(print_rule(s, '=', err));
    for (size_t i = 0; i < m->n_layers; i++)
        if (!pg__layer_is_op(&m->layers[i]) && !(m->sequential && is_input(&m->layers[i])))
            PG_TRY(print_layer(s, i, err));
    PG_TRY(print_rule(s, '=', err));
    PG_TRY(print_total(s, "Total", 1, 1, err));
    PG_TRY(print_total(s, "Trainable", 1, 0, err));
    PG_TRY(print_total(s, "Non-trainable", 0, 1, err));
    PG_TRY(print_rule(s, '_', err));
done:
    return st;
}

pg_status pg_model_summary(char **out, const pg_train_opts *opts, pg_err *err)
{
    summary s = {.graph = NULL};
    pg_status st = PG_OK;
    PG_TRY(read_model(&s, opts, err));
    PG_TRY(print_model(&s, err));
    *out = s.text.s;
    s.text.s = NULL;
done:
    pg__str_fini(&s.text);
    pg__lowered_fini(&s.low);
    pg__leaves_fini(&s.leaves);
    pg__graph_free(s.graph);
    return st;
}

void pg_text_free(char *text)
{
    pg__mem_free(text);
}

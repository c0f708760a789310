/* layer_cells.c - RNN around a cell, or around several cells, each of which takes the output of
 * the one before. Going step by step or cell by cell is the same, as no cell sees another's
 * states: so each cell becomes a recurrent layer that passes its sequence to the next. A masked
 * step changes no state. Sources: keras/layers/rnn/base_rnn.py and stacked_rnn_cells.py of 2.15,
 * rnn.py of 3.6. */
#include <string.h>

#include "base/try.h"
#include "model/lower/layers.h"
#include "model/lower/recurrent.h"

/* Of an RNN; all of them are of Keras. */
static const pg__json *cell_entry(const pg__layer *l, size_t i, size_t *n)
{
    const pg__json *cell = pg__json_get(l->config, "cell");
    const pg__json *list = pg__json_get(pg__json_get(cell, "config"), "cells");
    *n = list ? pg__json_len(list) : 1;
    return list ? pg__json_at(list, i) : cell;
}

static pg_status read_cell(const pg__layer *l, size_t i, pg__layer *out, pg_err *err)
{
    static const char *const classes[] = {"LSTMCell", "GRUCell", "SimpleRNNCell"};
    size_t n = 0, known = 0;
    const pg__json *entry = cell_entry(l, i, &n);
    const char *name = pg__json_get_str(pg__json_get(entry, "config"), "name");
    *out = (pg__layer){.name = name ? name : l->name,
                       .class_name = pg__json_get_str(entry, "class_name"),
                       .module = pg__json_get_str(entry, "module"),
                       .registered_name = pg__json_get_str(entry, "registered_name"),
                       .config = pg__json_get(entry, "config"),
                       .trainable = 1};
    if (!out->class_name || !out->config)
        return pg_fail(err, PG_E_FORMAT, "%s: \"cell\" does not describe a layer",
                       PG_SHOW(l->name));
    for (size_t k = 0; k < sizeof classes / sizeof *classes; k++)
        known += strcmp(out->class_name, classes[k]) == 0;
    if (!known || !pg__layer_is_keras(out))
        return pg_fail(err, PG_E_UNSUPPORTED,
                       "%s: a cell %s; those of LSTM, GRU and SimpleRNN can be trained",
                       PG_SHOW(l->name), PG_SHOW(out->class_name));
    return PG_OK;
}

pg_status pg__count_vars(const pg__lowering *lw, const pg__layer *l, size_t *n, pg_err *err)
{
    pg__vars vars = {0};
    const pg_status st = pg__layer_vars(&vars, l, lw->opts->graph->dialect, err);
    *n = vars.n;
    pg__vars_fini(&vars);
    return st;
}

/* The variables of a cell follow those of the cell before. */
static pg_status take_vars(pg__lowering *lw, const pg__layer *cell, size_t *first, pg_err *err)
{
    size_t n;
    const pg_status st = pg__count_vars(lw, cell, &n, err);
    if (st != PG_OK)
        return st;
    if (n == 0 || *first + n > lw->leaf->vars.n)
        return pg_fail(err, PG_E_FORMAT, "%s: has no variables of a cell", PG_SHOW(cell->name));
    lw->first_var = *first;
    lw->n_vars = n;
    lw->sub = lw->leaf->vars.v[*first].sub;
    *first += n;
    return PG_OK;
}

static pg_status lower_cells(pg__lowering *lw, const pg__layer *l, size_t first_var,
                             const pg__rnn_call *call, pg__results *out, pg_err *err)
{
    pg__rnn_call one = *call;
    pg__results given = {.n = 0};
    size_t n_cells = 0, n_states = call->n_states;
    pg_status st = PG_OK;
    if (pg__config_has(l, "num_constants"))
        PG_FAIL(PG_E_UNSUPPORTED, "%s: cells with constants are not supported", PG_SHOW(l->name));
    (void)cell_entry(l, 0, &n_cells);
    if (n_cells == 0)
        PG_FAIL(PG_E_FORMAT, "%s: \"cells\" is not a list of cells", PG_SHOW(l->name));
    out->n = 1;
    one.around = l;
    for (size_t i = 0; i < n_cells; i++) {
        pg__layer cell;
        PG_TRY(read_cell(l, i, &cell, err));
        one.within = i + 1 < n_cells;
        one.first_state = (uint32_t)(2 * first_var); /* cells have two states at most */
        one.n_states = call->n_states > 0 ? pg__cell_states(cell.class_name) : 0;
        if (one.n_states > n_states)
            PG_FAIL(PG_E_FORMAT, "%s: called with %zu initial states, has more", PG_SHOW(l->name),
                    call->n_states);
        n_states -= one.n_states;
        PG_TRY(take_vars(lw, &cell, &first_var, err));
        PG_TRY(pg__lower_recurrence(lw, &cell, &one, &given, err));
        if (out->n + given.n > PG_MAX_OUTPUTS)
            PG_FAIL(PG_E_LIMIT, "%s: gives more than %d results", PG_SHOW(l->name), PG_MAX_OUTPUTS);
        for (size_t k = 1; k < given.n; k++)
            out->v[out->n++] = given.v[k];
        one.x = out->v[0] = given.v[0];
        one.states += one.n_states;
    }
    if (n_states > 0)
        PG_FAIL(PG_E_FORMAT, "%s: called with %zu initial states, has fewer", PG_SHOW(l->name),
                call->n_states);
done:
    return st;
}

int pg__is_recurrent(const pg__layer *l)
{
    const pg__lower_fn fn = l && !l->model ? pg__lower_fn_of(l->class_name) : NULL;
    return fn && (fn == pg__lower_rnn || fn == pg__lower_cells);
}

pg_status pg__lower_direction(pg__lowering *lw, const pg__layer *l, size_t first_var,
                              const pg__rnn_call *call, pg__results *out, pg_err *err)
{
    const pg__lowering outer = *lw;
    if (pg__lower_fn_of(l->class_name) == pg__lower_rnn)
        return pg__lower_recurrence(lw, l, call, out, err);
    const pg_status st = lower_cells(lw, l, first_var, call, out, err);
    *lw = outer;
    return st;
}

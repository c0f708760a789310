/* lower.c - walks a model's calls in the order of their inputs and lowers each. */
#include "model/lower.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "model/layers.h"

/* ---- parameters ---- */

static pg_status number_params(pg__lowered *out, const pg__leaves *leaves, pg_err *err)
{
    size_t n = 0;
    out->params = pg__mem_array(leaves->n_vars, sizeof *out->params);
    if (!out->params)
        return pg__nomem(err);
    for (size_t i = 0; i < leaves->n; i++)
        for (size_t k = 0; k < leaves->v[i].vars.n; k++) {
            const pg__leaf *leaf = &leaves->v[i];
            const pg__var *var = &leaf->vars.v[k];
            out->params[n++] = (pg__param){.leaf = leaf,
                                           .var = var,
                                           .value = PG__NO_VAL,
                                           .trained = leaf->trainable && var->trainable};
        }
    out->n_params = n;
    return PG_OK;
}

static const pg__leaf *find_leaf(const pg__lowering *lw, const pg__layer *l)
{
    for (size_t i = 0; i < lw->opts->leaves->n; i++)
        if (lw->opts->leaves->v[i].layer == l)
            return &lw->opts->leaves->v[i];
    return NULL;
}

static pg__param *find_param(const pg__lowering *lw, const char *name)
{
    size_t first = 0;
    for (const pg__leaf *l = lw->opts->leaves->v; l != lw->leaf; l++)
        first += l->vars.n;
    for (size_t k = 0; k < lw->leaf->vars.n; k++) {
        const pg__var *v = &lw->leaf->vars.v[k];
        if (strcmp(v->name, name) == 0 && strcmp(v->sub, lw->sub) == 0)
            return &lw->to->params[first + k];
    }
    return NULL;
}

pg_status pg__lower_param(pg__lowering *lw, const char *name, uint32_t rank, const uint64_t *dims,
                          pg__val *out, pg_err *err)
{
    const pg__dims shape = pg__dims_of(rank, dims);
    pg__param *p = find_param(lw, name);
    pg_status st = PG_OK;
    if (!p)
        return pg_fail(err, PG_E_FORMAT, "%s: has no variable \"%s\"",
                       PG_SHOW(lw->leaf->layer->name), name);
    if (p->is_built && !pg__dims_equal(&p->shape, &shape))
        return pg_fail(err, PG_E_MISMATCH,
                       "%s: called with inputs of different sizes: %s is %s and %s",
                       PG_SHOW(lw->leaf->layer->name), name, PG_SHAPE(&p->shape), PG_SHAPE(&shape));
    p->shape = shape;
    p->is_built = 1;
    if (p->value == PG__NO_VAL)
        PG_TRY(pg__tape_value(&lw->to->tape, &shape, PG__REAL, PG__PARAM,
                              (uint32_t)(p - lw->to->params), p->trained && lw->opts->training,
                              &p->value, err));
    *out = p->value;
done:
    return st;
}

/* ---- what is known of a value beside its shape ---- */

static pg_status origin_at(pg__lowering *lw, pg__val v, pg__origin **out, pg_err *err)
{
    const size_t had = lw->to->cap_origins;
    if (pg__mem_grow(&lw->to->origins, &lw->to->cap_origins, (size_t)v + 1,
                     sizeof *lw->to->origins))
        return pg__nomem(err);
    for (size_t i = had; i < lw->to->cap_origins; i++)
        lw->to->origins[i] = (pg__origin){PG__NOT_SQUASHED, PG__NO_VAL, PG__NO_VAL};
    *out = &lw->to->origins[v];
    return PG_OK;
}

pg__val pg__mask_of(const pg__lowering *lw, pg__val v)
{
    return v < lw->to->cap_origins ? lw->to->origins[v].mask : PG__NO_VAL;
}

pg_status pg__set_mask(pg__lowering *lw, pg__val v, pg__val mask, pg_err *err)
{
    pg__origin *o;
    const pg_status st = origin_at(lw, v, &o, err);
    if (st == PG_OK)
        o->mask = mask;
    return st;
}

pg_status pg__pass_mask(pg__lowering *lw, pg__val from, pg__val to, pg_err *err)
{
    const pg__val mask = pg__mask_of(lw, from);
    return mask == PG__NO_VAL ? PG_OK : pg__set_mask(lw, to, mask, err);
}

pg_status pg__set_logits(pg__lowering *lw, pg__val v, pg__squash squash, pg__val logits,
                         pg_err *err)
{
    pg__origin *o;
    const pg_status st = origin_at(lw, v, &o, err);
    if (st == PG_OK)
        o->squash = squash, o->logits = logits;
    return st;
}

pg_status pg__lower_one_input(const pg__layer *l, size_t n_in, pg_err *err)
{
    if (n_in == 1)
        return PG_OK;
    return pg_fail(err, PG_E_FORMAT, "%s: %s takes one tensor, is called with %zu",
                   PG_SHOW(l->name), l->class_name, n_in);
}

pg_status pg__lower_moving(pg__lowering *lw, pg__val param, pg__val value, double momentum,
                           pg_err *err)
{
    pg__lowered *to = lw->to;
    if (pg__mem_grow(&to->moving, &to->cap_moving, to->n_moving + 1, sizeof *to->moving))
        return pg__nomem(err);
    to->moving[to->n_moving++] =
        (pg__moving){.param = to->tape.values[param].slot, .value = value, .momentum = momentum};
    return PG_OK;
}

/* ---- operations that many families append ---- */

pg_status pg__lower_dropout_of(pg__lowering *lw, pg__val x, double rate, const pg__dims *noise,
                               int rows_share, pg__val *out, pg_err *err)
{
    const uint64_t n = PG__STEP_N;
    const pg__dims step = pg__dims_of(1, &n);
    const pg__dropout_attrs a = {
        .rate = rate, .stream = lw->to->n_streams++, .rows_share = rows_share, .noise = *noise};
    pg_status st = PG_OK;
    *out = x;
    if (!lw->opts->training || rate <= 0)
        return PG_OK;
    if (lw->to->step == PG__NO_VAL)
        PG_TRY(pg__tape_value(&lw->to->tape, &step, PG__INT, PG__STEP, 0, 0, &lw->to->step, err));
    PG_TRY(pg__emit2(&lw->to->tape, PG__OP_dropout, &a, x, lw->to->step, out, err));
done:
    return st;
}

pg_status pg__lower_constant(pg__lowering *lw, const pg__dims *shape, const double *values,
                             pg__val *out, pg_err *err)
{
    const size_t n = (size_t)pg__dims_elems(shape);
    double *copy = pg__mem_array(n, sizeof *copy);
    pg_status st = PG_OK;
    if (copy)
        memcpy(copy, values, n * sizeof *copy);
    PG_TRY(pg__tape_own(&lw->to->tape, copy, err));
    const pg__constant_attrs a = {.shape = *shape, .values = copy};
    PG_TRY(pg__emit(&lw->to->tape, PG__OP_constant, &a, NULL, 0, out, err));
done:
    return st;
}

pg_status pg__lower_binary(pg__lowering *lw, pg__binary_kind kind, pg__val a, pg__val b,
                           pg__val *out, pg_err *err)
{
    if (kind == PG__ADD && pg__dims_equal(pg__dims_at(lw, a), pg__dims_at(lw, b)))
        return pg__emit2(&lw->to->tape, PG__OP_add, NULL, a, b, out, err);
    return pg__emit2(&lw->to->tape, PG__OP_binary, &(pg__binary_attrs){kind}, a, b, out, err);
}

pg_status pg__lower_reshape(pg__lowering *lw, pg__val x, const pg__dims *to, pg__val *out,
                            pg_err *err)
{
    const pg__reshape_attrs attrs = {.to = *to};
    if (pg__dims_equal(pg__dims_at(lw, x), to)) {
        *out = x;
        return PG_OK;
    }
    return pg__emit1(&lw->to->tape, PG__OP_reshape, &attrs, x, out, err);
}

/* ---- one model ---- */

typedef struct walk {
    pg__lowering *lw;
    const pg__model *m;
    pg__results *done; /* per call; n == 0: still to do */
    size_t *first;     /* per layer: index of its first call (an InputLayer has one entry) */
    size_t n_calls;
} walk;

static int is_input(const pg__layer *l)
{
    return strcmp(l->class_name, "InputLayer") == 0;
}

static pg_status lower_model(pg__lowering *lw, const pg__model *m, const pg__val *in, size_t n_in,
                             pg__results *out, pg_err *err);

static size_t call_at(const walk *w, pg__tensor_ref ref)
{
    const pg__layer *l = &w->m->layers[ref.layer];
    return w->first[ref.layer] + (l->n_calls ? ref.node - l->first_node : 0);
}

static pg_status call_layer(pg__lowering *lw, const pg__layer *l, const pg__val *in, size_t n_in,
                            pg__results *out, pg_err *err)
{
    const pg__leaf *outer = lw->leaf;
    pg_status st = PG_OK;
    if (l->model)
        return lower_model(lw, l->model, in, n_in, out, err);
    lw->leaf = find_leaf(lw, l);
    lw->sub = "";
    lw->to->tape.origin = (uint32_t)(lw->leaf - lw->opts->leaves->v);
    st = pg__lower_fn_of(l->class_name)(lw, l, in, n_in, out, err);
    if (st == PG_E_MISMATCH) /* shapes: operations do not know whose they are */
        pg_err_prefix(err, PG_SHOW(l->name));
    lw->leaf = outer;
    return st;
}

/* What the root's layers give, for the summary. */
static pg_status note_call(walk *w, size_t layer, const pg__results *r, pg_err *err)
{
    pg__lowered *to = w->lw->to;
    if (w->m != w->lw->opts->graph->root || to->called[layer].n_out > 0)
        return PG_OK;
    pg__called *c = &to->called[layer];
    c->out = pg__mem_array(r->n, sizeof *c->out);
    if (!c->out)
        return pg__nomem(err);
    for (size_t k = 0; k < r->n; k++)
        c->out[k] = to->tape.values[r->v[k]].shape;
    c->n_out = r->n;
    return PG_OK;
}

static pg_status lower_call(walk *w, size_t layer, size_t node, pg_err *err)
{
    const pg__layer *l = &w->m->layers[layer];
    const pg__call *call = &l->calls[node];
    pg__results *r = &w->done[w->first[layer] + node];
    pg_status st = PG_OK;
    pg__val *in = pg__mem_array(call->n_inputs, sizeof *in);
    if (!in)
        return pg__nomem(err);
    for (size_t k = 0; k < call->n_inputs; k++) {
        const pg__results *from = &w->done[call_at(w, call->inputs[k])];
        if (call->inputs[k].tensor >= from->n)
            PG_FAIL(PG_E_FORMAT, "%s: input %zu is output %u of a call that has %zu",
                    PG_SHOW(l->name), k, call->inputs[k].tensor, from->n);
        in[k] = from->v[call->inputs[k].tensor];
    }
    st = call_layer(w->lw, l, in, call->n_inputs, r, err);
    if (st == PG_OK)
        PG_TRY(note_call(w, layer, r, err));
done:
    pg__mem_free(in);
    return st;
}

/* Puts the calls that `call` waits for on the stack; 0 if there are none. */
static size_t push_missing(const walk *w, const pg__call *call, pg__tensor_ref *stack)
{
    size_t n = 0;
    for (size_t k = call->n_inputs; k-- > 0;)
        if (w->done[call_at(w, call->inputs[k])].n == 0)
            stack[n++] = call->inputs[k];
    return n;
}

/* Depth first, with a stack of its own: a call waits until its inputs are there. Cycles were
 * refused when the graph was read. */
static pg_status lower_calls(walk *w, pg_err *err)
{
    pg__tensor_ref *stack = NULL;
    size_t n = 0, cap = 0;
    pg_status st = PG_OK;
    for (size_t layer = 0; layer < w->m->n_layers; layer++)
        for (size_t node = 0; node < w->m->layers[layer].n_calls; node++) {
            const pg__layer *l = &w->m->layers[layer];
            if (pg__mem_grow(&stack, &cap, 1, sizeof *stack))
                PG_TRY(pg__nomem(err));
            stack[n++] = (pg__tensor_ref){layer, (uint32_t)(l->first_node + node), 0};
            while (n > 0) {
                const pg__tensor_ref at = stack[n - 1];
                const pg__call *call = pg__call_of(w->m, at);
                if (!call || w->done[call_at(w, at)].n > 0) {
                    n--;
                    continue;
                }
                if (pg__mem_grow(&stack, &cap, n + call->n_inputs, sizeof *stack))
                    PG_TRY(pg__nomem(err));
                const size_t missing = push_missing(w, call, stack + n);
                n += missing;
                if (missing > 0)
                    continue;
                PG_TRY(lower_call(w, at.layer, at.node - w->m->layers[at.layer].first_node, err));
                n--;
            }
        }
done:
    pg__mem_free(stack);
    return st;
}

/* A Sequential whose first layer is no InputLayer: that layer is called with the input itself. */
static pg_status lower_first(walk *w, const pg__val *in, size_t n_in, pg_err *err)
{
    pg__results *r = &w->done[0];
    pg_status st = PG_OK;
    st = call_layer(w->lw, &w->m->layers[0], in, n_in, r, err);
    return st == PG_OK ? note_call(w, 0, r, err) : st;
}

static pg_status bind_inputs(walk *w, const pg__val *in, size_t n_in, pg_err *err)
{
    pg_status st = PG_OK;
    if (n_in != w->m->n_inputs)
        return pg_fail(err, PG_E_FORMAT, "%s: called with %zu inputs, has %zu",
                       PG_SHOW(w->m->name ? w->m->name : w->m->class_name), n_in, w->m->n_inputs);
    for (size_t k = 0; k < n_in; k++) {
        const size_t layer = w->m->inputs[k].layer;
        if (!is_input(&w->m->layers[layer]))
            return lower_first(w, in, n_in, err);
        w->done[w->first[layer]] = (pg__results){.v = {in[k]}, .n = 1};
        PG_TRY(note_call(w, layer, &w->done[w->first[layer]], err));
    }
done:
    return st;
}

static pg_status lower_model(pg__lowering *lw, const pg__model *m, const pg__val *in, size_t n_in,
                             pg__results *out, pg_err *err)
{
    walk w = {.lw = lw, .m = m};
    pg_status st = PG_OK;
    w.first = pg__mem_array(m->n_layers, sizeof *w.first);
    for (size_t i = 0; w.first && i < m->n_layers; i++) {
        w.first[i] = w.n_calls;
        w.n_calls += m->layers[i].n_calls ? m->layers[i].n_calls : 1;
    }
    w.done = w.first ? pg__mem_array(w.n_calls, sizeof *w.done) : NULL;
    if (!w.done)
        PG_TRY(pg__nomem(err));
    PG_TRY(bind_inputs(&w, in, n_in, err));
    PG_TRY(lower_calls(&w, err));
    if (m->n_outputs > PG_MAX_OUTPUTS)
        PG_FAIL(PG_E_LIMIT, "%s: has %zu outputs, at most %d are covered",
                PG_SHOW(m->name ? m->name : m->class_name), m->n_outputs, PG_MAX_OUTPUTS);
    out->n = m->n_outputs;
    for (size_t k = 0; k < m->n_outputs; k++) {
        const pg__results *r = &w.done[call_at(&w, m->outputs[k])];
        if (m->outputs[k].tensor >= r->n)
            PG_FAIL(PG_E_FORMAT, "%s: output %zu comes from a call that was never made",
                    PG_SHOW(m->name ? m->name : m->class_name), k);
        out->v[k] = r->v[m->outputs[k].tensor];
    }
done:
    pg__mem_free(w.done);
    pg__mem_free(w.first);
    return st;
}

/* ---- the whole ---- */

/* Lists every class that has no lowering, each once, before anything else is done. */
static pg_status check_classes(const pg__leaves *leaves, pg_err *err)
{
    size_t n = 0;
    pg_status st = PG_OK;
    for (size_t i = 0; i < leaves->n; i++)
        n += pg__lower_fn_of(leaves->v[i].layer->class_name) == NULL;
    if (n == 0)
        return PG_OK;
    st = pg_fail(err, PG_E_UNSUPPORTED, "%zu layer%s cannot be trained", n, n == 1 ? "" : "s");
    for (size_t i = 0; i < leaves->n; i++)
        if (!pg__lower_fn_of(leaves->v[i].layer->class_name))
            pg_err_detail(err, "%s (%s)", PG_SHOW(leaves->v[i].layer->name),
                          PG_SHOW(leaves->v[i].layer->class_name));
    return st;
}

static pg_status add_inputs(pg__lowered *out, const pg__lower_opts *opts, pg_err *err)
{
    const pg__model *m = opts->graph->root;
    pg_status st = PG_OK;
    out->n_inputs = m->n_inputs;
    out->inputs = pg__mem_array(m->n_inputs, sizeof *out->inputs);
    if (!out->inputs)
        return pg__nomem(err);
    for (size_t k = 0; k < m->n_inputs; k++) {
        const pg__layer *l = &m->layers[m->inputs[k].layer];
        pg__dims shape;
        pg__elem elem;
        PG_TRY(pg__input_shape(&shape, &elem, m, l, err));
        if (opts->inputs)
            shape = opts->inputs[k];
        shape.d[0] = opts->n_rows;
        PG_TRY(pg__tape_value(&out->tape, &shape, elem, PG__INPUT, (uint32_t)k, 0, &out->inputs[k],
                              err));
    }
done:
    return st;
}

pg_status pg__lower(pg__lowered *out, const pg__lower_opts *opts, pg_err *err)
{
    const pg__model *m = opts->graph->root;
    pg__lowering lw = {.to = out, .opts = opts, .sub = ""};
    pg__results results = {.n = 0};
    pg_status st = PG_OK;
    *out = (pg__lowered){.n_called = m->n_layers, .step = PG__NO_VAL};
    PG_TRY(check_classes(opts->leaves, err));
    PG_TRY(number_params(out, opts->leaves, err));
    out->called = pg__mem_array(m->n_layers, sizeof *out->called);
    if (!out->called)
        PG_TRY(pg__nomem(err));
    for (size_t i = 0; i < m->n_layers; i++)
        out->called[i].layer = &m->layers[i];
    PG_TRY(add_inputs(out, opts, err));
    PG_TRY(lower_model(&lw, m, out->inputs, out->n_inputs, &results, err));
    out->outputs = pg__mem_array(results.n, sizeof *out->outputs);
    if (!out->outputs)
        PG_TRY(pg__nomem(err));
    memcpy(out->outputs, results.v, results.n * sizeof *out->outputs);
    out->n_outputs = results.n;
done:
    if (st != PG_OK)
        pg__lowered_fini(out);
    return st;
}

void pg__lowered_fini(pg__lowered *l)
{
    for (size_t i = 0; l->called && i < l->n_called; i++)
        pg__mem_free(l->called[i].out);
    pg__mem_free(l->called);
    pg__mem_free(l->params);
    pg__mem_free(l->inputs);
    pg__mem_free(l->outputs);
    pg__mem_free(l->origins);
    pg__mem_free(l->moving);
    pg__tape_fini(&l->tape);
    *l = (pg__lowered){0};
}

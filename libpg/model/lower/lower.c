/* lower.c - walks the calls of a model, each after its inputs, and lowers them. */
#include "model/lower/lower.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "model/lower/calls.h"
#include "model/lower/layers.h"
#include "model/lower/operation.h"
#include "model/lower/regularizer.h"
#include "model/lower/spatial.h"

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
                                           .value = PG_NO_VAL,
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

/* ---- one model ---- */

typedef struct walk {
    pg__lowering *lw;
    const pg__model *m;
    pg__results *done; /* per call; n == 0: not yet lowered */
    size_t *first;     /* per layer: index of its first call (an InputLayer has one entry) */
    size_t n_calls;
    unsigned char *needed; /* per layer */
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

/* Only these look at ids as they are. */
static int takes_ids(const char *class_name)
{
    static const char *const classes[] = {"Embedding", "Flatten", "Hashing", "Reshape",
                                          "TimeDistributed"};
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (strcmp(class_name, classes[i]) == 0)
            return 1;
    return 0;
}

/* If steps are rows, tf.keras divides by their number; Keras 3 leaves out layers that a
 * TimeDistributed calls. */
static pg_status activity_of(const pg__lowering *lw, const pg__layer *l, pg__activity_attrs *a,
                             pg_err *err)
{
    const int is_layer = strcmp(l->class_name, "ActivityRegularization") == 0;
    const double folded = lw->opts->rules->activity_per_row && lw->fold > 1 ? (double)lw->fold : 1;
    const double share = (lw->runs ? lw->runs : 1) / folded;
    pg_status st = PG_OK;
    PG_TRY(pg__regularizer_of(pg__json_get(l->config, "activity_regularizer"), l->name, &a->l1,
                              &a->l2, err));
    if (is_layer) {
        PG_TRY(pg__config_num_or(&a->l1, l, l->config, "l1", 0, err));
        PG_TRY(pg__config_num_or(&a->l2, l, l->config, "l2", 0, err));
    }
    const int passed_over = lw->by_steps && lw->opts->rules->keras3;
    a->l1 *= passed_over ? 0 : share;
    a->l2 *= passed_over ? 0 : share;
done:
    return st;
}

/* Adds the layer's activity_regularizer for each of its results. */
static pg_status add_activity(pg__lowering *lw, const pg__layer *l, const pg__results *r,
                              pg_err *err)
{
    pg__lowered *to = lw->to;
    pg__activity_attrs a;
    const pg__dims scalar = {.rank = 0};
    pg_status st = PG_OK;
    PG_TRY(activity_of(lw, l, &a, err));
    if (a.l1 == 0 && a.l2 == 0)
        return PG_OK;
    if (to->activity_seed == PG_NO_VAL)
        PG_TRY(pg__tape_value(&to->tape, &scalar, PG_ELEM_REAL, PG_SEED,
                              (uint32_t)lw->opts->graph->root->n_outputs, 0, &to->activity_seed,
                              err));
    for (size_t k = 0; k < r->n; k++) {
        if (pg__mem_grow(&to->activities, &to->cap_activities, to->n_activities + 1,
                         sizeof *to->activities))
            PG_TRY(pg__nomem(err));
        PG_TRY(pg__emit2(&to->tape, PG_OP_activity, &a, r->v[k], to->activity_seed,
                         &to->activities[to->n_activities], err));
        to->n_activities++;
    }
done:
    return st;
}

static pg_status call_family(pg__lowering *lw, const pg__layer *l, const pg__val *in, size_t n_in,
                             pg__results *out, pg_err *err)
{
    const pg__lower_fn fn =
        pg__layer_is_op(l) ? pg__lower_operation : pg__lower_fn_of(l->class_name);
    pg__val *real = pg__mem_array(n_in, sizeof *real);
    pg_status st = PG_OK;
    if (!real)
        return pg__nomem(err);
    if (!fn)
        PG_FAIL(PG_E_UNSUPPORTED, "%s: %s cannot be computed", PG_SHOW(l->name),
                PG_SHOW(l->class_name));
    for (size_t k = 0; k < n_in; k++) {
        real[k] = in[k];
        if (!takes_ids(l->class_name))
            PG_TRY(pg__lower_as_real(lw, in[k], &real[k], err));
    }
    PG_TRY(pg__check_config(l, err));
    st = fn(lw, l, real, n_in, out, err);
    if (st == PG_OK)
        st = add_activity(lw, l, out, err);
    if (st == PG_E_MISMATCH) /* an error in shapes: operations do not know their layer */
        pg_err_prefix(err, PG_SHOW(l->name));
done:
    pg__mem_free(real);
    return st;
}

/* Finds the variables of a layer of the model that a leaf wraps: they are consecutive there. */
static void find_inner(pg__lowering *lw, const pg__layer *l)
{
    lw->first_var = lw->inner_first;
    lw->sub = l->name;
    for (size_t i = 0; i < lw->inner->n; i++) {
        lw->n_vars = lw->inner->v[i].vars.n;
        if (lw->inner->v[i].layer == l)
            return;
        lw->first_var += lw->n_vars;
    }
}

static pg_status call_layer(pg__lowering *lw, const pg__layer *l, const pg__val *in, size_t n_in,
                            pg__results *out, pg_err *err)
{
    const pg__lowering outer = *lw;
    pg_status st = PG_OK;
    lw->by_steps = 0;
    if (!lw->opts->rules->keras3) /* Keras 3's fit() overrides the recorded value */
        lw->training =
            pg__json_bool(pg__json_get(lw->kwargs, "training"), lw->training) && lw->opts->training;
    if (l->model) {
        lw->args = NULL;
        lw->kwargs = NULL;
        lw->call = NULL;
        st = lower_model(lw, l->model, in, n_in, out, err);
    } else if (lw->inner) {
        find_inner(lw, l);
        st = call_family(lw, l, in, n_in, out, err);
    } else {
        lw->leaf = find_leaf(lw, l);
        lw->sub = "";
        lw->to->tape.origin = (uint32_t)(lw->leaf - lw->opts->leaves->v);
        st = call_family(lw, l, in, n_in, out, err);
    }
    *lw = outer;
    return st;
}

pg_status pg__lower_inner(pg__lowering *lw, const pg__layer *inner, const char *sub, pg__val in,
                          pg__results *out, pg_err *err)
{
    const pg__lowering outer = *lw;
    pg__leaves leaves = {0};
    pg_status st = PG_OK;
    lw->args = NULL;
    lw->kwargs = NULL;
    lw->call = NULL;
    if (!inner->model) {
        lw->sub = sub;
        st = call_family(lw, inner, &in, 1, out, err);
        goto done;
    }
    lw->inner_first = lw->inner ? lw->first_var : 0;
    PG_TRY(pg__leaves_of(&leaves, inner->model, lw->opts->graph->dialect, err));
    lw->inner = &leaves;
    PG_TRY(lower_model(lw, inner->model, &in, 1, out, err));
done:
    pg__leaves_fini(&leaves);
    *lw = outer;
    return st;
}

/* Records the outputs of the root's layers, for the summary. */
static pg_status note_call(walk *w, size_t layer, const pg__results *r, pg_err *err)
{
    pg__lowered *to = w->lw->to;
    if (w->m != w->lw->opts->graph->root)
        return PG_OK;
    pg__called *c = &to->called[layer];
    for (size_t k = 0; k < c->n_out; k++)
        c->differ |= k >= r->n || !pg__dims_equal(&c->out[k], &to->tape.values[r->v[k]].shape);
    if (c->n_out > 0)
        return PG_OK;
    c->out = pg__mem_array(r->n, sizeof *c->out);
    if (!c->out)
        return pg__nomem(err);
    for (size_t k = 0; k < r->n; k++)
        c->out[k] = to->tape.values[r->v[k]].shape;
    c->n_out = r->n;
    return PG_OK;
}

/* Collects the operands of a call: results of others. Operations that only lead to masks are left
 * out. */
static pg_status gather(const walk *w, const pg__layer *l, const pg__call *call, pg__val *in,
                        pg_err *err)
{
    for (size_t k = 0; k < call->n_inputs; k++) {
        const pg__results *from = &w->done[call_at(w, call->inputs[k])];
        in[k] = PG_NO_VAL;
        if (!w->needed[call->inputs[k].layer])
            continue;
        if (call->inputs[k].tensor >= from->n)
            return pg_fail(err, PG_E_FORMAT, "%s: input %zu is output %u of a call that has %zu",
                           PG_SHOW(l->name), k, call->inputs[k].tensor, from->n);
        in[k] = from->v[call->inputs[k].tensor];
    }
    return PG_OK;
}

static pg_status lower_call(walk *w, size_t layer, size_t node, pg_err *err)
{
    const pg__layer *l = &w->m->layers[layer];
    const pg__call *call = &l->calls[node];
    const pg__lowering outer = *w->lw;
    const uint32_t device = w->lw->to->tape.device;
    pg__results *r = &w->done[w->first[layer] + node];
    size_t n = 0;
    int given = 0;
    pg_status st = PG_OK;
    pg__val *in = pg__mem_array(call->n_inputs, sizeof *in);
    const char **args = pg__mem_array(call->n_inputs, sizeof *args);
    if (!in || !args)
        PG_TRY(pg__nomem(err));
    PG_TRY(gather(w, l, call, in, err));
    PG_TRY(pg__split_masks(w->lw, call, in, args, &n, &given, err));
    if (n == 0)
        PG_FAIL(PG_E_FORMAT, "%s: is called without a tensor", PG_SHOW(l->name));
    w->lw->args = args;
    w->lw->kwargs = call->kwargs;
    w->lw->model = w->m;
    w->lw->call = call;
    pg__assign_call(w->lw->opts->assigned, l->name, (uint32_t)node, &w->lw->to->tape.device);
    PG_TRY(call_layer(w->lw, l, in, n, r, err));
    if (r->n == 0) /* it would be called for ever */
        PG_FAIL(PG_E_FORMAT, "%s: is a model without outputs", PG_SHOW(l->name));
    for (size_t k = 0; given && w->lw->opts->rules->keras3 && k < r->n; k++)
        PG_TRY(pg__set_mask(w->lw, r->v[k], PG_NO_VAL, err)); /* it is for this layer alone */
    PG_TRY(note_call(w, layer, r, err));
done:
    *w->lw = outer;
    w->lw->to->tape.device = device;
    pg__mem_free(args);
    pg__mem_free(in);
    return st;
}

/* Pushes the calls that `call` waits for; 0 if there are none. */
static size_t push_missing(const walk *w, const pg__call *call, pg__tensor_ref *stack)
{
    size_t n = 0;
    for (size_t k = call->n_inputs; k-- > 0;)
        if (w->needed[call->inputs[k].layer] && w->done[call_at(w, call->inputs[k])].n == 0)
            stack[n++] = call->inputs[k];
    return n;
}

/* Depth first, with a stack of its own: a call waits for its inputs. Reading the graph has refused
 * cycles. */
static pg_status lower_calls(walk *w, pg_err *err)
{
    pg__tensor_ref *stack = NULL;
    size_t n = 0, cap = 0;
    pg_status st = PG_OK;
    for (size_t layer = 0; layer < w->m->n_layers; layer++)
        for (size_t node = 0; w->needed[layer] && node < w->m->layers[layer].n_calls; node++) {
            const pg__layer *l = &w->m->layers[layer];
            if (pg__mem_grow(&stack, &cap, 1, sizeof *stack))
                PG_TRY(pg__nomem(err));
            stack[n++] = (pg__tensor_ref){layer, (uint32_t)(l->first_node + node), 0};
            while (n > 0) {
                const pg__tensor_ref at = stack[n - 1];
                const pg__call *call = pg__call_of(w->m, at);
                if (!call && w->done[call_at(w, at)].n == 0)
                    PG_FAIL(PG_E_FORMAT, "%s: its output is used, but it is never called",
                            PG_SHOW(w->m->layers[at.layer].name));
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

/* A Sequential whose first layer is not an InputLayer: that layer is called with the input
 * itself. */
static pg_status lower_first(walk *w, const pg__val *in, size_t n_in, pg_err *err)
{
    pg__results *r = &w->done[0];
    pg_status st = PG_OK;
    const uint32_t device = w->lw->to->tape.device;
    pg__assign_call(w->lw->opts->assigned, w->m->layers[0].name, 0, &w->lw->to->tape.device);
    st = call_layer(w->lw, &w->m->layers[0], in, n_in, r, err);
    w->lw->to->tape.device = device;
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
    PG_TRY(pg__layers_needed(&w.needed, m, err));
    PG_TRY(bind_inputs(&w, in, n_in, err));
    PG_TRY(lower_calls(&w, err));
    if (m->n_outputs > PG_MAX_OUTPUTS)
        PG_FAIL(PG_E_LIMIT, "%s: has %zu outputs, at most %d are supported",
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
    pg__mem_free(w.needed);
    pg__mem_free(w.done);
    pg__mem_free(w.first);
    return st;
}

/* ---- the whole ---- */

typedef struct untrained {
    pg__strs layers, classes; /* classes that are not covered, and their layers: parallel arrays */
    size_t n_seen;            /* number of layers examined */
    pg_err *err;
} untrained;

/* An operation of Keras 3, or a layer that calls a function of TensorFlow. */
static int is_function(const pg__layer *l)
{
    return pg__layer_is_op(l) || pg__lower_fn_of(l->class_name) == pg__lower_operation;
}

static int is_trained(const pg__layer *l)
{
    if (is_function(l))
        return pg__operation_known(l);
    return pg__lower_fn_of(l->class_name) && pg__layer_is_keras(l);
}

static pg_status add_untrained(untrained *u, const pg__layer *l, const pg__layer *at)
{
    const char *owner = at->module ? at->module : at->registered_name;
    pg_status st = pg__strs_printf(&u->layers, u->err, "%s", l->name);
    if (st != PG_OK)
        return st;
    if (is_function(at))
        return pg__strs_printf(&u->classes, u->err, "%s%s%s", at->class_name,
                               pg__layer_is_op(at) ? "" : " of ",
                               pg__layer_is_op(at) ? "" : pg__operation_name(at));
    if (pg__layer_is_keras(at)) {
        const char *meant = pg__class_meant(at->class_name);
        return pg__strs_printf(&u->classes, u->err, "%s%s%s%s", at->class_name,
                               meant ? ", did you mean " : "", meant ? meant : "",
                               meant ? "?" : "");
    }
    return pg__strs_printf(&u->classes, u->err, "%s, not of Keras but %s", at->class_name, owner);
}

/* The other layer of a Bidirectional, if it is not a copy of the first. */
static pg__layer backward_of(const pg__layer *l)
{
    const pg__json *entry = pg__json_get(l->config, "backward_layer");
    return (pg__layer){.class_name = pg__json_get_str(entry, "class_name"),
                       .config = pg__json_get(entry, "config"),
                       .module = pg__json_get_str(entry, "module"),
                       .registered_name = pg__json_get_str(entry, "registered_name")};
}

/* Checks the layer and what it wraps. A wrapped model is checked as a model. */
static pg_status check_class(untrained *u, const pg__layer *l)
{
    pg_status st = PG_OK;
    u->n_seen += !l->model;
    for (const pg__layer *at = l; at && !at->model; at = at->inner) {
        const pg__layer back = backward_of(at);
        if (!is_trained(at))
            PG_TRY(add_untrained(u, l, at));
        else if (back.class_name && !pg__layer_is_keras(&back))
            PG_TRY(add_untrained(u, l, &back));
    }
done:
    return st;
}

/* One line for every class, with the first of its layers. */
static pg_status report_untrained(const untrained *u)
{
    enum { NAMES = 4 };
    const size_t n = u->layers.n;
    pg__str line = {0};
    pg_status st = PG_OK;
    (void)pg_fail(u->err, PG_E_UNSUPPORTED, "%zu of %zu layers cannot be computed", n, u->n_seen);
    pg_err_do(u->err, PG_DO_LIST_LAYERS, NULL);
    for (size_t i = 0; i < n; i++) {
        size_t of_class = 0;
        const char *why = pg__why_untrained(u->classes.v[i]);
        if (pg__strs_find(&u->classes, u->classes.v[i]) != i)
            continue; /* already listed */
        pg__str_fini(&line);
        PG_TRY(pg__str_printf(&line, u->err, "%s%s%s%s: ", PG_SHOW(u->classes.v[i]),
                              why ? " (" : "", why ? why : "", why ? ")" : ""));
        for (size_t k = i; k < n; k++)
            if (strcmp(u->classes.v[k], u->classes.v[i]) == 0 && of_class++ < NAMES)
                PG_TRY(pg__str_printf(&line, u->err, "%s%s", k > i ? ", " : "",
                                      PG_SHOW(u->layers.v[k])));
        if (of_class > NAMES)
            PG_TRY(pg__str_printf(&line, u->err, " and %zu more", of_class - NAMES));
        pg_err_detail(u->err, "%s", line.s);
    }
    st = PG_E_UNSUPPORTED;
done:
    pg__str_fini(&line);
    return st;
}

/* First of all, lists every layer that has no lowering. */
static pg_status check_classes(const pg__graph *g, pg_err *err)
{
    untrained u = {.err = err};
    unsigned char *needed = NULL;
    pg_status st = PG_OK;
    for (size_t i = 0; i < g->n_models; i++) {
        const pg__model *m = g->models[i];
        PG_TRY(pg__layers_needed(&needed, m, err));
        for (size_t k = 0; k < m->n_layers; k++)
            if (needed[k] && !is_input(&m->layers[k]))
                PG_TRY(check_class(&u, &m->layers[k]));
        pg__mem_free(needed);
        needed = NULL;
    }
    if (u.layers.n > 0)
        PG_TRY(report_untrained(&u));
done:
    pg__mem_free(needed);
    pg__strs_fini(&u.layers);
    pg__strs_fini(&u.classes);
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
        PG_TRY(pg__tape_value(&out->tape, &shape, elem, PG_INPUT, (uint32_t)k, 0, &out->inputs[k],
                              err));
    }
done:
    return st;
}

pg_status pg__lower(pg__lowered *out, const pg__lower_opts *opts, pg_err *err)
{
    const pg__model *m = opts->graph->root;
    pg__lowering lw = {.to = out, .opts = opts, .sub = "", .training = opts->training};
    pg__results results = {.n = 0};
    pg_status st = PG_OK;
    *out = (pg__lowered){.n_called = m->n_layers, .step = PG_NO_VAL, .activity_seed = PG_NO_VAL};
    PG_TRY(check_classes(opts->graph, err));
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
    pg__mem_free(l->activities);
    pg__mem_free(l->moving);
    pg__mem_free(l->spectral);
    pg__mem_free(l->states);
    pg__tape_fini(&l->tape);
    *l = (pg__lowered){0};
}

pg__val pg__output_mask(const pg__lowered *l, size_t k)
{
    return l->outputs[k] < l->cap_origins ? l->origins[l->outputs[k]].mask : PG_NO_VAL;
}

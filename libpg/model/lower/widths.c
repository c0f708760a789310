/* widths.c - what a description alone says of its variables' shapes: a Dense of 4 units after a
 * Dense of 3 holds 3×4. Walks each model once, from the shapes of its own inputs (a nested model is
 * built from these, whoever calls it), and lowers call by call on a tape that is thrown away. What
 * follows a layer that nobody can compute, or an input of unknown shape, stays unknown. */
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "model/lower/calls.h"
#include "model/lower/layers.h"
#include "model/lower/spatial.h"

#define UNKNOWN (PG_MAX_RANK + 1) /* as a rank */

/* The results of one call, or of a model. */
typedef struct shapes {
    pg__dims *v;
    size_t n;
    int done;
} shapes;

typedef struct widths {
    pg__leaves *leaves;
    size_t next_leaf; /* of the next layer in the order of pg__leaves_of() */
    const pg__graph *graph;
    const pg__rules *rules;
    pg_err *err;
} widths;

typedef struct walk {
    widths *w;
    const pg__model *m;
    size_t *first, *leaf; /* per layer: its first call; its leaf */
    shapes *inner;        /* per layer: what the model gives that it is */
    shapes *calls;
    size_t n_calls;
} walk;

static const pg__dims unknown = {.rank = UNKNOWN};

/* These allocate nothing but a few instructions, whatever a config says. */
static int is_cheap(const pg__layer *l)
{
    static const pg__lower_fn cheap[] = {pg__lower_activation,
                                         pg__lower_activity,
                                         pg__lower_add,
                                         pg__lower_alpha_dropout,
                                         pg__lower_average,
                                         pg__lower_batch_norm,
                                         pg__lower_bidirectional,
                                         pg__lower_concatenate,
                                         pg__lower_conv,
                                         pg__lower_conv_transpose,
                                         pg__lower_cropping,
                                         pg__lower_dense,
                                         pg__lower_depthwise_conv,
                                         pg__lower_dropout_layer,
                                         pg__lower_elu,
                                         pg__lower_embedding,
                                         pg__lower_flatten,
                                         pg__lower_gaussian_dropout,
                                         pg__lower_gaussian_noise,
                                         pg__lower_global_pool,
                                         pg__lower_identity,
                                         pg__lower_layer_norm,
                                         pg__lower_leaky_relu,
                                         pg__lower_masking,
                                         pg__lower_maximum,
                                         pg__lower_minimum,
                                         pg__lower_multi_head,
                                         pg__lower_multiply,
                                         pg__lower_permute,
                                         pg__lower_pool,
                                         pg__lower_prelu,
                                         pg__lower_relu,
                                         pg__lower_repeat_vector,
                                         pg__lower_reshape_layer,
                                         pg__lower_rnn,
                                         pg__lower_separable_conv,
                                         pg__lower_softmax_layer,
                                         pg__lower_spatial_dropout,
                                         pg__lower_subtract,
                                         pg__lower_thresholded_relu,
                                         pg__lower_time_distributed,
                                         pg__lower_zero_padding};
    const pg__lower_fn fn = pg__lower_fn_of(l->class_name);
    if (!pg__layer_is_keras(l) || pg__layer_is_op(l) || l->model)
        return 0;
    for (size_t i = 0; i < sizeof cheap / sizeof *cheap; i++)
        if (fn == cheap[i])
            return !l->inner || is_cheap(l->inner);
    return 0;
}

/* Completes what the config left open. A shape that contradicts the config says nothing. */
static void complete(pg__var *v, const pg__dims *shape)
{
    if (v->any_rank) {
        v->any_rank = 0;
        v->rank = shape->rank;
        for (uint32_t i = 0; i < shape->rank; i++)
            v->dims[i] = PG_DIM_ANY;
    }
    for (uint32_t i = 0; i < v->rank; i++)
        if (v->rank != shape->rank || (v->dims[i] != shape->d[i] && v->dims[i] != PG_DIM_ANY))
            return;
    for (uint32_t i = 0; i < v->rank; i++)
        v->dims[i] = shape->d[i];
}

/* Lowers one call; *out are its results, if the status is PG_OK. */
static pg_status lower_call(const widths *w, pg__lowered *to, pg__leaf *leaf, pg__lowering *lw,
                            const pg__dims *in, size_t n_in, pg__results *out, pg_err *err)
{
    pg_status st = PG_OK;
    pg__val *values = pg__mem_array(n_in, sizeof *values);
    const pg__leaves only = {.v = leaf, .n = 1, .n_vars = leaf->vars.n, .all_known = 1};
    const pg__lower_opts opts = {
        .graph = w->graph, .leaves = &only, .rules = w->rules, .n_rows = PG_DIM_ANY};
    to->params = pg__mem_array(leaf->vars.n, sizeof *to->params);
    if (!values || !to->params)
        PG_TRY(pg__nomem(err));
    to->n_params = leaf->vars.n;
    for (size_t k = 0; k < leaf->vars.n; k++)
        to->params[k] = (pg__param){.leaf = leaf, .var = &leaf->vars.v[k], .value = PG_NO_VAL};
    for (size_t k = 0; k < n_in; k++)
        PG_TRY(pg__tape_value(&to->tape, &in[k], PG_ELEM_REAL, PG_INPUT, (uint32_t)k, 0, &values[k],
                              err));
    lw->to = to;
    lw->opts = &opts;
    lw->leaf = leaf;
    lw->sub = "";
    PG_TRY(pg__check_config(leaf->layer, err));
    st = pg__lower_fn_of(leaf->layer->class_name)(lw, leaf->layer, values, n_in, out, err);
done:
    pg__mem_free(values);
    return st;
}

static pg_status keep(const widths *w, shapes *out, const pg__dims *v, size_t n)
{
    out->v = pg__mem_array(n, sizeof *out->v);
    if (!out->v)
        return pg__nomem(w->err);
    if (n > 0)
        memcpy(out->v, v, n * sizeof *v);
    out->n = n;
    return PG_OK;
}

/* What a layer gives for inputs of these shapes, and what it holds then. */
static pg_status call_layer(const widths *w, pg__leaf *leaf, const pg__call *call,
                            const char *const *args, const pg__dims *in, size_t n_in, shapes *out)
{
    pg__lowered to = {.step = PG_NO_VAL, .activity_seed = PG_NO_VAL};
    pg__lowering lw = {.args = args, .kwargs = call ? call->kwargs : NULL, .call = call};
    pg__results got = {.n = 0};
    pg__dims of[PG_MAX_OUTPUTS];
    pg_err why = {0};
    pg_status st = PG_OK;
    if (n_in == 0 || !is_cheap(leaf->layer))
        return PG_OK;
    for (size_t k = 0; k < n_in; k++)
        if (in[k].rank == UNKNOWN)
            return PG_OK;
    st = lower_call(w, &to, leaf, &lw, in, n_in, &got, &why);
    if (st == PG_E_NOMEM) {
        (void)pg__nomem(w->err);
        goto done;
    }
    if (st != PG_OK) { /* Keras says it better */
        st = PG_OK;
        goto done;
    }
    for (size_t k = 0; k < leaf->vars.n; k++)
        if (to.params[k].is_built)
            complete(&leaf->vars.v[k], &to.params[k].shape);
    for (size_t k = 0; k < got.n; k++)
        of[k] = to.tape.values[got.v[k]].shape;
    st = keep(w, out, of, got.n);
done:
    pg__lowered_fini(&to);
    return st;
}

static size_t call_at(const walk *k, pg__tensor_ref ref)
{
    const pg__layer *l = &k->m->layers[ref.layer];
    return k->first[ref.layer] + (l->n_calls ? ref.node - l->first_node : 0);
}

static const pg__dims *shape_at(const walk *k, pg__tensor_ref ref)
{
    const shapes *s = &k->calls[call_at(k, ref)];
    return ref.tensor < s->n ? &s->v[ref.tensor] : &unknown;
}

/* One call whose inputs are done. */
static pg_status do_call(walk *k, size_t layer, size_t at, const pg__call *call)
{
    pg_status st = PG_OK;
    shapes *out = &k->calls[at];
    size_t n = 0;
    pg__dims *in = pg__mem_array(call->n_inputs, sizeof *in);
    const char **args = pg__mem_array(call->n_inputs, sizeof *args);
    out->done = 1;
    if (!in || !args)
        PG_TRY(pg__nomem(k->w->err));
    if (k->m->layers[layer].model) {
        st = keep(k->w, out, k->inner[layer].v, k->inner[layer].n);
        goto done;
    }
    for (size_t i = 0; i < call->n_inputs; i++) {
        const char *arg = call->args ? call->args[i] : NULL;
        if (arg && pg__is_mask_arg(arg))
            continue;
        args[n] = arg;
        in[n++] = *shape_at(k, call->inputs[i]);
    }
    st = call_layer(k->w, &k->w->leaves->v[k->leaf[layer]], call, args, in, n, out);
done:
    pg__mem_free(args);
    pg__mem_free(in);
    return st;
}

/* Depth first, with a stack of its own: a call waits for its inputs. */
static pg_status do_calls(walk *k)
{
    pg__tensor_ref *stack = NULL;
    size_t n = 0, cap = 0;
    pg_status st = PG_OK;
    for (size_t layer = 0; layer < k->m->n_layers; layer++)
        for (size_t node = 0; node < k->m->layers[layer].n_calls; node++) {
            if (pg__mem_grow(&stack, &cap, 1, sizeof *stack))
                PG_TRY(pg__nomem(k->w->err));
            stack[n++] =
                (pg__tensor_ref){layer, (uint32_t)(k->m->layers[layer].first_node + node), 0};
            while (n > 0) {
                const pg__tensor_ref at = stack[n - 1];
                const pg__call *call = pg__call_of(k->m, at);
                const size_t before = n;
                if (!call || k->calls[call_at(k, at)].done) {
                    n--;
                    continue;
                }
                if (pg__mem_grow(&stack, &cap, n + call->n_inputs, sizeof *stack))
                    PG_TRY(pg__nomem(k->w->err));
                for (size_t i = call->n_inputs; i-- > 0;)
                    if (pg__call_of(k->m, call->inputs[i]) &&
                        !k->calls[call_at(k, call->inputs[i])].done)
                        stack[n++] = call->inputs[i];
                if (n == before)
                    PG_TRY(do_call(k, at.layer, call_at(k, at), call));
            }
        }
done:
    pg__mem_free(stack);
    return st;
}

/* The model's own inputs. The first layer of a Sequential may be called with one itself. */
static pg_status do_inputs(walk *k)
{
    pg_status st = PG_OK;
    for (size_t i = 0; i < k->m->n_inputs; i++) {
        const size_t layer = k->m->inputs[i].layer;
        const pg__layer *l = &k->m->layers[layer];
        shapes *out = &k->calls[k->first[layer]];
        pg__dims shape;
        pg__elem elem;
        pg_err why = {0};
        if (l->n_calls > 0 || out->done)
            continue;
        out->done = 1;
        if (l->model) {
            PG_TRY(keep(k->w, out, k->inner[layer].v, k->inner[layer].n));
            continue;
        }
        if (pg__input_shape(&shape, &elem, k->m, l, &why) != PG_OK || shape.rank == 0)
            continue;
        shape.d[0] = PG_DIM_ANY;
        if (strcmp(l->class_name, "InputLayer") == 0)
            PG_TRY(keep(k->w, out, &shape, 1));
        else
            PG_TRY(call_layer(k->w, &k->w->leaves->v[k->leaf[layer]], NULL, NULL, &shape, 1, out));
    }
done:
    return st;
}

static pg_status of_model(widths *w, const pg__model *m, shapes *out);

/* Numbers the calls and the leaves, and does the models inside first. */
static pg_status prepare(walk *k)
{
    const pg__model *m = k->m;
    pg_status st = PG_OK;
    k->first = pg__mem_array(m->n_layers, sizeof *k->first);
    k->leaf = pg__mem_array(m->n_layers, sizeof *k->leaf);
    k->inner = pg__mem_array(m->n_layers, sizeof *k->inner);
    if (!k->first || !k->leaf || !k->inner)
        return pg__nomem(k->w->err);
    for (size_t i = 0; i < m->n_layers; i++) {
        const pg__layer *l = &m->layers[i];
        k->first[i] = k->n_calls;
        k->n_calls += l->n_calls ? l->n_calls : 1;
        if (l->model)
            PG_TRY(of_model(k->w, l->model, &k->inner[i]));
        else if (strcmp(l->class_name, "InputLayer") != 0)
            k->leaf[i] = k->w->next_leaf++;
    }
    k->calls = pg__mem_array(k->n_calls, sizeof *k->calls);
    if (!k->calls)
        st = pg__nomem(k->w->err);
done:
    return st;
}

static pg_status of_model(widths *w, const pg__model *m, shapes *out)
{
    walk k = {.w = w, .m = m};
    pg_status st = PG_OK;
    PG_TRY(prepare(&k));
    PG_TRY(do_inputs(&k));
    PG_TRY(do_calls(&k));
    out->v = pg__mem_array(m->n_outputs, sizeof *out->v);
    if (!out->v)
        PG_TRY(pg__nomem(w->err));
    out->n = m->n_outputs;
    for (size_t i = 0; i < m->n_outputs; i++)
        out->v[i] = *shape_at(&k, m->outputs[i]);
done:
    for (size_t i = 0; k.inner && i < m->n_layers; i++)
        pg__mem_free(k.inner[i].v);
    for (size_t i = 0; k.calls && i < k.n_calls; i++)
        pg__mem_free(k.calls[i].v);
    pg__mem_free(k.calls);
    pg__mem_free(k.inner);
    pg__mem_free(k.leaf);
    pg__mem_free(k.first);
    return st;
}

pg_status pg__leaves_widths(pg__leaves *l, const pg__model *m, int dialect, pg_err *err)
{
    const pg__graph graph = {.dialect = dialect,
                             .root = (pg__model *)(uintptr_t)m}; /* lowering only reads it */
    widths w = {.leaves = l, .graph = &graph, .err = err};
    shapes all = {0};
    pg_status st = PG_OK;
    PG_TRY(pg__rules_of(&w.rules, dialect == 3 ? "3.6.0" : NULL, err));
    PG_TRY(of_model(&w, m, &all));
done:
    pg__mem_free(all.v);
    return st;
}

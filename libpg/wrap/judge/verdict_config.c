/* verdict_config.c - decides whether the graph of a model config is a data-parallel wrapper.
 *
 * A wrapper consists only of InputLayers, G slices per input, one nested model that is called G
 * times, and one merge per output that joins that output of every call along axis 0. Any difference
 * (another layer, another axis, an average, a call that an input feeds directly) makes it an
 * ordinary model with a nested one. The checks are ordered so that the most telling failure comes
 * first. If the template is a wrapper itself, it is examined, too. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "model/graph/classes.h"
#include "model/lower/vars.h"
#include "wrap/judge/verdict.h"

/* One wrapper under examination. */
typedef struct examined {
    const char *text; /* of the config */
    const pg__model *m;
    const pg__layer *t; /* the nested model */
    size_t t_index, n_replicas, n_inputs;
    const pg__layer **slices; /* n_replicas * n_inputs */
    char *role; /* per layer of m: 0 unseen, 'i' input, 'b' bounds, 's' slice, 't' template, 'm'
                   merge, 'c' cast */
    const pg__recogniser *by;
    int certain;
    char why_not[512]; /* "" = it is a wrapper */
} examined;

static int is_class(const pg__layer *l, const char *class_name)
{
    return strcmp(l->class_name, class_name) == 0;
}

/* Keras 3 puts a Cast between two layers of different types (mixed precision). It does not matter
 * for recognising a wrapper. */
static int is_cast(const pg__layer *l)
{
    return is_class(l, "Cast") && pg__layer_is_op(l) && l->n_calls == 1 && !l->model &&
           l->calls[0].n_inputs == 1;
}

/* The tensor before a chain of casts. */
static pg__tensor_ref before_casts(const pg__model *m, pg__tensor_ref r)
{
    for (size_t i = 0; i < m->n_layers && is_cast(&m->layers[r.layer]); i++)
        r = m->layers[r.layer].calls[0].inputs[0];
    return r;
}

static int is_null(const char *text, pg__json_span within, const char *key)
{
    const pg__json_step path[] = {PG_JKEY(key), {0}};
    const pg__json_span s = pg__json_range(text + within.off, within.n, path);
    return s.n == 4 && memcmp(text + within.off + s.off, "null", 4) == 0;
}

/* tf.keras writes x[a:b] as a layer with the bounds in its call, whose list may be flat; x[:, ::-1]
 * does not cut the batch. */
static int cuts_batch(const char *text, const pg__layer *l)
{
    const pg__json_step flat[] = {
        PG_JKEY("inbound_nodes"), PG_JINDEX(0), PG_JINDEX(3), PG_JKEY("slice_spec"), {0}};
    const pg__json_step deep[] = {
        PG_JKEY("inbound_nodes"), PG_JINDEX(0), PG_JINDEX(0), PG_JINDEX(3),
        PG_JKEY("slice_spec"),    {0}};
    const pg__json_step head[] = {PG_JINDEX(0), {0}};
    if (strcmp(l->class_name, "SlicingOpLambda") != 0)
        return 1;
    pg__json_span spec = pg__json_range(text + l->entry.off, l->entry.n, flat);
    if (spec.n == 0)
        spec = pg__json_range(text + l->entry.off, l->entry.n, deep);
    if (spec.n == 0)
        return 1;
    spec.off += l->entry.off;
    if (text[spec.off] == '[') {
        const pg__json_span first = pg__json_range(text + spec.off, spec.n, head);
        spec = (pg__json_span){spec.off + first.off, first.n};
    }
    return !(is_null(text, spec, "start") && is_null(text, spec, "stop"));
}

static int is_op_layer(const pg__layer *l)
{
    return is_class(l, "TFOpLambda") || is_class(l, "SlicingOpLambda") ||
           is_class(l, "TensorFlowOpLayer");
}

/* Op layers that compute from the inputs only: tf.shape(x)[0] // parts * i. `layers` lists a layer
 * after those that feed it. */
static void mark_bounds(examined *x)
{
    for (size_t i = 0; i < x->m->n_layers; i++) {
        const pg__layer *l = &x->m->layers[i];
        int ok = is_op_layer(l) && l->n_calls == 1;
        for (size_t k = 0; ok && k < l->calls[0].n_inputs; k++)
            ok = strchr("ib", x->role[l->calls[0].inputs[k].layer]) != NULL &&
                 x->role[l->calls[0].inputs[k].layer];
        if (is_class(l, "InputLayer"))
            x->role[i] = 'i';
        else if (is_cast(l))
            x->role[i] = 'c';
        else if (ok)
            x->role[i] = 'b';
    }
}

/* Why layer s is not a slice, or NULL. */
static const char *no_slice(const examined *x, const pg__layer *s)
{
    if (s->model || s->n_calls != 1 || s->calls[0].n_inputs == 0 || !pg__may_slice(s) ||
        !cuts_batch(x->text, s))
        return "is not a slice of an input";
    for (size_t i = 0; i < s->calls[0].n_inputs; i++) {
        const char from = x->role[before_casts(x->m, s->calls[0].inputs[i]).layer];
        if (from != 'i' && (i == 0 || (from != 'b' && from != 's')))
            return "does not slice an input";
    }
    return NULL;
}

/* Only slices feed the calls of the template, replica by replica from the same inputs. */
static int slices_ok(examined *x)
{
    mark_bounds(x);
    for (size_t c = 0; c < x->n_replicas; c++)
        for (size_t k = 0; k < x->n_inputs; k++) {
            const pg__layer *s = &x->m->layers[before_casts(x->m, x->t->calls[c].inputs[k]).layer];
            const pg__layer *first = x->slices[k];
            x->slices[c * x->n_inputs + k] = s;
            if (is_class(s, "InputLayer"))
                (void)snprintf(x->why_not, sizeof x->why_not, "an input feeds it directly");
            else if (no_slice(x, s))
                (void)snprintf(x->why_not, sizeof x->why_not, "layer \"%s\", which feeds it, %s",
                               PG_SHOW(s->name), no_slice(x, s));
            else if (c && before_casts(x->m, s->calls[0].inputs[0]).layer !=
                              before_casts(x->m, first->calls[0].inputs[0]).layer)
                (void)snprintf(x->why_not, sizeof x->why_not, "its calls take different inputs");
            if (x->why_not[0])
                return 0;
            x->role[(size_t)(s - x->m->layers)] = 's';
        }
    return 1;
}

/* A layer may feed several calls only if it has one output per call (tf.split). */
static int slices_are_distinct(examined *x)
{
    for (size_t k = 0; k < x->n_inputs; k++)
        for (size_t a = 0; a < x->n_replicas; a++)
            for (size_t b = 0; b < a; b++) {
                const pg__tensor_ref p = before_casts(x->m, x->t->calls[a].inputs[k]);
                const pg__tensor_ref q = before_casts(x->m, x->t->calls[b].inputs[k]);
                if (p.layer == q.layer && p.node == q.node && p.tensor == q.tensor) {
                    (void)snprintf(x->why_not, sizeof x->why_not,
                                   "two calls take the same tensor of layer \"%s\"",
                                   PG_SHOW(x->m->layers[p.layer].name));
                    return 0;
                }
            }
    return 1;
}

static int joins_axis_0(const pg__layer *l)
{
    int64_t axis = -1;
    if (is_class(l, "Concatenate"))
        return pg__json_int(pg__json_get(l->config, "axis"), &axis) && axis == 0;
    const char *mode = pg__json_get_str(l->config, "mode");
    return is_class(l, "Merge") && mode && strcmp(mode, "concat") == 0 &&
           pg__json_int(pg__json_get(l->config, "concat_axis"), &axis) && axis == 0;
}

static int is_merge_class(const pg__layer *l)
{
    return is_class(l, "Concatenate") || is_class(l, "Merge") || is_class(l, "Lambda");
}

/* A merge takes the same output of every call, each call once. */
static int takes_every_call(const examined *x, const pg__layer *l)
{
    const pg__call *call = &l->calls[0];
    if (l->n_calls != 1 || call->n_inputs != x->n_replicas)
        return 0;
    const uint32_t tensor = before_casts(x->m, call->inputs[0]).tensor;
    for (size_t i = 0; i < call->n_inputs; i++) {
        const pg__tensor_ref r = before_casts(x->m, call->inputs[i]);
        if (r.layer != x->t_index || r.tensor != tensor)
            return 0;
        for (size_t j = 0; j < i; j++)
            if (before_casts(x->m, call->inputs[j]).node == r.node)
                return 0;
    }
    return 1;
}

static int merges_ok(examined *x)
{
    size_t n_joins = 0, n_merges = 0;
    for (size_t i = 0; i < x->m->n_layers; i++) {
        const pg__layer *l = &x->m->layers[i];
        if (is_class(l, "InputLayer"))
            x->role[i] = 'i';
        if (x->role[i])
            continue;
        if (!is_merge_class(l) || l->n_calls != 1 || l->calls[0].n_inputs == 0 ||
            before_casts(x->m, l->calls[0].inputs[0]).layer != x->t_index)
            (void)snprintf(x->why_not, sizeof x->why_not,
                           "layer \"%s\" (%s) is not a merge of its outputs", PG_SHOW(l->name),
                           PG_SHOW(l->class_name));
        else if (!takes_every_call(x, l))
            (void)snprintf(x->why_not, sizeof x->why_not,
                           "\"%s\" does not take one output of every call", PG_SHOW(l->name));
        else if (!is_class(l, "Lambda") && !joins_axis_0(l))
            (void)snprintf(x->why_not, sizeof x->why_not, "\"%s\" does not join the batch axis",
                           PG_SHOW(l->name));
        if (x->why_not[0])
            return 0;
        x->role[i] = 'm';
        n_merges++;
        n_joins += !is_class(l, "Lambda");
    }
    if (n_merges == 0 || (n_joins == 0 && !x->certain)) {
        (void)snprintf(x->why_not, sizeof x->why_not,
                       "nothing joins its calls along the batch axis");
        return 0;
    }
    for (size_t i = 0; i < x->m->n_outputs; i++)
        if (x->role[before_casts(x->m, x->m->outputs[i]).layer] != 'm') {
            (void)snprintf(x->why_not, sizeof x->why_not, "an output of the model is not a merge");
            return 0;
        }
    return 1;
}

static int arguments_ok(examined *x)
{
    const pg__slices s = {
        .layers = x->slices, .n_inputs = x->n_inputs, .n_replicas = x->n_replicas};
    for (const pg__recogniser *const *r = pg__recognisers(); *r; r++) {
        const pg__saying says = (*r)->slices ? (*r)->slices(&s) : PG_SAYS_NOTHING;
        if (says == PG_SAYS_NOTHING)
            continue;
        x->by = *r;
        x->certain = says == PG_SAYS_CERTAINLY;
        if (says != PG_SAYS_OTHERWISE)
            return 1;
        (void)snprintf(x->why_not, sizeof x->why_not,
                       "the arguments of its slices contradict its %zu calls", x->n_replicas);
        return 0;
    }
    (void)snprintf(x->why_not, sizeof x->why_not, "the layers that feed it do not cut the batch");
    return 0;
}

static size_t count_nested(const pg__model *m, size_t *first)
{
    size_t n = 0;
    for (size_t i = 0; i < m->n_layers; i++)
        if (m->layers[i].model && n++ == 0)
            *first = i;
    return n;
}

/* Fills *x (to be released); x->why_not stays empty for a wrapper. m has exactly one nested model.
 */
static pg_status examine(examined *x, const char *text, const pg__model *m, size_t t, pg_err *err)
{
    *x = (examined){
        .text = text, .m = m, .t = &m->layers[t], .t_index = t, .n_replicas = m->layers[t].n_calls};
    x->role = pg__mem_array(m->n_layers, 1);
    if (!x->role)
        return pg__nomem(err);
    x->role[t] = 't';
    if (m->sequential || x->n_replicas < 2) {
        (void)snprintf(x->why_not, sizeof x->why_not, "it is called once");
        return PG_OK;
    }
    x->n_inputs = x->t->calls[0].n_inputs;
    for (size_t c = 0; c < x->n_replicas; c++)
        if (x->t->calls[c].n_inputs != x->n_inputs || x->n_inputs == 0) {
            (void)snprintf(x->why_not, sizeof x->why_not, "its calls differ in their inputs");
            return PG_OK;
        }
    x->slices = pg__mem_array(x->n_replicas, x->n_inputs * sizeof(pg__layer *));
    if (!x->slices)
        return pg__nomem(err);
    (void)(slices_ok(x) && slices_are_distinct(x) && arguments_ok(x) && merges_ok(x));
    return PG_OK;
}

static void examined_fini(examined *x)
{
    pg__mem_free(x->slices);
    pg__mem_free(x->role);
}

/* The name of output t of model m, looking through wrappers inside m. */
static const char *original_output(const pg__model *m, size_t t, const pg__model *innermost)
{
    while (t < m->n_outputs) {
        const pg__layer *l = &m->layers[before_casts(m, m->outputs[t]).layer];
        if (m == innermost || l->n_calls != 1 || l->calls[0].n_inputs == 0)
            return l->name;
        const pg__tensor_ref r = before_casts(m, l->calls[0].inputs[0]);
        const pg__model *below = m->layers[r.layer].model;
        if (!below)
            return l->name;
        t = r.tensor;
        m = below;
    }
    return NULL;
}

static pg_status map_outputs(pg__verdict *v, pg_err *err)
{
    pg_status st = PG_OK;
    const pg__model *root = v->graph->root;
    for (size_t k = 0; k < root->n_outputs; k++) {
        const char *from = root->layers[root->outputs[k].layer].name;
        const char *to = original_output(root, k, v->tmpl->model);
        if (!to)
            to = from;
        PG_TRY(pg__strs_add(&v->outputs, from, strlen(from), err));
        PG_TRY(pg__strs_add(&v->originals, to, strlen(to), err));
    }
done:
    return st;
}

/* The first (outermost) wrapper fills in the finding; inner ones become evidence. */
static pg_status note_wrapper(pg__verdict *v, const examined *x, pg_err *err)
{
    pg_status st = PG_OK;
    pg_finding *f = &v->f;
    v->outer = x->m;
    v->tmpl = x->t;
    f->certain = (v->depth == 0 || f->certain) && x->certain;
    if (v->depth++ == 0) {
        f->recogniser = x->by->name;
        f->replicas = x->n_replicas;
        for (size_t i = 0; i < x->m->n_layers; i++) {
            const char *name = x->m->layers[i].name;
            if (x->role[i] == 's')
                PG_TRY(pg__finding_add(&f->slices, &f->n_slices, name, err));
            else if (x->role[i] == 'm')
                PG_TRY(pg__finding_add(&f->merges, &f->n_merges, name, err));
        }
    } else {
        PG_TRY(pg__evidence(v, err, "the template is a wrapper of %zu replicas itself",
                            x->n_replicas));
    }
    PG_TRY(pg__evidence(
        v, err, "nested model \"%s\" is called %zu times, each time on a slice of the batch (%s)",
        PG_SHOW(x->t->name), x->n_replicas,
        x->certain ? "the slices' arguments agree" : "the slices do not say which part they take"));
    PG_TRY(pg__evidence(v, err,
                        "every other layer joins one output of all %zu calls along the batch axis",
                        x->n_replicas));
    pg__mem_free(f->template_name);
    f->template_name = pg__mem_strdup(x->t->name);
    if (!f->template_name)
        st = pg__nomem(err);
done:
    return st;
}

static size_t layer_by_name(const pg_store *s, const char *name)
{
    for (size_t i = 0; i < pg_store_n_layers(s); i++)
        if (strcmp(pg_store_layer(s, i)->name, name) == 0)
            return i;
    return PG_NONE;
}

/* Number of weights of a nested model in a legacy file; 0 in other layouts. */
static size_t weights_of(const pg_store *s, const char *name)
{
    const size_t i = pg__store_is_legacy(s) ? layer_by_name(s, name) : PG_NONE;
    return i == PG_NONE ? 0 : pg_store_layer(s, i)->n_weights;
}

/* A model that begins with a nested one (a base with a head, a chain of models) is reported as
 * nested; one with a sub-model elsewhere is a single model like any other. */
static int begins_nested(const pg__model *m)
{
    for (size_t i = 0; i < m->n_layers; i++) {
        int weightless = 0;
        const pg__layer *l = &m->layers[i];
        if (l->model)
            return 1;
        if (!(pg__class_known(l->class_name, &weightless) && weightless))
            return 0;
    }
    return 0;
}

/* "2 nested models: "encoder" (12 layers), "decoder" (9 layers); a data-parallel wrapper has one".
 */
static pg_status several_nested(pg__verdict *v, pg_verdict is, size_t n, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str list = {0};
    size_t shown = 0;
    const pg__model *m = v->graph->root;
    for (size_t i = 0; i < m->n_layers && shown < 4; i++)
        if (m->layers[i].model)
            PG_TRY(pg__str_printf(&list, err, "%s\"%s\" (%zu layers)", shown++ ? ", " : "",
                                  PG_SHOW(m->layers[i].name), m->layers[i].model->n_layers));
    st = pg__verdict_set(v, is, err,
                         "%zu nested models: %s%s; a data-parallel wrapper has exactly one", n,
                         list.s, shown < n ? ", ..." : "");
done:
    pg__str_fini(&list);
    return st;
}

static pg_status not_a_wrapper(pg__verdict *v, const pg_store *s, size_t n, size_t first,
                               const char *why, pg_err *err)
{
    const pg__model *m = v->graph->root;
    if (n == 0)
        return pg__verdict_set(
            v, PG_V_SINGLE, err,
            "not a parallel wrapper, loads as it is (%zu layers, none is a nested model)",
            m->n_layers);
    const pg_verdict is = begins_nested(m) ? PG_V_NESTED : PG_V_SINGLE;
    const pg__layer *l = &m->layers[first];
    if (n == 1) {
        const size_t held = weights_of(s, l->name);
        char count[40] = "";
        if (held)
            (void)snprintf(count, sizeof count, " (%zu weights)", held);
        v->f.template_name = pg__mem_strdup(l->name);
        if (!v->f.template_name)
            return pg__nomem(err);
        return pg__verdict_set(v, is, err, "nested model \"%s\"%s, not a parallel wrapper: %s",
                               PG_SHOW(l->name), count, why);
    }
    return several_nested(v, is, n, err);
}

pg_status pg__judge_config(pg__verdict *v, const pg_store *s, pg_err *err)
{
    pg_status st = PG_OK;
    size_t first = 0;
    examined x = {0};
    for (const pg__model *m = v->graph->root;; m = x.t->model) {
        const size_t n = count_nested(m, &first);
        examined_fini(&x);
        x = (examined){0};
        if (n == 1)
            PG_TRY(examine(&x, v->graph->text, m, first, err));
        if (n != 1 || x.why_not[0]) {
            if (v->depth == 0)
                PG_TRY(not_a_wrapper(v, s, n, first, x.why_not, err));
            break;
        }
        PG_TRY(note_wrapper(v, &x, err));
    }
    if (v->depth) {
        v->f.verdict = PG_V_WRAPPER;
        PG_TRY(pg__describe_wrapper(
            v, v->f.certain ? "parallel wrapper" : "likely a parallel wrapper", err));
        PG_TRY(map_outputs(v, err));
        /* The outermost template's layer holds everything. */
        for (size_t i = 0; i < v->graph->root->n_layers; i++)
            if (v->graph->root->layers[i].model)
                v->layer = layer_by_name(s, v->graph->root->layers[i].name);
    }
done:
    examined_fini(&x);
    return st;
}

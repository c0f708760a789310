/* graph_connect.c - connects layers: checks and resolves inbound_nodes, input_layers and
 * output_layers in every form that Keras 1, 2, tf.keras and 3 write (FORMATS.md: "Model JSON").
 *
 * A call (one inbound node) is a list of [layer, node, tensor], since Keras 2 with keyword
 * arguments as a fourth element that may hold more references; in Keras 3 it is an object whose
 * args and kwargs hold __keras_tensor__ objects at any depth. One walk with a stack of its own
 * collects them all, each with its keyword.
 *
 * References are resolved through the sorted names, and calls are sorted topologically: both in
 * (almost) linear time, however often a tensor is shared. */
#include <string.h>

#include "base/limits.h"
#include "base/mem.h"
#include "base/try.h"
#include "model/graph/classes.h"
#include "model/graph/graph_impl.h"

/* The fields of a call while the arrays still grow. */
typedef struct raw_call {
    size_t first, n; /* refs */
    const pg__json *node, *kwargs;
} raw_call;

typedef struct connect {
    pg__model *m;
    pg__tensor_ref *refs;
    size_t n_refs, cap_refs;
    const char **args; /* per ref */
    size_t cap_args;
    const char *arg;        /* current keyword, or NULL */
    const pg__json *kwargs; /* of the current call */
    raw_call *calls;        /* of all layers, in order */
    size_t n_calls, cap_calls;
    size_t *first_call; /* per layer, and one more for the end */
    pg_err *err;
} connect;

/* Where a reference is in the model, for messages. */
typedef struct place {
    const char *layer; /* NULL: of the model */
    const char *key;
} place;

typedef struct frame {
    const pg__json *array;
    size_t next;
    pg__json_iter members;
    int maybe;    /* arguments: a list that looks like a reference need not be one */
    int keywords; /* its members are keyword arguments */
} frame;

static pg_status fail_at(const connect *c, const place *at, const char *why, const char *name)
{
    const char *owner = at->layer ? at->layer : c->m->name ? c->m->name : c->m->class_name;
    return pg_fail(c->err, PG_E_FORMAT, "%s: \"%s\" %s%s%s%s", PG_SHOW(owner), at->key, why,
                   name ? " \"" : "", name ? PG_SHOW(name) : "", name ? "\"" : "");
}

static pg_status push_ref(connect *c, pg__tensor_ref ref)
{
    if (pg__mem_grow(&c->refs, &c->cap_refs, c->n_refs + 1, sizeof *c->refs) ||
        pg__mem_grow(&c->args, &c->cap_args, c->n_refs + 1, sizeof *c->args))
        return pg__nomem(c->err);
    c->args[c->n_refs] = c->arg;
    c->refs[c->n_refs++] = ref;
    return PG_OK;
}

/* Adds the reference [layer, node, tensor] that begins `triple`. */
static pg_status add_ref(connect *c, const pg__json *triple, int maybe, const place *at)
{
    int64_t node = -1, tensor = -1;
    const char *name = pg__json_str(pg__json_at(triple, 0));
    const int whole = pg__json_int(pg__json_at(triple, 1), &node) &&
                      pg__json_int(pg__json_at(triple, 2), &tensor);
    const size_t layer = name ? pg__model_find(c->m, name) : SIZE_MAX;
    if (maybe && (!whole || layer == SIZE_MAX))
        return PG_OK;
    if (!name || !whole)
        return fail_at(c, at, "holds something other than [layer, node, tensor]", NULL);
    if (layer == SIZE_MAX)
        return fail_at(c, at, "names a layer that is not in this model:", name);
    if (node < 0 || node > UINT32_MAX || tensor < 0 || tensor > UINT32_MAX)
        return fail_at(c, at, "has an index out of range for layer", name);
    return push_ref(c, (pg__tensor_ref){layer, (uint32_t)node, (uint32_t)tensor});
}

static int is_triple(const pg__json *j)
{
    return pg__json_type_of(pg__json_at(j, 0)) == PG_J_STRING &&
           pg__json_type_of(pg__json_at(j, 1)) == PG_J_INT;
}

/* Visits one value: adds a reference, or pushes a container onto the stack. */
static pg_status visit(connect *c, const pg__json *j, int maybe, frame *stack, size_t *depth,
                       const place *at)
{
    int keywords = 0;
    const pg__json_type t = pg__json_type_of(j);
    const char *class_name = pg__json_get_str(j, "class_name");
    if (class_name && strcmp(class_name, "__keras_tensor__") == 0)
        return add_ref(c, pg__json_get(pg__json_get(j, "config"), "keras_history"), 0, at);
    if (t == PG_J_ARRAY && is_triple(j)) {
        const char *name = pg__json_str(pg__json_at(j, 0));
        if (strcmp(name, "_CONSTANT_VALUE") != 0) { /* tf.keras: a plain number as argument */
            const pg_status st = add_ref(c, j, maybe, at);
            if (st != PG_OK)
                return st;
        }
        j = pg__json_at(j, 3); /* keyword arguments */
        if (pg__json_type_of(j) != PG_J_OBJECT)
            return PG_OK;
        maybe = 1;
        keywords = !c->arg;
    } else if (t != PG_J_ARRAY && t != PG_J_OBJECT) {
        return maybe ? PG_OK
                     : fail_at(c, at, "holds something other than [layer, node, tensor]", NULL);
    }
    if (*depth == PG_LIMIT_JSON_DEPTH)
        return pg_fail(c->err, PG_E_LIMIT, "%s nested too deep", at->key);
    if (keywords && !c->kwargs)
        c->kwargs = j;
    stack[(*depth)++] =
        (frame){.array = j, .members = {.obj = j}, .maybe = maybe, .keywords = keywords};
    return PG_OK;
}

/* Adds all references below j, in order. */
static pg_status collect(connect *c, const pg__json *j, const place *at)
{
    frame stack[PG_LIMIT_JSON_DEPTH];
    size_t depth = 0;
    /* Keras 3: only __keras_tensor__ counts among the arguments */
    const pg__json *kwargs = pg__json_get(j, "args") ? pg__json_get(j, "kwargs") : NULL;
    const int is_keras3 = pg__json_get(j, "args") != NULL;
    pg_status st = PG_OK;
    c->arg = NULL;
    c->kwargs = kwargs;
    PG_TRY(visit(c, j, is_keras3, stack, &depth, at));
    while (depth > 0) {
        frame *f = &stack[depth - 1];
        const pg__json *next = NULL;
        f->keywords |= kwargs && f->array == kwargs;
        if (pg__json_type_of(f->array) == PG_J_ARRAY)
            next = pg__json_at(f->array, f->next++);
        else if (pg__json_next(&f->members))
            next = f->members.value;
        if (f->keywords)
            c->arg = next ? f->members.key : NULL;
        if (next)
            PG_TRY(visit(c, next, f->maybe, stack, &depth, at));
        else
            depth--;
    }
done:
    c->arg = NULL;
    return st;
}

static pg_status add_call(connect *c, size_t first_ref, const pg__json *node)
{
    if (pg__mem_grow(&c->calls, &c->cap_calls, c->n_calls + 1, sizeof *c->calls))
        return pg__nomem(c->err);
    c->calls[c->n_calls++] = (raw_call){first_ref, c->n_refs - first_ref, node, c->kwargs};
    c->kwargs = NULL;
    return PG_OK;
}

static pg_status read_calls(connect *c, const pg__json *entries)
{
    pg_status st = PG_OK;
    for (size_t i = 0; i < c->m->n_layers; i++) {
        const place at = {c->m->layers[i].name, "inbound_nodes"};
        const pg__json *nodes = pg__json_get(pg__json_at(entries, i), "inbound_nodes");
        const pg__json_type t = pg__json_type_of(nodes);
        if (t != PG_J_ARRAY && t != PG_J_NONE && t != PG_J_NULL) {
            st = fail_at(c, &at, "is not a list", NULL);
            goto done;
        }
        for (size_t k = 0; k < pg__json_len(nodes); k++) {
            const size_t first = c->n_refs;
            PG_TRY(collect(c, pg__json_at(nodes, k), &at));
            PG_TRY(add_call(c, first, pg__json_at(nodes, k)));
        }
        c->first_call[i + 1] = c->n_calls;
    }
done:
    return st;
}

/* Each layer of a Sequential is called once, with the output of the one before. */
static pg_status chain_calls(connect *c)
{
    pg_status st = PG_OK;
    for (size_t i = 0; i < c->m->n_layers; i++) {
        if (i > 0) {
            PG_TRY(push_ref(c, (pg__tensor_ref){.layer = i - 1}));
            PG_TRY(add_call(c, c->n_refs - 1, NULL));
        }
        c->first_call[i + 1] = c->n_calls;
    }
done:
    return st;
}

/* Finds for each called layer the number of its first call: 0, or 1 if a model was built before it
 * was called, in which case all refs say 1. */
static void number_calls(connect *c)
{
    for (size_t i = 0; i < c->n_refs; i++) {
        pg__layer *l = &c->m->layers[c->refs[i].layer];
        int weightless;
        if (l->n_calls > 0 && c->refs[i].node == l->n_calls &&
            (l->model || !pg__class_known(l->class_name, &weightless)))
            l->first_node = 1;
    }
}

static int is_input(const pg__layer *l)
{
    return strcmp(l->class_name, "InputLayer") == 0;
}

/* Does ref lead to a call and a tensor that exist? */
static pg_status check_ref(const connect *c, pg__tensor_ref ref, const place *at)
{
    const pg__layer *l = &c->m->layers[ref.layer];
    int weightless;
    const int known = pg__class_known(l->class_name, &weightless);
    const int uncalled_is_fine = l->n_calls == 0 && (is_input(l) || c->m->sequential || !known);
    if (uncalled_is_fine ? ref.node != 0
                         : ref.node < l->first_node || ref.node - l->first_node >= l->n_calls)
        return fail_at(c, at, "has a node index out of range for layer", l->name);
    const int many = l->model ? ref.tensor < l->model->n_outputs
                              : !known || !pg__class_has_one_output(l->class_name);
    if (ref.tensor > 0 && !many)
        return fail_at(c, at, "has a tensor index out of range for layer", l->name);
    return PG_OK;
}

static pg_status check_refs(const connect *c)
{
    pg_status st = PG_OK;
    pg__model *m = c->m;
    for (size_t i = 0; i < m->n_layers; i++) {
        const place at = {m->layers[i].name, "inbound_nodes"};
        for (size_t k = 0; k < m->layers[i].n_calls; k++)
            for (size_t r = 0; r < m->layers[i].calls[k].n_inputs; r++)
                PG_TRY(check_ref(c, m->layers[i].calls[k].inputs[r], &at));
    }
    for (size_t i = 0; i < m->n_inputs; i++)
        PG_TRY(check_ref(c, m->inputs[i], &(place){NULL, "input_layers"}));
    for (size_t i = 0; i < m->n_outputs; i++)
        PG_TRY(check_ref(c, m->outputs[i], &(place){NULL, "output_layers"}));
done:
    return st;
}

/* Index of the call that ref leads to, or SIZE_MAX for an uncalled layer. */
static size_t call_index(const connect *c, pg__tensor_ref ref)
{
    const pg__layer *l = &c->m->layers[ref.layer];
    return l->n_calls ? c->first_call[ref.layer] + ref.node - l->first_node : SIZE_MAX;
}

/* Finds a layer on a cycle among the calls that wait for ever: going from a call to one that it
 * waits for must come back. */
static size_t layer_on_cycle(const connect *c, const size_t *waits)
{
    size_t layer = 0, call = 0;
    while (waits[call] == 0)
        call++;
    for (size_t steps = 0; steps <= c->n_calls; steps++) {
        const raw_call *rc = &c->calls[call];
        for (size_t r = 0; r < rc->n; r++) {
            const size_t from = call_index(c, c->refs[rc->first + r]);
            if (from != SIZE_MAX && waits[from]) {
                call = from;
                layer = c->refs[rc->first + r].layer;
                break;
            }
        }
    }
    return layer;
}

/* Kahn's algorithm over the calls: every call must get its turn. */
static pg_status check_cycles(const connect *c)
{
    pg_status st = PG_OK;
    const size_t n = c->n_calls;
    size_t *waits = pg__mem_array(n, sizeof *waits); /* inputs of a call that are still missing */
    size_t *first = pg__mem_array(n + 2, sizeof *first); /* of a call's users, in `users` */
    size_t *users = pg__mem_array(c->n_refs, sizeof *users);
    size_t *ready = pg__mem_array(n, sizeof *ready), n_ready = 0, n_done = 0;
    if (!waits || !first || !users || !ready) {
        st = pg__nomem(c->err);
        goto done;
    }
    for (size_t i = 0; i < n; i++)
        for (size_t r = 0; r < c->calls[i].n; r++) {
            const size_t from = call_index(c, c->refs[c->calls[i].first + r]);
            if (from != SIZE_MAX)
                waits[i]++, first[from + 2]++;
        }
    for (size_t i = 2; i < n + 2; i++)
        first[i] += first[i - 1];
    for (size_t i = 0; i < n; i++)
        for (size_t r = 0; r < c->calls[i].n; r++) {
            const size_t from = call_index(c, c->refs[c->calls[i].first + r]);
            if (from != SIZE_MAX)
                users[first[from + 1]++] = i;
        }
    for (size_t i = 0; i < n; i++)
        if (waits[i] == 0)
            ready[n_ready++] = i;
    while (n_done < n_ready) {
        const size_t call = ready[n_done++];
        for (size_t u = first[call]; u < first[call + 1]; u++)
            if (--waits[users[u]] == 0)
                ready[n_ready++] = users[u];
    }
    if (n_done < n)
        st = pg_fail(c->err, PG_E_FORMAT, "%s: \"inbound_nodes\" lead back to this layer (cycle)",
                     PG_SHOW(c->m->layers[layer_on_cycle(c, waits)].name));
done:
    pg__mem_free(waits);
    pg__mem_free(first);
    pg__mem_free(users);
    pg__mem_free(ready);
    return st;
}

/* The arrays have their final place: calls and layers may point into them. */
static pg_status settle(connect *c)
{
    pg__model *m = c->m;
    pg__call *calls = pg__mem_array(c->n_calls, sizeof *calls);
    if (!calls)
        return pg__nomem(c->err);
    for (size_t i = 0; i < c->n_calls; i++)
        calls[i] = (pg__call){.inputs = c->refs ? c->refs + c->calls[i].first : NULL,
                              .args = c->args ? c->args + c->calls[i].first : NULL,
                              .n_inputs = c->calls[i].n,
                              .node = c->calls[i].node,
                              .kwargs = c->calls[i].kwargs};
    for (size_t i = 0; i < m->n_layers; i++) {
        m->layers[i].calls = calls + c->first_call[i];
        m->layers[i].n_calls = c->first_call[i + 1] - c->first_call[i];
    }
    m->call_mem = calls;
    m->ref_mem = c->refs;
    m->arg_mem = c->args;
    return PG_OK;
}

/* The ends of a Sequential: its first and its last layer. */
static pg_status sequential_ends(connect *c, size_t *n_in, size_t *n_out)
{
    if (c->m->n_layers == 0)
        return PG_OK;
    *n_in = *n_out = 1;
    const pg_status st = push_ref(c, (pg__tensor_ref){.layer = 0});
    return st != PG_OK ? st : push_ref(c, (pg__tensor_ref){.layer = c->m->n_layers - 1});
}

pg_status pg__graph_connect(pg__model *m, pg_err *err)
{
    const pg__json *inputs = pg__json_get(m->config, "input_layers");
    const pg__json *outputs = pg__json_get(m->config, "output_layers");
    connect c = {.m = m, .err = err};
    pg_status st = PG_OK;
    size_t n_in = 0, n_out = 0;

    c.first_call = pg__mem_array(m->n_layers + 1, sizeof *c.first_call);
    if (!c.first_call) {
        st = pg__nomem(err);
        goto done;
    }
    if (m->sequential) {
        PG_TRY(chain_calls(&c));
        PG_TRY(sequential_ends(&c, &n_in, &n_out));
    } else if (inputs) {
        PG_TRY(read_calls(&c, m->entries));
        const size_t first = c.n_refs;
        PG_TRY(collect(&c, inputs, &(place){NULL, "input_layers"}));
        n_in = c.n_refs - first;
        if (!outputs)
            PG_TRY(fail_at(&c, &(place){NULL, "output_layers"}, "is missing", NULL));
        PG_TRY(collect(&c, outputs, &(place){NULL, "output_layers"}));
        n_out = c.n_refs - first - n_in;
    }
    PG_TRY(settle(&c));
    if (c.refs) {
        m->inputs = c.refs + (c.n_refs - n_out - n_in);
        m->outputs = c.refs + (c.n_refs - n_out);
    }
    m->n_inputs = n_in;
    m->n_outputs = n_out;
    number_calls(&c);
    PG_TRY(check_refs(&c));
    PG_TRY(check_cycles(&c));
done:
    if (!m->call_mem) { /* not settled */
        pg__mem_free(c.refs);
        pg__mem_free(c.args);
    }
    pg__mem_free(c.calls);
    pg__mem_free(c.first_call);
    return st;
}

const pg__call *pg__call_of(const pg__model *m, pg__tensor_ref ref)
{
    const pg__layer *l = &m->layers[ref.layer];
    return l->n_calls ? &l->calls[ref.node - l->first_node] : NULL;
}

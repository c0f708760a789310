/* frame.c - an ONNX graph as a message, all but the initialisers, which go into the file from their
 * source. */
#include <stdio.h>
#include <string.h>

#include "base/try.h"
#include "format/onnx.h"
#include "onnx/onnx.h"
#include "pg/version.h"

/* ---- nodes ---- */

static pg_status add_names(pg__str *to, const pg__onnx *x, uint32_t field, const pg__onnx_name *v,
                           size_t n, pg_err *err)
{
    pg_status st = PG_OK;
    for (size_t k = 0; k < n; k++)
        PG_TRY(
            pg__proto_put_text(to, field, v[k] == PG_ONNX_ABSENT ? "" : x->g.names.v[v[k]], err));
done:
    return st;
}

static pg_status add_node(pg__str *graph, const pg__onnx *x, const pg__onnx_node *n, pg_err *err);

/* What a body takes or gives: numbers, of a type that follows from the operands outside. */
static pg_status add_inner_values(pg__str *graph, const pg__onnx *x, uint32_t field,
                                  const pg__onnx_name *v, size_t n, pg_err *err)
{
    pg__str value = {0};
    pg_status st = PG_OK;
    for (size_t k = 0; k < n; k++) {
        value.n = 0;
        PG_TRY(add_names(&value, x, PG_ONNX_VALUE_NAME, &v[k], 1, err));
        PG_TRY(pg__proto_put_bytes(graph, field, value.s, value.n, err));
    }
done:
    pg__str_fini(&value);
    return st;
}

static pg_status add_body(pg__str *to, const pg__onnx *x, const pg__onnx_node *n, pg_err *err)
{
    const pg__onnx_name *v = x->g.operands + n->body;
    pg__str graph = {0}, attr = {0};
    pg_status st = PG_OK;
    for (const pg__onnx_node *inner = n - n->n_body; inner < n; inner++)
        if (!inner->is_dead)
            PG_TRY(add_node(&graph, x, inner, err));
    PG_TRY(pg__proto_put_text(&graph, PG_ONNX_GRAPH_NAME, "body", err));
    PG_TRY(add_inner_values(&graph, x, PG_ONNX_INPUT, v, n->n_body_in, err));
    PG_TRY(add_inner_values(&graph, x, PG_ONNX_OUTPUT, v + n->n_body_in, n->n_body_out, err));
    PG_TRY(pg__proto_put_text(&attr, PG_ONNX_ATTR_NAME, "body", err));
    PG_TRY(pg__proto_put_bytes(&attr, PG_ONNX_ATTR_G, graph.s, graph.n, err));
    PG_TRY(pg__proto_put_int(&attr, PG_ONNX_ATTR_TYPE, PG_ONNX_GRAPH_ATTR, err));
    PG_TRY(pg__proto_put_bytes(to, PG_ONNX_NODE_ATTR, attr.s, attr.n, err));
done:
    pg__str_fini(&graph);
    pg__str_fini(&attr);
    return st;
}

static pg_status add_node(pg__str *graph, const pg__onnx *x, const pg__onnx_node *n, pg_err *err)
{
    const pg__onnx_name *v = x->g.operands + n->first;
    pg__str node = {0};
    pg_status st = PG_OK;
    PG_TRY(add_names(&node, x, PG_ONNX_NODE_INPUT, v, n->n_in, err));
    PG_TRY(add_names(&node, x, PG_ONNX_NODE_OUTPUT, v + n->n_in, n->n_out, err));
    for (uint32_t k = 0; k < n->n_out; k++) /* as its first result */
        if (v[n->n_in + k] != PG_ONNX_ABSENT) {
            PG_TRY(add_names(&node, x, PG_ONNX_NODE_NAME, &v[n->n_in + k], 1, err));
            break;
        }
    PG_TRY(pg__proto_put_text(&node, PG_ONNX_NODE_OP, n->op, err));
    if (n->n_attr)
        PG_TRY(pg__str_add(&node, x->g.attrs.s + n->attr, n->n_attr, err));
    if (n->n_body)
        PG_TRY(add_body(&node, x, n, err));
    PG_TRY(pg__proto_put_bytes(graph, PG_ONNX_NODE, node.s, node.n, err));
done:
    pg__str_fini(&node);
    return st;
}

/* ---- inputs and outputs ---- */

static pg_status add_dim(pg__str *shape, uint64_t size, const char *param, pg_err *err)
{
    pg__str dim = {0};
    pg_status st = PG_OK;
    if (size != PG_DIM_ANY)
        PG_TRY(pg__proto_put_int(&dim, PG_ONNX_DIM_VALUE, (int64_t)size, err));
    else if (param)
        PG_TRY(pg__proto_put_text(&dim, PG_ONNX_DIM_PARAM, param, err));
    PG_TRY(pg__proto_put_bytes(shape, PG_ONNX_DIM, dim.s, dim.n, err));
done:
    pg__str_fini(&dim);
    return st;
}

static pg_status add_shape(pg__str *type, const pg__onnx *x, pg__val v, pg_err *err)
{
    const pg__dims *d = pg__onnx_dims(x, v);
    const pg__onnx_perm p = pg__onnx_is_image(x, v) ? pg__onnx_first(4) : pg__onnx_plain();
    pg__str shape = {0};
    pg_status st = PG_OK;
    for (uint32_t k = 0; k < d->rank; k++) {
        const uint32_t sym = x->values[v].sym[p.p[k]];
        PG_TRY(add_dim(&shape, d->d[p.p[k]], sym ? x->syms[sym - 1].param : NULL, err));
    }
    PG_TRY(pg__proto_put_bytes(type, PG_ONNX_SHAPE, shape.s, shape.n, err));
done:
    pg__str_fini(&shape);
    return st;
}

static pg_status add_value(pg__str *graph, const pg__onnx *x, uint32_t field, pg__onnx_name name,
                           pg_dtype dtype, pg__val v, pg_err *err)
{
    pg__str tensor = {0}, type = {0}, value = {0};
    pg_status st = PG_OK;
    PG_TRY(pg__proto_put_int(&tensor, PG_ONNX_ELEM_TYPE, pg__onnx_type_of(dtype), err));
    PG_TRY(add_shape(&tensor, x, v, err));
    PG_TRY(pg__proto_put_bytes(&type, PG_ONNX_TYPE_TENSOR, tensor.s, tensor.n, err));
    PG_TRY(add_names(&value, x, PG_ONNX_VALUE_NAME, &name, 1, err));
    PG_TRY(pg__proto_put_bytes(&value, PG_ONNX_VALUE_TYPE, type.s, type.n, err));
    PG_TRY(pg__proto_put_bytes(graph, field, value.s, value.n, err));
done:
    pg__str_fini(&tensor);
    pg__str_fini(&type);
    pg__str_fini(&value);
    return st;
}

static pg_status add_values(pg__str *graph, const pg__onnx *x, pg_err *err)
{
    const pg__lowered *m = x->low;
    pg_status st = PG_OK;
    for (size_t k = 0; k < x->n_inputs; k++)
        PG_TRY(add_value(graph, x, PG_ONNX_INPUT, x->inputs[k], x->input_types[k],
                         k < m->n_inputs ? m->inputs[k] : m->states[k - m->n_inputs].before, err));
    for (size_t k = 0; k < x->n_outputs; k++) {
        const pg__state *s = k < m->n_outputs ? NULL : &m->states[k - m->n_outputs];
        const pg__val v = s ? s->after : m->outputs[k];
        const pg_dtype type = x->tape->values[v].elem == PG_ELEM_INT ? PG_I32
                              : s                                    ? pg__onnx_real(x, s->before)
                                                                     : PG_F32;
        PG_TRY(add_value(graph, x, PG_ONNX_OUTPUT, x->outputs[k], type, v, err));
    }
done:
    return st;
}

static pg_status add_graph(pg__str *out, const pg__onnx *x, pg_err *err)
{
    const char *name = x->model->root->name;
    pg__str graph = {0};
    pg_status st = PG_OK;
    for (size_t k = 0; k < x->g.n_nodes; k++)
        if (!x->g.nodes[k].is_dead && !x->g.nodes[k].is_inner)
            PG_TRY(add_node(&graph, x, &x->g.nodes[k], err));
    PG_TRY(pg__proto_put_text(&graph, PG_ONNX_GRAPH_NAME, name && *name ? name : "model", err));
    PG_TRY(add_values(&graph, x, err));
    PG_TRY(pg__proto_put_bytes(out, PG_ONNX_GRAPH, graph.s, graph.n, err));
done:
    pg__str_fini(&graph);
    return st;
}

/* ---- the model ---- */

/* The oldest version of the format that has the opset; onnx/helper.py. */
static int64_t ir_version(int64_t opset)
{
    static const struct {
        int64_t opset, ir;
    } table[] = {{15, 7}, {19, 8}, {21, 9}, {23, 10}, {24, 11}};
    for (size_t k = 0; k < sizeof table / sizeof *table; k++)
        if (opset < table[k].opset)
            return table[k].ir;
    return 12;
}

static pg_status add_metadata(pg__str *out, const pg__onnx *x, pg_err *err)
{
    pg__str json = {0}, key = {0}, value = {0}, entry = {0};
    pg_status st = PG_OK;
    PG_TRY(pg__str_puts(&json, "{", err));
    PG_TRY(pg__add_provenance(&json, x->weights, &x->o->write, err));
    PG_TRY(pg__str_puts(&json, "}", err));
    for (pg__json_walk w = pg__json_walk_of(json.s, (pg__json_span){0, json.n});
         pg__json_walk_next(&w);) {
        key.n = value.n = entry.n = 0;
        PG_TRY(pg__json_unquote(&key, json.s, w.key, err));
        PG_TRY(pg__json_unquote(&value, json.s, w.value, err));
        PG_TRY(pg__proto_put_bytes(&entry, PG_ONNX_KEY, key.s, key.n, err));
        PG_TRY(pg__proto_put_bytes(&entry, PG_ONNX_VALUE, value.s, value.n, err));
        PG_TRY(pg__proto_put_bytes(out, PG_ONNX_METADATA, entry.s, entry.n, err));
    }
done:
    pg__str_fini(&json);
    pg__str_fini(&key);
    pg__str_fini(&value);
    pg__str_fini(&entry);
    return st;
}

static pg_status add_doc(pg__str *out, const pg__onnx *x, pg_err *err)
{
    const char *version = pg__json_get_str(x->model->json, "keras_version");
    pg__str doc = {0};
    pg_status st = PG_OK;
    PG_TRY(pg__str_printf(&doc, err, "A Keras model%s%s in inference mode, %s.",
                          version ? " of Keras " : "", version ? version : "",
                          x->o->channels_first ? "images with channels first"
                                               : "layouts as in Keras"));
    PG_TRY(pg__proto_put_text(out, PG_ONNX_DOC, doc.s, err));
done:
    pg__str_fini(&doc);
    return st;
}

pg_status pg__onnx_frame(pg__str *out, const pg__onnx *x, pg_err *err)
{
    pg__str opset = {0};
    pg_status st = PG_OK;
    PG_TRY(pg__proto_put_int(out, PG_ONNX_IR_VERSION, ir_version(x->opset), err));
    PG_TRY(pg__proto_put_text(out, PG_ONNX_PRODUCER, "libpg", err));
    PG_TRY(pg__proto_put_text(out, PG_ONNX_PRODUCER_VERSION, PG_VERSION, err));
    PG_TRY(add_doc(out, x, err));
    PG_TRY(pg__proto_put_text(&opset, PG_ONNX_OPSET_DOMAIN, "", err));
    PG_TRY(pg__proto_put_int(&opset, PG_ONNX_OPSET_VERSION, x->opset, err));
    PG_TRY(pg__proto_put_bytes(out, PG_ONNX_OPSET, opset.s, opset.n, err));
    PG_TRY(add_metadata(out, x, err));
    PG_TRY(add_graph(out, x, err));
done:
    pg__str_fini(&opset);
    return st;
}

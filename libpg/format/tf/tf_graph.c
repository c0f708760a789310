/* tf_graph.c - the object graph in a checkpoint: which object holds which, under what name
 * (tensorflow/core/protobuf/trackable_object_graph.proto). */
#include <string.h>

#include "base/limits.h"
#include "base/mem.h"
#include "base/proto.h"
#include "base/try.h"
#include "format/tf/tf.h"

static pg_status damaged(pg_err *err)
{
    return pg_fail(err, PG_E_FORMAT, "its object graph makes no sense");
}

static pg_status add_edge(pg__tf_graph *g, pg__tf_child c, pg_err *err)
{
    if (g->n_children >= PG_LIMIT_OBJECTS)
        return pg_fail(err, PG_E_LIMIT, "an object graph of more than %s edges",
                       PG_NUM(PG_LIMIT_OBJECTS));
    if (pg__mem_grow(&g->children, &g->cap_children, g->n_children + 1, sizeof c))
        return pg__nomem(err);
    g->children[g->n_children++] = c;
    return PG_OK;
}

/* {1 node_id, 2 local_name} */
static pg_status add_child(pg__tf_graph *g, pg__proto m, pg_err *err)
{
    pg__field f;
    pg__tf_child c = {.name = ""};
    while (pg__proto_next(&m, &f)) {
        if (f.number == 1 && f.type == PG_PROTO_VARINT)
            c.node = f.value > UINT32_MAX ? UINT32_MAX : (uint32_t)f.value;
        if (f.number == 2 && f.type == PG_PROTO_BYTES) {
            c.name = (const char *)f.bytes;
            c.n_name = f.n;
        }
    }
    return m.bad ? damaged(err) : add_edge(g, c, err);
}

/* {1 name, 2 full_name, 3 checkpoint_key}; others than a variable's value (a table's keys) are no
 * tensors of a model. */
static pg_status read_attribute(pg__tf_node *n, pg__proto m, pg_err *err)
{
    static const char value[] = "VARIABLE_VALUE";
    pg__field f;
    const char *text[4] = {NULL, "", "", ""};
    size_t len[4] = {0};
    while (pg__proto_next(&m, &f))
        if (f.number >= 1 && f.number <= 3 && f.type == PG_PROTO_BYTES) {
            text[f.number] = (const char *)f.bytes;
            len[f.number] = f.n;
        }
    if (m.bad)
        return damaged(err);
    if (len[1] != sizeof value - 1 || memcmp(text[1], value, len[1]) != 0)
        return PG_OK;
    n->full = text[2];
    n->n_full = len[2];
    n->key = text[3];
    n->n_key = len[3];
    return PG_OK;
}

/* {1 original_variable_node_id, 2 slot_name, 3 slot_variable_node_id}; kept as a child without a
 * name until all nodes are there. */
static pg_status add_slot(pg__tf_graph *g, pg__proto m, pg_err *err)
{
    pg__field f;
    uint64_t node = 0;
    while (pg__proto_next(&m, &f))
        if (f.number == 3 && f.type == PG_PROTO_VARINT)
            node = f.value;
    if (m.bad)
        return damaged(err);
    return add_edge(g, (pg__tf_child){.node = node > UINT32_MAX ? UINT32_MAX : (uint32_t)node},
                    err);
}

/* {repeated 1 children, repeated 2 attributes, repeated 3 slot_variables} */
static pg_status add_node(pg__tf_graph *g, pg__proto m, pg_err *err)
{
    pg_status st = PG_OK;
    pg__field f;
    pg__tf_node n = {.first = g->n_children};
    while (pg__proto_next(&m, &f)) {
        const pg__proto inner = {f.bytes, f.n, 0};
        if (f.type != PG_PROTO_BYTES)
            continue;
        if (f.number == 1)
            PG_TRY(add_child(g, inner, err));
        else if (f.number == 2)
            PG_TRY(read_attribute(&n, inner, err));
        else if (f.number == 3)
            PG_TRY(add_slot(g, inner, err));
        n.has_slots |= f.number == 3;
    }
    if (m.bad)
        return damaged(err);
    n.n = g->n_children - n.first;
    if (g->n == PG_LIMIT_OBJECTS)
        return pg_fail(err, PG_E_LIMIT, "an object graph of more than %s nodes",
                       PG_NUM(PG_LIMIT_OBJECTS));
    if (pg__mem_grow(&g->nodes, &g->cap, g->n + 1, sizeof n))
        return pg__nomem(err);
    g->nodes[g->n++] = n;
done:
    return st;
}

pg_status pg__tf_graph_read(pg__tf_graph *out, const char *text, size_t n, pg_err *err)
{
    pg_status st = PG_OK;
    pg__tf_graph g = {0};
    pg__field f;
    pg__proto m = {(const unsigned char *)text, n, 0};
    while (pg__proto_next(&m, &f))
        if (f.number == 1 && f.type == PG_PROTO_BYTES)
            PG_TRY(add_node(&g, (pg__proto){f.bytes, f.n, 0}, err));
    if (m.bad || g.n == 0) {
        st = damaged(err);
        goto done;
    }
    for (size_t i = 0; i < g.n_children; i++) {
        if (g.children[i].node >= g.n) {
            st = damaged(err);
            goto done;
        }
        if (!g.children[i].name)
            g.nodes[g.children[i].node].is_slot = 1;
    }
    *out = g;
    g = (pg__tf_graph){0};
done:
    pg__tf_graph_fini(&g);
    return st;
}

void pg__tf_graph_fini(pg__tf_graph *g)
{
    pg__mem_free(g->nodes);
    pg__mem_free(g->children);
    *g = (pg__tf_graph){0};
}

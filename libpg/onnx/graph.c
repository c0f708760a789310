/* graph.c - the parts of an ONNX graph: names, nodes, initialisers. */
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/try.h"
#include "onnx/onnx.h"

static void free_init(const pg__onnx_init *i)
{
    pg__mem_free(i->values);
    pg__mem_free(i->factors);
    pg__mem_free(i->scales);
}

void pg__onnx_graph_fini(pg__onnx_graph *g)
{
    for (size_t i = 0; i < g->n_inits; i++)
        free_init(&g->inits[i]);
    pg__mem_free(g->inits);
    pg__mem_free(g->nodes);
    pg__mem_free(g->operands);
    pg__mem_free(g->buckets);
    pg__strs_fini(&g->names);
    pg__str_fini(&g->attrs);
    *g = (pg__onnx_graph){.n_nodes = 0};
}

/* ---- names ---- */

/* The bucket of a name: that of its entry, or the free one where it belongs. */
static uint32_t *bucket_of(const pg__onnx_graph *g, const char *name)
{
    size_t at = pg__crc32(0, name, strlen(name)) % g->n_buckets;
    while (g->buckets[at] && strcmp(g->names.v[g->buckets[at] - 1], name) != 0)
        at = (at + 1) % g->n_buckets;
    return &g->buckets[at];
}

static pg_status make_room(pg__onnx_graph *g, pg_err *err)
{
    if (2 * (g->names.n + 1) < g->n_buckets)
        return PG_OK;
    g->n_buckets = g->n_buckets ? 4 * g->n_buckets : 1024;
    pg__mem_free(g->buckets);
    g->buckets = pg__mem_array(g->n_buckets, sizeof *g->buckets);
    if (!g->buckets)
        return pg__nomem(err);
    for (size_t i = 0; i < g->names.n; i++)
        *bucket_of(g, g->names.v[i]) = (uint32_t)i + 1;
    return PG_OK;
}

pg_status pg__onnx_new_name(pg__onnx_graph *g, const char *like, pg__onnx_name *out, pg_err *err)
{
    pg__str name = {0};
    pg_status st = PG_OK;
    PG_TRY(make_room(g, err));
    PG_TRY(pg__str_puts(&name, *like ? like : "tensor", err));
    for (size_t k = 1; *bucket_of(g, name.s); k++) {
        name.n = 0;
        PG_TRY(pg__str_printf(&name, err, "%s_%zu", like, k));
    }
    PG_TRY(pg__strs_add(&g->names, name.s, name.n, err));
    *bucket_of(g, name.s) = (uint32_t)g->names.n;
    *out = (pg__onnx_name)g->names.n - 1;
done:
    pg__str_fini(&name);
    return st;
}

pg_status pg__onnx_rename(pg__onnx_graph *g, pg__onnx_name which, const char *to, pg_err *err)
{
    const uint32_t holder = *bucket_of(g, to);
    char *copy;
    pg__onnx_name moved;
    pg_status st = PG_OK;
    if (holder == which + 1)
        return PG_OK;
    copy = pg__mem_strdup(to);
    if (!copy)
        return pg__nomem(err);
    if (holder) { /* what had the name by chance gets another one */
        PG_TRY(pg__onnx_new_name(g, to, &moved, err));
        char *other = g->names.v[moved];
        g->names.v[moved] = g->names.v[holder - 1];
        g->names.v[holder - 1] = other;
    }
    pg__mem_free(g->names.v[which]);
    g->names.v[which] = copy;
    copy = NULL;
    memset(g->buckets, 0, g->n_buckets * sizeof *g->buckets);
    for (size_t i = 0; i < g->names.n; i++)
        *bucket_of(g, g->names.v[i]) = (uint32_t)i + 1;
done:
    pg__mem_free(copy);
    return st;
}

/* ---- nodes and initialisers ---- */

pg_status pg__onnx_add_node(pg__onnx_graph *g, const char *op, const pg__str *attrs,
                            const pg__onnx_name *in, size_t n_in, const pg__onnx_name *out,
                            size_t n_out, pg_err *err)
{
    pg__onnx_node n = {.op = op,
                       .first = (uint32_t)g->n_operands,
                       .n_in = (uint32_t)n_in,
                       .n_out = (uint32_t)n_out,
                       .attr = g->attrs.n};
    while (n.n_in > 0 && in[n.n_in - 1] == PG_ONNX_ABSENT) /* at the end they are left out */
        n.n_in--;
    if (pg__mem_grow(&g->operands, &g->cap_operands, g->n_operands + n.n_in + n_out,
                     sizeof *g->operands) ||
        pg__mem_grow(&g->nodes, &g->cap_nodes, g->n_nodes + 1, sizeof *g->nodes))
        return pg__nomem(err);
    for (size_t k = 0; k < n.n_in; k++)
        g->operands[g->n_operands++] = in[k];
    for (size_t k = 0; k < n_out; k++)
        g->operands[g->n_operands++] = out[k];
    if (attrs && attrs->n) {
        const pg_status st = pg__str_add(&g->attrs, attrs->s, attrs->n, err);
        if (st != PG_OK)
            return st;
    }
    n.n_attr = g->attrs.n - n.attr;
    g->nodes[g->n_nodes++] = n;
    return PG_OK;
}

pg_status pg__onnx_add_body(pg__onnx_graph *g, size_t first, const pg__onnx_name *in, size_t n_in,
                            const pg__onnx_name *out, size_t n_out, pg_err *err)
{
    pg__onnx_node *n = &g->nodes[g->n_nodes - 1];
    if (pg__mem_grow(&g->operands, &g->cap_operands, g->n_operands + n_in + n_out,
                     sizeof *g->operands))
        return pg__nomem(err);
    n->n_body = g->n_nodes - 1 - first;
    n->body = (uint32_t)g->n_operands;
    n->n_body_in = (uint32_t)n_in;
    n->n_body_out = (uint32_t)n_out;
    for (size_t k = 0; k < n_in; k++)
        g->operands[g->n_operands++] = in[k];
    for (size_t k = 0; k < n_out; k++)
        g->operands[g->n_operands++] = out[k];
    for (size_t k = first; k < g->n_nodes - 1; k++)
        g->nodes[k].is_inner = 1;
    return PG_OK;
}

pg_status pg__onnx_add_init(pg__onnx_graph *g, const pg__onnx_init *i, pg_err *err)
{
    if (pg__mem_grow(&g->inits, &g->cap_inits, g->n_inits + 1, sizeof *g->inits)) {
        free_init(i);
        return pg__nomem(err);
    }
    g->inits[g->n_inits++] = *i;
    return PG_OK;
}

static void drop_inits(pg__onnx_graph *g, const unsigned char *live)
{
    size_t n = 0;
    for (size_t i = 0; i < g->n_inits; i++) {
        if (live[g->inits[i].name] || g->inits[i].is_optional) {
            g->inits[n++] = g->inits[i];
            continue;
        }
        free_init(&g->inits[i]);
    }
    g->n_inits = n;
}

pg_status pg__onnx_prune(pg__onnx_graph *g, const pg__onnx_name *outputs, size_t n, pg_err *err)
{
    unsigned char *live = pg__mem_array(g->names.n, 1);
    if (!live)
        return pg__nomem(err);
    for (size_t k = 0; k < n; k++)
        live[outputs[k]] = 1;
    for (size_t at = g->n_nodes; at-- > 0;) {
        pg__onnx_node *node = &g->nodes[at];
        const pg__onnx_name *v = g->operands + node->first;
        int used = 0;
        for (uint32_t k = 0; k < node->n_out; k++)
            used |= v[node->n_in + k] != PG_ONNX_ABSENT && live[v[node->n_in + k]];
        node->is_dead = !used;
        for (uint32_t k = 0; used && k < node->n_in; k++)
            if (v[k] != PG_ONNX_ABSENT)
                live[v[k]] = 1;
        for (uint32_t k = 0; used && k < node->n_body_out; k++)
            live[g->operands[node->body + node->n_body_in + k]] = 1;
    }
    drop_inits(g, live);
    pg__mem_free(live);
    return PG_OK;
}

static int is_concat(const pg__onnx_node *n)
{
    return !n->is_dead && !n->is_inner && strcmp(n->op, "Concat") == 0;
}

/* Of names: how often they are read; of those that a Concat makes, 1 + its index. */
static void count_uses(const pg__onnx_graph *g, const pg__onnx_name *outputs, size_t n,
                       uint32_t *uses, size_t *makers)
{
    for (size_t k = 0; k < n; k++)
        uses[outputs[k]]++;
    for (size_t at = 0; at < g->n_nodes; at++) {
        const pg__onnx_node *node = &g->nodes[at];
        const pg__onnx_name *v = g->operands + node->first;
        for (uint32_t k = 0; !node->is_dead && k < node->n_in; k++)
            if (v[k] != PG_ONNX_ABSENT)
                uses[v[k]]++;
        for (uint32_t k = 0; !node->is_dead && k < node->n_body_out; k++)
            uses[g->operands[node->body + node->n_body_in + k]]++;
        if (is_concat(node))
            makers[v[node->n_in]] = at + 1;
    }
}

/* The Concat along the same axis that makes v for this one alone. */
static pg__onnx_node *before(const pg__onnx_graph *g, const pg__onnx_node *node, pg__onnx_name v,
                             const uint32_t *uses, const size_t *makers)
{
    pg__onnx_node *m = v != PG_ONNX_ABSENT && makers[v] ? &g->nodes[makers[v] - 1] : NULL;
    return m && uses[v] == 1 && m->n_attr == node->n_attr &&
                   memcmp(g->attrs.s + m->attr, g->attrs.s + node->attr, m->n_attr) == 0
               ? m
               : NULL;
}

static pg_status join(pg__onnx_graph *g, pg__onnx_node *node, const uint32_t *uses,
                      const size_t *makers, pg_err *err)
{
    size_t n = 0;
    for (uint32_t k = 0; k < node->n_in; k++) {
        const pg__onnx_node *m = before(g, node, g->operands[node->first + k], uses, makers);
        n += m ? m->n_in : 1;
    }
    if (n == node->n_in)
        return PG_OK;
    if (pg__mem_grow(&g->operands, &g->cap_operands, g->n_operands + n + 1, sizeof *g->operands))
        return pg__nomem(err);
    const pg__onnx_name *v = g->operands + node->first;
    pg__onnx_name *to = g->operands + g->n_operands;
    for (uint32_t k = 0; k < node->n_in; k++) {
        pg__onnx_node *m = before(g, node, v[k], uses, makers);
        memcpy(to, m ? g->operands + m->first : &v[k], (m ? m->n_in : 1) * sizeof *to);
        to += m ? m->n_in : 1;
        if (m)
            m->is_dead = 1;
    }
    *to = v[node->n_in];
    node->first = (uint32_t)g->n_operands;
    node->n_in = (uint32_t)n;
    g->n_operands += n + 1;
    return PG_OK;
}

pg_status pg__onnx_join_concats(pg__onnx_graph *g, const pg__onnx_name *outputs, size_t n,
                                pg_err *err)
{
    uint32_t *uses = pg__mem_array(g->names.n, sizeof *uses);
    size_t *makers = pg__mem_array(g->names.n, sizeof *makers);
    pg_status st = uses && makers ? PG_OK : pg__nomem(err);
    if (st == PG_OK)
        count_uses(g, outputs, n, uses, makers);
    for (size_t at = 0; st == PG_OK && at < g->n_nodes; at++)
        if (is_concat(&g->nodes[at]))
            st = join(g, &g->nodes[at], uses, makers, err);
    pg__mem_free(uses);
    pg__mem_free(makers);
    return st;
}

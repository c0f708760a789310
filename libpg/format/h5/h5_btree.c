/* h5_btree.c - version 1 B-trees (section III.A.1), level by level from the root, so that nothing
 * recurses and each node can be checked against its neighbours.
 *
 * libhdf5 finds by key and iterates by sibling pointers. Both must lead to the same entries, so
 * everything is compared: levels, siblings, keys within a node and against the parent's. */
#include <string.h>

#include "base/mem.h"
#include "format/h5/h5_impl.h"

/* The nodes of one level: address, then the parent's keys on both sides (none for the root). */
typedef struct row {
    uint8_t *bytes;
    size_t n, cap, n_each;
} row;

static uint64_t row_addr(const row *r, size_t i)
{
    uint64_t a = PG_H5_UNDEF;
    if (i < r->n)
        memcpy(&a, r->bytes + i * r->n_each, sizeof a);
    return a;
}

static pg_status row_add(row *r, uint64_t addr, const uint8_t *lo, const uint8_t *hi, size_t n_key,
                         pg_err *err)
{
    if (pg__mem_grow(&r->bytes, &r->cap, (r->n + 1) * r->n_each, 1))
        return pg__nomem(err);
    uint8_t *p = r->bytes + r->n++ * r->n_each;
    memcpy(p, &addr, sizeof addr);
    if (lo) {
        memcpy(p + sizeof addr, lo, n_key);
        memcpy(p + sizeof addr + n_key, hi, n_key);
    }
    return PG_OK;
}

typedef struct node {
    uint32_t level, n;
    uint64_t left, right;
    const uint8_t *entries; /* key child key child ... key */
} node;

static pg_status load_node(pg__h5 *h, const pg__h5_btree *t, uint64_t addr, node *nd, pg_err *err)
{
    pg_status st = PG_OK;
    pg__h5_cur c;
    const size_t n_entry = t->n_key + h->off_size;
    PG_TRY(pg__h5_load(h, addr, 8 + 2 * h->off_size + 2 * (uint64_t)t->k * n_entry + t->n_key,
                       PG_H5_P_BTREE, &c, err));
    const uint8_t *sig = pg__h5_span(&c, 4);
    const unsigned type = pg__h5_u32(&c, 1);
    nd->level = pg__h5_u32(&c, 1);
    nd->n = pg__h5_u32(&c, 2);
    nd->left = pg__h5_addr(h, &c);
    nd->right = pg__h5_addr(h, &c);
    nd->entries = c.p;
    PG_H5_NEED(!memcmp(sig, "TREE", 4) && type == t->node_type, "no B-tree node at byte %s",
               PG_H5_NUM(addr));
    PG_H5_NEED(nd->n <= 2 * t->k && nd->level <= PG_LIMIT_BTREE_LEVEL && (nd->n || !nd->level),
               "B-tree node at byte %s: level %u, %u of %u entries", PG_H5_NUM(addr), nd->level,
               nd->n, 2 * t->k);
done:
    return st;
}

static pg_status check_keys(pg__h5 *h, const pg__h5_btree *t, const node *nd, const uint8_t *bounds,
                            uint64_t addr, pg_err *err)
{
    pg_status st = PG_OK;
    const size_t n_entry = t->n_key + h->off_size;
    const uint8_t *key = nd->entries;
    int good = !bounds || !nd->n || t->order(t->ctx, bounds, key) >= 0;
    for (uint32_t i = 0; i < nd->n && good; i++, key += n_entry)
        good = t->order(t->ctx, key, key + n_entry) > 0;
    good = good && (!bounds || !nd->n || t->order(t->ctx, key, bounds + t->n_key) >= 0);
    PG_H5_NEED(good, "B-tree node at byte %s: keys out of order", PG_H5_NUM(addr));
done:
    return st;
}

static pg_status visit(pg__h5 *h, const pg__h5_btree *t, const row *r, size_t i, uint32_t *level,
                       row *below, pg_err *err)
{
    pg_status st = PG_OK;
    node nd;
    const uint64_t addr = row_addr(r, i);
    const size_t n_entry = t->n_key + h->off_size;
    const uint8_t *bounds = r->bytes + i * r->n_each + sizeof addr;
    const int root = *level == PG_H5_NONE;
    uint8_t *mine = NULL; /* the leaf callback reads other structures into walk.buf */
    PG_TRY(load_node(h, t, addr, &nd, err));
    if (root)
        *level = nd.level;
    PG_H5_NEED(nd.level == *level, "B-tree node at byte %s: level %u, not %u", PG_H5_NUM(addr),
               nd.level, *level);
    PG_H5_NEED(nd.left == (i ? row_addr(r, i - 1) : PG_H5_UNDEF) && nd.right == row_addr(r, i + 1),
               "B-tree node at byte %s: wrong siblings", PG_H5_NUM(addr));
    PG_TRY(check_keys(h, t, &nd, root ? NULL : bounds, addr, err));
    const size_t n_bytes = nd.n * n_entry + t->n_key;
    mine = pg__mem_array(n_bytes, 1);
    if (!mine)
        PG_TRY(pg__nomem(err));
    memcpy(mine, nd.entries, n_bytes);
    for (uint32_t k = 0; k < nd.n; k++) {
        const uint8_t *key = mine + k * n_entry;
        pg__h5_cur c = {.p = key + t->n_key, .end = key + n_entry};
        const uint64_t child = pg__h5_addr(h, &c);
        if (nd.level)
            PG_TRY(row_add(below, child, key, key + n_entry, t->n_key, err));
        else
            PG_TRY(t->leaf(t->ctx, key, key + n_entry, child, err));
    }
done:
    pg__mem_free(mine);
    return st;
}

pg_status pg__h5_btree_walk(pg__h5 *h, const pg__h5_btree *t, uint64_t root, pg_err *err)
{
    pg_status st = PG_OK;
    uint32_t level = PG_H5_NONE;
    row now = {.n_each = sizeof root + 2 * t->n_key}, below = now;
    PG_TRY(row_add(&now, root, NULL, NULL, 0, err));
    for (;;) {
        below.n = 0;
        for (size_t i = 0; i < now.n; i++)
            PG_TRY(visit(h, t, &now, i, &level, &below, err));
        if (level == 0)
            break;
        level--;
        const row swap = now;
        now = below;
        below = swap;
    }
done:
    pg__mem_free(now.bytes);
    pg__mem_free(below.bytes);
    return st;
}

/* h5_file.c - the basis of the walk over an HDF5 file: reads that are checked against the end of
 * the file, the table of claimed extents, the map of seen addresses, the arena, and messages.
 *
 * Metadata lies in small pieces between the tensors. They are read through a direct-mapped cache of
 * 16 KiB blocks: 10,000 groups are some 60,000 structures, but only a few thousand preads. */
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "format/h5/h5_impl.h"

#define BLOCK_BYTES ((size_t)16 << 10)
#define MAX_BLOCKS  64u

static const char *const part_names[] = {
    [PG_H5_P_SUPER] = "superblock",  [PG_H5_P_HEADER] = "object header",
    [PG_H5_P_BTREE] = "B-tree node", [PG_H5_P_SNOD] = "symbol table node",
    [PG_H5_P_HEAP] = "local heap",   [PG_H5_P_NAMES] = "names of a local heap",
    [PG_H5_P_GHEAP] = "global heap", [PG_H5_P_DATA] = "data",
    [PG_H5_P_CHUNK] = "chunk",
};

/* ---- messages */

pg_status pg__h5_bad(const pg__h5 *h, pg_err *err, pg_status code, const char *fmt, ...)
{
    char path[200], text[300];
    va_list ap;
    if (!err)
        return code;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (h->walk->obj == PG_H5_NONE)
        return pg_fail(err, code, "%s", text);
    pg__h5_path(h, h->walk->obj, path, sizeof path);
    if (h->walk->attr)
        return pg_fail(err, code, "%s: attribute %s: %s", path, PG_SHOW(h->walk->attr), text);
    return pg_fail(err, code, "%s: %s", path, text);
}

pg__h5_num pg__h5_num_of(uint64_t v)
{
    pg__h5_num out;
    char *p = out.s + sizeof out.s;
    *--p = 0;
    for (int digits = 0;; digits++) {
        if (digits && digits % 3 == 0)
            *--p = ',';
        *--p = (char)('0' + v % 10);
        v /= 10;
        if (!v)
            break;
    }
    memmove(out.s, p, (size_t)(out.s + sizeof out.s - p));
    return out;
}

/* ---- memory */

struct pg__h5_arena_block {
    struct pg__h5_arena_block *next;
    size_t n, cap;
    max_align_t bytes[];
};

void *pg__h5_take(pg__h5 *h, size_t n)
{
    struct pg__h5_arena_block *b = h->arena.top;
    if (n > SIZE_MAX / 2)
        return NULL;
    n = (n + 7) & ~(size_t)7;
    if (!b || n > b->cap - b->n) {
        size_t cap = b ? 2 * b->cap : (size_t)4 << 10;
        cap = cap > (size_t)256 << 10 ? (size_t)256 << 10 : cap; /* only memory */
        cap = n > cap ? n : cap;                                 /* only speed */
        struct pg__h5_arena_block *fresh = pg__mem_array(1, sizeof *fresh + cap);
        if (!fresh)
            return NULL;
        fresh->cap = cap;
        fresh->next = b;
        h->arena.top = b = fresh;
    }
    void *p = (char *)b->bytes + b->n;
    b->n += n;
    return p;
}

char *pg__h5_text(pg__h5 *h, const void *s, size_t n)
{
    char *p = n < SIZE_MAX ? pg__h5_take(h, n + 1) : NULL;
    if (p && n)
        memcpy(p, s, n);
    return p;
}

void pg__h5_arena_fini(pg__h5_arena *a)
{
    while (a->top) {
        struct pg__h5_arena_block *next = a->top->next;
        pg__mem_free(a->top);
        a->top = next;
    }
}

pg_status pg__h5_walk_new(pg__h5_walk **out, uint64_t n_file, pg_err *err)
{
    pg__h5_walk *w = pg__mem_array(1, sizeof *w);
    if (!w)
        return pg__nomem(err);
    w->obj = PG_H5_NONE;
    w->n_blocks = 1;
    while (w->n_blocks < MAX_BLOCKS && w->n_blocks * BLOCK_BYTES < n_file) /* only memory */
        w->n_blocks *= 2;
    const size_t block = n_file < BLOCK_BYTES ? (size_t)n_file : BLOCK_BYTES; /* only memory */
    w->cache = pg__mem_array(w->n_blocks, block);
    w->tags = pg__mem_array(w->n_blocks, sizeof *w->tags);
    if (!w->cache || !w->tags) {
        pg__h5_walk_free(w);
        return pg__nomem(err);
    }
    *out = w;
    return PG_OK;
}

void pg__h5_walk_free(pg__h5_walk *w)
{
    if (!w)
        return;
    pg__mem_free(w->links);
    pg__mem_free(w->seen.e);
    pg__mem_free(w->heaps.e);
    pg__mem_free(w->gobjs);
    pg__mem_free(w->extents);
    pg__mem_free(w->text);
    pg__mem_free(w->msgs);
    pg__mem_free(w->buf);
    pg__mem_free(w->cache);
    pg__mem_free(w->tags);
    pg__mem_free(w);
}

/* ---- reads and claims */

uint64_t pg__h5_addr(const pg__h5 *h, pg__h5_cur *c)
{
    const uint64_t v = pg__h5_uint(c, h->off_size);
    return h->off_size == 4 && v == UINT32_MAX ? PG_H5_UNDEF : v;
}

uint64_t pg__h5_len(const pg__h5 *h, pg__h5_cur *c)
{
    return pg__h5_uint(c, h->len_size);
}

static pg_status check_range(const pg__h5 *h, uint64_t addr, uint64_t n, pg__h5_part part,
                             pg_err *err)
{
    const uint64_t room = h->end - h->base;
    if (addr == PG_H5_UNDEF)
        return pg__h5_bad(h, err, PG_E_FORMAT, "%s has no address", part_names[part]);
    if (addr > room || n > room - addr)
        return pg__h5_bad(h, err, PG_E_FORMAT,
                          "%s at byte %s, %s bytes, leaves the file of %s bytes", part_names[part],
                          PG_H5_NUM(addr), PG_H5_NUM(n), PG_H5_NUM(h->end));
    return PG_OK;
}

pg_status pg__h5_own(pg__h5 *h, uint64_t addr, uint64_t n, pg__h5_part part, pg_err *err)
{
    pg__h5_walk *w = h->walk;
    const pg_status st = check_range(h, addr, n, part, err);
    if (st != PG_OK || n == 0)
        return st;
    w->n_owned += n; /* cannot wrap: neither exceeds the file's size */
    if (w->n_owned > h->end - h->base)
        return pg__h5_bad(h, err, PG_E_FORMAT, "%s at byte %s overlaps other structures (a loop?)",
                          part_names[part], PG_H5_NUM(addr));
    if (pg__mem_grow(&w->extents, &w->cap_extents, w->n_extents + 1, sizeof *w->extents))
        return pg__nomem(err);
    w->extents[w->n_extents++] = (pg__h5_extent){
        .start = h->base + addr, .end = h->base + addr + n, .obj = w->obj, .part = part};
    return PG_OK;
}

static pg_status through_cache(pg__h5 *h, uint64_t at, uint8_t *dst, size_t n, pg_err *err)
{
    pg__h5_walk *w = h->walk;
    while (n) {
        const uint64_t block = at / BLOCK_BYTES, start = block * BLOCK_BYTES;
        const size_t slot = (size_t)(block % w->n_blocks);
        const uint64_t left = pg__io_size(h->io) - start;
        const size_t have = left < BLOCK_BYTES ? (size_t)left : BLOCK_BYTES;
        uint8_t *bytes = w->cache + slot * BLOCK_BYTES;
        if (w->tags[slot] != block + 1) {
            w->tags[slot] = 0;
            const pg_status st = pg__io_read(h->io, start, bytes, have, err);
            if (st != PG_OK)
                return st;
            w->tags[slot] = block + 1;
        }
        const size_t skip = (size_t)(at - start), part = n < have - skip ? n : have - skip;
        memcpy(dst, bytes + skip, part);
        dst += part;
        at += part;
        n -= part;
    }
    return PG_OK;
}

pg_status pg__h5_fetch(pg__h5 *h, uint64_t addr, void *buf, size_t n, pg__h5_part part, pg_err *err)
{
    const pg_status st = check_range(h, addr, n, part, err);
    if (st != PG_OK)
        return st;
    if (n > BLOCK_BYTES) /* only speed: the cache would do */
        return pg__io_read(h->io, h->base + addr, buf, n, err);
    return through_cache(h, h->base + addr, buf, n, err);
}

pg_status pg__h5_load(pg__h5 *h, uint64_t addr, uint64_t n, pg__h5_part part, pg__h5_cur *c,
                      pg_err *err)
{
    pg__h5_walk *w = h->walk;
    const pg_status st = pg__h5_own(h, addr, n, part, err);
    if (st != PG_OK)
        return st;
    if (pg__mem_grow(&w->buf, &w->cap_buf, (size_t)n, 1))
        return pg__nomem(err);
    *c = (pg__h5_cur){.p = w->buf, .end = w->buf + n};
    return pg__h5_fetch(h, addr, w->buf, (size_t)n, part, err);
}

static int by_start(const void *a, const void *b)
{
    const pg__h5_extent *x = a, *y = b;
    return x->start != y->start ? (x->start < y->start ? -1 : 1)
                                : (x->end > y->end) - (x->end < y->end);
}

/* Sorts the extents and joins those that touch each other. */
static pg_status keep_used(pg__h5 *h, pg_err *err)
{
    const pg__h5_extent *e = h->walk->extents;
    const size_t n = h->walk->n_extents;
    size_t n_used = 0;
    for (size_t i = 0; i < n; i++)
        n_used += i == 0 || e[i].start != e[i - 1].end;
    h->used = pg__mem_array(n_used, sizeof *h->used);
    if (!h->used)
        return pg__nomem(err);
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || e[i].start != e[i - 1].end)
            h->used[h->n_used++].start = e[i].start;
        h->used[h->n_used - 1].end = e[i].end;
    }
    return PG_OK;
}

pg_status pg__h5_check_extents(pg__h5 *h, pg_err *err)
{
    pg__h5_walk *w = h->walk;
    char path[120];
    qsort(w->extents, w->n_extents, sizeof *w->extents, by_start);
    for (size_t i = 1; i < w->n_extents; i++) {
        const pg__h5_extent *a = &w->extents[i - 1], *b = &w->extents[i];
        if (b->start >= a->end)
            continue;
        w->obj = b->obj;
        return pg__h5_bad(h, err, PG_E_FORMAT, "%s at byte %s overlaps %s of %s",
                          part_names[b->part], PG_H5_NUM(b->start), part_names[a->part],
                          a->obj == PG_H5_NONE ? "the file"
                                               : pg__h5_path(h, a->obj, path, sizeof path));
    }
    return keep_used(h, err);
}

/* ---- map */

static size_t slot_of(const pg__h5_map *m, uint64_t key)
{
    uint64_t x = key * UINT64_C(0x9E3779B97F4A7C15);
    size_t i = (size_t)((x ^ x >> 32) & (m->cap - 1));
    while (m->e[i].key && m->e[i].key != key)
        i = (i + 1) & (m->cap - 1);
    return i;
}

pg_status pg__h5_map_put(pg__h5_map *m, uint64_t key, uint64_t value, pg_err *err)
{
    if (2 * (m->n + 1) > m->cap) {
        pg__h5_map grown = {.n = m->n, .cap = m->cap ? 2 * m->cap : 32};
        grown.e = pg__mem_array(grown.cap, sizeof *grown.e);
        if (!grown.e)
            return pg__nomem(err);
        for (size_t i = 0; i < m->cap; i++)
            if (m->e[i].key)
                grown.e[slot_of(&grown, m->e[i].key)] = m->e[i];
        pg__mem_free(m->e);
        *m = grown;
    }
    const size_t i = slot_of(m, key);
    m->n += m->e[i].key == 0;
    m->e[i] = (struct pg__h5_map_entry){.key = key, .value = value};
    return PG_OK;
}

int pg__h5_map_get(const pg__h5_map *m, uint64_t key, uint64_t *value)
{
    const size_t i = m->cap ? slot_of(m, key) : 0;
    if (!m->cap || !m->e[i].key)
        return 0;
    *value = m->e[i].value;
    return 1;
}

/* h5_header.c - object headers, versions 1 and 2 (section IV.A.1): the blocks of a header are read
 * one after the other into one buffer and cut into messages.
 *
 * Every block is claimed before it is read, so the file's size ends a chain of continuations that
 * leads back to itself. */
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "format/h5/h5_impl.h"

enum { NIL = 0, CONTINUATION = 0x10, REFERENCES = 0x16, LAST_KNOWN = 0x18 };

/* How the blocks of the current header are written. */
typedef struct shape {
    int v2;
    size_t n_prefix; /* bytes before a message */
} shape;

pg__h5_cur pg__h5_msg_cur(const pg__h5 *h, const pg__h5_msg *m)
{
    const uint8_t *p = h->walk->text + m->off;
    return (pg__h5_cur){.p = p, .end = p + m->n};
}

/* Claims a block and appends it to walk.text. */
static pg_status add_block(pg__h5 *h, uint64_t addr, uint64_t n, pg_err *err)
{
    pg__h5_walk *w = h->walk;
    const pg_status st = pg__h5_own(h, addr, n, PG_H5_P_HEADER, err);
    if (st != PG_OK)
        return st;
    if (pg__mem_grow(&w->text, &w->cap_text, w->n_text + (size_t)n, 1))
        return pg__nomem(err);
    w->n_text += (size_t)n;
    return pg__h5_fetch(h, addr, w->text + w->n_text - n, (size_t)n, PG_H5_P_HEADER, err);
}

static pg_status check_flags(pg__h5 *h, uint32_t type, unsigned flags, pg_err *err)
{
    pg_status st = PG_OK;
    if (flags & 0x42)
        PG_H5_UNCOVERED("shared object header message is not supported");
    /* the others concern messages that a writer did not know */
    PG_H5_NEED(!(flags & 0xA8), "message %u has unknown flags 0x%x", type, flags);
done:
    return st;
}

static pg_status add_msg(pg__h5 *h, const pg__h5_msg *m, pg_err *err)
{
    pg_status st = PG_OK;
    pg__h5_walk *w = h->walk;
    if (m->type > LAST_KNOWN)
        PG_H5_UNCOVERED("unknown object header message %u", m->type);
    if (w->n_msgs >= PG_LIMIT_MESSAGES)
        PG_H5_FAIL(PG_E_LIMIT, "more than %u messages in its header", PG_LIMIT_MESSAGES);
    if (pg__mem_grow(&w->msgs, &w->cap_msgs, w->n_msgs + 1, sizeof *w->msgs))
        PG_TRY(pg__nomem(err));
    w->msgs[w->n_msgs++] = *m;
done:
    return st;
}

/* A block in walk.text: messages in [at, end); the byte at `start` is at addr in the file. */
typedef struct block {
    uint64_t addr;
    size_t start, at, end;
} block;

/* A continuation (IV.A.2.q): reads the block that message m points to. */
static pg_status follow(pg__h5 *h, const shape *s, const pg__h5_msg *m, block *b, pg_err *err)
{
    pg_status st = PG_OK;
    pg__h5_cur c = pg__h5_msg_cur(h, m);
    const uint64_t addr = pg__h5_addr(h, &c), n = pg__h5_len(h, &c);
    /* 0 if the message is cut */
    PG_H5_NEED(n >= s->n_prefix + (s->v2 ? 8u : 0u), "object header continues with %s bytes only",
               PG_H5_NUM(n));
    const size_t start = h->walk->n_text;
    PG_TRY(add_block(h, addr, n, err));
    *b = (block){.addr = addr, .start = start, .at = start, .end = h->walk->n_text};
    if (s->v2) {
        const uint8_t *p = h->walk->text + start;
        pg__h5_cur sum = {.p = p + n - 4, .end = p + n};
        PG_H5_NEED(!memcmp(p, "OCHK", 4) && pg__h5_u32(&sum, 4) == pg__lookup3(p, (size_t)n - 4),
                   "continuation of the object header at byte %s: wrong checksum", PG_H5_NUM(addr));
        b->at += 4;
        b->end -= 4;
    }
done:
    return st;
}

/* The message at b->at, which advances past it. */
static pg_status cut_message(const pg__h5 *h, const shape *s, block *b, pg__h5_msg *m,
                             unsigned *flags, pg_err *err)
{
    pg_status st = PG_OK;
    pg__h5_cur c = {.p = h->walk->text + b->at, .end = h->walk->text + b->end};
    m->type = pg__h5_u32(&c, s->v2 ? 1 : 2);
    m->n = pg__h5_u32(&c, 2);
    *flags = pg__h5_u32(&c, 1);
    m->off = b->at + s->n_prefix;
    m->at = h->base + b->addr + (m->off - b->start);
    PG_H5_NEED(m->n <= b->end - m->off, "message %u of %u bytes leaves its object header", m->type,
               m->n);
    PG_H5_NEED(s->v2 || m->n % 8 == 0, "message %u of %u bytes does not end on a multiple of 8",
               m->type, m->n);
    PG_H5_NEED(s->v2 || m->type != REFERENCES, "old object header that counts references twice");
    b->at = m->off + m->n;
done:
    return st;
}

/* The messages of block b, then those of the continuations that it names, and so on. */
static pg_status cut_messages(pg__h5 *h, const shape *s, block b, size_t *total, pg_err *err)
{
    pg_status st = PG_OK;
    pg__h5_msg *todo = NULL; /* continuations */
    size_t n_todo = 0, cap_todo = 0, next = 0;
    for (;;) {
        while (b.end - b.at >= s->n_prefix) {
            pg__h5_msg m;
            unsigned flags = 0;
            PG_TRY(cut_message(h, s, &b, &m, &flags, err));
            PG_TRY(check_flags(h, m.type, flags, err));
            ++*total;
            if (m.type == CONTINUATION) {
                if (pg__mem_grow(&todo, &cap_todo, n_todo + 1, sizeof *todo))
                    PG_TRY(pg__nomem(err));
                todo[n_todo++] = m;
            } else if (m.type != NIL) {
                PG_TRY(add_msg(h, &m, err));
            } else {
                h->walk->remnants |= pg__h5_n_set(h->walk->text + m.off, m.n) != 0;
            }
        }
        PG_H5_NEED(s->v2 || b.at == b.end, "gap in the object header");
        if (next == n_todo)
            break;
        PG_TRY(follow(h, s, &todo[next++], &b, err));
    }
done:
    pg__mem_free(todo);
    return st;
}

static pg_status read_v1(pg__h5 *h, uint64_t addr, pg__h5_cur *c, pg_err *err)
{
    static const shape v1 = {.v2 = 0, .n_prefix = 8};
    pg_status st = PG_OK;
    size_t total = 0;
    const unsigned version = pg__h5_u32(c, 1), zero = pg__h5_u32(c, 1);
    const size_t count = pg__h5_u32(c, 2);
    pg__h5_span(c, 4); /* reference count */
    const uint64_t n = pg__h5_uint(c, 4);
    PG_H5_NEED(version == 1 && zero == 0, "no object header at byte %s", PG_H5_NUM(addr));
    PG_TRY(add_block(h, addr, 16 + n, err)); /* refuses a prefix that the file's end cuts */
    const block b = {.addr = addr, .at = 16, .end = h->walk->n_text};
    PG_TRY(cut_messages(h, &v1, b, &total, err));
    PG_H5_NEED(total == count, "object header has %zu messages, not %zu", total, count);
done:
    return st;
}

static pg_status read_v2(pg__h5 *h, uint64_t addr, pg__h5_cur *c, pg_err *err)
{
    pg_status st = PG_OK;
    const uint8_t *first = c->p;
    size_t total = 0;
    pg__h5_span(c, 4);
    const unsigned version = pg__h5_u32(c, 1), flags = pg__h5_u32(c, 1);
    if (flags & 0x20)
        pg__h5_span(c, 16); /* times */
    if (flags & 0x10)
        pg__h5_span(c, 4); /* when attributes become dense */
    const uint64_t n = pg__h5_uint(c, 1u << (flags & 3));
    const size_t skip = (size_t)(c->p - first);
    const shape v2 = {.v2 = 1, .n_prefix = flags & 4 ? 6 : 4};
    PG_H5_NEED(version == 2 && flags < 0x40,
               "object header at byte %s: unknown version %u or flags 0x%x", PG_H5_NUM(addr),
               version, flags);
    PG_H5_NEED(n < PG_H5_UNDEF / 2, "object header of %s bytes is too large", PG_H5_NUM(n));
    PG_TRY(add_block(h, addr, skip + n + 4, err)); /* refuses a prefix that the file's end cuts */
    const uint8_t *p = h->walk->text;
    const size_t n_text = h->walk->n_text;
    pg__h5_cur sum = {.p = p + n_text - 4, .end = p + n_text};
    PG_H5_NEED(pg__h5_u32(&sum, 4) == pg__lookup3(p, n_text - 4),
               "object header at byte %s: wrong checksum", PG_H5_NUM(addr));
    const block b = {.addr = addr, .at = skip, .end = n_text - 4};
    PG_TRY(cut_messages(h, &v2, b, &total, err));
done:
    return st;
}

pg_status pg__h5_header_read(pg__h5 *h, uint64_t addr, pg_err *err)
{
    uint8_t head[34]; /* the longest prefix */
    const uint64_t room = h->end - h->base;
    const size_t n = addr < room && room - addr < sizeof head ? (size_t)(room - addr) : sizeof head;
    h->walk->n_text = h->walk->n_msgs = 0;
    h->walk->remnants = 0;
    const pg_status st = pg__h5_fetch(h, addr, head, n, PG_H5_P_HEADER, err);
    if (st != PG_OK)
        return st;
    pg__h5_cur c = {.p = head, .end = head + n};
    return n > 4 && !memcmp(head, "OHDR", 4) ? read_v2(h, addr, &c, err)
                                             : read_v1(h, addr, &c, err);
}

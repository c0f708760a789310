/* pickle.c - the stack machine of pickle.h; its opcodes are in pickle_ops.c.
 *
 * Time and memory are linear in the length of the text: every opcode takes at least one byte, and
 * allocates no more than the bytes and values that it consumes. */
#include "base/pickle_impl.h"

#include <string.h>

#include "base/le.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/try.h"

pg_status pg__pk_damaged(pg__pk_machine *m, const char *what)
{
    return pg_fail(m->err, PG_E_FORMAT, "pickle: byte %zu: %s", m->at, what);
}

pg_status pg__pk_too_many(pg__pk_machine *m, const char *what)
{
    return pg_fail(m->err, PG_E_LIMIT, "pickle: byte %zu: too many %s", m->at, what);
}

/* ---- bytes of the text ---- */

pg_status pg__pk_take(pg__pk_machine *m, uint64_t n, const unsigned char **out)
{
    if (n > m->n - m->at) {
        m->cut = 1;
        return pg__pk_damaged(m, "it ends in the middle");
    }
    *out = m->text + m->at;
    m->at += (size_t)n;
    return PG_OK;
}

pg_status pg__pk_number(pg__pk_machine *m, size_t width, uint64_t *out)
{
    const unsigned char *p = NULL;
    const pg_status st = pg__pk_take(m, width, &p);
    if (st == PG_OK)
        *out = pg__le(p, width);
    return st;
}

pg_status pg__pk_line(pg__pk_machine *m, const char **line, size_t *n)
{
    const unsigned char *end = memchr(m->text + m->at, '\n', m->n - m->at);
    if (!end) {
        m->cut = 1;
        return pg__pk_damaged(m, "it ends in the middle");
    }
    *line = (const char *)m->text + m->at;
    *n = (size_t)(end - (m->text + m->at));
    m->at += *n + 1;
    return PG_OK;
}

/* ---- values and stack ---- */

pg_status pg__pk_push_old(pg__pk_machine *m, uint32_t value)
{
    if (m->n_stack >= PG_LIMIT_PICKLE_STACK)
        return pg__pk_too_many(m, "values on its stack");
    if (pg__mem_grow(&m->stack, &m->cap_stack, m->n_stack + 1, sizeof *m->stack))
        return pg__nomem(m->err);
    m->stack[m->n_stack++] = value;
    return PG_OK;
}

pg_status pg__pk_push(pg__pk_machine *m, pg__pk_value v)
{
    pg__pickle *p = m->p;
    if (pg__mem_grow(&p->v, &p->cap, p->n + 1, sizeof *p->v))
        return pg__nomem(m->err);
    p->v[p->n] = v;
    return pg__pk_push_old(m, (uint32_t)p->n++);
}

size_t pg__pk_n_free(const pg__pk_machine *m)
{
    return m->n_stack - (m->n_marks ? m->marks[m->n_marks - 1] : 0);
}

pg_status pg__pk_pop(pg__pk_machine *m, uint32_t *out)
{
    if (pg__pk_n_free(m) == 0)
        return pg__pk_damaged(m, "a value is missing on its stack");
    *out = m->stack[--m->n_stack];
    return PG_OK;
}

pg_status pg__pk_top(pg__pk_machine *m, pg__pk_value **out)
{
    if (pg__pk_n_free(m) == 0)
        return pg__pk_damaged(m, "a value is missing on its stack");
    *out = &m->p->v[m->stack[m->n_stack - 1]];
    return PG_OK;
}

pg_status pg__pk_pop_mark(pg__pk_machine *m, size_t *first)
{
    if (m->n_marks == 0)
        return pg__pk_damaged(m, "a mark is missing on its stack");
    *first = m->marks[--m->n_marks];
    return PG_OK;
}

pg_status pg__pk_append(pg__pk_machine *m, pg__pk_value *v, const uint32_t *items, size_t n)
{
    size_t cap = v->n ? 4 : 0;
    if (n == 0)
        return PG_OK;
    while (cap && cap < v->n)
        cap *= 2;
    if (v->n + n > cap) {
        size_t want = cap ? cap : 4;
        while (want < v->n + n)
            want *= 2;
        uint32_t *grown = pg__mem_array(want, sizeof *grown);
        if (!grown)
            return pg__nomem(m->err);
        if (v->n)
            memcpy(grown, v->u.items, v->n * sizeof *grown);
        pg__mem_free(v->n ? v->u.items : NULL);
        v->u.items = grown;
    }
    memcpy(v->u.items + v->n, items, n * sizeof *items);
    v->n += (uint32_t)n;
    return PG_OK;
}

pg_status pg__pk_gather(pg__pk_machine *m, pg__pk_kind kind, size_t first)
{
    pg__pk_value v = {.kind = kind};
    if (kind == PG_PK_DICT && (m->n_stack - first) % 2)
        return pg__pk_damaged(m, "a key without a value");
    const pg_status st = pg__pk_append(m, &v, m->stack + first, m->n_stack - first);
    if (st != PG_OK)
        return st;
    m->n_stack = first;
    const size_t before = m->p->n;
    const pg_status pushed = pg__pk_push(m, v);
    if (pushed != PG_OK && m->p->n == before)
        pg__mem_free(v.n ? v.u.items : NULL);
    return pushed;
}

/* ---- the machine ---- */

static pg_status run(pg__pk_machine *m)
{
    const unsigned char *p = NULL;
    pg__pk_handler *handlers[256] = {NULL};
    pg_status st = PG_OK;
    pg__pk_set_handlers(handlers);
    for (int i = 0; i < PG_PK_N_CONSTANTS; i++) {
        PG_TRY(pg__pk_push(m, (pg__pk_value){.kind = i == PG_PK_AT_NONE ? PG_PK_NONE : PG_PK_BOOL,
                                             .u.i = i == PG_PK_AT_TRUE}));
        m->n_stack = 0;
    }
    while (!m->stopped) {
        PG_TRY(pg__pk_take(m, 1, &p));
        m->op = *p;
        if (++m->ops > m->max_ops)
            return pg__pk_too_many(m, "opcodes");
        if (!handlers[m->op])
            return pg_fail(
                m->err, PG_E_UNSUPPORTED,
                "pickle: byte %zu: refused opcode 0x%02x: tensors and containers do not need it",
                m->at - 1, m->op);
        PG_TRY(handlers[m->op](m));
    }
done:
    return st;
}

/* m: its limits, text and where errors go. */
static pg_status read_with(pg__pickle *out, pg__pk_machine *m, const pg__pk_global *globals,
                           size_t *used, int *cut)
{
    pg__pickle p = {.globals = globals};
    m->p = &p;
    pg_status st = run(m);
    if (st == PG_OK && !used && m->at != m->n)
        st = pg__pk_damaged(m, "something follows its end");
    if (cut)
        *cut = m->cut;
    pg__mem_free(m->stack);
    pg__mem_free(m->marks);
    pg__mem_free(m->memo);
    if (st != PG_OK) {
        pg__pickle_fini(&p);
        return st;
    }
    if (used)
        *used = m->at;
    *out = p;
    return PG_OK;
}

pg_status pg__pickle_read(pg__pickle *out, const char *text, size_t n, const pg__pk_global *globals,
                          size_t *used, int *cut, pg_err *err)
{
    pg__pk_machine m = {.text = (const unsigned char *)text,
                        .n = n,
                        .max_ops = PG_LIMIT_PICKLE_OPS,
                        .max_memo = PG_LIMIT_PICKLE_MEMO,
                        .err = err};
    return read_with(out, &m, globals, used, cut);
}

pg_status pg__pickle_read_stored(pg__pickle *out, const char *text, size_t n,
                                 const pg__pk_global *globals, pg_err *err)
{
    pg__pk_machine m = {
        .text = (const unsigned char *)text, .n = n, .max_ops = n, .max_memo = n, .err = err};
    return read_with(out, &m, globals, NULL, NULL);
}

void pg__pickle_fini(pg__pickle *p)
{
    for (size_t i = 0; i < p->n; i++)
        switch (p->v[i].kind) {
        case PG_PK_TUPLE:
        case PG_PK_LIST:
        case PG_PK_SET:
        case PG_PK_DICT:
        case PG_PK_PERSID:
        case PG_PK_CALL: pg__mem_free(p->v[i].n ? p->v[i].u.items : NULL); break;
        default: break;
        }
    pg__mem_free(p->v);
    pg__mem_free(p->foreign);
    *p = (pg__pickle){0};
}

const pg__pk_foreign *pg__pickle_foreign(const pg__pickle *p, const pg__pk_value *v)
{
    if (v->kind == PG_PK_CALL)
        v = &p->v[v->u.items[0]];
    return v->kind == PG_PK_FOREIGN ? &p->foreign[v->u.i] : NULL;
}

int pg__pickle_is_dict(const pg__pickle *p, const pg__pk_value *v)
{
    if (v->kind != PG_PK_CALL)
        return v->kind == PG_PK_DICT;
    const pg__pk_value *callee = &p->v[v->u.items[0]];
    const int takes = callee->kind == PG_PK_GLOBAL ? p->globals[callee->u.i].takes : 0;
    return takes == PG_PK_ENTRIES || takes == PG_PK_LATER_ENTRIES;
}

int pg__pickle_is(const pg__pk_value *v, const char *text)
{
    return v->kind == PG_PK_STR && v->n == strlen(text) && memcmp(v->u.text, text, v->n) == 0;
}

const pg__pk_value *pg__pickle_get(const pg__pickle *p, const pg__pk_value *dict, const char *key)
{
    const uint32_t first = dict->kind == PG_PK_CALL ? 2 : 0;
    for (uint32_t i = dict->n; i > first; i -= 2)
        if (pg__pickle_is(&p->v[dict->u.items[i - 2]], key))
            return &p->v[dict->u.items[i - 1]];
    return NULL;
}

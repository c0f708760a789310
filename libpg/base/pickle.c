/* pickle.c - the stack machine of pickle.h: one function per kind of opcode, a table of them.
 *
 * Time and memory are linear in the length of the text: every opcode takes at least one byte, and
 * none allocates more than the bytes and the values that it consumes. */
#include "base/pickle.h"

#include <stdlib.h>
#include <string.h>

#include "base/le.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/try.h"

enum { NONE, FALSE_, TRUE_, N_CONSTANTS }; /* values that exist once */

typedef struct machine {
    pg__pickle *p;
    const unsigned char *text;
    size_t n, at, ops;
    unsigned char op; /* at hand */
    int cut, stopped;
    uint32_t *stack;
    size_t n_stack, cap_stack;
    uint32_t *marks; /* heights of the stack */
    size_t n_marks, cap_marks;
    uint32_t *memo; /* value + 1; 0: not set */
    size_t n_memo, cap_memo, n_set;
    pg_err *err;
} machine;

static pg_status damaged(machine *m, const char *what)
{
    return pg_fail(m->err, PG_E_FORMAT, "pickle: byte %zu: %s", m->at, what);
}

static pg_status too_many(machine *m, const char *what)
{
    return pg_fail(m->err, PG_E_LIMIT, "pickle: byte %zu: too many %s", m->at, what);
}

/* ---- bytes of the text ---- */

static pg_status take(machine *m, uint64_t n, const unsigned char **out)
{
    if (n > m->n - m->at) {
        m->cut = 1;
        return damaged(m, "it ends in the middle");
    }
    *out = m->text + m->at;
    m->at += (size_t)n;
    return PG_OK;
}

/* A little-endian number of `width` bytes. */
static pg_status take_number(machine *m, size_t width, uint64_t *out)
{
    const unsigned char *p = NULL;
    const pg_status st = take(m, width, &p);
    if (st == PG_OK)
        *out = pg__le(p, width);
    return st;
}

/* A text that ends with a newline; *n is without it. */
static pg_status take_line(machine *m, const char **line, size_t *n)
{
    const unsigned char *end = memchr(m->text + m->at, '\n', m->n - m->at);
    if (!end) {
        m->cut = 1;
        return damaged(m, "it ends in the middle");
    }
    *line = (const char *)m->text + m->at;
    *n = (size_t)(end - (m->text + m->at));
    m->at += *n + 1;
    return PG_OK;
}

/* ---- values and stack ---- */

static pg_status push_old(machine *m, uint32_t value)
{
    if (m->n_stack >= PG_LIMIT_PICKLE_STACK)
        return too_many(m, "values on its stack");
    if (pg__mem_grow(&m->stack, &m->cap_stack, m->n_stack + 1, sizeof *m->stack))
        return pg__nomem(m->err);
    m->stack[m->n_stack++] = value;
    return PG_OK;
}

static pg_status push(machine *m, pg__pk_value v)
{
    pg__pickle *p = m->p;
    if (pg__mem_grow(&p->v, &p->cap, p->n + 1, sizeof *p->v))
        return pg__nomem(m->err);
    p->v[p->n] = v;
    return push_old(m, (uint32_t)p->n++);
}

/* Values may only be taken from above the last mark. */
static size_t n_free(const machine *m)
{
    return m->n_stack - (m->n_marks ? m->marks[m->n_marks - 1] : 0);
}

static pg_status pop(machine *m, uint32_t *out)
{
    if (n_free(m) == 0)
        return damaged(m, "a value is missing on its stack");
    *out = m->stack[--m->n_stack];
    return PG_OK;
}

static pg_status top(machine *m, pg__pk_value **out)
{
    if (n_free(m) == 0)
        return damaged(m, "a value is missing on its stack");
    *out = &m->p->v[m->stack[m->n_stack - 1]];
    return PG_OK;
}

/* Removes the last mark and tells what lies above it; those values are still on the stack. */
static pg_status pop_mark(machine *m, size_t *first)
{
    if (m->n_marks == 0)
        return damaged(m, "a mark is missing on its stack");
    *first = m->marks[--m->n_marks];
    return PG_OK;
}

/* Appends to a value's items. Their array has room for the next power of two, at least four. */
static pg_status append(machine *m, pg__pk_value *v, const uint32_t *items, size_t n)
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

/* Pushes a container of the values stack[first...], which it replaces. */
static pg_status gather(machine *m, pg__pk_kind kind, size_t first)
{
    pg__pk_value v = {.kind = kind};
    if (kind == PG_PK_DICT && (m->n_stack - first) % 2)
        return damaged(m, "a key without a value");
    const pg_status st = append(m, &v, m->stack + first, m->n_stack - first);
    if (st != PG_OK)
        return st;
    m->n_stack = first;
    const size_t before = m->p->n;
    const pg_status pushed = push(m, v);
    if (pushed != PG_OK && m->p->n == before)
        pg__mem_free(v.n ? v.u.items : NULL);
    return pushed;
}

/* ---- opcodes: constants and texts ---- */

static pg_status op_constant(machine *m)
{
    return push_old(m, m->op == 'N' ? NONE : m->op == 0x88 ? TRUE_ : FALSE_);
}

static pg_status op_int(machine *m)
{
    uint64_t v = 0;
    const pg_status st = take_number(m, m->op == 'K' ? 1 : m->op == 'M' ? 2 : 4, &v);
    if (st != PG_OK)
        return st;
    return push(m,
                (pg__pk_value){.kind = PG_PK_INT,
                               .u.i = m->op == 'J' ? (int64_t)(int32_t)(uint32_t)v : (int64_t)v});
}

/* Two's complement of any length, little-endian. */
static pg_status op_long(machine *m)
{
    uint64_t n = 0, v = 0;
    const unsigned char *p = NULL;
    pg_status st = PG_OK;
    PG_TRY(take_number(m, m->op == 0x8a ? 1 : 4, &n));
    PG_TRY(take(m, n, &p));
    if (n > 8)
        return push(m, (pg__pk_value){.kind = PG_PK_BIG});
    v = pg__le(p, (size_t)n);
    if (n && n < 8 && p[n - 1] & 0x80)
        v |= UINT64_MAX << 8 * n;
    st = push(m, (pg__pk_value){.kind = PG_PK_INT, .u.i = (int64_t)v});
done:
    return st;
}

static pg_status op_float(machine *m)
{
    uint64_t bits = 0;
    const pg_status st = take_number(m, 8, &bits);
    if (st != PG_OK)
        return st;
    pg__pk_value v = {.kind = PG_PK_FLOAT};
    bits = __builtin_bswap64(bits); /* the one number that is big-endian */
    memcpy(&v.u.f, &bits, sizeof v.u.f);
    return push(m, v);
}

/* Texts and bytes with a length of 1, 4 or 8 bytes before them. */
static pg_status op_text(machine *m)
{
    uint64_t n = 0;
    const unsigned char *p = NULL;
    const unsigned char op = m->op;
    const size_t width = op == 0x8c || op == 'U' || op == 'C'     ? 1
                         : op == 0x8d || op == 0x8e || op == 0x96 ? 8
                                                                  : 4;
    pg_status st = PG_OK;
    PG_TRY(take_number(m, width, &n));
    PG_TRY(take(m, n, &p));
    if (n > UINT32_MAX)
        return too_many(m, "bytes in a text");
    const int bytes = op == 'B' || op == 'C' || op == 0x8e || op == 0x96;
    st = push(m, (pg__pk_value){.kind = bytes ? PG_PK_BYTES : PG_PK_STR,
                                .n = (uint32_t)n,
                                .u.text = (const char *)p});
done:
    return st;
}

/* Protocol 0's text: a literal in quotes, here without escapes. */
static pg_status op_quoted(machine *m)
{
    const char *line = NULL;
    size_t n = 0;
    const pg_status st = take_line(m, &line, &n);
    if (st != PG_OK)
        return st;
    if (n < 2 || (line[0] != '\'' && line[0] != '"') || line[n - 1] != line[0] ||
        memchr(line, '\\', n) || n > UINT32_MAX)
        return damaged(m, "a text of protocol 0 that is not read");
    return push(m, (pg__pk_value){.kind = PG_PK_STR, .n = (uint32_t)n - 2, .u.text = line + 1});
}

/* ---- opcodes: containers ---- */

static pg_status op_mark(machine *m)
{
    if (m->n_marks >= PG_LIMIT_PICKLE_STACK)
        return too_many(m, "marks on its stack");
    if (pg__mem_grow(&m->marks, &m->cap_marks, m->n_marks + 1, sizeof *m->marks))
        return pg__nomem(m->err);
    m->marks[m->n_marks++] = (uint32_t)m->n_stack;
    return PG_OK;
}

static pg__pk_kind kind_of_op(unsigned char op)
{
    switch (op) {
    case ')':
    case 't':
    case 0x85:
    case 0x86:
    case 0x87: return PG_PK_TUPLE;
    case ']':
    case 'l': return PG_PK_LIST;
    case '}':
    case 'd': return PG_PK_DICT;
    default: return PG_PK_SET;
    }
}

static pg_status op_empty(machine *m)
{
    return push(m, (pg__pk_value){.kind = kind_of_op(m->op)});
}

static pg_status op_gather(machine *m)
{
    size_t first = 0;
    const pg_status st = pop_mark(m, &first);
    return st == PG_OK ? gather(m, kind_of_op(m->op), first) : st;
}

static pg_status op_tuple_of(machine *m)
{
    const size_t n = (size_t)m->op - 0x84;
    if (n_free(m) < n)
        return damaged(m, "a value is missing on its stack");
    return gather(m, PG_PK_TUPLE, m->n_stack - n);
}

static int calls_dict(const machine *m, const pg__pk_value *v)
{
    return v->kind == PG_PK_CALL && m->p->globals[m->p->v[v->u.items[0]].u.i].is_dict;
}

/* Whether items may be put into v afterwards by the opcode at hand. */
static int takes(const machine *m, const pg__pk_value *v)
{
    switch (m->op) {
    case 'a':
    case 'e': return v->kind == PG_PK_LIST;
    case 0x90: return v->kind == PG_PK_SET;
    default: return v->kind == PG_PK_DICT || calls_dict(m, v);
    }
}

/* Puts stack[first...] into the container below them. */
static pg_status put(machine *m, size_t first)
{
    pg__pk_value *v = NULL;
    const size_t n = m->n_stack - first;
    m->n_stack = first;
    pg_status st = top(m, &v);
    if (st != PG_OK)
        return st;
    if (!takes(m, v) || ((m->op == 's' || m->op == 'u') && n % 2))
        return damaged(m, "values are put into something that is no container");
    return append(m, v, m->stack + first, n);
}

static pg_status op_put(machine *m)
{
    const size_t n = m->op == 'a' ? 1 : 2;
    if (n_free(m) < n)
        return damaged(m, "a value is missing on its stack");
    return put(m, m->n_stack - n);
}

static pg_status op_put_all(machine *m)
{
    size_t first = 0;
    const pg_status st = pop_mark(m, &first);
    return st == PG_OK ? put(m, first) : st;
}

/* ---- opcodes: stack and memo ---- */

static pg_status op_pop(machine *m)
{
    uint32_t v = 0;
    size_t first = 0;
    if (m->op == '0' && n_free(m))
        return pop(m, &v);
    const pg_status st = pop_mark(m, &first); /* POP removes a mark, too */
    if (st == PG_OK)
        m->n_stack = first;
    return st;
}

static pg_status op_dup(machine *m)
{
    if (n_free(m) == 0)
        return damaged(m, "a value is missing on its stack");
    return push_old(m, m->stack[m->n_stack - 1]);
}

static pg_status op_memo_put(machine *m)
{
    uint64_t i = m->n_set;
    if (m->op != 0x94) {
        const pg_status st = take_number(m, m->op == 'q' ? 1 : 4, &i);
        if (st != PG_OK)
            return st;
    }
    if (n_free(m) == 0)
        return damaged(m, "a value is missing on its stack");
    if (i >= PG_LIMIT_PICKLE_MEMO)
        return too_many(m, "remembered values");
    if (pg__mem_grow(&m->memo, &m->cap_memo, (size_t)i + 1, sizeof *m->memo))
        return pg__nomem(m->err);
    for (; m->n_memo <= i; m->n_memo++)
        m->memo[m->n_memo] = 0;
    m->n_set += m->memo[i] == 0;
    m->memo[i] = m->stack[m->n_stack - 1] + 1;
    return PG_OK;
}

static pg_status op_memo_get(machine *m)
{
    uint64_t i = 0;
    const pg_status st = take_number(m, m->op == 'h' ? 1 : 4, &i);
    if (st != PG_OK)
        return st;
    if (i >= m->n_memo || !m->memo[i])
        return damaged(m, "a value is used that was never remembered");
    return push_old(m, m->memo[i] - 1);
}

/* ---- opcodes: what Python would look up and call ---- */

static pg_status push_global(machine *m, const char *module, size_t n_module, const char *name,
                             size_t n_name)
{
    char a[80], b[80];
    const pg__pk_global *g = m->p->globals;
    for (int64_t i = 0; g[i].module; i++)
        if (strlen(g[i].module) == n_module && memcmp(g[i].module, module, n_module) == 0 &&
            strlen(g[i].name) == n_name && memcmp(g[i].name, name, n_name) == 0)
            return push(m, (pg__pk_value){.kind = PG_PK_GLOBAL, .u.i = i});
    (void)pg_fail(m->err, PG_E_UNSUPPORTED, "contains the class %s.%s, which only Python can build",
                  pg__printable(a, sizeof a, module, n_module),
                  pg__printable(b, sizeof b, name, n_name));
    pg_err_hint(m->err, "if you trust the file, save its state_dict alone in Python");
    return PG_E_UNSUPPORTED;
}

/* GLOBAL and INST: module and name in a line each. What is on the list is no class of INST's time.
 */
static pg_status op_global(machine *m)
{
    const char *module = NULL, *name = NULL;
    size_t n_module = 0, n_name = 0;
    pg_status st = PG_OK;
    PG_TRY(take_line(m, &module, &n_module));
    PG_TRY(take_line(m, &name, &n_name));
    PG_TRY(push_global(m, module, n_module, name, n_name));
    if (m->op == 'i')
        st = damaged(m, "an opcode of protocol 0 that is not read");
done:
    return st;
}

static pg_status op_stack_global(machine *m)
{
    uint32_t module = 0, name = 0;
    pg_status st = PG_OK;
    PG_TRY(pop(m, &name));
    PG_TRY(pop(m, &module));
    const pg__pk_value *a = &m->p->v[module], *b = &m->p->v[name];
    if (a->kind != PG_PK_STR || b->kind != PG_PK_STR)
        return damaged(m, "a class whose name is no text");
    st = push_global(m, a->u.text, a->n, b->u.text, b->n);
done:
    return st;
}

/* REDUCE and NEWOBJ: remembered, never carried out. */
static pg_status op_call(machine *m)
{
    if (n_free(m) < 2)
        return damaged(m, "a value is missing on its stack");
    if (m->p->v[m->stack[m->n_stack - 2]].kind != PG_PK_GLOBAL ||
        m->p->v[m->stack[m->n_stack - 1]].kind != PG_PK_TUPLE)
        return damaged(m, "a call of something that is no function");
    return gather(m, PG_PK_CALL, m->n_stack - 2);
}

/* Attributes of an object. Python's state_dict carries versions of its modules, nothing else. */
static pg_status op_build(machine *m)
{
    uint32_t state = 0;
    pg__pk_value *v = NULL;
    char shown[80];
    pg_status st = PG_OK;
    PG_TRY(pop(m, &state));
    PG_TRY(top(m, &v));
    const pg__pk_value *s = &m->p->v[state];
    if (!calls_dict(m, v) || s->kind != PG_PK_DICT)
        return damaged(m, "attributes are set of something that takes none");
    for (uint32_t i = 0; i < s->n; i += 2) {
        const pg__pk_value *key = &m->p->v[s->u.items[i]];
        if (pg__pickle_is(key, "_metadata"))
            continue;
        return pg_fail(
            m->err, PG_E_UNSUPPORTED,
            "sets the attribute %s of a dictionary, which only Python can do",
            key->kind == PG_PK_STR ? pg__printable(shown, sizeof shown, key->u.text, key->n) : "?");
    }
done:
    return st;
}

static pg_status op_persid(machine *m)
{
    if (n_free(m) == 0)
        return damaged(m, "a value is missing on its stack");
    return gather(m, PG_PK_PERSID, m->n_stack - 1);
}

/* ---- opcodes: frame of the text ---- */

static pg_status op_proto(machine *m)
{
    uint64_t v = 0;
    const pg_status st = take_number(m, 1, &v);
    if (st != PG_OK)
        return st;
    if (v > 5)
        return pg_fail(m->err, PG_E_UNSUPPORTED, "pickle of protocol %u (2 to 5 are read)",
                       (unsigned)v);
    return PG_OK;
}

/* A frame only announces how many bytes follow. */
static pg_status op_frame(machine *m)
{
    uint64_t n = 0;
    const pg_status st = take_number(m, 8, &n);
    if (st != PG_OK)
        return st;
    if (n > m->n - m->at) {
        m->cut = 1;
        return damaged(m, "it ends in the middle");
    }
    return PG_OK;
}

static pg_status op_stop(machine *m)
{
    const pg_status st = pop(m, &m->p->root);
    if (st != PG_OK)
        return st;
    if (m->n_stack || m->n_marks)
        return damaged(m, "values are left on its stack");
    m->stopped = 1;
    return PG_OK;
}

/* ---- the machine ---- */

static pg_status (*const handlers[256])(machine *) = {
    ['N'] = op_constant,  [0x88] = op_constant, [0x89] = op_constant,     ['J'] = op_int,
    ['K'] = op_int,       ['M'] = op_int,       [0x8a] = op_long,         [0x8b] = op_long,
    ['G'] = op_float,     ['X'] = op_text,      [0x8c] = op_text,         [0x8d] = op_text,
    ['T'] = op_text,      ['U'] = op_text,      ['B'] = op_text,          ['C'] = op_text,
    [0x8e] = op_text,     [0x96] = op_text,     ['S'] = op_quoted,        ['('] = op_mark,
    [')'] = op_empty,     [']'] = op_empty,     ['}'] = op_empty,         [0x8f] = op_empty,
    ['t'] = op_gather,    ['l'] = op_gather,    ['d'] = op_gather,        [0x91] = op_gather,
    [0x85] = op_tuple_of, [0x86] = op_tuple_of, [0x87] = op_tuple_of,     ['a'] = op_put,
    ['s'] = op_put,       ['e'] = op_put_all,   ['u'] = op_put_all,       [0x90] = op_put_all,
    ['0'] = op_pop,       ['1'] = op_pop,       ['2'] = op_dup,           ['q'] = op_memo_put,
    ['r'] = op_memo_put,  [0x94] = op_memo_put, ['h'] = op_memo_get,      ['j'] = op_memo_get,
    ['c'] = op_global,    ['i'] = op_global,    [0x93] = op_stack_global, ['R'] = op_call,
    [0x81] = op_call,     ['b'] = op_build,     ['Q'] = op_persid,        [0x80] = op_proto,
    [0x95] = op_frame,    ['.'] = op_stop,
};

static pg_status run(machine *m)
{
    const unsigned char *p = NULL;
    pg_status st = PG_OK;
    for (int i = 0; i < N_CONSTANTS; i++) {
        PG_TRY(push(
            m, (pg__pk_value){.kind = i == NONE ? PG_PK_NONE : PG_PK_BOOL, .u.i = i == TRUE_}));
        m->n_stack = 0;
    }
    while (!m->stopped) {
        PG_TRY(take(m, 1, &p));
        m->op = *p;
        if (++m->ops > PG_LIMIT_PICKLE_OPS)
            return too_many(m, "opcodes");
        if (!handlers[m->op])
            return pg_fail(m->err, PG_E_UNSUPPORTED,
                           "pickle: byte %zu: opcode 0x%02x, which tensors and containers need not",
                           m->at - 1, m->op);
        PG_TRY(handlers[m->op](m));
    }
done:
    return st;
}

pg_status pg__pickle_read(pg__pickle *out, const char *text, size_t n, const pg__pk_global *globals,
                          size_t *used, int *cut, pg_err *err)
{
    pg__pickle p = {.globals = globals};
    machine m = {.p = &p, .text = (const unsigned char *)text, .n = n, .err = err};
    pg_status st = run(&m);
    if (st == PG_OK && !used && m.at != n)
        st = damaged(&m, "something follows its end");
    if (cut)
        *cut = m.cut;
    pg__mem_free(m.stack);
    pg__mem_free(m.marks);
    pg__mem_free(m.memo);
    if (st != PG_OK) {
        pg__pickle_fini(&p);
        return st;
    }
    if (used)
        *used = m.at;
    *out = p;
    return PG_OK;
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
    *p = (pg__pickle){0};
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

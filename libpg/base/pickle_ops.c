/* pickle_ops.c - the opcodes of pickle (Python's pickletools.py), one function per kind. */
#include <string.h>

#include "base/le.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/pickle_impl.h"
#include "base/str.h"
#include "base/try.h"

/* ---- opcodes: constants and texts ---- */

static pg_status op_constant(pg__pk_machine *m)
{
    return pg__pk_push_old(m, m->op == 'N'    ? PG_PK_AT_NONE
                              : m->op == 0x88 ? PG_PK_AT_TRUE
                                              : PG_PK_AT_FALSE);
}

static pg_status op_int(pg__pk_machine *m)
{
    uint64_t v = 0;
    const pg_status st = pg__pk_number(m, m->op == 'K' ? 1 : m->op == 'M' ? 2 : 4, &v);
    if (st != PG_OK)
        return st;
    return pg__pk_push(
        m, (pg__pk_value){.kind = PG_PK_INT,
                          .u.i = m->op == 'J' ? (int64_t)(int32_t)(uint32_t)v : (int64_t)v});
}

/* Two's complement of any length, little-endian. */
static pg_status op_long(pg__pk_machine *m)
{
    uint64_t n = 0, v = 0;
    const unsigned char *p = NULL;
    pg_status st = PG_OK;
    PG_TRY(pg__pk_number(m, m->op == 0x8a ? 1 : 4, &n));
    PG_TRY(pg__pk_take(m, n, &p));
    if (n > 8)
        return pg__pk_push(m, (pg__pk_value){.kind = PG_PK_BIG});
    v = pg__le(p, (size_t)n);
    if (n && n < 8 && p[n - 1] & 0x80)
        v |= UINT64_MAX << 8 * n;
    st = pg__pk_push(m, (pg__pk_value){.kind = PG_PK_INT, .u.i = (int64_t)v});
done:
    return st;
}

static pg_status op_float(pg__pk_machine *m)
{
    uint64_t bits = 0;
    const pg_status st = pg__pk_number(m, 8, &bits);
    if (st != PG_OK)
        return st;
    pg__pk_value v = {.kind = PG_PK_FLOAT};
    bits = __builtin_bswap64(bits); /* the one number that is big-endian */
    memcpy(&v.u.f, &bits, sizeof v.u.f);
    return pg__pk_push(m, v);
}

/* Texts and bytes with a length of 1, 4 or 8 bytes before them. */
static pg_status op_text(pg__pk_machine *m)
{
    uint64_t n = 0;
    const unsigned char *p = NULL;
    const unsigned char op = m->op;
    const size_t width = op == 0x8c || op == 'U' || op == 'C'     ? 1
                         : op == 0x8d || op == 0x8e || op == 0x96 ? 8
                                                                  : 4;
    pg_status st = PG_OK;
    PG_TRY(pg__pk_number(m, width, &n));
    PG_TRY(pg__pk_take(m, n, &p));
    if (n > UINT32_MAX)
        return pg__pk_too_many(m, "bytes in a text");
    const int bytes = op == 'B' || op == 'C' || op == 0x8e || op == 0x96;
    st = pg__pk_push(m, (pg__pk_value){.kind = bytes ? PG_PK_BYTES : PG_PK_STR,
                                       .n = (uint32_t)n,
                                       .u.text = (const char *)p});
done:
    return st;
}

/* Protocol 0's text: a quoted literal, accepted without escapes only. */
static pg_status op_quoted(pg__pk_machine *m)
{
    const char *line = NULL;
    size_t n = 0;
    const pg_status st = pg__pk_line(m, &line, &n);
    if (st != PG_OK)
        return st;
    if (n < 2 || (line[0] != '\'' && line[0] != '"') || line[n - 1] != line[0] ||
        memchr(line, '\\', n) || n > UINT32_MAX)
        return pg__pk_damaged(m, "a text of protocol 0 that is not read");
    return pg__pk_push(m,
                       (pg__pk_value){.kind = PG_PK_STR, .n = (uint32_t)n - 2, .u.text = line + 1});
}

/* ---- opcodes: containers ---- */

static pg_status op_mark(pg__pk_machine *m)
{
    if (m->n_marks >= PG_LIMIT_PICKLE_STACK)
        return pg__pk_too_many(m, "marks on its stack");
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

static pg_status op_empty(pg__pk_machine *m)
{
    return pg__pk_push(m, (pg__pk_value){.kind = kind_of_op(m->op)});
}

static pg_status op_gather(pg__pk_machine *m)
{
    size_t first = 0;
    const pg_status st = pg__pk_pop_mark(m, &first);
    return st == PG_OK ? pg__pk_gather(m, kind_of_op(m->op), first) : st;
}

static pg_status op_tuple_of(pg__pk_machine *m)
{
    const size_t n = (size_t)m->op - 0x84;
    if (pg__pk_n_free(m) < n)
        return pg__pk_damaged(m, "a value is missing on its stack");
    return pg__pk_gather(m, PG_PK_TUPLE, m->n_stack - n);
}

static int calls_foreign(const pg__pk_machine *m, const pg__pk_value *v)
{
    return v->kind == PG_PK_CALL && pg__pickle_foreign(m->p, v) != NULL;
}

static int calls_dict(const pg__pk_machine *m, const pg__pk_value *v)
{
    return v->kind == PG_PK_CALL && pg__pickle_is_dict(m->p, v);
}

/* Whether the current opcode may put items into v. */
static int takes(const pg__pk_machine *m, const pg__pk_value *v)
{
    switch (m->op) {
    case 'a':
    case 'e': return v->kind == PG_PK_LIST || calls_foreign(m, v);
    case 0x90: return v->kind == PG_PK_SET || calls_foreign(m, v);
    default: return pg__pickle_is_dict(m->p, v) || calls_foreign(m, v);
    }
}

/* Puts stack[first...] into the container below them. */
static pg_status put(pg__pk_machine *m, size_t first)
{
    pg__pk_value *v = NULL;
    const size_t n = m->n_stack - first;
    m->n_stack = first;
    pg_status st = pg__pk_top(m, &v);
    if (st != PG_OK)
        return st;
    if (!takes(m, v) || ((m->op == 's' || m->op == 'u') && n % 2))
        return pg__pk_damaged(m, "values are put into something that is not a container");
    return pg__pk_append(m, v, m->stack + first, n);
}

static pg_status op_put(pg__pk_machine *m)
{
    const size_t n = m->op == 'a' ? 1 : 2;
    if (pg__pk_n_free(m) < n)
        return pg__pk_damaged(m, "a value is missing on its stack");
    return put(m, m->n_stack - n);
}

static pg_status op_put_all(pg__pk_machine *m)
{
    size_t first = 0;
    const pg_status st = pg__pk_pop_mark(m, &first);
    return st == PG_OK ? put(m, first) : st;
}

/* ---- opcodes: stack and memo ---- */

static pg_status op_pop(pg__pk_machine *m)
{
    uint32_t v = 0;
    size_t first = 0;
    if (m->op == '0' && pg__pk_n_free(m))
        return pg__pk_pop(m, &v);
    const pg_status st = pg__pk_pop_mark(m, &first); /* POP removes a mark as well */
    if (st == PG_OK)
        m->n_stack = first;
    return st;
}

static pg_status op_dup(pg__pk_machine *m)
{
    if (pg__pk_n_free(m) == 0)
        return pg__pk_damaged(m, "a value is missing on its stack");
    return pg__pk_push_old(m, m->stack[m->n_stack - 1]);
}

static pg_status op_memo_put(pg__pk_machine *m)
{
    uint64_t i = m->n_set;
    if (m->op != 0x94) {
        const pg_status st = pg__pk_number(m, m->op == 'q' ? 1 : 4, &i);
        if (st != PG_OK)
            return st;
    }
    if (pg__pk_n_free(m) == 0)
        return pg__pk_damaged(m, "a value is missing on its stack");
    if (i >= m->max_memo)
        return pg__pk_too_many(m, "remembered values");
    if (pg__mem_grow(&m->memo, &m->cap_memo, (size_t)i + 1, sizeof *m->memo))
        return pg__nomem(m->err);
    for (; m->n_memo <= i; m->n_memo++)
        m->memo[m->n_memo] = 0;
    m->n_set += m->memo[i] == 0;
    m->memo[i] = m->stack[m->n_stack - 1] + 1;
    return PG_OK;
}

static pg_status op_memo_get(pg__pk_machine *m)
{
    uint64_t i = 0;
    const pg_status st = pg__pk_number(m, m->op == 'h' ? 1 : 4, &i);
    if (st != PG_OK)
        return st;
    if (i >= m->n_memo || !m->memo[i])
        return pg__pk_damaged(m, "a value is used that was never remembered");
    return pg__pk_push_old(m, m->memo[i] - 1);
}

/* ---- opcodes: what Python would look up and call ---- */

static pg_status push_foreign(pg__pk_machine *m, const pg__pk_foreign *f)
{
    pg__pickle *p = m->p;
    if (pg__mem_grow(&p->foreign, &p->cap_foreign, p->n_foreign + 1, sizeof *p->foreign))
        return pg__nomem(m->err);
    p->foreign[p->n_foreign] = *f;
    return pg__pk_push(m, (pg__pk_value){.kind = PG_PK_FOREIGN, .u.i = (int64_t)p->n_foreign++});
}

static pg_status push_global(pg__pk_machine *m, const char *module, size_t n_module,
                             const char *name, size_t n_name)
{
    const pg__pk_global *g = m->p->globals;
    for (int64_t i = 0; g[i].module; i++)
        if (strlen(g[i].module) == n_module && memcmp(g[i].module, module, n_module) == 0 &&
            strlen(g[i].name) == n_name && memcmp(g[i].name, name, n_name) == 0)
            return pg__pk_push(m, (pg__pk_value){.kind = PG_PK_GLOBAL, .u.i = i});
    if (n_module > UINT32_MAX || n_name > UINT32_MAX)
        return pg__pk_too_many(m, "bytes in a text");
    const pg__pk_foreign f = {
        .module = module, .name = name, .n_module = (uint32_t)n_module, .n_name = (uint32_t)n_name};
    return push_foreign(m, &f);
}

/* Module and name, one line each. */
static pg_status op_global(pg__pk_machine *m)
{
    const char *module = NULL, *name = NULL;
    size_t n_module = 0, n_name = 0;
    pg_status st = PG_OK;
    PG_TRY(pg__pk_line(m, &module, &n_module));
    PG_TRY(pg__pk_line(m, &name, &n_name));
    st = push_global(m, module, n_module, name, n_name);
done:
    return st;
}

static pg_status op_stack_global(pg__pk_machine *m)
{
    uint32_t module = 0, name = 0;
    pg_status st = PG_OK;
    PG_TRY(pg__pk_pop(m, &name));
    PG_TRY(pg__pk_pop(m, &module));
    const pg__pk_value *a = &m->p->v[module], *b = &m->p->v[name];
    if (a->kind != PG_PK_STR || b->kind != PG_PK_STR)
        return pg__pk_damaged(m, "a class whose name is not a text");
    st = push_global(m, a->u.text, a->n, b->u.text, b->n);
done:
    return st;
}

/* The arguments of a dictionary become its entries: Python 2 writes an OrderedDict as a call with a
 * list of [key, value] and a Counter as one with a dict. */
static pg_status take_entries(pg__pk_machine *m, pg__pk_value *call)
{
    pg_status st = PG_OK;
    const pg__pk_value *v = m->p->v, *args = &v[call->u.items[1]];
    const pg__pk_value *from = args->n ? &v[args->u.items[0]] : NULL;
    if (m->p->globals[v[call->u.items[0]].u.i].takes == PG_PK_LATER_ENTRIES)
        return PG_OK;
    if (args->n > 1 ||
        (from && from->kind != PG_PK_LIST && from->kind != PG_PK_TUPLE && from->kind != PG_PK_DICT))
        return pg__pk_damaged(m, "a dictionary is made of something other than entries");
    if (from && from->n > m->max_ops - m->ops) /* many calls may get the same list */
        return pg__pk_too_many(m, "opcodes");
    m->ops += from ? from->n : 0;
    if (from && from->kind == PG_PK_DICT)
        return pg__pk_append(m, call, from->u.items, from->n);
    for (uint32_t i = 0; from && i < from->n; i++) {
        const pg__pk_value *pair = &v[from->u.items[i]];
        if ((pair->kind != PG_PK_LIST && pair->kind != PG_PK_TUPLE) || pair->n != 2)
            return pg__pk_damaged(m, "a dictionary is made of something other than entries");
        PG_TRY(pg__pk_append(m, call, pair->u.items, 2));
    }
done:
    return st;
}

/* A foreign function makes other functions: what they return is foreign, too. items: [function,
 * args] on the stack; the function becomes the foreign name and is itself a member of the call. */
static pg_status call_of_call(pg__pk_machine *m)
{
    const uint32_t made = m->stack[m->n_stack - 2];
    pg__pk_value *call = NULL;
    pg_status st = PG_OK;
    m->stack[m->n_stack - 2] = m->p->v[made].u.items[0];
    PG_TRY(pg__pk_gather(m, PG_PK_CALL, m->n_stack - 2));
    PG_TRY(pg__pk_top(m, &call));
    st = pg__pk_append(m, call, &made, 1);
done:
    return st;
}

/* REDUCE and NEWOBJ: remembered, never executed. */
static pg_status op_call(pg__pk_machine *m)
{
    pg_status st = PG_OK;
    pg__pk_value *call = NULL;
    if (pg__pk_n_free(m) < 2)
        return pg__pk_damaged(m, "a value is missing on its stack");
    const pg__pk_value *callee = &m->p->v[m->stack[m->n_stack - 2]];
    if (m->p->v[m->stack[m->n_stack - 1]].kind != PG_PK_TUPLE)
        return pg__pk_damaged(m, "a call of something that is not a function");
    if (calls_foreign(m, callee))
        return call_of_call(m);
    if (callee->kind != PG_PK_GLOBAL && callee->kind != PG_PK_FOREIGN)
        return pg__pk_damaged(m, "a call of something that is not a function");
    PG_TRY(pg__pk_gather(m, PG_PK_CALL, m->n_stack - 2));
    PG_TRY(pg__pk_top(m, &call));
    if (calls_dict(m, call))
        st = take_entries(m, call);
done:
    return st;
}

/* INST and OBJ, for old-style classes: the arguments follow a mark, and the class is given either
 * by name in two lines or as the first of them. */
static pg_status op_call_marked(pg__pk_machine *m)
{
    size_t first = 0;
    pg_status st = PG_OK;
    PG_TRY(pg__pk_pop_mark(m, &first));
    if (m->op == 'o' && m->n_stack == first)
        return pg__pk_damaged(m, "a value is missing on its stack");
    PG_TRY(pg__pk_gather(m, PG_PK_TUPLE, first + (m->op == 'o')));
    if (m->op == 'i') {
        uint32_t args = 0;
        PG_TRY(pg__pk_pop(m, &args));
        PG_TRY(op_global(m));
        PG_TRY(pg__pk_push_old(m, args));
    }
    st = op_call(m);
done:
    return st;
}

/* NEWOBJ_EX: named arguments follow the others. */
static pg_status op_call_named(pg__pk_machine *m)
{
    uint32_t named = 0;
    pg__pk_value *call = NULL;
    pg_status st = PG_OK;
    PG_TRY(pg__pk_pop(m, &named));
    PG_TRY(op_call(m));
    PG_TRY(pg__pk_top(m, &call));
    if (!calls_foreign(m, call))
        return pg__pk_damaged(m, "a call with named arguments of something that takes none");
    st = pg__pk_append(m, call, &named, 1);
done:
    return st;
}

/* Python's own dictionaries carry only versions of modules. */
static pg_status build_dict(pg__pk_machine *m, const pg__pk_value *state)
{
    char shown[80];
    if (state->kind != PG_PK_DICT)
        return pg__pk_damaged(m, "attributes are set on something that has none");
    for (uint32_t i = 0; i < state->n; i += 2) {
        const pg__pk_value *key = &m->p->v[state->u.items[i]];
        if (pg__pickle_is(key, "_metadata"))
            continue;
        return pg_fail(
            m->err, PG_E_UNSUPPORTED,
            "sets the attribute %s of a dictionary, which only Python can do",
            key->kind == PG_PK_STR ? pg__printable(shown, sizeof shown, key->u.text, key->n) : "?");
    }
    return PG_OK;
}

/* Attributes of an object. */
static pg_status op_build(pg__pk_machine *m)
{
    uint32_t state = 0;
    pg__pk_value *v = NULL;
    pg_status st = PG_OK;
    PG_TRY(pg__pk_pop(m, &state));
    PG_TRY(pg__pk_top(m, &v));
    if (calls_dict(m, v))
        return build_dict(m, &m->p->v[state]);
    const pg__pk_value *callee = v->kind == PG_PK_CALL ? &m->p->v[v->u.items[0]] : NULL;
    if (!callee ||
        (callee->kind == PG_PK_GLOBAL && m->p->globals[callee->u.i].takes != PG_PK_ATTRIBUTES))
        return pg__pk_damaged(m, "attributes are set on something that has none");
    st = pg__pk_append(m, v, &state, 1);
done:
    return st;
}

static pg_status op_persid(pg__pk_machine *m)
{
    if (pg__pk_n_free(m) == 0)
        return pg__pk_damaged(m, "a value is missing on its stack");
    return pg__pk_gather(m, PG_PK_PERSID, m->n_stack - 1);
}

/* ---- opcodes: frame of the text ---- */

static pg_status op_proto(pg__pk_machine *m)
{
    uint64_t v = 0;
    const pg_status st = pg__pk_number(m, 1, &v);
    if (st != PG_OK)
        return st;
    if (v > 5)
        return pg_fail(m->err, PG_E_UNSUPPORTED, "pickle of protocol %u (2 to 5 are read)",
                       (unsigned)v);
    return PG_OK;
}

/* A frame only says how many bytes follow. */
static pg_status op_frame(pg__pk_machine *m)
{
    uint64_t n = 0;
    const pg_status st = pg__pk_number(m, 8, &n);
    if (st != PG_OK)
        return st;
    if (n > m->n - m->at) {
        m->cut = 1;
        return pg__pk_damaged(m, "it ends in the middle");
    }
    return PG_OK;
}

static pg_status op_stop(pg__pk_machine *m)
{
    const pg_status st = pg__pk_pop(m, &m->p->root);
    if (st != PG_OK)
        return st;
    if (m->n_stack || m->n_marks)
        return pg__pk_damaged(m, "values are left on its stack");
    m->stopped = 1;
    return PG_OK;
}

/* Which function implements which opcodes. */
static const struct {
    const char *ops;
    pg__pk_handler *function;
} functions[] = {
    {"N\x88\x89", op_constant},
    {"JKM", op_int},
    {"\x8a\x8b", op_long},
    {"G", op_float},
    {"X\x8c\x8dTUBC\x8e\x96", op_text},
    {"S", op_quoted},
    {"(", op_mark},
    {")]}\x8f", op_empty},
    {"tld\x91", op_gather},
    {"\x85\x86\x87", op_tuple_of},
    {"as", op_put},
    {"eu\x90", op_put_all},
    {"01", op_pop},
    {"2", op_dup},
    {"qr\x94", op_memo_put},
    {"hj", op_memo_get},
    {"c", op_global},
    {"\x93", op_stack_global},
    {"R\x81", op_call},
    {"io", op_call_marked},
    {"\x92", op_call_named},
    {"b", op_build},
    {"Q", op_persid},
    {"\x80", op_proto},
    {"\x95", op_frame},
    {".", op_stop},
};

void pg__pk_set_handlers(pg__pk_handler *handlers[256])
{
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        for (const char *op = functions[i].ops; *op; op++)
            handlers[(unsigned char)*op] = functions[i].function;
}

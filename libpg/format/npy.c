/* npy.c - a strict parser for one Python dict literal with three known keys, and its writer.
 *
 * The grammar is that of repr() of such a dict, with keys in any order, either kind of quotes, and
 * Python 2's long integers: {'descr': STRING, 'fortran_order': True|False, 'shape': (INT, ...)}.
 * Everything else is an error that names the key. */
#include "format/npy.h"

#include <inttypes.h>
#include <string.h>

#include "base/limits.h"
#include "base/mem.h"
#include "base/try.h"
#include "format/identify.h"
#include "store/values.h"

#define MAGIC "\x93NUMPY"

typedef struct literal {
    const char *s;
    size_t n, at;
    pg_err *err;
} literal;

static void skip_space(literal *l)
{
    while (l->at < l->n && strchr(" \t\n\r", l->s[l->at]) && l->s[l->at])
        l->at++;
}

static int take(literal *l, char c)
{
    skip_space(l);
    if (l->at == l->n || l->s[l->at] != c)
        return 0;
    l->at++;
    return 1;
}

static int take_word(literal *l, const char *word)
{
    const size_t len = strlen(word);
    skip_space(l);
    if (l->n - l->at < len || memcmp(l->s + l->at, word, len) != 0)
        return 0;
    l->at += len;
    return 1;
}

/* Reads a quoted string of printable ASCII without escapes into buf; 0 if there is none. */
static int take_string(literal *l, char *buf, size_t cap)
{
    skip_space(l);
    const char quote = l->at < l->n ? l->s[l->at] : 0;
    size_t n = 0;
    if (quote != '\'' && quote != '"')
        return 0;
    for (size_t i = l->at + 1; i < l->n; i++) {
        const char c = l->s[i];
        if (c == quote) {
            buf[n] = 0;
            l->at = i + 1;
            return 1;
        }
        if (c < 0x20 || c > 0x7E || c == '\\' || n + 1 == cap)
            return 0;
        buf[n++] = c;
    }
    return 0;
}

static pg_status bad_header(const literal *l, const char *what)
{
    return pg_fail(l->err, PG_E_FORMAT, "npy header: %s", what);
}

/* numpy's type string: byte order, kind, bytes. */
static pg_status parse_descr(pg__npy *out, literal *l)
{
    static const struct {
        const char *code;
        pg_dtype dtype;
        int void2;
    } types[] = {
        {"f2", PG_F16, 0},  {"f4", PG_F32, 0}, {"f8", PG_F64, 0}, {"i1", PG_I8, 0},
        {"i2", PG_I16, 0},  {"i4", PG_I32, 0}, {"i8", PG_I64, 0}, {"u1", PG_U8, 0},
        {"u2", PG_U16, 0},  {"u4", PG_U32, 0}, {"u8", PG_U64, 0}, {"b1", PG_BOOL, 0},
        {"V2", PG_BF16, 1},
    };
    char d[64];
    skip_space(l);
    if (l->at < l->n && l->s[l->at] == '[')
        return pg_fail(l->err, PG_E_UNSUPPORTED, "npy header: descr is a structured type");
    if (!take_string(l, d, sizeof d))
        return bad_header(l, "descr is not a plain string");
    if (strcmp(d, "|O") == 0 || strcmp(d, "O") == 0)
        return pg__fail_pickle("a pickle (NumPy array of Python objects)", l->err);
    for (size_t i = 0; d[0] && strchr("<>|=", d[0]) && i < sizeof types / sizeof *types; i++) {
        if (strcmp(d + 1, types[i].code) != 0)
            continue;
        const int here_big = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__;
        out->dtype = types[i].dtype;
        out->void2 = types[i].void2;
        out->big_endian = d[0] == '>' || (d[0] == '=' && here_big);
        if (d[0] != '|' || pg_dtype_bytes(out->dtype) == 1 || out->void2)
            return PG_OK;
    }
    return pg_fail(l->err, PG_E_UNSUPPORTED, "npy header: descr '%s' is not a type of weights", d);
}

static pg_status parse_dim(uint64_t *out, literal *l)
{
    uint64_t v = 0;
    size_t digits = 0;
    skip_space(l);
    for (; l->at < l->n && l->s[l->at] >= '0' && l->s[l->at] <= '9'; l->at++, digits++)
        if (__builtin_mul_overflow(v, UINT64_C(10), &v) ||
            __builtin_add_overflow(v, (uint64_t)(l->s[l->at] - '0'), &v))
            return pg_fail(l->err, PG_E_LIMIT, "npy header: shape is too large");
    if (digits == 0)
        return bad_header(l, "shape is not a tuple of sizes");
    if (l->at < l->n && l->s[l->at] == 'L')
        l->at++;
    *out = v;
    return PG_OK;
}

static pg_status parse_shape(pg__npy *out, literal *l)
{
    if (!take(l, '('))
        return bad_header(l, "shape is not a tuple of sizes");
    while (!take(l, ')')) {
        if (out->rank == PG_MAX_RANK)
            return pg_fail(l->err, PG_E_LIMIT, "npy header: shape has more than %u dimensions",
                           PG_MAX_RANK);
        const pg_status st = parse_dim(&out->dims[out->rank], l);
        if (st != PG_OK)
            return st;
        out->rank++;
        if (take(l, ','))
            continue;
        if (out->rank == 1 || !take(l, ')')) /* (3) is a number, (3,) a tuple */
            return bad_header(l, "shape is not a tuple of sizes");
        break;
    }
    return PG_OK;
}

static pg_status parse_order(pg__npy *out, literal *l)
{
    out->fortran_order = take_word(l, "True");
    return out->fortran_order || take_word(l, "False")
               ? PG_OK
               : bad_header(l, "fortran_order is neither True nor False");
}

static pg_status parse_dict(pg__npy *out, literal *l)
{
    static const char *const keys[] = {"descr", "fortran_order", "shape"};
    static pg_status (*const parsers[])(pg__npy *, literal *) = {parse_descr, parse_order,
                                                                 parse_shape};
    unsigned seen = 0;
    if (!take(l, '{'))
        return bad_header(l, "it is not a dict");
    while (!take(l, '}')) {
        char key[16];
        size_t k = 0;
        if (!take_string(l, key, sizeof key) || !take(l, ':'))
            return bad_header(l, "it is not a dict of descr, fortran_order and shape");
        while (k < 3 && strcmp(key, keys[k]) != 0)
            k++;
        if (k == 3 || seen & 1u << k)
            return pg_fail(l->err, PG_E_FORMAT, "npy header: key '%s' %s", PG_SHOW(key),
                           k == 3 ? "is unknown" : "comes twice");
        seen |= 1u << k;
        const pg_status st = parsers[k](out, l);
        if (st != PG_OK)
            return st;
        if (take(l, ','))
            continue;
        if (!take(l, '}'))
            return bad_header(l, "the dict has no end");
        break;
    }
    skip_space(l);
    if (l->at != l->n)
        return bad_header(l, "something follows the dict");
    if (seen != 7)
        return bad_header(l, "descr, fortran_order or shape is missing");
    return PG_OK;
}

/* Finds the dict; all lengths are checked against the file. */
static pg_status locate(pg__io *io, uint64_t size, uint64_t *off, size_t *n, pg_err *err)
{
    unsigned char head[12] = {0};
    const pg_status st =
        pg__io_read(io, 0, head, size < sizeof head ? (size_t)size : sizeof head, err);
    if (st != PG_OK)
        return st;
    if (size < 10 || memcmp(head, MAGIC, 6) != 0)
        return pg_fail(err, PG_E_FORMAT, "not a .npy file");
    if (head[6] < 1 || head[6] > 3 || head[7] != 0)
        return pg_fail(err, PG_E_UNSUPPORTED, "npy format version %u.%u (1.0 to 3.0 are known)",
                       head[6], head[7]);
    uint64_t len = head[8] | (uint64_t)head[9] << 8;
    *off = 10;
    if (head[6] > 1) {
        len |= (uint64_t)head[10] << 16 | (uint64_t)head[11] << 24;
        *off = 12;
    }
    if (size < *off || len > size - *off)
        return pg_fail(err, PG_E_FORMAT, "npy header of %" PRIu64 " bytes leaves the file", len);
    if (len > PG_LIMIT_NPY_HEADER)
        return pg_fail(err, PG_E_LIMIT, "npy header of %" PRIu64 " bytes", len);
    *n = (size_t)len;
    return PG_OK;
}

pg_status pg__npy_read_header(pg__npy *out, pg__io *io, pg_err *err)
{
    return pg__npy_read_head(out, io, pg__io_size(io), err);
}

pg_status pg__npy_read_head(pg__npy *out, pg__io *io, uint64_t size, pg_err *err)
{
    pg_status st = PG_OK;
    pg__npy h = {0};
    uint64_t off = 0;
    size_t n = 0;
    char *text = NULL;

    PG_TRY(locate(io, size, &off, &n, err));
    text = pg__mem_array(n + 1, 1);
    if (!text)
        PG_TRY(pg__nomem(err));
    PG_TRY(pg__io_read(io, off, text, n, err));
    literal l = {.s = text, .n = n, .err = err};
    PG_TRY(parse_dict(&h, &l));
    h.data_off = off + n;
    h.n_bytes = pg_dtype_bytes(h.dtype);
    for (uint32_t k = 0; k < h.rank; k++)
        if (__builtin_mul_overflow(h.n_bytes, h.dims[k], &h.n_bytes))
            PG_FAIL(PG_E_LIMIT, "npy header: shape is too large");
    if (h.n_bytes != size - h.data_off)
        PG_FAIL(h.n_bytes > INT64_MAX ? PG_E_LIMIT : PG_E_FORMAT,
                "npy header: shape asks for %" PRIu64 " bytes, %" PRIu64 " follow", h.n_bytes,
                size - h.data_off);
    *out = h;
done:
    pg__mem_free(text);
    return st;
}

static const char *descr_code(pg_dtype dtype)
{
    static const char *const codes[] = {"f2", "V2", "f4", "f8", "i1", "i2", "i4",
                                        "i8", "u1", "u2", "u4", "u8", "b1"};
    return codes[dtype];
}

pg_status pg__npy_add_header(pg__str *out, pg_dtype dtype, int big_endian, uint32_t rank,
                             const uint64_t *dims, uint64_t align, uint64_t phase, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str d = {0};
    unsigned char head[12] = MAGIC "\1";
    const char order = pg_dtype_bytes(dtype) == 1 ? '|' : big_endian ? '>' : '<';

    if (pg__dtype_is_float8(dtype))
        return pg_fail(err, PG_E_UNSUPPORTED, "NumPy has no %s; safetensors holds it",
                       pg_dtype_name(dtype));
    PG_TRY(pg__str_printf(&d, err, "{'descr': '%c%s', 'fortran_order': False, 'shape': (", order,
                          descr_code(dtype)));
    for (uint32_t k = 0; k < rank; k++)
        PG_TRY(pg__str_printf(&d, err, "%" PRIu64 "%s", dims[k],
                              k + 1 < rank ? ", "
                              : rank == 1  ? ","
                                           : ""));
    PG_TRY(pg__str_puts(&d, "), }", err));
    size_t n_head = 10;
    size_t pad = (size_t)((phase - (n_head + d.n + 1)) & (align - 1));
    if (d.n + pad + 1 > UINT16_MAX) {
        head[6] = 2;
        n_head = 12;
        pad = (size_t)((phase - (n_head + d.n + 1)) & (align - 1));
    }
    for (; pad; pad--)
        PG_TRY(pg__str_add(&d, " ", 1, err));
    PG_TRY(pg__str_add(&d, "\n", 1, err));
    for (size_t i = 8; i < n_head; i++)
        head[i] = (unsigned char)(d.n >> (8 * (i - 8)));
    PG_TRY(pg__str_add(out, (const char *)head, n_head, err));
    PG_TRY(pg__str_add(out, d.s, d.n, err));
done:
    pg__str_fini(&d);
    return st;
}

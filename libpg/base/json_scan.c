/* json_scan.c - reads JSON (RFC 8259) without recursion and without memory: checks the limits and
 * the syntax, and finds where values begin and end.
 *
 * The check runs before jansson, which recurses on its input and stops at the extensions that
 * Python's json module writes: NaN, Infinity, lone surrogates, integers of any length. In a copy,
 * each of these is overwritten by something of the same length that jansson accepts, so byte
 * positions stay those of the file. */
#include "base/json_scan.h"

#include <string.h>

#include "base/limits.h"

typedef struct scan {
    const unsigned char *s;
    size_t n, at;
    size_t tokens;
    uint64_t cost; /* of the values so far, once jansson holds them */
    unsigned depth;
    char *copy;
    int odd;
    pg_err *err;
    unsigned char is_object[PG_LIMIT_JSON_DEPTH]; /* per open container */
} scan;

/* Measured: what jansson 2.14 allocates for a value on a 64-bit machine, apart from its text. */
enum { COST_OBJECT = 256, COST_ARRAY = 144, COST_STRING = 96, COST_KEY = 80, COST_NUMBER = 48 };

typedef enum expect {
    VALUE,
    VALUE_OR_END, /* after [ */
    KEY,
    KEY_OR_END,  /* after { */
    NEXT_OR_END, /* after a value inside a container */
    NOTHING      /* after the root */
} expect;

void pg__json_position(const char *text, size_t n, size_t at, size_t *line, size_t *column)
{
    const char *start = text, *end = text + (at < n ? at : n), *nl;
    *line = 1;
    while (start < end && (nl = memchr(start, '\n', (size_t)(end - start))) != NULL) {
        ++*line;
        start = nl + 1;
    }
    *column = (size_t)(end - start) + 1;
}

static pg_status fail_at(scan *c, size_t at, const char *what)
{
    char found[16] = "the end";
    size_t line, column;
    pg__json_position((const char *)c->s, c->n, at, &line, &column);
    if (at < c->n) {
        found[0] = '"';
        pg__printable(found + 1, sizeof found - 2, (const char *)c->s + at, 1);
        strcat(found, "\"");
    }
    return pg_fail(c->err, PG_E_FORMAT, "JSON, line %zu, column %zu: %s at %s", line, column, what,
                   found);
}

static size_t skip_space(const unsigned char *s, size_t n, size_t at)
{
    while (at < n && (s[at] == ' ' || s[at] == '\n' || s[at] == '\t' || s[at] == '\r'))
        at++;
    return at;
}

/* Value of the 4 hex digits at s, or -1. */
static int hex4(const unsigned char *s, size_t n)
{
    int v = 0;
    if (n < 4)
        return -1;
    for (size_t i = 0; i < 4; i++) {
        const unsigned d = s[i];
        if (d >= '0' && d <= '9')
            v = v << 4 | (int)(d - '0');
        else if ((d | 32u) >= 'a' && (d | 32u) <= 'f')
            v = v << 4 | (int)((d | 32u) - 'a' + 10);
        else
            return -1;
    }
    return v;
}

/* The escape at c->at; a surrogate without its half becomes U+FFFD in the copy. */
static pg_status scan_escape(scan *c)
{
    const unsigned char *p = c->s + c->at;
    const size_t left = c->n - c->at;
    if (left < 2 || !strchr("\"\\/bfnrtu", p[1]) || p[1] == 0)
        return fail_at(c, c->at, "unknown escape");
    if (p[1] != 'u') {
        c->at += 2;
        return PG_OK;
    }
    const int code = hex4(p + 2, left - 2);
    if (code < 0)
        return fail_at(c, c->at, "\\u without four hex digits");
    size_t len = 6;
    if (code >= 0xD800 && code <= 0xDFFF) {
        const int low = left >= 12 && p[6] == '\\' && p[7] == 'u' ? hex4(p + 8, left - 8) : -1;
        if (code <= 0xDBFF && low >= 0xDC00 && low <= 0xDFFF) {
            len = 12;
        } else {
            c->odd = 1;
            if (c->copy)
                memcpy(c->copy + c->at, "\\ufffd", 6);
        }
    }
    c->at += len;
    return PG_OK;
}

static pg_status scan_string(scan *c)
{
    const size_t start = c->at++;
    while (c->at < c->n) {
        const unsigned char b = c->s[c->at];
        if (b == '"') {
            c->at++;
            return PG_OK;
        }
        if (b == '\\') {
            const pg_status st = scan_escape(c);
            if (st != PG_OK)
                return st;
        } else if (b < 0x20) {
            return fail_at(c, c->at, "control character in a string");
        } else if (b < 0x80) {
            c->at++;
        } else {
            uint32_t code;
            const size_t len = pg__utf8_at(c->s + c->at, c->n - c->at, &code);
            if (len == 0)
                return fail_at(c, c->at, "string is not UTF-8");
            c->at += len;
        }
    }
    return fail_at(c, start, "string without an end");
}

/* The word at c->at in place of a number, e.g. NaN; in the copy it becomes `number`. */
static int scan_odd_number(scan *c, const char *word, const char *number)
{
    const size_t len = strlen(word);
    if (c->n - c->at < len || memcmp(c->s + c->at, word, len) != 0)
        return 0;
    if (c->copy)
        memcpy(c->copy + c->at, number, len);
    c->odd = 1;
    c->at += len;
    return 1;
}

static size_t digits(const scan *c, size_t at)
{
    size_t end = at;
    while (end < c->n && c->s[end] >= '0' && c->s[end] <= '9')
        end++;
    return end - at;
}

/* 1 if the n digits at s, with their sign, are an int64. */
static int fits_int64(const unsigned char *s, size_t n, int negative)
{
    int64_t v = 0;
    for (size_t i = 0; i < n; i++) {
        const int64_t d = (int64_t)(s[i] - '0');
        if (__builtin_mul_overflow(v, (int64_t)10, &v) ||
            __builtin_add_overflow(v, negative ? -d : d, &v))
            return 0;
    }
    return 1;
}

static pg_status scan_number(scan *c)
{
    const size_t start = c->at;
    int real = 0;
    if (scan_odd_number(c, "NaN", "0.0") || scan_odd_number(c, "Infinity", "1.0e+308") ||
        scan_odd_number(c, "-Infinity", "-1.0e+308"))
        return PG_OK;
    const int negative = c->s[c->at] == '-';
    size_t at = start + (size_t)negative;
    const size_t whole = digits(c, at);
    if (whole == 0 || (whole > 1 && c->s[at] == '0'))
        return fail_at(c, start, "expected a value");
    at += whole;
    if (at < c->n && c->s[at] == '.') {
        const size_t n = digits(c, ++at);
        if (n == 0)
            return fail_at(c, at, "expected a digit");
        at += n, real = 1;
    }
    if (at < c->n && (c->s[at] | 32u) == 'e') {
        at++;
        at += at < c->n && (c->s[at] == '+' || c->s[at] == '-');
        const size_t n = digits(c, at);
        if (n == 0)
            return fail_at(c, at, "expected a digit");
        at += n, real = 1;
    }
    if (!real && !fits_int64(c->s + start + negative, whole, negative)) {
        c->odd = 1; /* 1234...56 becomes 1234...e2: as long, and nearly as large */
        if (c->copy)
            memcpy(c->copy + at - 2, "e2", 2);
    }
    c->at = at;
    return PG_OK;
}

static pg_status scan_word(scan *c, const char *word)
{
    const size_t len = strlen(word);
    if (c->n - c->at < len || memcmp(c->s + c->at, word, len) != 0)
        return fail_at(c, c->at, "expected a value");
    c->at += len;
    return PG_OK;
}

/* A value begins at c->at; *next is set to what may follow. */
static pg_status scan_value(scan *c, expect *next)
{
    const unsigned char b = c->at < c->n ? c->s[c->at] : 0;
    *next = c->depth ? NEXT_OR_END : NOTHING;
    switch (b) {
    case '{':
    case '[':
        if (c->depth == PG_LIMIT_JSON_DEPTH)
            return pg_fail(c->err, PG_E_LIMIT, "JSON: nested deeper than %u levels",
                           PG_LIMIT_JSON_DEPTH);
        c->is_object[c->depth++] = b == '{';
        c->cost += b == '{' ? COST_OBJECT : COST_ARRAY;
        c->at++;
        *next = b == '{' ? KEY_OR_END : VALUE_OR_END;
        return PG_OK;
    case '"': c->cost += COST_STRING; return scan_string(c);
    case 't': return scan_word(c, "true");
    case 'f': return scan_word(c, "false");
    case 'n': return scan_word(c, "null");
    case 0: return fail_at(c, c->at, "expected a value");
    default: c->cost += COST_NUMBER; return scan_number(c);
    }
}

static pg_status scan_key(scan *c, expect *next)
{
    if (c->at == c->n || c->s[c->at] != '"')
        return fail_at(c, c->at, "expected a key in double quotes");
    c->cost += COST_KEY;
    const pg_status st = scan_string(c);
    if (st != PG_OK)
        return st;
    c->at = skip_space(c->s, c->n, c->at);
    if (c->at == c->n || c->s[c->at] != ':')
        return fail_at(c, c->at, "expected \":\"");
    c->at++;
    *next = VALUE;
    return PG_OK;
}

/* Reads one token at c->at; *what says which tokens are allowed, and then which may follow. */
static pg_status scan_token(scan *c, expect *what)
{
    const int in_object = c->depth && c->is_object[c->depth - 1];
    const unsigned char b = c->at < c->n ? c->s[c->at] : 0;
    if (++c->tokens > PG_LIMIT_JSON_TOKENS)
        return pg_fail(c->err, PG_E_LIMIT, "JSON: more than %u values", PG_LIMIT_JSON_TOKENS);
    if (c->cost > PG_LIMIT_JSON_MEMORY)
        return pg_fail(c->err, PG_E_LIMIT, "JSON: its values take more than %llu MiB of memory",
                       (unsigned long long)PG_LIMIT_JSON_MEMORY >> 20);
    if (*what != VALUE && *what != KEY && b && b == (in_object ? '}' : ']')) {
        c->at++;
        c->depth--;
        *what = c->depth ? NEXT_OR_END : NOTHING;
        return PG_OK;
    }
    switch (*what) {
    case VALUE:
    case VALUE_OR_END: return scan_value(c, what);
    case KEY:
    case KEY_OR_END: return scan_key(c, what);
    case NEXT_OR_END:
    case NOTHING: break;
    }
    if (b != ',')
        return fail_at(c, c->at, in_object ? "expected \",\" or \"}\"" : "expected \",\" or \"]\"");
    c->tokens--; /* a comma is not a value */
    c->at++;
    *what = in_object ? KEY : VALUE;
    return PG_OK;
}

pg_status pg__json_scan(const char *text, size_t n, char *copy, int *odd, pg_err *err)
{
    scan c = {.s = (const unsigned char *)text, .n = n, .copy = copy, .err = err};
    expect what = VALUE;
    if (n > PG_LIMIT_JSON_BYTES)
        return pg_fail(err, PG_E_LIMIT, "JSON: %zu bytes, more than the limit of %llu", n,
                       (unsigned long long)PG_LIMIT_JSON_BYTES);
    if (n >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0)
        c.at = 3;
    while (what != NOTHING) {
        c.at = skip_space(c.s, n, c.at);
        const pg_status st = scan_token(&c, &what);
        if (st != PG_OK)
            return st;
    }
    c.at = skip_space(c.s, n, c.at);
    if (c.at != n)
        return fail_at(&c, c.at, "unexpected text after the value");
    if (odd)
        *odd = c.odd;
    return PG_OK;
}

pg_status pg__json_check(const char *text, size_t n, pg_err *err)
{
    return pg__json_scan(text, n, NULL, NULL, err);
}

/* End of the string that begins at `at`, or n. */
static size_t string_end(const char *text, size_t n, size_t at)
{
    for (at++; at < n; at++) {
        if (text[at] == '"')
            return at + 1;
        at += text[at] == '\\';
    }
    return n;
}

/* End of the value that begins at `at`; brackets are counted, not matched, since text was checked.
 */
static size_t value_end(const char *text, size_t n, size_t at)
{
    size_t depth = 0;
    while (at < n) {
        const char b = text[at];
        if (b == '"') {
            at = string_end(text, n, at);
        } else if (b == '{' || b == '[') {
            depth++, at++;
            continue;
        } else if (b == '}' || b == ']') {
            if (depth == 0)
                return at;
            depth--, at++;
        } else if (depth > 0) {
            at++;
            continue;
        } else {
            while (at < n && !(text[at] && strchr(",:]} \n\r\t", text[at])))
                at++;
        }
        if (depth == 0)
            return at;
    }
    return n;
}

static size_t skip(const char *text, size_t n, size_t at)
{
    return skip_space((const unsigned char *)text, n, at);
}

pg__json_walk pg__json_walk_of(const char *text, pg__json_span c)
{
    pg__json_walk w = {.text = text, .at = c.off + 1, .end = c.off + c.n};
    if (c.n < 2 || (text[c.off] != '{' && text[c.off] != '['))
        w.at = w.end;
    else
        w.is_object = text[c.off] == '{', w.end--;
    return w;
}

int pg__json_walk_next(pg__json_walk *w)
{
    w->at = skip(w->text, w->end, w->at);
    if (w->at < w->end && w->text[w->at] == ',')
        w->at = skip(w->text, w->end, w->at + 1);
    if (w->at >= w->end)
        return 0;
    if (w->is_object) {
        w->key.off = w->at;
        w->at = value_end(w->text, w->end, w->at);
        w->key.n = w->at - w->key.off;
        w->at = skip(w->text, w->end, w->at);
        if (w->at >= w->end || w->text[w->at] != ':')
            return 0;
        w->at = skip(w->text, w->end, w->at + 1);
    }
    w->value.off = w->at;
    w->at = value_end(w->text, w->end, w->at);
    w->value.n = w->at - w->value.off;
    return w->value.n > 0;
}

/* Bytes of the character that the escape at s (n bytes, begins with a backslash) stands for, in
 * out[4]; *used bytes of s. A lone surrogate stands for none: 0. */
static size_t unescape(const unsigned char *s, size_t n, char *out, size_t *used)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    const char *p = n > 1 && s[1] ? strchr(from, s[1]) : NULL;
    *used = n < 2 ? n : 2;
    if (p) {
        out[0] = to[p - from];
        return 1;
    }
    if (n < 6 || s[1] != 'u')
        return 0;
    *used = 6;
    uint32_t code = (uint32_t)hex4(s + 2, n - 2);
    if (code >= 0xD800 && code <= 0xDBFF && n >= 12 && s[6] == '\\' && s[7] == 'u') {
        const uint32_t low = (uint32_t)hex4(s + 8, n - 8);
        code = low >= 0xDC00 && low <= 0xDFFF ? 0x10000 + ((code & 0x3FF) << 10 | (low & 0x3FF))
                                              : code;
        *used = 12;
    }
    if (code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF))
        return 0;
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    const size_t len = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = len - 1; i > 0; i--, code >>= 6)
        out[i] = (char)(0x80 | (code & 0x3F));
    out[0] = (char)((0xF00u >> len & 0xFFu) | code);
    return len;
}

int pg__json_key_is(const char *text, pg__json_span key, const char *name)
{
    const size_t len = strlen(name);
    if (key.n < 2 || text[key.off] != '"')
        return 0;
    const unsigned char *s = (const unsigned char *)text + key.off + 1;
    const size_t n = key.n - 2;
    if (!memchr(s, '\\', n))
        return n == len && memcmp(s, name, n) == 0;
    size_t at = 0;
    for (size_t i = 0; i < n;) {
        char c[4] = {(char)s[i]};
        size_t used = 1, got = 1;
        if (s[i] == '\\')
            got = unescape(s + i, n - i, c, &used);
        if (got == 0 || len - at < got || memcmp(name + at, c, got) != 0)
            return 0;
        at += got, i += used;
    }
    return at == len;
}

pg_status pg__json_unquote(pg__str *out, const char *text, pg__json_span s, pg_err *err)
{
    const size_t end = s.n < 2 ? s.off : s.off + s.n - 1;
    for (size_t at = s.off + 1; at < end;) {
        const char *escape = memchr(text + at, '\\', end - at);
        const size_t plain = escape ? (size_t)(escape - text) - at : end - at;
        size_t used = 0, n = 0;
        char c[4];
        pg_status st = pg__str_add(out, text + at, plain, err);
        at += plain;
        if (st == PG_OK && escape) {
            n = unescape((const unsigned char *)escape, end - at, c, &used);
            at += used;
            st = n ? pg__str_add(out, c, n, err)
                   : pg_fail(err, PG_E_FORMAT, "a name with half of a surrogate pair");
        }
        if (st != PG_OK)
            return st;
    }
    return pg__str_add(out, "", 0, err);
}

pg__json_span pg__json_range(const char *text, size_t n, const pg__json_step *path)
{
    const pg__json_span none = {0};
    pg__json_span v = {.off = n >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0};
    v.off = skip(text, n, v.off);
    v.n = value_end(text, n, v.off) - v.off;
    for (; path->used; path++) {
        pg__json_walk w = pg__json_walk_of(text, v);
        size_t i = 0;
        int found = 0;
        while (!found && pg__json_walk_next(&w))
            found = path->key ? w.is_object && pg__json_key_is(text, w.key, path->key)
                              : !w.is_object && i++ == path->index;
        if (!found)
            return none;
        v = w.value;
    }
    return v;
}

pg__json_span pg__json_member(const char *text, pg__json_span within, const char *key)
{
    const pg__json_step path[] = {PG_JKEY(key), {0}};
    if (within.n == 0)
        return (pg__json_span){0};
    pg__json_span s = pg__json_range(text + within.off, within.n, path);
    s.off += within.off;
    return s;
}

int pg__json_is_text(const char *text, pg__json_span s, const char *word)
{
    return s.n > 1 && text[s.off] == '"' && pg__json_key_is(text, s, word);
}

int pg__json_is_null(const char *text, pg__json_span s)
{
    return s.n == 0 || (s.n == 4 && memcmp(text + s.off, "null", 4) == 0);
}

/* json.c - the parsed form of JSON: a thin layer over jansson, and the only file that includes it.
 *
 * pg__json is jansson's json_t under another name, so views cost nothing. */
#include "base/json.h"

#include <jansson.h>
#include <string.h>

#include "base/json_scan.h"
#include "base/mem.h"
#include "base/try.h"

static const json_t *view(const pg__json *j)
{
    return (const json_t *)j;
}

/* jansson's iterator takes a non-const json_t, but does not change it. */
static json_t *unlocked(const pg__json *j)
{
    return (json_t *)(uintptr_t)j;
}

/* Turns jansson's complaint into a message; line and column are those of the original text. */
static pg_status fail_parse(const char *text, size_t n, size_t skipped, const json_error_t *e,
                            pg_err *err)
{
    char why[160];
    size_t line, column;
    const size_t at = skipped + (e->position > 0 ? (size_t)e->position : 0);
    if (json_error_code(e) == json_error_out_of_memory)
        return pg__nomem(err);
    pg__json_position(text, n, at, &line, &column);
    const char *near = strchr(e->text, '\'');
    if (json_error_code(e) == json_error_duplicate_key && near)
        return pg_fail(err, PG_E_FORMAT, "JSON, line %zu, column %zu: the key %s occurs twice",
                       line, column, pg__printable(why, sizeof why, near + 1, strlen(near) - 2));
    return pg_fail(err, PG_E_FORMAT, "JSON, line %zu, column %zu: %s", line, column,
                   pg__printable(why, sizeof why, e->text, strlen(e->text)));
}

pg_status pg__json_parse(pg__json **out, const char *text, size_t n, pg_err *err)
{
    const size_t flags =
        JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY; /* a root of any type */
    const size_t bom = n >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
    pg_status st = PG_OK;
    char *copy = NULL;
    json_error_t e = {0};
    int odd = 0;

    PG_TRY(pg__json_scan(text, n, NULL, &odd, err));
    if (odd) {
        copy = pg__mem_strndup(text, n);
        if (!copy) {
            st = pg__nomem(err);
            goto done;
        }
        PG_TRY(pg__json_scan(text, n, copy, NULL, err));
    }
    json_t *root = json_loadb((copy ? copy : text) + bom, n - bom, flags, &e);
    if (!root) {
        st = fail_parse(text, n, bom, &e, err);
        goto done;
    }
    *out = (pg__json *)root;
done:
    pg__mem_free(copy);
    return st;
}

void pg__json_free(pg__json *root)
{
    json_decref((json_t *)root);
}

pg__json_type pg__json_type_of(const pg__json *j)
{
    if (!j)
        return PG_J_NONE;
    switch (json_typeof(view(j))) {
    case JSON_OBJECT: return PG_J_OBJECT;
    case JSON_ARRAY: return PG_J_ARRAY;
    case JSON_STRING: return PG_J_STRING;
    case JSON_INTEGER: return PG_J_INT;
    case JSON_REAL: return PG_J_REAL;
    case JSON_TRUE:
    case JSON_FALSE: return PG_J_BOOL;
    case JSON_NULL: break;
    }
    return PG_J_NULL;
}

const pg__json *pg__json_get(const pg__json *obj, const char *key)
{
    return obj ? (const pg__json *)json_object_get(view(obj), key) : NULL;
}

const pg__json *pg__json_at(const pg__json *arr, size_t i)
{
    return arr ? (const pg__json *)json_array_get(view(arr), i) : NULL;
}

size_t pg__json_len(const pg__json *j)
{
    const pg__json_type t = pg__json_type_of(j);
    return t == PG_J_ARRAY    ? json_array_size(view(j))
           : t == PG_J_OBJECT ? json_object_size(view(j))
                              : 0;
}

const char *pg__json_str(const pg__json *j)
{
    return j ? json_string_value(view(j)) : NULL;
}

const char *pg__json_bytes(const pg__json *j, size_t *n)
{
    *n = j ? json_string_length(view(j)) : 0;
    return pg__json_str(j);
}

const char *pg__json_get_str(const pg__json *obj, const char *key)
{
    return pg__json_str(pg__json_get(obj, key));
}

int pg__json_int(const pg__json *j, int64_t *out)
{
    if (pg__json_type_of(j) != PG_J_INT)
        return 0;
    *out = json_integer_value(view(j));
    return 1;
}

int pg__json_num(const pg__json *j, double *out)
{
    if (!json_is_number((const json_t *)j))
        return 0;
    *out = json_number_value((const json_t *)j);
    return 1;
}

int pg__json_bool(const pg__json *j, int fallback)
{
    double v = 0;
    return pg__json_type_of(j) == PG_J_BOOL ? json_is_true(view(j))
           : pg__json_num(j, &v)            ? v != 0
                                            : fallback;
}

int pg__json_next(pg__json_iter *it)
{
    if (pg__json_type_of(it->obj) != PG_J_OBJECT)
        return 0;
    json_t *obj = unlocked(it->obj);
    it->at = it->key ? json_object_iter_next(obj, it->at) : json_object_iter(obj);
    if (!it->at)
        return 0;
    it->key = json_object_iter_key(it->at);
    it->key_len = strlen(it->key); /* jansson refuses keys with a NUL inside */
    it->value = (const pg__json *)json_object_iter_value(it->at);
    return 1;
}

pg_status pg__json_quote(pg__str *out, const char *s, size_t n, pg_err *err)
{
    const unsigned char *p = (const unsigned char *)s;
    pg_status st = PG_OK;
    PG_TRY(pg__str_puts(out, "\"", err));
    for (size_t i = 0; i < n;) {
        size_t plain = i;
        while (plain < n && p[plain] >= 0x20 && p[plain] < 0x7F && p[plain] != '"' &&
               p[plain] != '\\')
            plain++;
        PG_TRY(pg__str_add(out, s + i, plain - i, err));
        i = plain;
        if (i == n)
            break;
        uint32_t code = 0;
        const size_t len = pg__utf8_at(p + i, n - i, &code);
        if (len == 0)
            code = 0xFFFD;
        i += len ? len : 1;
        if (code == '"' || code == '\\')
            PG_TRY(pg__str_printf(out, err, "\\%c", (char)code));
        else if (code == '\n')
            PG_TRY(pg__str_puts(out, "\\n", err));
        else if (code < 0x10000)
            PG_TRY(pg__str_printf(out, err, "\\u%04x", code));
        else
            PG_TRY(pg__str_printf(out, err, "\\u%04x\\u%04x", 0xD800 + ((code - 0x10000) >> 10),
                                  0xDC00 + (code & 0x3FF)));
    }
    PG_TRY(pg__str_puts(out, "\"", err));
done:
    return st;
}

/* plain_config.c - see plain_config.h. */
#include "format/plain_config.h"

#include <string.h>

#include "base/try.h"

/* Bytes of {"class_name": `name`, "items": before its array, or 0. */
static size_t marked(const char *p, size_t n, const char *name)
{
    const char *const tokens[] = {"{", "\"class_name\"", ":", name, ",", "\"items\"", ":"};
    size_t at = 0;
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++) {
        const size_t len = strlen(tokens[i]);
        while (at < n && strchr(" \n\r\t", p[at]))
            at++;
        if (n - at < len || memcmp(p + at, tokens[i], len) != 0)
            return 0;
        at += len;
    }
    return at;
}

static size_t mark_of(const char *p, size_t n)
{
    const size_t tuple = marked(p, n, "\"__tuple__\"");
    return tuple ? tuple : marked(p, n, "\"TensorShape\"");
}

static size_t string_end(const char *p, size_t n, size_t at)
{
    for (at++; at < n && p[at] != '"'; at++)
        at += p[at] == '\\';
    return at < n ? at + 1 : n;
}

pg_status pg__plain_config(pg__str *out, const char *json, size_t n, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str open = {0}; /* for each '{', whether it is left out */
    for (size_t i = 0; i < n;) {
        const size_t mark = json[i] == '{' ? mark_of(json + i, n - i) : 0;
        const size_t end = json[i] == '"' ? string_end(json, n, i) : i + 1;
        const int drop = mark || (json[i] == '}' && open.n && open.s[open.n - 1] == 'm');
        if (json[i] == '{')
            PG_TRY(pg__str_puts(&open, mark ? "m" : "{", err));
        else if (json[i] == '}' && open.n)
            open.n--;
        if (!drop)
            PG_TRY(pg__str_add(out, json + i, end - i, err));
        i = mark ? i + mark : end;
    }
done:
    pg__str_fini(&open);
    return st;
}

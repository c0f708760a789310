/* str.c - growing strings, and names from files made safe to show. */
#include "base/str.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"

pg_status pg__str_add(pg__str *b, const char *s, size_t n, pg_err *err)
{
    if (n > SIZE_MAX / 4 || b->n > SIZE_MAX / 4 || pg__mem_grow(&b->s, &b->cap, b->n + n + 1, 1))
        return pg__nomem(err);
    if (n)
        memcpy(b->s + b->n, s, n);
    b->n += n;
    b->s[b->n] = 0;
    return PG_OK;
}

pg_status pg__str_puts(pg__str *b, const char *s, pg_err *err)
{
    return pg__str_add(b, s, strlen(s), err);
}

PG_PRINTF(3, 0)
static pg_status add_vprintf(pg__str *b, pg_err *err, const char *fmt, va_list ap)
{
    va_list again;
    va_copy(again, ap);
    const int n = vsnprintf(NULL, 0, fmt, again);
    va_end(again);
    if (n < 0 || pg__mem_grow(&b->s, &b->cap, b->n + (size_t)n + 1, 1))
        return pg__nomem(err);
    vsnprintf(b->s + b->n, (size_t)n + 1, fmt, ap);
    b->n += (size_t)n;
    return PG_OK;
}

pg_status pg__str_printf(pg__str *b, pg_err *err, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const pg_status st = add_vprintf(b, err, fmt, ap);
    va_end(ap);
    return st;
}

void pg__str_fini(pg__str *b)
{
    pg__mem_free(b->s);
    *b = (pg__str){0};
}

pg_status pg__strs_add(pg__strs *l, const char *s, size_t len, pg_err *err)
{
    char *copy = pg__mem_strndup(s, len);
    if (!copy || pg__mem_grow(&l->v, &l->cap, l->n + 1, sizeof *l->v)) {
        pg__mem_free(copy);
        return pg__nomem(err);
    }
    l->v[l->n++] = copy;
    return PG_OK;
}

pg_status pg__strs_printf(pg__strs *l, pg_err *err, const char *fmt, ...)
{
    pg__str text = {0};
    va_list ap;
    va_start(ap, fmt);
    pg_status st = add_vprintf(&text, err, fmt, ap);
    va_end(ap);
    if (st == PG_OK)
        st = pg__strs_add(l, text.s, text.n, err);
    pg__str_fini(&text);
    return st;
}

size_t pg__strs_find(const pg__strs *l, const char *s)
{
    for (size_t i = 0; i < l->n; i++)
        if (strcmp(l->v[i], s) == 0)
            return i;
    return SIZE_MAX;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void pg__strs_sort(pg__strs *l)
{
    if (l->n)
        qsort(l->v, l->n, sizeof *l->v, by_text);
}

size_t pg__strs_search(const pg__strs *l, const char *s)
{
    char *const *at = l->n ? bsearch(&s, l->v, l->n, sizeof *l->v, by_text) : NULL;
    return at ? (size_t)(at - l->v) : SIZE_MAX;
}

int pg__is_any(const char *s, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(s, list[i]) == 0)
            return 1;
    return 0;
}

int pg__ends_with(const char *s, const char *end)
{
    const size_t n = strlen(s), k = strlen(end);
    return n >= k && strcmp(s + n - k, end) == 0;
}

int pg__has_suffix(const char *name, const char *suffix)
{
    const size_t n = strlen(name), k = strlen(suffix);
    return n > k && strcasecmp(name + n - k, suffix) == 0;
}

void pg__strs_fini(pg__strs *l)
{
    for (size_t i = 0; i < l->n; i++)
        pg__mem_free(l->v[i]);
    pg__mem_free(l->v);
    *l = (pg__strs){0};
}

size_t pg__utf8_at(const unsigned char *s, size_t n, uint32_t *code)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const size_t len = s[0] < 0x80   ? 1
                       : s[0] < 0xC2 ? 0
                       : s[0] < 0xE0 ? 2
                       : s[0] < 0xF0 ? 3
                       : s[0] < 0xF5 ? 4
                                     : 0;
    if (len == 0 || len > n)
        return 0;
    uint32_t c = len == 1 ? s[0] : s[0] & (0xFFu >> (len + 1));
    for (size_t i = 1; i < len; i++) {
        if ((s[i] & 0xC0) != 0x80)
            return 0;
        c = c << 6 | (s[i] & 0x3F);
    }
    if ((len > 1 && c < least[len]) || c > 0x10FFFF || (c >= 0xD800 && c <= 0xDFFF))
        return 0;
    *code = c;
    return len;
}

/* Characters that change how a terminal shows its neighbours. */
static int is_disruptive(uint32_t c)
{
    return c < 0x20 || (c >= 0x7F && c < 0xA0) || c == 0xAD || c == 0x61C ||
           (c >= 0x200B && c <= 0x200F) || (c >= 0x2028 && c <= 0x202E) ||
           (c >= 0x2060 && c <= 0x206F) || c == 0xFEFF || (c >= 0xFFF9 && c <= 0xFFFB) ||
           (c >= 0xE0000 && c <= 0xE007F);
}

const char *pg__printable(char *buf, size_t cap, const char *name, size_t len)
{
    static const char hex[] = "0123456789abcdef";
    const unsigned char *s = (const unsigned char *)name;
    size_t at = 0;
    for (size_t i = 0; i < len;) {
        uint32_t c = 0;
        size_t n = pg__utf8_at(s + i, len - i, &c);
        const int plain = n > 0 && !is_disruptive(c) && c != '\\';
        if (n == 0)
            n = 1;
        const size_t need = plain ? n : c == '\\' ? 2 : 4 * n;
        if (at + need + 4 > cap) { /* keeps room for "..." and the NUL */
            memcpy(buf + at, "...", 3);
            at += 3;
            break;
        }
        for (size_t k = 0; k < n; k++) {
            if (plain) {
                buf[at++] = (char)s[i + k];
            } else if (c == '\\') {
                buf[at++] = '\\', buf[at++] = '\\';
            } else {
                buf[at++] = '\\', buf[at++] = 'x';
                buf[at++] = hex[s[i + k] >> 4], buf[at++] = hex[s[i + k] & 15];
            }
        }
        i += n;
    }
    buf[at] = 0;
    return buf;
}

pg__shown pg__show(const char *name)
{
    pg__shown out;
    pg__printable(out.s, sizeof out.s, name, strlen(name));
    return out;
}

pg__quoted pg__quote(const char *name)
{
    static const char safe[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                               "%+,-./:=@_";
    static const pg__quoted none = {PG_UNQUOTABLE};
    pg__quoted out;
    char shown[sizeof out.s];
    size_t at = 0;
    pg__printable(shown, sizeof shown, name, strlen(name));
    const int plain = *name && name[strspn(name, safe)] == 0;
    if (strcmp(shown, name) != 0)
        return none;
    if (!plain)
        out.s[at++] = '\'';
    if (*name == '-') {
        out.s[at++] = '.';
        out.s[at++] = '/';
    }
    for (const char *p = name; *p; p++) {
        if (at + 6 >= sizeof out.s)
            return none;
        if (*p == '\'') {
            memcpy(out.s + at, "'\\''", 4);
            at += 4;
        } else {
            out.s[at++] = *p;
        }
    }
    if (!plain)
        out.s[at++] = '\'';
    out.s[at] = 0;
    return out;
}

pg__num pg__num_of(uint64_t v)
{
    pg__num out;
    size_t n_digits = 1;
    for (uint64_t rest = v / 10; rest; rest /= 10)
        n_digits++;
    size_t at = n_digits + (n_digits - 1) / 3;
    out.s[at] = 0;
    for (size_t digit = 0; digit < n_digits; digit++, v /= 10) {
        if (digit && digit % 3 == 0)
            out.s[--at] = ',';
        out.s[--at] = (char)('0' + v % 10);
    }
    return out;
}

const char *pg_printable(char *buf, size_t cap, const char *name, size_t len)
{
    return pg__printable(buf, cap, name, len);
}

int pg__same_name(const char *a, size_t n, const char *b)
{
    size_t i = 0;
    for (;; i++, b++) {
        while (i < n && a[i] == '_')
            i++;
        while (*b == '_')
            b++;
        if (i == n || *b == '\0')
            return i == n && *b == '\0';
        if (tolower((unsigned char)a[i]) != tolower((unsigned char)*b))
            return 0;
    }
}

const char *pg__last_byte(const char *s, char c, size_t n)
{
    while (n > 0)
        if (s[--n] == c)
            return s + n;
    return NULL;
}

const char *pg__base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

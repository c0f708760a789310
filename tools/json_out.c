/* json_out.c - a small JSON writer: keeps nothing in memory, and writes names as valid UTF-8
 * whatever bytes they hold. */
#include "json_out.h"

#include <math.h>
#include <stdio.h>

static FILE *given; /* NULL: stdout */

static FILE *out(void)
{
    return given ? given : stdout;
}

void json_into(void *stream)
{
    given = stream;
}

/* Length of the valid UTF-8 sequence at s, 0 if there is none. */
static size_t utf8_length(const unsigned char *s)
{
    const unsigned c = *s;
    const size_t n = c < 0x80 ? 1 : c < 0xC2 ? 0 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : c < 0xF5 ? 4 : 0;
    for (size_t i = 1; i < n; i++)
        if ((s[i] & 0xC0) != 0x80)
            return 0;
    if ((c == 0xE0 && s[1] < 0xA0) || (c == 0xED && s[1] >= 0xA0) || (c == 0xF0 && s[1] < 0x90) ||
        (c == 0xF4 && s[1] >= 0x90))
        return 0; /* overlong form, half of a surrogate pair, beyond Unicode */
    return n;
}

/* Characters that change how a terminal shows their neighbours: controls, text directions,
 * invisible characters. They are escaped. */
static int is_disruptive(uint32_t c)
{
    return c < 0x20 || (c >= 0x7F && c < 0xA0) || c == 0xAD || c == 0x61C ||
           (c >= 0x200B && c <= 0x200F) || (c >= 0x2028 && c <= 0x202E) ||
           (c >= 0x2060 && c <= 0x206F) || c == 0xFEFF || (c >= 0xFFF9 && c <= 0xFFFB) ||
           (c >= 0xE0000 && c <= 0xE007F);
}

/* Writes the code point in the n bytes at s as an escape; beyond U+FFFF as a surrogate pair. */
static uint32_t code_point(const unsigned char *s, size_t n)
{
    uint32_t c = n == 1 ? *s : *s & (0xFFu >> (n + 1));
    for (size_t i = 1; i < n; i++)
        c = c << 6 | (s[i] & 0x3F);
    return c;
}

static void put_escape(uint32_t c)
{
    if (c < 0x10000)
        fprintf(out(), "\\u%04x", (unsigned)c);
    else
        fprintf(out(), "\\u%04x\\u%04x", (unsigned)(0xD800 + ((c - 0x10000) >> 10)),
                (unsigned)(0xDC00 + ((c - 0x10000) & 0x3FF)));
}

void json_quoted(const char *text)
{
    if (!text) {
        fputs("null", out());
        return;
    }
    fputc('"', out());
    for (const unsigned char *s = (const unsigned char *)text; *s;) {
        const size_t n = utf8_length(s);
        if (n == 0)
            fputs("\xEF\xBF\xBD", out()); /* U+FFFD */
        else if (*s == '"' || *s == '\\')
            fprintf(out(), "\\%c", *s);
        else if (is_disruptive(code_point(s, n)))
            put_escape(code_point(s, n));
        else
            fwrite(s, 1, n, out());
        s += n ? n : 1;
    }
    fputc('"', out());
}

void json_member(const char *key, const char *text)
{
    fprintf(out(), ", \"%s\": ", key);
    json_quoted(text);
}

void json_count(const char *key, int known, uint64_t n)
{
    if (known)
        fprintf(out(), ", \"%s\": %llu", key, (unsigned long long)n);
    else
        fprintf(out(), ", \"%s\": null", key);
}

void json_number(const char *key, double v)
{
    if (isfinite(v))
        fprintf(out(), ", \"%s\": %.17g", key, v);
    else
        fprintf(out(), ", \"%s\": null", key);
}

void json_strings(const char *key, char **items, size_t n)
{
    fprintf(out(), ", \"%s\": [", key);
    for (size_t i = 0; i < n; i++) {
        fputs(i ? ", " : "", out());
        json_quoted(items[i]);
    }
    fputc(']', out());
}

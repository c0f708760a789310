/* json_out.c - a JSON emitter of a few lines: there is nothing to keep in memory, and names must
 * come out as valid UTF-8 whatever bytes they are. */
#include "json_out.h"

#include <math.h>
#include <stdio.h>

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
        return 0; /* too long a form, half of a UTF-16 pair, beyond Unicode */
    return n;
}

void json_string(const char *text)
{
    if (!text) {
        fputs("null", stdout);
        return;
    }
    putchar('"');
    for (const unsigned char *s = (const unsigned char *)text; *s;) {
        const size_t n = utf8_length(s);
        if (n == 0)
            fputs("\xEF\xBF\xBD", stdout); /* U+FFFD */
        else if (*s == '"' || *s == '\\')
            printf("\\%c", *s);
        else if (*s < 0x20 || *s == 0x7F)
            printf("\\u%04x", *s);
        else
            fwrite(s, 1, n, stdout);
        s += n ? n : 1;
    }
    putchar('"');
}

void json_member(const char *key, const char *text)
{
    printf(", \"%s\": ", key);
    json_string(text);
}

void json_count(const char *key, int known, uint64_t n)
{
    if (known)
        printf(", \"%s\": %llu", key, (unsigned long long)n);
    else
        printf(", \"%s\": null", key);
}

void json_real(const char *key, double v)
{
    if (isfinite(v))
        printf(", \"%s\": %.17g", key, v);
    else
        printf(", \"%s\": null", key);
}

void json_strings(const char *key, char **items, size_t n)
{
    printf(", \"%s\": [", key);
    for (size_t i = 0; i < n; i++) {
        fputs(i ? ", " : "", stdout);
        json_string(items[i]);
    }
    putchar(']');
}

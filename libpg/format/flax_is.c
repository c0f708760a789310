/* flax_is.c - is it Flax's? A file of msgpack has no magic number: only its first values can tell.
 */
#include "format/flax.h"

/* Bytes of the head of a msgpack string, and of its text; 0 if there is no string. */
static size_t msgpack_text(const unsigned char *p, size_t n, size_t *len)
{
    if (n && p[0] >= 0xA0 && p[0] <= 0xBF) {
        *len = p[0] & 0x1F;
        return 1;
    }
    if (n > 1 && p[0] == 0xD9) {
        *len = p[1];
        return 2;
    }
    return 0;
}

/* Bytes of a map's head, or of a small value that is no array; 0: something else. */
static size_t step_over(const unsigned char *p, size_t n)
{
    size_t len = 0;
    const unsigned c = p[0];
    const size_t text = msgpack_text(p, n, &len);
    if (text)
        return text + len;
    if (c == 0xDE || c == 0xDF)
        return c == 0xDE ? 3 : 5;
    if (c == 0xCA || c == 0xCB)
        return c == 0xCA ? 5 : 9;
    if (c >= 0xCC && c <= 0xD3)
        return 1 + ((size_t)1 << (c & 3));
    return c <= 0x8F || c == 0xC0 || c == 0xC2 || c == 0xC3 || c >= 0xE0;
}

/* Is there an extension of type 1, 2 or 3: an array or number of Flax? -1: no extension. */
static int extension(const unsigned char *p, size_t n)
{
    size_t type = 0;
    if (p[0] >= 0xC7 && p[0] <= 0xC9) /* size, then type */
        type = 1 + ((size_t)1 << (p[0] - 0xC7));
    else if (p[0] >= 0xD4 && p[0] <= 0xD8)
        type = 1;
    else
        return -1;
    return type < n && p[type] >= 1 && p[type] <= 3;
}

/* Bytes of a key: a text without control characters, or a number (nnx.List); 0: something else. */
static size_t key_of(const unsigned char *p, size_t n)
{
    size_t len = 0;
    const size_t text = n ? msgpack_text(p, n, &len) : 0;
    if (n && p[0] < 0x80)
        return 1;
    if (n && p[0] >= 0xCC && p[0] <= 0xCE)
        return 1 + ((size_t)1 << (p[0] - 0xCC));
    if (!text || len > n - text)
        return 0;
    for (size_t k = 0; k < len; k++)
        if (p[text + k] < 0x20)
            return 0;
    return text + len;
}

/* Follows maps of maps down to the first array (flax/serialization.py). Small values of other kinds
 * may come first. */
int pg__flax_is(const unsigned char *p, size_t n)
{
    size_t at = 0;
    for (int i = 0; at < n && i < 256; i++) {
        const int ext = i ? extension(p + at, n - at) : -1;
        if (ext >= 0)
            return ext;
        const size_t value = step_over(p + at, n - at);
        const int is_map = (p[at] >= 0x80 && p[at] <= 0x8F) || p[at] >= 0xDE;
        if (!value || value > n - at || (i == 0 && !is_map))
            return 0;
        at += value;
        const size_t key = at < n ? key_of(p + at, n - at) : 0;
        if (!key)
            return 0;
        at += key;
    }
    return 0;
}

/* h5_attr.c - attribute messages, versions 1 to 3 (section IV.A.2.m), decoded with their strings.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "format/h5/h5_impl.h"

/* A part of the message: version 1 pads each to 8 bytes. */
static pg__h5_cur part(pg__h5_cur *c, unsigned version, size_t n)
{
    const uint8_t *p = pg__h5_span(c, version == 1 ? (n + 7) / 8 * 8 : n);
    return p ? (pg__h5_cur){.p = p, .end = p + n} : (pg__h5_cur){.p = c->p, .end = c->p, .cut = 1};
}

/* Length of a fixed string without its padding. A null-terminated one ends at the first NUL, a
 * null-padded one after the last byte that is not NUL: embedded NULs are kept, for the caller to
 * judge. */
size_t pg__h5_fixed_len(const char *s, size_t n, int pad)
{
    const char *nul = pad == 0 ? memchr(s, 0, n) : NULL;
    if (nul)
        return (size_t)(nul - s);
    while (n && pad == 1 && s[n - 1] == 0)
        n--;
    while (n && pad == 2 && s[n - 1] == ' ')
        n--;
    return n;
}

static pg_status decode_vlen(pg__h5 *h, pg__h5_cur *c, const char **text, size_t *len, pg_err *err)
{
    const uint64_t n = pg__h5_uint(c, 4), addr = pg__h5_addr(h, c);
    const uint32_t index = pg__h5_u32(c, 4);
    *len = (size_t)n;
    *text = "";
    if (addr == 0 && n == 0 && index == 0)
        return PG_OK;
    if (addr == 0)
        return pg__h5_bad(h, err, PG_E_FORMAT, "string of %s bytes has no address", PG_H5_NUM(n));
    return pg__h5_gheap_text(h, addr, index, n, text, err);
}

static pg_status decode_strings(pg__h5 *h, pg__h5_attr *a, const uint8_t *bytes, pg_err *err)
{
    pg_status st = PG_OK;
    const size_t n = (size_t)a->n_elems, size = a->type.size;
    pg__h5_cur c = {.p = bytes, .end = bytes + n * size};
    if (n > PG_LIMIT_STRINGS - h->walk->n_strings)
        PG_H5_FAIL(PG_E_LIMIT, "more than %u strings in the attributes of the file",
                   PG_LIMIT_STRINGS);
    h->walk->n_strings += n;
    const char **strs = pg__h5_take(h, n * sizeof *strs);
    size_t *lens = pg__h5_take(h, n * sizeof *lens);
    if (!strs || !lens)
        PG_TRY(pg__nomem(err));
    for (size_t i = 0; i < n; i++) {
        if (a->type.cls == PG_H5_STR_VLEN) {
            PG_TRY(decode_vlen(h, &c, &strs[i], &lens[i], err));
            continue;
        }
        const char *s = (const char *)pg__h5_span(&c, size);
        lens[i] = pg__h5_fixed_len(s, size, a->type.pad);
        strs[i] = pg__h5_text(h, s, lens[i]);
        if (!strs[i])
            PG_TRY(pg__nomem(err));
    }
    a->strs = strs;
    a->lens = lens;
done:
    return st;
}

static pg_status read_value(pg__h5 *h, pg__h5_attr *a, pg__h5_cur *c, pg_err *err)
{
    pg_status st = PG_OK;
    uint64_t n_bytes;
    if (__builtin_mul_overflow(a->n_elems, (uint64_t)a->type.size, &n_bytes) ||
        n_bytes > PG_LIMIT_ATTR_BYTES)
        PG_H5_FAIL(PG_E_LIMIT, "too large: %s elements of %u bytes", PG_H5_NUM(a->n_elems),
                   a->type.size);
    const size_t room = pg__h5_left(c);
    PG_H5_NEED(n_bytes <= room, "%s elements of %u bytes do not fit %zu bytes",
               PG_H5_NUM(a->n_elems), a->type.size, room);
    const uint8_t *bytes = pg__h5_span(c, n_bytes);
    if (a->type.cls != PG_H5_NUMBER)
        PG_TRY(decode_strings(h, a, bytes, err));
    if (a->type.cls != PG_H5_STR_VLEN) {
        a->raw = pg__h5_text(h, bytes, (size_t)n_bytes);
        if (!a->raw)
            PG_TRY(pg__nomem(err));
    }
done:
    return st;
}

pg_status pg__h5_attr_add(pg__h5 *h, const pg__h5_attr *a, pg_err *err)
{
    pg_status st = PG_OK;
    if (h->n_attrs >= PG_LIMIT_OBJECTS)
        PG_H5_FAIL(PG_E_LIMIT, "more than %u attributes in the file", PG_LIMIT_OBJECTS);
    if (pg__mem_grow(&h->attrs, &h->cap_attrs, h->n_attrs + 1, sizeof *h->attrs))
        PG_TRY(pg__nomem(err));
    h->attrs[h->n_attrs++] = *a;
done:
    return st;
}

pg_status pg__h5_attr_read(pg__h5 *h, pg__h5_cur *c, pg_err *err)
{
    pg_status st = PG_OK;
    pg__h5_attr a = {0};
    pg_err why = {0};
    const unsigned version = pg__h5_u32(c, 1), flags = pg__h5_u32(c, 1);
    const size_t n_name = pg__h5_u32(c, 2), n_type = pg__h5_u32(c, 2), n_space = pg__h5_u32(c, 2);
    const unsigned charset = version == 3 ? pg__h5_u32(c, 1) : 0;
    pg__h5_cur name = part(c, version, n_name);
    PG_H5_NEED(!name.cut && version >= 1 && version <= 3 && charset <= 1,
               "attribute of version %u is cut short", version);
    const uint8_t *nul = memchr(name.p, 0, n_name);
    PG_H5_NEED(n_name >= 2 && nul == name.end - 1, "attribute with a name that does not end");
    a.name = pg__h5_text(h, name.p, n_name - 1);
    if (!a.name)
        PG_TRY(pg__nomem(err));
    h->walk->attr = a.name;
    if (version > 1 && (flags & 3))
        PG_H5_UNCOVERED("shared type or dataspace is not supported");
    PG_H5_NEED(flags == 0, "unknown flags 0x%x", flags);
    pg__h5_cur type = part(c, version, n_type), space = part(c, version, n_space);
    const pg_status read = pg__h5_type_read(h, &type, &a.type, &why);
    if (read != PG_OK && read != PG_E_UNSUPPORTED) {
        if (err)
            *err = why;
        st = read;
        goto done;
    }
    PG_TRY(pg__h5_space_read(h, &space, &a.rank, a.dims, &a.n_elems, err));
    if (read != PG_OK) {
        pg__h5_pass_over(h);
        h->walk->attr = NULL;
        goto done;
    }
    PG_TRY(read_value(h, &a, c, err));
    PG_TRY(pg__h5_attr_add(h, &a, err));
    h->walk->attr = NULL;
done:
    return st;
}

static int by_name(const void *a, const void *b)
{
    const char *const *x = a, *const *y = b;
    return strcmp(*x, *y);
}

pg_status pg__h5_attrs_check(pg__h5 *h, size_t first, pg_err *err)
{
    pg_status st = PG_OK;
    const size_t n = h->n_attrs - first;
    const char **names = NULL;
    if (n < 2) /* only speed */
        return PG_OK;
    names = pg__mem_array(n, sizeof *names);
    if (!names)
        PG_TRY(pg__nomem(err));
    for (size_t i = 0; i < n; i++)
        names[i] = h->attrs[first + i].name;
    qsort(names, n, sizeof *names, by_name);
    for (size_t i = 1; i < n; i++)
        PG_H5_NEED(strcmp(names[i - 1], names[i]), "two attributes with the name %s",
                   PG_SHOW(names[i]));
done:
    pg__mem_free(names);
    return st;
}

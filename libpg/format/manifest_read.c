/* manifest_read.c - reads manifest.json without trusting it: it may come from anybody, and its
 * paths are names of files that will be opened. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/try.h"
#include "format/manifest.h"

int pg__manifest_is_safe_path(const char *path)
{
    for (const char *p = path;; p++) {
        const size_t n = strcspn(p, "/");
        if (n == 0 || (n == 1 && p[0] == '.') || (n == 2 && p[0] == '.' && p[1] == '.'))
            return 0;
        for (size_t i = 0; i < n; i++)
            if (p[i] == '\\' || (unsigned char)p[i] < 0x20 || p[i] == 0x7F)
                return 0;
        p += n;
        if (!*p)
            return 1;
    }
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* n / 2 newly allocated bytes (and a NUL) from n digits. */
static pg_status from_hex(char **out, size_t *n_out, const char *s, size_t n, pg_err *err)
{
    char *p = n % 2 ? NULL : pg__mem_array(n / 2 + 1, 1);
    if (!p)
        return n % 2 ? pg_fail(err, PG_E_FORMAT, "hex with an odd number of digits")
                     : pg__nomem(err);
    for (size_t i = 0; i < n / 2; i++) {
        const int hi = hex_digit(s[2 * i]), lo = hex_digit(s[2 * i + 1]);
        if (hi < 0 || lo < 0) {
            pg__mem_free(p);
            return pg_fail(err, PG_E_FORMAT, "hex with something other than 0-9 and a-f");
        }
        p[i] = (char)(hi * 16 + lo);
    }
    *out = p;
    *n_out = n / 2;
    return PG_OK;
}

/* text ends with a NUL. */
static int lacks_members(const char *text, size_t n)
{
    static const char *const needed[] = {"format", "layers", "tensors"};
    size_t k = 0, start = strspn(text, " \t\r\n");
    const pg__json_span whole = {start, n - start};
    while (k < 3 && pg__json_member(text, whole, needed[k]).n > 0)
        k++;
    return k < 3;
}

pg_status pg__manifest_is_foreign(int *is, pg__io *io, pg_err *err)
{
    pg_status st = PG_OK;
    const uint64_t n = pg__io_size(io);
    *is = 0;
    if (n > PG_LIMIT_MANIFEST_BYTES)
        return PG_OK;
    char *text = pg__mem_array((size_t)n + 1, 1);
    if (!text)
        return pg__nomem(err);
    PG_TRY(pg__io_read(io, 0, text, (size_t)n, err));
    *is = pg__json_check(text, (size_t)n, NULL) == PG_OK && lacks_members(text, (size_t)n);
done:
    pg__mem_free(text);
    return st;
}

/* A text, or bytes as {"hex": "..."}; newly allocated. */
static pg_status get_text(char **out, size_t *n_out, const pg__json *j, const char *what,
                          pg_err *err)
{
    size_t n = 0;
    const char *s = pg__json_bytes(j, &n);
    if (s) {
        *out = pg__mem_strndup(s, n);
        *n_out = n;
        return *out ? PG_OK : pg__nomem(err);
    }
    s = pg__json_bytes(pg__json_get(j, "hex"), &n);
    if (!s)
        return pg_fail(err, PG_E_FORMAT, "%s is not a text", what);
    const pg_status st = from_hex(out, n_out, s, n, err);
    if (st == PG_E_FORMAT)
        pg_err_prefix(err, what);
    return st;
}

/* The same for names: no NUL inside. */
static pg_status get_name(char **out, const pg__json *j, const char *what, pg_err *err)
{
    size_t n = 0;
    char *s = NULL;
    const pg_status st = get_text(&s, &n, j, what, err);
    if (st != PG_OK)
        return st;
    if (strlen(s) != n || n > PG_LIMIT_NAME_BYTES) {
        pg__mem_free(s);
        return pg_fail(err, PG_E_FORMAT, "%s is %s", what,
                       n > PG_LIMIT_NAME_BYTES ? "too long" : "a name with a NUL inside");
    }
    *out = s;
    return PG_OK;
}

static pg_status get_optional(char **out, const pg__json *j, const char *what, pg_err *err)
{
    const pg__json_type t = pg__json_type_of(j);
    return t == PG_J_NONE || t == PG_J_NULL ? PG_OK : get_name(out, j, what, err);
}

/* A key of an object. */
static pg_status get_key(char **out, const pg__json_iter *it, pg_err *err)
{
    size_t n = 0;
    if (strlen(it->key) != it->key_len)
        return pg_fail(err, PG_E_FORMAT, "a key with a NUL inside");
    if (strncmp(it->key, "hex:", 4) == 0) {
        const pg_status st = from_hex(out, &n, it->key + 4, it->key_len - 4, err);
        if (st == PG_OK && strlen(*out) != n) {
            pg__mem_free(*out);
            *out = NULL;
            return pg_fail(err, PG_E_FORMAT, "a key with a NUL inside");
        }
        return st;
    }
    *out = pg__mem_strdup(it->key);
    return *out ? PG_OK : pg__nomem(err);
}

static int get_count(const pg__json *j, uint64_t *out)
{
    int64_t v = 0;
    if (!pg__json_int(j, &v) || v < 0)
        return 0;
    *out = (uint64_t)v;
    return 1;
}

static int get_dtype(const pg__json *j, pg_dtype *out)
{
    const char *s = pg__json_str(j);
    for (int d = PG_F16; s && d <= PG_F8_E5M2; d++)
        if (strcmp(s, pg_dtype_name((pg_dtype)d)) == 0) {
            *out = (pg_dtype)d;
            return 1;
        }
    return 0;
}

static int get_shape(const pg__json *j, uint32_t *rank, uint64_t *dims)
{
    const size_t n = pg__json_len(j);
    if (pg__json_type_of(j) != PG_J_ARRAY || n > PG_MAX_RANK)
        return 0;
    for (size_t k = 0; k < n; k++)
        if (!get_count(pg__json_at(j, k), &dims[k]))
            return 0;
    *rank = (uint32_t)n;
    return 1;
}

/* Elements of a shape times size; 0 if that overflows. */
static int get_product(uint32_t rank, const uint64_t *dims, uint64_t size, uint64_t *out)
{
    *out = size;
    for (uint32_t k = 0; k < rank; k++)
        if (__builtin_mul_overflow(*out, dims[k], out) || *out > INT64_MAX)
            return 0;
    return 1;
}

/* ---- tensors ---------------------------------------------------------------------------------
 */

static pg_status parse_piece(pg__manifest *m, const pg__json *j, const char *format, pg_err *err)
{
    pg_status st = PG_OK;
    pg__piece p = {0};
    unsigned crc = 0;
    int end = 0;
    const char *hex = pg__json_get_str(j, "crc32");
    PG_TRY(get_name(&p.path, pg__json_get(j, "path"), "path", err));
    PG_TRY(get_optional(&p.member, pg__json_get(j, "member"), "member", err));
    if (!pg__manifest_is_safe_path(p.path))
        PG_FAIL(PG_E_FORMAT, "path \"%s\" leads out of the folder; refused", PG_SHOW(p.path));
    if (!get_count(pg__json_get(j, "offset_rows"), &p.off_rows) ||
        !get_count(pg__json_get(j, "rows"), &p.rows))
        PG_FAIL(PG_E_FORMAT, "%s: offset_rows or rows is not a count", PG_SHOW(p.path));
    if (!hex || strlen(hex) != 8 || sscanf(hex, "%8x%n", &crc, &end) != 1 || end != 8)
        PG_FAIL(PG_E_FORMAT, "%s: crc32 is not made of 8 hex digits", PG_SHOW(p.path));
    if ((strcmp(format, "npy") != 0) != (p.member != NULL))
        PG_FAIL(PG_E_FORMAT, "%s: member is %s", PG_SHOW(p.path),
                p.member ? "not for npy" : "missing");
    p.crc = crc;
    PG_TRY(pg__manifest_add_piece(m, &p, err));
done:
    pg__mem_free(p.path);
    pg__mem_free(p.member);
    return st;
}

/* Pieces follow each other along axis 0 and end where it ends. */
static pg_status check_tiling(const pg__manifest *m, const pg__shard_tensor *t, pg_err *err)
{
    const uint64_t all = t->rank ? t->dims[0] : 1;
    uint64_t at = 0;
    for (size_t i = t->first; i < t->first + t->n; i++) {
        const pg__piece *p = &m->pieces[i];
        if (p->off_rows != at || p->rows > all - at)
            return pg_fail(err, PG_E_FORMAT, "%s: its rows do not follow those before it",
                           PG_SHOW(p->path));
        at += p->rows;
    }
    if (t->n == 0 || at != all)
        return pg_fail(err, PG_E_FORMAT, "its files hold %" PRIu64 " of %" PRIu64 " rows", at, all);
    return PG_OK;
}

static pg_status find_layer(pg__shard_tensor *t, const pg__manifest *m, const pg__json *j,
                            size_t last, pg_err *err)
{
    char *name = NULL;
    const pg__json *layer = pg__json_get(j, "layer");
    const int state = pg__json_bool(pg__json_get(j, "state"), 0);
    pg_status st = get_optional(&name, layer, "layer", err);
    t->layer = PG_NONE;
    if (t->role == PG_ROLE_DATASET || st != PG_OK)
        goto done;
    if (!name && (state || m->layers.n))
        t->role = PG_ROLE_STATE;
    /* Tensors must be in the order of their layers. */
    for (size_t i = last; name && i < m->layers.n && t->layer == PG_NONE; i++)
        if (strcmp(m->layers.v[i], name) == 0)
            t->layer = i;
    if (name && t->layer == PG_NONE)
        PG_FAIL(PG_E_FORMAT, "layer \"%s\" is not listed, or out of order", PG_SHOW(name));
done:
    pg__mem_free(name);
    return st;
}

static pg_status parse_tensor(pg__manifest *m, const pg__json *j, pg__shard_role role,
                              size_t *last_layer, pg_err *err)
{
    pg_status st = PG_OK;
    pg__shard_tensor t = {.role = role};
    char *h5 = NULL;
    const pg__json *files = pg__json_get(j, "files");
    uint64_t n_bytes = 0;
    PG_TRY(get_name(&t.name, pg__json_get(j, "name"), "its name", err));
    PG_TRY(find_layer(&t, m, j, *last_layer, err));
    if (t.layer != PG_NONE)
        *last_layer = t.layer;
    if (t.role == PG_ROLE_WEIGHT && m->n_state)
        PG_FAIL(PG_E_FORMAT, "a weight after the optimizer's state");
    if (!get_dtype(pg__json_get(j, "dtype"), &t.dtype))
        PG_FAIL(PG_E_FORMAT, "dtype is unknown");
    if (!get_shape(pg__json_get(j, "shape"), &t.rank, t.dims))
        PG_FAIL(PG_E_FORMAT, "shape is not a list of at most %d sizes", PG_MAX_RANK);
    if (!get_product(t.rank, t.dims, pg_dtype_bytes(t.dtype), &t.n_bytes))
        PG_FAIL(PG_E_LIMIT, "shape is too large");
    if (!get_count(pg__json_get(j, "bytes"), &n_bytes) || n_bytes != t.n_bytes)
        PG_FAIL(PG_E_FORMAT, "bytes disagrees with what dtype and shape need, %" PRIu64, t.n_bytes);
    PG_TRY(get_optional(&h5, pg__json_get(j, "h5"), "h5", err));
    if (h5 && (h5[0] != '/' || !pg__manifest_is_safe_path(h5 + 1)) && h5[0])
        PG_FAIL(PG_E_FORMAT, "h5 is not a path");
    if (role == PG_ROLE_DATASET && !h5)
        PG_FAIL(PG_E_FORMAT, "a dataset without h5");
    if (h5)
        t.h5 = h5 + 1;
    PG_TRY(pg__manifest_add_tensor(m, &t, err));
    for (size_t i = 0; i < pg__json_len(files); i++)
        PG_TRY(parse_piece(m, pg__json_at(files, i), m->format, err));
    PG_TRY(check_tiling(m, &m->tensors[m->n_tensors - 1], err));
done:
    if (st == PG_E_FORMAT || st == PG_E_LIMIT)
        pg_err_prefix(err, t.name ? PG_SHOW(t.name) : "a tensor");
    pg__mem_free(t.name);
    pg__mem_free(h5);
    return st;
}

/* Reads the list in span s of the text, one element parsed at a time: a tree of 20,000 tensors
 * would take a hundred megabytes. */
static pg_status parse_tensors(pg__manifest *m, const char *text, pg__json_span s,
                               pg__shard_role role, pg_err *err)
{
    pg_status st = PG_OK;
    size_t last_layer = 0;
    pg__json_walk w = pg__json_walk_of(text, s);
    if (text[s.off] != '[')
        return pg_fail(err, PG_E_FORMAT, "tensors or datasets is not a list");
    while (pg__json_walk_next(&w)) {
        pg__json *j = NULL;
        st = pg__json_parse(&j, text + w.value.off, w.value.n, err);
        if (st == PG_OK)
            st = parse_tensor(m, j, role, &last_layer, err);
        pg__json_free(j);
        PG_TRY(st);
    }
done:
    return st;
}

/* ---- attributes ------------------------------------------------------------------------------
 */

static pg_status parse_extent(pg__h5_attr *a, const pg__json *j, pg_err *err)
{
    const pg__json *shape = pg__json_get(j, "shape");
    if (pg__json_type_of(shape) == PG_J_NULL) {
        a->rank = PG_H5_NULL;
        return PG_OK;
    }
    if (!get_shape(shape, &a->rank, a->dims) || !get_product(a->rank, a->dims, 1, &a->n_elems) ||
        a->n_elems > PG_LIMIT_STRINGS)
        return pg_fail(err, PG_E_FORMAT, "its shape is not a list of sizes, or too large");
    return PG_OK;
}

static pg_status parse_strings(pg__h5_attr *a, const pg__json *j, pg_err *err)
{
    static const char *const pads[] = {"null-terminated", "null", "space"};
    pg_status st = PG_OK;
    const pg__json *value = pg__json_get(j, "value");
    const char *kind = pg__json_get_str(j, "kind"), *pad = pg__json_get_str(j, "padding");
    const char *charset = pg__json_get_str(j, "charset");
    uint64_t size = 0;
    const size_t n = (size_t)a->n_elems;
    a->type.cls = kind && strcmp(kind, "fixed") == 0 ? PG_H5_STR_FIXED : PG_H5_STR_VLEN;
    a->type.utf8 = charset && strcmp(charset, "utf-8") == 0;
    for (int i = 0; pad && i < 3; i++)
        if (strcmp(pad, pads[i]) == 0)
            a->type.pad = i;
    if (a->type.cls == PG_H5_STR_FIXED &&
        (!get_count(pg__json_get(j, "size"), &size) || size == 0 || size > PG_LIMIT_ATTR_BYTES))
        PG_FAIL(PG_E_FORMAT, "its size is not a size of a string");
    a->type.size = (uint32_t)size;
    if (a->rank == PG_H5_NULL)
        goto done;
    if (a->rank && (pg__json_type_of(value) != PG_J_ARRAY || pg__json_len(value) != n))
        PG_FAIL(PG_E_FORMAT, "its value is not a list of %zu texts", n);
    a->n_elems = 0; /* frees the old value */
    char **strs = pg__mem_array(n, sizeof *strs);
    size_t *lens = pg__mem_array(n, sizeof *lens);
    a->strs = (const char **)(uintptr_t)strs;
    a->lens = lens;
    if (!strs || !lens) {
        st = pg__nomem(err);
        goto done;
    }
    for (size_t i = 0; i < n; i++) {
        PG_TRY(get_text(&strs[i], &lens[i], a->rank ? pg__json_at(value, i) : value, "its value",
                        err));
        a->n_elems = i + 1;
        if (size && lens[i] > size)
            PG_FAIL(PG_E_FORMAT, "a value is longer than its size");
    }
done:
    return st;
}

static pg_status parse_numbers(pg__h5_attr *a, const pg__json *j, pg_err *err)
{
    const char *order = pg__json_get_str(j, "order");
    char *raw = NULL;
    size_t n = 0;
    a->type.size = (uint32_t)pg_dtype_bytes(a->type.dtype);
    a->type.big_endian = order && strcmp(order, "big") == 0;
    if (a->rank == PG_H5_NULL)
        return PG_OK;
    const pg_status st = get_text(&raw, &n, pg__json_get(j, "value"), "its value", err);
    a->raw = raw;
    if (st == PG_OK && n != a->n_elems * a->type.size)
        return pg_fail(err, PG_E_FORMAT, "its value has %zu bytes, its shape needs %" PRIu64, n,
                       a->n_elems * a->type.size);
    return st;
}

static pg_status parse_attr(pg__manifest *m, const pg__json_iter *it, pg_err *err)
{
    pg_status st = PG_OK;
    pg__h5_attr a = {0};
    char *name = NULL;
    const pg__json *j = it->value, *type = pg__json_get(j, "type");
    PG_TRY(get_key(&name, it, err));
    a.name = name;
    PG_TRY(parse_extent(&a, j, err));
    if (get_dtype(type, &a.type.dtype)) {
        PG_TRY(parse_numbers(&a, j, err));
    } else {
        if (!pg__json_str(type) || strcmp(pg__json_str(type), "string") != 0)
            PG_FAIL(PG_E_FORMAT, "its type is unknown");
        PG_TRY(parse_strings(&a, j, err));
    }
done:
    if (st != PG_OK) {
        pg_err_prefix(err, PG_SHOW(it->key));
        /* Stored so that it is freed with the rest. */
    }
    const pg_status kept = pg__manifest_add_attr(m, &a, st == PG_OK ? err : NULL);
    return st != PG_OK ? st : kept;
}

/* One object: {"/path": {"name": {...}}}. */
static pg_status parse_object(pg__manifest *m, const pg__json *root, pg_err *err)
{
    pg_status st = PG_OK;
    char *path = NULL;
    pg__json_iter objects = {.obj = root};
    while (pg__json_next(&objects)) {
        PG_TRY(get_key(&path, &objects, err));
        if (path[0] != '/' || (path[1] && !pg__manifest_is_safe_path(path + 1)))
            PG_FAIL(PG_E_FORMAT, "attributes: \"%s\" is not a path", PG_SHOW(path));
        PG_TRY(pg__manifest_add_object(m, path + 1, err));
        pg__json_iter attrs = {.obj = objects.value};
        if (pg__json_len(objects.value) > PG_LIMIT_KEPT_ATTRS)
            PG_FAIL(PG_E_LIMIT, "attributes: %s has more than %u", PG_SHOW(path),
                    PG_LIMIT_KEPT_ATTRS);
        while (pg__json_next(&attrs)) {
            st = parse_attr(m, &attrs, err);
            if (st != PG_OK) {
                pg_err_prefix(err, PG_SHOW(path));
                goto done;
            }
        }
        pg__mem_free(path);
        path = NULL;
    }
done:
    pg__mem_free(path);
    return st;
}

/* Wraps members [off, off + n) of an object in braces and parses them. */
static pg_status parse_braced(pg__json **out, pg__str *buf, const char *members, size_t n,
                              pg_err *err)
{
    pg_status st = PG_OK;
    buf->n = 0;
    PG_TRY(pg__str_puts(buf, "{", err));
    PG_TRY(pg__str_add(buf, members, n, err));
    PG_TRY(pg__str_puts(buf, "}", err));
    PG_TRY(pg__json_parse(out, buf->s, buf->n, err));
done:
    return st;
}

static pg_status parse_objects(pg__manifest *m, const char *text, pg__json_span s, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str buf = {0};
    pg__json_walk w = pg__json_walk_of(text, s);
    if (text[s.off] != '{')
        return pg_fail(err, PG_E_FORMAT, "attributes is not an object");
    while (pg__json_walk_next(&w)) {
        pg__json *j = NULL;
        st = parse_braced(&j, &buf, text + w.key.off, w.value.off + w.value.n - w.key.off, err);
        if (st == PG_OK)
            st = parse_object(m, j, err);
        pg__json_free(j);
        PG_TRY(st);
    }
done:
    pg__str_fini(&buf);
    return st;
}

static pg_status parse_members(pg__manifest *m, const pg__json *root, pg_err *err)
{
    pg_status st = PG_OK;
    char *name = NULL, *text = NULL;
    size_t n = 0;
    const pg__json *list = pg__json_get(root, "members");
    for (size_t i = 0; i < pg__json_len(list); i++) {
        const pg__json *j = pg__json_at(list, i);
        PG_TRY(get_name(&name, pg__json_get(j, "name"), "name of a member", err));
        if (!pg__manifest_is_safe_path(name))
            PG_FAIL(PG_E_FORMAT, "member \"%s\" is not a path", PG_SHOW(name));
        PG_TRY(get_text(&text, &n, pg__json_get(j, "text"), "text of a member", err));
        PG_TRY(pg__manifest_add_member(m, name, text, n, err));
        pg__mem_free(name);
        pg__mem_free(text);
        name = text = NULL;
    }
done:
    pg__mem_free(name);
    pg__mem_free(text);
    return st;
}

/* ---- the whole -------------------------------------------------------------------------------
 */

static pg_status parse_head(pg__manifest *m, const pg__json *root, pg_err *err)
{
    pg_status st = PG_OK;
    int64_t version = 0;
    char *name = NULL;
    const pg__json *layers = pg__json_get(root, "layers");
    const char *format = pg__json_get_str(root, "format");
    if (!layers || !format)
        PG_FAIL(PG_E_UNKNOWN, "JSON, but not the " PG_MANIFEST " of a split model");
    if (!pg__json_int(pg__json_get(root, "version"), &version) || version != PG_MANIFEST_VERSION)
        PG_FAIL(PG_E_UNSUPPORTED, "a manifest of an unsupported version, not %d",
                PG_MANIFEST_VERSION);
    if (strcmp(format, "npy") != 0 && strcmp(format, "npz") != 0 &&
        strcmp(format, "safetensors") != 0 && strcmp(format, "keras") != 0)
        PG_FAIL(PG_E_UNSUPPORTED, "a manifest of format %s is not supported", PG_SHOW(format));
    PG_TRY(get_name(&m->format, pg__json_get(root, "format"), "format", err));
    PG_TRY(get_optional(&m->source, pg__json_get(root, "source"), "source", err));
    PG_TRY(
        get_optional(&m->source_format, pg__json_get(root, "source_format"), "source_format", err));
    PG_TRY(get_optional(&m->writer, pg__json_get(root, "writer"), "writer", err));
    for (size_t i = 0; i < pg__json_len(layers); i++) {
        PG_TRY(get_name(&name, pg__json_at(layers, i), "the name of a layer", err));
        PG_TRY(pg__strs_add(&m->layers, name, strlen(name), err));
        pg__mem_free(name);
        name = NULL;
    }
done:
    pg__mem_free(name);
    return st;
}

/* The long members as spans of the text, all others parsed. */
enum { TENSORS, DATASETS, ATTRIBUTES, N_LONG };

static pg_status take_apart(pg__json_span *longs, pg__json **head, const char *text, size_t n,
                            pg_err *err)
{
    static const char *const names[N_LONG] = {"tensors", "datasets", "attributes"};
    pg_status st = PG_OK;
    pg__str rest = {0}, buf = {0};
    const size_t start = strspn(text, " \t\r\n"); /* the text ends with a NUL */
    pg__json_walk w = pg__json_walk_of(text, (pg__json_span){start, n - start});
    while (pg__json_walk_next(&w)) {
        size_t k = 0;
        while (k < N_LONG && !(w.is_object && pg__json_key_is(text, w.key, names[k])))
            k++;
        if (k < N_LONG && longs[k].n)
            PG_FAIL(PG_E_FORMAT, "%s comes twice", names[k]);
        if (k < N_LONG) {
            longs[k] = w.value;
            continue;
        }
        if (!w.is_object)
            break;
        if (rest.n)
            PG_TRY(pg__str_puts(&rest, ",", err));
        PG_TRY(pg__str_add(&rest, text + w.key.off, w.value.off + w.value.n - w.key.off, err));
    }
    if (!w.is_object || !longs[TENSORS].n || !rest.n)
        PG_FAIL(PG_E_UNKNOWN, "JSON, but not the " PG_MANIFEST " of a split model");
    PG_TRY(parse_braced(head, &buf, rest.s, rest.n, err));
done:
    pg__str_fini(&rest);
    pg__str_fini(&buf);
    return st;
}

pg_status pg__manifest_parse(pg__manifest *out, const char *text, size_t n, pg_err *err)
{
    pg_status st = PG_OK;
    pg__json *root = NULL;
    pg__json_span longs[N_LONG] = {{0}};
    pg__manifest m = {.own_attrs = 1};
    const pg__json *metadata;
    PG_TRY(pg__json_check(text, n, err));
    PG_TRY(take_apart(longs, &root, text, n, err));
    PG_TRY(parse_head(&m, root, err));
    PG_TRY(parse_tensors(&m, text, longs[TENSORS], PG_ROLE_WEIGHT, err));
    if (longs[DATASETS].n)
        PG_TRY(parse_tensors(&m, text, longs[DATASETS], PG_ROLE_DATASET, err));
    if (longs[ATTRIBUTES].n)
        PG_TRY(parse_objects(&m, text, longs[ATTRIBUTES], err));
    PG_TRY(parse_members(&m, root, err));
    metadata = pg__json_get(root, "metadata");
    if (metadata)
        PG_TRY(get_text(&m.metadata, &m.n_metadata, metadata, "metadata", err));
    *out = m;
    m = (pg__manifest){0};
done:
    pg__manifest_fini(&m);
    pg__json_free(root);
    return st;
}

/* manifest.c - a manifest in memory, and its JSON text. Each tensor is on a line of its own, so
 * that people can read and grep it. */
#include "format/manifest.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/try.h"

static void free_attr(pg__h5_attr *a)
{
    /* Owned ones were allocated by manifest_read.c, the only code that may write to them. */
    for (uint64_t i = 0; a->strs && i < a->n_elems; i++)
        pg__mem_free((void *)(uintptr_t)a->strs[i]);
    pg__mem_free((void *)(uintptr_t)a->strs);
    pg__mem_free((void *)(uintptr_t)a->lens);
    pg__mem_free((void *)(uintptr_t)a->raw);
    pg__mem_free((void *)(uintptr_t)a->name);
}

void pg__manifest_fini(pg__manifest *m)
{
    for (size_t i = 0; i < m->n_tensors; i++) {
        pg__mem_free(m->tensors[i].name);
        pg__mem_free(m->tensors[i].h5);
    }
    for (size_t i = 0; i < m->n_pieces; i++) {
        pg__mem_free(m->pieces[i].path);
        pg__mem_free(m->pieces[i].member);
    }
    for (size_t i = 0; i < m->n_objects; i++)
        pg__mem_free(m->objects[i].path);
    for (size_t i = 0; m->own_attrs && i < m->n_attrs; i++)
        free_attr(&m->attrs[i]);
    for (size_t i = 0; i < m->n_members; i++) {
        pg__mem_free(m->members[i].name);
        pg__mem_free(m->members[i].text);
    }
    pg__mem_free(m->tensors);
    pg__mem_free(m->pieces);
    pg__mem_free(m->objects);
    pg__mem_free(m->attrs);
    pg__mem_free(m->members);
    pg__mem_free(m->format);
    pg__mem_free(m->source);
    pg__mem_free(m->source_format);
    pg__mem_free(m->writer);
    pg__mem_free(m->metadata);
    pg__strs_fini(&m->layers);
    *m = (pg__manifest){0};
}

/* ---- building --------------------------------------------------------------------------------
 */

pg_status pg__manifest_add_tensor(pg__manifest *m, const pg__shard_tensor *t, pg_err *err)
{
    pg__shard_tensor copy = *t;
    copy.name = pg__mem_strdup(t->name);
    copy.h5 = pg__mem_strdup(t->h5);
    copy.first = m->n_pieces;
    copy.n = 0;
    if (!copy.name || (t->h5 && !copy.h5) ||
        pg__mem_grow(&m->tensors, &m->cap_tensors, m->n_tensors + 1, sizeof *m->tensors)) {
        pg__mem_free(copy.name);
        pg__mem_free(copy.h5);
        return pg__nomem(err);
    }
    m->tensors[m->n_tensors++] = copy;
    m->n_weights += t->role == PG_ROLE_WEIGHT;
    m->n_state += t->role == PG_ROLE_STATE;
    return PG_OK;
}

pg_status pg__manifest_add_piece(pg__manifest *m, const pg__piece *p, pg_err *err)
{
    pg__piece copy = *p;
    copy.path = pg__mem_strdup(p->path);
    copy.member = pg__mem_strdup(p->member);
    if (!copy.path || (p->member && !copy.member) ||
        pg__mem_grow(&m->pieces, &m->cap_pieces, m->n_pieces + 1, sizeof *m->pieces)) {
        pg__mem_free(copy.path);
        pg__mem_free(copy.member);
        return pg__nomem(err);
    }
    m->pieces[m->n_pieces++] = copy;
    m->tensors[m->n_tensors - 1].n++;
    return PG_OK;
}

pg_status pg__manifest_add_object(pg__manifest *m, const char *path, pg_err *err)
{
    char *copy = pg__mem_strdup(path);
    if (!copy || pg__mem_grow(&m->objects, &m->cap_objects, m->n_objects + 1, sizeof *m->objects)) {
        pg__mem_free(copy);
        return pg__nomem(err);
    }
    m->objects[m->n_objects++] = (pg__shard_object){copy, m->n_attrs, 0};
    return PG_OK;
}

pg_status pg__manifest_add_attr(pg__manifest *m, const pg__h5_attr *a, pg_err *err)
{
    if (pg__mem_grow(&m->attrs, &m->cap_attrs, m->n_attrs + 1, sizeof *m->attrs))
        return pg__nomem(err);
    m->attrs[m->n_attrs++] = *a;
    m->objects[m->n_objects - 1].n++;
    return PG_OK;
}

pg_status pg__manifest_add_member(pg__manifest *m, const char *name, const char *text, size_t n,
                                  pg_err *err)
{
    pg__shard_member v = {pg__mem_strdup(name), pg__mem_strndup(text, n), n};
    if (!v.name || !v.text ||
        pg__mem_grow(&m->members, &m->cap_members, m->n_members + 1, sizeof *m->members)) {
        pg__mem_free(v.name);
        pg__mem_free(v.text);
        return pg__nomem(err);
    }
    m->members[m->n_members++] = v;
    return PG_OK;
}

/* ---- printing --------------------------------------------------------------------------------
 */

static int is_utf8(const char *s, size_t n)
{
    uint32_t code = 0;
    for (size_t i = 0, k = 0; i < n; i += k) {
        k = pg__utf8_at((const unsigned char *)s + i, n - i, &code);
        if (k == 0)
            return 0;
    }
    return 1;
}

static pg_status put_hex(pg__str *out, const void *p, size_t n, pg_err *err)
{
    static const char digits[] = "0123456789abcdef";
    const unsigned char *b = p;
    for (size_t i = 0; i < n; i++) {
        const char two[2] = {digits[b[i] >> 4], digits[b[i] & 15]};
        const pg_status st = pg__str_add(out, two, 2, err);
        if (st != PG_OK)
            return st;
    }
    return PG_OK;
}

static pg_status put_text(pg__str *out, const char *s, size_t n, pg_err *err)
{
    pg_status st = PG_OK;
    if (is_utf8(s, n))
        return pg__json_quote(out, s, n, err);
    PG_TRY(pg__str_puts(out, "{\"hex\": \"", err));
    PG_TRY(put_hex(out, s, n, err));
    PG_TRY(pg__str_puts(out, "\"}", err));
done:
    return st;
}

static pg_status put_key(pg__str *out, const char *s, pg_err *err)
{
    pg_status st = PG_OK;
    if (is_utf8(s, strlen(s)) && strncmp(s, "hex:", 4) != 0) {
        PG_TRY(pg__json_quote(out, s, strlen(s), err));
    } else {
        PG_TRY(pg__str_puts(out, "\"hex:", err));
        PG_TRY(put_hex(out, s, strlen(s), err));
        PG_TRY(pg__str_puts(out, "\"", err));
    }
    PG_TRY(pg__str_puts(out, ": ", err));
done:
    return st;
}

static pg_status put_member(pg__str *out, const char *before, const char *s, pg_err *err)
{
    pg_status st = PG_OK;
    PG_TRY(pg__str_puts(out, before, err));
    if (s)
        PG_TRY(put_text(out, s, strlen(s), err));
    else
        PG_TRY(pg__str_puts(out, "null", err));
done:
    return st;
}

static pg_status put_shape(pg__str *out, uint32_t rank, const uint64_t *dims, pg_err *err)
{
    pg_status st = PG_OK;
    PG_TRY(pg__str_puts(out, "[", err));
    for (uint32_t k = 0; k < rank; k++)
        PG_TRY(pg__str_printf(out, err, "%s%" PRIu64, k ? ", " : "", dims[k]));
    PG_TRY(pg__str_puts(out, "]", err));
done:
    return st;
}

static pg_status put_tensor(pg__str *out, const pg__manifest *m, const pg__shard_tensor *t,
                            pg_err *err)
{
    pg_status st = PG_OK;
    pg__str path = {0};
    PG_TRY(put_member(out, "  {\"name\": ", t->name, err));
    if (t->role != PG_ROLE_DATASET)
        PG_TRY(put_member(out, ", \"layer\": ", t->layer == PG_NONE ? NULL : m->layers.v[t->layer],
                          err));
    if (t->role == PG_ROLE_STATE)
        PG_TRY(pg__str_puts(out, ", \"state\": true", err));
    PG_TRY(pg__str_printf(out, err, ", \"dtype\": \"%s\", \"shape\": ", pg_dtype_name(t->dtype)));
    PG_TRY(put_shape(out, t->rank, t->dims, err));
    PG_TRY(pg__str_printf(out, err, ", \"bytes\": %" PRIu64, t->n_bytes));
    if (t->h5) {
        PG_TRY(pg__str_printf(&path, err, "/%s", t->h5));
        PG_TRY(put_member(out, ", \"h5\": ", path.s, err));
    }
    PG_TRY(pg__str_puts(out, ", \"files\": [", err));
    for (size_t i = t->first; i < t->first + t->n; i++) {
        const pg__piece *p = &m->pieces[i];
        PG_TRY(put_member(out, i > t->first ? ", {\"path\": " : "{\"path\": ", p->path, err));
        if (p->member)
            PG_TRY(put_member(out, ", \"member\": ", p->member, err));
        PG_TRY(pg__str_printf(out, err,
                              ", \"offset_rows\": %" PRIu64 ", \"rows\": %" PRIu64
                              ", \"crc32\": \"%08" PRIx32 "\"}",
                              p->off_rows, p->rows, p->crc));
    }
    PG_TRY(pg__str_puts(out, "]}", err));
done:
    pg__str_fini(&path);
    return st;
}

static pg_status put_tensors(pg__str *out, const char *key, const pg__manifest *m, size_t first,
                             size_t end, pg_err *err)
{
    pg_status st = PG_OK;
    PG_TRY(pg__str_printf(out, err, ",\n \"%s\": [", key));
    for (size_t i = first; i < end; i++) {
        PG_TRY(pg__str_puts(out, i > first ? ",\n" : "\n", err));
        PG_TRY(put_tensor(out, m, &m->tensors[i], err));
    }
    PG_TRY(pg__str_puts(out, "]", err));
done:
    return st;
}

static pg_status put_strings(pg__str *out, const pg__h5_attr *a, pg_err *err)
{
    static const char *const pads[] = {"null-terminated", "null", "space"};
    pg_status st = PG_OK;
    const int list = a->rank != 0;
    if (a->type.cls == PG_H5_STR_FIXED)
        PG_TRY(pg__str_printf(out, err, "\"kind\": \"fixed\", \"size\": %" PRIu32, a->type.size));
    else
        PG_TRY(pg__str_puts(out, "\"kind\": \"variable\"", err));
    PG_TRY(pg__str_printf(out, err, ", \"padding\": \"%s\", \"charset\": \"%s\", \"shape\": ",
                          pads[a->type.pad % 3], a->type.utf8 ? "utf-8" : "ascii"));
    if (a->rank == PG_H5_NULL)
        PG_TRY(pg__str_puts(out, "null", err));
    else
        PG_TRY(put_shape(out, a->rank, a->dims, err));
    PG_TRY(pg__str_puts(out, list ? ", \"value\": [" : ", \"value\": ", err));
    for (uint64_t i = 0; a->strs && a->rank != PG_H5_NULL && i < a->n_elems; i++) {
        if (i)
            PG_TRY(pg__str_puts(out, ", ", err));
        PG_TRY(put_text(out, a->strs[i], a->lens ? a->lens[i] : strlen(a->strs[i]), err));
    }
    PG_TRY(pg__str_puts(out, list ? "]" : "", err));
done:
    return st;
}

/* Numbers are kept as bytes: no digit of a float and no NaN is lost. */
static pg_status put_numbers(pg__str *out, const pg__h5_attr *a, pg_err *err)
{
    pg_status st = PG_OK;
    PG_TRY(pg__str_printf(out, err,
                          "\"order\": \"%s\", \"shape\": ", a->type.big_endian ? "big" : "little"));
    if (a->rank == PG_H5_NULL)
        PG_TRY(pg__str_puts(out, "null", err));
    else
        PG_TRY(put_shape(out, a->rank, a->dims, err));
    PG_TRY(pg__str_puts(out, ", \"value\": {\"hex\": \"", err));
    if (a->rank != PG_H5_NULL && a->n_elems)
        PG_TRY(put_hex(out, a->raw, (size_t)a->n_elems * pg_dtype_bytes(a->type.dtype), err));
    PG_TRY(pg__str_puts(out, "\"}", err));
done:
    return st;
}

static pg_status put_attr(pg__str *out, const pg__h5_attr *a, pg_err *err)
{
    pg_status st = PG_OK;
    PG_TRY(put_key(out, a->name, err));
    if (a->type.cls == PG_H5_NUMBER) {
        PG_TRY(pg__str_printf(out, err, "{\"type\": \"%s\", ", pg_dtype_name(a->type.dtype)));
        PG_TRY(put_numbers(out, a, err));
    } else {
        PG_TRY(pg__str_puts(out, "{\"type\": \"string\", ", err));
        PG_TRY(put_strings(out, a, err));
    }
    PG_TRY(pg__str_puts(out, "}", err));
done:
    return st;
}

static pg_status put_objects(pg__str *out, const pg__manifest *m, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str path = {0};
    PG_TRY(pg__str_puts(out, ",\n \"attributes\": {", err));
    for (size_t i = 0; i < m->n_objects; i++) {
        const pg__shard_object *o = &m->objects[i];
        path.n = 0;
        PG_TRY(pg__str_printf(&path, err, "/%s", o->path));
        PG_TRY(pg__str_puts(out, i ? ",\n  " : "\n  ", err));
        PG_TRY(put_key(out, path.s, err));
        PG_TRY(pg__str_puts(out, "{", err));
        for (size_t k = o->first; k < o->first + o->n; k++) {
            if (k > o->first)
                PG_TRY(pg__str_puts(out, ",\n    ", err));
            PG_TRY(put_attr(out, &m->attrs[k], err));
        }
        PG_TRY(pg__str_puts(out, "}", err));
    }
    PG_TRY(pg__str_puts(out, "}", err));
done:
    pg__str_fini(&path);
    return st;
}

static pg_status put_head(pg__str *out, const pg__manifest *m, pg_err *err)
{
    pg_status st = PG_OK;
    PG_TRY(put_member(out, "{\"format\": ", m->format, err));
    PG_TRY(pg__str_printf(out, err, ", \"version\": %d", PG_MANIFEST_VERSION));
    PG_TRY(put_member(out, ",\n \"source\": ", m->source, err));
    PG_TRY(put_member(out, ", \"source_format\": ", m->source_format, err));
    PG_TRY(put_member(out, ", \"writer\": ", m->writer, err));
    PG_TRY(pg__str_puts(out, ",\n \"layers\": [", err));
    for (size_t i = 0; i < m->layers.n; i++)
        PG_TRY(put_member(out, i ? ", " : "", m->layers.v[i], err));
    PG_TRY(pg__str_puts(out, "]", err));
done:
    return st;
}

pg_status pg__manifest_print(pg__str *out, const pg__manifest *m, pg_err *err)
{
    pg_status st = PG_OK;
    const size_t n_model = m->n_weights + m->n_state;
    PG_TRY(put_head(out, m, err));
    PG_TRY(put_tensors(out, "tensors", m, 0, n_model, err));
    if (m->n_tensors > n_model)
        PG_TRY(put_tensors(out, "datasets", m, n_model, m->n_tensors, err));
    if (m->n_objects)
        PG_TRY(put_objects(out, m, err));
    if (m->n_members)
        PG_TRY(pg__str_puts(out, ",\n \"members\": [", err));
    for (size_t i = 0; i < m->n_members; i++) {
        PG_TRY(
            put_member(out, i ? ",\n  {\"name\": " : "\n  {\"name\": ", m->members[i].name, err));
        PG_TRY(pg__str_puts(out, ", \"text\": ", err));
        PG_TRY(put_text(out, m->members[i].text, m->members[i].n, err));
        PG_TRY(pg__str_puts(out, "}", err));
    }
    PG_TRY(pg__str_puts(out, m->n_members ? "]" : "", err));
    if (m->metadata) {
        PG_TRY(pg__str_puts(out, ",\n \"metadata\": ", err));
        PG_TRY(put_text(out, m->metadata, m->n_metadata, err));
    }
    PG_TRY(pg__str_puts(out, "}\n", err));
done:
    return st;
}

static int matches(const pg__manifest *m, const pg__shard_tensor *t, const char *glob)
{
    char both[1024];
    if (fnmatch(glob, t->name, 0) == 0 || fnmatch(glob, m->pieces[t->first].path, 0) == 0)
        return 1;
    if (t->layer == PG_NONE)
        return 0;
    const char *layer = m->layers.v[t->layer];
    const int n = snprintf(both, sizeof both, "%s/%s", layer, t->name);
    return fnmatch(glob, layer, 0) == 0 ||
           (n > 0 && (size_t)n < sizeof both && fnmatch(glob, both, 0) == 0);
}

/* Drops tensors that do not match; their pieces are freed, the others keep their order. */
void pg__manifest_select(pg__manifest *m, const char *glob)
{
    size_t n = 0, n_pieces = 0;
    m->n_weights = m->n_state = 0;
    for (size_t i = 0; i < m->n_tensors; i++) {
        pg__shard_tensor t = m->tensors[i];
        const int keep = t.role != PG_ROLE_DATASET && matches(m, &t, glob);
        for (size_t k = t.first; k < t.first + t.n; k++) {
            const pg__piece p = m->pieces[k];
            if (keep) {
                m->pieces[n_pieces + k - t.first] = p;
            } else {
                pg__mem_free(p.path);
                pg__mem_free(p.member);
            }
        }
        if (!keep) {
            pg__mem_free(t.name);
            pg__mem_free(t.h5);
            continue;
        }
        t.first = n_pieces;
        n_pieces += t.n;
        m->n_weights += t.role == PG_ROLE_WEIGHT;
        m->n_state += t.role == PG_ROLE_STATE;
        m->tensors[n++] = t;
    }
    m->n_tensors = n;
    m->n_pieces = n_pieces;
}

int pg__manifest_is_side(const char *head)
{
    static const char *const starts[] = {"{\"format\": \"safetensors\"", "{\"format\": \"keras\""};
    return strncmp(head, starts[0], strlen(starts[0])) == 0 ||
           strncmp(head, starts[1], strlen(starts[1])) == 0;
}

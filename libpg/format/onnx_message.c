/* onnx_message.c - the fields of a message that is larger than memory; see onnx.h. */
#include <string.h>

#include "base/mem.h"
#include "base/proto.h"
#include "base/try.h"
#include "format/onnx.h"

/* Up to n bytes from `at` on in memory, without a copy; *got: how many of them there are. */
pg_status pg__onnx_look(pg__onnx_reader *r, uint64_t at, uint64_t end, size_t n,
                        const unsigned char **out, size_t *got, pg_err *err)
{
    *got = end - at < n ? (size_t)(end - at) : n;
    if (at < r->first || at + *got > r->first + r->n) {
        const uint64_t left = pg__io_size(r->io) - at;
        r->first = at;
        r->n = left < PG_ONNX_WINDOW ? (size_t)left : PG_ONNX_WINDOW;
        const pg_status st = pg__io_read(r->io, at, r->window, r->n, err);
        if (st != PG_OK) {
            r->n = 0;
            return st;
        }
    }
    *out = r->window + (at - r->first);
    return PG_OK;
}

/* The next field of m, which moves behind it; *is_end: there is none. */
pg_status pg__onnx_next(pg__onnx_reader *r, pg__onnx_range *m, pg__onnx_field *f, int *is_end,
                        pg_err *err)
{
    enum { HEAD = 20 }; /* two varints */
    const unsigned char *p = NULL;
    size_t n = 0;
    uint64_t tag = 0, length = 0;
    pg_status st = PG_OK;
    *is_end = m->at == m->end;
    if (*is_end)
        return PG_OK;
    PG_TRY(pg__onnx_look(r, m->at, m->end, HEAD, &p, &n, err));
    const unsigned char *at = p, *end = p + n;
    if (!pg__varint(&at, end, &tag) || tag >> 3 == 0 || tag >> 3 >= 1u << 29)
        PG_FAIL(PG_E_FORMAT, "byte %llu begins no field", (unsigned long long)m->at);
    *f = (pg__onnx_field){.number = (uint32_t)(tag >> 3), .type = (int)(tag & 7)};
    if (f->type == PG_PROTO_VARINT ? !pg__varint(&at, end, &f->value)
                                   : f->type == PG_PROTO_BYTES && !pg__varint(&at, end, &length))
        PG_FAIL(PG_E_FORMAT, "byte %llu begins no field", (unsigned long long)m->at);
    length = f->type == PG_PROTO_I64 ? 8 : f->type == PG_PROTO_I32 ? 4 : length;
    if (f->type > PG_PROTO_BYTES && f->type != PG_PROTO_I32)
        PG_FAIL(PG_E_FORMAT, "byte %llu begins no field", (unsigned long long)m->at);
    f->bytes.at = m->at + (uint64_t)(at - p);
    if (length > m->end - f->bytes.at)
        PG_FAIL(PG_E_FORMAT, "byte %llu: a field of %s bytes, %s are left",
                (unsigned long long)m->at, PG_NUM(length), PG_NUM(m->end - f->bytes.at));
    f->bytes.end = m->at = f->bytes.at + length;
done:
    return st;
}

pg_status pg__onnx_bytes(pg__onnx_reader *r, pg__onnx_range m, pg__str *out, pg_err *err)
{
    pg_status st = PG_OK;
    out->n = 0;
    if (m.end - m.at > PG_ONNX_TEXT_BYTES)
        return pg_fail(err, PG_E_LIMIT, "a text of %s bytes", PG_NUM(m.end - m.at));
    for (uint64_t at = m.at; at < m.end;) {
        const unsigned char *p = NULL;
        size_t n = 0;
        PG_TRY(pg__onnx_look(r, at, m.end, PG_ONNX_WINDOW, &p, &n, err));
        PG_TRY(pg__str_add(out, (const char *)p, n, err));
        at += n;
    }
    if (!out->s)
        PG_TRY(pg__str_add(out, "", 0, err));
done:
    return st;
}

/* ---- the proof of what was written ---- */

/* The next field of a message in memory that is not `skipped`. */
static int next_wanted(pg__proto *m, pg__field *f, uint32_t skipped)
{
    while (pg__proto_next(m, f))
        if (f->number != skipped)
            return 1;
    return 0;
}

/* A node may be larger than the window: it has names of any number of operands, or a body. */
static pg_status same_bytes(int *same, pg__onnx_reader *r, pg__onnx_range m, const pg__field *want,
                            pg_err *err)
{
    const unsigned char *p = NULL;
    size_t n = 0;
    pg_status st = PG_OK;
    *same = m.end - m.at == want->n;
    for (uint64_t at = m.at; *same && at < m.end; at += n) {
        PG_TRY(pg__onnx_look(r, at, m.end, PG_ONNX_WINDOW, &p, &n, err));
        *same = memcmp(p, want->bytes + (at - m.at), n) == 0;
    }
done:
    return st;
}

pg_status pg__onnx_same(pg__onnx_reader *r, pg__onnx_range m, pg__proto want, uint32_t skipped,
                        pg_err *err)
{
    pg__field w;
    pg__onnx_field f;
    int is_end = 0, same = 1;
    pg_status st = PG_OK;
    while (same) {
        PG_TRY(pg__onnx_next(r, &m, &f, &is_end, err));
        if (is_end)
            break;
        if (f.number == skipped)
            continue;
        same = next_wanted(&want, &w, skipped) && w.number == f.number && w.type == f.type &&
               w.value == f.value;
        if (same && f.type == PG_PROTO_BYTES)
            PG_TRY(same_bytes(&same, r, f.bytes, &w, err));
    }
    if (!same || next_wanted(&want, &w, skipped))
        PG_FAIL(PG_E_IO, "its graph differs from the plan; nothing written");
done:
    return st;
}

/* ---- what a graph takes and gives ---- */

static pg_status add_shape(pg__str *out, const pg__field *shape, pg_err *err)
{
    pg__proto m = {shape->bytes, shape->n, 0};
    pg__field f, d;
    size_t n = 0;
    pg_status st = PG_OK;
    while (pg__proto_next(&m, &f)) {
        pg__proto dim = {f.bytes, f.n, 0};
        int known = 0;
        if (f.number != PG_ONNX_DIM || f.type != PG_PROTO_BYTES)
            continue;
        PG_TRY(pg__str_puts(out, n++ ? ", " : " (", err));
        while (pg__proto_next(&dim, &d)) {
            char text[64];
            known = 1;
            if (d.type == PG_PROTO_BYTES)
                PG_TRY(pg__str_puts(
                    out, pg__printable(text, sizeof text, (const char *)d.bytes, d.n), err));
            else
                PG_TRY(pg__str_printf(out, err, "%lld", (long long)d.value));
        }
        if (!known)
            PG_TRY(pg__str_puts(out, "?", err));
    }
    if (n)
        PG_TRY(pg__str_puts(out, ")", err));
done:
    return st;
}

pg_status pg__onnx_show_type(pg__str *out, const pg__field *type, pg_err *err)
{
    pg__proto m = {type->bytes, type->n, 0};
    pg__field f, t;
    pg_dtype dtype;
    pg_status st = PG_OK;
    while (pg__proto_next(&m, &f)) {
        pg__proto in = {f.bytes, f.n, 0};
        if (f.number != PG_ONNX_TYPE_TENSOR || f.type != PG_PROTO_BYTES)
            continue;
        while (pg__proto_next(&in, &t))
            if (t.number == PG_ONNX_SHAPE && t.type == PG_PROTO_BYTES)
                PG_TRY(add_shape(out, &t, err));
            else if (t.number == PG_ONNX_ELEM_TYPE && pg__onnx_dtype_of(&dtype, t.value))
                PG_TRY(pg__str_printf(out, err, " %s", pg_dtype_name(dtype)));
    }
done:
    return st;
}

/* ---- the proof of what was written ---- */

/* The graph of the file, and that of the plan. */
static pg_status find_graphs(pg__onnx_reader *r, pg__onnx_range *got, pg__proto *want, pg_err *err)
{
    pg__onnx_range m = {0, pg__io_size(r->io)};
    pg__onnx_field f = {0};
    pg__field w = {0};
    int is_end = 0;
    pg_status st = PG_OK;
    while (!is_end && f.number != PG_ONNX_GRAPH)
        PG_TRY(pg__onnx_next(r, &m, &f, &is_end, err));
    while (w.number != PG_ONNX_GRAPH && pg__proto_next(want, &w))
        continue;
    *got = f.bytes;
    *want = (pg__proto){w.bytes, w.n, 0};
done:
    return st;
}

pg_status pg__onnx_verify(pg__io *io, const pg__plan *plan, pg_err *err)
{
    const pg__proto all = {(const unsigned char *)plan->model_config, plan->n_model_config, 0};
    pg__proto graph = all;
    pg__onnx_range got;
    pg__onnx_reader r = {.io = io, .window = pg__mem_array(PG_ONNX_WINDOW, 1)};
    pg_status st = PG_OK;
    if (!r.window)
        return pg__nomem(err);
    PG_TRY(pg__onnx_same(&r, (pg__onnx_range){0, pg__io_size(io)}, all, PG_ONNX_GRAPH, err));
    PG_TRY(find_graphs(&r, &got, &graph, err));
    PG_TRY(pg__onnx_same(&r, got, graph, PG_ONNX_INITIALIZER, err));
done:
    pg__mem_free(r.window);
    return st;
}

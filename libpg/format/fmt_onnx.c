/* fmt_onnx.c - ONNX files: the initialisers of the graph are its tensors. A file may be larger than
 * memory, so the message is read field by field, and what is not asked for is passed over. Data
 * that stands outside of the file (external data) is opened below its folder, through no link. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/le.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/proto.h"
#include "base/try.h"
#include "format/onnx.h"

/* ---- tensors ---- */

typedef struct tensor {
    pg__str name;
    uint64_t type, dims[PG_MAX_RANK];
    uint32_t rank;
    pg__onnx_range raw;    /* elements as they are, or {0, 0} */
    pg__onnx_range packed; /* varints */
    size_t n_data;         /* fields of elements */
    int is_external;
    pg__str location;
    uint64_t off, length;
    int has_length;
} tensor;

typedef struct onnx {
    pg__io *io;      /* a reference */
    pg__io **others; /* files of external data */
    uint64_t *used;  /* bytes of each that tensors have so far */
    pg__strs names;
    size_t n_others, cap_others, cap_used;
    unsigned char **decoded; /* per tensor: elements that were stored as varints, or NULL */
    size_t n_tensors, cap_tensors;
    /* while the file is read: */
    pg__onnx_reader r;
    const char *path;
    pg__str writer, version, graph, inputs, outputs;
    uint64_t opset, ir;
    size_t n_nodes, n_graphs;
    size_t n_unread; /* initialisers: texts, sparse tensors */
} onnx;

static pg_status add_dim(tensor *t, uint64_t v, pg_err *err)
{
    if (t->rank == PG_MAX_RANK)
        return pg_fail(err, PG_E_LIMIT, "more than %d dimensions", PG_MAX_RANK);
    if (v > INT64_MAX)
        return pg_fail(err, PG_E_FORMAT, "a dimension of %lld", (long long)v);
    t->dims[t->rank++] = v;
    return PG_OK;
}

static pg_status add_dims(onnx *x, tensor *t, const pg__onnx_field *f, pg_err *err)
{
    pg__str text = {0};
    pg_status st = PG_OK;
    if (f->type == PG_PROTO_VARINT)
        return add_dim(t, f->value, err);
    PG_TRY(pg__onnx_bytes(&x->r, f->bytes, &text, err));
    const unsigned char *p = (const unsigned char *)text.s, *end = p + text.n;
    for (uint64_t v = 0; p < end;) {
        if (!pg__varint(&p, end, &v))
            PG_FAIL(PG_E_FORMAT, "its dimensions are damaged");
        PG_TRY(add_dim(t, v, err));
    }
done:
    pg__str_fini(&text);
    return st;
}

/* A whole number in a text. */
static int read_number(uint64_t *out, const char *s)
{
    uint64_t v = 0;
    if (!*s)
        return 0;
    for (; *s; s++)
        if (*s < '0' || *s > '9' || __builtin_mul_overflow(v, UINT64_C(10), &v) ||
            __builtin_add_overflow(v, (uint64_t)(*s - '0'), &v))
            return 0;
    *out = v;
    return 1;
}

static pg_status add_external(onnx *x, tensor *t, pg__onnx_range m, pg_err *err)
{
    pg__str key = {0}, value = {0};
    pg__onnx_field f;
    int is_end = 0;
    pg_status st = PG_OK;
    for (;;) {
        PG_TRY(pg__onnx_next(&x->r, &m, &f, &is_end, err));
        if (is_end)
            break;
        if (f.type == PG_PROTO_BYTES && (f.number == PG_ONNX_KEY || f.number == PG_ONNX_VALUE))
            PG_TRY(pg__onnx_bytes(&x->r, f.bytes, f.number == PG_ONNX_KEY ? &key : &value, err));
    }
    if (!key.s || !value.s)
        PG_FAIL(PG_E_FORMAT, "its external data is not described");
    if (strcmp(key.s, "location") == 0) {
        t->location.n = 0;
        PG_TRY(pg__str_add(&t->location, value.s, value.n, err));
    }
    t->has_length |= strcmp(key.s, "length") == 0;
    if ((strcmp(key.s, "offset") == 0 && !read_number(&t->off, value.s)) ||
        (strcmp(key.s, "length") == 0 && !read_number(&t->length, value.s)))
        PG_FAIL(PG_E_FORMAT, "the %s of its external data is no number", PG_SHOW(key.s));
done:
    pg__str_fini(&key);
    pg__str_fini(&value);
    return st;
}

static pg_status add_field(onnx *x, tensor *t, const pg__onnx_field *f, pg_err *err)
{
    const int bytes = f->type == PG_PROTO_BYTES;
    switch (f->number) {
    case PG_ONNX_DIMS: return add_dims(x, t, f, err);
    case PG_ONNX_DATA_TYPE: t->type = f->value; break;
    case PG_ONNX_TENSOR_NAME: return bytes ? pg__onnx_bytes(&x->r, f->bytes, &t->name, err) : PG_OK;
    case PG_ONNX_RAW:
    case PG_ONNX_FLOAT_DATA:
    case PG_ONNX_DOUBLE_DATA:
        t->n_data++;
        t->raw = f->bytes;
        break;
    case PG_ONNX_INT32_DATA:
    case PG_ONNX_INT64_DATA:
    case PG_ONNX_UINT64_DATA:
        t->n_data++;
        t->packed = f->bytes;
        break;
    case PG_ONNX_EXTERNAL: return bytes ? add_external(x, t, f->bytes, err) : PG_OK;
    case PG_ONNX_LOCATION: t->is_external = f->value == 1; break;
    default: break;
    }
    return PG_OK;
}

static pg_status read_tensor(onnx *x, tensor *t, pg__onnx_range m, pg_err *err)
{
    pg__onnx_field f;
    int is_end = 0;
    pg_status st = PG_OK;
    for (;;) {
        PG_TRY(pg__onnx_next(&x->r, &m, &f, &is_end, err));
        if (is_end)
            break;
        PG_TRY(add_field(x, t, &f, err));
    }
    if (!t->name.s || !t->name.n)
        PG_FAIL(PG_E_FORMAT, "an initialiser without a name");
    if (strlen(t->name.s) != t->name.n)
        PG_FAIL(PG_E_FORMAT, "%s: its name has a zero byte", PG_SHOW(t->name.s));
done:
    return st;
}

static void tensor_fini(tensor *t)
{
    pg__str_fini(&t->name);
    pg__str_fini(&t->location);
}

/* ---- where elements are ---- */

static pg_status open_other(onnx *x, const char *name, size_t *which, pg_err *err)
{
    pg_status st = PG_OK;
    *which = pg__strs_find(&x->names, name);
    if (*which != (size_t)-1)
        return PG_OK;
    if (!x->path)
        PG_FAIL(PG_E_FORMAT, "its data is in another file, %s", PG_SHOW(name));
    if (pg__mem_grow(&x->others, &x->cap_others, x->n_others + 1, sizeof *x->others) ||
        pg__mem_grow(&x->used, &x->cap_used, x->n_others + 1, sizeof *x->used))
        PG_TRY(pg__nomem(err));
    PG_TRY(pg__io_open_beneath(&x->others[x->n_others], x->path, name, err));
    x->used[x->n_others] = 0;
    *which = x->n_others++;
    PG_TRY(pg__strs_add(&x->names, name, strlen(name), err));
done:
    return st;
}

static pg_status place_external(onnx *x, const tensor *t, uint64_t n_bytes, pg__extent *out,
                                pg_err *err)
{
    size_t which = 0;
    pg_status st = PG_OK;
    if (!t->location.s || strlen(t->location.s) != t->location.n)
        PG_FAIL(PG_E_FORMAT, "its external data has no location");
    if (t->has_length && t->length != n_bytes)
        PG_FAIL(PG_E_FORMAT, "%s bytes of external data, its shape needs %s", PG_NUM(t->length),
                PG_NUM(n_bytes));
    PG_TRY(open_other(x, t->location.s, &which, err));
    const uint64_t size = pg__io_size(x->others[which]);
    if (t->off > size || n_bytes > size - t->off)
        PG_FAIL(PG_E_FORMAT, "its external data ends beyond %s", PG_SHOW(t->location.s));
    if (n_bytes > size - x->used[which])
        PG_FAIL(PG_E_FORMAT, "it shares its data with another tensor in %s",
                PG_SHOW(t->location.s));
    x->used[which] += n_bytes;
    *out = (pg__extent){x->others[which], t->off};
done:
    return st;
}

/* Elements as varints: held in memory, each takes at most eight times its bytes in the file. */
static pg_status decode(onnx *x, const tensor *t, pg_dtype dtype, uint64_t n, unsigned char *out,
                        pg_err *err)
{
    const size_t each = pg_dtype_bytes(dtype);
    pg__onnx_range m = t->packed;
    uint64_t done = 0;
    pg_status st = PG_OK;
    while (m.at < m.end && done < n) {
        const unsigned char *p = NULL;
        size_t got = 0;
        uint64_t v = 0;
        PG_TRY(pg__onnx_look(&x->r, m.at, m.end, 10, &p, &got, err));
        const unsigned char *at = p;
        if (!pg__varint(&at, p + got, &v))
            PG_FAIL(PG_E_FORMAT, "its numbers are damaged");
        pg__put_le(out + done++ * each, v, each);
        m.at += (uint64_t)(at - p);
    }
    if (m.at < m.end || done < n)
        PG_FAIL(PG_E_FORMAT, "it has more or fewer numbers than its shape, %s", PG_NUM(n));
done:
    return st;
}

static pg_status count_bytes(const tensor *t, pg_dtype dtype, uint64_t *n, uint64_t *n_bytes,
                             pg_err *err)
{
    *n = 1;
    for (uint32_t k = 0; k < t->rank; k++)
        if (__builtin_mul_overflow(*n, t->dims[k], n))
            return pg_fail(err, PG_E_FORMAT, "its shape is too large");
    if (__builtin_mul_overflow(*n, (uint64_t)pg_dtype_bytes(dtype), n_bytes))
        return pg_fail(err, PG_E_FORMAT, "its shape is too large");
    return PG_OK;
}

static pg_status place(onnx *x, const tensor *t, pg_dtype dtype, pg__extent *out,
                       unsigned char **decoded, pg_err *err)
{
    uint64_t n = 0, n_bytes = 0;
    pg_status st = PG_OK;
    PG_TRY(count_bytes(t, dtype, &n, &n_bytes, err));
    if (t->is_external)
        return place_external(x, t, n_bytes, out, err);
    if (n_bytes == 0)
        return PG_OK;
    if (t->n_data != 1)
        PG_FAIL(t->n_data ? PG_E_UNSUPPORTED : PG_E_FORMAT, "its data is in %zu pieces", t->n_data);
    if (t->packed.end) {
        if (n > t->packed.end - t->packed.at)
            PG_FAIL(PG_E_FORMAT, "it has fewer numbers than its shape, %s", PG_NUM(n));
        *decoded = pg__mem_array((size_t)n, pg_dtype_bytes(dtype));
        return *decoded ? decode(x, t, dtype, n, *decoded, err) : pg__nomem(err);
    }
    if (t->raw.end - t->raw.at != n_bytes)
        PG_FAIL(PG_E_FORMAT, "%s bytes of data, its shape needs %s", PG_NUM(t->raw.end - t->raw.at),
                PG_NUM(n_bytes));
    *out = (pg__extent){x->io, t->raw.at};
done:
    return st;
}

static pg_status add_tensor(onnx *x, pg_store *s, tensor *t, pg_err *err)
{
    pg__tensor_desc d = {.name = t->name.s, .rank = t->rank, .dims = t->dims};
    pg_status st = PG_OK;
    if (!pg__onnx_dtype_of(&d.dtype, t->type)) {
        x->n_unread++;
        return PG_OK;
    }
    if (x->n_tensors >= PG_LIMIT_OBJECTS)
        PG_FAIL(PG_E_LIMIT, "more than %u initialisers", PG_LIMIT_OBJECTS);
    if (pg__mem_grow(&x->decoded, &x->cap_tensors, x->n_tensors + 1, sizeof *x->decoded))
        PG_TRY(pg__nomem(err));
    x->decoded[x->n_tensors] = NULL;
    PG_TRY(place(x, t, d.dtype, &d.extent, &x->decoded[x->n_tensors], err));
    x->n_tensors++;
    PG_TRY(pg__store_add_weight(s, &d, err));
done:
    if (st != PG_OK)
        pg_err_prefix(err, PG_SHOW(t->name.s));
    return st;
}

static pg_status read_initialiser(onnx *x, pg_store *s, pg__onnx_range m, pg_err *err)
{
    tensor t = {.type = 0};
    pg_status st = PG_OK;
    PG_TRY(read_tensor(x, &t, m, err));
    PG_TRY(add_tensor(x, s, &t, err));
done:
    tensor_fini(&t);
    return st;
}

/* ---- what the graph takes and gives ---- */

#define SHOWN_BYTES 400 /* of inputs, and of outputs */

static pg_status add_value(onnx *x, pg__str *out, pg__onnx_range m, pg_err *err)
{
    pg__str text = {0};
    pg__field f;
    char name[96];
    pg_status st = PG_OK;
    if (out->n > SHOWN_BYTES || m.end - m.at > PG_ONNX_TEXT_BYTES)
        return PG_OK;
    PG_TRY(pg__onnx_bytes(&x->r, m, &text, err));
    pg__proto p = {(const unsigned char *)text.s, text.n, 0};
    while (pg__proto_next(&p, &f)) {
        if (f.type != PG_PROTO_BYTES)
            continue;
        if (f.number == PG_ONNX_VALUE_NAME)
            PG_TRY(pg__str_printf(out, err, "%s%s", out->n ? ", " : "",
                                  pg__printable(name, sizeof name, (const char *)f.bytes, f.n)));
        else if (f.number == PG_ONNX_VALUE_TYPE)
            PG_TRY(pg__onnx_show_type(out, &f, err));
    }
done:
    pg__str_fini(&text);
    return st;
}

static pg_status read_graph(onnx *x, pg_store *s, pg__onnx_range m, pg_err *err)
{
    pg__onnx_field f;
    int is_end = 0;
    pg_status st = PG_OK;
    for (;;) {
        PG_TRY(pg__onnx_next(&x->r, &m, &f, &is_end, err));
        if (is_end)
            break;
        if (f.type != PG_PROTO_BYTES)
            continue;
        switch (f.number) {
        case PG_ONNX_NODE: x->n_nodes++; break;
        case PG_ONNX_GRAPH_NAME: PG_TRY(pg__onnx_bytes(&x->r, f.bytes, &x->graph, err)); break;
        case PG_ONNX_INITIALIZER: PG_TRY(read_initialiser(x, s, f.bytes, err)); break;
        case PG_ONNX_SPARSE: x->n_unread++; break;
        case PG_ONNX_INPUT: PG_TRY(add_value(x, &x->inputs, f.bytes, err)); break;
        case PG_ONNX_OUTPUT: PG_TRY(add_value(x, &x->outputs, f.bytes, err)); break;
        default: break;
        }
    }
done:
    return st;
}

/* ---- the model ---- */

static pg_status read_opset(onnx *x, pg__onnx_range m, pg_err *err)
{
    pg__str domain = {0};
    uint64_t version = 0;
    pg__onnx_field f;
    int is_end = 0;
    pg_status st = PG_OK;
    for (;;) {
        PG_TRY(pg__onnx_next(&x->r, &m, &f, &is_end, err));
        if (is_end)
            break;
        if (f.number == PG_ONNX_OPSET_DOMAIN && f.type == PG_PROTO_BYTES)
            PG_TRY(pg__onnx_bytes(&x->r, f.bytes, &domain, err));
        if (f.number == PG_ONNX_OPSET_VERSION && f.type == PG_PROTO_VARINT)
            version = f.value;
    }
    if (!domain.n || strcmp(domain.s, "ai.onnx") == 0)
        x->opset = version;
done:
    pg__str_fini(&domain);
    return st;
}

static pg_status read_model_field(onnx *x, pg_store *s, const pg__onnx_field *f, pg_err *err)
{
    const int bytes = f->type == PG_PROTO_BYTES;
    if (f->number == PG_ONNX_IR_VERSION && f->type == PG_PROTO_VARINT)
        x->ir = f->value;
    if (!bytes)
        return PG_OK;
    switch (f->number) {
    case PG_ONNX_PRODUCER: return pg__onnx_bytes(&x->r, f->bytes, &x->writer, err);
    case PG_ONNX_PRODUCER_VERSION: return pg__onnx_bytes(&x->r, f->bytes, &x->version, err);
    case PG_ONNX_OPSET: return read_opset(x, f->bytes, err);
    case PG_ONNX_GRAPH:
        if (x->n_graphs++ > 0)
            return pg_fail(err, PG_E_FORMAT, "it has two graphs");
        return read_graph(x, s, f->bytes, err);
    default: return PG_OK;
    }
}

/* Before the graph is read, which takes time and memory: are the fields those of a model? */
static pg_status is_model(onnx *x, pg_err *err)
{
    pg__onnx_range m = {0, pg__io_size(x->io)};
    pg__onnx_field f;
    int is_end = 0, graph = 0, opset = 0;
    for (;;) {
        if (pg__onnx_next(&x->r, &m, &f, &is_end, err) != PG_OK)
            return pg_fail(err, graph || opset ? PG_E_FORMAT : PG_E_UNKNOWN,
                           "its fields are damaged: cut off?");
        if (is_end)
            break;
        graph |= f.number == PG_ONNX_GRAPH && f.type == PG_PROTO_BYTES;
        opset |= f.number == PG_ONNX_OPSET && f.type == PG_PROTO_BYTES;
    }
    return graph && opset ? PG_OK : pg_fail(err, PG_E_UNKNOWN, "no model");
}

static pg_status describe(onnx *x, pg_store *s, pg_err *err)
{
    pg__str writer = {0}, others = {0};
    char name[64], version[32];
    pg_status st = PG_OK;
    if (x->writer.n) {
        PG_TRY(pg__str_printf(&writer, err, "%s%s%s",
                              pg__printable(name, sizeof name, x->writer.s, x->writer.n),
                              x->version.n ? " " : "",
                              pg__printable(version, sizeof version,
                                            x->version.n ? x->version.s : "", x->version.n)));
        PG_TRY(pg__store_set_writer(s, writer.s, err));
    }
    PG_TRY(pg__str_printf(&others, err, "a graph of %zu node%s, opset %llu; input %s; output %s",
                          x->n_nodes, x->n_nodes == 1 ? "" : "s", (unsigned long long)x->opset,
                          x->inputs.n ? x->inputs.s : "none",
                          x->outputs.n ? x->outputs.s : "none"));
    if (x->n_unread)
        PG_TRY(pg__str_printf(&others, err, "; %zu initialiser%s of types that are not read",
                              x->n_unread, x->n_unread == 1 ? "" : "s"));
    PG_TRY(pg__store_set_others(s, others.s, err));
done:
    pg__str_fini(&writer);
    pg__str_fini(&others);
    return st;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Runtimes choose differently among initialisers of one name. */
static pg_status check_unique(const pg_store *s, pg_err *err)
{
    const size_t n = pg_store_n_weights(s);
    const char **names = pg__mem_array(n, sizeof *names);
    pg_status st = PG_OK;
    if (!names)
        return pg__nomem(err);
    for (size_t i = 0; i < n; i++)
        names[i] = pg_store_weight(s, i)->name;
    qsort(names, n, sizeof *names, by_text);
    for (size_t i = 1; i < n; i++)
        if (strcmp(names[i - 1], names[i]) == 0)
            PG_FAIL(PG_E_FORMAT, "%s: two initialisers have this name", PG_SHOW(names[i]));
done:
    pg__mem_free(names);
    return st;
}

static pg_status read_model(onnx *x, pg_store *s, pg_err *err)
{
    pg__onnx_range m = {0, pg__io_size(x->io)};
    pg__onnx_field f;
    int is_end = 0;
    pg_status st = PG_OK;
    PG_TRY(is_model(x, err));
    for (;;) {
        PG_TRY(pg__onnx_next(&x->r, &m, &f, &is_end, err));
        if (is_end)
            break;
        PG_TRY(read_model_field(x, s, &f, err));
    }
    PG_TRY(check_unique(s, err));
    PG_TRY(describe(x, s, err));
done:
    return st;
}

static pg_status read_decoded(void *ctx, size_t i, uint64_t off, void *buf, size_t n, pg_err *err)
{
    const onnx *x = ctx;
    (void)err;
    if (n > 0) /* the store has checked the range */
        memcpy(buf, x->decoded[i] + off, n);
    return PG_OK;
}

static void end_reading(onnx *x)
{
    pg__mem_free(x->r.window);
    x->r.window = NULL;
    pg__str_fini(&x->writer);
    pg__str_fini(&x->version);
    pg__str_fini(&x->graph);
    pg__str_fini(&x->inputs);
    pg__str_fini(&x->outputs);
    pg__strs_fini(&x->names);
}

static void close_onnx(void *ctx)
{
    onnx *x = ctx;
    end_reading(x);
    for (size_t i = 0; i < x->n_tensors; i++)
        pg__mem_free(x->decoded[i]);
    for (size_t i = 0; i < x->n_others; i++)
        pg__io_close(x->others[i]);
    pg__mem_free(x->decoded);
    pg__mem_free(x->others);
    pg__mem_free(x->used);
    pg__io_close(x->io);
    pg__mem_free(x);
}

static int probe(const uint8_t *head, size_t n)
{
    return n > 4 && head[0] == 0x08 && head[1] > 0 && head[1] <= 32 &&
           (head[2] == 0x12 || head[2] == 0x1a || head[2] == 0x22 || head[2] == 0x3a ||
            head[2] == 0x42);
}

/* A file of external data that is open already. */
static pg_status add_beside(onnx *x, pg__io *beside, const char *name, pg_err *err)
{
    if (pg__mem_grow(&x->others, &x->cap_others, 1, sizeof *x->others) ||
        pg__mem_grow(&x->used, &x->cap_used, 1, sizeof *x->used))
        return pg__nomem(err);
    x->used[0] = 0;
    x->others[x->n_others++] = pg__io_ref(beside);
    return pg__strs_add(&x->names, name, strlen(name), err);
}

static pg_status open_beside(pg_store **out, pg__io *io, const char *path, pg__io *beside,
                             const char *name, pg_err *err)
{
    static const pg__store_io data = {.read = read_decoded, .close = close_onnx};
    pg_store *s = NULL;
    pg_status st = PG_OK;
    onnx *x = pg__mem_array(1, sizeof *x);
    if (!x)
        return pg__nomem(err);
    x->io = pg__io_ref(io);
    x->path = path;
    x->r = (pg__onnx_reader){.io = io, .window = pg__mem_array(PG_ONNX_WINDOW, 1)};
    if (!x->r.window)
        PG_TRY(pg__nomem(err));
    if (beside)
        PG_TRY(add_beside(x, beside, name, err));
    PG_TRY(pg__store_new(&s, "onnx", NULL, NULL, err));
    PG_TRY(read_model(x, s, err));
    end_reading(x);
    pg__store_own(s, &data, x);
    x = NULL;
    *out = s;
    s = NULL;
done:
    pg_store_close(s);
    if (x)
        close_onnx(x);
    return st;
}

static pg_status open(pg_store **out, pg__io *io, const char *path, const pg_open_opts *opts,
                      pg_err *err)
{
    (void)opts;
    return open_beside(out, io, path, NULL, NULL, err);
}

static pg_status verify(pg_store *out, const pg__plan *plan, pg_err *err)
{
    const onnx *x = pg__store_ctx(out);
    return pg__onnx_verify(x->io, plan, err);
}

const pg__format pg__fmt_onnx = {
    .name = "onnx",
    .probe = probe,
    .open = open,
    .open_beside = open_beside,
    .write = pg__onnx_write,
    .verify = verify,
    .suffixes = ".onnx\0",
};

/* onnx_write.c - writes an ONNX file: the fields of a model as they are given, and in its graph an
 * initialiser for each tensor of the plan. Messages say their lengths first, so the heads of all
 * tensors are made before anything is written; their data goes from the source to the sink, or to
 * that of a file beside it. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "base/mem.h"
#include "base/proto.h"
#include "base/try.h"
#include "format/copy.h"
#include "format/onnx.h"

static const struct {
    int64_t type;
    pg_dtype dtype;
} types[] = {{1, PG_F32},  {2, PG_U8},   {3, PG_I8},    {4, PG_U16},      {5, PG_I16},
             {6, PG_I32},  {7, PG_I64},  {9, PG_BOOL},  {10, PG_F16},     {11, PG_F64},
             {12, PG_U32}, {13, PG_U64}, {16, PG_BF16}, {17, PG_F8_E4M3}, {19, PG_F8_E5M2}};

int64_t pg__onnx_type_of(pg_dtype dtype)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].dtype == dtype)
            return types[i].type;
    return 0;
}

int pg__onnx_dtype_of(pg_dtype *out, uint64_t type)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if ((uint64_t)types[i].type == type) {
            *out = types[i].dtype;
            return 1;
        }
    return 0;
}

/* protobuf's own limit of a message. */
#define MESSAGE_LIMIT ((uint64_t)INT32_MAX)

typedef struct parts {
    pg__str before, graph; /* the model's other fields; the graph's own */
    pg__str heads;         /* of all initialisers, one after the other */
    size_t *end;           /* where each head ends in heads */
    pg__placed *places;    /* data that stands before each head; then: where its own goes */
    pg__placed *outside;   /* of the file beside the output */
    size_t n_outside;
    uint64_t n_data, n_beside;
} parts;

#define ALIGN 4096 /* so that runtimes can map each tensor */

static int goes_outside(const pg__plan *plan, const pg_weight *w)
{
    return plan->beside && w->n_bytes >= PG_ONNX_LEAST_OUTSIDE;
}

static uint64_t next_place(const parts *p)
{
    return (p->n_beside + ALIGN - 1) / ALIGN * ALIGN;
}

static pg_status cut_frame(parts *p, const char *frame, size_t n, pg_err *err)
{
    pg__proto m = {(const unsigned char *)frame, n, 0};
    pg__field f;
    pg_status st = PG_OK;
    for (const unsigned char *at = m.p; pg__proto_next(&m, &f); at = m.p) {
        if (f.number == PG_ONNX_GRAPH && f.type == PG_PROTO_BYTES)
            PG_TRY(pg__str_add(&p->graph, (const char *)f.bytes, f.n, err));
        else
            PG_TRY(pg__str_add(&p->before, (const char *)at, (size_t)(m.p - at), err));
    }
done:
    return st;
}

pg_status pg__onnx_tensor_head(pg__str *out, const pg_weight *w, const char *name, pg_err *err)
{
    pg_status st = PG_OK;
    for (uint32_t k = 0; k < w->rank; k++)
        PG_TRY(pg__proto_put_int(out, PG_ONNX_DIMS, (int64_t)w->dims[k], err));
    PG_TRY(pg__proto_put_int(out, PG_ONNX_DATA_TYPE, pg__onnx_type_of(w->dtype), err));
    PG_TRY(pg__proto_put_text(out, PG_ONNX_TENSOR_NAME, name, err));
done:
    return st;
}

static pg_status add_entry(pg__str *to, const char *key, const char *value, pg_err *err)
{
    pg__str entry = {0};
    pg_status st = PG_OK;
    PG_TRY(pg__proto_put_text(&entry, PG_ONNX_KEY, key, err));
    PG_TRY(pg__proto_put_text(&entry, PG_ONNX_VALUE, value, err));
    PG_TRY(pg__proto_put_bytes(to, PG_ONNX_EXTERNAL, entry.s, entry.n, err));
done:
    pg__str_fini(&entry);
    return st;
}

/* Where the data of a tensor is in the file beside the output. */
static pg_status add_external(pg__str *to, const char *file, uint64_t off, uint64_t length,
                              pg_err *err)
{
    char number[24];
    pg_status st = PG_OK;
    PG_TRY(add_entry(to, "location", file, err));
    (void)snprintf(number, sizeof number, "%" PRIu64, off);
    PG_TRY(add_entry(to, "offset", number, err));
    (void)snprintf(number, sizeof number, "%" PRIu64, length);
    PG_TRY(add_entry(to, "length", number, err));
    PG_TRY(pg__proto_put_int(to, PG_ONNX_LOCATION, 1, err));
done:
    return st;
}

/* An initialiser up to its data; or all of it, if these are in another file. */
static pg_status add_head(parts *p, const pg_weight *w, const char *name, const pg__plan *plan,
                          pg_err *err)
{
    const int outside = goes_outside(plan, w);
    pg__str t = {0}, raw = {0};
    pg_status st = PG_OK;
    PG_TRY(pg__onnx_tensor_head(&t, w, name, err));
    if (outside)
        PG_TRY(add_external(&t, plan->beside_name, next_place(p), w->n_bytes, err));
    else
        PG_TRY(pg__proto_put_head(&raw, PG_ONNX_RAW, w->n_bytes, err));
    PG_TRY(pg__proto_put_head(&p->heads, PG_ONNX_INITIALIZER,
                              t.n + raw.n + (outside ? 0 : w->n_bytes), err));
    PG_TRY(pg__str_add(&p->heads, t.s, t.n, err));
    if (raw.n)
        PG_TRY(pg__str_add(&p->heads, raw.s, raw.n, err));
done:
    pg__str_fini(&raw);
    pg__str_fini(&t);
    return st;
}

/* Counts a tensor's data where they go. */
static void place(parts *p, size_t i, size_t tensor, const pg_weight *w, const pg__plan *plan)
{
    p->places[i] = (pg__placed){.tensor = tensor, .off = p->n_data};
    if (!goes_outside(plan, w)) {
        p->n_data += w->n_bytes;
        return;
    }
    p->n_beside = next_place(p);
    p->outside[p->n_outside++] = (pg__placed){.tensor = tensor, .off = p->n_beside};
    p->n_beside += w->n_bytes;
}

static pg_status make_heads(parts *p, const pg__plan *plan, pg_err *err)
{
    pg_status st = PG_OK;
    p->end = pg__mem_array(plan->n_items, sizeof *p->end);
    p->places = pg__mem_array(plan->n_items, sizeof *p->places);
    p->outside = pg__mem_array(plan->n_items, sizeof *p->outside);
    if (!p->end || !p->places || !p->outside)
        return pg__nomem(err);
    for (size_t i = 0; i < plan->n_items; i++) {
        const pg_weight *w = pg__store_tensor(plan->src, plan->items[i].src);
        if (pg__store_big_endian(plan->src, plan->items[i].src))
            PG_FAIL(PG_E_UNSUPPORTED, "%s: big-endian data has no place in ONNX",
                    PG_SHOW(plan->items[i].name));
        PG_TRY(add_head(p, w, plan->items[i].name, plan, err));
        p->end[i] = p->heads.n;
        place(p, i, plan->items[i].src, w, plan);
        if (p->n_data > MESSAGE_LIMIT)
            PG_FAIL(PG_E_LIMIT, "more than 2 GB of weights, which one ONNX file cannot hold");
    }
done:
    return st;
}

static pg_status write_parts(pg__sink *sink, parts *p, const pg__plan *plan, pg_err *err)
{
    const uint64_t n_graph = p->graph.n + p->heads.n + p->n_data;
    uint64_t at;
    size_t n = 0;
    pg_status st = PG_OK;
    PG_TRY(pg__proto_put_head(&p->before, PG_ONNX_GRAPH, n_graph, err));
    PG_TRY(pg__str_add(&p->before, p->graph.s, p->graph.n, err));
    at = p->before.n;
    if (at + n_graph > MESSAGE_LIMIT)
        PG_FAIL(PG_E_LIMIT, "the model is larger than 2 GB, which one ONNX file cannot hold");
    PG_TRY(pg__sink_reserve(sink, at + p->heads.n + p->n_data, err));
    PG_TRY(pg__sink_write(sink, 0, p->before.s, p->before.n, err));
    for (size_t i = 0, from = 0; i < plan->n_items; from = p->end[i++]) {
        PG_TRY(pg__sink_write(sink, at + p->places[i].off + from, p->heads.s + from,
                              p->end[i] - from, err));
        if (!goes_outside(plan, pg__store_tensor(plan->src, p->places[i].tensor)))
            p->places[n++] = (pg__placed){.tensor = p->places[i].tensor,
                                          .off = at + p->places[i].off + p->end[i]};
    }
    PG_TRY(pg__copy_tensors(sink, plan->src, p->places, n, err));
done:
    return st;
}

static pg_status write_outside(const parts *p, const pg__plan *plan, pg_err *err)
{
    pg_status st = PG_OK;
    PG_TRY(pg__sink_reserve(plan->beside, p->n_beside, err));
    PG_TRY(pg__sink_extend(plan->beside, p->n_beside, err));
    PG_TRY(pg__copy_tensors(plan->beside, plan->src, p->outside, p->n_outside, err));
done:
    return st;
}

pg_status pg__onnx_write(pg__sink *sink, const pg__plan *plan, pg_err *err)
{
    parts p = {.n_data = 0};
    pg_status st = PG_OK;
    if (!plan->model_config)
        PG_FAIL(PG_E_UNSUPPORTED, "an ONNX file needs the graph of a model");
    PG_TRY(cut_frame(&p, plan->model_config, plan->n_model_config, err));
    PG_TRY(make_heads(&p, plan, err));
    PG_TRY(write_parts(sink, &p, plan, err));
    if (plan->beside)
        PG_TRY(write_outside(&p, plan, err));
done:
    pg__str_fini(&p.before);
    pg__str_fini(&p.graph);
    pg__str_fini(&p.heads);
    pg__mem_free(p.end);
    pg__mem_free(p.places);
    pg__mem_free(p.outside);
    return st;
}

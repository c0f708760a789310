/* fuzz_roundtrip.c - bytes make a model of random layers, names, types, shapes and values; it is
 * written in a format, in memory, opened again and must be the same. Names that a format cannot
 * hold may be refused by the writer or by the reader, which is how a save proves its file; with
 * plain names neither may refuse. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/str.h"
#include "format/format.h"
#include "format/npy.h"
#include "io/zip.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#define MOST_TENSORS 12
#define MOST_BYTES   2048 /* of one tensor */
#define MOST_NAME    24

static void require(int holds)
{
    if (!holds)
        abort();
}

/* ---- a model out of bytes ---- */

typedef struct bytes {
    const uint8_t *p, *end;
} bytes;

static uint8_t take(bytes *b)
{
    return (uint8_t)(b->p < b->end ? *b->p++ : 0);
}

/* Mostly letters, so that names meet each other, but any ASCII may come. */
static void take_name(bytes *b, char *out)
{
    static const char usual[] = "ab0_:/.-";
    const size_t n = take(b) % MOST_NAME;
    size_t i = 0;
    for (; i < n && b->p < b->end; i++) {
        const uint8_t c = take(b);
        out[i] = c < 250 ? usual[c % (sizeof usual - 1)] : (char)(take(b) & 0x7F);
        out[i] = out[i] ? out[i] : 'z';
    }
    out[i] = '\0';
}

/* One that every format can hold. */
static int is_plain(const char *name)
{
    return *name && !name[strspn(name, "ab0_z")];
}

/* Values follow from where they are. */
static uint8_t value_at(size_t tensor, uint64_t off)
{
    return (uint8_t)(tensor * 89 + off * 7 + (off >> 8));
}

static pg_status read_values(void *ctx, size_t tensor, uint64_t off, void *buf, size_t n,
                             pg_err *err)
{
    (void)ctx, (void)err;
    for (size_t i = 0; i < n; i++)
        ((uint8_t *)buf)[i] = value_at(tensor, off + i);
    return PG_OK;
}

static void nothing(void *ctx)
{
    (void)ctx;
}

/* No file gives a store that has a name twice. */
static int is_new(pg_store *s, const char *name)
{
    for (size_t i = 0; i < pg_store_n_weights(s); i++)
        if (strcmp(pg_store_weight(s, i)->name, name) == 0)
            return 0;
    return 1;
}

static int is_new_layer(pg_store *s, const char *name)
{
    for (size_t i = 0; i < pg_store_n_layers(s); i++)
        if (strcmp(pg_store_layer(s, i)->name, name) == 0)
            return 0;
    return 1;
}

static int add_tensor(pg_store *s, bytes *b, const char *name)
{
    static const pg_dtype types[] = {PG_F32, PG_F16, PG_F64, PG_I8,  PG_I64,
                                     PG_U8,  PG_I32, PG_U16, PG_BF16};
    uint64_t dims[PG_MAX_RANK] = {0}, n_bytes = 1;
    pg__tensor_desc d = {.name = name, .dims = dims};
    const uint8_t head = take(b);
    d.dtype = types[head % (sizeof types / sizeof *types)];
    d.rank = take(b) % 5;
    for (uint32_t k = 0; k < d.rank; k++) {
        dims[k] = take(b) % 16;
        n_bytes *= dims[k];
    }
    return n_bytes * pg_dtype_bytes(d.dtype) <= MOST_BYTES && is_new(s, name) &&
           pg__store_add_weight(s, &d, NULL) == PG_OK;
}

/* The path layout needs names of its own; so do members of archives, which a writer escapes before
 * (wrap/shard/shard_names.c). */
typedef enum naming { FREE, PATHS, NUMBERS } naming;

static pg_store *make(bytes *b, naming how, int *plain)
{
    static const pg__store_io io = {.read = read_values, .close = nothing};
    static const char config[] = "{\"class_name\": \"Sequential\"}", version[] = "{}";
    pg_store *s = NULL;
    char name[MOST_NAME + 1], full[2 * MOST_NAME + 32];
    size_t in_layer = 0;
    require(pg__store_new(&s, "fuzz", &io, NULL, NULL) == PG_OK);
    require(pg__store_set_path(s, "in", NULL) == PG_OK);
    require(pg__store_add_layer(s, how == PATHS ? "layers/a" : "a", NULL) == PG_OK);
    for (size_t i = 0; i < MOST_TENSORS && b->p < b->end; i++) {
        take_name(b, name);
        *plain &= is_plain(name);
        if (take(b) % 4 == 0) {
            (void)snprintf(full, sizeof full, "%s%s", how == PATHS ? "layers/" : "", name);
            if (is_new_layer(s, full)) {
                require(pg__store_add_layer(s, full, NULL) == PG_OK);
                in_layer = 0;
            }
        }
        const pg_layer *l = pg_store_layer(s, pg_store_n_layers(s) - 1);
        if (how == PATHS)
            (void)snprintf(full, sizeof full, "%s/vars/%zu", l->name, in_layer);
        else if (how == NUMBERS)
            (void)snprintf(full, sizeof full, "t%zu", pg_store_n_weights(s));
        else
            (void)snprintf(full, sizeof full, "%s", name);
        in_layer += (size_t)add_tensor(s, b, full);
    }
    if (take(b) % 2)
        require(pg__store_set_text(s, PG_TEXT_MODEL_CONFIG, config, strlen(config), NULL) == PG_OK);
    if (take(b) % 2)
        require(pg__store_set_text(s, PG_TEXT_METADATA, version, strlen(version), NULL) == PG_OK);
    return s;
}

/* ---- NumPy's archives are written by the shards' writer; here by its parts ---- */

static pg_status add_npy(pg__zip_out *zip, pg__sink *sink, pg_store *s, size_t i, pg_err *err)
{
    const pg_weight *w = pg_store_weight(s, i);
    uint8_t values[MOST_BYTES];
    char name[2 * MOST_NAME + 48];
    uint64_t off = 0;
    pg__str head = {0};
    require(w->n_bytes <= sizeof values);
    require(pg__npy_add_header(&head, w->dtype, 0, w->rank, w->dims, 64, 0, err) == PG_OK);
    require(pg__store_read_raw(s, i, 0, values, w->n_bytes, err) == PG_OK);
    (void)snprintf(name, sizeof name, "%s.npy", w->name);
    pg_status st = pg__zip_out_begin(zip, name, head.n + w->n_bytes, 64, &off, err);
    if (st == PG_OK) {
        require(pg__sink_write(sink, off, head.s, head.n, err) == PG_OK);
        require(pg__sink_write(sink, off + head.n, values, w->n_bytes, err) == PG_OK);
        const uint32_t crc = pg__crc32(0, head.s, head.n);
        st = pg__zip_out_end(zip, pg__crc32(crc, values, w->n_bytes), err);
    }
    pg__str_fini(&head);
    return st;
}

static pg_status write_npz(pg__sink *sink, const pg__plan *plan, pg_err *err)
{
    pg__zip_out *zip = NULL;
    if (plan->n_items == 0)
        return pg_fail(err, PG_E_ARG, "no tensors");
    pg_status st = pg__zip_out_new(&zip, sink, err);
    for (size_t i = 0; st == PG_OK && i < plan->n_items; i++)
        st = add_npy(zip, sink, plan->src, plan->items[i].src, err);
    if (st == PG_OK)
        st = pg__zip_out_finish(zip, err);
    pg__zip_out_free(zip);
    return st;
}

/* ---- there and back ---- */

static void same_tensor(pg_store *a, pg_store *b, size_t i, int by_order)
{
    const pg_weight *x = pg_store_weight(a, i);
    const pg_weight *y = by_order ? pg_store_weight(b, i) : NULL;
    uint8_t want[MOST_BYTES], got[MOST_BYTES];
    size_t k = i;
    for (k = 0; !by_order && !y && k < pg_store_n_weights(b); k++)
        if (strcmp(pg_store_weight(b, k)->name, x->name) == 0)
            y = pg_store_weight(b, k);
    k = by_order ? i : k - 1;
    require(y && strcmp(x->name, y->name) == 0 && x->dtype == y->dtype && x->rank == y->rank);
    require(memcmp(x->dims, y->dims, sizeof x->dims) == 0 && x->n_bytes == y->n_bytes);
    require(pg_store_read(a, i, 0, want, x->n_bytes, NULL) == PG_OK);
    require(pg_store_read(b, k, 0, got, x->n_bytes, NULL) == PG_OK);
    require(memcmp(want, got, x->n_bytes) == 0);
}

static void same(pg_store *a, pg_store *b, const pg__plan *plan, const pg__format *f)
{
    const int layers = f == &pg__fmt_keras_h5;
    require(pg_store_n_weights(a) == pg_store_n_weights(b));
    for (size_t i = 0; i < pg_store_n_weights(a); i++)
        same_tensor(a, b, i, layers);
    require(!layers || pg_store_n_layers(a) == pg_store_n_layers(b));
    for (size_t i = 0; layers && i < pg_store_n_layers(a); i++) {
        const pg_layer *x = pg_store_layer(a, i), *y = pg_store_layer(b, i);
        require(strcmp(x->name, y->name) == 0 && x->n_weights == y->n_weights);
    }
    require(!f->verify || f->verify(b, plan, NULL) == PG_OK);
}

static void go(const pg__format *f, pg_status (*write)(pg__sink *, const pg__plan *, pg_err *),
               pg_store *s, int plain)
{
    static const pg_open_opts opts = {0};
    pg_err err = {0};
    pg__plan plan = {0};
    pg__sink *sink = NULL;
    pg__io *io = NULL;
    pg_store *back = NULL;
    require(pg__plan_copy_of(&plan, s, &err) == PG_OK);
    require(pg__sink_open_memory(&sink, &err) == PG_OK);
    pg_status st = write(sink, &plan, &err);
    if (st == PG_OK) {
        require(pg__sink_reopen(sink, &io, &err) == PG_OK);
        st = f->open(&back, io, "out", &opts, &err);
    }
    if (st == PG_OK)
        same(s, back, &plan, f);
    else
        require(!plain && err.code == st && err.msg[0] && !strchr(err.msg, '\n'));
    pg_store_close(back);
    pg__io_close(io);
    pg__sink_close(sink);
    pg__plan_fini(&plan);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const pg__format *const formats[] = {&pg__fmt_safetensors, &pg__fmt_keras_h5,
                                                &pg__fmt_keras_v3, &pg__fmt_keras_zip,
                                                &pg__fmt_numpy};
    bytes b = {.p = data, .end = data + n};
    const pg__format *f = formats[take(&b) % (sizeof formats / sizeof *formats)];
    const int paths = f == &pg__fmt_keras_v3 || f == &pg__fmt_keras_zip;
    int plain = 1;
    pg_store *s = make(&b, f == &pg__fmt_numpy ? NUMBERS : paths ? PATHS : FREE, &plain);
    if (f == &pg__fmt_keras_zip) /* needs both texts */
        plain &= pg_store_text(s, PG_TEXT_MODEL_CONFIG, NULL) &&
                 pg_store_text(s, PG_TEXT_METADATA, NULL);
    go(f, f->write ? f->write : write_npz, s, plain && pg_store_n_weights(s) > 0);
    pg_store_close(s);
    return 0;
}

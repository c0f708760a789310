/* dcp_text.h - writes .metadata of torch.distributed.checkpoint, for tests. */
#ifndef PG_TESTS_DCP_TEXT_H
#define PG_TESTS_DCP_TEXT_H

#include "base/str.h"
#include "pg_test.h"

#define DCP_META "torch.distributed.checkpoint.metadata"

/* A tensor of one dimension, in chunks of one element each, in __0_0.distcp. */
typedef struct dcp_row {
    const char *name, *path; /* path: "model/a.weight"; NULL: planner_data has no such entry */
    uint32_t n;
    const char *type; /* NULL: float32 */
} dcp_row;

static inline void dcp_put(pg__str *t, const char *bytes, size_t n)
{
    assert_ok(pg__str_add(t, bytes, n, NULL));
}

#define DCP_PUT(t, bytes) dcp_put(t, bytes, sizeof(bytes) - 1)

static inline void dcp_number(pg__str *t, uint32_t v)
{
    const char le[] = {'J', (char)v, (char)(v >> 8), (char)(v >> 16), (char)(v >> 24)};
    dcp_put(t, le, sizeof le);
}

static inline void dcp_word(pg__str *t, const char *s, size_t n)
{
    const char le[] = {'X', (char)n, (char)(n >> 8), 0, 0};
    dcp_put(t, le, sizeof le);
    dcp_put(t, s, n);
}

#define DCP_WORD(t, s) dcp_word(t, s, strlen(s))

static inline void dcp_size(pg__str *t, uint32_t v)
{
    DCP_PUT(t, "ctorch\nSize\n(");
    dcp_number(t, v);
    DCP_PUT(t, "t\x85R");
}

/* An object without its attributes, and the mark before them. */
static inline void dcp_new(pg__str *t, const char *module, const char *name)
{
    assert_ok(pg__str_printf(t, NULL, "c%s\n%s\n)\x81}(", module, name));
}

/* In `values` every value is remembered again, as in the .metadata of a large job. */
static inline void dcp_chunks(pg__str *t, uint32_t n, int remembered)
{
    DCP_PUT(t, "](");
    for (uint32_t i = 0; i < n; i++) {
        dcp_new(t, DCP_META, "ChunkStorageMetadata");
        DCP_WORD(t, "offsets");
        dcp_size(t, i);
        DCP_WORD(t, "sizes");
        dcp_size(t, 1);
        DCP_PUT(t, "ub");
        for (int k = 0; k < remembered; k++)
            DCP_PUT(t, "K\1\x94"
                       "0");
    }
    DCP_PUT(t, "e");
}

static inline void dcp_tensor(pg__str *t, const dcp_row *r, int remembered)
{
    DCP_WORD(t, r->name);
    dcp_new(t, DCP_META, "TensorStorageMetadata");
    DCP_WORD(t, "properties");
    assert_ok(pg__str_printf(t, NULL,
                             "c" DCP_META "\nTensorProperties\n)\x81(ctorch\n%s\nN\x89NNtb",
                             r->type ? r->type : "float32"));
    DCP_WORD(t, "size");
    dcp_size(t, r->n);
    DCP_WORD(t, "chunks");
    dcp_chunks(t, r->n, remembered);
    DCP_PUT(t, "ub");
}

static inline void dcp_path(pg__str *t, const char *path)
{
    DCP_PUT(t, "(");
    for (const char *at = path; *at;) {
        const size_t n = strcspn(at, "/");
        dcp_word(t, at, n);
        at += n + (at[n] == '/');
    }
    DCP_PUT(t, "t");
}

static inline void dcp_place(pg__str *t, const char *name, uint32_t offset, uint32_t at)
{
    dcp_new(t, DCP_META, "MetadataIndex");
    DCP_WORD(t, "fqn");
    DCP_WORD(t, name);
    DCP_WORD(t, "offset");
    dcp_size(t, offset);
    DCP_PUT(t, "ub");
    dcp_new(t, "torch.distributed.checkpoint.filesystem", "_StorageInfo");
    DCP_WORD(t, "relative_path");
    DCP_WORD(t, "__0_0.distcp");
    DCP_WORD(t, "offset");
    dcp_number(t, at);
    DCP_WORD(t, "length");
    dcp_number(t, 4);
    DCP_PUT(t, "ub");
}

static inline void dcp_begin(pg__str *t)
{
    DCP_PUT(t, "\x80\x04");
    dcp_new(t, DCP_META, "Metadata");
    DCP_WORD(t, "state_dict_metadata");
    DCP_PUT(t, "}(");
}

/* What follows the tensors. */
static inline void dcp_end(pg__str *t, const dcp_row *rows, size_t n)
{
    DCP_PUT(t, "u");
    DCP_WORD(t, "planner_data");
    DCP_PUT(t, "}(");
    for (size_t i = 0; i < n; i++)
        if (rows[i].path) {
            DCP_WORD(t, rows[i].name);
            dcp_path(t, rows[i].path);
        }
    DCP_PUT(t, "u");
    DCP_WORD(t, "storage_data");
    DCP_PUT(t, "}(");
    for (size_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < rows[i].n; k++)
            dcp_place(t, rows[i].name, k, 4 * k);
    DCP_PUT(t, "uub.");
}

static inline void dcp_text(pg__str *t, const dcp_row *rows, size_t n, int remembered)
{
    dcp_begin(t);
    for (size_t i = 0; i < n; i++)
        dcp_tensor(t, &rows[i], remembered);
    dcp_end(t, rows, n);
}

#endif

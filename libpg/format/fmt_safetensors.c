/* fmt_safetensors.c - reads safetensors: length of the header (8 bytes), header (JSON), data.
 *
 * As strict as the reference implementation, and also against duplicate keys: the tensors, sorted
 * by offset, must tile the data without a hole, overlap or tail, so that a file has only one
 * meaning. The header is parsed in place and never turned into a tree, because a header of 50 MB
 * would become a gigabyte. There are no layers. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/le.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/try.h"
#include "format/safetensors.h"
#include "format/st_cut.h"

#define LENGTH_BYTES 8u

static const struct {
    const char *word;
    pg_dtype dtype;
} dtypes[] = {
    {"F32", PG_F32},   {"F16", PG_F16},         {"BF16", PG_BF16},       {"F64", PG_F64},
    {"I64", PG_I64},   {"I32", PG_I32},         {"I16", PG_I16},         {"I8", PG_I8},
    {"U64", PG_U64},   {"U32", PG_U32},         {"U16", PG_U16},         {"U8", PG_U8},
    {"BOOL", PG_BOOL}, {"F8_E4M3", PG_F8_E4M3}, {"F8_E5M2", PG_F8_E5M2},
};

/* Types of the format that libpg has no name for. */
static const char *const foreign_dtypes[] = {"F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ", "F6_E2M3",
                                             "F6_E3M2", "F4",          "C64"};

typedef struct entry {
    size_t name; /* where it begins in the header's names */
    size_t i;    /* place in the header */
    pg_dtype dtype;
    uint32_t rank;
    uint64_t dims[PG_MAX_RANK];
    uint64_t begin, end;
} entry;

typedef struct header {
    char *text;
    size_t n;
    pg__str names; /* of the tensors, each with its NUL */
    entry *list;
    size_t n_list, cap_list;
    pg__json_span metadata;
} header;

const char *pg__st_dtype_word(pg_dtype dtype)
{
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (dtypes[i].dtype == dtype)
            return dtypes[i].word;
    return "?";
}

static int probe(const uint8_t *head, size_t n)
{
    int text = 1;
    if (n < LENGTH_BYTES + 1 || head[LENGTH_BYTES] != '{')
        return 0;
    for (size_t i = 0; i < LENGTH_BYTES; i++)
        text &= head[i] >= 0x20 && head[i] < 0x7F;
    return !text; /* JSON has a brace at that place, too, after a key of four letters */
}

/* --- one tensor ------------------------------------------------------------------------------ */

static int read_number(const char *text, pg__json_span s, uint64_t *out)
{
    uint64_t v = 0;
    for (size_t i = s.off; i < s.off + s.n; i++)
        if (text[i] < '0' || text[i] > '9' || __builtin_mul_overflow(v, UINT64_C(10), &v) ||
            __builtin_add_overflow(v, (uint64_t)(text[i] - '0'), &v))
            return 0;
    *out = v;
    return s.n > 0;
}

static int is_word(const char *text, pg__json_span s, const char *word)
{
    return s.n > 1 && text[s.off] == '"' && pg__json_key_is(text, s, word);
}

static pg_status read_dtype(entry *e, const char *text, pg__json_span s, const char *name,
                            pg_err *err)
{
    char shown[80];
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (is_word(text, s, dtypes[i].word)) {
            e->dtype = dtypes[i].dtype;
            return PG_OK;
        }
    for (size_t i = 0; i < sizeof foreign_dtypes / sizeof *foreign_dtypes; i++)
        if (is_word(text, s, foreign_dtypes[i]))
            return pg_fail(err, PG_E_UNSUPPORTED, "%s: type %s is not supported", PG_SHOW(name),
                           foreign_dtypes[i]);
    return pg_fail(err, PG_E_FORMAT, "%s: unknown dtype %s", PG_SHOW(name),
                   pg__printable(shown, sizeof shown, text + s.off, s.n));
}

/* A list of at most `most` numbers. */
static pg_status read_list(uint64_t *out, size_t most, size_t *n, const char *text, pg__json_span s,
                           const char *what, const char *name, pg_err *err)
{
    pg__json_walk w = pg__json_walk_of(text, s);
    *n = 0;
    if (text[s.off] != '[')
        return pg_fail(err, PG_E_FORMAT, "%s: its %s is not a list", PG_SHOW(name), what);
    while (pg__json_walk_next(&w)) {
        if (*n == most)
            return pg_fail(err, PG_E_LIMIT, "%s: its %s has more than %zu numbers", PG_SHOW(name),
                           what, most);
        if (!read_number(text, w.value, &out[(*n)++]))
            return pg_fail(err, PG_E_FORMAT, "%s: its %s holds something other than whole numbers",
                           PG_SHOW(name), what);
    }
    return PG_OK;
}

/* Type and shape must need exactly the bytes between the offsets. */
static pg_status check_size(const entry *e, const char *name, pg_err *err)
{
    uint64_t n = pg_dtype_bytes(e->dtype);
    for (uint32_t k = 0; k < e->rank; k++)
        if (__builtin_mul_overflow(n, e->dims[k], &n))
            return pg_fail(err, PG_E_LIMIT, "%s: shape is too large", PG_SHOW(name));
    if (e->begin > e->end)
        return pg_fail(err, PG_E_FORMAT, "%s: its data ends before it begins", PG_SHOW(name));
    if (n != e->end - e->begin)
        return pg_fail(err, PG_E_FORMAT, "%s: type and shape need %s bytes, its offsets hold %s",
                       PG_SHOW(name), PG_NUM(n), PG_NUM(e->end - e->begin));
    return PG_OK;
}

static pg_status read_entry(entry *e, const char *text, pg__json_span s, const char *name,
                            pg_err *err)
{
    enum { DTYPE, SHAPE, OFFSETS, N_KEYS };
    static const char *const keys[N_KEYS] = {"dtype", "shape", "data_offsets"};
    pg__json_span found[N_KEYS] = {{0}};
    uint64_t offsets[2];
    size_t n = 0;
    pg_status st = PG_OK;
    if (text[s.off] != '{')
        PG_FAIL(PG_E_FORMAT, "%s: its description is not an object", PG_SHOW(name));
    for (pg__json_walk w = pg__json_walk_of(text, s); pg__json_walk_next(&w);) {
        size_t k = 0;
        while (k < N_KEYS && !pg__json_key_is(text, w.key, keys[k]))
            k++;
        if (k == N_KEYS || found[k].n)
            PG_FAIL(PG_E_FORMAT, "%s: %s key in its description", PG_SHOW(name),
                    k == N_KEYS ? "unknown" : "repeated");
        found[k] = w.value;
    }
    for (size_t k = 0; k < N_KEYS; k++)
        if (!found[k].n)
            PG_FAIL(PG_E_FORMAT, "%s: it has no %s", PG_SHOW(name), keys[k]);
    PG_TRY(read_dtype(e, text, found[DTYPE], name, err));
    PG_TRY(read_list(e->dims, PG_MAX_RANK, &n, text, found[SHAPE], "shape", name, err));
    e->rank = (uint32_t)n;
    PG_TRY(read_list(offsets, 2, &n, text, found[OFFSETS], "data_offsets", name, err));
    if (n != 2)
        PG_FAIL(PG_E_FORMAT, "%s: data_offsets needs two numbers", PG_SHOW(name));
    e->begin = offsets[0];
    e->end = offsets[1];
    PG_TRY(check_size(e, name, err));
done:
    return st;
}

/* --- the header ------------------------------------------------------------------------------ */

/* Appends the decoded name of a key, with its NUL. */
static pg_status add_name(pg__str *names, const char *text, pg__json_span key, pg_err *err)
{
    const size_t first = names->n;
    const pg_status st = pg__json_unquote(names, text, key, err);
    if (st != PG_OK)
        return st;
    if (names->n - first > PG_LIMIT_NAME_BYTES)
        return pg_fail(err, PG_E_LIMIT, "a tensor name of %s bytes", PG_NUM(names->n - first));
    if (memchr(names->s + first, 0, names->n - first))
        return pg_fail(err, PG_E_FORMAT, "%s...: a tensor name with a zero byte",
                       PG_SHOW(names->s + first));
    return pg__str_add(names, "", 1, err);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Names, one after the other with their NULs, must differ. Parsers choose differently among equal
 * keys, so one file would have several meanings. */
static pg_status check_unique(const pg__str *names, size_t n, pg_err *err)
{
    pg_status st = PG_OK;
    const char **list = pg__mem_array(n, sizeof *list), *p = names->s;
    if (!list)
        return pg__nomem(err);
    for (size_t i = 0; i < n; i++, p += strlen(p) + 1)
        list[i] = p;
    qsort(list, n, sizeof *list, by_text);
    for (size_t i = 1; i < n; i++)
        if (strcmp(list[i - 1], list[i]) == 0)
            PG_FAIL(PG_E_FORMAT, "%s: this key occurs twice", PG_SHOW(list[i]));
done:
    pg__mem_free(list);
    return st;
}

static pg_status check_metadata(const char *text, pg__json_span s, pg_err *err)
{
    pg__str keys = {0};
    size_t n = 0;
    pg_status st = PG_OK;
    if (text[s.off] != '{')
        PG_FAIL(PG_E_FORMAT, PG_ST_METADATA ": it is not an object");
    for (pg__json_walk w = pg__json_walk_of(text, s); pg__json_walk_next(&w); n++) {
        PG_TRY(add_name(&keys, text, w.key, err));
        if (text[w.value.off] != '"')
            PG_FAIL(PG_E_FORMAT, PG_ST_METADATA ": a value is not a string");
    }
    st = check_unique(&keys, n, err);
    if (st != PG_OK)
        pg_err_prefix(err, PG_ST_METADATA);
done:
    pg__str_fini(&keys);
    return st;
}

static pg_status read_members(header *h, pg_err *err)
{
    size_t n_names = 0;
    pg_status st = PG_OK;
    pg__json_walk w = pg__json_walk_of(h->text, (pg__json_span){.off = 0, .n = h->n});
    for (; pg__json_walk_next(&w); n_names++) {
        const size_t name = h->names.n;
        PG_TRY(add_name(&h->names, h->text, w.key, err));
        if (strcmp(h->names.s + name, PG_ST_METADATA) == 0) {
            h->metadata = w.value;
            PG_TRY(check_metadata(h->text, w.value, err));
            continue;
        }
        if (pg__mem_grow(&h->list, &h->cap_list, h->n_list + 1, sizeof *h->list)) {
            st = pg__nomem(err);
            goto done;
        }
        entry *e = &h->list[h->n_list];
        *e = (entry){.name = name, .i = h->n_list};
        PG_TRY(read_entry(e, h->text, w.value, h->names.s + name, err));
        h->n_list++;
    }
    PG_TRY(check_unique(&h->names, n_names, err));
done:
    return st;
}

/* Tensors without data come before the one that begins at the same place. */
static int by_offset(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    if (x->end != y->end)
        return x->end < y->end ? -1 : 1;
    return (x->i > y->i) - (x->i < y->i);
}

static pg_status fail_truncated(uint64_t size, uint64_t want, pg_err *err)
{
    (void)pg_fail(err, PG_E_FORMAT, "truncated: holds %s of %s bytes (%u %%)", PG_NUM(size),
                  PG_NUM(want), (unsigned)((double)size * 100.0 / (double)want));
    pg_err_hint(err, "download or copy it again; the rest cannot be reconstructed");
    return PG_E_FORMAT;
}

/* Sorts the tensors by place and checks that they tile the n_data bytes of data. */
static pg_status check_tiling(header *h, uint64_t n_data, pg_err *err)
{
    uint64_t at = 0;
    if (h->n_list)
        qsort(h->list, h->n_list, sizeof *h->list, by_offset);
    for (size_t i = 0; i < h->n_list; i++) {
        const entry *e = &h->list[i];
        if (e->begin < at)
            return pg_fail(err, PG_E_FORMAT, "%s: its data overlaps that of %s",
                           PG_SHOW(h->names.s + e->name),
                           PG_SHOW(h->names.s + h->list[i - 1].name));
        if (e->begin > at)
            return pg_fail(err, PG_E_FORMAT, "%s: %s bytes before its data belong to no tensor",
                           PG_SHOW(h->names.s + e->name), PG_NUM(e->begin - at));
        at = e->end;
    }
    if (at > INT64_MAX / 2)
        return pg_fail(err, PG_E_LIMIT, "data of %s bytes", PG_NUM(at));
    if (at > n_data)
        return fail_truncated(LENGTH_BYTES + h->n + n_data, LENGTH_BYTES + h->n + at, err);
    if (at < n_data)
        return pg_fail(err, PG_E_FORMAT, "the last %s bytes belong to no tensor",
                       PG_NUM(n_data - at));
    return PG_OK;
}

/* Reads and checks everything but the data. */
static pg_status read_header(header *h, pg__io *io, pg_err *err)
{
    unsigned char length[LENGTH_BYTES];
    const uint64_t size = pg__io_size(io);
    pg_status st = PG_OK;
    PG_TRY(pg__io_read(io, 0, length, sizeof length, err));
    const uint64_t n = pg__le64(length);
    if (n > PG_LIMIT_ST_HEADER || n > PG_LIMIT_JSON_BYTES)
        PG_FAIL(PG_E_LIMIT, "header: %s bytes, at most %s are read", PG_NUM(n),
                PG_NUM(PG_LIMIT_JSON_BYTES));
    if (n > size - LENGTH_BYTES) {
        st = fail_truncated(size, LENGTH_BYTES + n, err);
        goto done;
    }
    h->n = (size_t)n;
    h->text = pg__mem_array(h->n + 1, 1);
    if (!h->text) {
        st = pg__nomem(err);
        goto done;
    }
    PG_TRY(pg__io_read(io, LENGTH_BYTES, h->text, h->n, err));
    if (h->text[0] != '{')
        PG_FAIL(PG_E_FORMAT, "header: it is not a JSON object");
    st = pg__json_check(h->text, h->n, err);
    if (st != PG_OK) {
        pg_err_prefix(err, "header");
        goto done;
    }
    PG_TRY(read_members(h, err));
    PG_TRY(check_tiling(h, size - LENGTH_BYTES - n, err));
done:
    return st;
}

static void header_fini(header *h)
{
    pg__mem_free(h->text);
    pg__str_fini(&h->names);
    pg__mem_free(h->list);
}

/* --- the store ------------------------------------------------------------------------------- */

static void close_io(void *ctx)
{
    pg__io_close(ctx);
}

/* Is it a file of torch.distributed.checkpoint, with pieces of tensors? */
static pg_status is_cut(int *is, const header *h, const char *path, pg_err *err)
{
    const pg__json_step info[] = {PG_JKEY(PG_ST_CUT), {0}};
    const char *text = h->text + h->metadata.off;
    *is = 0;
    if (!path || !h->metadata.n || !pg__json_range(text, h->metadata.n, info).n)
        return PG_OK;
    const int by_name = pg__st_cut_by_name(path);
    if (by_name < 0) {
        (void)pg_fail(err, PG_E_UNSUPPORTED,
                      "one file of a torch DCP checkpoint in safetensors, renamed: its name no "
                      "longer says whether its tensors are whole");
        pg_err_hint(err,
                    "name the files as torch did, shard-00001-model-00001-of-00001.safetensors");
        return PG_E_UNSUPPORTED;
    }
    *is = by_name;
    return PG_OK;
}

static pg_status set_metadata(pg_store *s, const header *h, pg_err *err)
{
    static const char *const writers[][2] = {{"pt", "PyTorch"}, {"tf", "TensorFlow"},
                                             {"np", "NumPy"},   {"flax", "Flax"},
                                             {"mlx", "MLX"},    {"paddle", "PaddlePaddle"}};
    const pg__json_step format[] = {PG_JKEY("format"), {0}};
    const char *text = h->text + h->metadata.off;
    if (!h->metadata.n)
        return PG_OK;
    const pg__json_span v = pg__json_range(text, h->metadata.n, format);
    pg_status st = pg__store_set_text(s, PG_TEXT_METADATA, text, h->metadata.n, err);
    for (size_t i = 0; st == PG_OK && i < sizeof writers / sizeof *writers; i++)
        if (v.n && is_word(text, v, writers[i][0]))
            st = pg__store_set_writer(s, writers[i][1], err);
    return st;
}

static pg_status open(pg_store **out, pg__io *io, const char *path, const pg_open_opts *opts,
                      pg_err *err)
{
    /* Every tensor is an extent of the file, so the store never calls read. */
    static const pg__store_io data = {.close = close_io};
    pg_status st = PG_OK;
    header h = {0};
    pg_store *s = NULL;
    int cut = 0;
    PG_TRY(read_header(&h, io, err));
    PG_TRY(is_cut(&cut, &h, path, err));
    if (cut) {
        st = pg__st_cut_open(out, path, opts->rules, err);
        goto done;
    }
    PG_TRY(pg__store_new(&s, "safetensors", &data, io, err));
    (void)pg__io_ref(io);
    for (size_t i = 0; i < h.n_list; i++) {
        const entry *e = &h.list[i];
        const pg__tensor_desc d = {.name = h.names.s + e->name,
                                   .dtype = e->dtype,
                                   .rank = e->rank,
                                   .dims = e->dims,
                                   .extent = {io, LENGTH_BYTES + h.n + e->begin}};
        PG_TRY(pg__store_add_weight(s, &d, err));
    }
    PG_TRY(set_metadata(s, &h, err));
    *out = s;
    s = NULL;
done:
    pg_store_close(s);
    header_fini(&h);
    return st;
}

const pg__format pg__fmt_safetensors = {
    .name = "safetensors",
    .probe = probe,
    .open = open,
    .write = pg__st_write,
    .verify = pg__st_verify,
    .suffixes = ".safetensors\0",
};

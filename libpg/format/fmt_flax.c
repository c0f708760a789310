/* fmt_flax.c - reads msgpack of Flax: flax.serialization.to_bytes(), flax.training.checkpoints,
 * flax_model.msgpack of the Hub. Names are paths ("params/Dense_0/kernel"). libpg does not write
 * this format.
 *
 * A tree that was saved while jax_utils.replicate() had copied it to all devices has the copies
 * along a first axis of every array. Then the first copy is the array, and every read compares it
 * with the others. */
#include <string.h>

#include "base/limits.h"
#include "base/mem.h"
#include "base/try.h"
#include "format/flax.h"
#include "format/format.h"
#include "store/part_name.h"

#define METADATA "{\"format\":\"flax\"}"
#define LOOK     4096u

typedef struct checkpoint {
    pg__flax f;
    pg__io *io;
    size_t *array;     /* by tensor of the store */
    uint64_t n_copies; /* along the first axis of every array; 1: it is none */
    pg__tile_window window;
    unsigned char *copy; /* PG_COPY_BYTES, to compare with */
} checkpoint;

static int probe(const uint8_t *head, size_t n)
{
    /* a map, and a short text for its first key */
    return n > 1 && ((head[0] > 0x80 && head[0] <= 0x8F && head[1] >= 0xA0 && head[1] <= 0xDB) ||
                     head[0] == 0xDE || head[0] == 0xDF);
}

/* ---- data ---- */

static void close_data(void *ctx)
{
    checkpoint *c = ctx;
    pg__tile_window_fini(&c->window);
    pg__flax_fini(&c->f);
    pg__io_close(c->io);
    pg__mem_free(c->array);
    pg__mem_free(c->copy);
    pg__mem_free(c);
}

typedef struct reading {
    const checkpoint *c;
    const pg__flax_array *a;
} reading;

static pg_status fetch(void *ctx, const pg__tile *tile, uint64_t off, void *buf, size_t n,
                       pg_err *err)
{
    const reading *r = ctx;
    return pg__io_read(r->c->io, r->a->off[tile->source] + off, buf, n, err);
}

static pg_status read_row(checkpoint *c, const pg__flax_array *a, uint64_t off, void *buf, size_t n,
                          pg_err *err)
{
    reading r = {c, a};
    return pg__tiles_read(&c->window, &a->row, fetch, &r, off, buf, n, err);
}

/* Bytes of one copy. */
static uint64_t bytes_of(const checkpoint *c, const pg__flax_array *a)
{
    return a->row.dims[0] * a->row.elem / c->n_copies;
}

static pg_status compare_copies(checkpoint *c, const pg__flax_array *a, uint64_t off,
                                const unsigned char *first, size_t n, pg_err *err)
{
    pg_status st = PG_OK;
    for (uint64_t i = 1; n && i < c->n_copies; i++)
        for (size_t at = 0, len; at < n; at += len) {
            len = n - at < PG_COPY_BYTES ? n - at : PG_COPY_BYTES;
            PG_TRY(read_row(c, a, i * bytes_of(c, a) + off + at, c->copy, len, err));
            if (memcmp(c->copy, first + at, len) != 0)
                PG_FAIL(PG_E_MISMATCH,
                        "%s: copies 0 and %s differ, so it is no replicated model; the part \".\" "
                        "keeps all copies",
                        PG_SHOW(a->name), PG_NUM(i));
        }
done:
    return st;
}

static pg_status read_data(void *ctx, size_t tensor, uint64_t off, void *buf, size_t n, pg_err *err)
{
    checkpoint *c = ctx;
    const pg__flax_array *a = &c->f.v[c->array[tensor]];
    const pg_status st = read_row(c, a, off, buf, n, err);
    return st == PG_OK && c->n_copies > 1 ? compare_copies(c, a, off, buf, n, err) : st;
}

static int place_data(void *ctx, size_t tensor, uint64_t *off_bytes)
{
    const checkpoint *c = ctx;
    const pg__flax_array *a = &c->f.v[c->array[tensor]];
    return pg__tiles_whole(&a->row) && c->n_copies == 1 ? pg__io_fd(c->io, a->off[0], off_bytes)
                                                        : -1;
}

/* ---- copies ---- */

/* Do all arrays have a first axis of the same length, and are the first bytes of all copies equal,
 * and not of all arrays one number over and over? Only reading all of them proves it. */
static pg_status find_copies(checkpoint *c, pg_err *err)
{
    pg_status st = PG_OK;
    unsigned char first[64];
    pg_err why = {0};
    const uint64_t n = c->f.n > 1 && c->f.v[0].rank ? c->f.v[0].dims[0] : 1;
    uint64_t elements = 0;
    int varied = 0;
    c->n_copies = 1;
    for (size_t i = 0; i < c->f.n; i++)
        elements |= c->f.v[i].row.dims[0];
    for (size_t i = 0; i < c->f.n; i++)
        if (c->f.v[i].rank == (uint32_t)c->f.v[i].is_complex || c->f.v[i].dims[0] != n)
            return PG_OK;
    if (n < 2 || !elements)
        return PG_OK;
    c->copy = pg__mem_array(PG_COPY_BYTES, 1);
    if (!c->copy)
        return pg__nomem(err);
    c->n_copies = n;
    for (size_t i = 0; st == PG_OK && i < c->f.n; i++) {
        const pg__flax_array *a = &c->f.v[i];
        const uint64_t all = bytes_of(c, a);
        const size_t len = all < sizeof first ? (size_t)all : sizeof first;
        st = read_row(c, a, 0, first, len, &why);
        if (st == PG_OK)
            st = compare_copies(c, a, 0, first, len, &why);
        varied |= len > a->row.elem && memcmp(first, first + a->row.elem, len - a->row.elem) != 0;
    }
    if (st == PG_OK && !varied) /* a scale of ones and a bias of zeros are no copies */
        c->n_copies = 1;
    if (st == PG_E_MISMATCH) {
        c->n_copies = 1;
        return PG_OK;
    }
    if (st != PG_OK && err)
        *err = why;
    return st;
}

/* ---- the store ---- */

static const char *name_of(const void *ctx, size_t i)
{
    return ((const checkpoint *)ctx)->f.v[i].name;
}

static pg_status add_tensors(pg_store *s, checkpoint *c, const char *part, pg_err *err)
{
    pg_status st = PG_OK;
    size_t n = 0;
    c->array = pg__mem_array(c->f.n, sizeof *c->array);
    if (!c->array)
        return pg__nomem(err);
    for (int pass = 1; pass <= 2; pass++)
        for (size_t i = 0; i < c->f.n; i++) {
            const pg__flax_array *a = &c->f.v[i];
            const int skip = c->n_copies > 1;
            const pg__tensor_desc d = {.name = a->name,
                                       .dtype = a->dtype,
                                       .rank = a->rank - (uint32_t)skip,
                                       .dims = a->dims + skip};
            if (pg__flax_wants(a->name, part) != pass)
                continue;
            PG_TRY(pass == 1 ? pg__store_add_weight(s, &d, err) : pg__store_add_state(s, &d, err));
            c->array[n++] = i;
        }
done:
    return st;
}

static pg_status set_texts(pg_store *s, const checkpoint *c, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str others = {0};
    size_t n_complex = 0;
    for (size_t i = 0; i < c->f.n; i++)
        n_complex += (size_t)c->f.v[i].is_complex;
    if (c->n_copies > 1)
        PG_TRY(pg__str_printf(&others, err, "%s equal copies of every array (jax_utils.replicate)",
                              PG_NUM(c->n_copies)));
    if (n_complex)
        PG_TRY(pg__str_printf(&others, err, "%s%zu array%s of complex numbers, read as pairs",
                              others.n ? ", " : "", n_complex, n_complex == 1 ? "" : "s"));
    if (c->f.values.n)
        PG_TRY(pg__str_printf(&others, err, "%s%s", others.n ? ", " : "", c->f.values.s));
    if (others.n)
        PG_TRY(pg__store_set_others(s, others.s, err));
    PG_TRY(pg__store_set_text(s, PG_TEXT_METADATA, METADATA, sizeof METADATA - 1, err));
done:
    pg__str_fini(&others);
    return st;
}

static pg_status open_checkpoint(pg_store **out, pg__io *io, const char *path,
                                 const pg_open_opts *opts, pg_err *err)
{
    static const pg__store_io data = {.read = read_data, .close = close_data, .place = place_data};
    pg_status st = PG_OK;
    unsigned char head[LOOK];
    pg_store *s = NULL;
    const char *part = NULL;
    pg__strs there = {0};
    checkpoint *c = NULL;
    const size_t n = pg__io_size(io) < LOOK ? (size_t)pg__io_size(io) : LOOK;
    (void)path;
    PG_TRY(pg__io_read(io, 0, head, n, err));
    if (!pg__flax_is(head, n))
        return pg_fail(err, PG_E_UNKNOWN, "not msgpack of Flax");
    c = pg__mem_array(1, sizeof *c);
    if (!c)
        return pg__nomem(err);
    c->io = pg__io_ref(io);
    PG_TRY(pg__flax_read(&c->f, io, pg__part_read(opts->part), err));
    PG_TRY(find_copies(c, err));
    if (opts->part && strcmp(opts->part, ".") == 0)
        c->n_copies = 1;
    PG_TRY(pg__store_new(&s, pg__fmt_flax.name, NULL, NULL, err));
    PG_TRY(pg__flax_part_of(&part, &there, opts->part, c->f.n, name_of, c, err));
    PG_TRY(add_tensors(s, c, part, err));
    if (!opts->part)
        PG_TRY(pg__flax_one_model(s, err));
    PG_TRY(set_texts(s, c, err));
    pg__store_own(s, &data, c);
    c = NULL;
    *out = s;
    s = NULL;
done:
    pg__strs_fini(&there);
    if (c)
        close_data(c);
    pg_store_close(s);
    return st;
}

const pg__format pg__fmt_flax = {
    .name = "flax-msgpack",
    .probe = probe,
    .open = open_checkpoint,
    .in_folder = pg__flax_in_folder,
    .suffixes = ".msgpack\0",
    .has_parts = 1,
    .of_ranks = 1,
};

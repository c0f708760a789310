/* fmt_orbax.c - reads checkpoints of Orbax (JAX, Flax): a tree of arrays in zarr, a folder for each
 * or all in an OCDBT database. Names are paths ("params/Dense_0/kernel"). libpg does not write this
 * format. */
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/thread.h"
#include "base/try.h"
#include "format/flax.h"
#include "format/format.h"
#include "format/orbax/orbax.h"
#include "io/folder.h"
#include "store/part_name.h"

#define METADATA  "{\"format\":\"flax\"}"

#define MOST_OPEN 512u               /* chunks: each may have a file open */
#define DONE_MOST ((size_t)16 << 20) /* of decoded chunks that have been read to their end */

/* A chunk that is being read. */
typedef struct piece {
    size_t array, number;
    uint64_t used; /* when it was read last */
    int busy;      /* a thread is reading it, and nobody else looks at the chunk */
    size_t memory; /* after it was read last */
    pg__chunk chunk;
} piece;

typedef struct checkpoint {
    int folder;
    pg__kv kv;
    pg__zarr *arrays;
    char **names; /* of the arrays: "params/Dense_0/kernel" */
    size_t n, cap;
    size_t *array;        /* by tensor of the store */
    pthread_mutex_t lock; /* of what follows */
    piece **open;         /* MOST_OPEN */
    size_t n_open;
    uint64_t n_reads;
    pg__tile_window window;
    pg__str others; /* leaves that are no arrays */
    size_t n_others;
} checkpoint;

static int probe(const uint8_t *head, size_t n)
{
    return n > 0 && head[0] == '{';
}

/* ---- data ---- */

static void drop(checkpoint *c, size_t i)
{
    pg__chunk_fini(&c->open[i]->chunk);
    pg__mem_free(c->open[i]);
    c->open[i] = c->open[--c->n_open];
}

static void close_data(void *ctx)
{
    checkpoint *c = ctx;
    pg__tile_window_fini(&c->window);
    while (c->n_open)
        drop(c, 0);
    (void)pthread_mutex_destroy(&c->lock);
    for (size_t i = 0; i < c->n; i++) {
        pg__zarr_fini(&c->arrays[i]);
        pg__mem_free(c->names[i]);
    }
    pg__mem_free(c->open);
    pg__mem_free(c->arrays);
    pg__mem_free(c->names);
    pg__mem_free(c->array);
    pg__str_fini(&c->others);
    pg__kv_fini(&c->kv);
    if (c->folder >= 0)
        close(c->folder);
    pg__mem_free(c);
}

/* The chunk that has not been read for the longest time, of those that were read to their end if
 * `done`; PG_NONE. */
static size_t oldest(const checkpoint *c, int done)
{
    size_t best = PG_NONE;
    for (size_t i = 0; i < c->n_open; i++)
        if (!c->open[i]->busy && (!done || c->open[i]->chunk.read_to_end) &&
            (best == PG_NONE || c->open[i]->used < c->open[best]->used))
            best = i;
    return best;
}

/* Makes room for another chunk: first those go that are likely not to be wanted any more. */
static void evict(checkpoint *c)
{
    size_t bytes = 0, done = 0, i;
    for (i = 0; i < c->n_open; i++) {
        const piece *p = c->open[i];
        bytes += p->memory;
        done += !p->busy && p->chunk.read_to_end ? p->memory : 0;
    }
    while ((done > DONE_MOST || c->n_open == MOST_OPEN) && (i = oldest(c, 1)) != PG_NONE) {
        done -= c->open[i]->memory;
        bytes -= c->open[i]->memory;
        drop(c, i);
    }
    while ((c->n_open == MOST_OPEN || bytes > PG_LIMIT_DECODED_BYTES) &&
           (i = oldest(c, 0)) != PG_NONE) {
        bytes -= c->open[i]->memory;
        drop(c, i);
    }
}

static pg_status open_piece(piece **out, checkpoint *c, size_t array, const pg__tile *tile,
                            pg_err *err)
{
    pg_status st = PG_OK;
    piece *p = NULL;
    evict(c);
    p = pg__mem_array(1, sizeof *p);
    if (!p)
        return pg__nomem(err);
    *p = (piece){.array = array, .number = tile->source};
    PG_TRY(pg__chunk_open(&p->chunk, &c->arrays[array], &c->kv, tile, err));
    *out = c->open[c->n_open++] = p;
    p = NULL;
done:
    pg__mem_free(p);
    return st;
}

/* The chunk, which is the caller's until give_back(). */
static pg_status take(piece **out, checkpoint *c, size_t array, const pg__tile *tile, pg_err *err)
{
    pg_status st = PG_OK;
    size_t i = 0;
    (void)pthread_mutex_lock(&c->lock);
    while (i < c->n_open && (c->open[i]->number != tile->source || c->open[i]->array != array))
        i++;
    if (i < c->n_open)
        *out = c->open[i];
    else
        st = open_piece(out, c, array, tile, err);
    if (st == PG_OK)
        (*out)->busy = 1;
    (void)pthread_mutex_unlock(&c->lock);
    return st;
}

static void give_back(checkpoint *c, piece *p)
{
    (void)pthread_mutex_lock(&c->lock);
    p->busy = 0;
    p->used = ++c->n_reads;
    p->memory = pg__chunk_memory(&p->chunk);
    (void)pthread_mutex_unlock(&c->lock);
}

typedef struct reading {
    checkpoint *c;
    size_t array;
} reading;

static pg_status fetch(void *ctx, const pg__tile *tile, uint64_t off, void *buf, size_t n,
                       pg_err *err)
{
    const reading *r = ctx;
    piece *p = NULL;
    pg_status st = take(&p, r->c, r->array, tile, err);
    if (st != PG_OK)
        return st;
    st = pg__chunk_read(&p->chunk, &r->c->arrays[r->array], tile, off, buf, n, err);
    give_back(r->c, p);
    return st;
}

static pg_status read_data(void *ctx, size_t tensor, uint64_t off, void *buf, size_t n, pg_err *err)
{
    checkpoint *c = ctx;
    reading r = {c, c->array[tensor]};
    return pg__tiles_read(&c->window, &c->arrays[r.array].tiled, fetch, &r, off, buf, n, err);
}

static pg_pieces pieces_of(const void *ctx, size_t tensor)
{
    const checkpoint *c = ctx;
    return pg__tiles_pieces(&c->arrays[c->array[tensor]].tiled);
}

/* ---- the tree ---- */

/* Joins the keys on the way to a leaf. */
static pg_status join(pg__str *out, const pg__json *keys, const char *between, pg_err *err)
{
    pg_status st = PG_OK;
    out->n = 0;
    for (size_t i = 0; i < pg__json_len(keys); i++) {
        const pg__json *key = pg__json_get(pg__json_at(keys, i), "key");
        int64_t number = 0;
        const char *text = pg__json_str(key);
        if (i)
            PG_TRY(pg__str_puts(out, between, err));
        if (text)
            PG_TRY(pg__str_puts(out, text, err));
        else if (pg__json_int(key, &number))
            PG_TRY(pg__str_printf(out, err, "%lld", (long long)number));
        else
            PG_FAIL(PG_E_FORMAT, "_METADATA: a key that is neither text nor a number");
    }
    if (out->n == 0)
        st = pg_fail(err, PG_E_FORMAT, "_METADATA: a leaf without a name");
done:
    return st;
}

/* Notes a leaf that is no array, or one that libpg cannot read and that is no weight. */
static pg_status note(checkpoint *c, const char *name, const char *what, pg_err *err)
{
    if (c->n_others++ >= 8)
        return PG_OK;
    return pg__str_printf(&c->others, err, "%s%s (%s)", c->others.n ? ", " : "", PG_SHOW(name),
                          what);
}

static pg_status add_array(checkpoint *c, pg__zarr *a, pg__str *shown, pg_err *err)
{
    size_t cap = c->cap;
    if (pg__mem_grow(&c->arrays, &c->cap, c->n + 1, sizeof *c->arrays) ||
        pg__mem_grow(&c->names, &cap, c->n + 1, sizeof *c->names))
        return pg__nomem(err);
    c->arrays[c->n] = *a;
    c->names[c->n++] = shown->s;
    *a = (pg__zarr){0};
    *shown = (pg__str){0};
    return PG_OK;
}

typedef struct tree {
    checkpoint *c;
    const char *part;
    int missing_is_fill;
} tree;

static pg_status add_leaf(const tree *t, const pg__json *leaf, pg_err *err)
{
    pg_status st = PG_OK;
    int there = 0;
    pg_err why = {0};
    pg__zarr a = {0};
    pg__str name = {0}, shown = {0};
    const pg__json *keys = pg__json_get(leaf, "key_metadata");
    const pg__json *value = pg__json_get(leaf, "value_metadata");
    const char *type = pg__json_get_str(value, "value_type");
    PG_TRY(join(&shown, keys, "/", err));
    PG_TRY(join(&name, keys, ".", err));
    if (type && strcmp(type, "string") == 0) { /* its text is in _strings.json */
        st = note(t->c, shown.s, "text", err);
        goto done;
    }
    if (pg__json_bool(pg__json_get(value, "skip_deserialize"), 0)) /* an empty container, None */
        goto done;
    st = pg__zarr_open(&a, &there, &t->c->kv, name.s, &why);
    if (st == PG_E_UNSUPPORTED && pg__flax_wants(shown.s, t->part) != 1) {
        st = note(t->c, shown.s, "not read", err);
        goto done;
    }
    if (st != PG_OK && err)
        *err = why;
    PG_TRY(st);
    if (!there)
        PG_FAIL(
            PG_E_FORMAT,
            "%s: _METADATA lists it, but it is neither in manifest.ocdbt nor a folder of its own",
            PG_SHOW(shown.s));
    a.missing_is_fill = t->missing_is_fill;
    st = add_array(t->c, &a, &shown, err);
done:
    pg__zarr_fini(&a);
    pg__str_fini(&name);
    pg__str_fini(&shown);
    return st;
}

static pg_status read_tree(checkpoint *c, const pg__json *json, const char *part, pg_err *err)
{
    pg_status st = PG_OK;
    const pg__json *equal = pg__json_get(json, "store_array_data_equal_to_fill_value");
    const tree t = {c, part, !pg__json_bool(equal, 0)};
    for (pg__json_iter it = {.obj = pg__json_get(json, "tree_metadata")}; pg__json_next(&it);)
        PG_TRY(add_leaf(&t, it.value, err));
    c->open = pg__mem_array(MOST_OPEN, sizeof *c->open);
    if (!c->open)
        st = pg__nomem(err);
done:
    return st;
}

static const char *name_of(const void *ctx, size_t i)
{
    return ((const checkpoint *)ctx)->names[i];
}

static pg_status add_tensors(pg_store *s, checkpoint *c, const char *part, pg_err *err)
{
    pg_status st = PG_OK;
    size_t n = 0;
    c->array = pg__mem_array(c->n, sizeof *c->array);
    if (!c->array)
        return pg__nomem(err);
    for (int pass = 1; pass <= 2; pass++)
        for (size_t i = 0; i < c->n; i++) {
            const pg__zarr *a = &c->arrays[i];
            const pg__tensor_desc d = {.name = c->names[i],
                                       .dtype = a->dtype,
                                       .big_endian = a->big_endian,
                                       .rank = a->tiled.rank,
                                       .dims = a->tiled.dims};
            if (pg__flax_wants(c->names[i], part) != pass)
                continue;
            PG_TRY(pass == 1 ? pg__store_add_weight(s, &d, err) : pg__store_add_state(s, &d, err));
            c->array[n++] = i;
        }
done:
    return st;
}

/* ---- */

static pg_status read_metadata(pg__json **out, pg__io *io, pg_err *err)
{
    pg_status st = PG_OK;
    const uint64_t n = pg__io_size(io);
    char *text = NULL;
    if (n > PG_LIMIT_JSON_BYTES)
        return pg_fail(err, PG_E_LIMIT, "more than %s bytes of JSON", PG_NUM(PG_LIMIT_JSON_BYTES));
    text = pg__mem_array((size_t)n, 1);
    if (!text)
        return pg__nomem(err);
    PG_TRY(pg__io_read(io, 0, text, (size_t)n, err));
    st = pg__json_parse(out, text, (size_t)n, err);
done:
    pg__mem_free(text);
    return st;
}

static pg_status open_values(checkpoint *c, const char *path, pg_err *err)
{
    pg_status st = PG_OK;
    pg_err e = {0};
    pg__io *io = NULL;
    PG_TRY(pg__io_folder_of(&c->folder, path, path, err));
    c->kv.folder = c->folder;
    const pg_status there = pg__io_open_beside(&io, c->folder, "manifest.ocdbt", &e);
    if (there == PG_OK)
        st = pg__ocdbt_read(&c->kv, c->folder, err);
    else if (there != PG_E_IO || !pg__is_absence(e.sys))
        st = pg__fail_as(err, &e);
    pg__io_close(io);
done:
    return st;
}

static pg_status open_checkpoint(pg_store **out, pg__io *io, const char *path,
                                 const pg_open_opts *opts, pg_err *err)
{
    static const pg__store_io data = {.read = read_data, .close = close_data, .pieces = pieces_of};
    pg_status st = PG_OK;
    pg_store *s = NULL;
    const char *part = NULL;
    pg__strs there = {0};
    pg__json *json = NULL;
    checkpoint *c = NULL;
    if (!path || strcmp(pg__base_name(path), "_METADATA") != 0)
        return pg_fail(err, PG_E_UNKNOWN, "not the metadata of an Orbax checkpoint");
    PG_TRY(read_metadata(&json, io, err));
    if (pg__json_type_of(pg__json_get(json, "tree_metadata")) != PG_J_OBJECT)
        PG_FAIL(PG_E_UNKNOWN, "not the metadata of an Orbax checkpoint");
    c = pg__mem_array(1, sizeof *c);
    if (!c)
        PG_TRY(pg__nomem(err));
    c->folder = -1;
    c->window.n_threads = pg__threads(opts->n_threads);
    (void)pthread_mutex_init(&c->lock, NULL);
    PG_TRY(open_values(c, path, err));
    PG_TRY(read_tree(c, json, pg__part_read(opts->part), err));
    PG_TRY(pg__store_new(&s, pg__fmt_orbax.name, NULL, NULL, err));
    PG_TRY(pg__flax_part_of(&part, &there, opts->part, c->n, name_of, c, err));
    PG_TRY(add_tensors(s, c, part, err));
    if (!opts->part)
        PG_TRY(pg__flax_one_model(s, err));
    if (c->others.n)
        PG_TRY(pg__store_set_others(s, c->others.s, err));
    PG_TRY(pg__store_set_text(s, PG_TEXT_METADATA, METADATA, sizeof METADATA - 1, err));
    pg__store_own(s, &data, c);
    c = NULL;
    *out = s;
    s = NULL;
done:
    pg__strs_fini(&there);
    pg__json_free(json);
    if (c)
        close_data(c);
    pg_store_close(s);
    return st;
}

const pg__format pg__fmt_orbax = {
    .name = "orbax",
    .probe = probe,
    .open = open_checkpoint,
    .in_folder = pg__orbax_in_folder,
    .of_path = pg__orbax_of_path,
    .has_parts = 1,
    .of_ranks = 1,
};

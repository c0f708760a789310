/* fmt_dcp.c - reads folders of torch.distributed.checkpoint (FSDP, tensor parallel, torchtitan,
 * Lightning, Accelerate). Each chunk is one file of torch.save() inside of a .distcp, which the
 * reader of PyTorch's files opens; tiles.h puts chunks together. libpg does not write this
 * format. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/mem.h"
#include "base/try.h"
#include "format/dcp.h"
#include "format/format.h"
#include "format/shards.h"

#define METADATA  "{\"format\":\"pt\"}"
#define MOST_OPEN 256u /* files, and chunks, that are open at a time */

/* A file that items are in. */
typedef struct file {
    const char *name;
    uint32_t n_name;
    pg__io *io; /* NULL: opened when it is needed */
    uint64_t size;
} file;

typedef struct checkpoint {
    pg__dcp d;
    size_t *tensor; /* by tensor of the store: of d */
    file *files;
    size_t n_files;
    size_t *file_of; /* by item */
    int folder;
    pg_store **open;              /* by item: its chunk, if it is open */
    size_t ring[MOST_OPEN], next; /* 1 + the items that are open */
    pg__tile_window window;
} checkpoint;

static int probe(const uint8_t *head, size_t n)
{
    return n > 2 && head[0] == 0x80 && head[1] >= 2 && head[1] <= 5;
}

/* ---- files ---- */

static int by_file(const void *a, const void *b)
{
    const file *x = a, *y = b;
    const int c = memcmp(x->name, y->name, x->n_name < y->n_name ? x->n_name : y->n_name);
    return c ? c : (x->n_name > y->n_name) - (x->n_name < y->n_name);
}

static pg_status open_file(pg__io **out, const checkpoint *c, const file *f, pg_err *err)
{
    char *name = pg__mem_strndup(f->name, f->n_name);
    if (!name)
        return pg__nomem(err);
    const pg_status st = pg__io_open_below(out, c->folder, name, err);
    pg__mem_free(name);
    return st;
}

static pg_status list_files(checkpoint *c, pg_err *err)
{
    const pg__dcp *d = &c->d;
    c->files = pg__mem_array(d->n_items, sizeof *c->files);
    c->file_of = pg__mem_array(d->n_items, sizeof *c->file_of);
    c->open = pg__mem_array(d->n_items, sizeof(pg_store *));
    if (!c->files || !c->file_of || !c->open)
        return pg__nomem(err);
    for (size_t i = 0; i < d->n_items; i++)
        c->files[i] = (file){.name = d->items[i].file, .n_name = d->items[i].n_file};
    if (d->n_items)
        qsort(c->files, d->n_items, sizeof *c->files, by_file);
    for (size_t i = 0; i < d->n_items; i++)
        if (i == 0 || by_file(&c->files[c->n_files - 1], &c->files[i]) != 0)
            c->files[c->n_files++] = c->files[i];
    for (size_t i = 0; i < d->n_items; i++) {
        const file key = {.name = d->items[i].file, .n_name = d->items[i].n_file};
        const file *f = bsearch(&key, c->files, c->n_files, sizeof key, by_file);
        c->file_of[i] = (size_t)(f - c->files);
    }
    return PG_OK;
}

/* Opens all files once; one error reports what is missing. */
static pg_status open_files(checkpoint *c, const char *path, pg_err *err)
{
    pg_status st = PG_OK;
    pg__shard_faults faults = {0};
    char shown[160];
    PG_TRY(pg__io_folder_of(&c->folder, path, path, err));
    for (size_t i = 0; i < c->n_files; i++) {
        pg_err e = {0};
        file *f = &c->files[i];
        pg__io *io = NULL;
        st = open_file(&io, c, f, &e);
        const char *name = pg__printable(shown, sizeof shown, f->name, f->n_name);
        if (st == PG_E_IO && e.sys == ENOENT)
            st = pg__strs_printf(&faults.missing, err, "%s", name);
        else if (st != PG_OK)
            st = pg__strs_printf(&faults.damaged, err, "%s (%s)", name, e.msg);
        PG_TRY(st);
        f->size = io ? pg__io_size(io) : 0;
        f->io = i < MOST_OPEN ? io : NULL;
        if (!f->io)
            pg__io_close(io);
    }
    st = pg__shard_faults_report(&faults, c->n_files, 1, err);
done:
    pg__shard_faults_fini(&faults);
    return st;
}

static pg_status check_places(const checkpoint *c, pg_err *err)
{
    char shown[160];
    for (size_t i = 0; i < c->d.n; i++) {
        const pg__tiled *t = &c->d.v[i].tiled;
        for (size_t k = 0; k < t->n; k++) {
            const pg__dcp_item *x = &c->d.items[t->v[k].source];
            const file *f = &c->files[c->file_of[t->v[k].source]];
            if (x->off > f->size || x->n > f->size - x->off)
                return pg_fail(
                    err, PG_E_FORMAT, "%s: %s is truncated: %s bytes, .metadata needs %s",
                    PG_SHOW(t->name), pg__printable(shown, sizeof shown, f->name, f->n_name),
                    PG_NUM(f->size), PG_NUM(x->off + x->n));
        }
    }
    return PG_OK;
}

/* ---- chunks ---- */

/* The chunk must be what .metadata promises. */
static pg_status check_chunk(const pg_store *s, const pg__dcp_tensor *t, const pg__tile *tile,
                             pg_err *err)
{
    const pg_weight *w = pg_store_weight(s, 0);
    if (pg_store_n_weights(s) != 1 || w->dtype != t->dtype || w->rank != t->tiled.rank ||
        memcmp(w->dims, tile->size, w->rank * sizeof *w->dims) != 0)
        return pg_fail(err, PG_E_FORMAT,
                       "%s: a chunk has another type or shape than .metadata says",
                       PG_SHOW(t->name));
    return PG_OK;
}

static pg_status load_chunk(pg_store **out, checkpoint *c, const pg__dcp_tensor *t,
                            const pg__tile *tile, pg_err *err)
{
    static const pg_open_opts whole = {.part = "."};
    pg_status st = PG_OK;
    pg__io *io = NULL, *window = NULL;
    pg_store *s = NULL;
    const pg__dcp_item *x = &c->d.items[tile->source];
    const file *f = &c->files[c->file_of[tile->source]];
    if (x->compressed)
        PG_FAIL(PG_E_UNSUPPORTED, "%s: compressed chunks (a DCP extension) are not read",
                PG_SHOW(t->name));
    if (f->io)
        io = pg__io_ref(f->io);
    else
        PG_TRY(open_file(&io, c, f, err));
    PG_TRY(pg__io_open_window(&window, io, x->off, x->n, err));
    st = pg__fmt_pytorch.open(&s, window, NULL, &whole, err);
    if (st != PG_OK) {
        pg_err_prefix(err, PG_SHOW(t->name));
        goto done;
    }
    PG_TRY(check_chunk(s, t, tile, err));
    *out = s;
    s = NULL;
done:
    pg_store_close(s);
    pg__io_close(window);
    pg__io_close(io);
    return st;
}

typedef struct reading {
    checkpoint *c;
    const pg__dcp_tensor *t;
} reading;

static pg_status fetch(void *ctx, const pg__tile *tile, uint64_t off, void *buf, size_t n,
                       pg_err *err)
{
    const reading *r = ctx;
    checkpoint *c = r->c;
    pg_store **s = &c->open[tile->source];
    if (!*s) {
        const pg_status st = load_chunk(s, c, r->t, tile, err);
        if (st != PG_OK)
            return st;
        size_t *oldest = &c->ring[c->next++ % MOST_OPEN];
        if (*oldest) {
            pg_store_close(c->open[*oldest - 1]);
            c->open[*oldest - 1] = NULL;
        }
        *oldest = tile->source + 1;
    }
    return pg__store_read_raw(*s, 0, off, buf, n, err);
}

static pg_status read_data(void *ctx, size_t tensor, uint64_t off, void *buf, size_t n, pg_err *err)
{
    checkpoint *c = ctx;
    reading r = {c, &c->d.v[c->tensor[tensor]]};
    return pg__tiles_read(&c->window, &r.t->tiled, fetch, &r, off, buf, n, err);
}

static void close_data(void *ctx)
{
    checkpoint *c = ctx;
    pg__tile_window_fini(&c->window);
    for (size_t i = 0; c->open && i < c->d.n_items; i++)
        pg_store_close(c->open[i]);
    for (size_t i = 0; i < c->n_files; i++)
        pg__io_close(c->files[i].io);
    if (c->folder >= 0)
        close(c->folder);
    pg__mem_free(c->open);
    pg__mem_free(c->files);
    pg__mem_free(c->file_of);
    pg__mem_free(c->tensor);
    pg__dcp_fini(&c->d);
    pg__mem_free(c);
}

static pg_pieces pieces_of(const void *ctx, size_t tensor)
{
    const checkpoint *c = ctx;
    return pg__tiles_pieces(&c->d.v[c->tensor[tensor]].tiled);
}

/* ---- the store ---- */

static pg_status add(pg_store *s, const pg__dcp_tensor *t, const char *name, int is_state,
                     pg_err *err)
{
    const pg__tensor_desc d = {
        .name = name, .dtype = t->dtype, .rank = t->tiled.rank, .dims = t->tiled.dims};
    if (!t->known)
        return pg_fail(err, PG_E_UNSUPPORTED, "%s: a type that is not supported", PG_SHOW(name));
    return is_state ? pg__store_add_state(s, &d, err) : pg__store_add_weight(s, &d, err);
}

static pg_status add_tensors(pg_store *s, checkpoint *c, const char *part, pg_err *err)
{
    pg_status st = PG_OK;
    pg__dcp_part p = {0};
    PG_TRY(pg__dcp_part_of(&p, &c->d, part, err));
    c->tensor = pg__mem_array(p.n + p.n_state, sizeof *c->tensor);
    if (!c->tensor)
        PG_TRY(pg__nomem(err));
    for (size_t i = 0; i < p.n; i++) {
        c->tensor[i] = p.tensor[i];
        PG_TRY(add(s, &c->d.v[p.tensor[i]], p.names.v[i], 0, err));
    }
    for (size_t i = 0; i < p.n_state; i++) {
        c->tensor[p.n + i] = p.state[i];
        PG_TRY(add(s, &c->d.v[p.state[i]], c->d.v[p.state[i]].name, 1, err));
    }
    if (p.others.n)
        PG_TRY(pg__store_set_others(s, p.others.s, err));
    PG_TRY(pg__store_set_text(s, PG_TEXT_METADATA, METADATA, sizeof METADATA - 1, err));
done:
    pg__dcp_part_fini(&p);
    return st;
}

/* "__3_0.distcp" is one of rank 3. Names are sorted, so those of a rank follow each other. */
static pg_status set_ranks(pg_store *s, const checkpoint *c, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str text = {0};
    const char *last = "";
    size_t n = 0, n_last = 0;
    for (size_t i = 0; i < c->n_files; i++) {
        const file *f = &c->files[i];
        size_t n_rank = f->n_name;
        while (n_rank && f->name[n_rank - 1] != '_')
            n_rank--;
        if (n_rank < 4 || memcmp(f->name, "__", 2) != 0)
            return PG_OK;
        n += n_rank != n_last || memcmp(f->name, last, n_rank) != 0;
        last = f->name;
        n_last = n_rank;
    }
    if (n)
        PG_TRY(pg__str_printf(&text, err, "saved by %zu rank%s", n, n == 1 ? "" : "s"));
    if (n)
        PG_TRY(pg__store_set_ranks(s, text.s, err));
done:
    pg__str_fini(&text);
    return st;
}

static pg_status open_checkpoint(pg_store **out, pg__io *io, const char *path,
                                 const pg_open_opts *opts, pg_err *err)
{
    static const pg__store_io data = {.read = read_data, .close = close_data, .pieces = pieces_of};
    pg_status st = PG_OK;
    pg_store *s = NULL;
    checkpoint *c = NULL;
    if (!path || !pg__dcp_is_metadata(io))
        return pg_fail(err, PG_E_UNKNOWN, "not the metadata of torch.distributed.checkpoint");
    c = pg__mem_array(1, sizeof *c);
    if (!c)
        return pg__nomem(err);
    c->folder = -1;
    PG_TRY(pg__dcp_read(&c->d, io, err));
    PG_TRY(list_files(c, err));
    PG_TRY(open_files(c, path, err));
    PG_TRY(check_places(c, err));
    PG_TRY(pg__store_new(&s, pg__fmt_dcp.name, NULL, NULL, err));
    PG_TRY(add_tensors(s, c, opts->part, err));
    PG_TRY(set_ranks(s, c, err));
    pg__store_own(s, &data, c);
    c = NULL;
    *out = s;
    s = NULL;
done:
    if (c)
        close_data(c);
    pg_store_close(s);
    return st;
}

const pg__format pg__fmt_dcp = {
    .name = "torch-dcp",
    .probe = probe,
    .open = open_checkpoint,
    .has_parts = 1,
    .of_ranks = 1,
};

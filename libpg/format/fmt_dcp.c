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
#include "io/zstd.h"

#define METADATA  "{\"format\":\"pt\"}"
#define MOST_OPEN 256u /* files, and chunks, that are open at a time */

/* What torch.save() adds to the bytes of one tensor, at most. */
#define AROUND_TENSOR 65536u

/* A chunk that is open. */
typedef struct chunk {
    pg_store *s;
    unsigned char *decoded; /* the file of torch.save() that was compressed; NULL: it was not */
    size_t n;
} chunk;

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
    chunk *open;                  /* by item */
    size_t ring[MOST_OPEN], next; /* the items that are open, in a circle */
    size_t oldest, n_decoded;     /* of the circle; bytes of all that are open */
    pg__dcp_core core;
    pg__str note; /* what is still stacked */
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
    c->open = pg__mem_array(d->n_items, sizeof *c->open);
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
static pg_status check_chunk(const pg_store *s, const pg__tile *tile, const pg__dcp_tensor *t,
                             pg_err *err)
{
    const pg_weight *w = pg_store_weight(s, 0);
    const uint32_t lead = t->lead;
    int same =
        pg_store_n_weights(s) == 1 && w->dtype == t->dtype && w->rank == lead + t->tiled.rank;
    for (uint32_t k = 0; same && k < lead; k++)
        same = w->dims[k] == 1;
    if (!same || memcmp(w->dims + lead, tile->size, t->tiled.rank * sizeof *w->dims) != 0)
        return pg_fail(err, PG_E_FORMAT, "a chunk has another type or shape than .metadata says");
    return PG_OK;
}

static void close_chunk(checkpoint *c, chunk *x)
{
    pg_store_close(x->s);
    pg__mem_free(x->decoded);
    c->n_decoded -= x->n;
    *x = (chunk){0};
}

/* The bytes of an item, out of its frame. */
static pg_status decode(pg__io **out, chunk *x, pg__io *window, const pg__dcp_tensor *t,
                        const pg__tile *tile, pg_err *err)
{
    pg_status st = PG_OK;
    uint64_t most = t->tiled.elem;
    const size_t n = (size_t)pg__io_size(window);
    unsigned char *frame = NULL;
    for (uint32_t k = 0; k < t->tiled.rank; k++)
        most *= tile->size[k]; /* of a tensor whose size was checked */
    most += AROUND_TENSOR;
    if (most > PG_LIMIT_CHUNK_BYTES || n > PG_LIMIT_CHUNK_BYTES)
        PG_FAIL(PG_E_LIMIT, "a compressed chunk of %s bytes, at most %s are decoded", PG_NUM(most),
                PG_NUM(PG_LIMIT_CHUNK_BYTES));
    frame = pg__mem_array(n, 1);
    if (!frame)
        PG_TRY(pg__nomem(err));
    PG_TRY(pg__io_read(window, 0, frame, n, err));
    PG_TRY(pg__zstd_load(&x->decoded, &x->n, frame, n, (size_t)most, err));
    st = pg__io_open_mem(out, x->decoded, x->n, err);
done:
    pg__mem_free(frame);
    return st;
}

static pg_status load_chunk(chunk *x, checkpoint *c, const pg__dcp_tensor *t, const pg__tile *tile,
                            pg_err *err)
{
    static const pg_open_opts whole = {.part = "."};
    pg_status st = PG_OK;
    pg__io *io = NULL, *window = NULL, *plain = NULL;
    const pg__dcp_item *item = &c->d.items[tile->source];
    const file *f = &c->files[c->file_of[tile->source]];
    if (item->foreign)
        PG_FAIL(PG_E_UNSUPPORTED, "its chunks were changed by an extension of the writer");
    if (f->io)
        io = pg__io_ref(f->io);
    else
        PG_TRY(open_file(&io, c, f, err));
    PG_TRY(pg__io_open_window(&window, io, item->off, item->n, err));
    if (item->zstd)
        PG_TRY(decode(&plain, x, window, t, tile, err));
    c->n_decoded += x->n;
    PG_TRY(pg__fmt_pytorch.open(&x->s, plain ? plain : window, NULL, &whole, err));
    st = check_chunk(x->s, tile, t, err);
done:
    if (st != PG_OK)
        close_chunk(c, x);
    pg__io_close(plain);
    pg__io_close(window);
    pg__io_close(io);
    return st;
}

/* Closes the oldest chunks until there is room for one more. */
static void make_room(checkpoint *c)
{
    while (c->next - c->oldest >= MOST_OPEN ||
           (c->next > c->oldest && c->n_decoded > PG_LIMIT_DECODED_BYTES))
        close_chunk(c, &c->open[c->ring[c->oldest++ % MOST_OPEN]]);
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
    chunk *x = &c->open[tile->source];
    if (!x->s) {
        make_room(c);
        const pg_status st = load_chunk(x, c, r->t, tile, err);
        if (st != PG_OK) {
            pg_err_prefix(err, PG_SHOW(r->t->name));
            return st;
        }
        c->ring[c->next++ % MOST_OPEN] = tile->source;
    }
    return pg__store_read_raw(x->s, 0, off, buf, n, err);
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
    while (c->open && c->oldest < c->next)
        close_chunk(c, &c->open[c->ring[c->oldest++ % MOST_OPEN]]);
    for (size_t i = 0; i < c->n_files; i++)
        pg__io_close(c->files[i].io);
    if (c->folder >= 0)
        close(c->folder);
    pg__mem_free(c->open);
    pg__mem_free(c->files);
    pg__mem_free(c->file_of);
    pg__mem_free(c->tensor);
    pg__str_fini(&c->note);
    pg__dcp_fini(&c->d);
    pg__mem_free(c);
}

static pg_pieces pieces_of(const void *ctx, size_t tensor)
{
    const checkpoint *c = ctx;
    return pg__tiles_pieces(&c->d.v[c->tensor[tensor]].tiled);
}

/* ---- the store ---- */

/* What is beside the model: objects, and tensors of training of types that libpg has no name
 * for. */
static pg_status set_others(pg_store *s, const checkpoint *c, const pg__dcp_part *p,
                            size_t n_strange, const char *strange, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str text = {0};
    if (p->others.n)
        PG_TRY(pg__str_puts(&text, p->others.s, err));
    if (n_strange)
        PG_TRY(pg__str_printf(&text, err, "%s%zu tensor%s of a type that is not supported (%s%s)",
                              text.n ? ", " : "", n_strange, n_strange == 1 ? "" : "s",
                              PG_SHOW(strange), n_strange > 1 ? ", ..." : ""));
    if (c->note.n)
        PG_TRY(pg__str_printf(&text, err, "%s%s", text.n ? "; " : "", c->note.s));
    if (text.n)
        PG_TRY(pg__store_set_others(s, text.s, err));
    if (c->core.is_core)
        PG_TRY(pg__store_set_writer(s, "Megatron-Core, torch_dist", err));
done:
    pg__str_fini(&text);
    return st;
}

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
    size_t n_strange = 0;
    const char *strange = "";
    PG_TRY(pg__dcp_part_of(&p, &c->d, part, err));
    c->tensor = pg__mem_array(p.n + p.n_state, sizeof *c->tensor);
    if (!c->tensor)
        PG_TRY(pg__nomem(err));
    for (size_t i = 0; i < p.n; i++) {
        c->tensor[i] = p.tensor[i];
        PG_TRY(add(s, &c->d.v[p.tensor[i]], p.names.v[i], 0, err));
    }
    for (size_t i = 0; i < p.n_state; i++) {
        const pg__dcp_tensor *t = &c->d.v[p.state[i]];
        if (!t->known) {
            strange = n_strange++ ? strange : t->name;
            continue;
        }
        c->tensor[p.n + i - n_strange] = p.state[i];
        PG_TRY(add(s, t, t->name, 1, err));
    }
    PG_TRY(set_others(s, c, &p, n_strange, strange, err));
    PG_TRY(pg__store_set_text(s, PG_TEXT_METADATA, METADATA, sizeof METADATA - 1, err));
done:
    pg__dcp_part_fini(&p);
    return st;
}

/* "__3_0.distcp" is one of rank 3. Names are sorted, so those of a rank follow each other. */
static pg_status set_ranks(pg_store *s, const checkpoint *c, pg_err *err)
{
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
    return n ? pg__store_set_n_ranks(s, n, err) : PG_OK;
}

static pg_status open_checkpoint(pg_store **out, pg__io *io, const char *path,
                                 const pg_open_opts *opts, pg_err *err)
{
    static const pg__store_io data = {.read = read_data, .close = close_data, .pieces = pieces_of};
    pg_status st = PG_OK;
    pg_store *s = NULL;
    checkpoint *c = NULL;
    int is = 0;
    if (path)
        PG_TRY(pg__dcp_is_metadata(&is, io, err));
    if (!is)
        return pg_fail(err, PG_E_UNKNOWN, "not the metadata of torch.distributed.checkpoint");
    c = pg__mem_array(1, sizeof *c);
    if (!c)
        return pg__nomem(err);
    c->folder = -1;
    PG_TRY(pg__dcp_read(&c->d, io, err));
    PG_TRY(pg__dcp_core_of(&c->core, path, opts->rules, err));
    PG_TRY(pg__dcp_unstack(&c->d, &c->core, &c->note, err));
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
    .in_folder = pg__dcp_in_folder,
    .of_path = pg__dcp_of_path,
    .has_parts = 1,
    .has_rules = 1,
    .of_ranks = 1,
};

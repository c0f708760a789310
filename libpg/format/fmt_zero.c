/* fmt_zero.c - reads checkpoints of DeepSpeed's ZeRO, stages 1 to 3: the float32 weights, which
 * zero_to_fp32.py would put together with twice the model in memory; the part "module" is the
 * weights as they were trained, "optimizer" its averages. libpg does not write this format. */
#include <fnmatch.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/try.h"
#include "format/format.h"
#include "format/zero.h"

#define ROUND_FLOAT 16384u /* that are rounded at a time */

typedef struct checkpoint {
    pg__zero_job job;
    pg__zero_whole whole;
    pg__tile_window window;
    float *floats; /* before they are rounded */
} checkpoint;

static int probe(const uint8_t *head, size_t n)
{
    return n >= 4 && memcmp(head, "PK\3\4", 4) == 0;
}

static void close_data(void *ctx)
{
    checkpoint *c = ctx;
    pg__tile_window_fini(&c->window);
    pg__zero_whole_fini(&c->whole);
    pg__zero_job_fini(&c->job);
    pg__mem_free(c->floats);
    pg__mem_free(c);
}

/* ---- data ---- */

static const pg__zero_tensor *tensor_of(const checkpoint *c, const pg__zero_merged *m)
{
    return &c->whole.cuts[m->slice].v[m->tensor];
}

static pg_status fetch(void *ctx, const pg__tile *tile, uint64_t off, void *buf, size_t n,
                       pg_err *err)
{
    const checkpoint *c = ctx;
    const pg__zero_piece *p = &c->whole.pieces[tile->source];
    const pg__zero_cut *cut = &c->whole.cuts[p->slice];
    const pg__tiled *row = &cut->v[p->tensor].row;
    return pg__zero_row_read(cut, row, p->first * row->elem + off, buf, n, err);
}

/* In the type in which it is stored. */
static pg_status read_stored(checkpoint *c, const pg__zero_merged *m, uint64_t off, void *buf,
                             size_t n, pg_err *err)
{
    if (m->box.n)
        return pg__tiles_read(&c->window, &m->box, fetch, c, off, buf, n, err);
    return pg__zero_row_read(&c->whole.cuts[m->slice], &tensor_of(c, m)->row, off, buf, n, err);
}

/* n bytes of 16-bit numbers, which may begin and end within one. */
static pg_status read_rounded(checkpoint *c, const pg__zero_merged *m, uint64_t off,
                              unsigned char *buf, size_t n, pg_err *err)
{
    pg_status st = PG_OK;
    uint16_t small[ROUND_FLOAT];
    if (!c->floats)
        c->floats = pg__mem_array(ROUND_FLOAT, sizeof *c->floats);
    if (!c->floats)
        return pg__nomem(err);
    while (n) {
        const size_t within = off % sizeof *small;
        size_t k = (within + n + sizeof *small - 1) / sizeof *small;
        k = k < ROUND_FLOAT ? k : ROUND_FLOAT;
        const size_t have = k * sizeof *small - within < n ? k * sizeof *small - within : n;
        PG_TRY(read_stored(c, m, off / sizeof *small * sizeof *c->floats, c->floats,
                           k * sizeof *c->floats, err));
        pg__zero_round(small, c->floats, k, tensor_of(c, m)->dtype);
        memcpy(buf, (unsigned char *)small + within, have);
        buf += have;
        off += have;
        n -= have;
    }
done:
    return st;
}

static pg_status read_data(void *ctx, size_t tensor, uint64_t off, void *buf, size_t n, pg_err *err)
{
    checkpoint *c = ctx;
    const pg__zero_merged *m = &c->whole.v[tensor];
    const pg__zero_tensor *t = tensor_of(c, m);
    return t->row.elem == pg_dtype_bytes(t->dtype) ? read_stored(c, m, off, buf, n, err)
                                                   : read_rounded(c, m, off, buf, n, err);
}

static pg_pieces pieces_of(const void *ctx, size_t tensor)
{
    const checkpoint *c = ctx;
    const pg__zero_merged *m = &c->whole.v[tensor];
    const uint64_t n_row = pg__tiles_pieces(&tensor_of(c, m)->row).n;
    return m->box.n ? pg__tiles_pieces(&m->box) : (pg_pieces){.n = n_row};
}

/* ---- the store ---- */

/* In the output both names have the values; "tied" tells that they are one. */
static pg_status set_metadata(pg_store *s, const pg__zero *z, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str tied = {0}, text = {0};
    for (size_t i = 0; i < z->n_ties; i++)
        PG_TRY(pg__str_printf(&tied, err, "%s%s=%s", i ? "," : "", z->ties[i].name, z->ties[i].of));
    PG_TRY(pg__str_puts(&text, "{\"format\":\"pt\"", err));
    if (tied.n) {
        PG_TRY(pg__str_puts(&text, ",\"tied\":", err));
        PG_TRY(pg__json_quote(&text, tied.s, tied.n, err));
    }
    PG_TRY(pg__str_puts(&text, "}", err));
    PG_TRY(pg__store_set_text(s, PG_TEXT_METADATA, text.s, text.n, err));
done:
    pg__str_fini(&tied);
    pg__str_fini(&text);
    return st;
}

static pg_status set_ranks(pg_store *s, const pg__zero_job *job, pg_err *err)
{
    pg_status st = PG_OK;
    const pg__zero *z = &job->slices[0];
    const uint64_t n = z->n_ranks * (uint64_t)job->n_slices;
    pg__str text = {0};
    if (!z->universal) {
        PG_TRY(pg__str_printf(&text, err, "saved by %s rank%s, ZeRO stage %d", PG_NUM(n),
                              n == 1 ? "" : "s", z->stage));
        PG_TRY(pg__store_set_ranks(s, text.s, err));
        pg__store_add_rank_count(s, "ranks", n);
        pg__store_add_rank_count(s, "data_parallel", z->n_ranks);
        pg__store_add_rank_count(s, job->pipeline ? "pipeline_parallel" : "tensor_parallel",
                                 job->n_slices);
        pg__store_add_rank_count(s, "zero_stage", (uint64_t)z->stage);
    }
done:
    pg__str_fini(&text);
    return st;
}

static pg_status describe(pg_store *s, const pg__zero_job *job, pg_err *err)
{
    pg_status st = PG_OK;
    const pg__zero *z = &job->slices[0];
    pg__str text = {0};
    PG_TRY(pg__str_puts(&text, job->what == PG_ZERO_STATE ? "the weights" : "the optimizer", err));
    if (z->universal)
        PG_TRY(pg__str_puts(&text, " of a universal checkpoint", err));
    if (job->n_slices > 1)
        PG_TRY(pg__str_printf(&text, err, ", %zu %s", job->n_slices,
                              job->pipeline ? "stages of a pipeline" : "slices of each"));
    if (job->n_experts)
        PG_TRY(pg__str_printf(&text, err, ", %zu files of experts", job->n_experts));
    if (z->n_ties)
        PG_TRY(pg__str_printf(&text, err, ", tied: %s = %s%s", PG_SHOW(z->ties[0].name),
                              PG_SHOW(z->ties[0].of), z->n_ties > 1 ? ", ..." : ""));
    PG_TRY(pg__store_set_others(s, text.s, err));
done:
    pg__str_fini(&text);
    return st;
}

static pg_status add_parts(pg_store *s, pg_err *err)
{
    static const pg_part parts[] = {{.path = "model", .kind = "model", .is_model = 1},
                                    {.path = "module", .kind = "model"},
                                    {.path = "optimizer", .kind = "optimizer"}};
    pg_status st = PG_OK;
    for (size_t i = 0; st == PG_OK && i < sizeof parts / sizeof *parts; i++)
        st = pg__store_add_part(s, &parts[i], err);
    return st;
}

static pg_status fill(pg_store *s, const checkpoint *c, pg_err *err)
{
    pg_status st = PG_OK;
    for (size_t i = 0; i < c->whole.n; i++) {
        const pg__zero_merged *m = &c->whole.v[i];
        const pg__zero_tensor *t = tensor_of(c, m);
        const pg__tensor_desc d = {
            .name = t->name, .dtype = t->dtype, .rank = m->rank, .dims = m->dims};
        PG_TRY(pg__store_add_weight(s, &d, err));
    }
    PG_TRY(set_metadata(s, &c->job.slices[0], err));
    PG_TRY(set_ranks(s, &c->job, err));
    if (c->job.slices[0].writer)
        PG_TRY(pg__store_set_writer(s, c->job.slices[0].writer, err));
    PG_TRY(describe(s, &c->job, err));
    PG_TRY(add_parts(s, err));
done:
    return st;
}

static pg_status what_of(pg__zero_what *out, const char *part, pg_err *err)
{
    static const struct {
        const char *part;
        pg__zero_what what;
    } parts[] = {{"model", PG_ZERO_MASTER},
                 {"module", PG_ZERO_TRAINED},
                 {"optimizer", PG_ZERO_STATE},
                 {".", PG_ZERO_ALL},
                 {"", PG_ZERO_NONE}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!part || strcmp(part, parts[i].part) == 0) {
            *out = parts[i].what;
            return PG_OK;
        }
    return pg_fail(err, PG_E_ARG,
                   "no part \"%s\": a ZeRO checkpoint has model (float32), module (as trained) and "
                   "optimizer",
                   PG_SHOW(part));
}

static pg_status open_checkpoint(pg_store **out, pg__io *io, const char *path,
                                 const pg_open_opts *opts, pg_err *err)
{
    static const pg__store_io data = {.read = read_data, .close = close_data, .pieces = pieces_of};
    pg_status st = PG_OK;
    pg_store *s = NULL;
    checkpoint *c = NULL;
    pg__zero_what what = PG_ZERO_MASTER;
    (void)io;
    int is = path && fnmatch("*zero_pp_rank_*_optim_states.pt", pg__base_name(path), 0) == 0;
    if (path && !is)
        PG_TRY(pg__zero_is_universal(&is, path, err));
    if (!is)
        return pg_fail(err, PG_E_UNKNOWN, "not a file of DeepSpeed's ZeRO");
    PG_TRY(what_of(&what, opts->part, err));
    c = pg__mem_array(1, sizeof *c);
    if (!c)
        return pg__nomem(err);
    c->job.folder = -1;
    PG_TRY(pg__zero_read(&c->job, path, what, err));
    PG_TRY(pg__zero_whole_of(&c->whole, &c->job, err));
    PG_TRY(pg__store_new(&s, pg__fmt_zero.name, NULL, NULL, err));
    PG_TRY(fill(s, c, err));
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

const pg__format pg__fmt_zero = {
    .name = "deepspeed-zero",
    .probe = probe,
    .open = open_checkpoint,
    .in_folder = pg__zero_in_folder,
    .of_path = pg__zero_of_path,
    .has_parts = 1,
    .of_ranks = 1,
};

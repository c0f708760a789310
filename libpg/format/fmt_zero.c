/* fmt_zero.c - reads checkpoints of DeepSpeed's ZeRO, stages 1 to 3: the float32 weights, which
 * zero_to_fp32.py would put together with twice the model in memory. libpg does not write this
 * format. */
#include <fnmatch.h>
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "format/format.h"
#include "format/zero.h"

#define METADATA "{\"format\":\"pt\"}"

typedef struct checkpoint {
    pg__zero z;
    pg__zero_cut cut;
    pg__tile_window window;
} checkpoint;

static int probe(const uint8_t *head, size_t n)
{
    return n >= 4 && memcmp(head, "PK\3\4", 4) == 0;
}

static void close_data(void *ctx)
{
    checkpoint *c = ctx;
    pg__tile_window_fini(&c->window);
    pg__zero_cut_fini(&c->cut);
    pg__zero_fini(&c->z);
    pg__mem_free(c);
}

static pg_status fetch(void *ctx, const pg__tile *tile, uint64_t off, void *buf, size_t n,
                       pg_err *err)
{
    const pg__zero_source *s = &((const checkpoint *)ctx)->cut.sources[tile->source];
    const size_t elem = pg_dtype_bytes(pg_store_weight(s->s, s->tensor)->dtype);
    return pg__store_read_raw(s->s, s->tensor, s->first * elem + off, buf, n, err);
}

static pg_status read_data(void *ctx, size_t tensor, uint64_t off, void *buf, size_t n, pg_err *err)
{
    checkpoint *c = ctx;
    return pg__tiles_read(&c->window, &c->cut.v[tensor].tiled, fetch, c, off, buf, n, err);
}

static pg_status fill(pg_store *s, const checkpoint *c, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str others = {0};
    for (size_t i = 0; i < c->cut.n; i++) {
        const pg__zero_tensor *t = &c->cut.v[i];
        const pg__tensor_desc d = {
            .name = t->name, .dtype = t->dtype, .rank = t->rank, .dims = t->dims};
        PG_TRY(pg__store_add_weight(s, &d, err));
    }
    PG_TRY(pg__store_set_text(s, PG_TEXT_METADATA, METADATA, sizeof METADATA - 1, err));
    if (c->z.writer)
        PG_TRY(pg__store_set_writer(s, c->z.writer, err));
    PG_TRY(pg__str_printf(&others, err, "the optimizer of ZeRO stage %d on %s rank%s", c->z.stage,
                          PG_NUM(c->z.n_ranks), c->z.n_ranks == 1 ? "" : "s"));
    if (c->z.n_ties)
        PG_TRY(pg__str_printf(&others, err, ", tied: %s = %s%s", PG_SHOW(c->z.ties[0].name),
                              PG_SHOW(c->z.ties[0].of), c->z.n_ties > 1 ? ", ..." : ""));
    PG_TRY(pg__store_set_others(s, others.s, err));
done:
    pg__str_fini(&others);
    return st;
}

static pg_status open_checkpoint(pg_store **out, pg__io *io, const char *path,
                                 const pg_open_opts *opts, pg_err *err)
{
    static const pg__store_io data = {.read = read_data, .close = close_data};
    pg_status st = PG_OK;
    pg_store *s = NULL;
    checkpoint *c = NULL;
    (void)io, (void)opts;
    if (!path || fnmatch("*zero_pp_rank_*_optim_states.pt", pg__base_name(path), 0) != 0)
        return pg_fail(err, PG_E_UNKNOWN, "not a file of DeepSpeed's ZeRO");
    c = pg__mem_array(1, sizeof *c);
    if (!c)
        return pg__nomem(err);
    PG_TRY(pg__zero_read(&c->z, path, err));
    PG_TRY(pg__zero_cut_of(&c->cut, &c->z, err));
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
    .of_ranks = 1,
};

/* fmt_megatron.c - reads checkpoints of Megatron-LM, whose ranks each wrote a file: the model as
 * one rank would hold it. libpg does not write this format. */
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "format/format.h"
#include "format/megatron.h"
#include "format/pytorch_file.h"

#define BLOCK 65536u

typedef struct checkpoint {
    pg__megatron m;
    pg__megatron_model model;
    pg__tile_window window;
    const pg__megatron_tensor *t; /* that is being read */
    unsigned char *block;         /* of a copy */
} checkpoint;

static int probe(const uint8_t *head, size_t n)
{
    return (n >= 4 && memcmp(head, "PK\3\4", 4) == 0) || pg__pt_is_stream(head, n);
}

static void close_data(void *ctx)
{
    checkpoint *c = ctx;
    pg__tile_window_fini(&c->window);
    pg__megatron_model_fini(&c->model);
    pg__megatron_fini(&c->m);
    pg__mem_free(c->block);
    pg__mem_free(c);
}

/* ---- data ---- */

static pg_status differ(const checkpoint *c, const pg__megatron_piece *a,
                        const pg__megatron_piece *b, pg_err *err)
{
    const pg__shown x = pg__megatron_rank_name(&c->m, a->stage, a->e, a->t);
    const pg__shown y = pg__megatron_rank_name(&c->m, b->stage, b->e, b->t);
    const char *other = pg_store_weight(b->s, b->tensor)->name;
    (void)pg_fail(err, PG_E_FORMAT, "%s: %s and %s hold different values", PG_SHOW(c->t->name), x.s,
                  y.s);
    if (strcmp(other, c->t->name) != 0 && a->stage != b->stage)
        pg_err_detail(err, "%s is a copy of it, by the names and args", PG_SHOW(other));
    if (a->stage == b->stage && a->e == b->e)
        pg_err_set(err, "rules", "%s=first", other);
    return PG_E_FORMAT;
}

/* Bytes of a piece, and of every copy of it, which must be equal. */
static pg_status fetch(void *ctx, const pg__tile *tile, uint64_t off, void *buf, size_t n,
                       pg_err *err)
{
    checkpoint *c = ctx;
    pg_status st = PG_OK;
    const pg__megatron_piece *p = &c->model.pieces[tile->source];
    PG_TRY(pg__megatron_read_piece(p, c->t, off, buf, n, err));
    for (size_t i = p->copy; i != PG_NONE; i = c->model.pieces[i].copy)
        for (size_t at = 0; at < n; at += BLOCK) {
            const pg__megatron_piece *q = &c->model.pieces[i];
            const size_t part = n - at < BLOCK ? n - at : BLOCK;
            PG_TRY(pg__megatron_read_piece(q, c->t, off + at, c->block, part, err));
            if (memcmp(c->block, (const unsigned char *)buf + at, part) != 0) {
                st = differ(c, p, q, err);
                goto done;
            }
        }
done:
    return st;
}

static pg_status read_data(void *ctx, size_t tensor, uint64_t off, void *buf, size_t n, pg_err *err)
{
    checkpoint *c = ctx;
    c->t = &c->model.v[tensor];
    return pg__tiles_read(&c->window, &c->t->tiled, fetch, c, off, buf, n, err);
}

static pg_pieces pieces_of(const void *ctx, size_t tensor)
{
    return pg__tiles_pieces(&((const checkpoint *)ctx)->model.v[tensor].tiled);
}

/* ---- the store ---- */

static uint64_t embedded_rows(const pg__megatron_model *l)
{
    for (size_t i = 0; i < l->n; i++)
        if (pg__ends_with(l->v[i].name, "word_embeddings.weight"))
            return l->v[i].dims[0];
    return 0;
}

/* "tensor 2 x pipeline 2" */
static pg_status put_ranks(pg__str *out, const pg__megatron *m, pg_err *err)
{
    pg_status st = pg__str_printf(out, err, "tensor parallel %s", PG_NUM(m->tp));
    if (st == PG_OK)
        st = pg__str_printf(out, err, " x pipeline %s", PG_NUM(m->pp));
    if (st == PG_OK && m->facts.n_models > 1)
        st = pg__str_printf(out, err, " x virtual %zu", m->facts.n_models);
    if (st == PG_OK && m->ep > 1)
        st = pg__str_printf(out, err, " x expert %s", PG_NUM(m->ep));
    return st;
}

/* What becomes __metadata__: the layout of fused tensors, as the newest version has it. */
static pg_status put_metadata(pg_store *s, const checkpoint *c, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str text = {0};
    const uint64_t rows = embedded_rows(&c->model);
    PG_TRY(pg__str_puts(&text, "{\"format\":\"pt\",\"megatron\":\"joined from ", err));
    PG_TRY(put_ranks(&text, &c->m, err));
    if (c->m.facts.iteration >= 0)
        PG_TRY(pg__str_printf(&text, err, ", iteration %lld", (long long)c->m.facts.iteration));
    PG_TRY(pg__str_puts(&text,
                        "; layout of tensor parallel 1, fused query, key and value as of "
                        "checkpoint_version 3",
                        err));
    if (rows)
        PG_TRY(pg__str_printf(&text, err, "; %llu rows of word embeddings, %s",
                              (unsigned long long)rows,
                              c->m.rules.words ? "padding left out" : "padding included"));
    PG_TRY(pg__str_puts(&text, "\"}", err));
    PG_TRY(pg__store_set_text(s, PG_TEXT_METADATA, text.s, text.n, err));
done:
    pg__str_fini(&text);
    return st;
}

static void count_ranks(pg_store *s, const pg__megatron *m)
{
    pg__store_add_rank_count(s, "ranks", m->ranks.n);
    pg__store_add_rank_count(s, "tensor_parallel", m->tp);
    pg__store_add_rank_count(s, "pipeline_parallel", m->pp);
    if (m->facts.n_models > 1)
        pg__store_add_rank_count(s, "virtual_pipeline", m->facts.n_models);
    pg__store_add_rank_count(s, "expert_parallel", m->ep);
}

static pg_status put_others(pg_store *s, const checkpoint *c, const char *path, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str text = {0}, iterations = {0};
    const pg__megatron_facts *f = &c->m.facts;
    PG_TRY(pg__str_printf(&text, err, "saved by %zu rank%s, ", c->m.ranks.n,
                          c->m.ranks.n == 1 ? "" : "s"));
    PG_TRY(put_ranks(&text, &c->m, err));
    PG_TRY(pg__store_set_ranks(s, text.s, err));
    count_ranks(s, &c->m);
    text.n = 0;
    PG_TRY(pg__str_printf(&text, err, "%sarguments of the job", f->args.there ? "" : "no "));
    if (f->iteration >= 0)
        PG_TRY(pg__str_printf(&text, err, ", iteration %s", PG_NUM((uint64_t)f->iteration)));
    if (f->args.num_layers)
        PG_TRY(pg__str_printf(&text, err, ", %s layers", PG_NUM(f->args.num_layers)));
    if (f->args.num_attention_heads)
        PG_TRY(pg__str_printf(&text, err, ", %s heads", PG_NUM(f->args.num_attention_heads)));
    if (f->args.padded_vocab_size)
        PG_TRY(pg__str_printf(&text, err, ", vocabulary %s with padding",
                              PG_NUM(f->args.padded_vocab_size)));
    if (c->m.rules.words)
        PG_TRY(pg__str_printf(&text, err, ", cut to %s", PG_NUM(c->m.rules.words)));
    if (c->model.n_tied)
        PG_TRY(pg__str_puts(&text, ", a copy of the word embeddings for the output", err));
    if (c->model.n_extra)
        PG_TRY(pg__str_printf(&text, err, ", %zu _extra_state", c->model.n_extra));
    if (c->m.n_optimizers)
        PG_TRY(pg__str_printf(&text, err, ", %zu distrib_optim.pt", c->m.n_optimizers));
    PG_TRY(pg__megatron_iterations(&iterations, path, err));
    if (iterations.n)
        PG_TRY(pg__str_printf(&text, err, "; beside it: %s", iterations.s));
    PG_TRY(pg__store_set_others(s, text.s, err));
done:
    pg__str_fini(&text);
    pg__str_fini(&iterations);
    return st;
}

static pg_status fill(pg_store *s, const checkpoint *c, const char *path, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str writer = {0};
    const int version = c->m.facts.version;
    for (size_t i = 0; i < c->model.n; i++) {
        const pg__megatron_tensor *t = &c->model.v[i];
        const pg__tensor_desc d = {
            .name = t->name, .dtype = t->dtype, .rank = t->rank, .dims = t->dims};
        PG_TRY(pg__store_add_weight(s, &d, err));
    }
    PG_TRY(pg__str_puts(&writer, c->model.is_core ? "Megatron-Core" : "Megatron-LM", err));
    if (version >= 0)
        PG_TRY(pg__str_printf(&writer, err, ", checkpoint_version %d", version));
    PG_TRY(pg__store_set_writer(s, writer.s, err));
    PG_TRY(put_metadata(s, c, err));
    PG_TRY(put_others(s, c, path, err));
done:
    pg__str_fini(&writer);
    return st;
}

/* The file of an only rank has its parts like any other of PyTorch. */
static pg_status refuse_part(const checkpoint *c, const char *part, pg_err *err)
{
    if (c->m.ranks.n == 1)
        return pg_fail(err, PG_E_UNKNOWN, "only the model is Megatron's");
    return pg_fail(
        err, PG_E_UNSUPPORTED,
        "part %s: of Megatron's ranks only the model is joined; the optimizer's state is "
        "cut in the order of buffers that no file describes",
        PG_SHOW(part));
}

static pg_status open_checkpoint(pg_store **out, pg__io *io, const char *path,
                                 const pg_open_opts *opts, pg_err *err)
{
    static const pg__store_io data = {.read = read_data, .close = close_data, .pieces = pieces_of};
    pg_status st = PG_OK;
    pg_store *s = NULL;
    (void)io;
    if (!path)
        return pg_fail(err, PG_E_UNKNOWN, "not a file of Megatron-LM");
    checkpoint *c = pg__mem_array(1, sizeof *c);
    if (!c)
        return pg__nomem(err);
    c->m.folder = -1;
    c->block = pg__mem_array(BLOCK, 1);
    if (!c->block)
        PG_TRY(pg__nomem(err));
    PG_TRY(pg__megatron_read(&c->m, path, opts->rules, err));
    if (opts->part && *opts->part && strcmp(opts->part, "model") != 0) {
        st = refuse_part(c, opts->part, err);
        goto done;
    }
    PG_TRY(pg__megatron_merge(&c->model, &c->m, err));
    PG_TRY(pg__megatron_rules_check(&c->m.rules, err));
    PG_TRY(pg__store_new(&s, pg__fmt_megatron.name, NULL, NULL, err));
    PG_TRY(fill(s, c, path, err));
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

const pg__format pg__fmt_megatron = {
    .name = "megatron",
    .probe = probe,
    .open = open_checkpoint,
    .in_folder = pg__megatron_in_folder,
    .of_path = pg__megatron_of_path,
    .has_parts = 1,
    .has_rules = 1,
    .of_ranks = 1,
};

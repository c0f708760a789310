/* save.c - carries out a plan and proves the result before it gets its name, or before it replaces
 * the source's contents.
 *
 * Until the commit, the output is a temporary of the sink. It is reopened by the reader that opens
 * every other file, so that the proof sees what the next program will see, and compared with the
 * plan and, piece by piece, with the source, or with checksums of what was read from it. A disk
 * that lies, or a bug in a writer or in libhdf5, ends as an error, and the old file stays. */
#include <inttypes.h>
#include <string.h>

#include "base/limits.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/try.h"
#include "format/format.h"
#include "store/read_ahead.h"

/* One proof: the written file opened again beside the plan. */
typedef struct proof {
    pg_store *out;
    const pg__plan *plan;
    const pg__sink_opts *opts; /* cancel and progress */
    const pg__relinker *links; /* tensors are the source's own, in their old place; or NULL */
    int read_linked;           /* also decode those that are stored in chunks */
    int read_once;             /* see pg__save_opts */
    pg__read_ahead *source;
    unsigned char *got, *want; /* PG_COPY_BYTES each */
    size_t n_verified;
} proof;

/* A tensor of the source and the same one of the output. */
typedef struct pair {
    size_t src, dst; /* numbers in the stores, see store_impl.h */
    int swapped;     /* of another byte order */
    const char *name;
} pair;

static pg_status differs(const char *what, const char *name, pg_err *err)
{
    return pg_fail(err, PG_E_IO, "%s: %s differs from the plan; nothing written", PG_SHOW(name),
                   what);
}

static pg_status check_layers(const proof *p, pg_err *err)
{
    const pg__plan *plan = p->plan;
    if (plan->n_layers == 0)
        return PG_OK; /* a flat list; the format decides how to group it */
    if (pg_store_n_layers(p->out) != plan->n_layers)
        return pg_fail(err, PG_E_IO,
                       "%zu layers read back, %zu were to be written; nothing written",
                       pg_store_n_layers(p->out), plan->n_layers);
    for (size_t i = 0; i < plan->n_layers; i++) {
        const pg_layer *l = pg_store_layer(p->out, i);
        if (strcmp(l->name, plan->layers[i].name) != 0)
            return differs("the name of this layer", plan->layers[i].name, err);
        if (l->n_weights != plan->layers[i].n ||
            (l->n_weights && l->first != plan->layers[i].first))
            return differs("the number of its tensors", l->name, err);
    }
    return PG_OK;
}

static pg_status check_text(const proof *p, pg_text which, const char *want, size_t n_want,
                            pg_err *err)
{
    static const char *const names[] = {"model_config", "training_config", "metadata"};
    size_t n = 0;
    const char *got = pg_store_text(p->out, which, &n);
    if (!got) /* a format without a place for it; formats with one check it in verify() */
        return PG_OK;
    if (!want || n != n_want || memcmp(got, want, n) != 0)
        return differs("its text", names[which], err);
    return PG_OK;
}

static int same_array(const pg_weight *a, const pg_weight *b)
{
    return a->dtype == b->dtype && a->rank == b->rank &&
           memcmp(a->dims, b->dims, sizeof a->dims) == 0;
}

static pg_status read_output(const proof *p, size_t dst, int native, uint64_t off, size_t n,
                             pg_err *err)
{
    const size_t n_weights = pg_store_n_weights(p->out);
    if (!native)
        return pg__store_read_raw(p->out, dst, off, p->got, n, err);
    return dst < n_weights ? pg_store_read(p->out, dst, off, p->got, n, err)
                           : pg_store_read_state(p->out, dst - n_weights, off, p->got, n, err);
}

/* Compares the bytes of a tensor of the source with those of one of the output, a block at a time;
 * in the machine's byte order if the format stores another one than the source. */
static pg_status check_data(proof *p, const pair *x, pg_err *err)
{
    const uint64_t n_bytes = pg__store_tensor(p->out, x->dst)->n_bytes;
    pg_status st = PG_OK;
    for (uint64_t off = 0; off < n_bytes;) {
        pg__block want;
        if (pg__cancelled(p->opts->cancel))
            PG_FAIL(PG_E_CANCELLED, "interrupted; nothing written");
        PG_TRY(pg__read_ahead_next(p->source, &want, err));
        PG_TRY(read_output(p, x->dst, x->swapped, off, want.n, err));
        if (memcmp(p->got, want.bytes, want.n) != 0)
            PG_TRY(differs("its data", x->name, err));
        pg__progress_add(p->opts->progress, want.n);
        off += want.n;
    }
done:
    return st;
}

/* The same where the checksum of what was read from the source is known. */
static pg_status check_sum(proof *p, const pair *x, uint64_t want, pg_err *err)
{
    const uint64_t n_bytes = pg__store_tensor(p->out, x->dst)->n_bytes;
    pg__xxh64 sum;
    pg_status st = PG_OK;
    pg__xxh64_start(&sum);
    for (uint64_t off = 0, n; off < n_bytes; off += n) {
        n = n_bytes - off < PG_COPY_BYTES ? n_bytes - off : PG_COPY_BYTES;
        if (pg__cancelled(p->opts->cancel))
            PG_FAIL(PG_E_CANCELLED, "interrupted; nothing written");
        PG_TRY(read_output(p, x->dst, 0, off, (size_t)n, err));
        pg__xxh64_add(&sum, p->got, (size_t)n);
        pg__progress_add(p->opts->progress, n);
    }
    if (pg__xxh64_end(&sum) != want)
        PG_TRY(differs("its data", x->name, err));
done:
    return st;
}

/* A part of the output's tensor could not be read; if the source's own cannot either, that is what
 * has to be said. */
static void blame(const proof *p, const pair *x, uint64_t off, size_t n, pg_status st, pg_err *err)
{
    pg_err of_source = {0};
    if (!err || pg__store_read_raw(p->plan->src, x->src, off, p->want, n, &of_source) != st)
        return;
    *err = of_source;
    pg_err_prefix(err, PG_SHOW(pg__store_path(p->plan->src)));
}

/* A tensor that is the source's own: its bytes are compared as a whole or not touched, but
 * compressed ones may have been damaged before. */
static pg_status check_linked(proof *p, const pair *x, pg_err *err)
{
    const size_t dst = x->dst;
    const uint64_t n_bytes = pg__store_tensor(p->out, dst)->n_bytes;
    pg_status st = PG_OK;
    if (!p->read_linked || pg__store_extent(p->out, dst).io)
        return PG_OK;
    for (uint64_t off = 0; st == PG_OK && off < n_bytes; off += PG_COPY_BYTES) {
        const uint64_t left = n_bytes - off;
        const size_t n = left < PG_COPY_BYTES ? (size_t)left : PG_COPY_BYTES;
        if (pg__cancelled(p->opts->cancel))
            return pg_fail(err, PG_E_CANCELLED, "interrupted; nothing written");
        st = pg__store_read_raw(p->out, dst, off, p->got, n, err);
        if (st == PG_E_FORMAT)
            blame(p, x, off, n, st, err);
        pg__progress_add(p->opts->progress, n);
    }
    return st;
}

/* 1: the source need not be read again. */
static int knows_sum(const proof *p, const pair *x, uint64_t *sum)
{
    return p->read_once && !p->links && !x->swapped && pg__store_sum(p->plan->src, x->src, sum);
}

static pg_status check_tensor(proof *p, const pair *x, pg_err *err)
{
    const pg_weight *b = pg__store_tensor(p->out, x->dst);
    uint64_t sum;
    if (!b)
        return pg_fail(err, PG_E_IO, "%s: missing from the output; nothing written",
                       PG_SHOW(x->name));
    if (pg__cancelled(p->opts->cancel))
        return pg_fail(err, PG_E_CANCELLED, "interrupted; nothing written");
    if (strcmp(b->name, x->name) != 0)
        return differs("the name of this tensor", x->name, err);
    if (!same_array(pg__store_tensor(p->plan->src, x->src), b))
        return differs("its type or shape", x->name, err);
    const pg_status st = p->links                ? check_linked(p, x, err)
                         : knows_sum(p, x, &sum) ? check_sum(p, x, sum, err)
                                                 : check_data(p, x, err);
    p->n_verified += st == PG_OK;
    return st;
}

static pair pair_of(const proof *p, size_t src, size_t dst, const char *name)
{
    pair x = {.src = src, .dst = dst, .name = name};
    if (pg__store_tensor(p->out, dst))
        x.swapped = pg__store_big_endian(p->plan->src, src) != pg__store_big_endian(p->out, dst);
    return x;
}

/* The tensors of the plan, and those of the output in the same order. */
static pg_status pair_tensors(const proof *p, pair **out, size_t *n, pg_err *err)
{
    const pg__plan *plan = p->plan;
    const size_t first = pg_store_n_weights(plan->src), n_out = pg_store_n_weights(p->out);
    const size_t n_state = pg__plan_n_state(plan);
    if (n_out != plan->n_items)
        return pg_fail(err, PG_E_IO,
                       "%zu tensors read back, %zu were to be written; nothing written", n_out,
                       plan->n_items);
    pair *v = *out = pg__mem_array(n_out + n_state, sizeof *v);
    if (!v)
        return pg__nomem(err);
    for (*n = 0; *n < n_out; ++*n)
        v[*n] = pair_of(p, plan->items[*n].src, *n, plan->items[*n].name);
    for (size_t i = 0; i < pg_store_n_state(plan->src); i++)
        if (pg__plan_keeps_state(plan, i)) {
            v[*n] = pair_of(p, first + i, *n, pg_store_state(plan->src, i)->name);
            ++*n;
        }
    return PG_OK;
}

static pg_status check_tensors(proof *p, pg_err *err)
{
    pg_status st = PG_OK;
    size_t n = 0, n_read = 0;
    uint64_t sum;
    pair *v = NULL;
    pg__to_read *list = NULL;
    PG_TRY(pair_tensors(p, &v, &n, err));
    list = pg__mem_array(n, sizeof *list);
    if (!list)
        PG_TRY(pg__nomem(err));
    for (size_t i = 0; i < n; i++)
        if (!knows_sum(p, &v[i], &sum))
            list[n_read++] = (pg__to_read){v[i].src, v[i].swapped};
    if (!p->links)
        PG_TRY(pg__read_ahead_start(&p->source, p->plan->src, list, n_read, err));
    for (size_t i = 0; i < n; i++)
        PG_TRY(check_tensor(p, &v[i], err));
    if (pg__store_n_tensors(p->out) != n)
        PG_FAIL(PG_E_IO, "%zu state tensors read back, %zu were to be written; nothing written",
                pg_store_n_state(p->out), pg__plan_n_state(p->plan));
done:
    pg__read_ahead_close(p->source);
    p->source = NULL;
    pg__mem_free(list);
    pg__mem_free(v);
    return st;
}

/* Compares everything that the plan says about p->out, and its tensors. */
static pg_status check_all(proof *p, const pg__format *f, pg_err *err)
{
    const pg__plan *plan = p->plan;
    pg_status st = PG_OK;
    p->got = pg__mem_array(PG_COPY_BYTES, 1);
    p->want = pg__mem_array(PG_COPY_BYTES, 1);
    if (!p->got || !p->want) {
        st = pg__nomem(err);
        goto done;
    }
    PG_TRY(check_layers(p, err));
    PG_TRY(check_text(p, PG_TEXT_MODEL_CONFIG, plan->model_config, plan->n_model_config, err));
    PG_TRY(check_text(p, PG_TEXT_TRAINING_CONFIG, plan->training_config, plan->n_training_config,
                      err));
    PG_TRY(check_tensors(p, err));
    if (f->verify)
        PG_TRY(f->verify(p->out, plan, err));
    if (p->links)
        PG_TRY(p->links->check(p->out, plan, err));
done:
    return st;
}

static void proof_fini(proof *p)
{
    pg_store_close(p->out);
    pg__mem_free(p->got);
    pg__mem_free(p->want);
}

/* The first piece has another beginning than the old file's. */
static int knows_piece(const pg__relinked *re, uint64_t off, size_t n)
{
    return re->sums && off % PG_COPY_BYTES == 0 && (n == PG_COPY_BYTES || off + n == re->end);
}

static int is_piece(const proof *p, const pg__relinked *re, uint64_t off, size_t n)
{
    pg__xxh64 sum;
    if (!knows_piece(re, off, n))
        return memcmp(p->got, p->want, n) == 0;
    pg__xxh64_start(&sum);
    pg__xxh64_add(&sum, p->got, n);
    return pg__xxh64_end(&sum) == re->sums[off / PG_COPY_BYTES];
}

/* A relinked copy must have the same bytes as its source wherever it keeps them, so all tensors are
 * the same, see check(); and it must have nothing else. */
static pg_status check_same_bytes(const proof *p, const pg__relinked *re, pg__io *io, pg_err *err)
{
    pg_status st = PG_OK;
    for (uint64_t off = re->n_head; off < re->end;) {
        const uint64_t left = re->end - off, step = PG_COPY_BYTES - off % PG_COPY_BYTES;
        const size_t n = left < step ? (size_t)left : (size_t)step;
        if (pg__cancelled(p->opts->cancel))
            PG_FAIL(PG_E_CANCELLED, "interrupted; nothing written");
        if (!knows_piece(re, off, n))
            PG_TRY(pg__relinked_read(re, off, p->want, n, err));
        PG_TRY(pg__io_read(io, off, p->got, n, err));
        if (!is_piece(p, re, off, n))
            PG_FAIL(PG_E_IO, "byte %" PRIu64 " or a later one differs from %s; nothing written",
                    off, PG_SHOW(pg__io_name(re->base)));
        pg__progress_add(p->opts->progress, n);
        off += n;
    }
done:
    return st;
}

static int is_read_once(const pg__save_opts *o)
{
    return o->read_once || PG_READS_DEAR;
}

/* re: the output is relinked; all zero: it was written afresh. */
static pg_status prove(const pg__format *f, pg__sink *sink, const char *path, const pg__plan *plan,
                       const pg__relinked *re, const pg__save_opts *o, size_t *n_verified,
                       pg_err *err)
{
    static const pg_open_opts opts = {0};
    pg_status st = PG_OK;
    pg__io *io = NULL, *beside = NULL;
    proof p = {.plan = plan,
               .opts = &o->sink,
               .links = re->base ? f->relinker : NULL,
               .read_linked = 1,
               .read_once = is_read_once(o)};
    PG_TRY(pg__sink_reopen(sink, &io, err));
    if (plan->beside)
        PG_TRY(pg__sink_reopen(plan->beside, &beside, err));
    PG_TRY(beside ? f->open_beside(&p.out, io, path, beside, plan->beside_name, err)
                  : f->open(&p.out, io, path, &opts, err));
    PG_TRY(check_all(&p, f, err));
    if (p.links)
        PG_TRY(check_same_bytes(&p, re, io, err));
    *n_verified = p.n_verified;
done:
    proof_fini(&p);
    pg__io_close(beside);
    pg__io_close(io);
    return st;
}

/* The caller's own proof, of the file under its temporary name. */
static pg_status prove_more(pg__sink *sink, const pg__save_opts *o, pg_err *err)
{
    pg__str path = {0};
    pg_status st = PG_OK;
    PG_TRY(pg__sink_temporary(sink, &path, err));
    PG_TRY(o->prove(o->user, path.s, err));
done:
    pg__str_fini(&path);
    return st;
}

/* 1 if the message begins with the file's name, not just with a word that begins like it. */
static int names_file(const char *msg, const char *path)
{
    const pg__shown name = pg__show(path);
    const size_t n = strlen(name.s);
    return n && strncmp(msg, name.s, n) == 0 && (msg[n] == ':' || msg[n] == ' ');
}

static uint64_t n_bytes_at(const pg_store *src, size_t i, int only_chunked)
{
    const pg_weight *w = pg__store_tensor(src, i);
    return !w || (only_chunked && pg__store_extent(src, i).io) ? 0 : w->n_bytes;
}

/* Bytes of all tensors of the output, or of those that are stored in chunks. */
static uint64_t n_bytes_of(const pg__plan *plan, int only_chunked)
{
    const size_t first = pg_store_n_weights(plan->src);
    uint64_t n = 0;
    for (size_t i = 0; i < plan->n_items; i++)
        n += n_bytes_at(plan->src, plan->items[i].src, only_chunked);
    for (size_t i = 0; i < pg_store_n_state(plan->src); i++)
        if (pg__plan_keeps_state(plan, i))
            n += n_bytes_at(plan->src, first + i, only_chunked);
    return n;
}

/* ---- relinked ------------------------------------------------------------------------------- */

/* Everything but what is not touched: the tensors' bytes. copy: the result is a copy, with only
 * those bytes of the old file that are in use. */
static pg_status prove_candidate(const pg__format *f, pg__relinked *re, int copy,
                                 const pg__plan *plan, const pg__save_opts *o, size_t *n_verified,
                                 pg_err *err)
{
    static const pg_open_opts opts = {0};
    pg_status st = PG_OK;
    pg__io *io = NULL;
    size_t n = 0;
    proof p = {.plan = plan, .opts = &o->sink, .links = f->relinker, .read_linked = !copy};
    PG_TRY(pg__relinked_open(&io, re, err));
    PG_TRY(f->open(&p.out, io, pg__store_path(plan->src), &opts, err));
    PG_TRY(check_all(&p, f, err));
    *n_verified = p.n_verified;
    if (copy) {
        const pg__run *used = f->relinker->used(p.out, &n);
        PG_TRY(pg__relinked_keep(re, used, n, err));
    }
done:
    proof_fini(&p);
    pg__io_close(io);
    return st;
}

#define WASTE_SHARE 4u /* at most one in so many bytes of a copy may be room that nothing uses, */
#define WASTE_BYTES 65536u /* ... not counting these */

/* Prepares a copy; *re stays zero if a fresh file is to be written: that always works, or reports
 * what is wrong. If the disk fails meanwhile, no other way is tried. */
static pg_status prepare_copy(pg__relinked *re, const pg__format *f, pg__sink *sink,
                              const pg__plan *plan, const pg__save_opts *o, pg_err *err)
{
    size_t n;
    pg_err why = {0};
    pg_status st = PG_E_UNSUPPORTED;
    if (f->relinker)
        st = f->relinker->allowed(plan, sink, o->relink, &why);
    if (st == PG_OK)
        st = f->relinker->make(re, plan, 1, o->sink.cancel, &why);
    if (st == PG_OK)
        st = prove_candidate(f, re, 1, plan, o, &n, &why);
    if (st == PG_OK &&
        pg__bytes_between(re->kept, re->n_kept, re->end) <= re->end / WASTE_SHARE + WASTE_BYTES)
        return PG_OK;
    pg__relinked_fini(re);
    if (st != PG_E_NOMEM && st != PG_E_CANCELLED && !why.sys)
        return PG_OK;
    if (why.sys)
        pg_err_prefix(&why, PG_SHOW(pg__store_path(plan->src)));
    if (err)
        *err = why;
    return st;
}

/* Writes the output in the more suitable way; re->base: relinked. */
static pg_status write_output(pg__relinked *re, const pg__format *f, pg__sink *sink,
                              const pg__plan *plan, const pg__save_opts *o, pg_err *err)
{
    const int verify = !o->skip_verify;
    pg_status st = PG_OK;
    PG_TRY(prepare_copy(re, f, sink, plan, o, err));
    if (re->base) {
        const uint64_t n_proof = re->end - re->n_head + n_bytes_of(plan, 1);
        pg__progress_start(o->sink.progress,
                           re->end + re->n_tail + re->n_head + (verify ? n_proof : 0));
        if (verify && is_read_once(o))
            PG_TRY(pg__relinked_keep_sums(re, err));
        PG_TRY(pg__relinked_write(sink, re, o->sink.progress, err));
    } else {
        pg__progress_start(o->sink.progress, n_bytes_of(plan, 0) * (verify ? 2 : 1));
        if (verify && is_read_once(o))
            pg__store_keep_sums(plan->src);
        PG_TRY(f->write(sink, plan, err));
    }
done:
    return st;
}

pg_status pg__format_save_in_place(const pg__format *f, pg__flip *file, const pg__plan *plan,
                                   const pg__save_opts *opts, int dry_run, pg__save_report *report,
                                   pg_err *err)
{
    pg_status st = PG_OK;
    pg__relinked re = {0};
    pg__save_report rep = {0};
    pg_err why = {0};
    int flipping = 0;
    if (!f || !f->relinker)
        (void)pg_fail(&why, PG_E_UNSUPPORTED, "it is not an .h5 of the legacy layout");
    else
        (void)f->relinker->allowed(plan, NULL, PG_RELINK_IF_POSSIBLE, &why);
    if (why.code != PG_OK && why.code != PG_E_UNSUPPORTED) {
        st = why.code;
        if (err)
            *err = why;
        goto done;
    }
    if (why.code != PG_OK)
        PG_FAIL(why.code, "cannot be changed in place: %s; write a new file", why.msg);
    PG_TRY(f->relinker->make(&re, plan, 0, opts->sink.cancel, err));
    PG_TRY(pg__flip_check(file, re.base, err));
    PG_TRY(prove_candidate(f, &re, 0, plan, opts, &rep.n_verified, err));
    rep.file_bytes = re.tail_at + re.n_tail;
    rep.added_bytes = rep.file_bytes - re.end;
    pg__progress_start(opts->sink.progress, re.n_tail);
    const pg__flip_change change = {.end = re.end,
                                    .tail_at = re.tail_at,
                                    .tail = re.tail,
                                    .n_tail = re.n_tail,
                                    .head = re.head,
                                    .n_head = re.n_head};
    PG_TRY(pg_store_check_same(plan->src, err));
    flipping = !dry_run;
    if (flipping)
        PG_TRY(pg__flip_write(file, &change, err));
    *report = rep;
done:
    /* The flip itself reports what happened to the file. */
    if (st != PG_OK && st != PG_E_UNSUPPORTED && !flipping && err &&
        !strstr(err->msg, "; nothing "))
        pg__err_append(err, "; nothing changed");
    if (st != PG_OK && err && !names_file(err->msg, pg__store_path(plan->src)))
        pg_err_prefix(err, PG_SHOW(pg__store_path(plan->src)));
    pg__relinked_fini(&re);
    return st;
}

/* ---- saving ---------------------------------------------------------------------------------- */

pg_status pg__format_save(const pg__format *f, const char *path, const pg__plan *plan,
                          const pg__save_opts *opts, pg__save_report *report, pg_err *err)
{
    static const pg__save_opts defaults = {0};
    const pg__save_opts *o = opts ? opts : &defaults;
    pg_status st = PG_OK;
    pg__sink *sink = NULL;
    pg__relinked re = {0};
    pg__save_report rep = {0};
    if (!f || !f->write)
        return pg_fail(err, PG_E_UNSUPPORTED, "%s: this format can be read, not written",
                       PG_SHOW(path));
    PG_TRY(pg__sink_open(&sink, path, &o->sink, err));
    PG_TRY(write_output(&re, f, sink, plan, o, err));
    if (!o->skip_verify)
        PG_TRY(prove(f, sink, path, plan, &re, o, &rep.n_verified, err));
    if (o->prove)
        PG_TRY(prove_more(sink, o, err));
    PG_TRY(pg_store_check_same(plan->src, err));
    rep.file_bytes = pg__sink_size(sink);
    PG_TRY(pg__sink_commit(sink, err));
    if (report)
        *report = rep;
done:
    /* Messages about the input and those of the sink already name their file. */
    if (st != PG_OK && err && !names_file(err->msg, path) &&
        !names_file(err->msg, pg__store_path(plan->src)))
        pg_err_prefix(err, PG_SHOW(path));
    if (report && sink)
        report->is_named = pg__sink_is_named(sink);
    pg__relinked_fini(&re);
    pg__sink_close(sink);
    return st;
}

/* report.c - the frame of a run: opens and judges, checks the output's name, saves, counts. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/try.h"
#include "format/fmt_keras_v3.h"
#include "wrap/rewrite/rewrite.h"

static void free_list(char **list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        pg__mem_free(list[i]);
    pg__mem_free(list);
}

void pg_rewrite_report_fini(pg_rewrite_report *r)
{
    if (!r)
        return;
    pg__mem_free(r->template_name);
    free_list(r->removed, r->n_removed);
    free_list(r->kept, r->n_kept);
    free_list(r->notes, r->n_notes);
    free_list(r->missing, r->n_missing);
    free_list(r->extra, r->n_extra);
    *r = (pg_rewrite_report){0};
}

PG_PRINTF(4, 0)
static pg_status add(char ***list, size_t *n, pg_err *err, const char *fmt, va_list ap)
{
    char line[512];
    (void)vsnprintf(line, sizeof line, fmt, ap);
    return pg__finding_add(list, n, line, err);
}

#define DEFINE_TELL(what, list, count)                                          \
    pg_status pg__add_##what(pg__rewrite *r, pg_err *err, const char *fmt, ...) \
    {                                                                           \
        va_list ap;                                                             \
        va_start(ap, fmt);                                                      \
        const pg_status st = add(&r->rep.list, &r->rep.count, err, fmt, ap);    \
        va_end(ap);                                                             \
        return st;                                                              \
    }

DEFINE_TELL(removed, removed, n_removed)
DEFINE_TELL(kept, kept, n_kept)
DEFINE_TELL(note, notes, n_notes)
DEFINE_TELL(missing, missing, n_missing)
DEFINE_TELL(extra, extra, n_extra)

pg_status pg__add_template(pg__rewrite *r, const char *name, pg_err *err)
{
    char *copy = pg__mem_strdup(name);
    if (!copy)
        return pg__nomem(err);
    pg__mem_free(r->rep.template_name);
    r->rep.template_name = copy;
    return PG_OK;
}

pg_status pg__rewrite_check(const char *in, const char *out, const pg_write_opts *w, pg_err *err)
{
    if (!in)
        return pg_fail(err, PG_E_ARG, "an input is needed");
    if (w->in_place && (out || w->prove))
        return pg_fail(err, PG_E_ARG, "in_place cannot be combined with an output path or prove");
    if (w->in_place && w->sha256)
        return pg_fail(err, PG_E_ARG, "in_place cannot be combined with sha256");
    return out || w->dry_run || w->in_place ? PG_OK : pg_fail(err, PG_E_ARG, "an output is needed");
}

static pg__sink_opts watched(const pg_write_opts *w)
{
    return (pg__sink_opts){.no_sync = w->no_sync, .cancel = w->cancel, .progress = w->progress};
}

pg_status pg__rewrite_open(pg__rewrite *r, pg_err *err)
{
    const pg_open_opts opts = {
        .part = r->write->part, .rules = r->write->rules, .n_threads = r->write->n_threads};
    const pg__sink_opts how = watched(r->write);
    pg_status st = PG_OK;
    if (opts.part && !*opts.part)
        return pg_fail(err, PG_E_ARG, "an empty key names no part");
    if (r->write->in_place) /* lock first, so that the file that is read is the one to be changed */
        st = pg__flip_open(&r->file, r->in, &how, err);
    if (st != PG_OK && err && !(st == PG_E_IO && err->sys == ENOENT))
        pg__in_place_instead(r, err);
    if (st == PG_OK) {
        st = pg_store_open(&r->s, r->in, &opts, err);
    }
    if (st != PG_OK) {
        pg__in_place_failed(r, st, err);
        return st;
    }
    st = pg__judge(&r->v, r->s, err);
    if (st != PG_OK) {
        pg_err_prefix(err, PG_SHOW(r->in));
        pg__in_place_failed(r, st, err);
    }
    r->plan.src = r->s;
    if (st == PG_OK && pg_store_others(r->s))
        st = pg__add_note(r, err, "left out: %s", pg_store_others(r->s));
    return st;
}

void pg__do_again(const pg__rewrite *r, pg_do what, pg_err *err)
{
    pg_err_do(err, what, r->in);
    if (r->write && r->write->in_place && pg__store_is_legacy(r->s))
        pg_err_arg(err, "in_place", "true");
}

void pg__do_like(const pg__rewrite *r, pg_do what, const char *like, pg_err *err)
{
    pg__do_again(r, what, err);
    if (like)
        pg_err_arg(err, "like", "%s", like);
    else
        pg_err_arg(err, "needs_model", "true");
}

void pg__rewrite_blame(const pg__rewrite *r, pg_err *err)
{
    if (!err)
        return;
    if (r->like_name) {
        const pg__shown like = pg__show(r->like_name);
        const size_t n = strlen(like.s);
        if (n && strncmp(err->msg, like.s, n) == 0 && err->msg[n] == ':')
            return;
    }
    pg_err_prefix(err, PG_SHOW(r->in));
}

/* Length of the longest suffix of name that means format f, or 0. */
static size_t suffix_of(const pg__format *f, const char *name)
{
    size_t best = 0;
    const size_t n = strlen(name);
    for (const char *s = f->suffixes; s && *s; s += strlen(s) + 1) {
        const size_t k = strlen(s);
        if (n > k && strcasecmp(name + n - k, s) == 0 && k > best)
            best = k;
    }
    return best;
}

static int is_hdf5(const pg__format *f)
{
    return f == &pg__fmt_keras_h5 || f == &pg__fmt_keras_v3;
}

/* Files of PyTorch and NumPy are never written; their contents go into safetensors. */
static pg_status fail_read_only(const pg__rewrite *r, size_t n_suffix, pg_err *err)
{
    const int n = (int)(strlen(r->out) - n_suffix);
    (void)pg_fail(err, PG_E_UNSUPPORTED, "%s: %s files are read, not written", PG_SHOW(r->out),
                  r->out + n);
    pg_err_do(err, PG_DO_UNWRAP, r->in);
    pg_err_arg(err, "out", "%.*s.safetensors", n, r->out);
    pg_err_arg(err, "suffix", ".safetensors");
    return PG_E_UNSUPPORTED;
}

/* A name of another format is a mistake. Between the two HDF5 layouts of Keras it depends on the
 * release that reads the file: a note. */
static pg_status check_suffix(pg__rewrite *r, const pg__format *f, pg_err *err)
{
    static const pg__format *const all[] = {
#define PG_FORMAT(name) &pg__fmt_##name,
#include "format/formats.def"
#undef PG_FORMAT
    };
    const pg__format *best = NULL;
    size_t n_best = 0;
    if (!r->out)
        return PG_OK;
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
        const size_t n = suffix_of(all[k], r->out);
        if (n > n_best || (n == n_best && n && all[k] == f)) {
            best = all[k];
            n_best = n;
        }
    }
    if (!best && (f == &pg__fmt_keras_zip || f == &pg__fmt_keras_v3))
        return pg__add_note(r, err, "Keras knows such a file by its name: it must end in %s",
                            f->suffixes);
    if (!best || best == f)
        return PG_OK;
    if (!best->write && best == pg__format_of(r->s) && pg_store_n_layers(r->s) == 0)
        return fail_read_only(r, n_best, err);
    const char *suffix = r->out + strlen(r->out) - n_best;
    if (f == &pg__fmt_keras_h5 && (best == &pg__fmt_keras_v3 || suffix_of(best, r->in)))
        return pg__add_note(
            r, err, "Keras 2.12 and later read *%s as another layout; they expect this file as .h5",
            suffix);
    if (is_hdf5(f) && is_hdf5(best))
        return pg__add_note(
            r, err, "Keras reads *%s as the old layout; this file must be called .weights.h5",
            suffix);
    (void)pg_fail(err, PG_E_ARG,
                  "the suffix %s does not match the format of %s, which the output keeps", suffix,
                  PG_SHOW(r->in));
    if (f->suffixes && *f->suffixes)
        pg_err_hint(err, "a name that ends in %s", f->suffixes);
    pg_err_prefix(err, PG_SHOW(r->out));
    return PG_E_ARG;
}

static pg_status count(pg__rewrite *r, pg_err *err)
{
    pg_rewrite_report *rep = &r->rep;
    const pg__plan *p = &r->plan;
    rep->n_layers = p->n_layers;
    rep->n_tensors = p->n_items;
    rep->n_state = pg__plan_n_state(p);
    rep->n_written = rep->n_tensors + rep->n_state;
    for (size_t i = 0; i < p->n_layers; i++)
        rep->n_weighted += p->layers[i].n > 0;
    for (size_t i = 0; i < p->n_items; i++) {
        const pg_weight *w = pg__store_tensor(r->s, p->items[i].src);
        if (__builtin_add_overflow(rep->n_bytes, w->n_bytes, &rep->n_bytes))
            return pg_fail(err, PG_E_LIMIT, "the tensors are too large together");
        rep->n_params += w->n_bytes / pg_dtype_bytes(w->dtype);
    }
    return PG_OK;
}

/* Data, and a kilobyte for the headers of each object. */
static uint64_t estimate(const pg__rewrite *r)
{
    uint64_t n = r->rep.n_bytes + 1024 * (uint64_t)(r->plan.n_layers + r->plan.n_items) +
                 r->plan.n_model_config;
    for (size_t i = 0; i < pg_store_n_state(r->s); i++)
        if (pg__plan_keeps_state(&r->plan, i))
            n += pg_store_state(r->s, i)->n_bytes;
    return n;
}

/* Everything but IN that is read: none of it may be replaced, not even with force. The entries are
 * borrowed but the first, the file of --like, which is the caller's to close. */
static pg_status list_inputs(pg__io ***out, size_t *n, const pg__rewrite *r, pg_err *err)
{
    const pg__v3 *v = pg__v3_of(r->s);
    pg__io **all = pg__mem_array(1 + (v ? v->n_parts : 0), sizeof(pg__io *));
    if (!all)
        return pg__nomem(err);
    const pg_status st = r->like_path ? pg__io_open(&all[0], r->like_path, err) : PG_OK;
    if (st != PG_OK) {
        pg__mem_free(all);
        return st;
    }
    *n = 1;
    for (size_t i = 0; v && i < v->n_parts; i++)
        all[(*n)++] = v->parts[i].io;
    *out = all;
    return PG_OK;
}

/* Calls the caller's proof, and collects what it wants to know about the file before that gets its
 * name. */
static pg_status look_at_output(void *user, const char *path, pg_err *err)
{
    pg__rewrite *r = user;
    pg_status st = PG_OK;
    pg__io *io = NULL;
    if (r->write->sha256) {
        PG_TRY(pg__io_open(&io, path, err));
        st = pg__io_sha256(io, r->rep.sha256, r->write->cancel, r->write->progress, err);
        if (st == PG_E_CANCELLED)
            pg__err_append(err, "; nothing written");
        PG_TRY(st);
    }
    if (r->write->prove)
        st = r->write->prove(r->write->user, path, err);
done:
    pg__io_close(io);
    return st;
}

pg_status pg__rewrite_save(pg__rewrite *r, pg_err *err)
{
    pg_status st = PG_OK;
    pg__io *input = NULL, **also = NULL;
    char *index = NULL; /* of a folder, or of a prefix */
    size_t n_also = 0;
    const pg__format *f = pg__format_of(r->s);
    /* Shards become one file; a .keras without its description is a .weights.h5. */
    if (strcmp(pg_store_format(r->s), "keras-sharded") == 0 ||
        (f == &pg__fmt_keras_zip && !r->plan.model_config))
        f = &pg__fmt_keras_v3;
    if (!f->write)
        f = &pg__fmt_safetensors;
    if (!r->write->in_place)
        PG_TRY(check_suffix(r, f, err));
    if (r->v.misfit && !r->plan.model_config)
        PG_TRY(
            pg__add_note(r, err, "weights only: model_config could not be used (%s)", r->v.misfit));
    PG_TRY(count(r, err));
    if (r->write->in_place)
        return pg__in_place_save(r, f, err);
    PG_TRY(pg__index_of(&index, r->in, err));
    PG_TRY(pg__io_open(&input, index ? index : r->in, err));
    PG_TRY(list_inputs(&also, &n_also, r, err));
    const pg__save_opts opts = {.sink = {.force = r->write->force,
                                         .no_sync = r->write->no_sync,
                                         .cancel = r->write->cancel,
                                         .progress = r->write->progress,
                                         .input = input,
                                         .also = also,
                                         .n_also = n_also},
                                .skip_verify = r->write->skip_verify,
                                .prove = look_at_output,
                                .user = r};
    if (r->write->dry_run) {
        if (r->out)
            PG_TRY(pg__sink_check(r->out, &opts.sink, err));
        r->rep.file_bytes = estimate(r);
    } else {
        pg__save_report saved = {0};
        if (f == &pg__fmt_safetensors && strcmp(pg_store_format(r->s), f->name) != 0)
            PG_TRY(pg__note_provenance(r->s, r->write, err));
        PG_TRY(pg__format_save(f, r->out, &r->plan, &opts, &saved, err));
        r->rep.n_verified = saved.n_verified;
        r->rep.file_bytes = saved.file_bytes;
    }
done:
    if (st == PG_E_ARG && input)
        pg__in_place_propose(r, f, input, err);
    if (also)
        pg__io_close(also[0]);
    pg__mem_free(also);
    pg__mem_free(index);
    pg__io_close(input);
    return st;
}

void pg__rewrite_fini(pg__rewrite *r)
{
    pg__plan_fini(&r->plan);
    pg__verdict_fini(&r->v);
    pg__graph_free(r->like);
    pg_rewrite_report_fini(&r->rep);
    pg_store_close(r->s);
    pg__flip_close(r->file);
    *r = (pg__rewrite){0};
}

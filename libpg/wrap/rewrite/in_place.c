/* in_place.c - carries out a plan in the source file itself: what would be lost, what remains out
 * of reach, and the alternative if it is impossible.
 *
 * save.c and flip.c change the file. */
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/try.h"
#include "format/fmt_keras_h5.h"
#include "wrap/rewrite/rewrite.h"

/* ---- what is out of reach already ------------------------------------------------------------
 */

/* HDF5 itself leaves some: blocks that it did not fill, heaps that grew out of their place. */
#define WORTH_BYTES 4096u
#define WORTH_SHARE 16u

/* Unreachable bytes of the file; 0 if they are too few to mention. */
static uint64_t n_unreachable(const pg_store *s)
{
    const pg__keras_h5 *k = pg__keras_h5_of(s);
    size_t n = 0;
    const pg__run *used = k ? pg__h5_used(k->h5, &n) : NULL;
    const uint64_t size = n ? pg__io_size(k->io) - pg__h5_trailing(k->h5) : 0;
    const uint64_t rest = pg__bytes_between(used, n, size);
    return rest >= WORTH_BYTES && rest >= size / WORTH_SHARE ? rest : 0;
}

static pg_status report_unreachable(pg__rewrite *r, pg_err *err)
{
    const uint64_t n = n_unreachable(r->s);
    if (n == 0)
        return PG_OK;
    return pg__add_note(r, err,
                        "%s bytes of the file are out of reach since an earlier change; "
                        "conversion to a new file drops them",
                        PG_NUM(n));
}

/* ---- refusals --------------------------------------------------------------------------------
 */

/* The suffix of the new name: that of the old one, since Keras goes by it. */
static const char *end_of(const char *path)
{
    static const char *const ends[] = {".weights.h5", ".h5", ".hdf5", ".keras", ".safetensors"};
    const size_t n = strlen(path);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (n > strlen(ends[i]) && strcmp(path + n - strlen(ends[i]), ends[i]) == 0)
            return ends[i];
    return "";
}

void pg__in_place_instead(const pg__rewrite *r, pg_err *err)
{
    pg_err_do(err, PG_DO_WRITE_NEW, r->in);
    if (*end_of(r->in))
        pg_err_arg(err, "suffix", "%s", end_of(r->in));
}

static pg_status refuse(const pg__rewrite *r, const char *why, pg_err *err)
{
    (void)pg_fail(err, PG_E_UNSUPPORTED, "%s: cannot be changed in place: %s; write a new file",
                  PG_SHOW(r->in), why);
    pg__in_place_instead(r, err);
    return PG_E_UNSUPPORTED;
}

void pg__in_place_failed(const pg__rewrite *r, pg_status st, pg_err *err)
{
    if (r->file && (st == PG_E_IO || st == PG_E_NOMEM))
        pg__err_append(err, "; nothing changed");
}

/* *err says why no new file could be written either. */
static pg_status refuse_both(const pg__rewrite *r, pg_err *err)
{
    pg_err why;
    if (!err)
        return PG_E_UNSUPPORTED;
    why = *err;
    (void)pg_fail(
        err, PG_E_UNSUPPORTED,
        "%s: cannot be changed in place: it is not an .h5 of the legacy layout; a new file "
        "cannot be written either: %s",
        PG_SHOW(r->in), why.msg);
    memcpy(err->hint, why.hint, sizeof err->hint);
    err->action = why.action;
    memcpy(err->detail, why.detail, sizeof err->detail);
    return PG_E_UNSUPPORTED;
}

pg_status pg__rewrite_planned(pg__rewrite *r, pg_status st, pg_err *err)
{
    const int answer = st == PG_OK || st == PG_E_NO || st == PG_E_AMBIGUOUS ||
                       st == PG_E_MISMATCH || st == PG_E_UNSUPPORTED;
    if (r->write->in_place && answer && !pg__store_is_legacy(r->s))
        return st == PG_OK ? refuse(r, "it is not an .h5 of the legacy layout", err)
                           : refuse_both(r, err);
    if (st == PG_OK)
        return PG_OK;
    pg__rewrite_blame(r, err);
    pg__in_place_failed(r, st, err);
    const uint64_t n = st == PG_E_NO && r->write->in_place ? n_unreachable(r->s) : 0;
    if (n) {
        pg_err_detail(err,
                      "%s bytes of it are out of reach since an earlier change; "
                      "conversion to a new file drops them",
                      PG_NUM(n));
        if (err && !*err->hint && err->action.what == PG_DO_NOTHING)
            pg_err_do(err, PG_DO_COPY, r->in);
    }
    return st;
}

/* ---- saving ---------------------------------------------------------------------------------- */

/* Notes what remains in the file, out of reach. */
static pg_status report_leftovers(pg__rewrite *r, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str names = {0};
    if (pg_store_text(r->s, PG_TEXT_MODEL_CONFIG, NULL)) {
        for (size_t i = 0; r->v.graph && i < r->v.f.n_slices; i++)
            PG_TRY(pg__str_printf(&names, err, "%s%s", i ? ", " : "", r->v.f.slices[i]));
        PG_TRY(pg__add_note(r, err, "the old model_config stays in the file, out of reach%s%s%s",
                            names.n ? "; so does the Python bytecode of " : "",
                            names.n ? PG_SHOW(names.s) : "",
                            names.n ? ", which a new file would not hold" : ""));
    }
    if (pg__plan_n_state(&r->plan) < pg_store_n_state(r->s))
        PG_TRY(pg__add_note(r, err,
                            "dropped optimizer state stays in the file, out of reach; a "
                            "new file would be smaller"));
done:
    pg__str_fini(&names);
    return st;
}

/* What would be lost without having been requested, although the file may be the only copy; NULL:
 * nothing. */
static const char *find_loss(const pg__rewrite *r)
{
    const int config = pg_store_text(r->s, PG_TEXT_MODEL_CONFIG, NULL) && !r->plan.model_config;
    const int state = pg__plan_n_state(&r->plan) < pg_store_n_state(r->s);
    if (r->may_drop || (!config && !state))
        return NULL;
    return config && state ? "the model's description and the optimizer's state would be lost"
           : config        ? "the model's description would be lost"
                           : "the optimizer's state would be lost";
}

static int same_stored(const pg_store *s, pg_text which, const char *text, size_t n)
{
    size_t n_old = 0;
    const char *old = pg_store_text(s, which, &n_old);
    return old && text ? n == n_old && memcmp(old, text, n) == 0 : !old && !text;
}

/* 1 if the plan changes nothing. */
static int is_as_it_is(const pg__rewrite *r)
{
    const pg__plan *p = &r->plan;
    if (p->n_layers != pg_store_n_layers(r->s) || p->n_items != pg_store_n_weights(r->s) ||
        pg__plan_n_state(p) != pg_store_n_state(r->s) ||
        !same_stored(r->s, PG_TEXT_MODEL_CONFIG, p->model_config, p->n_model_config) ||
        !same_stored(r->s, PG_TEXT_TRAINING_CONFIG, p->training_config, p->n_training_config))
        return 0;
    for (size_t i = 0; i < p->n_layers; i++)
        if (strcmp(p->layers[i].name, pg_store_layer(r->s, i)->name) != 0 ||
            p->layers[i].n != pg_store_layer(r->s, i)->n_weights)
            return 0;
    for (size_t i = 0; i < p->n_items; i++)
        if (p->items[i].src != i || strcmp(p->items[i].name, pg__store_tensor(r->s, i)->name) != 0)
            return 0;
    return 1;
}

static pg_status report_surroundings(pg__rewrite *r, pg_err *err)
{
    pg_status st = PG_OK;
    const uint64_t n_behind = pg__h5_trailing(pg__keras_h5_of(r->s)->h5);
    if (!pg__flip_is_locked(r->file))
        PG_TRY(pg__add_note(r, err,
                            "this file system has no locks: nothing keeps other programs from "
                            "writing to it meanwhile"));
    if (n_behind)
        PG_TRY(pg__add_note(r, err,
                            "removes what follows the end of its data, as after a stopped run: %s "
                            "byte%s",
                            PG_NUM(n_behind), n_behind == 1 ? "" : "s"));
done:
    return st;
}

/* Notes come first: nothing may fail once the file is changed. */
pg_status pg__in_place_save(pg__rewrite *r, const pg__format *f, pg_err *err)
{
    pg_status st = PG_OK;
    const pg__save_opts opts = {.sink = {.no_sync = r->write->no_sync,
                                         .cancel = r->write->cancel,
                                         .progress = r->write->progress}};
    pg__save_report saved = {0};
    const char *loss = find_loss(r);
    if (loss)
        return refuse(r, loss, err);
    if (is_as_it_is(r)) {
        r->rep.action = "unchanged";
        return report_unreachable(r, err);
    }
    PG_TRY(report_leftovers(r, err));
    PG_TRY(report_unreachable(r, err));
    PG_TRY(report_surroundings(r, err));
    st = pg__format_save_in_place(f, r->file, &r->plan, &opts, r->write->dry_run, &saved, err);
    if (st == PG_E_UNSUPPORTED)
        pg__in_place_instead(r, err);
    if (st != PG_OK)
        goto done;
    r->rep.n_verified = saved.n_verified;
    r->rep.file_bytes = saved.file_bytes;
    r->rep.added_bytes = saved.added_bytes;
done:
    return st;
}

void pg__in_place_propose(const pg__rewrite *r, const pg__format *f, pg__io *input, pg_err *err)
{
    struct stat out, in;
    if (!r->out || stat(r->out, &out) || fstat(pg__io_fd(input, 0, NULL), &in) ||
        out.st_dev != in.st_dev || out.st_ino != in.st_ino || in.st_nlink > 1)
        return;
    if (f->relinker && !find_loss(r) &&
        f->relinker->allowed(&r->plan, NULL, PG_RELINK_IF_POSSIBLE, NULL) == PG_OK)
        pg_err_do(err, PG_DO_IN_PLACE, r->in);
}

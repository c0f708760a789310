/* join_model.c - writes the tensors of a plan into one file, or as shards of Hugging Face's layout
 * into a folder. The plan is that of an index of shards, or of the model in a checkpoint that
 * several processes wrote. */
#include <fnmatch.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/try.h"
#include "wrap/convert/convert.h"
#include "wrap/join/join.h"

static pg_status note(pg__join *j, pg_err *err, const char *fmt, ...) PG_PRINTF(3, 4);
static pg_status note(pg__join *j, pg_err *err, const char *fmt, ...)
{
    char text[512];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return pg__finding_add(&j->rep.notes, &j->rep.n_notes, text, err);
}

/* ---- the plan ---- */

/* Drops from a plan what does not match --only. */
static pg_status plan_only(pg__plan *plan, const char *glob, pg_err *err)
{
    pg__plan some = {.src = plan->src, .keep_state = plan->keep_state};
    pg_status st = PG_OK;
    if (!glob)
        return PG_OK;
    for (size_t l = 0; l < plan->n_layers || (l == 0 && !plan->n_layers); l++) {
        const pg__plan_layer *layer = plan->n_layers ? &plan->layers[l] : NULL;
        const size_t first = layer ? layer->first : 0, n = layer ? layer->n : plan->n_items;
        int begun = 0;
        for (size_t i = first; i < first + n; i++) {
            const pg__plan_item *item = &plan->items[i];
            if (fnmatch(glob, item->name, 0) != 0 && !(layer && !fnmatch(glob, layer->name, 0)))
                continue;
            if (layer && !begun++)
                PG_TRY(
                    pg__plan_add_layer(&some, layer->name, strlen(layer->name), layer->src, err));
            PG_TRY(pg__plan_add(&some, item->src, item->name, err));
        }
    }
    some.keep_state = 0;
    if (some.n_items == 0)
        PG_FAIL(PG_E_ARG, "no tensor matches \"%s\"", PG_SHOW(glob));
    pg__plan_fini(plan);
    *plan = some;
    some = (pg__plan){0};
done:
    pg__plan_fini(&some);
    return st;
}

static pg_status count_plan(pg__join *j, const pg__plan *p, pg_err *err)
{
    for (size_t i = 0; i < p->n_items; i++) {
        const pg_weight *w = pg__store_tensor(p->src, p->items[i].src);
        if (__builtin_add_overflow(j->rep.n_bytes, w->n_bytes, &j->rep.n_bytes))
            return pg_fail(err, PG_E_LIMIT, "the tensors are too large together");
        j->rep.n_params += w->n_bytes / pg_dtype_bytes(w->dtype);
    }
    j->rep.n_layers = p->n_layers;
    j->rep.n_tensors = p->n_items;
    j->rep.n_state = pg__plan_n_state(p);
    j->rep.n_written = j->rep.n_tensors + j->rep.n_state;
    return PG_OK;
}

/* ---- the output ---- */

int pg__join_to_folder(const pg__join *j)
{
    struct stat sb;
    const pg_join_opts *o = j->o;
    return o->max_shard_bytes || o->n_jobs || o->finish ||
           (j->out &&
            (pg__ends_with(j->out, "/") || (stat(j->out, &sb) == 0 && S_ISDIR(sb.st_mode))));
}

static pg_status write_file(pg__join *j, const pg__plan *plan, const pg__format *f, pg_err *err)
{
    pg__save_report saved = {0};
    const pg__save_opts o = {.skip_verify = j->o->write.skip_verify,
                             .prove = j->o->write.prove,
                             .user = j->o->write.user,
                             .sink = pg__join_sink(j)};
    if (j->o->write.dry_run)
        return j->out ? pg__sink_check(j->out, &o.sink, err) : PG_OK;
    const pg_status st = pg__format_save(f, j->out, plan, &o, &saved, err);
    j->rep.n_verified = saved.n_verified;
    return st;
}

/* A folder of a file's name is hardly what is meant, unless there is one. */
static pg_status check_folder(const pg__join *j, pg_err *err)
{
    struct stat sb;
    if (!j->out)
        return pg_fail(err, PG_E_ARG, "a folder for the shards is needed");
    if (pg__ends_with(j->out, ".safetensors") && !(stat(j->out, &sb) == 0 && S_ISDIR(sb.st_mode)))
        return pg_fail(err, PG_E_ARG, "%s: shards go into a folder; name it without .safetensors",
                       PG_SHOW(j->out));
    return PG_OK;
}

static pg_status write_folder(pg__join *j, pg_store *view, pg_err *err)
{
    pg_shard_report made = {0};
    const pg_split_opts o = {.write = j->o->write,
                             .format = PG_SHARD_SAFETENSORS,
                             .max_shard_bytes = j->o->max_shard_bytes,
                             .job = j->o->job,
                             .n_jobs = j->o->n_jobs,
                             .finish = j->o->finish};
    pg_status st = check_folder(j, err);
    if (st == PG_OK)
        st = pg_split_store(view, pg__base_name(j->in), j->out, &o, &made, err);
    made.n_layers = j->rep.n_layers;
    made.notes = j->rep.notes;
    made.n_notes = j->rep.n_notes;
    j->rep = made;
    return st;
}

static pg_status note_rounding(pg__join *j, const pg__rounding *r, pg_err *err)
{
    pg_status st = PG_OK;
    if (j->o->dtype && !j->o->write.dry_run && !j->o->finish) /* which writes no tensors */
        st = note(j, err, "largest rounding error %.1e relative", r->max_rel_error);
    if (st == PG_OK && r->n_overflow)
        st = note(j, err, "%s elements too large for %s: now infinite", PG_NUM(r->n_overflow),
                  j->o->dtype);
    if (st == PG_OK && r->n_underflow)
        st = note(j, err, "%s elements too small for %s: now zero", PG_NUM(r->n_underflow),
                  j->o->dtype);
    return st;
}

/* The plan's tensors in another type, or for a folder: seen as a store. */
static pg_status write_view(pg__join *j, const pg__plan *plan, const pg__format *f, pg_err *err)
{
    pg_status st = PG_OK;
    pg__outline o = {0};
    pg__plan all = {0};
    pg_store *view = NULL;
    const pg__rounding *rounding = NULL;
    size_t n = 0;
    const char *metadata = pg_store_text(plan->src, PG_TEXT_METADATA, &n);
    PG_TRY(pg__outline_of(&o, plan, err));
    if (metadata)
        PG_TRY(pg__str_add(&o.metadata, metadata, n, err));
    if (j->o->dtype)
        PG_TRY(pg__outline_dtype(&o, j->o->dtype, err));
    PG_TRY(pg__outline_store(&view, &rounding, &o, plan->src, err));
    PG_TRY(pg__plan_copy_of(&all, view, err));
    PG_TRY(count_plan(j, &all, err));
    PG_TRY(pg__join_to_folder(j) ? write_folder(j, view, err) : write_file(j, &all, f, err));
    PG_TRY(note_rounding(j, rounding, err));
done:
    pg__plan_fini(&all);
    pg_store_close(view);
    pg__outline_fini(&o);
    return st;
}

pg_status pg__join_plan(pg__join *j, pg__plan *plan, const pg__format *f, pg_err *err)
{
    pg_status st = PG_OK;
    PG_TRY(plan_only(plan, j->o->only, err));
    if (j->o->dtype || pg__join_to_folder(j))
        return write_view(j, plan, f, err);
    PG_TRY(count_plan(j, plan, err));
    PG_TRY(write_file(j, plan, f, err));
done:
    return st;
}

/* ---- a checkpoint of several processes ---- */

/* The model's tensors, put together, under the names that the bare module has. What a wrapper left
 * in the names is removed, if it is sure that it was one. */
static pg_status plan_bare(pg__rewrite *r, pg_err *err)
{
    static const pg_unwrap_opts defaults = {0};
    pg_err why = {0};
    const pg_status st = r->v.f.verdict == PG_V_WRAPPER ? pg__plan_unwrap(r, &defaults, &why)
                                                        : pg__plan_copy_of(&r->plan, r->s, &why);
    if (st != PG_OK && err)
        *err = why;
    r->plan.keep_state = 0;
    return st;
}

/* What the names have no longer. */
static pg_status note_wrapper(pg__join *j, const pg__rewrite *r, pg_err *err)
{
    const pg_finding *f = &r->v.f;
    return f->verdict == PG_V_WRAPPER && f->template_name
               ? note(j, err, "names without \"%s\", a wrapper's", PG_SHOW(f->template_name))
               : PG_OK;
}

static pg_status note_left_out(pg__join *j, const pg_store *s, pg_err *err)
{
    const size_t n = pg_store_n_state(s);
    pg_status st = PG_OK;
    if (n)
        st = note(j, err, "left out: %zu tensor%s of the optimizer and other training", n,
                  n == 1 ? "" : "s");
    if (st == PG_OK && pg_store_others(s))
        st = note(j, err, "beside the model: %s", pg_store_others(s));
    return st;
}

/* Another container needs a description, which SavedModels alone bring along. */
static pg_status refuse_output(const pg__join *j, const pg_store *s, pg_err *err)
{
    const char *dot = strrchr(pg__base_name(j->out), '.');
    const int n = dot ? (int)(dot - j->out) : (int)strlen(j->out);
    (void)pg_fail(err, PG_E_ARG, "%s: a checkpoint is joined into .safetensors", PG_SHOW(j->out));
    const int has_model = pg_store_text(s, PG_TEXT_MODEL_CONFIG, NULL) != NULL;
    pg_err_do(err, has_model ? PG_DO_CONVERT : PG_DO_JOIN, j->in);
    if (has_model)
        pg_err_arg(err, "out", "%s", j->out);
    else
        pg_err_arg(err, "out", "%.*s.safetensors", n, j->out);
    return PG_E_ARG;
}

pg_status pg__join_ranks(pg__join *j, pg_err *err)
{
    pg_status st = PG_OK;
    pg__rewrite r = {.in = j->index, .out = j->out, .write = &j->o->write};
    PG_TRY(pg__rewrite_open(&r, err));
    if (j->out && !pg__join_to_folder(j) && !pg__ends_with(j->out, ".safetensors")) {
        st = refuse_output(j, r.s, err);
        goto done;
    }
    PG_TRY(plan_bare(&r, err));
    if (r.plan.n_items == 0)
        PG_FAIL(PG_E_UNSUPPORTED, "%s: holds no model, only %zu tensor%s of training",
                PG_SHOW(j->in), pg_store_n_state(r.s), pg_store_n_state(r.s) == 1 ? "" : "s");
    PG_TRY(note_wrapper(j, &r, err));
    PG_TRY(note_left_out(j, r.s, err));
    PG_TRY(pg__note_provenance(r.s, &j->o->write, err));
    PG_TRY(pg__join_plan(j, &r.plan, &pg__fmt_safetensors, err));
done:
    pg__rewrite_fini(&r);
    return st;
}

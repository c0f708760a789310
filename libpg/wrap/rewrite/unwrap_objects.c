/* unwrap_objects.c - checkpoints of TensorFlow: their graph of objects names no classes, so only
 * the description that a SavedModel has beside it shows that the model in it was a wrapper's. */
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/try.h"
#include "wrap/rewrite/rewrite.h"

static int ends_with(const char *s, const char *end)
{
    return s && pg__ends_with(s, end);
}

/* Only a model can tell what the objects were. */
static pg_status refuse(const pg__rewrite *r, const pg_unwrap_opts *o, pg_err *err)
{
    const char *out = r->out ? r->out : "";
    (void)pg_fail(err, PG_E_NO,
                  "TensorFlow's objects do not show whether a model is a wrapper's; the one-device "
                  "model does; nothing written");
    pg_err_do(err, PG_DO_CONVERT, r->in);
    pg_err_arg(err, "model", "%s", o->like && !o->like_text ? o->like : "model.json");
    if (ends_with(out, ".h5") || ends_with(out, ".keras"))
        pg_err_arg(err, "out", "%s", out);
    else
        pg_err_arg(err, "suffix", ".h5");
    return PG_E_NO;
}

/* A tensor that has its path as its name loses what leads to the model. */
static const char *name_in_model(const pg__rewrite *r, size_t i, const char *inner)
{
    const char *name = pg_store_weight(r->s, i)->name, *rest = strchr(name, '/');
    pg__str path = {0};
    const int known = rest && pg__store_find_object(r->s, name) == i &&
                      pg__str_printf(&path, NULL, "%s%s", inner, rest) == PG_OK &&
                      pg__store_find_object(r->s, path.s) == i;
    pg__str_fini(&path);
    return known ? rest + 1 : name;
}

pg_status pg__unwrap_objects(pg__rewrite *r, const pg_unwrap_opts *o, pg_err *err)
{
    pg_status st = PG_OK;
    const char *inner = pg__store_inner_object(r->s);
    if (o->strip_prefix || o->template_name)
        return pg_fail(err, PG_E_ARG, "TensorFlow's objects are chosen with part");
    if (r->v.f.verdict != PG_V_WRAPPER || !r->v.tmpl)
        return refuse(r, o, err);
    if (!inner)
        return pg_fail(err, PG_E_FORMAT,
                       "by its config a wrapper, yet \"%s\" is not all that holds weights",
                       PG_SHOW(r->v.f.template_name));
    for (size_t i = 0; i < pg_store_n_weights(r->s); i++)
        PG_TRY(pg__plan_add(&r->plan, i, name_in_model(r, i, inner), err));
    PG_TRY(pg__report_wrapper(r, r->v.tmpl->name, err));
    const pg_unwrap_opts no_state = {.weights_only = o->weights_only, .no_optimizer = 1};
    PG_TRY(pg__full_texts(r, r->v.tmpl, 1, &no_state, err));
    const size_t n = pg_store_n_state(r->s);
    if (n)
        PG_TRY(pg__add_note(r, err,
                            "optimizer state (%zu tensor%s) dropped: its order is not known", n,
                            n == 1 ? "" : "s"));
done:
    return st;
}

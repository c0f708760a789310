/* unwrap.c - pg_unwrap_file(): open, judge, plan, write, prove. Each layout has its own way to make
 * the plan: unwrap_h5.c, unwrap_paths.c, unwrap_prefix.c, unwrap_objects.c. */
#include "pg/unwrap.h"

#include <string.h>

#include "base/str.h"
#include "base/try.h"
#include "format/shards.h"
#include "wrap/dialect/dialect.h"
#include "wrap/rewrite/rewrite.h"

pg_status pg__plan_unwrap(pg__rewrite *r, const pg_unwrap_opts *o, pg_err *err)
{
    if (o->strip_prefix && pg_store_n_layers(r->s))
        return pg_fail(err, PG_E_ARG,
                       "only PyTorch names have a prefix to strip; this file has layers");
    if (pg__store_is_legacy(r->s))
        return pg__unwrap_h5(r, o, err);
    if (pg__store_is_paths(r->s))
        return pg__unwrap_paths(r, o, err);
    if (pg__store_has_objects(r->s))
        return pg__unwrap_objects(r, o, err);
    if (pg_store_n_layers(r->s) == 0)
        return pg__unwrap_prefix(r, o, err);
    (void)pg_fail(err, PG_E_UNSUPPORTED, "files of format %s are not rewritten",
                  pg_store_format(r->s));
    if (pg__shards_of(r->s))
        pg_err_do(err, PG_DO_JOIN, r->in);
    return PG_E_UNSUPPORTED;
}

static pg_status note_who_loads_it(pg__rewrite *r, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str text = {0};
    if (strcmp(r->rep.action, "unwrapped") == 0)
        PG_TRY(pg__loads_in(&text, &r->plan, err));
    if (text.n)
        PG_TRY(pg__add_note(r, err, "%s", text.s));
done:
    pg__str_fini(&text);
    return st;
}

pg_status pg_unwrap_file(const char *in, const char *out, const pg_unwrap_opts *opts,
                         pg_rewrite_report *report, pg_err *err)
{
    static const pg_unwrap_opts defaults = {0};
    const pg_unwrap_opts *o = opts ? opts : &defaults;
    pg_status st = PG_OK;
    pg__rewrite r = {.in = in, .out = out, .write = &o->write};
    r.like_name = pg__model_name(o->like, o->like_text);
    r.like_path = o->like_text ? NULL : o->like;
    r.may_drop = o->weights_only || o->no_optimizer;
    if (o->like_text && !o->like)
        return pg_fail(err, PG_E_ARG, "the text of a model needs a name for messages: like");
    PG_TRY(pg__rewrite_check(in, out, &o->write, err));
    PG_TRY(pg__rewrite_open(&r, err));
    if (o->like && (pg_store_n_layers(r.s) || pg__store_is_legacy(r.s) || pg__store_is_paths(r.s)))
        PG_TRY(pg__graph_given(&r.like, o->like, o->like_text, err));
    st = pg__plan_unwrap(&r, o, err);
    if (st == PG_E_MISMATCH && o->partial && o->like && r.v.f.verdict == PG_V_WRAPPER)
        pg__do_like(&r, PG_DO_UNWRAP_TEMPLATE, o->like, err);
    PG_TRY(pg__rewrite_planned(&r, st, err));
    PG_TRY(note_who_loads_it(&r, err));
    PG_TRY(pg__rewrite_save(&r, err));
done:
    /* Report missing and extra layers on failure, too. */
    if (report && (st == PG_OK || st == PG_E_MISMATCH)) {
        *report = r.rep;
        r.rep = (pg_rewrite_report){0};
    }
    pg__rewrite_fini(&r);
    return st;
}

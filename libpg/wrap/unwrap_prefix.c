/* unwrap_prefix.c - PyTorch: the prefix goes, everything else stays. */
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/try.h"
#include "wrap/rewrite.h"

static pg_status choose(const char **prefix, const pg__rewrite *r, const pg_unwrap_opts *o,
                        pg_err *err)
{
    *prefix = o->strip_prefix ? o->strip_prefix : r->v.f.template_name;
    if (!*prefix || !**prefix)
        return pg_fail(err, PG_E_NO, "%s; nothing written", r->v.f.reason);
    const size_t n = strlen(*prefix);
    for (size_t i = 0; i < pg_store_n_weights(r->s); i++) {
        const char *name = pg_store_weight(r->s, i)->name;
        if (strncmp(name, *prefix, n) != 0 || name[n] == 0)
            return pg_fail(err, PG_E_NO, "\"%s\" does not begin with \"%s\"; nothing written",
                           PG_SHOW(name), PG_SHOW(*prefix));
    }
    return PG_OK;
}

pg_status pg__unwrap_prefix(pg__rewrite *r, const pg_unwrap_opts *o, pg_err *err)
{
    pg_status st = PG_OK;
    const char *prefix = NULL;
    if (o->like || o->template_name)
        return pg_fail(err, PG_E_ARG, "--%s is for Keras files; this one has no layers",
                       o->like ? "like" : "template");
    PG_TRY(choose(&prefix, r, o, err));
    for (size_t i = 0; i < pg_store_n_weights(r->s); i++)
        PG_TRY(pg__plan_add(&r->plan, i, pg_store_weight(r->s, i)->name + strlen(prefix), err));
    r->plan.keep_state = 1;
    r->rep.action = "prefix removed";
    PG_TRY(pg__tell_template(r, prefix, err));
done:
    return st;
}

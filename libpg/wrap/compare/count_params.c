/* count_params.c - pg_count_params(): counts the parameters that training changes. The description
 * says which layers are frozen, the class of a layer says which of its variables are statistics,
 * and pgconvert's match of tensors with variables gives their sizes. */
#include "base/try.h"
#include "pg/inspect.h"
#include "wrap/convert/convert.h"

static uint64_t n_elements(const pg__take *t)
{
    uint64_t n = 1;
    for (uint32_t d = 0; d < t->rank; d++)
        if (__builtin_mul_overflow(n, t->dims[d], &n))
            return UINT64_MAX;
    return n;
}

/* The tensors of the one-device model. */
static pg_status plan(pg__rewrite *r, pg_err *err)
{
    static const pg_unwrap_opts without_state = {.no_optimizer = 1};
    r->plan.src = r->s;
    return r->v.f.verdict == PG_V_WRAPPER ? pg__plan_unwrap(r, &without_state, err)
                                          : pg__plan_copy_of(&r->plan, r->s, err);
}

static pg_status count(pg_param_counts *out, pg__convert *c, pg_err *err)
{
    pg_status st = PG_OK;
    pg__slots s = {0};
    PG_TRY(plan(&c->r, err));
    PG_TRY(pg__convert_begin(c, err));
    if (!c->graph)
        goto done;
    PG_TRY(pg__fill_slots(&s, c, err));
    for (size_t i = 0; i < s.n; i++) {
        const pg__leaf *leaf = &s.leaves.v[s.v[i].leaf];
        if (leaf->trainable && !leaf->vars.known)
            goto done; /* a custom class may hold both kinds */
        *(leaf->trainable && s.v[i].trainable ? &out->trainable : &out->non_trainable) +=
            n_elements(&s.v[i].take);
    }
    out->known = 1;
done:
    pg__slots_fini(&s);
    return st;
}

pg_status pg_count_params(pg_param_counts *out, pg_store *s, pg_err *err)
{
    static const pg_convert_opts as_it_is = {.keep_keras1 = 1};
    static const pg_write_opts no_output = {.dry_run = 1};
    pg__convert c = {.o = &as_it_is, .target = PG_TO_H5};
    pg_param_counts counts = {0};
    pg_err why = {0};
    pg_status st = PG_OK;
    c.r = (pg__rewrite){.in = "", .s = s, .write = &no_output};
    PG_TRY(pg__judge(&c.r.v, s, err));
    const int described = pg_store_text(s, PG_TEXT_MODEL_CONFIG, NULL) ||
                          pg_store_text(s, PG_TEXT_METADATA, NULL); /* of safetensors */
    if (described && c.r.v.f.verdict != PG_V_DAMAGED)
        st = count(&counts, &c, &why);
    if (st == PG_E_NOMEM) {
        if (err)
            *err = why;
        goto done;
    }
    st = PG_OK;
    *out = counts.known ? counts : (pg_param_counts){0};
done:
    c.r.s = NULL; /* the caller's */
    pg__convert_fini(&c);
    return st;
}

/* zero_step.c - files of two steps in one folder: model_states says how many steps the job has made
 * and how many of them it skipped, an optimizer how many it has made itself. */
#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "format/zero_impl.h"

#define N_COMPARED 4096u /* elements, of the beginning of a weight */

static int64_t count_in(const pg__pickle *p, const char *key, int64_t otherwise)
{
    const pg__pk_value *v = pg__zero_root(p, key);
    return v && v->kind == PG_PK_INT && v->u.i >= 0 ? v->u.i : otherwise;
}

void pg__zero_read_step(pg__zero *z, const pg__pickle *p)
{
    const int64_t skipped = count_in(p, "skipped_steps", 0);
    z->saved_at = count_in(p, "global_steps", -1);
    z->updates = z->saved_at < skipped ? -1 : z->saved_at - skipped;
}

/* ---- the other ranks ---- */

static pg_status check_step(const pg__zero_reading *r, int64_t step, const char *name,
                            const char *first)
{
    const int64_t want = r->job->slices[0].saved_at;
    if (step < 0 || want < 0 || step == want)
        return PG_OK;
    return pg_fail(r->err, PG_E_FORMAT,
                   "%s: of another step: %lld, %s was saved at %lld; copy the files of one step",
                   PG_SHOW(name), (long long)step, first, (long long)want);
}

/* Nothing is taken from it unless it has frozen parameters, so it may be missing. */
static pg_status check_model(const pg__zero_reading *r, const char *name, const char *first)
{
    pg__pt_source f = {0};
    pg_err e = {0};
    pg_status st = pg__io_open_below(&f.io, r->folder, name, &e);
    const int gone = st == PG_E_IO && e.sys == ENOENT;
    if (st == PG_OK && (st = pg__pt_read_zip(&f, &e)) != PG_OK)
        pg_err_prefix(&e, PG_SHOW(name));
    if (st == PG_OK)
        st = check_step(r, count_in(&f.pickle, "global_steps", -1), name, first);
    else if (st == PG_E_FORMAT || gone) /* a damaged one says nothing */
        st = PG_OK;
    else
        st = pg__fail_as(r->err, &e);
    pg__zero_close(&f);
    return st;
}

pg_status pg__zero_check_models(pg__zero_reading *r)
{
    pg_status st = PG_OK;
    pg__str first = {0}, name = {0};
    const pg__zero *z = r->z;
    PG_TRY(pg__zero_model_name(&name, r, 0));
    PG_TRY(check_step(r, z->saved_at, name.s, "that of mp_rank_00"));
    PG_TRY(pg__str_puts(&first, name.s, r->err));
    for (uint64_t i = 1; z->stage == 3 && z->saved_at >= 0 && i < z->n_ranks; i++) {
        PG_TRY(pg__zero_model_name(&name, r, i));
        PG_TRY(check_model(r, name.s, first.s));
    }
done:
    pg__str_fini(&first);
    pg__str_fini(&name);
    return st;
}

/* ---- the module beside the optimizer ---- */

/* 1 if the masters, rounded to the type of the module, begin as it does. */
static pg_status agrees(int *out, const pg__zero_cut *c, const pg__zero_tensor *t,
                        const pg__zero *z, size_t at, pg_err *err)
{
    float master[N_COMPARED];
    uint16_t small[N_COMPARED];
    unsigned char own[N_COMPARED * sizeof(float)];
    pg_status st = PG_OK;
    const pg_weight *w = pg_store_weight(z->module, at);
    const size_t n = t->row.dims[0] < N_COMPARED ? (size_t)t->row.dims[0] : N_COMPARED;
    *out = 1;
    if (w->rank != t->rank || memcmp(w->dims, t->dims, sizeof w->dims) != 0 ||
        (w->dtype != PG_F32 && w->dtype != PG_F16 && w->dtype != PG_BF16))
        return PG_OK; /* is not told by this */
    const size_t n_bytes = n * pg_dtype_bytes(w->dtype);
    PG_TRY(pg__zero_row_read(c, &t->row, 0, master, n * sizeof *master, err));
    PG_TRY(pg_store_read(z->module, at, 0, own, n_bytes, err));
    if (w->dtype != PG_F32)
        pg__zero_round(small, master, n, w->dtype);
    *out = memcmp(w->dtype == PG_F32 ? (const void *)master : small, own, n_bytes) == 0;
done:
    return st;
}

pg_status pg__zero_check_module(const pg__zero_cut *c, const pg__zero *z, pg_err *err)
{
    int same = 1;
    if (z->updates < 0 || z->step < 0 || z->updates == z->step || !z->module)
        return PG_OK;
    for (size_t i = 0; i < c->n; i++) {
        const size_t at = pg__index_find(&z->in_module, c->v[i].name);
        const pg_status st = at == PG_NONE ? PG_OK : agrees(&same, c, &c->v[i], z, at, err);
        if (st != PG_OK)
            return st;
        if (!same)
            return pg_fail(err, PG_E_FORMAT,
                           "mp_rank_%02u_model_states.pt: of another step: its weights were "
                           "updated %lld times, those of optim_states %lld times; copy the files "
                           "of one step",
                           z->slice, (long long)z->updates, (long long)z->step);
    }
    return PG_OK;
}

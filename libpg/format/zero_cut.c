/* zero_cut.c - which elements of the ranks' flat parts are which parameter's, as DeepSpeed's
 * zero_to_fp32.py decides it.
 *
 * Stages 1 and 2: a group's parts, one after the other, hold the group's parameters, one after the
 * other, and padding. Stage 3: each parameter is cut into as many equal parts as there are ranks,
 * the last one padded; a rank's parts follow each other. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "format/zero.h"

static pg_status add_source(pg__zero_cut *c, pg__zero_source s, size_t *i, pg_err *err)
{
    if (pg__mem_grow(&c->sources, &c->cap_sources, c->n_sources + 1, sizeof s))
        return pg__nomem(err);
    *i = c->n_sources;
    c->sources[c->n_sources++] = s;
    return PG_OK;
}

/* Elements first ... first + n of `in`, a tensor of s, become the next of t. */
static pg_status add_run(pg__zero_cut *c, pg__tiled *t, size_t *cap, pg__zero_source in, uint64_t n,
                         pg_err *err)
{
    const pg__tile *last = t->n ? &t->v[t->n - 1] : NULL;
    pg__tile x = {.start = {last ? last->start[0] + last->size[0] : 0}, .size = {n}};
    if (n == 0)
        return PG_OK;
    const pg_status st = add_source(c, in, &x.source, err);
    if (st != PG_OK)
        return st;
    if (pg__mem_grow(&t->v, cap, t->n + 1, sizeof x))
        return pg__nomem(err);
    t->v[t->n++] = x;
    return PG_OK;
}

static pg__zero_tensor *add_tensor(pg__zero_cut *c, const char *name, pg_dtype dtype,
                                   uint32_t rank, const uint64_t *dims)
{
    if (pg__mem_grow(&c->v, &c->cap, c->n + 1, sizeof *c->v))
        return NULL;
    pg__zero_tensor *t = &c->v[c->n++];
    *t = (pg__zero_tensor){.name = name, .dtype = dtype, .rank = rank};
    memcpy(t->dims, dims, rank * sizeof *dims);
    t->tiled = (pg__tiled){.name = name, .elem = pg_dtype_bytes(dtype), .rank = 1, .dims = {1}};
    for (uint32_t k = 0; k < rank; k++)
        t->tiled.dims[0] *= dims[k];
    return t;
}

static pg_status too_short(const char *name, pg_err *err)
{
    return pg_fail(err, PG_E_FORMAT, "%s: the ranks' parts are too short for it", PG_SHOW(name));
}

/* ---- stages 1 and 2 ---- */

/* Takes the n elements from *at on of the parts of group g, one after the other. */
static pg_status take_row(pg__zero_cut *c, pg__zero_tensor *t, const pg__zero *z, size_t g,
                          uint64_t *at, uint64_t n, pg_err *err)
{
    pg_status st = PG_OK;
    size_t cap = 0;
    uint64_t begin = 0; /* of a rank's part, in the row */
    for (uint64_t r = 0; r < z->n_ranks && n; r++) {
        const uint64_t len = pg_store_weight(z->flat[r], g)->dims[0];
        if (*at < begin + len) {
            const uint64_t skip = *at - begin, have = len - skip < n ? len - skip : n;
            PG_TRY(add_run(c, &t->tiled, &cap, (pg__zero_source){z->flat[r], g, skip}, have, err));
            *at += have;
            n -= have;
        }
        begin += len;
    }
    if (n)
        st = too_short(t->name, err);
done:
    return st;
}

/* What is left of a group is padding: DeepSpeed aligns to twice the number of ranks. */
static pg_status check_rest(const pg__zero *z, size_t g, uint64_t used, pg_err *err)
{
    uint64_t all = 0;
    const uint64_t unit = 2 * z->n_ranks;
    for (uint64_t r = 0; r < z->n_ranks; r++)
        all += pg_store_weight(z->flat[r], g)->dims[0];
    if ((used + unit - 1) / unit != (all + unit - 1) / unit)
        return pg_fail(err, PG_E_FORMAT,
                       "group %zu: the ranks' parts hold %s elements, its parameters are %s", g,
                       PG_NUM(all), PG_NUM(used));
    return PG_OK;
}

static pg_status cut_rows(pg__zero_cut *c, const pg__zero *z, pg_err *err)
{
    pg_status st = PG_OK;
    for (size_t g = 0; g < z->n_groups; g++) {
        uint64_t at = 0;
        for (size_t i = 0; i < z->groups[g].n; i++) {
            const pg__zero_param *p = &z->groups[g].v[i];
            pg__zero_tensor *t = add_tensor(c, p->name, PG_F32, p->rank, p->dims);
            if (!t)
                return pg__nomem(err);
            PG_TRY(take_row(c, t, z, g, &at, p->n, err));
        }
        PG_TRY(check_rest(z, g, at, err));
    }
done:
    return st;
}

/* ---- stage 3 ---- */

/* Takes n elements from element `at` on of all groups of a rank, one after the other; less where
 * they end with padding that was not written. */
static pg_status take_of_rank(pg__zero_cut *c, pg__zero_tensor *t, size_t *cap, pg_store *s,
                              uint64_t at, uint64_t n, pg_err *err)
{
    pg_status st = PG_OK;
    uint64_t begin = 0;
    for (size_t g = 0; g < pg_store_n_weights(s) && n; g++) {
        const uint64_t len = pg_store_weight(s, g)->dims[0];
        if (at < begin + len) {
            const uint64_t skip = at - begin, have = len - skip < n ? len - skip : n;
            PG_TRY(add_run(c, &t->tiled, cap, (pg__zero_source){s, g, skip}, have, err));
            at += have;
            n -= have;
        }
        begin += len;
    }
    if (n)
        st = too_short(t->name, err);
done:
    return st;
}

static uint64_t held_by(pg_store *s)
{
    uint64_t n = 0;
    for (size_t g = 0; g < pg_store_n_weights(s); g++)
        n += pg_store_weight(s, g)->dims[0];
    return n;
}

static pg_status cut_parts(pg__zero_cut *c, const pg__zero *z, pg_err *err)
{
    pg_status st = PG_OK;
    uint64_t at = 0;
    for (size_t g = 0; g < z->n_groups; g++)
        for (size_t i = 0; i < z->groups[g].n; i++) {
            const pg__zero_param *p = &z->groups[g].v[i];
            const uint64_t part = p->n / z->n_ranks + (p->n % z->n_ranks != 0);
            pg__zero_tensor *t = add_tensor(c, p->name, PG_F32, p->rank, p->dims);
            uint64_t left = p->n;
            size_t cap = 0;
            if (!t)
                return pg__nomem(err);
            for (uint64_t r = 0; r < z->n_ranks && left; r++) {
                const uint64_t n = left < part ? left : part;
                PG_TRY(take_of_rank(c, t, &cap, z->flat[r], at, n, err));
                left -= n;
            }
            at += part;
        }
    for (uint64_t r = 0; r < z->n_ranks; r++)
        if (held_by(z->flat[r]) != at)
            PG_FAIL(PG_E_FORMAT, "rank %s holds %s elements, its parameters are %s", PG_NUM(r),
                    PG_NUM(held_by(z->flat[r])), PG_NUM(at));
done:
    return st;
}

/* ---- what is not trained ---- */

static size_t find(const pg_store *s, const char *name)
{
    for (size_t i = 0; s && i < pg_store_n_weights(s); i++)
        if (strcmp(pg_store_weight(s, i)->name, name) == 0)
            return i;
    return PG_NONE;
}

static pg_status cut_frozen(pg__zero_cut *c, const pg__zero *z, pg_err *err)
{
    pg_status st = PG_OK;
    for (size_t i = 0; i < z->frozen_params.n; i++) {
        const pg__zero_param *p = &z->frozen_params.v[i];
        pg__zero_tensor *t = NULL;
        uint64_t left = p->n;
        size_t cap = 0;
        for (uint64_t r = 0; r < z->n_ranks && left; r++) {
            pg_store *s = z->frozen[r];
            const size_t at = find(s, p->name);
            if (at == PG_NONE)
                PG_FAIL(PG_E_FORMAT, "%s: rank %s has no part of it", PG_SHOW(p->name), PG_NUM(r));
            const pg_weight *w = pg_store_weight(s, at);
            const uint64_t have = w->n_bytes / pg_dtype_bytes(w->dtype);
            if (!t && !(t = add_tensor(c, p->name, w->dtype, p->rank, p->dims)))
                return pg__nomem(err);
            if (w->dtype != t->dtype)
                PG_FAIL(PG_E_FORMAT, "%s: its parts are of different types", PG_SHOW(p->name));
            const uint64_t n = have < left ? have : left;
            PG_TRY(add_run(c, &t->tiled, &cap, (pg__zero_source){s, at, 0}, n, err));
            left -= n;
        }
        if (left)
            PG_FAIL(PG_E_FORMAT, "%s: its parts are too short", PG_SHOW(p->name));
    }
done:
    return st;
}

static pg_status cut_buffers(pg__zero_cut *c, const pg__zero *z, pg_err *err)
{
    pg_status st = PG_OK;
    for (size_t i = 0; i < z->buffers.n; i++) {
        const size_t at = find(z->module, z->buffers.v[i]);
        if (at == PG_NONE) /* a buffer that is not persistent */
            continue;
        const pg_weight *w = pg_store_weight(z->module, at);
        size_t cap = 0;
        pg__zero_tensor *t = add_tensor(c, w->name, w->dtype, w->rank, w->dims);
        if (!t)
            return pg__nomem(err);
        PG_TRY(add_run(c, &t->tiled, &cap, (pg__zero_source){z->module, at, 0}, t->tiled.dims[0],
                       err));
    }
done:
    return st;
}

/* ---- tied names, order ---- */

static int by_name(const void *a, const void *b)
{
    return strcmp(((const pg__zero_tensor *)a)->name, ((const pg__zero_tensor *)b)->name);
}

static pg_status add_ties(pg__zero_cut *c, const pg__zero *z, pg_err *err)
{
    for (size_t i = 0; i < z->n_ties; i++) {
        const pg__zero_tie *tie = &z->ties[i];
        size_t at = 0;
        while (at < c->n && strcmp(c->v[at].name, tie->of) != 0)
            at++;
        if (at == c->n)
            return pg_fail(err, PG_E_FORMAT, "%s shares the weights of %s, which is missing",
                           PG_SHOW(tie->name), PG_SHOW(tie->of));
        pg__zero_tensor *t =
            add_tensor(c, tie->name, c->v[at].dtype, c->v[at].rank, c->v[at].dims);
        pg__tile *copy = pg__mem_array(t ? c->v[at].tiled.n : 0, sizeof *copy);
        if (!t || !copy) {
            pg__mem_free(copy);
            return pg__nomem(err);
        }
        memcpy(copy, c->v[at].tiled.v, c->v[at].tiled.n * sizeof *copy);
        t->tiled.v = copy;
        t->tiled.n = c->v[at].tiled.n;
    }
    return PG_OK;
}

/* The order of the module; what it does not list comes last. */
static pg_status sort(pg__zero_cut *c, const pg__zero *z, pg_err *err)
{
    pg_status st = PG_OK;
    size_t n = 0;
    pg__zero_tensor *sorted = pg__mem_array(c->n, sizeof *sorted);
    unsigned char *used = pg__mem_array(c->n, 1);
    if (!sorted || !used)
        PG_TRY(pg__nomem(err));
    if (c->n)
        qsort(c->v, c->n, sizeof *c->v, by_name);
    for (size_t i = 1; i < c->n; i++)
        if (strcmp(c->v[i - 1].name, c->v[i].name) == 0)
            PG_FAIL(PG_E_FORMAT, "%s: two parameters have this name", PG_SHOW(c->v[i].name));
    for (size_t i = 0; i < z->names.n; i++) {
        const pg__zero_tensor key = {.name = z->names.v[i]};
        const pg__zero_tensor *t = c->n ? bsearch(&key, c->v, c->n, sizeof key, by_name) : NULL;
        if (!t || used[t - c->v])
            continue;
        used[t - c->v] = 1;
        sorted[n++] = *t;
    }
    for (size_t i = 0; i < c->n; i++)
        if (!used[i])
            sorted[n++] = c->v[i];
    pg__mem_free(c->v);
    c->v = sorted;
    c->cap = c->n;
    sorted = NULL;
done:
    pg__mem_free(sorted);
    pg__mem_free(used);
    return st;
}

pg_status pg__zero_cut_of(pg__zero_cut *out, const pg__zero *z, pg_err *err)
{
    pg_status st = PG_OK;
    pg__zero_cut c = {0};
    PG_TRY(z->stage == 3 ? cut_parts(&c, z, err) : cut_rows(&c, z, err));
    PG_TRY(cut_frozen(&c, z, err));
    PG_TRY(cut_buffers(&c, z, err));
    PG_TRY(add_ties(&c, z, err));
    for (size_t i = 0; i < c.n; i++)
        PG_TRY(pg__tiles_check(&c.v[i].tiled, err));
    PG_TRY(sort(&c, z, err));
    *out = c;
    c = (pg__zero_cut){0};
done:
    pg__zero_cut_fini(&c);
    return st;
}

void pg__zero_cut_fini(pg__zero_cut *c)
{
    for (size_t i = 0; i < c->n; i++)
        pg__mem_free(c->v[i].tiled.v);
    pg__mem_free(c->v);
    pg__mem_free(c->sources);
    *c = (pg__zero_cut){0};
}

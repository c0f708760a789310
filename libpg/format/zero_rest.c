/* zero_rest.c - what the optimizer does not hold: frozen parameters, buffers, tied names, experts
 * and layers with files of their own, and what else is in the module. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "format/pytorch_file.h"
#include "format/zero.h"
#include "store/store_impl.h"

/* ---- building blocks ---- */

static pg_status add_source(pg__zero_cut *c, pg__zero_source s, size_t *i, pg_err *err)
{
    if (pg__mem_grow(&c->sources, &c->cap_sources, c->n_sources + 1, sizeof s))
        return pg__nomem(err);
    *i = c->n_sources;
    c->sources[c->n_sources++] = s;
    return PG_OK;
}

pg_status pg__zero_add_run(pg__zero_cut *c, pg__zero_tensor *t, size_t *cap, pg__zero_source in,
                           uint64_t n, pg_err *err)
{
    pg__tiled *row = &t->row;
    const pg__tile *last = row->n ? &row->v[row->n - 1] : NULL;
    pg__tile x = {.start = {last ? last->start[0] + last->size[0] : 0}, .size = {n}};
    if (n == 0)
        return PG_OK;
    if (row->elem > 1 && pg__store_big_endian(in.s, in.tensor)) /* an array of NumPy */
        return pg_fail(err, PG_E_UNSUPPORTED, "%s: big-endian numbers in a ZeRO checkpoint",
                       PG_SHOW(t->name));
    const pg_status st = add_source(c, in, &x.source, err);
    if (st != PG_OK)
        return st;
    if (pg__mem_grow(&row->v, cap, row->n + 1, sizeof x))
        return pg__nomem(err);
    row->v[row->n++] = x;
    return PG_OK;
}

pg__zero_tensor *pg__zero_add(pg__zero_cut *c, const char *name, pg_dtype dtype, uint32_t rank,
                              const uint64_t *dims)
{
    if (pg__mem_grow(&c->v, &c->cap, c->n + 1, sizeof *c->v))
        return NULL;
    pg__zero_tensor *t = &c->v[c->n++];
    *t = (pg__zero_tensor){.name = name, .param = name, .dtype = dtype, .rank = rank};
    memcpy(t->dims, dims, rank * sizeof *dims);
    t->row = (pg__tiled){.name = name, .elem = pg_dtype_bytes(dtype), .rank = 1, .dims = {1}};
    for (uint32_t k = 0; k < rank; k++)
        t->row.dims[0] *= dims[k];
    return t;
}

pg_status pg__zero_add_whole(pg__zero_cut *c, pg_store *s, size_t i, const char *name, pg_err *err)
{
    const pg_weight *w = pg_store_weight(s, i);
    size_t cap = 0;
    pg__zero_tensor *t = pg__zero_add(c, name, w->dtype, w->rank, w->dims);
    if (!t)
        return pg__nomem(err);
    return pg__zero_add_run(c, t, &cap, (pg__zero_source){.s = s, .tensor = i}, t->row.dims[0],
                            err);
}

/* The tensors so far, by name. */
static pg_status index_of(pg__index *x, const pg__zero_cut *c, pg_err *err)
{
    pg_status st = PG_OK;
    pg__index_fini(x);
    for (size_t i = 0; st == PG_OK && i < c->n; i++)
        st = pg__index_add(x, c->v[i].name, i, err);
    pg__index_sort(x);
    return st;
}

/* ---- frozen parameters ---- */

/* A frozen parameter while it is made. */
typedef struct frozen {
    const pg__zero_param *p;
    pg__index *parts; /* by rank: its tensors */
    uint64_t n_parts; /* ranks that have one */
    size_t i, cap;    /* the tensor, PG_NONE before the first part */
} frozen;

/* The part of rank r; the tensor is made of the first. */
static pg_status add_part(pg__zero_cut *c, const pg__zero *z, frozen *x, uint64_t r, pg_err *err)
{
    const pg__zero_param *p = x->p;
    pg_store *s = z->frozen[r];
    const size_t at = pg__index_find(&x->parts[r], p->name);
    const uint64_t part = p->n / x->n_parts + (p->n % x->n_parts != 0), begin = r * part;
    if (at == PG_NONE)
        return pg_fail(err, PG_E_FORMAT, "%s: rank %s has no part of it", PG_SHOW(p->name),
                       PG_NUM(r));
    const pg_weight *w = pg_store_weight(s, at);
    const uint64_t have = w->n_bytes / pg_dtype_bytes(w->dtype);
    if (have != part)
        return pg_fail(err, PG_E_FORMAT, "%s: rank %s holds %s elements of it, not %s",
                       PG_SHOW(p->name), PG_NUM(r), PG_NUM(have), PG_NUM(part));
    if (x->i == PG_NONE) {
        if (!pg__zero_add(c, p->name, w->dtype, p->rank, p->dims))
            return pg__nomem(err);
        x->i = c->n - 1;
    }
    pg__zero_tensor *t = &c->v[x->i];
    if (w->dtype != t->dtype)
        return pg_fail(err, PG_E_FORMAT, "%s: its parts are of different types", PG_SHOW(p->name));
    const uint64_t left = begin < p->n ? p->n - begin : 0;
    return pg__zero_add_run(c, t, &x->cap, (pg__zero_source){.s = s, .tensor = at},
                            have < left ? have : left, err);
}

static pg_status add_frozen(pg__zero_cut *c, const pg__zero *z, pg_err *err)
{
    pg_status st = PG_OK;
    frozen x = {.n_parts = z->stage == 3 ? z->n_ranks : 1};
    x.parts = pg__mem_array((size_t)x.n_parts, sizeof *x.parts);
    if (!x.parts)
        return pg__nomem(err);
    for (uint64_t r = 0; r < x.n_parts; r++) {
        for (size_t i = 0; i < pg_store_n_weights(z->frozen[r]); i++)
            PG_TRY(pg__index_add(&x.parts[r], pg_store_weight(z->frozen[r], i)->name, i, err));
        pg__index_sort(&x.parts[r]);
    }
    for (size_t i = 0; i < z->frozen_params.n; i++) {
        x.p = &z->frozen_params.v[i];
        x.i = PG_NONE;
        x.cap = 0;
        for (uint64_t r = 0; r < x.n_parts; r++)
            PG_TRY(add_part(c, z, &x, r, err));
    }
done:
    for (uint64_t r = 0; r < x.n_parts; r++)
        pg__index_fini(&x.parts[r]);
    pg__mem_free(x.parts);
    return st;
}

/* ---- tied names ---- */

/* Another name of tensor `of`. */
static pg_status add_tie(pg__zero_cut *c, const char *name, size_t of, pg_err *err)
{
    const pg__zero_tensor x = c->v[of]; /* c->v grows */
    pg__tile *copy = pg__mem_array(x.row.n, sizeof *copy);
    pg__zero_tensor *t = copy ? pg__zero_add(c, name, x.dtype, x.rank, x.dims) : NULL;
    if (!t) {
        pg__mem_free(copy);
        return pg__nomem(err);
    }
    if (x.row.n)
        memcpy(copy, x.row.v, x.row.n * sizeof *copy);
    t->row.elem = x.row.elem;
    t->row.v = copy;
    t->row.n = x.row.n;
    return PG_OK;
}

static pg_status add_ties(pg__zero_cut *c, const pg__zero *z, pg_err *err)
{
    pg_status st = PG_OK;
    pg__index names = {0};
    PG_TRY(index_of(&names, c, err));
    for (size_t i = 0; i < z->n_ties; i++) {
        const pg__zero_tie *tie = &z->ties[i];
        const size_t of = pg__index_find(&names, tie->of);
        if (of == PG_NONE)
            PG_FAIL(PG_E_FORMAT, "%s shares the weights of %s, which is missing",
                    PG_SHOW(tie->name), PG_SHOW(tie->of));
        if (pg__index_find(&names, tie->name) == PG_NONE)
            PG_TRY(add_tie(c, tie->name, of, err));
    }
done:
    pg__index_fini(&names);
    return st;
}

/* ---- the module ---- */

static pg_status add_buffers(pg__zero_cut *c, const pg__zero *z, pg_err *err)
{
    pg_status st = PG_OK;
    for (size_t i = 0; st == PG_OK && i < z->buffers.n; i++) {
        const size_t at = pg__index_find(&z->in_module, z->buffers.v[i]);
        if (at != PG_NONE) /* else it is not persistent */
            st = pg__zero_add_whole(c, z->module, at, pg_store_weight(z->module, at)->name, err);
    }
    return st;
}

/* Where a parameter's tensor of the module is stored. */
typedef struct place {
    uint64_t member, at;
    const pg_weight *w;
    size_t i, param; /* of the module, and of the cut */
} place;

static int compare(const place *a, const place *b)
{
    if (a->member != b->member)
        return a->member < b->member ? -1 : 1;
    if (a->at != b->at)
        return a->at < b->at ? -1 : 1;
    if (a->w->dtype != b->w->dtype)
        return a->w->dtype < b->w->dtype ? -1 : 1;
    if (a->w->rank != b->w->rank)
        return a->w->rank < b->w->rank ? -1 : 1;
    return memcmp(a->w->dims, b->w->dims, sizeof a->w->dims);
}

static int by_place(const void *a, const void *b)
{
    const place *x = a, *y = b;
    const int c = compare(x, y);
    return c ? c : x->i < y->i ? -1 : x->i > y->i;
}

static int place_of(place *out, const pg__zero *z, size_t i)
{
    *out = (place){.w = pg_store_weight(z->module, i), .i = i};
    return out->w->n_bytes && pg__pt_place(z->module, i, &out->member, &out->at);
}

/* Of the module's tensors that are in `names`, sorted. */
static pg_status list_places(place **out, size_t *n, const pg__index *names, const pg__zero *z,
                             pg_err *err)
{
    const size_t all = pg_store_n_weights(z->module);
    *n = 0;
    *out = pg__mem_array(all, sizeof **out);
    if (!*out)
        return pg__nomem(err);
    for (size_t i = 0; i < all; i++) {
        place *x = &(*out)[*n];
        const size_t param = pg__index_find(names, pg_store_weight(z->module, i)->name);
        if (param == PG_NONE || !place_of(x, z, i))
            continue;
        x->param = param;
        ++*n;
    }
    if (*n)
        qsort(*out, *n, sizeof **out, by_place);
    return PG_OK;
}

/* A parameter under which tensor i of the module is stored too: before DeepSpeed 0.9 nothing else
 * says that names are tied. PG_NONE: no other. */
static size_t same_storage(const place *places, size_t n, const pg__zero *z, size_t i)
{
    place want;
    size_t lo = 0, hi = n;
    if (!place_of(&want, z, i))
        return PG_NONE;
    while (lo < hi) {
        const size_t mid = lo + (hi - lo) / 2;
        if (compare(&places[mid], &want) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < n && compare(&places[lo], &want) == 0 ? places[lo].param : PG_NONE;
}

/* What the module has besides: parameters that the optimizer was not given, and in stage 1 those
 * that are frozen. In stage 3 the module holds only what is not cut; of parameters it has the
 * names. sliced: it is one of several that are cut, and only zero/ has whole parameters. */
static pg_status add_others(pg__zero_cut *c, const pg__zero *z, int sliced, pg_err *err)
{
    pg_status st = PG_OK;
    pg__index names = {0};
    place *places = NULL;
    size_t n = 0;
    PG_TRY(index_of(&names, c, err));
    if (z->module && z->stage < 3)
        PG_TRY(list_places(&places, &n, &names, z, err));
    if (sliced && z->frozen_params.n)
        PG_FAIL(PG_E_UNSUPPORTED, "%s: frozen, and the ranks of tensor parallelism are not merged",
                PG_SHOW(z->frozen_params.v[0].name));
    for (size_t i = 0; z->module && i < pg_store_n_weights(z->module); i++) {
        const pg_weight *w = pg_store_weight(z->module, i);
        if (pg__index_find(&names, w->name) != PG_NONE)
            continue;
        if (z->stage == 3 && w->n_bytes == 0)
            PG_FAIL(PG_E_FORMAT, "%s is in the module, but no rank holds it", PG_SHOW(w->name));
        if (sliced)
            PG_FAIL(PG_E_UNSUPPORTED, "%s is in the module, but no folder of zero/ holds it",
                    PG_SHOW(w->name));
        const size_t of = same_storage(places, n, z, i);
        PG_TRY(of == PG_NONE ? pg__zero_add_whole(c, z->module, i, w->name, err)
                             : add_tie(c, w->name, of, err));
    }
done:
    pg__mem_free(places);
    pg__index_fini(&names);
    return st;
}

/* ---- experts, and layers of a pipeline ---- */

static pg_status add_extra(pg__zero_cut *c, const pg__index *names, const pg__zero_extra *x,
                           pg_err *err)
{
    pg_status st = PG_OK;
    for (size_t i = 0; x->s && i < pg_store_n_weights(x->s); i++) {
        PG_TRY(pg__strs_printf(&c->made, err, "%s%s", x->name, pg_store_weight(x->s, i)->name));
        const char *name = c->made.v[c->made.n - 1];
        if (pg__index_find(names, name) == PG_NONE)
            PG_TRY(pg__zero_add_whole(c, x->s, i, name, err));
    }
done:
    return st;
}

static pg_status add_extras(pg__zero_cut *c, const pg__zero_extra *v, size_t n, pg_err *err)
{
    pg_status st = PG_OK;
    pg__index names = {0};
    PG_TRY(index_of(&names, c, err));
    for (size_t i = 0; i < n; i++)
        PG_TRY(add_extra(c, &names, &v[i], err));
done:
    pg__index_fini(&names);
    return st;
}

pg_status pg__zero_add_rest(pg__zero_cut *c, const pg__zero_job *job, const pg__zero *z,
                            pg_err *err)
{
    pg_status st = PG_OK;
    if (job->what != PG_ZERO_TRAINED || z->stage == 3) {
        if (z->frozen)
            PG_TRY(add_frozen(c, z, err));
        PG_TRY(add_buffers(c, z, err));
        PG_TRY(add_ties(c, z, err));
    }
    const int sliced = z->universal && job->n_slices > 1 && job->what != PG_ZERO_TRAINED;
    PG_TRY(add_others(c, z, sliced, err));
    PG_TRY(add_extras(c, job->experts, job->n_experts, err));
done:
    return st;
}

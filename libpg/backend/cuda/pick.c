/* pick.c - see pick.h. */
#include "backend/cuda/pick.h"

#include <string.h>

#include "backend/cuda/cuda.h"
#include "base/mem.h"

#define RUNS 2 /* of each: the first one also loads its code */

struct pg__picked {
    uint64_t key[PG_PICK_NUMBERS];
    size_t n_key, way;
};

void pg__pick_add(pg__pick_case *c, const uint64_t *numbers, size_t n)
{
    c->is_too_long |= n > PG_PICK_NUMBERS - c->n_key;
    for (size_t k = 0; k < n && !c->is_too_long; k++)
        c->key[c->n_key++] = numbers[k];
}

void pg__picks_fini(pg__picks *p)
{
    pg__mem_free(p->v);
    *p = (pg__picks){0};
}

/* NULL: nothing is remembered of it. */
static struct pg__picked *entry_of(const pg__picks *p, const pg__pick_case *c)
{
    for (size_t k = 0; !c->is_too_long && k < p->n; k++)
        if (p->v[k].n_key == c->n_key &&
            memcmp(p->v[k].key, c->key, c->n_key * sizeof *c->key) == 0)
            return &p->v[k];
    return NULL;
}

size_t pg__picks_find(const pg__picks *p, const pg__pick_case *c)
{
    const struct pg__picked *e = entry_of(p, c);
    return e ? e->way : PG_PICK_NONE;
}

pg_status pg__picks_keep(pg__picks *p, const pg__pick_case *c, size_t way, pg_err *err)
{
    struct pg__picked *e = entry_of(p, c);
    if (e)
        e->way = way;
    if (e || c->is_too_long)
        return PG_OK;
    if (pg__mem_grow(&p->v, &p->cap, p->n + 1, sizeof *p->v) != 0)
        return pg__nomem(err);
    p->v[p->n] = (struct pg__picked){.n_key = c->n_key, .way = way};
    memcpy(p->v[p->n++].key, c->key, sizeof c->key);
    return PG_OK;
}

static void drop(const pg__ways *w, size_t k)
{
    if (w->drop && k != PG_PICK_NONE)
        w->drop(w->of, k);
}

/* The first that can be made. */
static pg_status first(size_t *chosen, const pg__ways *w, pg_err *err)
{
    pg_status st = PG_E_NO;
    size_t unused;
    for (size_t k = 0; k < w->n; k++) {
        st = w->make(w->of, k, &unused, err);
        *chosen = k;
        if (st != PG_E_NO)
            break;
    }
    return st;
}

/* ---- trials ---- */

typedef struct trial {
    const pg__ways *w;
    size_t k;
    void *arrays[PG_PICK_ARRAYS], *scratch;
} trial;

static pg_status run_one(void *of)
{
    const trial *t = of;
    return t->w->run(t->w->of, t->k, t->arrays, t->scratch);
}

/* Of way k, which is made; the device's failure is left as it was. */
static pg_status measure(double *seconds, pg__dev *d, trial *t, size_t scratch_bytes, pg_err *err)
{
    const pg_err before = d->failure;
    pg_status st = pg__rt_alloc(d->rt, &t->scratch, scratch_bytes, err);
    if (st != PG_OK)
        return st;
    for (int k = 0; st == PG_OK && k < RUNS; k++) {
        double now;
        st = pg__rt_time(d->rt, run_one, t, &now, err);
        *seconds = k == 0 || now < *seconds ? now : *seconds;
    }
    if (st != PG_OK && d->failure.code != before.code && err)
        *err = d->failure;
    d->failure = before;
    pg__rt_free(d->rt, t->scratch);
    return st;
}

/* One block of memory for all arrays. */
static pg_status alloc_arrays(pg__dev *d, const pg__pick_case *c, trial *t, void **mem)
{
    size_t at[PG_PICK_ARRAYS], n = 0;
    for (size_t k = 0; k < PG_PICK_ARRAYS; k++) {
        at[k] = n;
        if (__builtin_add_overflow(n, c->bytes[k], &n) || n > SIZE_MAX - 255)
            return PG_E_NOMEM;
        n = (n + 255) / 256 * 256;
    }
    const pg_status st = pg__rt_alloc(d->rt, mem, n, NULL);
    for (size_t k = 0; st == PG_OK && k < PG_PICK_ARRAYS; k++)
        t->arrays[k] = (char *)*mem + at[k];
    return st;
}

static pg_status fastest(size_t *chosen, pg__dev *d, const pg__ways *w, trial *t, pg_err *err)
{
    const double begun = pg__rt_now(d->rt);
    double best = 0, seconds = 0;
    size_t tried = 0, bytes;
    pg_status st = PG_E_NO;
    *chosen = PG_PICK_NONE;
    for (t->k = 0; t->k < w->n && tried < PG_PICK_WAYS; t->k++) {
        if (*chosen != PG_PICK_NONE &&
            d->picks.spent + pg__rt_now(d->rt) - begun >= PG_PICK_SECONDS)
            break;
        st = w->make(w->of, t->k, &bytes, err);
        if (st == PG_E_NO)
            continue;
        if (st != PG_OK)
            break;
        tried++;
        st = measure(&seconds, d, t, bytes, err);
        const int better = st == PG_OK && (*chosen == PG_PICK_NONE || seconds < best);
        drop(w, better ? *chosen : t->k);
        if (better) {
            *chosen = t->k;
            best = seconds;
        }
    }
    d->picks.spent += pg__rt_now(d->rt) - begun;
    return *chosen != PG_PICK_NONE ? PG_OK : st;
}

/* Without memory for trials, the first way is chosen. */
static pg_status by_time(size_t *chosen, pg__dev *d, const pg__pick_case *c, const pg__ways *w,
                         pg_err *err)
{
    trial t = {.w = w};
    void *mem = NULL;
    if (alloc_arrays(d, c, &t, &mem) != PG_OK)
        return first(chosen, w, err);
    const pg_status st = fastest(chosen, d, w, &t, err);
    pg__rt_free(d->rt, mem);
    if (st == PG_E_NOMEM)
        return first(chosen, w, err);
    return st == PG_E_DEVICE ? PG_E_NO : st; /* each of them was passed over */
}

pg_status pg__pick(size_t *chosen, pg__dev *d, const pg__pick_case *c, const pg__ways *w,
                   pg_err *err)
{
    const int tries = pg__cuda_tries(d) && w->n > 1 && d->rt != NULL;
    const size_t known = pg__picks_find(&d->picks, c);
    pg_err why = {.msg = "there is none"};
    size_t unused;
    *chosen = known;
    if (known < w->n && w->make(w->of, known, &unused, NULL) == PG_OK)
        return PG_OK;
    const pg_status st = tries && d->picks.spent < PG_PICK_SECONDS ? by_time(chosen, d, c, w, &why)
                                                                   : first(chosen, w, &why);
    if (st != PG_OK)
        return pg_fail(err, st, "%s", why.msg);
    (void)pg__picks_keep(&d->picks, c, *chosen, NULL); /* or the same one is tried again */
    return PG_OK;
}

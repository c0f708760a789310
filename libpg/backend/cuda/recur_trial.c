/* recur_trial.c - a recurrent layer by the library or by a loop of ours: both are run on the same
 * random numbers, forward and, where there is one, the gradient. The library is chosen if its
 * results equal ours up to rounding and it is faster; but never if equal runs must give equal bits,
 * because its manual does not promise them. */
#include <math.h>

#include "backend/cuda/recur_library.h"
#include "base/mem.h"
#include "base/try.h"
#include "ops/rnn_room.h"

enum { OURS, LIBRARY, N_WAYS };
enum { RECURRENCE = 2 }; /* beside the kinds of work.c */

#define RUNS 2

/* The largest difference by the largest number of a result. Sums are in float32 in any case;
 * numbers of 16 bits, and products of TF32, bring 8 or 10 bits. */
static double bound_of(const pg__recur *k)
{
    if (k->reals[KERNEL].type != PGK_F32)
        return 3e-2;
    return 1e-4;
}

/* A pass with memory of its own. */
typedef struct pass {
    pg__recur *k;
    struct pg__recur_library *library;
    const pg__cuda_inst *i;
    pg__needs needs;
    void *args[PG_RECUR_ARGS];
} pass;

typedef struct trial {
    pg__dev *d;
    pass forward, gradient; /* gradient.k NULL: there is none */
    pg__cuda_inst inst;     /* the gradient's */
    pg__dims *shapes;
    void *mem[2 * PG_RECUR_ARGS + 2];
    size_t n_mem;
    void *scratch, *floats; /* floats: for numbers of other types */
    float *numbers;         /* of the host, as many as the largest array has */
    float *kept;            /* ours, all results in a row */
    uint64_t seed;
} trial;

static uint32_t gradient_of(const pg__recur *k)
{
    const uint32_t kind = k->cell->kind;
    return kind == PG_OP_lstm  ? PG_OP_lstm_grad
           : kind == PG_OP_gru ? PG_OP_gru_grad
                               : PG_OP_rnn_grad;
}

/* The instruction whose states a gradient reads; NULL: it is not on this tape. */
static const pg__inst *forward_of(const pg__recur *k, const pg__cuda_inst *i)
{
    const pg__tape *t = i->tape;
    for (uint32_t at = 0; at < t->n_insts; at++) {
        const pg__inst *f = &t->insts[at];
        if (f->op->kind == k->cell->kind && pg__out(t, f, f->n_out - f->op->n_kept) ==
                                                pg__in(t, i->inst, (uint32_t)k->cell->states))
            return f;
    }
    return NULL;
}

/* *out: the gradient, NULL where nobody reads what the instruction keeps for one. 0: somebody else
 * does. */
static int find_gradient(const pg__recur *k, const pg__tape *t, const pg__inst *forward,
                         const pg__inst **out)
{
    *out = NULL;
    for (uint32_t at = 0; at < t->n_insts; at++)
        for (uint32_t v = 0; v < t->insts[at].n_in; v++)
            for (uint32_t kept = forward->n_out - forward->op->n_kept; kept < forward->n_out;
                 kept++) {
                if (pg__in(t, &t->insts[at], v) != pg__out(t, forward, kept))
                    continue;
                if (t->insts[at].op->kind != gradient_of(k) || (*out && *out != &t->insts[at]))
                    return 0;
                *out = &t->insts[at];
            }
    return 1;
}

/* ---- memory ---- */

static uint64_t elems(const pass *p, size_t v)
{
    return pg__cuda_n(p->i, v);
}

static pg_status take(trial *t, void **p, size_t n, pg_err *err)
{
    pg_status st = PG_OK;
    PG_TRY(pg__rt_alloc(t->d->rt, p, n, err));
    t->mem[t->n_mem++] = *p;
done:
    return st;
}

/* Numbers from -1 to 1; of the kernel such that states stay small. */
static pg_status fill(trial *t, const pass *p, size_t v, pg_err *err)
{
    const uint64_t n = elems(p, v);
    const float scale = v == KERNEL ? 1 / sqrtf((float)p->k->z.units) : 1;
    const int is_float = p->k->reals[v].type == PGK_F32;
    pg_status st = PG_OK;
    for (uint64_t i = 0; i < n; i++) {
        t->seed = t->seed * 6364136223846793005u + 1442695040888963407u;
        t->numbers[i] = scale * ((float)(t->seed >> 40) / 8388608.0f - 1);
    }
    PG_TRY(pg__rt_put(t->d->rt, is_float ? p->args[v] : t->floats, t->numbers,
                      (size_t)n * sizeof(float), err));
    PG_TRY(pg__rt_sync(t->d->rt, err));
    if (!is_float) {
        const pgk_rnn_turn a = {{t->floats, PGK_F32}, {p->args[v], p->k->reals[v].type}, 1, n};
        PG_TRY(PG_LAUNCH(t->d, rnn_turn, &a, n));
    }
done:
    return st;
}

static pg_status alloc_args(trial *t, pass *p, int shares, pg_err *err)
{
    const size_t n_in = p->k->n_in, read_end = p->k->cell->states;
    pg_status st = PG_OK;
    for (size_t v = 0; v < p->k->n_args; v++) {
        const pg__recur *f = t->forward.k;
        if (!pg__cuda_has(p->i, v))
            continue;
        if (shares && v < N_IN)
            p->args[v] = t->forward.args[v];
        else if (shares && v >= read_end && v < n_in)
            p->args[v] = t->forward.args[f->n_in + f->cell->states + v - read_end];
        if (p->args[v])
            continue;
        PG_TRY(take(t, &p->args[v], (size_t)elems(p, v) * sizeof(float), err));
        if (v < n_in)
            PG_TRY(fill(t, p, v, err));
    }
done:
    return st;
}

static uint64_t largest(const pass *p, uint64_t n)
{
    for (size_t v = 0; p->k && v < p->k->n_args; v++)
        n = elems(p, v) > n ? elems(p, v) : n;
    return n;
}

/* Results that both ways make: not what each keeps for itself. */
static size_t n_compared(const pass *p)
{
    const pg__recur_cell *c = p->k->cell;
    return (c->is_gradient ? (c->dc0 ? c->dc0 : c->dh0) : c->states) + 1;
}

/* For result v; the memory after the states belongs to the library. */
static uint64_t n_numbers(const pass *p, size_t v)
{
    const pgk_rnn_step *z = &p->k->z;
    const pg__recur_cell *c = p->k->cell;
    return !c->is_gradient && v == c->states ? z->rows * z->steps * z->units
                                             : elems(p, p->k->n_in + v);
}

static uint64_t all_numbers(const pass *p)
{
    uint64_t n = 0;
    for (size_t v = 0; p->k && v < n_compared(p); v++)
        n += n_numbers(p, v);
    return n;
}

static pg_status alloc_all(trial *t, pg_err *err)
{
    const size_t a = t->forward.needs.scratch_bytes, b = t->gradient.needs.scratch_bytes;
    const size_t n = (size_t)largest(&t->gradient, largest(&t->forward, 1));
    pg_status st = PG_OK;
    t->numbers = pg__mem_array(n, sizeof *t->numbers);
    t->kept = pg__mem_array((size_t)(all_numbers(&t->forward) + all_numbers(&t->gradient)),
                            sizeof *t->kept);
    if (!t->numbers || !t->kept)
        PG_TRY(pg__nomem(err));
    PG_TRY(take(t, &t->scratch, a > b ? a : b, err));
    PG_TRY(take(t, &t->floats, n * sizeof(float), err));
    PG_TRY(alloc_args(t, &t->forward, 0, err));
    if (t->gradient.k)
        PG_TRY(alloc_args(t, &t->gradient, 1, err));
done:
    return st;
}

/* ---- both ways ---- */

static pg_status run_both(void *of)
{
    trial *t = of;
    pass *f = &t->forward, *g = &t->gradient;
    pg_status st = PG_OK;
    PG_TRY(pg__recur_go(t->d, f->k, f->args, t->scratch, NULL));
    if (g->k)
        PG_TRY(pg__recur_go(t->d, g->k, g->args, t->scratch, NULL));
done:
    return st;
}

static pg_status fetch(trial *t, const pass *p, size_t result, pg_err *err)
{
    const size_t v = p->k->n_in + result;
    const uint64_t n = n_numbers(p, result);
    const pgk_real from = {p->args[v], p->k->reals[v].type};
    pg_status st = PG_OK;
    if (from.type != PGK_F32) {
        const pgk_rnn_turn a = {from, {t->floats, PGK_F32}, 1, n};
        PG_TRY(PG_LAUNCH(t->d, rnn_turn, &a, n));
    }
    PG_TRY(pg__rt_get(t->d->rt, t->numbers, from.type == PGK_F32 ? from.p : t->floats,
                      (size_t)n * sizeof(float), err));
    PG_TRY(pg__rt_sync(t->d->rt, err));
done:
    return st;
}

static int agree(const float *a, const float *b, uint64_t n, double bound)
{
    double most = 0, apart = 0;
    for (uint64_t i = 0; i < n; i++) {
        const double d = fabs((double)a[i] - (double)b[i]);
        most = fabs((double)a[i]) > most ? fabs((double)a[i]) : most;
        if (!isfinite(d))
            return 0;
        apart = d > apart ? d : apart;
    }
    return apart <= bound * most;
}

/* The gradient of an absent state is not a result. */
static int is_result(const pass *p, size_t v)
{
    const pg__recur_cell *c = p->k->cell;
    if (c->is_gradient && v == c->dh0 && !p->k->has_h0)
        return 0;
    if (c->is_gradient && c->dc0 && v == c->dc0 && !pg__cuda_has(p->i, C0))
        return 0;
    return p->args[p->k->n_in + v] != NULL;
}

/* Ours are kept, the library's are compared with them. */
static pg_status read_results(trial *t, const pass *p, int way, float **kept, int *agrees,
                              pg_err *err)
{
    double bound = bound_of(t->forward.k);
    pg_status st = PG_OK;
    if (t->d->opts.precision != PG_FLOAT32 && bound < 1e-2)
        bound = 1e-2;
    for (size_t v = 0; p->k && v < n_compared(p); v++) {
        const uint64_t n = n_numbers(p, v);
        if (!is_result(p, v))
            continue;
        PG_TRY(fetch(t, p, v, err));
        for (uint64_t i = 0; way == OURS && i < n; i++)
            (*kept)[i] = t->numbers[i];
        if (way == LIBRARY)
            *agrees &= agree(*kept, t->numbers, n, bound);
        *kept += n;
    }
done:
    return st;
}

/* A result that an implementation does not write must not show what another one left there. */
static pg_status clear(trial *t, const pass *p, pg_err *err)
{
    pg_status st = PG_OK;
    for (size_t v = p->k ? p->k->n_in : 0; p->k && v < p->k->n_args; v++)
        if (p->args[v])
            PG_TRY(pg__rt_clear(t->d->rt, p->args[v], (size_t)elems(p, v) * sizeof(float), err));
done:
    return st;
}

static pg_status try_ways(trial *t, int *better, pg_err *err)
{
    double seconds[N_WAYS] = {0};
    int agrees = 1;
    pg_status st = PG_OK;
    for (int way = OURS; way < N_WAYS; way++) {
        float *kept = t->kept;
        t->forward.k->library = way == OURS ? NULL : t->forward.library;
        if (t->gradient.k)
            t->gradient.k->library = way == OURS ? NULL : t->gradient.library;
        PG_TRY(clear(t, &t->forward, err));
        PG_TRY(clear(t, &t->gradient, err));
        for (int k = 0; k < RUNS; k++) {
            double now = 0;
            PG_TRY(pg__rt_time(t->d->rt, run_both, t, &now, err));
            seconds[way] = k == 0 || now < seconds[way] ? now : seconds[way];
        }
        PG_TRY(read_results(t, &t->forward, way, &kept, &agrees, err));
        PG_TRY(read_results(t, &t->gradient, way, &kept, &agrees, err));
    }
    *better = agrees && seconds[LIBRARY] < seconds[OURS];
done:
    t->forward.k->library = NULL;
    if (t->gradient.k)
        t->gradient.k->library = NULL;
    return st;
}

static pg_status open_gradient(trial *t, const pg__inst *inst, pg_err *err)
{
    pass *g = &t->gradient;
    void *state = NULL;
    pg_status st = PG_OK;
    PG_TRY(pg__cuda_shapes(&t->shapes, t->forward.i->tape, inst, err));
    t->inst = (pg__cuda_inst){.dev = t->d,
                              .tape = t->forward.i->tape,
                              .inst = inst,
                              .attrs = inst->attrs,
                              .shapes = t->shapes};
    g->i = &t->inst;
    PG_TRY(pg__cuda_op_of(inst->op)->prepare(&state, g->i, &g->needs, err));
    g->k = state;
    PG_TRY(pg__recur_library_new(&g->library, g->k, g->i, 1, &g->needs, err));
done:
    return st;
}

static void close_trial(trial *t)
{
    for (size_t k = 0; k < t->n_mem; k++)
        pg__rt_free(t->d->rt, t->mem[k]);
    pg__recur_library_free(t->gradient.library);
    pg__recur_release(t->gradient.k);
    pg__mem_free(t->shapes);
    pg__mem_free(t->numbers);
    pg__mem_free(t->kept);
}

/* If anything fails, ours is used. */
static int library_is_better(pg__recur *k, struct pg__recur_library *l, const pg__cuda_inst *i,
                             const pg__needs *needs, const pg__inst *gradient)
{
    pg__dev *d = i->dev;
    const pg_err before = d->failure;
    const double begun = pg__rt_now(d->rt);
    trial t = {.d = d,
               .forward = {.k = k, .library = l, .i = i, .needs = *needs},
               .seed = 0x9E3779B97F4A7C15u};
    int better = 0;
    pg_status st = gradient ? open_gradient(&t, gradient, NULL) : PG_OK;
    if (st == PG_OK)
        st = alloc_all(&t, NULL);
    if (st == PG_OK)
        st = try_ways(&t, &better, NULL);
    close_trial(&t);
    d->failure = before;
    d->picks.spent += pg__rt_now(d->rt) - begun;
    return st == PG_OK && better;
}

/* ---- the choice ---- */

/* Whether a library knows the layer at all was asked before. */
static pg__pick_case case_of(const pg__recur *k, const pg__cuda_inst *i, int trains)
{
    const pgk_rnn_step *z = &k->z;
    const uint64_t numbers[] = {RECURRENCE,
                                k->cell->kind,
                                z->rows,
                                z->steps,
                                z->units,
                                (uint64_t)z->attrs.act.kind,
                                (uint64_t)z->attrs.reverse,
                                (uint64_t)z->attrs.flip,
                                k->reals[KERNEL].type,
                                k->reals[ZX].type,
                                (uint64_t)k->has_h0,
                                k->reals[H0].type,
                                (uint64_t)pg__cuda_has(i, C0),
                                k->reals[C0].type,
                                (uint64_t)trains};
    pg__pick_case c = {.n_key = 0};
    pg__pick_add(&c, numbers, sizeof numbers / sizeof *numbers);
    return c;
}

/* An earlier choice holds for all of its kind: a gradient reads what its forward pass kept. */
static pg_status as_before(pg__recur *k, const pg__cuda_inst *i, int trains, pg__needs *needs,
                           pg_err *err)
{
    pg_err why = {0};
    const pg_status st = pg__recur_library_new(&k->library, k, i, trains, needs, &why);
    return st == PG_OK ? PG_OK : pg_fail(err, st == PG_E_NO ? PG_E_DEVICE : st, "%s", why.msg);
}

static pg_status choose_forward(pg__recur *k, const pg__cuda_inst *i, const pg__inst *gradient,
                                const pg__pick_case *c, pg__needs *needs, pg_err *err)
{
    pg__dev *d = i->dev;
    pg__needs with = *needs;
    struct pg__recur_library *l = NULL;
    pg_status st = pg__recur_library_new(&l, k, i, gradient != NULL, &with, NULL);
    const int better = st == PG_OK && library_is_better(k, l, i, &with, gradient);
    st = pg__picks_keep(&d->picks, c, better ? LIBRARY : OURS, err);
    if (st == PG_OK && better) {
        k->library = l;
        *needs = with;
        return PG_OK;
    }
    pg__recur_library_free(l);
    return st;
}

pg_status pg__recur_choose(pg__recur *k, const pg__cuda_inst *i, pg__needs *needs, pg_err *err)
{
    pg__dev *d = i->dev;
    const pg__inst *forward = k->cell->is_gradient ? forward_of(k, i) : i->inst, *gradient = NULL;
    if (!pg__cuda_tries(d) ||
        !pg__rnn_is_usual(k->cell->kind, &k->z.attrs, k->has_mask, k->z.n_factors > 0))
        return PG_OK;
    if (!forward || !find_gradient(k, i->tape, forward, &gradient))
        return PG_OK;
    const int trains = k->cell->is_gradient || gradient;
    const pg__pick_case c = case_of(k, i, trains);
    const size_t known = pg__picks_find(&d->picks, &c);
    if (known == LIBRARY)
        return as_before(k, i, trains, needs, err);
    if (known == OURS || k->cell->is_gradient || d->picks.spent >= PG_PICK_SECONDS)
        return PG_OK;
    return choose_forward(k, i, gradient, &c, needs, err);
}

/* attend_trial.c - attention by the library or by products and kernels of ours: both are run on the
 * same random numbers, forward and, where there is one, the gradient. The library is chosen if its
 * results equal ours up to rounding and it is faster; but only where trials are asked for, and
 * never if equal runs must give equal bits, because it may add in any order. */
#include <math.h>

#include "backend/cuda/attend_library.h"
#include "base/mem.h"
#include "base/try.h"

enum { OURS, LIBRARY, N_WAYS };
enum { ATTENTION = 3 }; /* beside the kinds of work.c and RECURRENCE */

#define RUNS 2
#define BOUND                                                                           \
    3e-2 /* the largest difference by the largest number: 8 bits, several times rounded \
          */

/* A pass with memory of its own. */
typedef struct pass {
    const pg__cuda_op *op;
    const pg__cuda_inst *i; /* NULL: there is no such pass */
    const void *ours;
    pg__attend_library *library;
    pg__needs needs;
    void *args[PG_ATTEND_ARGS];
} pass;

typedef struct trial {
    pg__dev *d;
    pass forward, gradient;
    pg__cuda_inst inst; /* the gradient's */
    pg__dims *shapes;
    void *made; /* the gradient as ours */
    int way;
    void *mem[2 * PG_ATTEND_ARGS + 2];
    size_t n_mem;
    void *scratch, *floats; /* floats: for numbers of other types */
    float *numbers;         /* of the host, as many as the largest array has */
    float *kept;            /* ours, all results in a row */
    uint64_t seed;
} trial;

/* ---- who reads what ---- */

/* The instruction whose probabilities a gradient reads; NULL: it is not on this tape. */
static const pg__inst *forward_of(const pg__cuda_inst *i)
{
    const pg__tape *t = i->tape;
    if (i->inst->op->kind == PG_OP_attention)
        return i->inst;
    for (uint32_t at = 0; at < t->n_insts; at++)
        if (t->insts[at].op->kind == PG_OP_attention &&
            pg__out(t, &t->insts[at], 1) == pg__in(t, i->inst, PG_ATTEND_G_P))
            return &t->insts[at];
    return NULL;
}

/* *out: the gradient, NULL where nobody reads the probabilities. 0: somebody else does. */
static int find_gradient(const pg__tape *t, const pg__inst *forward, const pg__inst **out)
{
    const pg__val p = pg__out(t, forward, 1);
    *out = NULL;
    for (uint32_t at = 0; at < t->n_insts; at++)
        for (uint32_t v = 0; v < t->insts[at].n_in; v++) {
            if (pg__in(t, &t->insts[at], v) != p)
                continue;
            if (t->insts[at].op->kind != PG_OP_attention_grad || v != PG_ATTEND_G_P ||
                pg__in(t, &t->insts[at], PG_ATTEND_G_DP) != PG_NO_VAL || *out)
                return 0;
            *out = &t->insts[at];
        }
    return 1;
}

/* ---- memory ---- */

static size_t n_args(const pass *p)
{
    return p->i ? (size_t)p->i->inst->n_in + p->i->inst->n_out : 0;
}

static pg_status take(trial *t, void **p, size_t n, pg_err *err)
{
    pg_status st = PG_OK;
    PG_TRY(pg__rt_alloc(t->d->rt, p, n, err));
    t->mem[t->n_mem++] = *p;
done:
    return st;
}

/* Numbers from -1 to 1. Of masks, three in four are 1, and what belongs to the last row is 0: a
 * library has to know what attends to nothing. Of factors as many are 0, as dropout leaves them. */
static void draw(trial *t, const pass *p, size_t v)
{
    const uint64_t n = pg__cuda_n(p->i, v), rows = p->i->shapes[v].d[0];
    const int is_gradient = p->i->inst->op->kind == PG_OP_attention_grad;
    const int is_mask = !is_gradient && v >= PG_ATTEND_Q_MASK && v <= PG_ATTEND_MASK;
    const int is_factor = !is_gradient && v == PG_ATTEND_FACTORS;
    for (uint64_t k = 0; k < n; k++) {
        t->seed = t->seed * 6364136223846793005u + 1442695040888963407u;
        const float x = (float)(t->seed >> 40) / 8388608.0f - 1;
        t->numbers[k] = is_mask     ? (float)(x > -0.5f && (rows == 1 || k < n - n / rows))
                        : is_factor ? (x > -0.5f ? 1.25f : 0)
                                    : x;
    }
}

static pg_status fill(trial *t, const pass *p, size_t v, pg_err *err)
{
    const uint64_t n = pg__cuda_n(p->i, v);
    const pgk_type type = pg__cuda_real(p->i, v).type;
    pg_status st = PG_OK;
    draw(t, p, v);
    PG_TRY(pg__rt_put(t->d->rt, type == PGK_F32 ? p->args[v] : t->floats, t->numbers,
                      (size_t)n * sizeof(float), err));
    PG_TRY(pg__rt_sync(t->d->rt, err));
    if (type != PGK_F32) {
        const pgk_rnn_turn a = {{t->floats, PGK_F32}, {p->args[v], type}, 1, n};
        PG_TRY(PG_LAUNCH(t->d, rnn_turn, &a, n));
    }
done:
    return st;
}

/* A gradient shares operands with its forward pass. */
static pg_status alloc_args(trial *t, pass *p, pg_err *err)
{
    void *const *f = t->forward.args;
    pg_status st = PG_OK;
    if (p == &t->gradient) {
        for (size_t v = 0; v <= PG_ATTEND_V; v++)
            p->args[v] = f[v];
        p->args[PG_ATTEND_G_FACTORS] = f[PG_ATTEND_FACTORS];
        p->args[PG_ATTEND_G_P] = f[PG_ATTEND_P];
    }
    for (size_t v = 0; v < n_args(p); v++) {
        if (!pg__cuda_has(p->i, v) || p->args[v])
            continue;
        PG_TRY(take(t, &p->args[v], (size_t)pg__cuda_n(p->i, v) * sizeof(float), err));
        if (v < p->i->inst->n_in)
            PG_TRY(fill(t, p, v, err));
    }
done:
    return st;
}

static uint64_t largest(const pass *p, uint64_t n)
{
    for (size_t v = 0; v < n_args(p); v++)
        n = pg__cuda_n(p->i, v) > n ? pg__cuda_n(p->i, v) : n;
    return n;
}

/* Results that both ways make: not what each keeps for itself. */
static size_t n_compared(const pass *p)
{
    return p->i ? p->i->inst->n_out - p->i->inst->op->n_kept : 0;
}

static uint64_t all_numbers(const pass *p)
{
    uint64_t n = 0;
    for (size_t v = 0; v < n_compared(p); v++)
        n += pg__cuda_n(p->i, p->i->inst->n_in + v);
    return n;
}

static pg_status alloc_all(trial *t, const pg__needs *with, pg_err *err)
{
    const size_t n = (size_t)largest(&t->gradient, largest(&t->forward, 1));
    size_t scratch = with->scratch_bytes;
    pg_status st = PG_OK;
    if (t->forward.needs.scratch_bytes > scratch)
        scratch = t->forward.needs.scratch_bytes;
    if (t->gradient.needs.scratch_bytes > scratch)
        scratch = t->gradient.needs.scratch_bytes;
    t->numbers = pg__mem_array(n, sizeof *t->numbers);
    t->kept = pg__mem_array((size_t)(all_numbers(&t->forward) + all_numbers(&t->gradient)),
                            sizeof *t->kept);
    if (!t->numbers || !t->kept)
        PG_TRY(pg__nomem(err));
    PG_TRY(take(t, &t->scratch, scratch, err));
    PG_TRY(take(t, &t->floats, n * sizeof(float), err));
    PG_TRY(alloc_args(t, &t->forward, err));
    PG_TRY(alloc_args(t, &t->gradient, err));
done:
    return st;
}

/* ---- both ways ---- */

static pg_status run_pass(trial *t, const pass *p)
{
    if (!p->i)
        return PG_OK;
    return t->way == LIBRARY ? pg__attend_library_run(t->d, p->library, p->args, t->scratch)
                             : p->op->run(t->d, p->ours, p->args, t->scratch, NULL);
}

static pg_status run_both(void *of)
{
    trial *t = of;
    pg_status st = PG_OK;
    PG_TRY(run_pass(t, &t->forward));
    PG_TRY(run_pass(t, &t->gradient));
done:
    return st;
}

static pg_status fetch(trial *t, const pass *p, size_t v, pg_err *err)
{
    const uint64_t n = pg__cuda_n(p->i, v);
    const pgk_real from = {p->args[v], pg__cuda_real(p->i, v).type};
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

static int agree(const float *a, const float *b, uint64_t n)
{
    double most = 0, apart = 0;
    for (uint64_t i = 0; i < n; i++) {
        const double d = fabs((double)a[i] - (double)b[i]);
        most = fabs((double)a[i]) > most ? fabs((double)a[i]) : most;
        if (!isfinite(d))
            return 0;
        apart = d > apart ? d : apart;
    }
    return apart <= BOUND * most;
}

/* Ours are kept, the library's are compared with them. */
static pg_status read_results(trial *t, const pass *p, float **kept, int *agrees, pg_err *err)
{
    pg_status st = PG_OK;
    for (size_t k = 0; k < n_compared(p); k++) {
        const size_t v = p->i->inst->n_in + k;
        const uint64_t n = pg__cuda_n(p->i, v);
        PG_TRY(fetch(t, p, v, err));
        for (uint64_t i = 0; t->way == OURS && i < n; i++)
            (*kept)[i] = t->numbers[i];
        if (t->way == LIBRARY)
            *agrees &= agree(*kept, t->numbers, n);
        *kept += n;
    }
done:
    return st;
}

/* A result that an implementation does not write must not show what another one left there. */
static pg_status clear(trial *t, const pass *p, pg_err *err)
{
    pg_status st = PG_OK;
    for (size_t v = p->i ? p->i->inst->n_in : 0; v < n_args(p); v++)
        PG_TRY(
            pg__rt_clear(t->d->rt, p->args[v], (size_t)pg__cuda_n(p->i, v) * sizeof(float), err));
done:
    return st;
}

static pg_status try_ways(trial *t, int *better, pg_err *err)
{
    double seconds[N_WAYS] = {0};
    int agrees = 1;
    pg_status st = PG_OK;
    for (t->way = OURS; t->way < N_WAYS; t->way++) {
        float *kept = t->kept;
        PG_TRY(clear(t, &t->forward, err));
        PG_TRY(clear(t, &t->gradient, err));
        for (int k = 0; k < RUNS; k++) {
            double now = 0;
            PG_TRY(pg__rt_time(t->d->rt, run_both, t, &now, err));
            seconds[t->way] = k == 0 || now < seconds[t->way] ? now : seconds[t->way];
        }
        PG_TRY(read_results(t, &t->forward, &kept, &agrees, err));
        PG_TRY(read_results(t, &t->gradient, &kept, &agrees, err));
    }
    *better = agrees && seconds[LIBRARY] < seconds[OURS];
done:
    return st;
}

static pg_status open_gradient(trial *t, const pg__inst *gradient, const pg__inst *forward,
                               pg_err *err)
{
    pass *g = &t->gradient;
    pg__needs ours = {0}, with = {0};
    pg_status st = PG_OK;
    PG_TRY(pg__cuda_shapes(&t->shapes, t->forward.i->tape, gradient, err));
    t->inst = (pg__cuda_inst){.dev = t->d,
                              .tape = t->forward.i->tape,
                              .inst = gradient,
                              .attrs = gradient->attrs,
                              .shapes = t->shapes};
    g->op = pg__cuda_op_of(gradient->op);
    PG_TRY(pg__attend_library_new(&g->library, &t->inst, forward, 1, &with, err));
    PG_TRY(g->op->prepare(&t->made, &t->inst, &ours, err));
    g->ours = t->made;
    g->needs = ours.scratch_bytes > with.scratch_bytes ? ours : with;
    g->i = &t->inst;
done:
    return st;
}

static void close_trial(trial *t)
{
    for (size_t k = 0; k < t->n_mem; k++)
        pg__rt_free(t->d->rt, t->mem[k]);
    if (t->made)
        t->gradient.op->release(t->made);
    pg__attend_library_free(t->gradient.library);
    pg__mem_free(t->shapes);
    pg__mem_free(t->numbers);
    pg__mem_free(t->kept);
}

/* needs: of ours; with: of the library. If anything fails, ours is used. */
static int library_is_better(const pg__cuda_inst *i, const void *ours, pg__attend_library *l,
                             const pg__needs *needs, const pg__needs *with,
                             const pg__inst *gradient)
{
    pg__dev *d = i->dev;
    trial t = {.d = d,
               .forward = {.op = pg__cuda_op_of(i->inst->op),
                           .i = i,
                           .ours = ours,
                           .library = l,
                           .needs = *needs},
               .seed = 0x9E3779B97F4A7C15u};
    int better = 0;
    pg_status st = gradient ? open_gradient(&t, gradient, i->inst, NULL) : PG_OK;
    if (st == PG_OK)
        st = alloc_all(&t, with, NULL);
    if (st == PG_OK)
        st = try_ways(&t, &better, NULL);
    close_trial(&t);
    return st == PG_OK && better;
}

/* ---- the choice ---- */

static pg__pick_case case_of(const pg__cuda_inst *i, const pg__inst *forward,
                             const pg__inst *gradient)
{
    const pg__tape *t = i->tape;
    const pg__attention_attrs *attrs = forward->attrs;
    uint64_t kind[] = {ATTENTION, attrs->heads, (uint64_t)attrs->causal, gradient != NULL};
    pg__pick_case c = {.n_key = 0};
    for (size_t k = 0; gradient && k < 3; k++)
        kind[3] |= (uint64_t)pg__attend_is_read(t, pg__out(t, gradient, k)) << (k + 1);
    pg__pick_add(&c, kind, sizeof kind / sizeof *kind);
    for (size_t k = 0; k < forward->n_in; k++) {
        const pg__val v = pg__in(t, forward, k);
        const pg__value *value = v == PG_NO_VAL ? NULL : &t->values[v];
        const uint64_t about[] = {value ? value->shape.rank + 1 : 0, value ? value->elem : 0};
        pg__pick_add(&c, about, 2);
        if (value)
            pg__pick_add(&c, value->shape.d, value->shape.rank);
    }
    return c;
}

/* 0: it goes our way, whatever was chosen. */
static int is_asked(const pg__cuda_inst *i, const pg__inst **forward, const pg__inst **gradient)
{
    *forward = NULL;
    if (!pg__cuda_tries(i->dev) || pg__cuda_real(i, PG_ATTEND_Q).type == PGK_F32)
        return 0;
    *forward = forward_of(i);
    return *forward && find_gradient(i->tape, *forward, gradient);
}

/* What was said before holds for all of its kind: a gradient reads what its forward pass kept. */
pg_status pg__attend_known(pg__attend_library **out, const pg__cuda_inst *i, pg__needs *needs,
                           pg_err *err)
{
    const pg__inst *forward, *gradient;
    pg_err why = {0};
    if (!is_asked(i, &forward, &gradient))
        return PG_OK;
    const pg__pick_case c = case_of(i, forward, gradient);
    if (pg__picks_find(&i->dev->picks, &c) != LIBRARY)
        return PG_OK;
    const pg_status st = pg__attend_library_new(out, i, forward, gradient != NULL, needs, &why);
    return st == PG_OK ? PG_OK : pg_fail(err, st == PG_E_NO ? PG_E_DEVICE : st, "%s", why.msg);
}

pg_status pg__attend_choose(pg__attend_library **out, const pg__cuda_inst *i, const void *ours,
                            const pg__needs *before, pg__needs *needs, pg_err *err)
{
    pg__dev *d = i->dev;
    const pg__inst *forward, *gradient;
    const pg_err failure = d->failure;
    pg__attend_library *l = NULL;
    pg__needs with = *before;
    int better = 0;
    if (!is_asked(i, &forward, &gradient) || d->picks.spent >= PG_PICK_SECONDS)
        return PG_OK;
    const pg__pick_case c = case_of(i, forward, gradient);
    if (c.is_too_long || pg__picks_find(&d->picks, &c) != PG_PICK_NONE)
        return PG_OK; /* a choice that is not remembered cannot be passed on to the gradient */
    const double begun = pg__rt_now(d->rt);
    if (pg__attend_library_new(&l, i, forward, gradient != NULL, &with, NULL) == PG_OK)
        better = library_is_better(i, ours, l, needs, &with, gradient);
    d->failure = failure;
    d->picks.spent += pg__rt_now(d->rt) - begun;
    const pg_status st = pg__picks_keep(&d->picks, &c, better ? LIBRARY : OURS, err);
    if (st == PG_OK && better) {
        *out = l;
        *needs = with;
        return PG_OK;
    }
    pg__attend_library_free(l);
    return st;
}

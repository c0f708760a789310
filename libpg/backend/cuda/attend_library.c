/* attend_library.c - see attend_library.h. */
#include "backend/cuda/attend_library.h"

#include <limits.h>

#include "backend/cuda/kernel_copy.h"
#include "base/mem.h"
#include "base/try.h"

enum { Q, K, V, MASK = PG_ATTEND_MASK, FACTORS = PG_ATTEND_FACTORS };

#define UNIT 8u /* numbers that the library moves at once */

struct pg__attend_library {
    pg__dnn_attend shape;
    pg__dnn_attend_plan *plan;
    pgk_attend masks; /* forward, without addresses */
    pgk_type types[PG_ATTEND_ARGS];
    size_t stats, bias, keep; /* in the memory of the probabilities */
    size_t work, spare;       /* in scratch; spare: for gradients that nobody reads */
};

pgk_attend pg__attend_masks(const pg__cuda_inst *i)
{
    const pg__attention_attrs *attrs = i->attrs;
    const pg__dims *d = &i->shapes[MASK];
    pgk_attend a = {.heads = attrs->heads,
                    .t = i->shapes[Q].d[1],
                    .n = i->shapes[V].d[1],
                    .causal = attrs->causal};
    uint64_t by = 1;
    if (!pg__cuda_has(i, MASK))
        return a;
    for (uint32_t k = d->rank; k-- > 0;) {
        const uint32_t axis = k == 0 ? 0 : k + 4 - d->rank; /* without heads, the mask has three */
        a.mask_by[axis] = d->d[k] > 1 ? by : 0;
        by *= d->d[k];
    }
    return a;
}

/* ---- preparing ---- */

static int has_mask(const pg__tape *t, const pg__inst *forward)
{
    for (size_t k = PG_ATTEND_Q_MASK; k <= MASK; k++)
        if (pg__in(t, forward, k) != PG_NO_VAL)
            return 1;
    return 0;
}

static pg__dnn_attend shape_of(const pg__cuda_inst *i, const pg__inst *forward, int trains)
{
    const pg__attention_attrs *attrs = i->attrs;
    const int is_gradient = i->inst != forward, masked = has_mask(i->tape, forward);
    const size_t factors = is_gradient ? (size_t)PG_ATTEND_G_FACTORS : (size_t)FACTORS;
    const pg__dims *q = &i->shapes[Q], *v = &i->shapes[V];
    return (pg__dnn_attend){.rows = q->d[0],
                            .heads = attrs->heads,
                            .t = q->d[1],
                            .s = v->d[1],
                            .a = q->d[2] / attrs->heads,
                            .b = v->d[2] / attrs->heads,
                            .scale = (float)attrs->scale,
                            .causal = attrs->causal && !masked, /* else it is one of the masks */
                            .masked = masked,
                            .has_factors = pg__cuda_has(i, factors),
                            .trains = trains,
                            .gradient = is_gradient,
                            .type = pg__cuda_real(i, Q).type,
                            .factor_type = pg__cuda_real(i, factors).type};
}

/* A mask that differs from head to head would be as large as the scores. */
static int is_covered(const pg__cuda_inst *i, const pg__inst *forward, const pg__dnn_attend *a)
{
    const pg__val mask = pg__in(i->tape, forward, MASK);
    const pg__dims *m = mask == PG_NO_VAL ? NULL : &i->tape->values[mask].shape;
    const uint64_t all = a->rows | a->heads | a->t | a->s | a->a | a->b;
    if (m && m->rank == 4 && m->d[1] > 1)
        return 0;
    if ((a->masked || a->has_factors) && a->s % UNIT != 0) /* rows that it reads begin anywhere */
        return 0;
    if (a->gradient && (!pg__cuda_has(i, PG_ATTEND_G_DY) || pg__cuda_has(i, PG_ATTEND_G_DP)))
        return 0;
    return a->type != PGK_F32 && all < INT_MAX && a->a % UNIT == 0 && a->b % UNIT == 0 &&
           a->a > 0 && a->b > 0 && a->rows > 0 && a->t > 0 && a->s > 0;
}

static size_t behind(size_t *at, uint64_t bytes)
{
    const size_t here = *at;
    *at = (here + (size_t)bytes + 255) / 256 * 256;
    return here;
}

/* Lays out what is kept; returns whether there is enough memory. */
static int has_room(pg__attend_library *l)
{
    const pg__dnn_attend *a = &l->shape;
    const uint64_t lines = a->rows * a->heads * a->t;
    size_t at = 0;
    if (a->trains) {
        (void)behind(&at, pgk_bytes(a->type, lines * a->b));
        l->stats = behind(&at, lines * sizeof(float));
    }
    if (a->masked) {
        l->bias = behind(&at, pgk_bytes(a->type, a->rows * a->t * a->s));
        l->keep = behind(&at, a->rows * a->t * sizeof(float));
    }
    return at <= pgk_bytes(a->type, lines * a->s);
}

int pg__attend_is_read(const pg__tape *t, pg__val v)
{
    for (uint32_t at = 0; at < t->n_insts; at++)
        for (uint32_t k = 0; k < t->insts[at].n_in; k++)
            if (pg__in(t, &t->insts[at], k) == v)
                return 1;
    for (pg__val of = 0; of < t->n_values; of++)
        if (t->values[of].role == PG_PARAM && t->values[of].grad == v)
            return 1;
    return 0;
}

static size_t spare_bytes(const pg__attend_library *l, const pg__cuda_inst *i)
{
    size_t n = 0;
    for (size_t k = 0; l->shape.gradient && k < 3; k++) {
        const size_t bytes = pgk_bytes(l->shape.type, pg__cuda_n(i, k));
        if (!pg__attend_is_read(i->tape, pg__out(i->tape, i->inst, k)) && bytes > n)
            n = bytes;
    }
    return n;
}

/* A run needs no more memory than the scores in float32, which our implementation needs. */
static pg_status reserve(pg__attend_library *l, const pg__cuda_inst *i, pg__needs *needs,
                         pg_err *err)
{
    const pg__dnn_attend *a = &l->shape;
    const size_t most = pgk_bytes(PGK_F32, a->rows * a->heads * a->t * a->s);
    const size_t spare = spare_bytes(l, i);
    size_t work = 0;
    pg_status st = PG_OK;
    if (spare > most)
        PG_FAIL(PG_E_NO, "there is no room for gradients that nobody reads");
    PG_TRY(pg__dnn_attend_new(&l->plan, i->dev, a, most - spare, &work, err));
    l->work = pg__cuda_reserve(needs, work);
    l->spare = pg__cuda_reserve(needs, spare);
done:
    return st;
}

pg_status pg__attend_library_new(pg__attend_library **out, const pg__cuda_inst *i,
                                 const pg__inst *forward, int trains, pg__needs *needs, pg_err *err)
{
    pg__attend_library *l = pg__mem_array(1, sizeof *l);
    pg_status st = PG_OK;
    if (!l)
        return pg__nomem(err);
    l->shape = shape_of(i, forward, trains);
    if (!is_covered(i, forward, &l->shape) || !has_room(l))
        PG_FAIL(PG_E_NO, "this attention is not one that a library does");
    if (!l->shape.gradient)
        l->masks = pg__attend_masks(i);
    for (size_t k = 0; k < PG_ATTEND_ARGS; k++)
        l->types[k] = pg__cuda_real(i, k).type;
    PG_TRY(reserve(l, i, needs, err));
    *out = l;
    l = NULL;
done:
    pg__attend_library_free(l);
    return st;
}

void pg__attend_library_free(pg__attend_library *l)
{
    if (!l)
        return;
    pg__dnn_attend_free(l->plan);
    pg__mem_free(l);
}

/* ---- running ---- */

/* What is kept at p. */
static pg__dnn_attend_io kept(const pg__attend_library *l, void *p, void *const *args,
                              void *scratch)
{
    pg__dnn_attend_io io = {
        .q = args[Q], .k = args[K], .v = args[V], .work = (char *)scratch + l->work};
    if (l->shape.trains) {
        io.y = p;
        io.stats = (float *)(void *)((char *)p + l->stats);
    }
    if (l->shape.masked) {
        io.bias = (char *)p + l->bias;
        io.keep = (float *)(void *)((char *)p + l->keep);
    }
    return io;
}

static pgk_real real_of(const pg__attend_library *l, void *const *args, size_t k)
{
    return (pgk_real){args[k], l->types[k]};
}

static pg_status make_masks(pg__dev *d, const pg__attend_library *l, void *const *args,
                            const pg__dnn_attend_io *io)
{
    pgk_attend_masks a = {.of = l->masks,
                          .bias = {pg__cuda_const(io->bias), l->shape.type},
                          .keep = {pg__cuda_const(io->keep), PGK_F32},
                          .n = l->shape.s};
    a.of.heads = 1; /* for all of them */
    a.of.q_mask = real_of(l, args, PG_ATTEND_Q_MASK);
    a.of.v_mask = real_of(l, args, PG_ATTEND_V_MASK);
    a.of.k_mask = real_of(l, args, PG_ATTEND_K_MASK);
    a.of.mask = real_of(l, args, MASK);
    return PG_LAUNCH(d, attend_masks, &a, l->shape.rows * l->shape.t);
}

static pg_status forward(pg__dev *d, const pg__attend_library *l, void *const *args, void *scratch)
{
    const pg__dnn_attend *a = &l->shape;
    pg__dnn_attend_io io = kept(l, args[PG_ATTEND_P], args, scratch);
    void *y = args[PG_ATTEND_Y];
    pg_status st = PG_OK;
    if (!y && !a->trains)
        return PG_OK;
    io.factors = args[FACTORS];
    io.y = a->trains ? io.y : y;
    if (a->masked)
        PG_TRY(make_masks(d, l, args, &io));
    PG_TRY(pg__dnn_attend_run(d, l->plan, &io));
    if (y && a->trains)
        PG_TRY(pg__rt_copy(d->rt, y, io.y, pgk_bytes(a->type, a->rows * a->t * a->heads * a->b),
                           &d->failure));
done:
    return st;
}

pg_status pg__attend_library_run(pg__dev *d, const pg__attend_library *l, void *const *args,
                                 void *scratch)
{
    void *spare = (char *)scratch + l->spare;
    if (!l->shape.gradient)
        return forward(d, l, args, scratch);
    pg__dnn_attend_io io = kept(l, args[PG_ATTEND_G_P], args, scratch);
    io.factors = args[PG_ATTEND_G_FACTORS];
    io.dy = args[PG_ATTEND_G_DY];
    io.dq = args[PG_ATTEND_DQ] ? args[PG_ATTEND_DQ] : spare;
    io.dk = args[PG_ATTEND_DK] ? args[PG_ATTEND_DK] : spare;
    io.dv = args[PG_ATTEND_DV] ? args[PG_ATTEND_DV] : spare;
    return pg__dnn_attend_run(d, l->plan, &io);
}

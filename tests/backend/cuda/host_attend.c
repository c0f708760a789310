/* host_attend.c - dnn_attend.h without a GPU (host.h), by the formulas: the gradient makes the
 * probabilities again from the statistics, as cuDNN does. */
#include "host.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cuda/dnn_attend.h"
#include "backend/cuda/kernel_copy.h"

#define WORK 640  /* bytes that a run spoils */
#define KEYS 1024 /* most that it is asked for by tests */

struct pg__dnn_attend_plan {
    pg__dnn_attend a;
    int is_wrong, spoils;
};

typedef struct job {
    pg__dnn_attend_plan p;
    pg__dnn_attend_io io;
} job;

static int is(const char *how)
{
    const char *set = getenv("FAKE_CUDA_ATTEND");
    return set && strcmp(set, how) == 0;
}

pg_status pg__dnn_attend_new(pg__dnn_attend_plan **out, pg__dev *d, const pg__dnn_attend *a,
                             size_t most, size_t *work, pg_err *err)
{
    (void)d;
    if (!getenv("FAKE_CUDA_ATTEND") || (a->gradient && is("forward")))
        return pg_fail(err, PG_E_NO, "no attention");
    if (pg__fake_fails("attend_new"))
        return pg_fail(err, PG_E_DEVICE, "attend_new: failure that was ordered");
    if (a->s > KEYS || most < WORK)
        return pg_fail(err, PG_E_NO, "too large");
    pg__dnn_attend_plan *p = calloc(1, sizeof *p);
    if (!p)
        abort();
    *p = (pg__dnn_attend_plan){*a, is("wrong"), is("nan")};
    *work = WORK;
    *out = p;
    return PG_OK;
}

void pg__dnn_attend_free(pg__dnn_attend_plan *p)
{
    free(p);
}

/* ---- numbers ---- */

static double at(const job *j, const void *p, uint64_t i)
{
    return (double)pgk_get((pgk_real){pg__cuda_const(p), j->p.a.type}, i);
}

static void set(const job *j, void *p, uint64_t i, double x)
{
    pgk_set((pgk_real){p, j->p.a.type}, i, (float)x);
}

/* One row of scores. */
typedef struct place {
    uint64_t row, head, t;
} place;

/* Where its step's features begin; those of key s. */
static uint64_t query(const job *j, place z, uint64_t n)
{
    return ((z.row * j->p.a.t + z.t) * j->p.a.heads + z.head) * n;
}

static uint64_t key(const job *j, place z, uint64_t s, uint64_t n)
{
    return ((z.row * j->p.a.s + s) * j->p.a.heads + z.head) * n;
}

static double score(const job *j, place z, uint64_t s)
{
    const pg__dnn_attend *a = &j->p.a;
    const uint64_t line = z.row * a->t + z.t;
    double x = 0;
    for (uint64_t i = 0; i < a->a; i++)
        x += at(j, j->io.q, query(j, z, a->a) + i) * at(j, j->io.k, key(j, z, s, a->a) + i);
    x *= (double)a->scale;
    if (a->masked)
        x = x * (double)pgk_get((pgk_real){pg__cuda_const(j->io.keep), PGK_F32}, line) +
            at(j, j->io.bias, line * a->s + s);
    return a->causal && s > z.t ? -INFINITY : x;
}

static double factor(const job *j, place z, uint64_t s)
{
    const pg__dnn_attend *a = &j->p.a;
    const pgk_real factors = {pg__cuda_const(j->io.factors), a->factor_type};
    const uint64_t line = (z.row * a->heads + z.head) * a->t + z.t;
    return a->has_factors ? (double)pgk_get(factors, line * a->s + s) : 1;
}

static pgk_real stats(const job *j)
{
    return (pgk_real){j->io.stats, PGK_F32};
}

static void forward_line(const job *j, place z)
{
    const pg__dnn_attend *a = &j->p.a;
    double p[KEYS], top = -INFINITY, sum = 0;
    for (uint64_t s = 0; s < a->s; s++) {
        p[s] = score(j, z, s);
        top = p[s] > top ? p[s] : top;
    }
    for (uint64_t s = 0; s < a->s; s++)
        sum += p[s] = exp(p[s] - top);
    for (uint64_t i = 0; i < a->b; i++) {
        double y = 0;
        for (uint64_t s = 0; s < a->s; s++)
            y += p[s] / sum * factor(j, z, s) * at(j, j->io.v, key(j, z, s, a->b) + i);
        set(j, j->io.y, query(j, z, a->b) + i, j->p.is_wrong ? y * 1.2 : y);
    }
    if (a->trains)
        pgk_set(stats(j), (z.row * a->heads + z.head) * a->t + z.t, (float)(top + log(sum)));
}

/* Gradients before they are rounded. */
typedef struct sums {
    double *dq, *dk, *dv;
} sums;

static void backward_line(const job *j, place z, const sums *to)
{
    const pg__dnn_attend *a = &j->p.a;
    const uint64_t q = query(j, z, a->a), y = query(j, z, a->b);
    const double norm = (double)pgk_get(stats(j), (z.row * a->heads + z.head) * a->t + z.t);
    double sum = 0;
    for (uint64_t i = 0; i < a->b; i++)
        sum += at(j, j->io.dy, y + i) * at(j, j->io.y, y + i);
    for (uint64_t s = 0; s < a->s; s++) {
        const uint64_t k = key(j, z, s, a->a), v = key(j, z, s, a->b);
        const double p = exp(score(j, z, s) - norm), f = factor(j, z, s);
        double dp = 0;
        for (uint64_t i = 0; i < a->b; i++) {
            dp += at(j, j->io.dy, y + i) * at(j, j->io.v, v + i);
            to->dv[v + i] += p * f * at(j, j->io.dy, y + i);
        }
        const double ds = p * (dp * f - sum) * (double)a->scale;
        for (uint64_t i = 0; i < a->a; i++) {
            to->dq[q + i] += ds * at(j, j->io.k, k + i);
            to->dk[k + i] += ds * at(j, j->io.q, q + i);
        }
    }
}

static double *zeros(uint64_t n)
{
    double *p = calloc(n, sizeof *p);
    if (!p)
        abort();
    return p;
}

static void store(const job *j, void *p, double *from, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        set(j, p, i, from[i]);
    free(from);
}

static void run(const void *args, uint64_t rows)
{
    const job *j = args;
    const pg__dnn_attend *a = &j->p.a;
    const uint64_t t = rows * a->heads * a->t, s = rows * a->heads * a->s;
    const sums to = {zeros(t * a->a), zeros(s * a->a), zeros(s * a->b)};
    memset(pgk_host_memory(j->io.work), 0xa5, WORK);
    for (place z = {0, 0, 0}; z.row < rows; z.row++)
        for (z.head = 0; z.head < a->heads; z.head++)
            for (z.t = 0; z.t < a->t; z.t++)
                if (a->gradient)
                    backward_line(j, z, &to);
                else
                    forward_line(j, z);
    store(j, j->io.dq, to.dq, a->gradient ? t * a->a : 0);
    store(j, j->io.dk, to.dk, a->gradient ? s * a->a : 0);
    store(j, j->io.dv, to.dv, a->gradient ? s * a->b : 0);
    if (j->p.spoils)
        set(j, a->gradient ? j->io.dk : j->io.y, 0, (double)NAN);
}

static int is_whole(const pg__dnn_attend *a, const pg__dnn_attend_io *io)
{
    return io->q && io->k && io->v && io->y && !io->stats == !a->trains &&
           !io->factors == !a->has_factors && !io->bias == !a->masked && !io->keep == !a->masked &&
           (!a->gradient || (io->dy && io->dq && io->dk && io->dv));
}

/* As tensors were described, and as workspaces are made; rows of masks begin where engines can read
 * them. */
static int are_aligned(const pg__dnn_attend *a, const pg__dnn_attend_io *io)
{
    const void *const at[] = {io->q,    io->k,  io->v,  io->y,  io->stats, io->factors,
                              io->bias, io->dy, io->dq, io->dk, io->keep,  io->dv};
    for (size_t k = 0; k < sizeof at / sizeof *at; k++)
        if (at[k] && !pg__fake_is_at(at[k], 16))
            return 0;
    return pg__fake_is_at(io->work, 256) && (a->s % 8 == 0 || !(a->masked || a->has_factors));
}

pg_status pg__dnn_attend_run(pg__dev *d, const pg__dnn_attend_plan *p, const pg__dnn_attend_io *io)
{
    const char *name = p->a.gradient ? "attend_backward" : "attend_forward";
    const job j = {*p, *io};
    if (!is_whole(&p->a, io)) {
        fprintf(stderr, "%s: an array is missing, or one too many\n", name);
        abort();
    }
    if (!are_aligned(&p->a, io))
        return pg_fail(&d->failure, PG_E_DEVICE, "%s: an address is not a multiple of 16", name);
    if (is("fails"))
        return pg_fail(&d->failure, PG_E_DEVICE, "%s: failure that was ordered", name);
    if (is("idle"))
        return PG_OK;
    pg__fake_spend(is("slow") ? 500000u : 10u);
    return pg__cuda_launched(
        d, pg__fake_queue(pg__rt_stream(d->rt), name, run, &j, sizeof j, p->a.rows), name);
}

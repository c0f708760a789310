/* Run by mpirun (run.py), by four ranks at most: sums whose matrices travel as factors of low rank
 * (train/step/powersgd.h). What such a sum must be follows from linear algebra: exact where the
 * summed matrices have no higher rank; else right on average over steps, as what is left out of one
 * goes into the next. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/philox.h"
#include "train/exec/thread_pool.h"
#include "train/step/powersgd.h"
#include "train/step/ranks.h"

#define RANK  4u
#define STEPS 80u

/* In an order that is not that of the memory. The last one is not trained, so it is not sent. */
enum { KERNEL, DENSE, BIAS, NARROW, FROZEN, N_PARAMS };
static const pg_weight shapes[N_PARAMS] = {{.rank = 2, .dims = {96, 40}},
                                           {.rank = 4, .dims = {3, 3, 8, 32}},
                                           {.rank = 1, .dims = {40}},
                                           {.rank = 2, .dims = {3, 4}},
                                           {.rank = 2, .dims = {50, 50}}};
static const size_t order[N_PARAMS] = {1, 0, 2, 4, 3};

typedef struct job {
    pg_trainer *t;
    pg__powersgd *p;
    size_t n; /* numbers of a gradient */
    float *mine, *sum;
    pg_err err;
} job;

static const char *failed(const job *j)
{
    return j->err.msg[0] ? j->err.msg : "out of memory";
}

/* Fills a gradient of a rank: products of a column and a row, or numbers of full rank. */
static void draw(const job *j, float *to, size_t rank, int low_rank)
{
    for (size_t k = 0; k < N_PARAMS; k++) {
        const size_t i = order[k], n = j->t->vars.n_elems[i];
        const size_t n_cols = (size_t)shapes[k].dims[shapes[k].rank - 1];
        const uint32_t stream = (uint32_t)(10 * rank + k);
        for (size_t e = 0; e < n; e++) {
            const float row = pg__uniform(1, e % n_cols, 0, stream) - 0.5f,
                        col = pg__uniform(2, e / n_cols, 0, stream) - 0.5f;
            to[j->t->vars.offsets[i] + e] =
                low_rank ? row * col : pg__uniform(3, e, 0, stream) - 0.5f;
        }
    }
}

/* The sum of what all ranks draw. */
static void draw_sum(job *j, int low_rank)
{
    memset(j->sum, 0, j->n * sizeof *j->sum);
    for (size_t k = 0; k < pg__comm_size(j->t->ranks->comm); k++) {
        draw(j, j->mine, k, low_rank);
        for (size_t i = 0; i < j->n; i++)
            j->sum[i] += j->mine[i];
    }
}

static pg_status sum(job *j)
{
    return pg__powersgd_sum(&j->p, j->t, RANK, j->mine, &j->err);
}

/* The length of a difference, as a share of that of `want`; of one variable, by its place in
 * `shapes`. */
static double apart(const job *j, const double *have, double scale, size_t k)
{
    const size_t i = order[k];
    const uint64_t from = j->t->vars.offsets[i], end = from + j->t->vars.n_elems[i];
    double off = 0, all = 0;
    for (uint64_t e = from; e < end; e++) {
        const double d = have[e] * scale - j->sum[e];
        off += d * d;
        all += (double)j->sum[e] * j->sum[e];
    }
    return sqrt(off / all);
}

static int is_same_everywhere(job *j)
{
    const uint64_t n = j->t->vars.offsets[order[FROZEN]]; /* what lies before it */
    uint32_t mine = pg__crc32(0, j->mine, (size_t)n * sizeof *j->mine), all[RANK];
    if (pg__comm_gather(j->t->ranks->comm, &mine, all, sizeof mine, "the sums", &j->err) != PG_OK)
        return 0;
    for (size_t k = 1; k < pg__comm_size(j->t->ranks->comm); k++)
        if (all[k] != all[0])
            return 0;
    return 1;
}

static const char *exact(job *j, double *have)
{
    draw_sum(j, 1);
    draw(j, j->mine, pg__comm_rank(j->t->ranks->comm), 1);
    if (sum(j) != PG_OK)
        return failed(j);
    for (size_t i = 0; i < j->n; i++)
        have[i] = j->mine[i];
    for (size_t k = 0; k < FROZEN; k++)
        if (!(apart(j, have, 1, k) < 1e-5))
            return "a matrix of low rank is not exact";
    if (!is_same_everywhere(j))
        return "ranks have different sums";
    draw(j, j->sum, pg__comm_rank(j->t->ranks->comm), 1);
    const uint64_t at = j->t->vars.offsets[order[FROZEN]];
    if (memcmp(j->sum + at, j->mine + at, 2500 * sizeof *j->mine) != 0)
        return "what is not trained was changed";
    return NULL;
}

/* The same gradients at every step: the mean of the sums comes near to the sum. */
static const char *on_average(job *j, double *have)
{
    double early[2] = {0};
    memset(have, 0, j->n * sizeof *have);
    draw_sum(j, 0);
    for (size_t s = 1; s <= STEPS; s++) {
        draw(j, j->mine, pg__comm_rank(j->t->ranks->comm), 0);
        if (sum(j) != PG_OK)
            return failed(j);
        for (size_t i = 0; i < j->n; i++)
            have[i] += j->mine[i];
        for (size_t k = KERNEL; k <= DENSE && s == 1; k++)
            if (!(apart(j, have, 1, k) > 0.3)) /* 4 of 40 directions hold little of it */
                return "a factor of low rank holds everything";
        for (size_t k = KERNEL; k <= DENSE && s == STEPS / 4; k++)
            early[k] = apart(j, have, 4.0 / STEPS, k);
        if (!is_same_everywhere(j))
            return "ranks have different sums";
    }
    for (size_t k = KERNEL; k <= DENSE; k++) {
        const double late = apart(j, have, 1.0 / STEPS, k);
        if (!(late < 0.2) || !(late < early[k] / 2))
            return "what is left out is not made up for";
    }
    for (size_t k = BIAS; k <= NARROW; k++)
        if (!(apart(j, have, 1.0 / STEPS, k) < 1e-5))
            return "a variable that is sent as it is has another sum";
    return NULL;
}

static int is_finite(const job *j, size_t k)
{
    const size_t i = order[k];
    size_t n = 0;
    while (n < j->t->vars.n_elems[i] && isfinite(j->mine[j->t->vars.offsets[i] + n]))
        n++;
    return n == j->t->vars.n_elems[i];
}

/* Numbers so small that floats lose their precision are numbers all the same. */
static const char *survives(job *j)
{
    for (double scale = 1e-35; scale > 1e-46; scale /= 10) {
        pg__powersgd_free(j->p); /* with what larger gradients left */
        j->p = NULL;
        for (int again = 0; again < 2; again++) {
            draw(j, j->mine, pg__comm_rank(j->t->ranks->comm), 0);
            for (size_t i = 0; i < j->n; i++)
                j->mine[i] = (float)(j->mine[i] * scale);
            if (sum(j) != PG_OK)
                return failed(j);
            if (!is_finite(j, KERNEL) || !is_finite(j, DENSE))
                return "small gradients become infinite or NaN";
        }
    }
    return NULL;
}

/* NaN of one rank shows in the sum of every rank, and is gone in the next step. */
static const char *recovers(job *j)
{
    for (int with = 1; with >= 0; with--) {
        draw(j, j->mine, pg__comm_rank(j->t->ranks->comm), 0);
        if (with && pg__comm_rank(j->t->ranks->comm) == 0)
            j->mine[j->t->vars.offsets[order[DENSE]] + 7] = NAN;
        if (sum(j) != PG_OK)
            return failed(j);
        if (is_finite(j, DENSE) == with)
            return with ? "NaN is lost" : "NaN stays";
        if (!is_finite(j, KERNEL))
            return "NaN is in another variable";
    }
    return NULL;
}

static const char *lay_out(job *j)
{
    pg__trainer_vars *v = &j->t->vars;
    v->n_params = N_PARAMS;
    v->weights = pg__mem_array(N_PARAMS, sizeof *v->weights);
    v->order = pg__mem_array(N_PARAMS, sizeof *v->order);
    v->n_elems = pg__mem_array(N_PARAMS, sizeof *v->n_elems);
    v->trained = pg__mem_array(N_PARAMS, sizeof *v->trained);
    v->offsets = pg__mem_array(N_PARAMS + 1, sizeof *v->offsets);
    if (!v->weights || !v->order || !v->n_elems || !v->trained || !v->offsets)
        return failed(j);
    for (size_t k = 0; k < N_PARAMS; k++) {
        v->weights[k] = shapes[k];
        v->order[k] = order[k];
        v->trained[order[k]] = k != FROZEN;
        v->n_elems[order[k]] = 1;
        for (uint32_t d = 0; d < shapes[k].rank; d++)
            v->n_elems[order[k]] *= (size_t)shapes[k].dims[d];
    }
    for (size_t i = 0; i < N_PARAMS; i++) /* a gap after each, as for alignment */
        v->offsets[i + 1] = v->offsets[i] + (v->n_elems[i] + 15) / 16 * 16;
    j->n = (size_t)v->offsets[N_PARAMS];
    j->mine = pg__mem_array(j->n, sizeof *j->mine);
    j->sum = pg__mem_array(j->n, sizeof *j->sum);
    return j->mine && j->sum ? NULL : failed(j);
}

static void take_down(job *j)
{
    pg__trainer_vars *v = &j->t->vars;
    pg__powersgd_free(j->p);
    pg__thread_pool_free(j->t->pool.threads);
    pg__mem_free(v->weights);
    pg__mem_free(v->order);
    pg__mem_free(v->n_elems);
    pg__mem_free(v->trained);
    pg__mem_free(v->offsets);
    pg__mem_free(j->mine);
    pg__mem_free(j->sum);
    pg__mem_free(j->t);
}

static const char *check(job *j)
{
    const char *wrong = lay_out(j);
    double *have = wrong ? NULL : pg__mem_array(j->n, sizeof *have);
    if (!have || pg__thread_pool_new(&j->t->pool.threads, 3, &j->err) != PG_OK)
        wrong = failed(j);
    if (!wrong && pg__powersgd_bytes(j->t, RANK) / sizeof(float) > 3 * j->n)
        wrong = "it takes too much memory";
    if (!wrong)
        wrong = exact(j, have);
    if (!wrong)
        wrong = on_average(j, have);
    if (!wrong)
        wrong = recovers(j);
    if (!wrong)
        wrong = survives(j);
    pg__mem_free(have);
    return wrong;
}

int main(void)
{
    const pg__comm_opts opts = {.timeout = 60};
    pg__ranks ranks = {.comm = NULL};
    job j = {.t = pg__mem_array(1, sizeof *j.t)};
    if (!j.t || pg__comm_open(&ranks.comm, &opts, &j.err) != PG_OK || !ranks.comm) {
        fprintf(stderr, "no job: %s\n", failed(&j));
        return 2;
    }
    j.t->ranks = &ranks;
    const char *wrong = pg__comm_size(ranks.comm) <= RANK ? check(&j) : "more than four ranks";
    if (wrong)
        fprintf(stderr, "rank %zu: %s\n", pg__comm_rank(ranks.comm), wrong);
    pg__comm_close(ranks.comm);
    take_down(&j);
    return wrong != NULL;
}

/* ranks_sum.c - the gradients' sum over ranks, as the plan says (sum_plan.h): in the order of the
 * tree, at the end of the step; as factors (powersgd.h), then too; or in the buckets of buckets.c, which all ranks sum in the same
 * order: at the end, or each as soon as the backward passes of all of this rank's lanes have
 * completed it. MPI moves messages only while it is called, so on one machine the workers call it
 * between two operations, one at a time: a thread of its own would take a core from the
 * computation. Between machines there is such a thread (comm_mover.c). */
#include <pthread.h>
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "train/step/buckets.h"
#include "train/step/devices.h"
#include "train/step/optimizer_shard.h"
#include "train/step/powersgd.h"
#include "train/step/ranks_step.h"

#define SPARE 32u /* numbers after the half of a bucket */

static const char what[] = "the gradients";

/* Sums of the current step. */
struct pg__bucket_sums {
    pthread_mutex_t lock;   /* of everything below but `left` */
    char *work;             /* incoming data while buckets or the tree are summed; or NULL */
    float *lost;            /* what rounding took from this rank's, per element; or NULL */
    pg__comm_sum_of *sums;  /* n_each of each bucket */
    size_t n_each;          /* 1, or one for each rank that gets a part of the bucket */
    _Atomic size_t n_begun; /* written under the lock */
    _Atomic size_t left[PG_MAX_BUCKETS]; /* lanes that have completed the bucket */
    pg__flat **lanes;                    /* gradients of this rank's lanes that have rows */
    size_t n_lanes, cap_lanes;
    pg_status st;
    pg_err err;
};

/* ---- memory ---- */

/* If MPI itself sums, it also takes memory that is not known here. */
uint64_t pg__sums_bytes(pg_trainer *t, size_t n_ranks, int is_sharded)
{
    const uint64_t n = t->vars.offsets[t->vars.n_params], each = t->devs.backend->real_bytes;
    pg__sum_facts f = t->sums.facts;
    f.n_ranks = n_ranks;
    f.is_sharded = is_sharded;
    f.needs_whole = pg__opt_shard_whole_sums(&t->compiled);
    const pg__sum_plan plan = pg__sum_plan_of(&f);
    if (plan.way == PG_SUM_RANKS_TREE)
        return n * each;
    if (plan.way == PG_SUM_RANKS_FACTORS)
        return pg__powersgd_bytes(t, f.factor_rank);
    if (!plan.halves)
        return 0;
    if (t->sums.n_buckets == 0)
        pg__buckets_cut(t);
    return (n / 2 + (uint64_t)SPARE * t->sums.n_buckets) * each +
           (t->ranks && t->ranks->compression.as_bf16 ? n * sizeof(float) : 0);
}

uint64_t pg__sums_needed(pg_trainer *t)
{
    return t->ranks ? pg__sums_bytes(t, pg__comm_size(t->ranks->comm), pg__is_sharded(t->ranks))
                    : 0;
}

uint64_t pg__sums_held(pg_trainer *t)
{
    return t->ranks && (t->ranks->sums->work || t->ranks->powersgd) ? pg__sums_needed(t) : 0;
}

/* Allocates on the first call only. */
static pg_status make_room(pg_trainer *t)
{
    struct pg__bucket_sums *b = t->ranks->sums;
    const uint64_t n = pg__sums_needed(t), n_elems = t->vars.offsets[t->vars.n_params];
    if (!b->work && n > 0) {
        b->work = pg__mem_aligned((size_t)n);
        if (b->work && t->ranks->compression.as_bf16)
            b->lost = (float *)(void *)(b->work + n) - n_elems;
    }
    return b->work || n == 0 ? PG_OK : PG_E_NOMEM;
}

pg_status pg__sums_open(struct pg__ranks *ranks, pg_err *err)
{
    struct pg__bucket_sums *b = pg__mem_array(1, sizeof *b);
    if (!b)
        return pg__nomem(err);
    pthread_mutex_init(&b->lock, NULL);
    ranks->sums = b;
    return PG_OK;
}

void pg__sums_close(struct pg__ranks *ranks)
{
    struct pg__bucket_sums *b = ranks->sums;
    if (!b)
        return;
    pthread_mutex_destroy(&b->lock);
    pg__mem_free(b->lanes);
    pg__mem_free(b->sums);
    pg__mem_free(b->work);
    pg__mem_free(b);
    ranks->sums = NULL;
}

/* The gradients of a rank without rows. */
static pg_status zeros(pg_trainer *t, pg__flat **out, pg_err *err)
{
    pg__ranks *r = t->ranks;
    pg_status st = PG_OK;
    if (!r->own.mem)
        PG_TRY(pg__flat_alloc(t, &r->own, err));
    PG_TRY(pg__device_failed(&t->devs, t->devs.dev, pg__flat_fill(t, &r->own, 0), err));
    *out = &r->own;
done:
    return st;
}

/* ---- in buckets ---- */

static char *at_element(const pg__trainer_devs *devs, const pg__flat *f, uint64_t i)
{
    return (char *)f->mem + i * devs->backend->real_bytes;
}

/* Sums elements [from, to) of this rank's lanes, in the order of the tree, into the first of them.
 */
static pg_status sum_lanes(pg_trainer *t, uint64_t from, uint64_t to)
{
    struct pg__bucket_sums *b = t->ranks->sums;
    pg_status st = PG_OK;
    for (size_t size = 1; size < b->n_lanes; size *= 2)
        for (size_t lo = 0; lo + size < b->n_lanes && st == PG_OK; lo += 2 * size)
            st = t->devs.backend->flat.accumulate(
                t->devs.dev, at_element(&t->devs, b->lanes[lo], from),
                at_element(&t->devs, b->lanes[lo + size], from), (size_t)(to - from));
    return st;
}

/* Room for half of bucket k and SPARE more numbers; the last bucket comes first. */
static char *work_of(const pg_trainer *t, size_t k)
{
    const uint64_t at = t->vars.offsets[t->sums.buckets[k].first] / 2 +
                        (uint64_t)SPARE * (t->sums.n_buckets - 1 - k);
    return t->ranks->sums->work + at * t->devs.backend->real_bytes;
}

/* The sum goes to all ranks, or each rank's piece to that rank. */
static pg_status begin_bucket(pg_trainer *t, const pg__flat *sum, size_t k, pg_err *err)
{
    struct pg__bucket_sums *b = t->ranks->sums;
    pg_status st = PG_OK;
    for (size_t p = 0; p < b->n_each && st == PG_OK; p++) {
        pg__comm_sum_of *s = &b->sums[k * b->n_each + p];
        uint64_t from = t->vars.offsets[t->sums.buckets[k].first],
                 to = t->vars.offsets[t->sums.buckets[k].end];
        if (b->n_each > 1)
            pg__opt_shard_piece(t, k, p, &from, &to);
        *s = (pg__comm_sum_of){.mem = at_element(&t->devs, sum, from),
                               .n = (size_t)(to - from),
                               .real_bytes = t->devs.backend->real_bytes,
                               .to = b->n_each > 1 ? p : PG_TO_ALL,
                               .work = b->work ? work_of(t, k) : NULL,
                               .lost = b->lost ? b->lost + from : NULL};
        if (s->n > 0)
            st = pg__comm_sum_begin(t->ranks->comm, s, what, err);
    }
    return st;
}

/* Begins the sums of complete buckets and advances those under way. Call it with the lock held. */
static void move_on(pg_trainer *t)
{
    struct pg__bucket_sums *b = t->ranks->sums;
    while (b->st == PG_OK && b->n_begun < t->sums.n_buckets && b->left[b->n_begun] == b->n_lanes) {
        const pg__bucket *k = &t->sums.buckets[b->n_begun];
        b->st = pg__device_failed(&t->devs, t->devs.dev,
                                  sum_lanes(t, t->vars.offsets[k->first], t->vars.offsets[k->end]),
                                  &b->err);
        if (b->st == PG_OK)
            b->st = begin_bucket(t, b->lanes[0], b->n_begun, &b->err);
        b->n_begun++;
    }
    if (b->st == PG_OK)
        b->st = pg__comm_poll(t->ranks->comm, &b->err);
}

pg_status pg__sums_begin(pg__step *s, pg_err *err)
{
    pg_trainer *t = s->t;
    struct pg__bucket_sums *b = t->ranks ? t->ranks->sums : NULL;
    if (s->plan->way != PG_SUM_RANKS_BUCKETS)
        return PG_OK;
    b->n_lanes = 0;
    b->n_begun = 0;
    b->st = PG_OK;
    memset(b->left, 0, sizeof b->left);
    b->n_each = s->plan->to_owner ? pg__comm_size(t->ranks->comm) : 1;
    if (!b->sums)
        b->sums = pg__mem_array(t->sums.n_buckets * b->n_each, sizeof *b->sums);
    if (!b->sums || make_room(t) != PG_OK ||
        pg__mem_grow(&b->lanes, &b->cap_lanes, s->n_lanes, sizeof *b->lanes))
        return pg__nomem(err);
    for (size_t k = 0; k < s->n_jobs; k++)
        b->n_lanes += s->jobs[k].program != NULL;
    return PG_OK;
}

/* Its index among the lanes with rows. */
static size_t place_of(const pg__step *s, const pg__job *job)
{
    size_t n = 0;
    for (const pg__job *j = s->jobs; j < job; j++)
        n += j->program != NULL;
    return n;
}

pg_status pg__sums_run(const pg__step *s, const pg__job *job)
{
    pg_trainer *t = s->t;
    struct pg__bucket_sums *b = t->ranks->sums;
    const size_t n_calls = pg__program_n_calls(job->program);
    size_t ends[PG_MAX_BUCKETS], k = 0;
    pg_status st = PG_OK;
    pg__buckets_ends(&t->sums, job->program, ends);
    b->lanes[place_of(s, job)] = job->grads;
    for (size_t at = 0; at <= n_calls; at++) {
        int found = 0;
        for (; k < t->sums.n_buckets && ends[k] <= at; k++, found = 1)
            b->left[k]++;
        if ((found || b->n_begun > 0) && pthread_mutex_trylock(&b->lock) == 0) {
            move_on(t);
            pthread_mutex_unlock(&b->lock);
        }
        if (at < n_calls)
            PG_TRY(pg__program_run_calls(job->program, &job->frame.f, at, at + 1));
    }
done:
    return st;
}

/* A finished sum; one divided over ranks lasts from the first of its pieces to the last. */
static void trace_bucket(const pg_trainer *t, size_t k)
{
    const struct pg__bucket_sums *b = t->ranks->sums;
    const pg__bucket *of = &t->sums.buckets[k];
    pg__trace_event e = {.what = PG_TRACE_BUCKET,
                         .a = (uint32_t)k,
                         .b = (t->vars.offsets[of->end] - t->vars.offsets[of->first]) *
                              t->devs.backend->real_bytes};
    for (size_t p = 0; p < b->n_each; p++) {
        const pg__comm_sum_of *s = &b->sums[k * b->n_each + p];
        if (s->n == 0)
            continue;
        e.began = e.began > 0 && e.began < s->began ? e.began : s->began;
        e.ended = e.ended > s->ended ? e.ended : s->ended;
    }
    pg__trace_end_on(t->report.trace, PG_TRACE_EXCHANGE, &e);
}

/* Begins the remaining sums, then waits for all. */
static pg_status in_buckets(pg_trainer *t, pg__flat **sum, pg_err *err)
{
    struct pg__bucket_sums *b = t->ranks->sums;
    pg_status st = PG_OK;
    if (t->sums.plan.overlaps) {
        pthread_mutex_lock(&b->lock); /* no lane uses it any more */
        move_on(t);
        pthread_mutex_unlock(&b->lock);
        *sum = b->lanes[0];
    } else if (!*sum) {
        PG_TRY(zeros(t, sum, err));
    }
    if (b->st != PG_OK) {
        if (err)
            *err = b->err;
        return b->st;
    }
    for (; b->n_begun < t->sums.n_buckets; b->n_begun++)
        PG_TRY(begin_bucket(t, *sum, b->n_begun, err));
    PG_TRY(pg__comm_sums_wait(t->ranks->comm, b->sums, t->sums.n_buckets * b->n_each, what, err));
    for (size_t k = 0; t->report.trace && k < t->sums.n_buckets; k++)
        trace_bucket(t, k);
done:
    return st;
}

/* ---- deterministic ---- */

/* Ranks without rows add nothing. */
static pg_status in_tree(pg_trainer *t, pg__flat **sum, pg_err *err)
{
    pg__ranks *r = t->ranks;
    const double clock = pg__trace_begin(t->report.trace);
    int has = *sum != NULL;
    pg_status st = PG_OK;
    if (make_room(t) != PG_OK)
        PG_TRY(pg__nomem(err));
    if (!*sum)
        PG_TRY(zeros(t, sum, err));
    const size_t n = (size_t)t->vars.offsets[t->vars.n_params], bytes = t->devs.backend->real_bytes;
    PG_TRY((t->sums.plan.to_owner ? pg__comm_tree_halve : pg__comm_tree_sum)(
        r->comm, (*sum)->mem, r->sums->work, n, bytes, &has, what, err));
    *sum = has ? *sum : NULL;
    pg__trace_end_on(t->report.trace, PG_TRACE_EXCHANGE,
                     &(pg__trace_event){.began = clock, .what = PG_TRACE_BUCKET, .b = n * bytes});
done:
    return st;
}

/* ---- in factors ---- */

static pg_status in_factors(pg_trainer *t, pg__flat **sum, pg_err *err)
{
    pg__ranks *r = t->ranks;
    pg_status st = PG_OK;
    if (!*sum)
        PG_TRY(zeros(t, sum, err));
    PG_TRY(pg__powersgd_sum(&r->powersgd, t, r->compression.factor_rank, (*sum)->mem, err));
done:
    return st;
}

pg_status pg__ranks_sum(pg_trainer *t, pg__flat **sum, pg_err *err)
{
    switch (t->sums.plan.way) {
    case PG_SUM_RANKS_TREE: return in_tree(t, sum, err);
    case PG_SUM_RANKS_FACTORS: return in_factors(t, sum, err);
    default: return in_buckets(t, sum, err);
    }
}

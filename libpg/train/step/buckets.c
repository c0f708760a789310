/* buckets.c - the backward pass makes the gradients of the last layers first, and variables lie in
 * the flat memory in the order of their layers: buckets are summed from its end. Every rank must
 * ask for the same sums in the same order, so ranges and order follow from the variables alone;
 * programs differ only in when they complete a bucket.
 *
 * Size as in PyTorch's DistributedDataParallel: 25 MB, large enough that latency does not matter.
 * The bucket at the start of the memory is small, 1 MB: it is complete only when the backward pass
 * ends, so nothing is left to hide its sum. The remainder at the other end is smaller than the
 * others, which lets the sums begin early.
 *
 * A step is recorded in pieces that end where a bucket does. Sums are queued between the pieces,
 * not recorded: by NVIDIA's manual, GPUs of one process that launch graphs with NCCL calls inside
 * may deadlock, and queued calls can be abandoned. Each piece costs one more launch, a few
 * microseconds. */
#include "train/step/buckets.h"

#include <stdlib.h>

#include "base/env.h"
#include "base/try.h"
#include "train/step/all_reduce.h"
#include "train/step/devices.h"
#include "train/step/graph_capture.h"
#include "train/step/optimizer_shard.h"
#include "train/step/ranks.h"

#define LAST  ((uint64_t)1 << 20)
#define OTHER ((uint64_t)25 << 20)
#define OF_RANKS                                                                                  \
    ((uint64_t)4 << 20) /* on CPUs, over MPI: smaller, so that more sums overlap with computation \
                         */

#define OF_ONE ((uint64_t)64 << 10) /* so that each rank's piece of it is worth a message */

/* The tests train small models. */
static uint64_t bytes_asked_for(void)
{
    const char *asked = pg__env("PG_BUCKET_BYTES");
    return asked ? strtoull(asked, NULL, 10) : 0;
}

void pg__buckets_cut(pg_trainer *t)
{
    pg__buckets_cut_for(t, t->devs.backend->host_memory);
}

/* Never cuts a variable: its gradient becomes complete all at once. */
void pg__buckets_cut_for(pg_trainer *t, int on_cpus)
{
    const uint64_t each = t->devs.backend->real_bytes, asked = bytes_asked_for();
    const uint64_t all = t->vars.offsets[t->vars.n_params] * each,
                   least = all / (PG_MAX_BUCKETS - 2);
    const uint64_t divided = pg__is_sharded(t->ranks) ? OF_ONE * pg__comm_size(t->ranks->comm) : 0;
    const uint64_t of_ranks = divided > OF_RANKS ? divided : OF_RANKS;
    const uint64_t usual = on_cpus ? of_ranks : OTHER;
    const uint64_t other = asked ? asked : usual, size = other > least ? other : least;
    pg__bucket found[PG_MAX_BUCKETS];
    size_t n = 0, from = 0;
    for (size_t i = 0; i < t->vars.n_params; i++) {
        const uint64_t bytes = (t->vars.offsets[i + 1] - t->vars.offsets[from]) * each;
        if (bytes < (n == 0 && LAST < size ? LAST : size) && i + 1 < t->vars.n_params)
            continue;
        found[n++] = (pg__bucket){.first = from, .end = i + 1};
        from = i + 1;
    }
    for (size_t k = 0; k < n; k++)
        t->sums.buckets[k] = found[n - 1 - k];
    t->sums.n_buckets = n;
}

typedef struct sum {
    pg_trainer *t;
    pg__worker *w;
    const pg__job *job;
} sum;

static pg_status sum_bucket(void *arg, size_t k)
{
    const sum *s = arg;
    const pg__job *job = s->job;
    pg_trainer *t = s->t;
    const pg__bucket *b = &t->sums.buckets[k];
    const uint64_t from = t->vars.offsets[b->first], to = t->vars.offsets[b->end];
    const pg_status st =
        pg__averages_bring(t, job->program, &job->frame.f, b, job->lane.replica, job->grads);
    if (st != PG_OK)
        return st;
    return t->devs.backend->group.sum(t->sums.group, s->w->device, s->w->dev,
                                      (char *)job->grads->mem + from * t->devs.backend->real_bytes,
                                      (size_t)(to - from));
}

/* A sum that is queued later waits for those before it, so its place is never before theirs. */
void pg__buckets_ends(const pg__sums *sums, const pg__program *p, size_t ends[PG_MAX_BUCKETS])
{
    size_t end = 0;
    for (size_t k = 0; k < sums->n_buckets; k++) {
        for (size_t i = sums->buckets[k].first; i < sums->buckets[k].end; i++) {
            const size_t settled = pg__program_settled(p, i);
            end = settled > end ? settled : end;
        }
        ends[k] = end;
    }
}

/* After the backward pass, in the same order. */
static void follow(void *arg, size_t worker)
{
    const pg__step *s = arg;
    pg_trainer *t = s->t;
    pg__worker *w = &t->pool.workers[worker];
    size_t k = 0;
    while (s->jobs[k].lane.worker != worker)
        k++;
    sum one = {t, w, &s->jobs[k]};
    w->err = (pg_err){0};
    w->st = PG_OK;
    for (size_t b = 0; b < t->sums.n_buckets && w->st == PG_OK; b++)
        w->st = sum_bucket(&one, b);
    w->st = pg__device_failed(&t->devs, w->dev, w->st, &w->err);
}

pg_status pg__buckets_follow(pg__step *s, pg_err *err)
{
    pg_trainer *t = s->t;
    pg__thread_pool_run(t->pool.threads, follow, s);
    return pg__first_failure(&t->pool, err);
}

pg_status pg__buckets_run(pg_trainer *t, pg__worker *w, const pg__job *job, pg_err *err)
{
    sum s = {t, w, job};
    size_t ends[PG_MAX_BUCKETS];
    pg__buckets_ends(&t->sums, job->program, ends);
    const pg__stops stops = {t->sums.n_buckets, ends, sum_bucket, &s};
    return pg__device_failed(
        &t->devs, w->dev, pg__graph_capture_run(&t->devs, w, job->program, &job->frame.f, &stops),
        err);
}

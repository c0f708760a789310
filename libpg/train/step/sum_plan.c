/* sum_plan.c - see sum_plan.h. The order of the tree (lanes.h) gives equal bits for every number of
 * devices and ranks; NCCL and MPI sum in orders of their own, and may do so during the backward
 * pass. All processes must reach the same plan from facts that all of them know. No process knows
 * what the others ran in earlier steps, so that may only decide when sums are queued. */
#include "train/step/sum_plan.h"

#include "train/step/buckets.h"
#include "train/step/optimizer_shard.h"
#include "train/step/ranks.h"

/* ---- the decision ---- */

int pg__sums_by_group(const pg__sum_facts *f)
{
    return !f->on_cpus && !f->in_tree && !f->without_group && !f->is_placed &&
           (f->n_devices > 1 || f->n_ranks > 1);
}

/* Why gradients cannot be summed during the backward pass; NULL: they can. */
static const char *why_after(const pg__sum_facts *f)
{
    if (f->in_parts)
        return "a batch is run in parts, which are summed first";
    if (f->meets)
        return "lanes wait for each other at BatchNormalization";
    return NULL;
}

static const char *why_not_in_buckets(const pg__sum_facts *f)
{
    if (why_after(f))
        return why_after(f);
    if (!f->tunes)
        return "GPUs overlap sums with the backward pass only with gpu_tune";
    if (f->is_watched)
        return "the values of the step are observed";
    if (f->n_ranks > 1 ? !f->one_each : !f->lane_per_device)
        return "several lanes share a GPU";
    return f->all_have_rows ? NULL : "the batch has no rows for some devices";
}

static pg__sum_plan by_group(const pg__sum_facts *f)
{
    const char *why = why_not_in_buckets(f);
    if (why)
        return (pg__sum_plan){.way = PG_SUM_GROUP, .why = why};
    if (f->was_begun)
        return (pg__sum_plan){.way = PG_SUM_GROUP_BUCKETS,
                              .overlaps = 1,
                              .why = "no order is required, and each GPU has one lane"};
    /* other processes ask for the same sums, bucket by bucket, whatever they ran before */
    return (pg__sum_plan){.way = f->n_ranks > 1 ? PG_SUM_GROUP_BUCKETS : PG_SUM_GROUP,
                          .begins = 1,
                          .why = "libraries initialise themselves in the first run of a program"};
}

static pg__sum_plan over_ranks(const pg__sum_facts *f)
{
    const int to_owner = f->is_sharded && !f->needs_whole;
    const char *why = f->shares_lanes ? "devices share the work of a lane" : why_after(f);
    if (f->in_tree)
        return (pg__sum_plan){.way = PG_SUM_RANKS_TREE,
                              .in_tree = 1,
                              .to_owner = to_owner,
                              .why = "deterministic training fixes the order of sums"};
    if (f->factor_rank > 0)
        return (pg__sum_plan){.way = PG_SUM_RANKS_FACTORS,
                              .why = "factors are found once the gradients are complete"};
    if (!why && !f->has_rows)
        why = "the batch has no rows for this rank";
    return (pg__sum_plan){.way = PG_SUM_RANKS_BUCKETS,
                          .overlaps = why == NULL,
                          .to_owner = to_owner,
                          .halves = !to_owner && (f->n_ranks & (f->n_ranks - 1)) == 0,
                          .why = why ? why : "no order is required"};
}

static pg__sum_plan by_copies(const pg__sum_facts *f)
{
    return (pg__sum_plan){.way = f->n_ranks > 1 ? PG_SUM_HOSTS : PG_SUM_COPIES,
                          .in_tree = f->in_tree,
                          .why = f->n_ranks == 1 && f->n_devices == 1 ? "there is one GPU"
                                 : f->in_tree ? "deterministic training fixes the order of sums"
                                              : "NCCL is switched off"};
}

pg__sum_plan pg__sum_plan_of(const pg__sum_facts *f)
{
    if (f->is_trial)
        return (pg__sum_plan){.way = PG_SUM_LANES, .why = "a trial changes nothing"};
    if (f->on_cpus && f->n_ranks > 1)
        return over_ranks(f);
    if (f->on_cpus)
        return (pg__sum_plan){
            .way = PG_SUM_LANES, .in_tree = f->in_tree, .why = "one process shares its memory"};
    if (f->is_placed)
        return (pg__sum_plan){
            .way = PG_SUM_PLACED, .in_tree = f->in_tree, .why = "GPUs share one model"};
    return pg__sums_by_group(f) ? by_group(f) : by_copies(f);
}

/* ---- what it depends on ---- */

void pg__sums_know(pg_trainer *t, const pg_train_opts *o)
{
    t->sums.facts = (pg__sum_facts){.on_cpus = t->devs.backend->host_memory,
                                    .in_tree = o->deterministic,
                                    .without_group = o->cpu_merge,
                                    .tunes = o->gpu_tune,
                                    .one_each = 1,
                                    .n_devices = t->devs.n_devices,
                                    .n_ranks = t->ranks ? pg__comm_size(t->ranks->comm) : 1,
                                    .factor_rank =
                                        t->ranks ? t->ranks->compression.factor_rank : 0};
}

/* In a program's first run libraries load code and allocate memory, which may wait for all work
 * queued on a GPU: forever, if that includes a sum whose other ranks do the same. */
static pg__built *built_of(const pg__step *s, size_t k)
{
    for (size_t i = 0; i < s->t->programs.n_built; i++)
        if (s->t->programs.built[i].program == s->jobs[k].program)
            return &s->t->programs.built[i];
    return NULL;
}

static pg__sum_facts facts_of(const pg__step *s)
{
    const pg_trainer *t = s->t;
    pg__sum_facts f = t->sums.facts;
    f.is_placed = t->devs.is_split;
    f.shares_lanes = t->devs.assigned.n_devices > 1;
    f.is_sharded = pg__is_sharded(t->ranks);
    f.needs_whole = pg__opt_shard_whole_sums(&t->compiled);
    f.is_trial = t->loop.is_trial;
    f.is_watched = t->loop.watch != NULL;
    f.in_parts = s->n_jobs != s->n_lanes;
    f.meets = s->n_meetings > 0;
    f.lane_per_device = s->n_jobs == t->devs.n_devices && s->n_jobs == t->pool.n_threads;
    f.all_have_rows = f.n_ranks == 1 || s->batch->n_rows >= t->pool.cut.n_replicas;
    f.was_begun = 1;
    for (size_t k = 0; k < s->n_jobs; k++) {
        const pg__built *b = built_of(s, k);
        f.has_rows |= b != NULL;
        f.all_have_rows &= b != NULL;
        f.was_begun &= b && b->was_begun;
    }
    return f;
}

void pg__sums_plan(pg__step *s)
{
    static const pg__sum_plan none = {.why = "nothing is summed"};
    pg_trainer *t = s->t;
    s->plan = &none;
    if (s->pass != PG_TRAINS)
        return;
    const pg__sum_facts f = facts_of(s);
    const pg__sum_plan plan = pg__sum_plan_of(&f);
    if (t->sums.n_buckets == 0 &&
        (plan.way == PG_SUM_GROUP_BUCKETS || plan.begins || plan.way == PG_SUM_RANKS_BUCKETS))
        pg__buckets_cut(t);
    t->sums.plan = plan;
    s->plan = &t->sums.plan;
    if (s->batch->n_rows >= t->sums.most_rows && !f.is_trial) {
        t->sums.of_most = plan;
        t->sums.most_rows = s->batch->n_rows;
    }
}

void pg__sums_began(const pg__step *s)
{
    for (size_t k = 0; k < s->n_jobs && s->plan->begins; k++)
        built_of(s, k)->was_begun = 1;
}

/* ---- in words ---- */

int pg_trainer_sums(const pg_trainer *t, pg_sum_plan *out)
{
    static const char *const names[] = {
        [PG_SUM_LANES] = "lanes",    [PG_SUM_PLACED] = "placed",      [PG_SUM_COPIES] = "copies",
        [PG_SUM_GROUP] = "nccl",     [PG_SUM_GROUP_BUCKETS] = "nccl", [PG_SUM_HOSTS] = "hosts",
        [PG_SUM_RANKS_TREE] = "mpi", [PG_SUM_RANKS_FACTORS] = "mpi",
        [PG_SUM_RANKS_BUCKETS] = "mpi"};
    const pg__sum_plan *p = &t->sums.of_most;
    const int in_buckets = p->way == PG_SUM_GROUP_BUCKETS || p->way == PG_SUM_RANKS_BUCKETS;
    if (t->sums.most_rows == 0)
        return 0;
    *out = (pg_sum_plan){.way = names[p->way],
                         .is_in_tree = p->in_tree,
                         .overlaps = p->overlaps,
                         .n_buckets = in_buckets ? t->sums.n_buckets : 0,
                         .why = p->why};
    return 1;
}

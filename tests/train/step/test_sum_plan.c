/* Who sums gradients, in which order and when: one row for each situation, and one sentence for
 * each answer. */
#include "pg_test.h"

#include "train/step/sum_plan.h"

#pragma GCC diagnostic ignored "-Woverride-init" /* that is what the rows are for */

/* So many devices of a kind in so many processes, where nothing stands in the way of sums that
 * begin while the backward pass goes on. */
#define ON(cpus, devices, ranks, ...)                                                        \
    {                                                                                        \
        .on_cpus = cpus, .n_devices = devices, .n_ranks = ranks, .one_each = 1, .tunes = 1,  \
        .lane_per_device = 1, .has_rows = 1, .all_have_rows = 1, .was_begun = 1, __VA_ARGS__ \
    }
#define CPUS(ranks, ...) ON(1, 1, ranks, __VA_ARGS__)
#define GPUS(n, ...)     ON(0, n, 1, __VA_ARGS__)
#define GPU_RANKS(...)   ON(0, 1, 2, __VA_ARGS__)

typedef struct row {
    const char *what;
    pg__sum_facts facts;
    pg__sum_way way;
    int in_tree, overlaps, begins, to_owner, halves;
    const char *why; /* a word of it */
} row;

static const row rows[] = {
    {"one process", CPUS(1, .in_tree = 0), PG_SUM_LANES, .why = "one process"},
    {"one process, deterministic", CPUS(1, .in_tree = 1), PG_SUM_LANES, 1, .why = "one process"},
    {"a trial among ranks", CPUS(4, .is_trial = 1), PG_SUM_LANES, .why = "trial"},
    {"a trial on GPUs", GPUS(4, .is_trial = 1), PG_SUM_LANES, .why = "trial"},

    {"ranks", CPUS(4, .in_tree = 0), PG_SUM_RANKS_BUCKETS, .overlaps = 1, .halves = 1,
     .why = "no order"},
    {"three ranks", CPUS(3, .in_tree = 0), PG_SUM_RANKS_BUCKETS, .overlaps = 1, .why = "no order"},
    {"ranks, deterministic", CPUS(4, .in_tree = 1), PG_SUM_RANKS_TREE, 1, .why = "deterministic"},
    {"ranks, in parts", CPUS(2, .in_parts = 1), PG_SUM_RANKS_BUCKETS, .halves = 1, .why = "parts"},
    {"ranks whose lanes meet", CPUS(2, .meets = 1), PG_SUM_RANKS_BUCKETS, .halves = 1,
     .why = "BatchNormalization"},
    {"ranks with placed layers", CPUS(2, .shares_lanes = 1), PG_SUM_RANKS_BUCKETS, .halves = 1,
     .why = "share"},
    {"a rank without rows", CPUS(2, .has_rows = 0), PG_SUM_RANKS_BUCKETS, .halves = 1,
     .why = "no rows"},
    {"ranks, in factors", CPUS(3, .factor_rank = 4), PG_SUM_RANKS_FACTORS, .why = "complete"},
    {"a divided optimizer", CPUS(4, .is_sharded = 1), PG_SUM_RANKS_BUCKETS, .overlaps = 1,
     .to_owner = 1, .why = "no order"},
    {"a divided optimizer that clips", CPUS(4, .is_sharded = 1, .needs_whole = 1),
     PG_SUM_RANKS_BUCKETS, .overlaps = 1, .halves = 1, .why = "no order"},
    {"a divided optimizer, deterministic", CPUS(4, .is_sharded = 1, .in_tree = 1),
     PG_SUM_RANKS_TREE, 1, .to_owner = 1, .why = "deterministic"},

    {"one GPU", GPUS(1, .in_tree = 0), PG_SUM_COPIES, .why = "one GPU"},
    {"one GPU, deterministic", GPUS(1, .in_tree = 1), PG_SUM_COPIES, 1, .why = "one GPU"},
    {"GPUs that share a model", GPUS(2, .is_placed = 1), PG_SUM_PLACED, .why = "share one model"},
    {"GPUs, deterministic", GPUS(4, .in_tree = 1), PG_SUM_COPIES, 1, .why = "deterministic"},
    {"GPUs without NCCL", GPUS(4, .without_group = 1), PG_SUM_COPIES, .why = "NCCL"},
    {"GPUs", GPUS(4, .in_tree = 0), PG_SUM_GROUP_BUCKETS, .overlaps = 1, .why = "one lane"},
    {"GPUs, first step", GPUS(4, .was_begun = 0), PG_SUM_GROUP, .begins = 1, .why = "first run"},
    {"GPUs, in parts", GPUS(4, .in_parts = 1), PG_SUM_GROUP, .why = "parts"},
    {"GPUs whose lanes meet", GPUS(4, .meets = 1), PG_SUM_GROUP, .why = "BatchNormalization"},
    {"GPUs that are watched", GPUS(4, .is_watched = 1), PG_SUM_GROUP, .why = "observed"},
    {"two replicas on a GPU", GPUS(2, .lane_per_device = 0), PG_SUM_GROUP, .why = "several lanes"},
    {"GPUs that are not tuned", GPUS(4, .tunes = 0), PG_SUM_GROUP, .why = "gpu_tune"},
    {"a GPU without rows", GPUS(4, .all_have_rows = 0), PG_SUM_GROUP, .why = "no rows"},

    {"GPUs of ranks", GPU_RANKS(.lane_per_device = 0), PG_SUM_GROUP_BUCKETS, .overlaps = 1,
     .why = "one lane"},
    {"GPUs of ranks, first step", GPU_RANKS(.was_begun = 0), PG_SUM_GROUP_BUCKETS, .begins = 1,
     .why = "first run"},
    {"GPUs of ranks, not tuned", GPU_RANKS(.tunes = 0), PG_SUM_GROUP, .why = "gpu_tune"},
    {"ranks, without GPUs to tune", CPUS(4, .tunes = 0), PG_SUM_RANKS_BUCKETS, .overlaps = 1,
     .halves = 1, .why = "no order"},
    {"GPUs of ranks, shared", GPU_RANKS(.one_each = 0), PG_SUM_GROUP, .why = "several lanes"},
    {"GPUs of ranks, deterministic", GPU_RANKS(.in_tree = 1), PG_SUM_HOSTS, 1,
     .why = "deterministic"},
    {"GPUs of ranks without NCCL", GPU_RANKS(.without_group = 1), PG_SUM_HOSTS, .why = "NCCL"},
};

static void answers_every_situation(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        const row *r = &rows[k];
        const pg__sum_plan p = pg__sum_plan_of(&r->facts);
        if (p.way != r->way || p.in_tree != r->in_tree || p.overlaps != r->overlaps ||
            p.begins != r->begins || p.to_owner != r->to_owner || p.halves != r->halves)
            fail_msg("%s: way %d, in tree %d, overlaps %d, begins %d, to owner %d, halves %d",
                     r->what, p.way, p.in_tree, p.overlaps, p.begins, p.to_owner, p.halves);
        if (!strstr(p.why, r->why))
            fail_msg("%s: \"%s\" says nothing of \"%s\"", r->what, p.why, r->why);
    }
}

/* A group is opened exactly where some step may sum by it. */
static void opens_a_group_where_one_sums(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        const pg__sum_facts *f = &rows[k].facts;
        const int by_group = rows[k].way == PG_SUM_GROUP || rows[k].way == PG_SUM_GROUP_BUCKETS;
        if (!f->is_trial && pg__sums_by_group(f) != by_group)
            fail_msg("%s: group %d", rows[k].what, !by_group);
    }
}

/* What differs between ranks - rows, programs that ran - must not change what they ask each other
 * for, or in which pieces. */
static void comes_to_one_plan_on_all_ranks(void **state)
{
    (void)state;
    const pg__sum_facts with = CPUS(2, .has_rows = 1), without = CPUS(2, .has_rows = 0);
    const pg__sum_facts early = GPU_RANKS(.was_begun = 0), late = GPU_RANKS(.was_begun = 1);
    assert_int_equal(pg__sum_plan_of(&with).way, pg__sum_plan_of(&without).way);
    assert_int_equal(pg__sum_plan_of(&with).halves, pg__sum_plan_of(&without).halves);
    assert_int_equal(pg__sum_plan_of(&early).way, pg__sum_plan_of(&late).way);
}

PG_TEST_MAIN(cmocka_unit_test(answers_every_situation),
             cmocka_unit_test(opens_a_group_where_one_sums),
             cmocka_unit_test(comes_to_one_plan_on_all_ranks))

/* sum_plan.h - the one place that decides how the gradients of a step are summed. all_reduce.c,
 * buckets.c, ranks_sum.c and update.c carry the plan out and look at nothing else. */
#ifndef PG_TRAIN_STEP_SUM_PLAN_H
#define PG_TRAIN_STEP_SUM_PLAN_H

#include <stddef.h>
#include <stdint.h>

#include "backend/backend.h"
#include "pg/train.h"

/* Who sums. */
typedef enum pg__sum_way {
    PG_SUM_LANES,  /* CPUs of one process: each worker sums a range of elements as it updates them
                    */
    PG_SUM_PLACED, /* GPUs that share one model: each sums its variables */
    PG_SUM_COPIES, /* GPUs of one process: copies from one to the other, in the order of the tree
                    */
    PG_SUM_GROUP,  /* GPUs: NCCL, all elements at once, after the backward pass */
    PG_SUM_GROUP_BUCKETS, /* GPUs: NCCL, bucket by bucket */
    PG_SUM_HOSTS,         /* GPUs of ranks: copies, then over ranks through the hosts' memory */
    PG_SUM_RANKS_TREE,    /* CPUs of ranks: over ranks in the order of the tree */
    PG_SUM_RANKS_FACTORS, /* CPUs of ranks: matrices as factors of low rank */
    PG_SUM_RANKS_BUCKETS  /* CPUs of ranks: bucket by bucket, each in whichever order is fastest */
} pg__sum_way;

/* What the decision depends on. */
typedef struct pg__sum_facts {
    /* of the trainer */
    int on_cpus;
    int in_tree;       /* deterministic: sums follow the order of the tree */
    int without_group; /* NCCL is not wanted (cpu_merge) */
    int tunes;         /* GPUs: sums may overlap with the backward pass (gpu_tune) */
    int one_each;      /* every replica of every rank has a device of its own */
    int is_placed;     /* GPUs share one model */
    int shares_lanes;  /* several devices share the work of a lane */
    int is_sharded;    /* the optimizer's state is divided over ranks */
    int needs_whole;   /* every rank needs all sums all the same, for norms of whole variables */
    size_t n_devices, n_ranks;
    size_t factor_rank; /* matrices go over ranks as factors of so many columns; 0: as they are */
    /* of the step */
    int is_trial;        /* only timed: other ranks do not matter */
    int is_watched;      /* its values are observed */
    int in_parts;        /* a batch is run in several parts */
    int meets;           /* lanes wait for each other, at BatchNormalization */
    int lane_per_device; /* each device of this process has one lane, run by one thread */
    int has_rows;        /* some lane of this process */
    int all_have_rows;   /* all lanes of all processes */
    int was_begun;       /* its programs ran in a training step before */
} pg__sum_facts;

typedef struct pg__sum_plan {
    pg__sum_way way;
    int in_tree;     /* in an order that does not depend on devices and ranks */
    int overlaps;    /* sums begin while the backward pass goes on */
    int begins;      /* will overlap once its programs have run */
    int to_owner;    /* a rank gets only the sums of the elements that it updates */
    int halves;      /* recursive halving and doubling */
    const char *why; /* a sentence without its full stop */
} pg__sum_plan;

pg__sum_plan pg__sum_plan_of(const pg__sum_facts *f);

/* Do GPUs sum as a group (NCCL)? Decided once, when they are opened. */
int pg__sums_by_group(const pg__sum_facts *f);

/* Variables [first, end), whose gradients are summed together (buckets.h). */
typedef struct pg__bucket {
    size_t first, end;
} pg__bucket;
#define PG_MAX_BUCKETS 64

/* Sums of a trainer. */
typedef struct pg__sums {
    pg__sum_facts facts;  /* those of the trainer */
    pg__sum_plan plan;    /* of the current training step, or the last one */
    pg__sum_plan of_most; /* of the last step with most_rows rows */
    uint64_t most_rows;   /* most rows of any step so far; 0: no training step yet */
    pg__group *group;     /* sums over devices; or NULL */
    int is_summing;       /* it may be busy with sums that have not been waited for yet */
    pg__bucket buckets[PG_MAX_BUCKETS]; /* in the order of summing */
    size_t n_buckets;                   /* 0: not cut yet */
} pg__sums;

struct pg__step;
/* Sets the facts that are known once devices are open. */
void pg__sums_know(pg_trainer *t, const pg_train_opts *o);
/* Plans a step whose batch is cut: s->plan, and for a training step t->sums.plan. */
void pg__sums_plan(struct pg__step *s);
/* The planned step ran: once its programs have, sums may be queued during their runs. */
void pg__sums_began(const struct pg__step *s);

#endif

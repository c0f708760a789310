/* sum_plan.h - the one place that decides how the gradients of a step are summed. all_reduce.c,
 * buckets.c, ranks_sum.c and update.c carry the plan out, and ask for nothing but the plan. */
#ifndef PG_TRAIN_STEP_SUM_PLAN_H
#define PG_TRAIN_STEP_SUM_PLAN_H

#include <stddef.h>
#include <stdint.h>

#include "backend/backend.h"
#include "pg/train.h"

/* Who sums. */
typedef enum pg__sum_way {
    PG__SUM_LANES,  /* CPUs of one process: each worker a range of elements, when it updates them */
    PG__SUM_PLACED, /* GPUs that share one model: each its variables */
    PG__SUM_COPIES, /* GPUs of one process: copies from one to the other, in the order of the tree
                     */
    PG__SUM_GROUP,  /* GPUs: NCCL, all elements at once, after the backward pass */
    PG__SUM_GROUP_BUCKETS, /* GPUs: NCCL, bucket by bucket */
    PG__SUM_HOSTS,         /* GPUs of ranks: copies, then over ranks through the hosts' memory */
    PG__SUM_RANKS_TREE,    /* CPUs of ranks: over ranks in the order of the tree */
    PG__SUM_RANKS_BUCKETS  /* CPUs of ranks: bucket by bucket, each in whichever order is fastest */
} pg__sum_way;

/* What the decision depends on. */
typedef struct pg__sum_facts {
    /* of the trainer */
    int on_cpus;
    int in_tree;       /* deterministic: sums are made in the order of the tree */
    int without_group; /* NCCL is not wanted (cpu_merge) */
    int one_each;      /* every replica of every rank has a device of its own */
    int is_placed;     /* GPUs share one model */
    int shares_lanes;  /* several devices share the work of a lane */
    int is_sharded;    /* the optimizer's state is divided over ranks */
    int needs_whole;   /* every rank needs all sums all the same, for norms of whole variables */
    size_t n_devices, n_ranks;
    /* of the step */
    int is_trial;        /* only timed: what other ranks have does not count */
    int is_watched;      /* somebody looks at its numbers */
    int in_parts;        /* a batch is worked through in several */
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
    int begins;      /* will overlap once its programs have been run */
    int to_owner;    /* a rank gets the sums of the elements that it updates, and no more */
    int halves;      /* two ranks swap halves, and these with two others */
    const char *why; /* a sentence without its full stop */
} pg__sum_plan;

pg__sum_plan pg__sum_plan_of(const pg__sum_facts *f);

/* Do GPUs sum as a group (NCCL)? Asked once, when they are opened. */
int pg__sums_by_group(const pg__sum_facts *f);

/* Variables [first, end), whose gradients are summed together (buckets.h). */
typedef struct pg__bucket {
    size_t first, end;
} pg__bucket;
#define PG_MAX_BUCKETS 64

/* Sums of a trainer. */
typedef struct pg__sums {
    pg__sum_facts facts;                /* those of the trainer */
    pg__sum_plan plan;                  /* of the training step in hand, or the last one */
    pg__sum_plan of_most;               /* the last one of a step with as many rows as any */
    uint64_t most_rows;                 /* 0: there was no training step */
    pg__group *group;                   /* that sums over devices, or NULL */
    int is_summing;                     /* it may be at sums that nobody has waited for yet */
    pg__bucket buckets[PG_MAX_BUCKETS]; /* in the order in which they are summed */
    size_t n_buckets;                   /* 0: not cut yet */
} pg__sums;

struct pg__step;
/* What is known once devices are open. */
void pg__sums_know(pg_trainer *t, const pg_train_opts *o);
/* The plan of a step whose batch is cut: s->plan, and of a training step t->sums.plan. */
void pg__sums_plan(struct pg__step *s);

#endif

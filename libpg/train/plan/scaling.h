/* scaling.h - what a training step takes on more devices than there are, by arithmetic alone: when
 * the backward pass leaves each bucket of gradients behind (buckets.h), how long its sum over all
 * devices takes, and what of that no computation hides. */
#ifndef PG_TRAIN_PLAN_SCALING_H
#define PG_TRAIN_PLAN_SCALING_H

#include "pg/train.h"
#include "train/step/step.h"

/* Between two devices, or two hosts. */
typedef struct pg__link {
    double latency, bandwidth; /* seconds of a message; bytes per second in each direction */
} pg__link;

/* Devices, as many on each host; where there is one host the link between hosts is not used. */
typedef struct pg__layout {
    size_t n_hosts, per_host;
    pg__link outer, inner; /* between hosts, all devices of one together; within one */
    int by_cores; /* what goes between devices of a host is moved by the cores that compute:
                     nothing is hidden behind them */
} pg__layout;

/* Seconds of a device's step. */
typedef struct pg__pace {
    double compute; /* from the beginning to the end of the backward pass */
    double
        ready[PG_MAX_BUCKETS]; /* from the beginning: bucket k is left behind; they do not fall */
    double sum;    /* of the gradients of its threads, all buckets: where devices are several */
    double reduce; /* the same where it is alone: its threads share it */
    double update, rest; /* rest: all else, behind it */
} pg__pace;

/* What is summed. */
typedef struct pg__load {
    size_t n; /* buckets */
    double bytes[PG_MAX_BUCKETS];
    int goes_along;    /* each as soon as it is ready; else all behind the backward pass */
    int is_sharded;    /* the optimizer's state is divided (optimizer_shard.h) */
    int sums_whole;    /* of that: sums of gradients come whole to all all the same */
    int in_tree;       /* parts go by halving and doubling, else one by one to or from all */
    double share_rate; /* bytes per second that such parts go at, at most; 0: as the link */
    double n_told, told_bytes; /* beside gradients, numbers that each device tells all others: how
                                  often in a step, and how many bytes of one in all */
} pg__load;

typedef struct pg__parts_of_step {
    double compute;         /* with the sums of a device's threads */
    double exchange, shown; /* all of it, and what is not hidden behind computing */
    double update, rest, all;
} pg__parts_of_step;

/* A sum of n_bytes over n parties of which each has a link: around a ring, 2 (n-1) latency + 2
 * (n-1)/n n_bytes / bandwidth; by halving and doubling, 2 log2 n latency and the same bytes; or all
 * of it log2 n times, whichever is the soonest: libraries choose by size. */
double pg__sum_seconds(const pg__link *l, size_t n, double n_bytes);

/* Half of that: each of n parties gets the sum of its part of n_bytes, or all get each party's
 * part. A message to each other one, or to one for each halving; the same bytes. */
double pg__share_seconds(const pg__link *l, size_t n, double n_bytes, const pg__load *load);

/* The step of a device among those of l. Buckets are summed one after the other, in their order,
 * each within every host first, then between hosts; the update waits for all of them. Where the
 * optimizer's state is divided a device gets its part of the sums and updates that, and behind the
 * update all get what the others made of theirs, which nothing hides. */
pg__parts_of_step pg__step_on(const pg__layout *l, const pg__pace *p, const pg__load *load);

/* All of it f times as long. */
void pg__pace_stretch(pg__pace *p, double f);

/* At `rows` between a of a_rows and b of b_rows, on a line. */
pg__pace pg__pace_between(const pg__pace *a, double a_rows, const pg__pace *b, double b_rows,
                          double rows);

/* The number of devices of the first row from which the next one is not worth it: a doubling that
 * gives less than 1.2 times the samples per second, and less in proportion for less than a
 * doubling. 0: all are. */
size_t pg__pays_up_to(const pg_plan_row *rows, size_t n);

/* Does a row of more devices tell more than 100 % of what one alone reaches, as only a measurement
 * that was disturbed does, or a cache that a whole batch does not fit into? */
int pg__exceeds_one(const pg_plan_row *rows, size_t n);

#endif

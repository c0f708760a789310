/* scaling.h - predicts a training step on more devices than there are, by arithmetic alone: when
 * each bucket of gradients is complete (buckets.h), how long its sum over all devices takes, and
 * how much of that is not hidden by computation. */
#ifndef PG_TRAIN_PLAN_SCALING_H
#define PG_TRAIN_PLAN_SCALING_H

#include "pg/train.h"
#include "train/step/step.h"

/* Between two devices, or two hosts. */
typedef struct pg__link {
    double latency, bandwidth; /* seconds per message; bytes per second in each direction */
} pg__link;

/* Devices, equally many on each host; with one host, the link between hosts is not used. */
typedef struct pg__layout {
    size_t n_hosts, per_host;
    pg__link outer, inner; /* between hosts, shared by a host's devices; within a host */
    int by_cores; /* the computing cores move the data between devices of a host, so computation
                     hides nothing */
} pg__layout;

/* Seconds of the parts of a device's step. */
typedef struct pg__pace {
    double compute;               /* from the start to the end of the backward pass */
    double ready[PG_MAX_BUCKETS]; /* from the start until bucket k is complete; never decreases */
    double sum;                   /* of its threads' gradients, all buckets, with several devices */
    double reduce;                /* the same for a single device: its threads share the work */
    double update, rest;          /* rest: everything else, after it */
} pg__pace;

/* What is summed. */
typedef struct pg__load {
    size_t n; /* buckets */
    double bytes[PG_MAX_BUCKETS];
    int goes_along; /* each as soon as it is complete; else all after the backward pass */
    int is_sharded; /* the optimizer's state is sharded (optimizer_shard.h) */
    int sums_whole; /* then: all devices still get the whole sums of gradients */
    int in_tree; /* parts are exchanged by recursive halving and doubling, else one by one with all
                  */
    double share_rate;           /* limit for such parts in bytes per second; 0: that of the link */
    double n_small, small_bytes; /* numbers besides gradients that each device sends to all others:
                                  exchanges per step, and bytes per device in all */
} pg__load;

typedef struct pg__parts_of_step {
    double compute;         /* including the sums of a device's threads */
    double exchange, shown; /* the whole exchange, and the part not hidden by computation */
    double update, rest, all;
} pg__parts_of_step;

/* A sum of n_bytes over n parties, each with its own link: in a ring, 2 (n-1) latency + 2 (n-1)/n
 * n_bytes / bandwidth; by recursive halving and doubling, 2 log2 n latency and the same bytes; or
 * everything log2 n times. The fastest counts: libraries choose by size. */
double pg__sum_seconds(const pg__link *l, size_t n, double n_bytes);

/* Half of that: a reduce-scatter or an all-gather of n_bytes. One message to each other party, or
 * one per halving; the same bytes. */
double pg__share_seconds(const pg__link *l, size_t n, double n_bytes, const pg__load *load);

/* The step of a device among those of l. Buckets are summed one after the other, in order, each
 * first within hosts, then between hosts; the update waits for all of them. With a sharded
 * optimizer a device gets its part of the sums and updates that; after the update all exchange the
 * results, which nothing hides. */
pg__parts_of_step pg__step_on(const pg__layout *l, const pg__pace *p, const pg__load *load);

/* Makes every part f times as long. */
void pg__pace_stretch(pg__pace *p, double f);

/* Interpolates linearly at `rows` between a at a_rows and b at b_rows. */
pg__pace pg__pace_between(const pg__pace *a, double a_rows, const pg__pace *b, double b_rows,
                          double rows);

/* The number of devices in the first row after which more do not pay off: a doubling gives less
 * than 1.2 times the samples per second, or proportionally less for less than a doubling. 0: all
 * rows pay off. */
size_t pg__pays_up_to(const pg_plan_row *rows, size_t n);

/* Does a row exceed 100 % efficiency? Only a disturbed measurement, or a batch too large for the
 * caches of one device, does that. */
int pg__exceeds_one(const pg_plan_row *rows, size_t n);

#endif

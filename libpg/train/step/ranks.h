/* ranks.h - training with other processes (comm/comm.h). The devices of all ranks, in their order,
 * are the replicas: a batch is cut over them as over those of one process, each rank reads and
 * computes its rows, and sums over lanes extend over ranks. All ranks hold all variables and update
 * them alike; only rank 0 writes files. */
#ifndef PG_TRAIN_STEP_RANKS_H
#define PG_TRAIN_STEP_RANKS_H

#include "base/str.h"
#include "comm/comm.h"
#include "train/step/trainer.h"

/* How gradients are compressed on their way; at most one is set. */
typedef struct pg__compression {
    int as_bf16;        /* rounded to bfloat16 */
    size_t factor_rank; /* matrices as factors of so many columns (powersgd.h) */
} pg__compression;

/* The part of a sharded slot that rank 0 holds (optimizer_shard.h). */
typedef struct pg__window {
    char *mem;
    uint64_t from, to; /* bytes of the slot */
} pg__window;

typedef struct pg__ranks {
    pg__comm *comm;
    size_t *first_replica; /* per rank, and the end */
    size_t *first_lane;    /* the same for lanes, numbered as in pg__all_lanes() */
    size_t most_lanes;     /* on any rank */
    size_t n_sharing;      /* ranks on the same cores, including this one */
    pg__flat own;          /* gradients of a rank without rows */
    struct pg__bucket_sums *sums;
    struct pg__powersgd *powersgd; /* from the first such sum on; or NULL */
    void *staging;         /* in host memory: gradients of GPUs, and data from another rank */
    pg_rank_share *shares; /* what the last report points to */
    const volatile int *cancel;
    int stops;      /* some rank was asked to stop before the last step */
    int has_agreed; /* all ranks failed, and know it */
    int shards;     /* the optimizer's state is divided */
    uint32_t mark;  /* checksum of all that was put into it */
    pg__compression compression;
    pg__window windows[PG_MAX_SLOTS];
    pg__strs compared; /* descriptions of the data */
} pg__ranks;

/* ---- ranks.c: beginning and end ---- */

/* Joins the job; before devices are opened. t->ranks stays NULL where this is the only process. */
pg_status pg__ranks_join(pg_trainer *t, const pg_train_opts *o, pg_err *err);
/* Places its replicas among all: t->pool.cut, which so far has only its own. */
pg_status pg__ranks_deal(pg_trainer *t, const pg_train_opts *o, pg_err *err);
/* Places its lanes among all, once there are workers. */
pg_status pg__ranks_seat(pg_trainer *t, pg_err *err);
/* Checks that all have the same libpg, model and options, and starts all with rank 0's variables.
 */
pg_status pg__ranks_begin(pg_trainer *t, const pg_train_opts *o, pg_err *err);
void pg__ranks_leave(pg_trainer *t);

/* A public call begins: forgets the outcome of the one before. cancel: this call's, or NULL. */
void pg__ranks_begin_call(pg_trainer *t, const volatile int *cancel);

/* Checks that all were asked for the same run. */
pg_status pg__ranks_same_run(pg_trainer *t, const pg_fit_opts *o, pg_err *err);

/* A failure that all ranks detected together: only rank 0 reports it. */
pg_status pg__ranks_known(struct pg__ranks *ranks, pg_status st, pg_err *err);
/* Makes all ranks return the failure of the first rank that failed; only rank 0 gets its message.
 */
pg_status pg__ranks_agree(struct pg__ranks *ranks, pg_status st, pg_err *err);
/* A failure of this rank alone, at the end of a public call: names the rank. Others will wait for
 * it in vain. */
pg_status pg__ranks_fail(struct pg__ranks *ranks, pg_status st, pg_err *err);

/* Did any rank find it? */
pg_status pg__ranks_any(pg_trainer *t, int *found, pg_err *err);
/* Did all ranks find the run to resume, and the same one? mark: checksum of what was found. */
pg_status pg__ranks_found(struct pg__ranks *ranks, const char *file, int found, uint32_t mark,
                          pg_err *err);
/* Shares the place of the first NaN, which one rank may know. */
pg_status pg__ranks_where(struct pg__ranks *ranks, char where[256], pg_err *err);

/* Seconds spent waiting so far; where the time of each rank's steps went. */
double pg__ranks_waited(const struct pg__ranks *ranks);
pg_status pg__ranks_shares(pg_trainer *t, pg_fit_report *to, pg_err *err);

/* Is it time to stop? All ranks agree: by requests that arrived before the last step. */
int pg__must_stop(const struct pg__ranks *ranks, const volatile int *cancel);

size_t pg__rank_of(const struct pg__ranks *ranks); /* 0 where there are no others */

/* ---- ranks_step.c: within a step ---- */

/* Lanes of all processes; the first of this one's among them. */
size_t pg__all_lanes(const pg_trainer *t);
size_t pg__first_lane(const pg_trainer *t);

/* Rows of a batch, which each rank has at its place, to rank 0. */
pg_status pg__ranks_rows(pg_trainer *t, const pg__batch *b, void *rows, size_t row_bytes,
                         pg_err *err);

/* ---- ranks_sum.c: gradients ---- */

pg_status pg__sums_open(struct pg__ranks *ranks, pg_err *err);
void pg__sums_close(struct pg__ranks *ranks);
/* Bytes that sums take beside the gradients: on each of so many ranks with such a trainer; on this
 * one among those that there are; what it has of that already. */
uint64_t pg__sums_bytes(pg_trainer *t, size_t n_ranks, int is_sharded);
uint64_t pg__sums_needed(pg_trainer *t);
uint64_t pg__sums_held(pg_trainer *t);
/* The sum over ranks of what each has; *sum NULL: it has no rows. Where the optimizer's state is
 * divided only the rank's own elements, if nothing asks for more (optimizer_shard.h). */
pg_status pg__ranks_sum(pg_trainer *t, pg__flat **sum, pg_err *err);

#endif

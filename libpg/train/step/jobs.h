/* jobs.h - between step.c, which cuts a batch into lanes, and jobs.c, which runs them. */
#ifndef PG_TRAIN_STEP_JOBS_H
#define PG_TRAIN_STEP_JOBS_H

#include "train/step/masks.h"
#include "train/step/result.h"
#include "train/step/sync_bn.h"

/* Everything that a lane's run needs. */
typedef struct pg__lane_frame {
    pg__frame f;
    const void **rows, **seeds; /* what the frame points to, in the job's pointers */
    pg__rows host;              /* the same rows in the host's memory */
    void **states, **staged;    /* where the states lie between steps, and during this one */
    char *kept;                 /* new states not yet copied there (states.h) */
} pg__lane_frame;

#define PG_MAX_TOGETHER 8 /* lanes run at once */

/* A lane of one part of a batch. */
typedef struct pg__job {
    pg__lane lane;              /* rows of the whole batch */
    uint64_t first_in_part;     /* row of the part */
    uint64_t at_row;            /* in the batch's memory: see pg__batch.n_here */
    int is_last;                /* the last of the lane's parts */
    size_t n_together, place;   /* number of lanes run at once; its index among them */
    const pg__program *program; /* NULL: no rows */
    const pg__program *masks;   /* NULL: none are needed beforehand */
    pg__memory *arena;
    pg__landing *landing;
    pg__totals totals;
    pg__mask_sum *mask_sums; /* per output */
    pg__lane_frame frame;
    const void **pointers; /* pg__job_n_pointers() of them, for its frame */
    void **states;         /* where they lie, and where they are staged */
    int32_t *numbers;      /* PG_STEP_N, of the step's scalars */
    pg__flat *grads;
    size_t at; /* next call of the program */
    size_t n_devices;
    pg__count *done;   /* per device, if several share the lane's work */
    pg__count opened;  /* 1: the frame is there, 2: it is not */
    pg__count members; /* how many have ended */
} pg__job;

typedef struct pg__step {
    pg_trainer *t;
    /* what it was cut for (cut.c) */
    uint64_t n_rows, part_rows;
    pg__pass pass;
    pg__dims *inputs;
    size_t n_metric_state;
    int in_int8;
    int is_looked_at; /* values or times of its lanes are observed */

    const pg__batch *batch;
    const pg__sum_plan *plan; /* how its gradients are summed */
    void *const *predictions; /* per output; NULL: not wanted */
    pg__job *jobs;            /* n_lanes for each part */
    size_t n_jobs, n_lanes, n_parts, part;
    uint64_t first_here,
        n_before; /* while cutting: this rank's first row of the part; its rows in earlier parts */
    pg__sync_bn sync_bn; /* where lanes meet */
    size_t n_meetings;
    const void **seeds;
    void *scalars;             /* of the host, as copies want it: all that changes in every step */
    double *seed_mem, *shares; /* per output; seed_mem: of the scalars */
    pg__mask_sum *sums;        /* per output, over all lanes */
    const void **found;        /* of one job, for each moving average */
    double *numbers;           /* scratch of ranks_step.c */
    pg_status met;             /* status of the last meeting with other ranks */
    pg_err why;
} pg__step;

/* Is it the first job with rows? Lanes that met found the same statistics, so one stands for all.
 */
int pg__speaks(const pg__step *s, const pg__job *job);

/* Work for a thread pool, arg: the pg__step. All jobs of part s->part; their results; the sums of
 * all masks. */
void pg__work_on_lanes(void *arg, size_t worker);
void pg__work_on_results(void *arg, size_t worker);
void pg__work_on_masks(void *arg, size_t worker);

void pg__job_close(pg__job *job); /* its frame */
size_t pg__job_n_pointers(const pg__trainer_net *net);

#endif

/* writer.h - a thread that writes files during training, one after the other in the order given.
 * Jobs of one moment (between two polls) queue without blocking; before one of a later moment is
 * accepted, all earlier ones must be finished, so that memory and the age of files on disk stay
 * bounded. If no thread can be created, jobs run at once. */
#ifndef PG_TRAIN_FIT_WRITER_H
#define PG_TRAIN_FIT_WRITER_H

#include "pg/err.h"
#include "train/exec/exec.h"

typedef struct pg__writer pg__writer;

typedef struct pg__write_job {
    void *ctx;
    pg_status (*work)(void *ctx, pg_err *err); /* in the thread */
    /* Called by pg__writer_poll(), _wait() or _give(), in their caller's thread, with the outcome.
     * A status other than PG_OK ends the run. */
    pg_status (*done)(void *ctx, pg_status st, const pg_err *why, pg_err *err);
    void (*free)(void *ctx); /* after done, or without it if the writer is freed first */
} pg__write_job;

/* at_once: without a thread, for jobs that must run between two steps. */
pg_status pg__writer_new(pg__writer **out, int at_once, pg_err *err);

/* Its jobs appear in the trace from now on; before any is given. */
void pg__writer_trace(pg__writer *w, pg__trace *trace);

/* The writer owns the job, even if this fails. */
pg_status pg__writer_give(pg__writer *w, const pg__write_job *job, pg_err *err);
pg_status pg__writer_poll(pg__writer *w,
                          pg_err *err); /* reports finished jobs; begins a new moment */
pg_status pg__writer_wait(pg__writer *w,
                          pg_err *err); /* until all jobs are finished and reported */

/* Waits for all jobs, but reports none. NULL is allowed. */
void pg__writer_free(pg__writer *w);

#endif

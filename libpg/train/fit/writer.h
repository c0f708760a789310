/* writer.h - files written by a thread of their own while the training goes on, one after the other
 * in the order given. Jobs of one moment (between two polls) wait behind each other without holding
 * anybody up; before one of a later moment is taken, all of those must be done, so that memory and
 * the age of what is on disk stay bounded. Where there can be no thread, jobs are done at once. */
#ifndef PG_TRAIN_FIT_WRITER_H
#define PG_TRAIN_FIT_WRITER_H

#include "pg/err.h"

typedef struct pg__writer pg__writer;

typedef struct pg__write_job {
    void *ctx;
    pg_status (*work)(void *ctx, pg_err *err); /* in the thread */
    /* By pg__writer_poll(), _wait() or _give(), in the caller's thread: how it went. A status other
     * than PG_OK ends the run. */
    pg_status (*done)(void *ctx, pg_status st, const pg_err *why, pg_err *err);
    void (*free)(void *ctx); /* behind done, or without it where the writer is freed before */
} pg__write_job;

/* at_once: without a thread, for what has to be done between two steps. */
pg_status pg__writer_new(pg__writer **out, int at_once, pg_err *err);

/* The job is the writer's, also where this fails. */
pg_status pg__writer_give(pg__writer *w, const pg__write_job *job, pg_err *err);
pg_status pg__writer_poll(pg__writer *w, pg_err *err); /* tells of what is done; a new moment */
pg_status pg__writer_wait(pg__writer *w, pg_err *err); /* until all is done and told */

/* Waits for what was given, tells nobody. NULL is allowed. */
void pg__writer_free(pg__writer *w);

#endif

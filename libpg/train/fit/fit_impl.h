/* fit_impl.h - what fit.c and fit_open.c share: one run of pg_fit(). */
#ifndef PG_TRAIN_FIT_FIT_IMPL_H
#define PG_TRAIN_FIT_FIT_IMPL_H

#include "train/fit/callback.h"
#include "train/fit/resume.h"
#include "train/fit/resume_lock.h"
#include "train/model/model.h"
#include "train/step/step.h"

typedef struct pg__fit_run {
    pg_trainer *t;
    pg_data *data;
    const pg_fit_opts *opts;
    const pg_callback *cb;
    pg__fit fit; /* the same run as callbacks see it */
    pg_run what;
    pg__feed train, val;
    int has_val, holds;
    int meets_writer; /* other ranks wait wherever rank 0 may write state that is sharded over them
                       */
    int has_ended;    /* training is complete */
    size_t batch_size;
    pg__batch_order *order;
    pg__point next; /* turn: the next one to run */
    pg__prefetch *ahead;
    pg__totals own, pass;
    pg_forecast forecast;
    pg__logs logs;
    pg__resume resume;
    pg__resume_lock lock; /* of its resume file */
    pg__dims *shapes;     /* of the inputs, before the run */
    size_t n_finished;    /* epochs */
    size_t n_steps;       /* training steps so far */
    pg__traced traced;    /* fit_trace.c */
    int is_tracing;
} pg__fit_run;

/* Checks and prepares everything before the first batch; r has its first four members. */
pg_status pg__fit_open(pg__fit_run *r, pg_err *err);
void pg__fit_close(pg__fit_run *r);

/* Is its state written regularly, and not only on interruption? */
int pg__fit_keeps(const pg__fit_run *r);

/* ---- fit_trace.c ---- */

/* open: checks what was asked for, before training. before, after: around each training step, with
 * what follows it. end, cancel: training ends, in all ranks at once. fail: this rank has failed;
 * adds a detail to err. */
pg_status pg__fit_trace_open(pg__fit_run *r, pg_err *err);
void pg__fit_trace_close(pg__fit_run *r);
pg_status pg__fit_trace_before(pg__fit_run *r, pg_err *err);
pg_status pg__fit_trace_after(pg__fit_run *r, pg_err *err);
pg_status pg__fit_trace_end(pg__fit_run *r, pg_err *err);
void pg__fit_trace_cancel(pg__fit_run *r);
void pg__fit_trace_fail(pg__fit_run *r, pg_err *err);

/* Writes or reads the state that a resumed run restores. */
void pg__fit_keep(void *run, pg__archive *a);

#endif

/* fit_impl.h - what fit.c and fit_open.c share: one run of pg_fit(). */
#ifndef PG_TRAIN_FIT_FIT_IMPL_H
#define PG_TRAIN_FIT_FIT_IMPL_H

#include "train/fit/callback.h"
#include "train/fit/resume.h"
#include "train/fit/resume_lock.h"
#include "train/model/model.h"

typedef struct pg__fit_run {
    pg_trainer *t;
    pg_data *data;
    const pg_fit_opts *opts;
    const pg_callback *cb;
    pg__fit fit; /* the same, as callbacks see it */
    pg_run what;
    pg__feed train, val;
    int has_val, holds;
    int meets_writer; /* other ranks wait where rank 0 may write what they have a part of */
    int has_ended;    /* all was trained */
    size_t batch_size;
    pg__batch_order *course;
    pg__point next; /* turn: behind what is done */
    pg__prefetch *ahead;
    pg__totals own, pass;
    pg_forecast forecast;
    pg__logs logs;
    pg__resume resume;
    pg__resume_lock lock; /* of its file */
    pg__dims *shapes;  /* of the inputs, before the run */
    size_t n_finished; /* epochs */
} pg__fit_run;

/* Whatever can be wrong before the first batch; r has its first four members. */
pg_status pg__fit_open(pg__fit_run *r, pg_err *err);
void pg__fit_close(pg__fit_run *r);

/* Is its state written while it goes on, and not only when it is interrupted? */
int pg__fit_keeps(const pg__fit_run *r);

/* What a resumed run gets back of it. */
void pg__fit_keep(void *run, pg__archive *a);

#endif

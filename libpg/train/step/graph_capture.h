/* graph_capture.h - records a step once and replays it, on devices that can and if asked to
 * (pg_train_opts.gpu_tune): launching the hundreds of kernels of a step one by one takes longer
 * than the smaller ones run. */
#ifndef PG_TRAIN_STEP_GRAPH_CAPTURE_H
#define PG_TRAIN_STEP_GRAPH_CAPTURE_H

#include "train/step/trainer.h"

/* Where a run stops to call at(ctx, k): once calls [0, ends[k]) are queued; ends never decrease.
 * Work queued by at() is not recorded. */
typedef struct pg__stops {
    size_t n;
    const size_t *ends;
    pg_status (*at)(void *ctx, size_t k);
    void *ctx;
} pg__stops;

/* Like pg__program_run() from the beginning of a program in which no lanes meet; records the second
 * run with the same memory, and replays it from then on. stops: may be NULL. */
pg_status pg__graph_capture_run(pg__trainer_devs *devs, pg__worker *w, const pg__program *p,
                                const pg__frame *f, const pg__stops *stops);
void pg__graph_capture_forget(pg__trainer_devs *devs, pg__worker *w);

#endif

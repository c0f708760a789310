/* graph_capture.h - steps that are recorded once and replayed: where a device can, launching the
 * hundreds of kernels of a step one by one takes longer than the smaller ones run. */
#ifndef PG_TRAIN_STEP_GRAPH_CAPTURE_H
#define PG_TRAIN_STEP_GRAPH_CAPTURE_H

#include "train/step/trainer.h"

/* Where a run stops, and what is done there: at(ctx, k) once calls [0, ends[k]) are queued; ends do
 * not fall. What is done there is not recorded. */
typedef struct pg__stops {
    size_t n;
    const size_t *ends;
    pg_status (*at)(void *ctx, size_t k);
    void *ctx;
} pg__stops;

/* As pg__program_run() from the beginning of a program in which no lanes meet; the second run with
 * the same memory is recorded, those after it replay that. stops: NULL for none. */
pg_status pg__graph_capture_run(pg__trainer_devs *devs, pg__worker *w, const pg__program *p,
                                const pg__frame *f, const pg__stops *stops);
void pg__graph_capture_forget(pg__trainer_devs *devs, pg__worker *w);

#endif

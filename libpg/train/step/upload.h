/* upload.h - a lane's rows on a device with memory of its own: inputs, targets, weights and
 * whatever else changes from step to step are copied there, after the arena of the lane's program.
 */
#ifndef PG_TRAIN_STEP_UPLOAD_H
#define PG_TRAIN_STEP_UPLOAD_H

#include "train/step/jobs.h"

/* Where in the job's arena it begins. */
uint64_t pg__upload_at(const pg__job *job);

/* Bytes that a lane needs after its arena; 0 if host memory is device memory. */
uint64_t pg__upload_bytes(const pg_trainer *t, const pg__program *p, uint64_t n_rows);

/* Copies what the frame points to, and makes it point to the copies. */
pg_status pg__upload_in(const pg_trainer *t, pg__job *job);

#endif

/* upload.h - a lane's rows on a device with memory of its own: inputs, targets, weights and what
 * else changes from step to step are brought there, behind the arena of the lane's program. */
#ifndef PG_TRAIN_STEP_UPLOAD_H
#define PG_TRAIN_STEP_UPLOAD_H

#include "train/step/jobs.h"

/* Where in the job's arena it begins. */
uint64_t pg__upload_at(const pg__job *job);

/* What a lane needs behind its arena; 0 where the host's memory is the device's. */
uint64_t pg__upload_bytes(const pg_trainer *t, const pg__program *p, uint64_t n_rows);

/* Brings what the frame points to and lets it point there. */
pg_status pg__upload_in(const pg_trainer *t, pg__job *job);

#endif

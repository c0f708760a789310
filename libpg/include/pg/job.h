/* job.h - processes that train together, as mpirun, srun or torchrun started them: what a program
 * needs to know about the others. Trainers join the job themselves (pg_train_opts.joins_job). */
#ifndef PG_JOB_H
#define PG_JOB_H

#include <stddef.h>

#include "pg/err.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pg_trainer pg_trainer;

/* The rank of this process among the *n_ranks that mpirun, srun or another launcher started,
 * according to its environment; 0 of 1 if it was started alone. n_ranks may be NULL. */
PG_API size_t pg_job_rank(size_t *n_ranks);

/* For a process that cannot get as far as pg_trainer_open() or pg_plan_measure(): it joins the job
 * only to say so, and the others fail too instead of waiting for it. Takes the failure in *err. All
 * processes return the status of the first that failed; its message, with the rank's name in front,
 * goes to rank 0 alone. *err is unchanged if the others do not arrive within 30 seconds, and in a
 * process that was started alone. Blocks until then. */
PG_API PG_MUST_USE pg_status pg_job_refuse(pg_err *err);

/* Makes all processes of a job fail if one does: returns the status of the first that failed, with
 * its message on rank 0. For a program's own work between calls of the trainer; all processes call
 * it. */
PG_API PG_MUST_USE pg_status pg_trainer_agree(pg_trainer *t, pg_status st, pg_err *err);

/* Before ranks train, evaluate or predict, they compare checksums of their data: of everything if
 * it is below 256 MB, else of 1,056 rows chosen by the seed; for pictures, of all names and the
 * contents of as many. Returns what the last such call compared, one line for each set of rows
 * ("all of 1,797 rows ..."); NULL after the last one, and in a process that is alone. Valid until
 * the next call. */
PG_API const char *pg_trainer_compared(const pg_trainer *t, size_t i);

#ifdef __cplusplus
}
#endif

#endif

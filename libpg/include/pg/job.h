/* job.h - processes that train together, as mpirun, srun or torchrun started them: what a program
 * has to know of the others. Trainers join the job by themselves (pg_train_opts.joins_job).
 */
#ifndef PG_JOB_H
#define PG_JOB_H

#include <stddef.h>

#include "pg/err.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pg_trainer pg_trainer;

/* The rank of this process among the *n_ranks that mpirun, srun or another launcher started, as its
 * environment tells; 0 of 1: it was started alone. n_ranks may be NULL. */
PG_API size_t pg_job_rank(size_t *n_ranks);

/* For a process of a job that cannot go as far as pg_trainer_open() or pg_plan_measure(), as for
 * what it was asked: it comes there only to say so, and the others fail too instead of waiting for
 * it. Takes the failure in *err, and returns what all return: of the first that failed, with the
 * rank's name before the message, which rank 0 alone gets. *err stays where the others do not come
 * within 30 seconds, and in a process that was started alone. It blocks until then. */
PG_API PG_MUST_USE pg_status pg_job_refuse(pg_err *err);

/* What one process of a job cannot do, none does: the status of the first that failed, with its
 * message for rank 0. For what a program does between the trainer's calls, by all of them. */
PG_API PG_MUST_USE pg_status pg_trainer_agree(pg_trainer *t, pg_status st, pg_err *err);

/* Before they train, evaluate or predict, ranks compare checksums of their data: of everything below
 * 256 MB, else of 1,056 rows spread by the seed; of pictures the names of all and the contents of
 * as many. What was compared in the last of these calls, one line for each set of rows ("all of
 * 1,797 rows ..."); NULL behind the last one, and in a process that is alone. Until the next call.
 */
PG_API const char *pg_trainer_compared(const pg_trainer *t, size_t i);

#ifdef __cplusplus
}
#endif

#endif

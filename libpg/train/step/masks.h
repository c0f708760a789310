/* masks.h - between step.c and masks.c: what losses are divided by. */
#ifndef PG_TRAIN_STEP_MASKS_H
#define PG_TRAIN_STEP_MASKS_H

#include "train/step/trainer.h"

/* Of one output over the whole batch: how many count, and how many there are. */
typedef struct pg__mask_sum {
    double steps, n_steps;     /* of its mask */
    double classes, n_classes; /* that the loss does not ignore */
    double weights, n_weights; /* that are not 0 */
} pg__mask_sum;
void pg__mask_sum_add(pg__mask_sum *into, const pg__mask_sum *from);

/* PG_E_UNSUPPORTED: a loss ignores a class, and its output masks steps. */
pg_status pg__masks_check(const pg_trainer *t, pg_err *err);

/* Must masks be summed before the gradient? */
int pg__masks_count(const pg_trainer *t);

/* Runs a program of masks for some rows and adds what it finds, per output. */
pg_status pg__masks_add(pg_trainer *t, const pg__program *p, const pg__frame *f, pg__mask_sum *sums,
                        pg_err *err);

/* Does the batch have counts that a rank cannot determine by itself? */
int pg__shares_count(const pg_trainer *t, const pg__batch *b);

/* Adds the counts of output k over the rows of a batch, which have n_terms losses. */
void pg__shares_add(const pg_trainer *t, const pg__batch *b, size_t k, uint64_t n_terms,
                    pg__mask_sum *sum);

/* The fraction of output k's losses that counts; their sum is divided by so many. */
double pg__loss_share(const pg_trainer *t, const pg__mask_sum *sum, size_t k);

#endif

/* masks.h - between step.c and masks.c: what losses are divided by. */
#ifndef PG_TRAIN_MASKS_H
#define PG_TRAIN_MASKS_H

#include "train/trainer.h"

/* Of one output's mask over the whole batch. */
typedef struct pg__mask_sum {
    double valid, n;
} pg__mask_sum;

/* PG_E_UNSUPPORTED: a loss leaves out a class, and its output's mask steps. */
pg_status pg__masks_check(const pg_trainer *t, pg_err *err);

/* Must masks be summed before the gradient? */
int pg__masks_count(const pg_trainer *t);

/* Runs a program of masks for some rows and adds what it finds, per output. */
pg_status pg__masks_add(pg_trainer *t, const pg__program *p, const pg__frame *f, pg__mask_sum *sums,
                        pg_err *err);

/* The share of output k's n_terms losses that their sum is divided by. */
double pg__loss_share(const pg_trainer *t, const pg__mask_sum *mask, const pg__batch *b, size_t k,
                      uint64_t n_terms);

#endif

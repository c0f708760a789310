/* schedule.h - learning rates as functions of the number of optimizer steps: Keras' schedules, with
 * its names, parameters and float32 arithmetic (schedules.def). */
#ifndef PG_TRAIN_RULES_SCHEDULE_H
#define PG_TRAIN_RULES_SCHEDULE_H

#include <stdint.h>

#include "train/rules/settings.h"

/* Numbers as given; the functions round them to float32, as in Keras. */
typedef struct pg__schedule {
    const struct pg__schedule_type *type;
    double initial_learning_rate, decay_steps, first_decay_steps, decay_rate, end_learning_rate;
    double power, t_mul, m_mul, alpha;
    double warmup_target, warmup_steps; /* target NAN: no warm-up */
    int staircase, cycle;
    double *boundaries, *values;
    size_t n_boundaries, n_values;
} pg__schedule;

/* "exponential_decay:decay_steps=100,decay_rate=0.9", lists as "0.1/0.01/0.001"; or {"class_name",
 * "config"} as text. rate: the initial learning rate if none is given. PG_E_ARG names an unknown
 * schedule or parameter with the known ones, a missing one, or an unusable number. */
pg_status pg__schedule_parse(pg__schedule **out, const char *text, double rate, pg_err *err);

/* From a configuration in a file, which must give the initial learning rate. PG_E_UNSUPPORTED: not
 * one of Keras'. */
pg_status pg__schedule_of_json(pg__schedule **out, const pg__json *j, pg_err *err);
void pg__schedule_free(pg__schedule *s); /* NULL is allowed */

/* Keras' class name; the class name of the i-th schedule, NULL after the last. */
const char *pg__schedule_name(const pg__schedule *s);
const char *pg__schedule_class(size_t i);

/* The learning rate of the next step, after so many steps. */
double pg__schedule_at(const pg__schedule *s, uint64_t steps);

/* {"class_name", "config"} as Keras serializes it, since 2.12 with_module. */
pg_status pg__schedule_put(pg__str *out, const pg__schedule *s, int with_module, pg_err *err);

#endif

/* names.h - losses by the names that users and files give them. */
#ifndef PG_TRAIN_RULES_NAMES_H
#define PG_TRAIN_RULES_NAMES_H

#include "base/str.h"
#include "model/graph/rules.h"
#include "ops/attrs.h"

/* Fills *out for "mse", "mean_squared_error", "MeanSquaredError", "huber:delta=2:reduction=sum".
 * PG_E_ARG lists the known names, or keys. */
pg_status pg__loss_of(pg__loss_attrs *out, const char *name, size_t len, const pg__rules *rules,
                      pg_err *err);

/* The i-th name of a loss, NULL after the last. */
const char *pg__loss_name(size_t i);

/* Keras' class of a loss; room: memory for the name. */
const char *pg__loss_class(pg__loss_kind kind, char *room, size_t cap);

/* Does it have only default parameters? */
int pg__loss_is_plain(const pg__loss_attrs *a);

/* `, "key": value` for every other parameter, as Keras writes it. */
pg_status pg__loss_put_keys(pg__str *out, const pg__loss_attrs *a, int with_reduction, pg_err *err);

/* Cuts "a,b" or "out1=a,out2=b" into one text per output. *of_output[k] points into text. Without
 * names: one for all outputs, or one each in order. PG_E_ARG: an unknown output, too many. */
typedef struct pg__piece_of {
    const char *s;
    size_t n; /* 0: not given */
} pg__piece_of;
pg_status pg__per_output(pg__piece_of *out, size_t n_outputs, const char *const *output_names,
                         const char *what, const char *text, pg_err *err);

#endif

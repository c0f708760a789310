/* vars.h - which variables a layer class holds, from its config alone.
 *
 * One line of layers.def, PG_LAYER(ClassName, family), names the class; family is the function
 * pg__vars_<family> in layer_<family>.c. Source: Keras 1.2.2, 2.15 and 3.6 layer classes. */
#ifndef PG_MODEL_VARS_H
#define PG_MODEL_VARS_H

#include "model/graph.h"
#include "pg/store.h"

#define PG_DIM_ANY UINT64_MAX /* not fixed by the config */

typedef struct pg__var {
    char name[40];      /* last component, as Keras 2 names it: "kernel", "moving_mean" */
    char alt[40];       /* Keras 1's ("W", "running_std") or Keras 3's other name, or "" */
    char sub[80];       /* inner layer it belongs to ("forward_lstm_1"), or "" */
    uint32_t rank;
    int any_rank;       /* 1: rank and dims unknown */
    uint64_t dims[PG_MAX_RANK];
    int trainable;      /* as created; a frozen layer makes all of its variables non-trainable */
} pg__var;

typedef struct pg__vars {
    pg__var *v;
    size_t n, cap;
    int known; /* 0: the class is not in the table; checked by count only */
} pg__vars;

/* Variables in creation order (= file order within trainable and within non-trainable ones). */
pg_status pg__layer_vars(pg__vars *out, const pg__layer *layer, int dialect, pg_err *err);
void pg__vars_fini(pg__vars *v);

/* For the families. */
pg_status pg__vars_add(pg__vars *out, const char *name, const char *alt, int trainable,
                       uint32_t rank, const uint64_t *dims, pg_err *err);

typedef pg_status (*pg__vars_fn)(pg__vars *out, const pg__layer *layer, int dialect, pg_err *err);

/* 1 if the class is known; *weightless says that it never holds variables. */
int pg__class_known(const char *class_name, int *weightless);

#endif

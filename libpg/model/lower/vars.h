/* vars.h - the variables of a layer class, from its config alone. One line of layers.def,
 * PG_LAYER(ClassName, family, outputs), names the class; family is the function pg__vars_<family>
 * in a layer_*.c. Source: the layer classes of Keras 1.2.2, 2.15, 3.6. */
#ifndef PG_MODEL_LOWER_VARS_H
#define PG_MODEL_LOWER_VARS_H

#include "model/graph/graph.h"
#include "ops/op.h"
#include "pg/store.h"

typedef struct pg__var {
    const char *name; /* last component, as Keras 2 names it: "kernel", "moving_mean" (static) */
    const char *alt;  /* Keras 1's ("W", "running_std") or Keras 3's other name, or "" (static) */
    const char *sub;  /* inner layer it belongs to ("forward_lstm_1"), or "" */
    const pg__json *config; /* of the layer that holds it, however deep that one is wrapped */
    uint32_t rank;
    int any_rank;  /* 1: rank and dims unknown */
    int trainable; /* as created; a frozen layer makes all of its variables non-trainable */
    uint64_t dims[PG_MAX_RANK];
} pg__var;

typedef struct pg__vars {
    pg__var *v;
    size_t n, cap;
    int known;     /* 0: the class is not in the table; checked by count only */
    pg__strs subs; /* owns the names that `sub` points to */
} pg__vars;

/* Variables in creation order (= file order within trainable and within non-trainable ones). */
pg_status pg__layer_vars(pg__vars *out, const pg__layer *layer, int dialect, pg_err *err);
void pg__vars_fini(pg__vars *v);

/* For the families (layer_*.c). name and alt are literals; dims are PG_DIM_ANY if the config does
 * not fix them. */
pg_status pg__vars_add(pg__vars *out, const char *name, const char *alt, int trainable,
                       uint32_t rank, const uint64_t *dims, pg_err *err);
pg_status pg__vars_add_any(pg__vars *out, const char *name, const char *alt, int trainable,
                           pg_err *err);   /* rank unknown */
pg_status pg__vars_unknown(pg__vars *out); /* the table does not cover this config */

/* Puts the variables from index first on under the inner layer `sub`. */
pg_status pg__vars_set_sub(pg__vars *out, size_t first, const char *sub, pg_err *err);

/* Adds the variables of an inner layer (or of the model that it is), each under the name sub. */
pg_status pg__vars_add_inner(pg__vars *out, const pg__layer *inner, const char *sub, int dialect,
                             pg_err *err);

/* A dimension from the config: a whole number above 0, otherwise PG_E_FORMAT with layer and key.
 * _or: the fallback if the key is absent or null. _list: n numbers, or one for all of them. */
pg_status pg__config_dim(uint64_t *out, const pg__layer *l, const char *key, pg_err *err);
pg_status pg__config_dim_or(uint64_t *out, const pg__layer *l, const char *key, uint64_t fallback,
                            pg_err *err);
pg_status pg__config_dim_list(uint64_t *out, size_t n, const pg__layer *l, const char *key,
                              pg_err *err);
int pg__config_bool(const pg__layer *l, const char *key, int fallback);
int pg__config_has(const pg__layer *l, const char *key); /* present and not null */

typedef pg_status (*pg__vars_fn)(pg__vars *out, const pg__layer *layer, int dialect, pg_err *err);

/* Its variables are not stored one by one: a file with paths holds other arrays. */
int pg__stores_otherwise(const pg__layer *l);

#endif

/* operation.h - the arguments of functions that stand between layers, as each generation of Keras
 * writes them:
 *   tf.keras 2.4 on   ["x", 0, 0, {"y": ["z", 0, 0]}], ["_CONSTANT_VALUE", -1, 2.0, {...}], or a
 * list of such where the first argument is one tf.keras to 2.3   [["x", 0, 0, {}], ...] and config
 * "constants": {"1": 2.0} Keras 3           {"args": [...], "kwargs": {...}}; what the operation
 * was made with in config */
#ifndef PG_MODEL_LOWER_OPERATION_H
#define PG_MODEL_LOWER_OPERATION_H

#include "model/lower/lower.h"

typedef struct pg__operation {
    pg__lowering *lw;
    const pg__layer *l;
    const pg__val *in; /* as the call's inputs */
    const char *name;  /* of the function */
} pg__operation;

/* The function's name, for operations.def and for messages. */
const char *pg__operation_name(const pg__layer *l);

/* 1 if it is one of operations.def. */
int pg__operation_known(const pg__layer *l);

/* The argument at `position`, or given as one of `names` (up to NULL); NULL if there is none. */
const pg__json *pg__operation_arg(const pg__operation *o, size_t position,
                                  const char *const *names);

/* What the function is called with beside the arguments that are looked at would make another
 * function of it: PG_E_UNSUPPORTED. */
pg_status pg__operation_check(const pg__operation *o, pg_err *err);

/* An attribute of a TensorFlowOpLayer's node, or NULL. */
const pg__json *pg__operation_attr(const pg__operation *o, const char *name);

/* What refers to a tensor: the operand; PG_NO_VAL for other values. */
pg__val pg__operation_tensor(const pg__operation *o, const pg__json *arg);

/* The tensor that is the first argument; PG_E_FORMAT if that is none. */
pg_status pg__operation_first(const pg__operation *o, pg__val *out, pg_err *err);

/* A number, or lists of numbers as an array would be written, as a constant on the tape.
 * PG_E_UNSUPPORTED for anything else. */
pg_status pg__operation_constant(const pg__operation *o, const pg__json *arg, pg__val *out,
                                 pg_err *err);

/* One whole number or a list of at most PG_MAX_RANK; absent or null: n is 0. An axis counts from
 * the end of `rank` where negative. */
pg_status pg__operation_axes(const pg__operation *o, const pg__json *arg, uint32_t rank,
                             uint32_t *out, uint32_t *n, pg_err *err);

/* PG_E_UNSUPPORTED: "LAYER: FUNCTION what is not supported"; what may be "". */
pg_status pg__operation_refuse(const pg__operation *o, const char *what, pg_err *err);

#endif

/* operation.c - reads the arguments of functions between layers; see operation.h. */
#include "model/lower/operation.h"

#include <string.h>

#include "base/limits.h"
#include "base/mem.h"
#include "base/try.h"

#define CONSTANT_MARK "_CONSTANT_VALUE" /* tf.keras: the first argument is not a tensor */

pg_status pg__operation_refuse(const pg__operation *o, const char *what, pg_err *err)
{
    return pg_fail(err, PG_E_UNSUPPORTED, "%s: %s%s%s is not supported", PG_SHOW(o->l->name),
                   PG_SHOW(o->name), *what ? " " : "", what);
}

const char *pg__operation_name(const pg__layer *l)
{
    const char *function = pg__json_get_str(l->config, "function");
    const char *op = pg__json_get_str(pg__json_get(l->config, "node_def"), "op");
    if (pg__layer_is_op(l))
        return l->class_name;
    if (strcmp(l->class_name, "TensorFlowOpLayer") == 0)
        return op ? op : "?";
    return function ? function : "?";
}

static const pg__json *by_name(const pg__json *from, const char *const *names)
{
    const pg__json *j = NULL;
    for (; from && *names && !j; names++)
        j = pg__json_get(from, *names);
    return j;
}

/* tf.keras to 2.3: tensors in order, except at the positions of constants. */
static const pg__json *arg_of_node_def(const pg__operation *o, const pg__json *node,
                                       size_t position)
{
    const pg__json *constants = pg__json_get(o->l->config, "constants");
    size_t tensors = 0;
    for (size_t p = 0; p <= position && p < PG_MAX_RANK; p++) {
        const char key[] = {(char)('0' + p), '\0'};
        const pg__json *constant = pg__json_get(constants, key);
        if (p == position)
            return constant ? constant : pg__json_at(node, tensors);
        tensors += constant == NULL;
    }
    return NULL;
}

const pg__json *pg__operation_arg(const pg__operation *o, size_t position, const char *const *names)
{
    const pg__json *node = o->lw->call->node;
    const pg__json *args = pg__json_get(node, "args");
    const pg__json *first = pg__json_at(node, 0), *found;
    if (args) {
        if (position < pg__json_len(args))
            return pg__json_at(args, position);
        found = by_name(pg__json_get(node, "kwargs"), names);
        return found ? found : by_name(o->l->config, names);
    }
    if (strcmp(o->l->class_name, "TensorFlowOpLayer") == 0)
        return arg_of_node_def(o, node, position);
    if (pg__json_type_of(first) == PG_J_ARRAY)
        return position == 0 ? node : by_name(pg__json_at(first, 3), names);
    if (position > 0)
        return by_name(pg__json_at(node, 3), names);
    return pg__json_str(first) && strcmp(pg__json_str(first), CONSTANT_MARK) == 0
               ? pg__json_at(node, 2)
               : node;
}

const pg__json *pg__operation_attr(const pg__operation *o, const char *name)
{
    const pg__json *node = pg__json_get(o->l->config, "node_def");
    return pg__json_get(pg__json_get(node, "attr"), name);
}

/* "beta" of silu is 1, "data_format" of bias_add has the channels last; conjugates of real numbers
 * are themselves. */
static int changes_nothing(const char *key, const pg__json *v)
{
    static const char *const read[] = {"alpha",
                                       "approximate",
                                       "axes",
                                       "axis",
                                       "bias",
                                       "features",
                                       "input",
                                       "input_tensor",
                                       "inputs",
                                       "keep_dims",
                                       "keepdims",
                                       "key",
                                       "logits",
                                       "name",
                                       "negative_slope",
                                       "newshape",
                                       "perm",
                                       "shape",
                                       "slice_spec",
                                       "tensor",
                                       "value",
                                       "values",
                                       "x",
                                       "x1",
                                       "x2",
                                       "xs",
                                       "y",
                                       "conjugate"};
    const char *text = pg__json_str(v);
    double number = 0;
    for (size_t i = 0; i < sizeof read / sizeof *read; i++)
        if (strcmp(key, read[i]) == 0)
            return 1;
    if (strcmp(key, "beta") == 0 && pg__json_num(v, &number))
        return number == 1;
    if (strcmp(key, "data_format") == 0 && text)
        return text[0] && text[strlen(text) - 1] == 'C' && strcmp(text, "NC") != 0;
    return pg__json_type_of(v) <= PG_J_NULL;
}

pg_status pg__operation_check(const pg__operation *o, pg_err *err)
{
    const pg__json *node = o->lw->call->node, *first = pg__json_at(node, 0);
    const pg__json *format = pg__json_get(pg__operation_attr(o, "data_format"), "s");
    pg__json_iter it = {.obj = pg__json_get(node, "args") ? pg__json_get(node, "kwargs")
                               : pg__json_type_of(first) == PG_J_ARRAY ? pg__json_at(first, 3)
                                                                       : pg__json_at(node, 3)};
    while (it.obj && pg__json_next(&it))
        if (!changes_nothing(it.key, it.value))
            return pg_fail(err, PG_E_UNSUPPORTED, "%s: %s with \"%s\" is not supported",
                           PG_SHOW(o->l->name), PG_SHOW(o->name), PG_SHOW(it.key));
    if (pg__json_str(format) && strcmp(pg__json_str(format), "TkhXQw==") != 0) /* "NHWC" */
        return pg__operation_refuse(o, "with the channels first", err);
    return PG_OK;
}

pg__val pg__operation_tensor(const pg__operation *o, const pg__json *arg)
{
    const pg__call *call = o->lw->call;
    const char *class_name = pg__json_get_str(arg, "class_name");
    int64_t node = -1, tensor = -1;
    if (class_name && strcmp(class_name, "__keras_tensor__") == 0)
        arg = pg__json_get(pg__json_get(arg, "config"), "keras_history");
    else if (pg__json_len(arg) == 1 && pg__json_type_of(pg__json_at(arg, 0)) == PG_J_ARRAY)
        arg = pg__json_at(arg, 0); /* a list of one tensor */
    const char *name = pg__json_str(pg__json_at(arg, 0));
    if (!name || !pg__json_int(pg__json_at(arg, 1), &node) ||
        !pg__json_int(pg__json_at(arg, 2), &tensor))
        return PG_NO_VAL;
    for (size_t k = 0; k < call->n_inputs; k++) {
        const pg__tensor_ref *r = &call->inputs[k];
        if (r->node == node && r->tensor == tensor &&
            strcmp(o->lw->model->layers[r->layer].name, name) == 0)
            return o->in[k];
    }
    return PG_NO_VAL;
}

pg_status pg__operation_first(const pg__operation *o, pg__val *out, pg_err *err)
{
    static const char *const names[] = {"x",      "input",  "input_tensor", "inputs", "features",
                                        "logits", "tensor", "value",        NULL};
    *out = pg__operation_tensor(o, pg__operation_arg(o, 0, names));
    if (*out == PG_NO_VAL)
        return pg__operation_refuse(o, "of anything but a tensor", err);
    return PG_OK;
}

/* Reads the numbers below j, as many as fit into `out`; 0 unless they have this shape. */
static int take_numbers(const pg__json *j, const pg__dims *shape, uint32_t axis, double *out,
                        size_t *n)
{
    double v;
    if (axis == shape->rank) {
        if (!pg__json_num(j, &v))
            return 0;
        out[(*n)++] = v;
        return 1;
    }
    if (pg__json_type_of(j) != PG_J_ARRAY || pg__json_len(j) != shape->d[axis])
        return 0;
    for (size_t i = 0; i < shape->d[axis]; i++)
        if (!take_numbers(pg__json_at(j, i), shape, axis + 1, out, n))
            return 0;
    return 1;
}

pg_status pg__operation_constant(const pg__operation *o, const pg__json *arg, pg__val *out,
                                 pg_err *err)
{
    pg__dims shape = {.rank = 0};
    const pg__json *j = arg;
    double *values = NULL;
    size_t n = 0;
    pg_status st = PG_OK;
    for (; pg__json_type_of(j) == PG_J_ARRAY && shape.rank < PG_MAX_RANK; j = pg__json_at(j, 0))
        shape.d[shape.rank++] = pg__json_len(j);
    const uint64_t elems = pg__dims_elems(&shape);
    if (elems == 0 || elems > PG_LIMIT_CONSTANT)
        return pg__operation_refuse(o, "with a constant that is not a small array", err);
    values = pg__mem_array((size_t)elems, sizeof *values);
    if (!values)
        PG_TRY(pg__nomem(err));
    if (!take_numbers(arg, &shape, 0, values, &n))
        PG_TRY(pg__operation_refuse(o, "with an argument that is neither tensor nor number", err));
    if (shape.rank == 0)
        shape = pg__dims_of(1, &(const uint64_t){1});
    PG_TRY(pg__lower_constant(o->lw, &shape, values, out, err));
done:
    pg__mem_free(values);
    return st;
}

pg_status pg__operation_axes(const pg__operation *o, const pg__json *arg, uint32_t rank,
                             uint32_t *out, uint32_t *n, pg_err *err)
{
    const int is_list = pg__json_type_of(arg) == PG_J_ARRAY;
    const size_t given = is_list ? pg__json_len(arg) : pg__json_type_of(arg) > PG_J_NULL ? 1 : 0;
    *n = 0;
    if (given > rank || given > PG_MAX_RANK)
        return pg__operation_refuse(o, "over more axes than there are", err);
    for (size_t i = 0; i < given; i++) {
        int64_t v;
        if (!pg__json_int(is_list ? pg__json_at(arg, i) : arg, &v) || v < -(int64_t)rank ||
            v >= (int64_t)rank)
            return pg__operation_refuse(o, "over an axis that does not exist", err);
        out[(*n)++] = (uint32_t)(v < 0 ? v + rank : v);
    }
    return PG_OK;
}

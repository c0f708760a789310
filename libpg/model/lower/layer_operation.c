/* layer_operation.c - functions between layers: TFOpLambda, SlicingOpLambda and TensorFlowOpLayer
 * of tf.keras, operations of Keras 3. Rows of a batch stay rows. A mask ends there: results are new
 * values, even if nothing is computed. */
#include <math.h>
#include <string.h>

#include "base/try.h"
#include "model/lower/layers.h"
#include "model/lower/operation.h"
#include "model/lower/spatial.h"

typedef enum scaled { NEGATIVE, SQUARE, IDENTITY, CAST } scaled;
typedef enum reduction { MEAN, SUM } reduction;
typedef enum act {
    RELU,
    RELU6,
    LEAKY_RELU,
    ELU,
    SELU,
    GELU,
    SILU,
    SOFTMAX,
    SOFTPLUS,
    SOFTSIGN,
    SIGMOID,
    HARD_SIGMOID,
    HARD_SILU,
    TANH,
    EXP
} act;
typedef enum reshaping { RESHAPE, EXPAND_DIMS, SQUEEZE, TRANSPOSE, CONCAT, GET_ITEM } reshaping;

/* ---- two operands ---- */

/* x and a number, which comes first or last. */
static pg_status with_number(const pg__operation *o, pg__binary_kind kind, pg__val x, double v,
                             int first, pg__val *out, pg_err *err)
{
    const pg__dims one = pg__dims_of(1, &(const uint64_t){1});
    pg__affine_attrs a = {1, 0};
    pg__val number;
    pg_status st = PG_OK;
    switch (kind) {
    case PG_ADD: a.offset = v; break;
    case PG_MULTIPLY: a.scale = v; break;
    case PG_SUBTRACT: a = first ? (pg__affine_attrs){-1, v} : (pg__affine_attrs){1, -v}; break;
    case PG_DIVIDE:
    case PG_MAXIMUM:
    case PG_MINIMUM:
        PG_TRY(pg__lower_constant(o->lw, &one, &v, &number, err));
        return pg__lower_binary(o->lw, kind, first ? number : x, first ? x : number, out, err);
    }
    return pg__emit1(&o->lw->to->tape, PG_OP_affine, &a, x, out, err);
done:
    return st;
}

static pg_status lower_binary(const pg__operation *o, int what, pg__val *out, pg_err *err)
{
    static const char *const firsts[] = {"x", "x1", "value", NULL};
    static const char *const seconds[] = {"y", "x2", "bias", NULL};
    const pg__binary_kind kind = (pg__binary_kind)what;
    const pg__json *arg[2] = {pg__operation_arg(o, 0, firsts), pg__operation_arg(o, 1, seconds)};
    pg__val v[2];
    double number;
    pg_status st = PG_OK;
    for (int k = 0; k < 2; k++)
        v[k] = pg__operation_tensor(o, arg[k]);
    const int first = v[0] == PG_NO_VAL;
    if (v[0] == PG_NO_VAL && v[1] == PG_NO_VAL)
        return pg__operation_refuse(o, "of anything but a tensor", err);
    if (v[0] != PG_NO_VAL && v[1] != PG_NO_VAL) {
        if (pg__dims_at(o->lw, v[0])->rank != pg__dims_at(o->lw, v[1])->rank)
            return pg__operation_refuse(o, "of tensors with different numbers of axes", err);
        return pg__lower_binary(o->lw, kind, v[0], v[1], out, err);
    }
    if (pg__json_num(arg[!first], &number))
        return with_number(o, kind, v[first], number, first, out, err);
    PG_TRY(pg__operation_constant(o, arg[!first], &v[!first], err));
    const pg__dims *c = pg__dims_at(o->lw, v[!first]), *x = pg__dims_at(o->lw, v[first]);
    if (c->rank > x->rank || (c->rank == x->rank && c->d[0] != 1))
        PG_TRY(pg__operation_refuse(o, "with a constant for each row of a batch", err));
    PG_TRY(pg__lower_binary(o->lw, kind, v[0], v[1], out, err));
done:
    return st;
}

/* ---- one by one ---- */

/* Keras 3 writes one between layers of different policies. Layers round for themselves. */
static pg_status cast(const pg__operation *o, pg__val x, pg__val *out, pg_err *err)
{
    const char *dtype = pg__json_get_str(o->l->config, "dtype");
    pg_status st = PG_OK;
    if (pg__operation_attr(o, "DstT") || !dtype || !strstr(dtype, "float"))
        return pg__operation_refuse(o, "to anything but floating point", err);
    PG_TRY(pg__lower_as_real(o->lw, x, &x, err));
    const pg__reshape_attrs same = {.to = *pg__dims_at(o->lw, x)};
    PG_TRY(pg__emit1(&o->lw->to->tape, PG_OP_reshape, &same, x, out, err));
done:
    return st;
}

static pg_status lower_scaled(const pg__operation *o, int what, pg__val *out, pg_err *err)
{
    pg__val x;
    pg_status st = PG_OK;
    PG_TRY(pg__operation_first(o, &x, err));
    const pg__reshape_attrs same = {.to = *pg__dims_at(o->lw, x)};
    switch ((scaled)what) {
    case NEGATIVE:
        st = pg__emit1(&o->lw->to->tape, PG_OP_affine, &(pg__affine_attrs){-1, 0}, x, out, err);
        break;
    case SQUARE: st = pg__lower_binary(o->lw, PG_MULTIPLY, x, x, out, err); break;
    case IDENTITY: st = pg__emit1(&o->lw->to->tape, PG_OP_reshape, &same, x, out, err); break;
    case CAST: st = cast(o, x, out, err); break;
    }
done:
    return st;
}

/* The slope in the arguments, or *v, the default. */
static pg_status read_slope(const pg__operation *o, double *v, pg_err *err)
{
    static const char *const names[] = {"alpha", "negative_slope", NULL};
    const pg__json *attr = pg__json_get(pg__operation_attr(o, "alpha"), "f");
    const pg__json *arg = attr ? attr : pg__operation_arg(o, 1, names);
    if (pg__json_type_of(arg) > PG_J_NULL && !pg__json_num(arg, v))
        return pg__operation_refuse(o, "with a slope that is not a number", err);
    return PG_OK;
}

/* Keras 3's softmax as an operation does not pass its logits to the loss. */
static pg_status softmax(const pg__operation *o, pg__val x, pg__val *out, pg_err *err)
{
    static const char *const names[] = {"axis", NULL};
    const uint32_t rank = pg__dims_at(o->lw, x)->rank;
    uint32_t axis[PG_MAX_RANK], n;
    pg_status st = PG_OK;
    PG_TRY(pg__operation_axes(o, pg__operation_arg(o, 1, names), rank, axis, &n, err));
    if (n > 1 || (n == 1 && axis[0] + 1 != rank))
        return pg__operation_refuse(o, "over any axis but the last", err);
    PG_TRY(pg__emit1(&o->lw->to->tape, PG_OP_softmax, NULL, x, out, err));
    if (!o->lw->opts->rules->keras3)
        PG_TRY(pg__set_logits(o->lw, *out, PG_SOFTMAX_OF, x, err));
done:
    return st;
}

static pg_status lower_activation(const pg__operation *o, int what, pg__val *out, pg_err *err)
{
    static const char *const approximate[] = {"approximate", NULL};
    const int keras3 = o->lw->opts->rules->keras3;
    pg__act_attrs a = {PG_ACT_RELU, INFINITY, 0, 0};
    pg__val x;
    pg_status st = PG_OK;
    PG_TRY(pg__operation_first(o, &x, err));
    switch ((act)what) {
    case RELU: break;
    case RELU6: a.a = 6; break;
    case LEAKY_RELU:
        a.b = 0.2;
        PG_TRY(read_slope(o, &a.b, err));
        break;
    case ELU:
        a = (pg__act_attrs){PG_ACT_ELU, 1, 0, 0};
        PG_TRY(read_slope(o, &a.a, err));
        break;
    case SELU: a.kind = PG_ACT_SELU; break;
    case GELU:
        a.kind = pg__json_bool(pg__operation_arg(o, 1, approximate), keras3) ? PG_ACT_GELU_TANH
                                                                             : PG_ACT_GELU;
        break;
    case SILU: a.kind = PG_ACT_SWISH; break;
    case SOFTMAX: return softmax(o, x, out, err);
    case SOFTPLUS: a.kind = PG_ACT_SOFTPLUS; break;
    case SOFTSIGN: a.kind = PG_ACT_SOFTSIGN; break;
    case SIGMOID: a.kind = PG_ACT_SIGMOID; break;
    case HARD_SIGMOID: a = (pg__act_attrs){PG_ACT_HARD_SIGMOID, 1.0 / 6, 0.5, 0}; break;
    case HARD_SILU:
        a = (pg__act_attrs){PG_ACT_HARD_SIGMOID, 1.0 / 6, 0.5, 0};
        PG_TRY(pg__emit1(&o->lw->to->tape, PG_OP_act, &a, x, out, err));
        return pg__lower_binary(o->lw, PG_MULTIPLY, x, *out, out, err);
    case TANH: a.kind = PG_ACT_TANH; break;
    case EXP: a.kind = PG_ACT_EXPONENTIAL; break;
    }
    PG_TRY(pg__emit1(&o->lw->to->tape, PG_OP_act, &a, x, out, err));
    if (a.kind == PG_ACT_SIGMOID && !keras3)
        PG_TRY(pg__set_logits(o->lw, *out, PG_SIGMOID_OF, x, err));
done:
    return st;
}

/* ---- over axes ---- */

static int keeps_dims(const pg__operation *o)
{
    static const char *const names[] = {"keepdims", "keep_dims", NULL};
    const int of_node = pg__json_bool(pg__json_get(pg__operation_attr(o, "keep_dims"), "b"), 0);
    return pg__json_bool(pg__operation_arg(o, 2, names), of_node);
}

static pg_status lower_reduce(const pg__operation *o, int what, pg__val *out, pg_err *err)
{
    static const char *const names[] = {"axis", NULL};
    pg__dims kept = {.rank = 0};
    pg__spread_attrs to;
    uint32_t axes[PG_MAX_RANK], n = 0;
    uint64_t count = 1;
    pg__val x;
    pg_status st = PG_OK;
    PG_TRY(pg__operation_first(o, &x, err));
    const pg__dims in = *pg__dims_at(o->lw, x);
    PG_TRY(pg__operation_axes(o, pg__operation_arg(o, 1, names), in.rank, axes, &n, err));
    to.to = in;
    for (uint32_t i = 0; i < n; i++) {
        count = to.to.d[axes[i]] == 1 ? count : pg__dim_mul(count, in.d[axes[i]]);
        to.to.d[axes[i]] = 1;
    }
    int rows = n == 0;
    for (uint32_t i = 0; i < n; i++)
        rows |= axes[i] == 0;
    if (rows) /* also where there is one */
        PG_TRY(pg__operation_refuse(o, "over the rows of a batch", err));
    for (uint32_t i = 0, k = 0; i < in.rank; i++) {
        for (k = 0; k < n && axes[k] != i; k++)
            ;
        if (k == n)
            kept.d[kept.rank++] = in.d[i];
    }
    PG_TRY(pg__emit1(&o->lw->to->tape, PG_OP_sum_to, &to, x, out, err));
    if ((reduction)what == MEAN)
        PG_TRY(pg__emit1(&o->lw->to->tape, PG_OP_affine, &(pg__affine_attrs){1 / (double)count, 0},
                         *out, out, err));
    if (!keeps_dims(o))
        PG_TRY(pg__lower_reshape(o->lw, *out, &kept, out, err));
done:
    return st;
}

/* ---- shapes ---- */

/* newshape, which begins with -1 or None for the rows. */
static pg_status reshape(const pg__operation *o, const pg__dims *x, pg__dims *to, pg_err *err)
{
    static const char *const names[] = {"shape", "newshape", NULL};
    const pg__json *shape = pg__operation_arg(o, 1, names);
    const size_t n = pg__json_len(shape);
    int64_t v = -1;
    if (pg__json_type_of(shape) != PG_J_ARRAY || n < 1 || n > PG_MAX_RANK || x->rank < 1 ||
        (pg__json_type_of(pg__json_at(shape, 0)) != PG_J_NULL &&
         !pg__json_int(pg__json_at(shape, 0), &v)) ||
        v != -1)
        return pg__operation_refuse(o, "to a shape that does not begin with -1", err);
    *to = (pg__dims){.rank = (uint32_t)n, .d = {x->d[0]}};
    for (size_t i = 1; i < n; i++) {
        if (!pg__json_int(pg__json_at(shape, i), &v) || v < 1 || v > INT32_MAX)
            return pg__operation_refuse(o, "to a shape that holds anything but sizes", err);
        to->d[i] = (uint64_t)v;
    }
    return PG_OK;
}

static pg_status expand_dims(const pg__operation *o, const pg__dims *x, pg__dims *to, pg_err *err)
{
    static const char *const names[] = {"axis", NULL};
    uint32_t axis[PG_MAX_RANK], n;
    pg_status st = PG_OK;
    PG_TRY(pg__operation_axes(o, pg__operation_arg(o, 1, names), x->rank + 1, axis, &n, err));
    if (n != 1 || axis[0] == 0 || x->rank == PG_MAX_RANK)
        return pg__operation_refuse(o, "at an axis that is not after the batch axis", err);
    to->rank = x->rank + 1;
    for (uint32_t i = 0; i < to->rank; i++)
        to->d[i] = i < axis[0] ? x->d[i] : i == axis[0] ? 1 : x->d[i - 1];
done:
    return st;
}

static pg_status squeeze(const pg__operation *o, const pg__dims *x, pg__dims *to, pg_err *err)
{
    static const char *const names[] = {"axis", NULL};
    uint32_t axes[PG_MAX_RANK], n;
    unsigned gone = 0;
    pg_status st = PG_OK;
    PG_TRY(pg__operation_axes(o, pg__operation_arg(o, 1, names), x->rank, axes, &n, err));
    for (uint32_t i = 0; i < n; i++)
        gone |= 1u << axes[i];
    *to = (pg__dims){.rank = 0};
    for (uint32_t i = 0; i < x->rank; i++) {
        const int goes = (int)(gone >> i & 1);
        if (goes && (i == 0 || x->d[i] != 1))
            return pg__operation_refuse(o, "of an axis whose size is not 1", err);
        if (!goes)
            to->d[to->rank++] = x->d[i];
    }
    if (n == 0)
        return pg__operation_refuse(o, "without an axis", err);
done:
    return st;
}

static pg_status transpose(const pg__operation *o, pg__val x, pg__val *out, pg_err *err)
{
    static const char *const names[] = {"perm", "axes", NULL};
    const uint32_t rank = pg__dims_at(o->lw, x)->rank;
    uint32_t perm[PG_MAX_RANK] = {0}, n;
    unsigned seen = 0;
    pg_status st = PG_OK;
    PG_TRY(pg__operation_axes(o, pg__operation_arg(o, 1, names), rank, perm, &n, err));
    for (uint32_t i = 0; i < n; i++)
        seen |= 1u << perm[i];
    if (n != rank || seen != (1u << rank) - 1 || perm[0] != 0)
        return pg__operation_refuse(
            o, "to an invalid axis order, or one that moves the batch axis,", err);
    PG_TRY(pg__lower_transpose(o->lw, x, perm, out, err));
done:
    return st;
}

static pg_status concat(const pg__operation *o, pg__val *out, pg_err *err)
{
    static const char *const lists[] = {"values", "xs", NULL}, *const axes[] = {"axis", NULL};
    const pg__json *list = pg__operation_arg(o, 0, lists);
    pg__val in[PG_MAX_OUTPUTS];
    const size_t n_in = pg__json_len(list);
    uint32_t axis[PG_MAX_RANK], n;
    pg__concat_attrs a;
    pg_status st = PG_OK;
    if (pg__json_type_of(list) != PG_J_ARRAY || n_in < 1 || n_in > PG_MAX_OUTPUTS)
        return pg__operation_refuse(o, "of anything but a list of tensors", err);
    for (size_t k = 0; k < n_in; k++) {
        in[k] = pg__operation_tensor(o, pg__json_at(list, k));
        if (in[k] == PG_NO_VAL)
            return pg__operation_refuse(o, "of anything but a tensor", err);
    }
    PG_TRY(pg__operation_axes(o, pg__operation_arg(o, 1, axes), pg__dims_at(o->lw, in[0])->rank,
                              axis, &n, err));
    if (n != 1 || axis[0] == 0)
        return pg__operation_refuse(o, "along the rows of a batch", err);
    a.axis = axis[0];
    PG_TRY(pg__emit(&o->lw->to->tape, PG_OP_concat, &a, in, n_in, out, err));
done:
    return st;
}

/* ---- x[...] ---- */

typedef struct cut {
    pg__pad_attrs pad;
    pg__dims to; /* without the axes that an index takes away */
} cut;

/* A negative bound counts from the end; bounds are limited to the axis. */
static int read_bound(const pg__json *j, int64_t fallback, int64_t size, int64_t *out)
{
    *out = fallback;
    if (pg__json_type_of(j) <= PG_J_NULL)
        return 1;
    if (!pg__json_int(j, out))
        return 0;
    *out += *out < 0 && *out >= -size ? size : 0;
    *out = *out < 0 ? 0 : *out > size ? size : *out;
    return 1;
}

static int steps_by_1(const pg__json *step)
{
    int64_t v = 1;
    return pg__json_type_of(step) <= PG_J_NULL || (pg__json_int(step, &v) && v == 1);
}

static int is_whole(const pg__json *start, const pg__json *stop, const pg__json *step)
{
    return pg__json_type_of(start) <= PG_J_NULL && pg__json_type_of(stop) <= PG_J_NULL &&
           steps_by_1(step);
}

/* Of an axis whose size is not known: from < 0 and to <= 0 count from its end. */
static int cut_open(uint32_t axis, int64_t from, int64_t to, cut *c)
{
    const int is_last = from < 0;
    const int is_first = to > 0;
    if (from < -INT32_MAX || from > INT32_MAX || to < -INT32_MAX || to > INT32_MAX ||
        (is_last && is_first) || (is_last != is_first && from >= to))
        return 0;
    c->pad.before[axis] = is_last ? PG_PAD_REST : -from;
    c->pad.after[axis] = is_first ? PG_PAD_REST : to;
    c->pad.most[axis] = is_last || is_first ? to - from : 0;
    return 1;
}

static int cut_open_by(uint32_t axis, const pg__json *item, const pg__json *start,
                       const pg__json *stop, cut *c)
{
    int64_t from = 0, to = 0;
    if (pg__json_int(item, &from))
        return from < INT32_MAX && cut_open(axis, from, from + 1, c);
    if ((pg__json_type_of(start) > PG_J_NULL && !pg__json_int(start, &from)) ||
        (pg__json_type_of(stop) > PG_J_NULL && (!pg__json_int(stop, &to) || to == 0)) ||
        !cut_open(axis, from, to, c))
        return 0;
    c->to.d[c->to.rank++] = c->pad.most[axis] == 1 ? 1 : PG_DIM_ANY;
    return 1;
}

/* One item of the list: a slice or an index. */
static int cut_axis(const pg__dims *x, uint32_t axis, const pg__json *item, cut *c)
{
    const pg__json *config = pg__json_get(item, "class_name") ? pg__json_get(item, "config") : item;
    const pg__json *start = pg__json_get(config, "start"), *stop = pg__json_get(config, "stop");
    const int is_slice = start && stop; /* and no tensor, which is an object too */
    const pg__json *step = pg__json_get(config, "step");
    const uint64_t size = x->d[axis];
    int64_t from, to;
    const int is_index = pg__json_int(item, &from);
    if (!is_index && !is_slice)
        return 0;
    if (!is_index && is_whole(start, stop, step)) {
        c->to.d[c->to.rank++] = size;
        return 1;
    }
    if (axis == 0 || (!is_index && !steps_by_1(step)))
        return 0;
    if (size == PG_DIM_ANY)
        return cut_open_by(axis, item, start, stop, c);
    if (size > INT32_MAX)
        return 0;
    if (is_index) {
        from += from < 0 ? (int64_t)size : 0;
        if (from < 0 || from >= (int64_t)size)
            return 0;
        to = from + 1;
    } else if (!read_bound(start, 0, (int64_t)size, &from) ||
               !read_bound(stop, (int64_t)size, (int64_t)size, &to) || from >= to) {
        return 0;
    } else {
        c->to.d[c->to.rank++] = (uint64_t)(to - from);
    }
    c->pad.before[axis] = -from;
    c->pad.after[axis] = to - (int64_t)size;
    return 1;
}

static int is_ellipsis(const pg__json *item)
{
    const char *name = pg__json_get_str(item, "class_name");
    return name && strcmp(name, "__ellipsis__") == 0;
}

static pg_status get_item(const pg__operation *o, pg__val x, pg__val *out, pg_err *err)
{
    static const char *const names[] = {"slice_spec", "key", NULL};
    const pg__json *list = pg__operation_arg(o, 1, names);
    const int is_list = pg__json_type_of(list) == PG_J_ARRAY;
    const size_t n = is_list ? pg__json_len(list) : 1;
    const pg__dims in = *pg__dims_at(o->lw, x);
    cut c = {.to = {.rank = 0}};
    uint32_t axis = 0;
    pg_status st = PG_OK;
    for (size_t i = 0; i < n; i++) {
        const pg__json *item = is_list ? pg__json_at(list, i) : list;
        const size_t after = n - i - 1;
        if (is_ellipsis(item) && after <= in.rank) {
            while (axis + after < in.rank)
                c.to.d[c.to.rank++] = in.d[axis++];
            continue;
        }
        if (axis >= in.rank || !cut_axis(&in, axis, item, &c))
            return pg__operation_refuse(
                o, "with anything but slices of step 1 and indices after the batch axis", err);
        axis++;
    }
    while (axis < in.rank)
        c.to.d[c.to.rank++] = in.d[axis++];
    PG_TRY(pg__emit1(&o->lw->to->tape, PG_OP_pad, &c.pad, x, out, err));
    PG_TRY(pg__lower_reshape(o->lw, *out, &c.to, out, err));
done:
    return st;
}

static pg_status lower_shape(const pg__operation *o, int what, pg__val *out, pg_err *err)
{
    pg__reshape_attrs a;
    pg__val x;
    pg_status st = PG_OK;
    if ((reshaping)what == CONCAT)
        return concat(o, out, err);
    PG_TRY(pg__operation_first(o, &x, err));
    const pg__dims in = *pg__dims_at(o->lw, x);
    switch ((reshaping)what) {
    case RESHAPE: PG_TRY(reshape(o, &in, &a.to, err)); break;
    case EXPAND_DIMS: PG_TRY(expand_dims(o, &in, &a.to, err)); break;
    case SQUEEZE: PG_TRY(squeeze(o, &in, &a.to, err)); break;
    case TRANSPOSE: return transpose(o, x, out, err);
    case GET_ITEM: return get_item(o, x, out, err);
    case CONCAT: break;
    }
    PG_TRY(pg__emit1(&o->lw->to->tape, PG_OP_reshape, &a, x, out, err));
done:
    return st;
}

/* ---- the table ---- */

typedef pg_status (*lower_fn)(const pg__operation *o, int what, pg__val *out, pg_err *err);

enum { /* the kinds of operations.def under their names there */
       ADD = PG_ADD,
       SUBTRACT = PG_SUBTRACT,
       MULTIPLY = PG_MULTIPLY,
       DIVIDE = PG_DIVIDE,
       MAXIMUM = PG_MAXIMUM,
       MINIMUM = PG_MINIMUM
};

static const struct {
    const char *name;
    lower_fn lower;
    int what;
} operations[] = {
#define PG_OPERATION(name, how, what) {name, lower_##how, what},
#include "model/lower/operations.def"
#undef PG_OPERATION
};

static size_t find_operation(const char *name)
{
    size_t i = 0;
    while (i < sizeof operations / sizeof *operations && strcmp(operations[i].name, name) != 0)
        i++;
    return i;
}

int pg__operation_known(const pg__layer *l)
{
    return find_operation(pg__operation_name(l)) < sizeof operations / sizeof *operations;
}

pg_status pg__lower_operation(pg__lowering *lw, const pg__layer *l, const pg__val *in, size_t n_in,
                              pg__results *out, pg_err *err)
{
    const pg__operation o = {lw, l, in, pg__operation_name(l)};
    const size_t i = find_operation(o.name);
    pg_status st = PG_OK;
    if (i == sizeof operations / sizeof *operations)
        return pg__operation_refuse(&o, "", err);
    if (!lw->call || !lw->call->node || n_in != lw->call->n_inputs)
        return pg__operation_refuse(&o, "outside of a functional model, or with a mask,", err);
    PG_TRY(pg__operation_check(&o, err));
    out->n = 1;
    return operations[i].lower(&o, operations[i].what, &out->v[0], err);
done:
    return st;
}

/* op_act.c - operations that work element by element: they keep the order of axes that their
 * operand has. */
#include <math.h>

#include "onnx/onnx.h"

/* ---- activations ---- */

static pg__onnx_name with_alpha(pg__onnx *x, const char *op, pg__onnx_name a, double alpha)
{
    pg__str attrs = {0};
    pg__onnx_float(x, &attrs, "alpha", alpha);
    return pg__onnx_op(x, op, &attrs, &a, 1);
}

/* Keras' ReLU with all its parameters. */
static pg__onnx_name relu(pg__onnx *x, pg__onnx_name v, const pg__act_attrs *a)
{
    const int capped = !isinf(a->a);
    pg__onnx_name y = v;
    if (a->c != 0 && a->b == 0 && !capped && a->c > 0)
        return with_alpha(x, "ThresholdedRelu", v, a->c);
    if (a->c != 0) {
        const pg__onnx_name at = pg__onnx_number(x, a->c);
        const pg__onnx_name below = pg__onnx_op2(x, "Sub", v, at);
        y = pg__onnx_op3(x, "Where", pg__onnx_op2(x, "Greater", v, at), v,
                         pg__onnx_op2(x, "Mul", below, pg__onnx_number(x, a->b)));
    } else if (a->b != 0) {
        y = with_alpha(x, "LeakyRelu", v, a->b);
    } else if (capped) {
        return pg__onnx_op3(x, "Clip", v, pg__onnx_number(x, 0), pg__onnx_number(x, a->a));
    } else {
        return pg__onnx_op1(x, "Relu", v);
    }
    return capped ? pg__onnx_op2(x, "Min", y, pg__onnx_number(x, a->a)) : y;
}

static pg__onnx_name hard_sigmoid(pg__onnx *x, pg__onnx_name v, const pg__act_attrs *a)
{
    pg__str attrs = {0};
    pg__onnx_float(x, &attrs, "alpha", a->a);
    pg__onnx_float(x, &attrs, "beta", a->b);
    return pg__onnx_op(x, "HardSigmoid", &attrs, &v, 1);
}

/* x (1 + inner) / 2 */
static pg__onnx_name half_of(pg__onnx *x, pg__onnx_name v, pg__onnx_name inner)
{
    const pg__onnx_name sum = pg__onnx_op2(x, "Add", inner, pg__onnx_number(x, 1));
    const pg__onnx_name half = pg__onnx_op2(x, "Mul", v, pg__onnx_number(x, 0.5));
    return pg__onnx_op2(x, "Mul", half, sum);
}

static pg__onnx_name gelu(pg__onnx *x, pg__onnx_name v, int by_tanh)
{
    pg__str attrs = {0};
    if (x->opset >= 20) {
        pg__onnx_text(x, &attrs, "approximate", by_tanh ? "tanh" : "none");
        return pg__onnx_op(x, "Gelu", &attrs, &v, 1);
    }
    if (!by_tanh) {
        const pg__onnx_name scaled = pg__onnx_op2(x, "Mul", v, pg__onnx_number(x, sqrt(0.5)));
        return half_of(x, v, pg__onnx_op1(x, "Erf", scaled));
    }
    const pg__onnx_name square = pg__onnx_op2(x, "Mul", v, v);
    const pg__onnx_name cube = pg__onnx_op2(x, "Mul", square, v);
    const pg__onnx_name sum =
        pg__onnx_op2(x, "Add", v, pg__onnx_op2(x, "Mul", cube, pg__onnx_number(x, 0.044715)));
    const double root = sqrt(2 / 3.14159265358979323846);
    const pg__onnx_name inner = pg__onnx_op2(x, "Mul", sum, pg__onnx_number(x, root));
    return half_of(x, v, pg__onnx_op1(x, "Tanh", inner));
}

static pg__onnx_name mish(pg__onnx *x, pg__onnx_name v)
{
    if (x->opset >= 18)
        return pg__onnx_op1(x, "Mish", v);
    return pg__onnx_op2(x, "Mul", v, pg__onnx_op1(x, "Tanh", pg__onnx_op1(x, "Softplus", v)));
}

pg__onnx_name pg__onnx_activation(pg__onnx *x, pg__onnx_name v, const pg__act_attrs *a)
{
    switch (a->kind) {
    case PG_ACT_RELU: return relu(x, v, a);
    case PG_ACT_SIGMOID: return pg__onnx_op1(x, "Sigmoid", v);
    case PG_ACT_TANH: return pg__onnx_op1(x, "Tanh", v);
    case PG_ACT_HARD_SIGMOID: return hard_sigmoid(x, v, a);
    case PG_ACT_ELU: return with_alpha(x, "Elu", v, a->a);
    case PG_ACT_SELU: return pg__onnx_op1(x, "Selu", v);
    case PG_ACT_SOFTPLUS: return pg__onnx_op1(x, "Softplus", v);
    case PG_ACT_SOFTSIGN: return pg__onnx_op1(x, "Softsign", v);
    case PG_ACT_EXPONENTIAL: return pg__onnx_op1(x, "Exp", v);
    case PG_ACT_GELU: return gelu(x, v, 0);
    case PG_ACT_GELU_TANH: return gelu(x, v, 1);
    case PG_ACT_SWISH: return pg__onnx_op2(x, "Mul", v, pg__onnx_op1(x, "Sigmoid", v));
    case PG_ACT_MISH: return mish(x, v);
    case PG_ACT_RSQRT: return pg__onnx_op1(x, "Reciprocal", pg__onnx_op1(x, "Sqrt", v));
    }
    pg__onnx_refuse(x, "has an activation that ONNX lacks");
    return 0;
}

void pg__onnx_act(pg__onnx *x, const pg__inst *i)
{
    const pg__val in = pg__onnx_in(x, i, 0);
    const pg__onnx_perm p = pg__onnx_native(x, in);
    const pg__onnx_name y = pg__onnx_activation(x, pg__onnx_as(x, in, &p), i->attrs);
    pg__onnx_set(x, pg__out(x->tape, i, 0), &p, y);
}

/* ---- numbers ---- */

void pg__onnx_affine(pg__onnx *x, const pg__inst *i)
{
    const pg__affine_attrs *a = i->attrs;
    const pg__val in = pg__onnx_in(x, i, 0);
    const pg__onnx_perm p = pg__onnx_native(x, in);
    pg__onnx_name y = pg__onnx_as(x, in, &p);
    if (a->scale == -1)
        y = pg__onnx_op1(x, "Neg", y);
    else if (a->scale != 1)
        y = pg__onnx_op2(x, "Mul", y, pg__onnx_number(x, a->scale));
    if (a->offset != 0)
        y = pg__onnx_op2(x, "Add", y, pg__onnx_number(x, a->offset));
    pg__onnx_set(x, pg__out(x->tape, i, 0), &p, y);
}

static void two(pg__onnx *x, const pg__inst *i, const char *op)
{
    const pg__val out = pg__out(x->tape, i, 0);
    const uint32_t rank = pg__onnx_dims(x, out)->rank;
    const pg__onnx_perm p = pg__onnx_common(x, i, rank);
    const pg__onnx_name a = pg__onnx_aligned(x, pg__onnx_in(x, i, 0), rank, &p);
    const pg__onnx_name b = pg__onnx_aligned(x, pg__onnx_in(x, i, 1), rank, &p);
    pg__onnx_set(x, out, &p, pg__onnx_op2(x, op, a, b));
}

void pg__onnx_add(pg__onnx *x, const pg__inst *i)
{
    two(x, i, "Add");
}

void pg__onnx_binary(pg__onnx *x, const pg__inst *i)
{
    static const char *const ops[] = {"Add", "Sub", "Mul", "Div", "Max", "Min"};
    two(x, i, ops[((const pg__binary_attrs *)i->attrs)->kind]);
}

/* ---- ids and masks ---- */

void pg__onnx_cast_ids(pg__onnx *x, const pg__inst *i)
{
    const pg__cast_attrs *a = i->attrs;
    const pg__val in = pg__onnx_in(x, i, 0);
    const pg__onnx_perm p = pg__onnx_native(x, in);
    const pg_dtype to = a->to == PG_ELEM_INT ? PG_I32 : x->real;
    if (a->from == PG_ELEM_REAL)
        x->real = PG_F32; /* ids are exact */
    pg__onnx_set(x, pg__out(x->tape, i, 0), &p, pg__onnx_cast(x, pg__onnx_as(x, in, &p), to));
}

/* 1 where an id is not 0. */
void pg__onnx_mask_ids(pg__onnx *x, const pg__inst *i)
{
    const pg__onnx_name ids = pg__onnx_get(x, pg__onnx_in(x, i, 0));
    const pg__onnx_name any = pg__onnx_cast(x, ids, PG_BOOL);
    pg__onnx_set_plain(x, pg__out(x->tape, i, 0), pg__onnx_cast(x, any, x->real));
}

/* 1 where any feature differs from a value. */
void pg__onnx_mask_steps(pg__onnx *x, const pg__inst *i)
{
    const pg__mask_attrs *a = i->attrs;
    const pg__val in = pg__onnx_in(x, i, 0);
    const int64_t last = (int64_t)pg__onnx_dims(x, in)->rank - 1;
    const pg_dtype to = x->real;
    x->real = PG_F32; /* others may lack the value, or have it where the operand is near it only */
    const pg__onnx_name equal =
        pg__onnx_op2(x, "Equal", pg__onnx_get(x, in), pg__onnx_number(x, a->value));
    x->real = to;
    const pg__onnx_name differs = pg__onnx_cast(x, pg__onnx_op1(x, "Not", equal), to);
    pg__onnx_set_plain(x, pg__out(x->tape, i, 0),
                       pg__onnx_reduce(x, "ReduceMax", differs, &last, 1, 0));
}

static pg__onnx_name with_axes(pg__onnx *x, pg__onnx_name a, uint32_t rank, uint32_t to)
{
    int64_t axes[PG_MAX_RANK];
    for (uint32_t k = rank; k < to; k++)
        axes[k - rank] = k;
    return rank == to ? a : pg__onnx_op2(x, "Unsqueeze", a, pg__onnx_numbers(x, axes, to - rank));
}

/* The mask has the first axes of the operand. */
void pg__onnx_mask_rows(pg__onnx *x, const pg__inst *i)
{
    const pg__val in = pg__onnx_in(x, i, 0), mask = pg__onnx_in(x, i, 1);
    if (x->values[in].is_exact) /* what is masked may be infinite in the other type: 0 times that */
        x->real = PG_F32;
    const pg__onnx_name m = with_axes(x, pg__onnx_get(x, mask), pg__onnx_dims(x, mask)->rank,
                                      pg__onnx_dims(x, in)->rank);
    pg__onnx_set_plain(x, pg__out(x->tape, i, 0), pg__onnx_op2(x, "Mul", pg__onnx_get(x, in), m));
}

void pg__onnx_embedding(pg__onnx *x, const pg__inst *i)
{
    const pg__onnx_name ids = pg__onnx_get(x, pg__onnx_in(x, i, 0));
    const pg__onnx_name table = pg__onnx_get(x, pg__onnx_in(x, i, 1));
    pg__onnx_set_plain(x, pg__out(x->tape, i, 0), pg__onnx_op2(x, "Gather", table, ids));
}

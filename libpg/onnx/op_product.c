/* op_product.c - matrix products, attention, softmax and normalisation. */
#include <math.h>

#include "base/mem.h"
#include "onnx/onnx.h"

/* ---- products ---- */

/* x W + b whose only reader is a recurrent operation, which takes it along. */
static int is_taken_along(const pg__onnx *x, const pg__inst *i)
{
    const pg__val out = pg__out(x->tape, i, 0);
    return x->values[out].uses == 1 && pg__onnx_feeds_recurrence(x, out);
}

void pg__onnx_dense(pg__onnx *x, const pg__inst *i)
{
    const pg__val in = pg__onnx_in(x, i, 0), bias = pg__onnx_in(x, i, 2);
    const pg__val out = pg__out(x->tape, i, 0);
    if (is_taken_along(x, i))
        return;
    const pg__onnx_name a = pg__onnx_get(x, in), w = pg__onnx_get(x, pg__onnx_in(x, i, 1));
    const pg__onnx_name b = bias == PG_NO_VAL ? PG_ONNX_ABSENT : pg__onnx_get(x, bias);
    if (pg__onnx_dims(x, in)->rank == 2 && bias != PG_NO_VAL) {
        pg__onnx_set_plain(x, out, pg__onnx_op3(x, "Gemm", a, w, b));
        return;
    }
    pg__onnx_name y = pg__onnx_op2(x, "MatMul", a, w);
    if (bias != PG_NO_VAL)
        y = pg__onnx_op2(x, "Add", y, b);
    pg__onnx_set_plain(x, out, y);
}

static pg__onnx_name turned(pg__onnx *x, pg__val v, int is_turned)
{
    const pg__onnx_perm p = {.p = {0, 2, 1}};
    return is_turned ? pg__onnx_as(x, v, &p) : pg__onnx_get(x, v);
}

void pg__onnx_matmul(pg__onnx *x, const pg__inst *i)
{
    const pg__matmul_attrs *t = i->attrs;
    const pg__onnx_name a = turned(x, pg__onnx_in(x, i, 0), t->a_turned);
    const pg__onnx_name b = turned(x, pg__onnx_in(x, i, 1), t->b_turned);
    pg__onnx_set_plain(x, pg__out(x->tape, i, 0), pg__onnx_op2(x, "MatMul", a, b));
}

/* Over the last axis, wherever it is stored. */
void pg__onnx_softmax(pg__onnx *x, const pg__inst *i)
{
    const pg__val in = pg__onnx_in(x, i, 0);
    const pg__onnx_perm p = pg__onnx_native(x, in);
    const pg__onnx_name v = pg__onnx_as(x, in, &p);
    pg__str attrs = {0};
    pg__onnx_int(x, &attrs, "axis", pg__onnx_axis(&p, pg__onnx_dims(x, in)->rank - 1));
    pg__onnx_set(x, pg__out(x->tape, i, 0), &p, pg__onnx_op(x, "Softmax", &attrs, &v, 1));
}

/* ---- attention ---- */

enum { Q, K, V, Q_MASK, V_MASK, K_MASK, MASK };

/* (rows, steps, heads * n) as (rows, heads, steps, n), or with the last two swapped. */
static pg__onnx_name heads_of(pg__onnx *x, pg__val v, uint64_t heads, int swapped)
{
    static const uint32_t perms[][4] = {{0, 2, 1, 3}, {0, 2, 3, 1}};
    const uint64_t n = pg__onnx_dims(x, v)->d[2] / heads;
    const int64_t shape[] = {0, 0, (int64_t)heads, (int64_t)n};
    const pg__onnx_name apart =
        pg__onnx_op2(x, "Reshape", pg__onnx_get(x, v), pg__onnx_numbers(x, shape, 4));
    return pg__onnx_transpose(x, apart, perms[swapped], 4);
}

/* 1 and 0 as true and false, in the shape of the scores. */
static pg__onnx_name open_by(pg__onnx *x, pg__val mask, const int64_t *axes, size_t n)
{
    const pg__onnx_name open = pg__onnx_cast(x, pg__onnx_get(x, mask), PG_BOOL);
    return pg__onnx_op2(x, "Unsqueeze", open, pg__onnx_numbers(x, axes, n));
}

static pg__onnx_name both(pg__onnx *x, pg__onnx_name a, pg__onnx_name b)
{
    return a == PG_ONNX_ABSENT ? b : pg__onnx_op2(x, "And", a, b);
}

/* 0, 1, ... as many as v has steps */
static pg__onnx_name positions(pg__onnx *x, pg__val v)
{
    const int64_t zero = 0;
    const pg__onnx_name size = pg__onnx_squeeze(x, pg__onnx_size(x, v, 1), 0);
    const pg__onnx_name from = pg__onnx_squeeze(x, pg__onnx_numbers(x, &zero, 1), 0);
    const int64_t one = 1;
    return pg__onnx_op3(x, "Range", from, size,
                        pg__onnx_squeeze(x, pg__onnx_numbers(x, &one, 1), 0));
}

#define MOST_SEEN (UINT64_C(1) << 20) /* pairs of steps in a constant: 1 MB */

/* A step sees itself and those before it. */
static pg__onnx_name causal(pg__onnx *x, pg__val q, pg__val k)
{
    const uint64_t t = pg__onnx_dims(x, q)->d[1], s = pg__onnx_dims(x, k)->d[1];
    pg__onnx_name open = 0;
    if (pg__dim_mul(t, s) > MOST_SEEN)
        return pg__onnx_op2(x, "GreaterOrEqual", pg__onnx_unsqueeze(x, positions(x, q), 1),
                            positions(x, k));
    double *values = pg__mem_array((size_t)(t * s), sizeof *values);
    if (!values) {
        pg__onnx_check(x, pg__nomem(x->err));
        return 0;
    }
    for (uint64_t i = 0; i < t; i++)
        for (uint64_t n = 0; n <= i && n < s; n++)
            values[i * s + n] = 1;
    open = pg__onnx_const(x, "causal", PG_BOOL, 2, (const uint64_t[]){t, s}, values);
    pg__mem_free(values);
    return open;
}

static pg__onnx_name open_scores(pg__onnx *x, const pg__inst *i)
{
    static const int64_t rows_of[] = {1, 3}, columns_of[] = {1, 2}, heads[] = {1};
    const pg__attention_attrs *a = i->attrs;
    const pg__val mask = pg__onnx_in(x, i, MASK);
    pg__onnx_name open = PG_ONNX_ABSENT;
    if (pg__onnx_in(x, i, Q_MASK) != PG_NO_VAL)
        open = both(x, open, open_by(x, pg__onnx_in(x, i, Q_MASK), rows_of, 2));
    for (size_t k = V_MASK; k <= K_MASK; k++)
        if (pg__onnx_in(x, i, k) != PG_NO_VAL)
            open = both(x, open, open_by(x, pg__onnx_in(x, i, k), columns_of, 2));
    if (mask != PG_NO_VAL)
        open = both(x, open,
                    pg__onnx_dims(x, mask)->rank == 4
                        ? pg__onnx_cast(x, pg__onnx_get(x, mask), PG_BOOL)
                        : open_by(x, mask, heads, 1));
    if (a->causal)
        open = both(x, open, causal(x, pg__onnx_in(x, i, Q), pg__onnx_in(x, i, K)));
    return open;
}

void pg__onnx_attention(pg__onnx *x, const pg__inst *i)
{
    const pg__attention_attrs *a = i->attrs;
    const pg__val out = pg__out(x->tape, i, 0), shares = pg__out(x->tape, i, 1);
    const int64_t whole[] = {0, 0, (int64_t)pg__onnx_dims(x, out)->d[2]};
    const pg__onnx_name q = heads_of(x, pg__onnx_in(x, i, Q), a->heads, 0);
    const pg__onnx_name k = heads_of(x, pg__onnx_in(x, i, K), a->heads, 1);
    const pg__onnx_name v = heads_of(x, pg__onnx_in(x, i, V), a->heads, 0);
    const pg__onnx_name open = open_scores(x, i);
    pg__str attrs = {0};
    pg__onnx_name p = pg__onnx_op2(x, "MatMul", q, k);
    if (a->scale != 1)
        p = pg__onnx_op2(x, "Mul", p, pg__onnx_number(x, a->scale));
    if (open != PG_ONNX_ABSENT) /* what is left of it in float16 is far enough */
        p = pg__onnx_op3(x, "Where", open, p, pg__onnx_number(x, x->real == PG_F16 ? -6e4 : -1e9));
    pg__onnx_int(x, &attrs, "axis", -1);
    p = pg__onnx_op(x, "Softmax", &attrs, &p, 1);
    pg__onnx_set_plain(x, shares, p);
    const pg__onnx_name y =
        pg__onnx_transpose(x, pg__onnx_op2(x, "MatMul", p, v), (const uint32_t[]){0, 2, 1, 3}, 4);
    pg__onnx_set_plain(x, out, pg__onnx_op2(x, "Reshape", y, pg__onnx_numbers(x, whole, 3)));
}

/* ---- normalisation ---- */

#define MOST_ONES 65536

static pg__onnx_name filled(pg__onnx *x, const char *name, uint32_t rank, const uint64_t *dims,
                            double with)
{
    const pg__dims d = pg__dims_of(rank, dims);
    const size_t n = (size_t)pg__dims_elems(&d);
    pg__onnx_name out = 0;
    double *v = pg__mem_array(n, sizeof *v);
    if (!v) {
        pg__onnx_check(x, pg__nomem(x->err));
        return 0;
    }
    for (size_t k = 0; k < n; k++)
        v[k] = with;
    out = pg__onnx_const(x, name, x->real, rank, dims, v);
    pg__mem_free(v);
    return out;
}

static pg__onnx_name vector(pg__onnx *x, pg__val v, const char *name, uint64_t n, double with)
{
    return v != PG_NO_VAL ? pg__onnx_get(x, v) : filled(x, name, 1, &n, with);
}

/* gamma / sqrt(variance + epsilon), and what is added after it, as two constants. */
static void scaled(pg__onnx *x, const pg__inst *i, const pg__onnx_perm *p)
{
    const pg__bn_attrs *a = i->attrs;
    const pg__val in = pg__onnx_in(x, i, 0), out = pg__out(x->tape, i, 0);
    const uint64_t n = pg__onnx_dims(x, in)->d[pg__onnx_dims(x, in)->rank - 1];
    const double *v[5] = {NULL};
    double *scale = pg__mem_array((size_t)n, 2 * sizeof *scale), *shift = scale + n;
    for (size_t k = 1; k < 5; k++)
        if (pg__onnx_in(x, i, k) != PG_NO_VAL)
            v[k] = pg__onnx_data(x, pg__onnx_in(x, i, k));
    if (!scale)
        pg__onnx_check(x, pg__nomem(x->err));
    for (uint64_t k = 0; k < n && x->st == PG_OK; k++) {
        scale[k] = (v[3] ? v[3][k] : 1) / sqrt(v[2][k] + a->epsilon);
        shift[k] = (v[4] ? v[4][k] : 0) - v[1][k] * scale[k];
    }
    if (x->st == PG_OK) {
        const pg__onnx_name by = pg__onnx_const(x, "scale", x->real, 1, &n, scale);
        const pg__onnx_name y = pg__onnx_op2(x, "Mul", pg__onnx_as(x, in, p), by);
        const pg__onnx_name plus = pg__onnx_const(x, "shift", x->real, 1, &n, shift);
        pg__onnx_set(x, out, p, pg__onnx_op2(x, "Add", y, plus));
    }
    pg__mem_free(scale);
}

/* ONNX has the channels after the rows; with the channels last, two numbers per channel do. */
void pg__onnx_bn_apply(pg__onnx *x, const pg__inst *i)
{
    const pg__bn_attrs *a = i->attrs;
    const pg__val in = pg__onnx_in(x, i, 0);
    const uint32_t rank = pg__onnx_dims(x, in)->rank;
    const uint64_t n = pg__onnx_dims(x, in)->d[rank - 1];
    pg__onnx_perm p = pg__onnx_native(x, in);
    pg__str attrs = {0};
    int constant = 1;
    for (size_t k = 1; k < 5; k++)
        constant &=
            pg__onnx_in(x, i, k) == PG_NO_VAL || pg__onnx_is_static(x, pg__onnx_in(x, i, k));
    if (constant && p.p[1] != rank - 1 && p.p[rank - 1] == rank - 1) {
        scaled(x, i, &p);
        return;
    }
    if (p.p[1] != rank - 1)
        p = pg__onnx_first(rank);
    const pg__onnx_name operands[] = {
        pg__onnx_as(x, in, &p), vector(x, pg__onnx_in(x, i, 3), "gamma", n, 1),
        vector(x, pg__onnx_in(x, i, 4), "beta", n, 0), pg__onnx_get(x, pg__onnx_in(x, i, 1)),
        pg__onnx_get(x, pg__onnx_in(x, i, 2))};
    pg__onnx_float(x, &attrs, "epsilon", a->epsilon);
    pg__onnx_set(x, pg__out(x->tape, i, 0), &p,
                 pg__onnx_op(x, "BatchNormalization", &attrs, operands, 5));
}

static pg__onnx_name normalised(pg__onnx *x, pg__onnx_name v, const int64_t *axes, size_t n,
                                double epsilon)
{
    const pg__onnx_name mean = pg__onnx_reduce(x, "ReduceMean", v, axes, n, 1);
    const pg__onnx_name from = pg__onnx_op2(x, "Sub", v, mean);
    const pg__onnx_name square = pg__onnx_op2(x, "Mul", from, from);
    const pg__onnx_name variance = pg__onnx_reduce(x, "ReduceMean", square, axes, n, 1);
    const pg__onnx_name safe = pg__onnx_op2(x, "Add", variance, pg__onnx_number(x, epsilon));
    return pg__onnx_op2(x, "Div", from, pg__onnx_op1(x, "Sqrt", safe));
}

/* gamma and beta have the shape of the axes, maybe flat. */
static pg__onnx_name shaped(pg__onnx *x, pg__val v, const pg__dims *d, uint32_t n_axes)
{
    int64_t shape[PG_MAX_RANK];
    if (pg__onnx_dims(x, v)->rank == n_axes)
        return pg__onnx_get(x, v);
    for (uint32_t k = 0; k < n_axes; k++)
        shape[k] = (int64_t)d->d[d->rank - n_axes + k];
    return pg__onnx_op2(x, "Reshape", pg__onnx_get(x, v), pg__onnx_numbers(x, shape, n_axes));
}

/* The operator must have a scale. One that the layer lacks is as large as the axes that the model
 * names, whatever its file holds. */
static int fill_scale(const uint64_t *axes, uint32_t n)
{
    const pg__dims d = pg__dims_of(n, axes);
    return pg__dims_elems(&d) <= MOST_ONES; /* not of PG_DIM_ANY */
}

void pg__onnx_layer_norm(pg__onnx *x, const pg__inst *i)
{
    const pg__layer_norm_attrs *a = i->attrs;
    const pg__val in = pg__onnx_in(x, i, 0), gamma = pg__onnx_in(x, i, 1);
    const pg__val beta = pg__onnx_in(x, i, 2), out = pg__out(x->tape, i, 0);
    const pg__dims *d = pg__onnx_dims(x, in);
    const uint64_t *last = d->d + (d->rank - a->n_axes);
    const pg__onnx_name v = pg__onnx_get(x, in);
    const pg__onnx_name by = gamma == PG_NO_VAL ? PG_ONNX_ABSENT : shaped(x, gamma, d, a->n_axes);
    const pg__onnx_name plus = beta == PG_NO_VAL ? PG_ONNX_ABSENT : shaped(x, beta, d, a->n_axes);
    int64_t axes[PG_MAX_RANK];
    pg__str attrs = {0};
    for (uint32_t k = 0; k < a->n_axes; k++)
        axes[k] = (int64_t)k - (int64_t)a->n_axes;
    if (x->opset >= 17 && (by != PG_ONNX_ABSENT || fill_scale(last, a->n_axes))) {
        const pg__onnx_name operands[] = {
            v, by == PG_ONNX_ABSENT ? filled(x, "gamma", a->n_axes, last, 1) : by, plus};
        pg__onnx_int(x, &attrs, "axis", axes[0]);
        pg__onnx_float(x, &attrs, "epsilon", a->epsilon);
        pg__onnx_set_plain(x, out, pg__onnx_op(x, "LayerNormalization", &attrs, operands, 3));
        return;
    }
    pg__onnx_name y = normalised(x, v, axes, a->n_axes, a->epsilon);
    y = by == PG_ONNX_ABSENT ? y : pg__onnx_op2(x, "Mul", y, by);
    y = plus == PG_ONNX_ABSENT ? y : pg__onnx_op2(x, "Add", y, plus);
    pg__onnx_set_plain(x, out, y);
}

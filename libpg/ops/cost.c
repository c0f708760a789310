/* cost.c - floating point operations of instructions that are made of products, and bytes of
 * all. */
#include "ops/cost.h"

#include "ops/attrs.h"

static const pg__dims *shape_of(const pg__tape *t, const pg__inst *i, size_t k)
{
    return &t->values[pg__in(t, i, k)].shape;
}

static double elems(const pg__dims *s)
{
    return (double)pg__dims_elems(s);
}

static double last(const pg__dims *s)
{
    return (double)s->d[s->rank - 1];
}

/* Every cell of the result y meets every cell of a filter in the channels of a group. */
static double of_conv(const pg__conv_attrs *a, const pg__dims *x, const pg__dims *y)
{
    double cells = 1;
    for (uint32_t k = 0; k < a->rank; k++)
        cells *= (double)a->kernel[k];
    return 2 * elems(y) * cells * last(x) / (double)a->groups;
}

/* x: (rows, steps, gates units), and the recurrent kernel. */
static double of_recurrent(const pg__dims *x, const pg__dims *kernel)
{
    return 2 * (double)(x->d[0] * x->d[1]) * elems(kernel);
}

/* Scores and their sums of the values. */
static double of_attention(const pg__dims *q, const pg__dims *k, const pg__dims *v)
{
    return 2 * (double)(q->d[0] * q->d[1] * k->d[1]) * (last(q) + last(v));
}

static double flops_of(const pg__tape *t, const pg__inst *i)
{
    const pg__dims *a = shape_of(t, i, 0), *out = &t->values[pg__out(t, i, 0)].shape;
    const pg__dims *b = i->n_in > 1 ? shape_of(t, i, 1) : NULL;
    switch ((pg__op_kind)i->op->kind) {
    case PG_OP_conv: return of_conv(i->attrs, a, out);
    case PG_OP_conv_norm: return of_conv(&((const pg__conv_norm_attrs *)i->attrs)->conv, a, out);
    case PG_OP_conv_dx: return of_conv(i->attrs, out, a);
    case PG_OP_conv_dw: return of_conv(i->attrs, a, b);
    case PG_OP_dense: return 2 * elems(a) * last(out);
    case PG_OP_dense_dx: return 2 * elems(a) * last(out);
    case PG_OP_dense_dw: return 2 * elems(a) * last(b);
    case PG_OP_matmul: {
        const pg__matmul_attrs *m = i->attrs;
        return 2 * elems(out) * (double)a->d[m->a_turned ? 1 : 2];
    }
    case PG_OP_attention: return of_attention(a, b, shape_of(t, i, 2));
    case PG_OP_attention_grad: return 2 * of_attention(a, b, shape_of(t, i, 2));
    case PG_OP_lstm:
    case PG_OP_gru:
    case PG_OP_rnn: return of_recurrent(a, b);
    case PG_OP_lstm_grad:
    case PG_OP_gru_grad:
    case PG_OP_rnn_grad: return 2 * of_recurrent(a, b);
    default: return 0;
    }
}

pg__cost pg__cost_of(const pg__tape *t, const pg__inst *i, size_t real_bytes)
{
    pg__cost w = {.flops = i->n_in > 0 && pg__in(t, i, 0) != PG_NO_VAL ? flops_of(t, i) : 0};
    for (uint32_t k = 0; k < i->n_in + i->n_out; k++) {
        const pg__val v = k < i->n_in ? pg__in(t, i, k) : pg__out(t, i, k - i->n_in);
        if (v != PG_NO_VAL)
            w.bytes +=
                elems(&t->values[v].shape) * (double)pg__elem_bytes(t->values[v].elem, real_bytes);
    }
    return w;
}

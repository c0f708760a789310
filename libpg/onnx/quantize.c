/* quantize.c - kernels as bytes: each initialiser that is the kernel of a product, a convolution or
 * a recurrent layer becomes int8 numbers with a scale for every output channel, and a
 * DequantizeLinear gives it back under its old name. Nothing else changes: what is computed stays
 * float32. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "onnx/predict.h"
#include "train/step/step.h"

#define PIECE ((size_t)65536)

/* ---- which ---- */

/* The axis of the kernel's output channels, if operand k of such a node is one. */
static int channel_axis(const char *op, uint32_t k, uint32_t rank)
{
    const int is_recurrent =
        strcmp(op, "LSTM") == 0 || strcmp(op, "GRU") == 0 || strcmp(op, "RNN") == 0;
    if (is_recurrent && (k == 1 || k == 2))
        return 1;
    if (k != 1)
        return -1;
    if (strcmp(op, "Conv") == 0)
        return 0;
    if (strcmp(op, "ConvTranspose") == 0)
        return 1;
    return strcmp(op, "MatMul") == 0 || strcmp(op, "Gemm") == 0 ? (int)rank - 1 : -1;
}

static pg__onnx_init *init_of(pg__onnx_graph *g, pg__onnx_name name)
{
    for (size_t k = 0; k < g->n_inits; k++)
        if (g->inits[k].name == name)
            return &g->inits[k];
    return NULL;
}

/* Marks the kernels among the operands of a node. */
static void mark(pg__onnx *x, const pg__onnx_node *n)
{
    for (uint32_t k = 0; k < n->n_in; k++) {
        const pg__onnx_name name = x->g.operands[n->first + k];
        pg__onnx_init *i = name == PG_ONNX_ABSENT ? NULL : init_of(&x->g, name);
        const int axis = i ? channel_axis(n->op, k, i->rank) : -1;
        if (axis >= 0 && !i->values && i->rank >= 2 && pg__dtype_is_float(i->take.from))
            i->axis = 1 + (uint32_t)axis;
    }
}

/* ---- how ---- */

uint64_t pg__onnx_channel(const pg__onnx_init *i, uint64_t element)
{
    for (uint32_t k = i->rank; k-- > i->axis;)
        element /= i->dims[k];
    return element % i->dims[i->axis - 1];
}

static uint64_t row_of(const pg__onnx_init *i)
{
    uint64_t n = 1;
    for (uint32_t k = 1; k < i->rank; k++)
        n *= i->dims[k];
    return n;
}

/* A byte, as a number. */
static double in_steps(const pg__onnx_init *i, uint64_t element, double value)
{
    const double q = rint(value / i->scales[pg__onnx_channel(i, element)]);
    return q < -127 ? -127 : q > 127 ? 127 : q;
}

int8_t pg__onnx_quantized(const pg__onnx_init *i, uint64_t element, double value)
{
    return (int8_t)in_steps(i, element, value);
}

/* The largest magnitude of each channel. */
static pg_status measure(pg__onnx *x, const pg__onnx_init *i, double *most, pg_err *err)
{
    const pg__dims d = pg__dims_of(i->rank, i->dims);
    const uint64_t n = pg__dims_elems(&d), row = row_of(i);
    const size_t each = pg_dtype_bytes(i->take.from);
    pg__take t = i->take;
    pg__taker *taker = NULL;
    unsigned char *raw = pg__mem_array(PIECE, each);
    pg_status st = PG_OK;
    t.to = t.from;
    if (!raw)
        PG_TRY(pg__nomem(err));
    PG_TRY(pg__taker_new(&taker, x->weights, 1, err));
    for (uint64_t at = 0, m; at < n; at += m) {
        m = n - at < PIECE ? n - at : PIECE;
        PG_TRY(pg__taker_read(taker, &t, 0, at * each, raw, (size_t)m * each, err));
        for (uint64_t k = 0; k < m; k++) {
            const double v = pg__value_at(raw + k * each, t.from) *
                             (i->factors ? i->factors[(at + k) / row] : 1);
            double *to = &most[pg__onnx_channel(i, at + k)];
            if (!isfinite(v))
                PG_FAIL(PG_E_UNSUPPORTED, "%s: has a number that is not finite: no int8 can be it",
                        PG_SHOW(x->g.names.v[i->name]));
            *to = fabs(v) > *to ? fabs(v) : *to;
        }
    }
done:
    pg__taker_free(taker);
    pg__mem_free(raw);
    return st;
}

static pg_status find_scales(pg__onnx *x, pg__onnx_init *i, pg_err *err)
{
    const uint64_t n = i->dims[i->axis - 1];
    pg_status st = PG_OK;
    i->scales = pg__mem_array((size_t)n, sizeof *i->scales);
    if (!i->scales)
        return pg__nomem(err);
    PG_TRY(measure(x, i, i->scales, err));
    for (uint64_t k = 0; k < n; k++) {
        const float step = (float)(i->scales[k] / 127);
        i->scales[k] = step > 0 ? step : 1; /* as the file has it */
    }
done:
    return st;
}

/* ---- the graph ---- */

static pg_status new_name(pg__onnx *x, pg__onnx_name like, const char *what, pg__onnx_name *out,
                          pg_err *err)
{
    pg__str name = {0};
    pg_status st = PG_OK;
    PG_TRY(pg__str_printf(&name, err, "%s_%s", x->g.names.v[like], what));
    PG_TRY(pg__onnx_new_name(&x->g, name.s, out, err));
done:
    pg__str_fini(&name);
    return st;
}

static pg_status add_scales(pg__onnx *x, const pg__onnx_init *of, pg__onnx_name name, pg_err *err)
{
    const uint64_t n = of->dims[of->axis - 1];
    pg__onnx_init scales = {.name = name, .dtype = PG_F32, .rank = 1, .dims = {n}};
    scales.values = pg__mem_array((size_t)n, sizeof *scales.values);
    if (!scales.values)
        return pg__nomem(err);
    memcpy(scales.values, of->scales, (size_t)n * sizeof *scales.values);
    return pg__onnx_add_init(&x->g, &scales, err);
}

/* The node that restores initialiser k, before all others. */
static pg_status add_restoring(pg__onnx *x, size_t k, pg_err *err)
{
    pg__onnx_graph *g = &x->g;
    const pg__onnx_name out = g->inits[k].name;
    pg__onnx_name in[2];
    pg__str attrs = {0};
    pg_status st = PG_OK;
    PG_TRY(new_name(x, out, "quantized", &in[0], err));
    PG_TRY(new_name(x, out, "scale", &in[1], err));
    pg__onnx_int(x, &attrs, "axis", g->inits[k].axis - 1);
    PG_TRY(x->st);
    PG_TRY(pg__onnx_add_node(g, "DequantizeLinear", &attrs, in, 2, &out, 1, err));
    const pg__onnx_node last = g->nodes[g->n_nodes - 1];
    memmove(g->nodes + 1, g->nodes, (g->n_nodes - 1) * sizeof *g->nodes);
    g->nodes[0] = last;
    g->inits[k].name = in[0];
    g->inits[k].dtype = PG_I8;
    PG_TRY(add_scales(x, &g->inits[k], in[1], err));
done:
    pg__str_fini(&attrs);
    return st;
}

pg_status pg__onnx_quantize(pg__onnx *x, size_t *n, pg_err *err)
{
    pg_status st = PG_OK;
    x->err = err;
    for (size_t k = 0; k < x->g.n_nodes; k++)
        if (!x->g.nodes[k].is_dead)
            mark(x, &x->g.nodes[k]);
    for (size_t k = x->g.n_inits; k-- > 0;) { /* scales come behind */
        if (!x->g.inits[k].axis)
            continue;
        PG_TRY(find_scales(x, &x->g.inits[k], err));
        PG_TRY(add_restoring(x, k, err));
        ++*n;
    }
done:
    return st;
}

/* ---- the same in a trainer ---- */

/* The element of its tensor that an element of a take is; *block: of which. */
static uint64_t place_of(const pg__take *t, uint64_t element, uint32_t *block)
{
    uint64_t at = 0;
    *block = 0;
    for (uint32_t k = t->rank; k-- > 0;) {
        uint64_t i = element % t->dims[k];
        element /= t->dims[k];
        if (k == t->axis && t->n_blocks > 1) {
            const uint64_t each = t->dims[k] / t->n_blocks;
            *block = (uint32_t)(i / each);
            i %= each;
        }
        at += i * t->stride[k];
    }
    return at + t->block[*block].base;
}

typedef struct changed {
    pg_trainer *t;
    double **values; /* per variable, once it is changed */
    size_t n;
} changed;

static pg_status values_of(changed *c, const pg__onnx *x, size_t tensor, double **out, pg_err *err)
{
    size_t p = 0;
    while (p < c->n && x->tensors[p] != tensor)
        p++;
    if (p == c->n)
        return pg_fail(err, PG_E_MISMATCH, "a kernel that is no variable of the model");
    if (!c->values[p]) {
        c->values[p] = pg__mem_array(c->t->vars.n_elems[p], sizeof **c->values);
        if (!c->values[p])
            return pg__nomem(err);
        const pg_status st = pg__with_message(c->t, pg__param_get(c->t, p, c->values[p]), err);
        if (st != PG_OK)
            return st;
    }
    *out = c->values[p];
    return PG_OK;
}

static pg_status change(changed *c, const pg__onnx *x, const pg__onnx_init *i, pg_err *err)
{
    const pg__dims d = pg__dims_of(i->rank, i->dims);
    const uint64_t n = pg__dims_elems(&d), row = row_of(i);
    double *of[PG_TAKE_BLOCKS] = {NULL};
    pg_status st = PG_OK;
    for (uint32_t b = 0; b < i->take.n_blocks; b++)
        PG_TRY(values_of(c, x, i->take.block[b].src, &of[b], err));
    for (uint64_t e = 0; e < n; e++) {
        const double factor = i->factors ? i->factors[e / row] : 1;
        uint32_t b;
        double *v = NULL;
        const uint64_t at = place_of(&i->take, e, &b);
        v = &of[b][at];
        if (factor != 0)
            *v = in_steps(i, e, *v * factor) * i->scales[pg__onnx_channel(i, e)] / factor;
    }
done:
    return st;
}

pg_status pg__onnx_quantize_trainer(pg_trainer *t, const pg__onnx *x, pg_err *err)
{
    changed c = {.t = t, .n = x->low->n_params};
    pg_status st = PG_OK;
    c.values = pg__mem_array(c.n, sizeof *c.values);
    if (!c.values)
        return pg__nomem(err);
    for (size_t k = 0; k < x->g.n_inits; k++)
        if (x->g.inits[k].scales)
            PG_TRY(change(&c, x, &x->g.inits[k], err));
    for (size_t p = 0; p < c.n; p++)
        if (c.values[p])
            PG_TRY(pg__with_message(t, pg__param_put(t, p, c.values[p]), err));
done:
    for (size_t p = 0; p < c.n; p++)
        pg__mem_free(c.values[p]);
    pg__mem_free(c.values);
    return st;
}

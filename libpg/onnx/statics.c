/* statics.c - values that depend on variables alone. Most are a view of one tensor of the source,
 * which goes from there into the file without being held in memory; the others (gates that Keras 1
 * stores apart, kernels of CuDNN layers, tables) are computed here, by the plain C answers of the
 * operations. */
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "onnx/onnx.h"

/* ---- views of a tensor ---- */

/* Are the elements one after the other, in one piece? */
static int is_contiguous(const pg__take *t)
{
    uint64_t step = 1;
    if (t->n_blocks != 1 || t->plus)
        return 0;
    for (uint32_t k = t->rank; k-- > 0;) {
        if (t->dims[k] != 1 && t->stride[k] != step)
            return 0;
        step *= t->dims[k];
    }
    return 1;
}

static int view_reshape(pg__take *t, const pg__dims *to)
{
    uint64_t step = 1;
    if (!is_contiguous(t))
        return 0;
    memset(t->dims, 0, sizeof t->dims);
    memset(t->stride, 0, sizeof t->stride);
    t->rank = to->rank;
    for (uint32_t k = to->rank; k-- > 0; step *= to->d[k]) {
        t->dims[k] = to->d[k];
        t->stride[k] = step;
    }
    return 1;
}

static int view_cut(pg__take *t, const pg__pad_attrs *a)
{
    if (t->n_blocks != 1)
        return 0;
    for (uint32_t k = 0; k < t->rank; k++)
        if (a->before[k] > 0 || a->after[k] > 0)
            return 0;
    for (uint32_t k = 0; k < t->rank; k++) {
        t->block[0].base += (uint64_t)-a->before[k] * t->stride[k];
        t->dims[k] -= (uint64_t)-a->before[k] + (uint64_t)-a->after[k];
    }
    return 1;
}

static int view_concat(pg__take *t, const pg__onnx *x, const pg__inst *i)
{
    pg__take parts[PG_TAKE_BLOCKS];
    if (i->n_in > PG_TAKE_BLOCKS)
        return 0;
    for (uint32_t k = 0; k < i->n_in; k++) {
        const pg__onnx_value *v = &x->values[pg__onnx_in(x, i, k)];
        if (!v->has_take)
            return 0;
        parts[k] = v->take;
    }
    return pg__take_join(t, parts, i->n_in, ((const pg__concat_attrs *)i->attrs)->axis);
}

/* The result of the instruction as a view, if it is one. */
static int view_of(pg__take *t, const pg__onnx *x, const pg__inst *i)
{
    const pg__val in = i->n_in > 0 ? pg__onnx_in(x, i, 0) : PG_NO_VAL;
    if (in == PG_NO_VAL || !x->values[in].has_take)
        return 0;
    *t = x->values[in].take;
    switch (i->op->kind) {
    case PG_OP_reshape: return view_reshape(t, &((const pg__reshape_attrs *)i->attrs)->to);
    case PG_OP_transpose:
        pg__take_permute(t, ((const pg__transpose_attrs *)i->attrs)->perm);
        return 1;
    case PG_OP_pad: return view_cut(t, i->attrs);
    case PG_OP_concat: return view_concat(t, x, i);
    default: return 0;
    }
}

int pg__onnx_note_static(pg__onnx *x, const pg__inst *i)
{
    const pg__dims *d = pg__onnx_dims(x, pg__out(x->tape, i, 0));
    if (i->n_out != 1 || pg__dims_elems(d) == PG_DIM_ANY)
        return 0;
    for (uint32_t k = 0; k < i->n_in; k++) {
        const pg__val v = pg__onnx_in(x, i, k);
        if (v != PG_NO_VAL && !x->values[v].is_static)
            return 0;
    }
    pg__onnx_value *out = &x->values[pg__out(x->tape, i, 0)];
    out->is_static = 1;
    out->has_take = view_of(&out->take, x, i);
    if (i->n_in > 0)
        out->param = x->values[pg__onnx_in(x, i, 0)].param;
    return 1;
}

/* ---- elements ---- */

static void *room_for(pg__onnx *x, pg__val v, uint64_t *n)
{
    const pg__value *value = &x->tape->values[v];
    *n = pg__dims_elems(&value->shape);
    if (*n > PG_MAX_CONSTANT) {
        pg__onnx_refuse(x, "computes a constant of %s, which is too large",
                        PG_SHAPE(&value->shape));
        return NULL;
    }
    void *p = pg__mem_array((size_t)*n, pg__elem_bytes(value->elem, sizeof(double)));
    if (!p)
        pg__onnx_check(x, pg__nomem(x->err));
    return p;
}

/* A view's elements, as they are stored. */
static void read_view(pg__onnx *x, pg__val v, double *out, uint64_t n)
{
    pg__take t = x->values[v].take;
    const size_t each = pg_dtype_bytes(t.from);
    unsigned char *raw = pg__mem_array((size_t)n, each);
    pg__taker *taker = NULL;
    t.to = t.from;
    pg__onnx_check(x, raw ? pg__taker_new(&taker, x->weights, 1, x->err) : pg__nomem(x->err));
    if (x->st == PG_OK)
        pg__onnx_check(x, pg__taker_read(taker, &t, 0, 0, raw, (size_t)n * each, x->err));
    if (x->st == PG_OK)
        pg__values(out, raw, (size_t)n, t.from);
    pg__taker_free(taker);
    pg__mem_free(raw);
}

static const void *elements(pg__onnx *x, pg__val v);

static void compute(pg__onnx *x, pg__val v, void *out, uint64_t n)
{
    const pg__inst *i = &x->tape->insts[x->values[v].maker - 1];
    const pg__arg result = {&x->tape->values[v].shape, out, n};
    pg__arg *in = pg__mem_array(i->n_in, sizeof *in);
    if (!in) {
        pg__onnx_check(x, pg__nomem(x->err));
        return;
    }
    for (uint32_t k = 0; k < i->n_in && x->st == PG_OK; k++) {
        const pg__val from = pg__onnx_in(x, i, k);
        if (from == PG_NO_VAL)
            continue;
        in[k].shape = pg__onnx_dims(x, from);
        in[k].n = pg__dims_elems(in[k].shape);
        in[k].p = (void *)(uintptr_t)elements(x, from); /* references do not change operands */
    }
    if (x->st == PG_OK && i->op->kind == PG_OP_reshape) /* on a tape it shares memory */
        memcpy(out, in[0].p, (size_t)n * pg__elem_bytes(x->tape->values[v].elem, sizeof(double)));
    else if (x->st == PG_OK)
        i->op->ref_f64(i->attrs, in, i->n_in, &result, 1);
    pg__mem_free(in);
}

static const void *elements(pg__onnx *x, pg__val v)
{
    uint64_t n;
    if (x->st != PG_OK || x->values[v].data)
        return x->values[v].data;
    void *p = room_for(x, v, &n);
    if (!p)
        return NULL;
    x->values[v].data = p;
    if (x->values[v].has_take)
        read_view(x, v, p, n);
    else
        compute(x, v, p, n);
    return p;
}

const double *pg__onnx_data(pg__onnx *x, pg__val v)
{
    return x->tape->values[v].elem == PG_ELEM_INT ? NULL : elements(x, v);
}

int pg__onnx_is_static(const pg__onnx *x, pg__val v)
{
    return v != PG_NO_VAL && x->values[v].is_static;
}

/* ---- initialisers ---- */

/* "dense/kernel"; layers of models inside have these in front, as their own variables do. */
pg_status pg__onnx_param_name(pg__str *out, const pg__onnx *x, size_t param, pg_err *err)
{
    const pg__param *p = &x->low->params[param];
    pg_status st = PG_OK;
    if (*p->leaf->parent)
        PG_TRY(pg__str_printf(out, err, "%s/", p->leaf->parent));
    PG_TRY(pg__str_printf(out, err, "%s/", p->leaf->layer->name));
    if (*p->var->sub)
        PG_TRY(pg__str_printf(out, err, "%s/", p->var->sub));
    PG_TRY(pg__str_puts(out, p->var->name, err));
done:
    return st;
}

static pg_status name_static(pg__onnx *x, pg__val v, pg__onnx_name *out, pg_err *err)
{
    pg__str name = {0};
    pg_status st = PG_OK;
    if (x->values[v].param)
        PG_TRY(pg__onnx_param_name(&name, x, x->values[v].param - 1, err));
    else
        PG_TRY(pg__str_printf(&name, err, "%s/constant", pg__onnx_layer(x)));
    PG_TRY(pg__onnx_new_name(&x->g, name.s, out, err));
done:
    pg__str_fini(&name);
    return st;
}

static void lead_by_ones(pg__take *t, uint32_t rank)
{
    const uint32_t by = rank - t->rank;
    memmove(t->dims + by, t->dims, t->rank * sizeof *t->dims);
    memmove(t->stride + by, t->stride, t->rank * sizeof *t->stride);
    for (uint32_t k = 0; k < by; k++)
        t->dims[k] = 1, t->stride[k] = 0;
    t->axis += by;
    t->rank = rank;
}

pg_status pg__onnx_add_take(pg__onnx *x, pg__take *t, pg__onnx_name name, pg_err *err)
{
    pg__onnx_init init = {.name = name, .dtype = x->real, .take = *t};
    init.take.to = x->real;
    init.rank = pg__take_shape(t, init.dims);
    return pg__onnx_add_init(&x->g, &init, err);
}

/* Elements of `from` in another order. */
static void reorder(double *to, const void *from, pg__elem elem, const pg__dims *d,
                    const pg__onnx_perm *p)
{
    uint64_t step[PG_MAX_RANK], index[PG_MAX_RANK] = {0}, all = 1;
    for (uint32_t k = d->rank; k-- > 0; all *= d->d[k])
        step[k] = all;
    for (uint64_t i = 0; i < all; i++) {
        uint64_t at = 0;
        for (uint32_t k = 0; k < d->rank; k++)
            at += index[k] * step[p->p[k]];
        to[i] = elem == PG_ELEM_INT ? ((const int32_t *)from)[at] : ((const double *)from)[at];
        for (uint32_t k = d->rank; k-- > 0 && ++index[k] == d->d[p->p[k]];)
            index[k] = 0;
    }
}

static void add_computed(pg__onnx *x, pg__val v, const pg__dims *d, const pg__onnx_perm *p,
                         pg__onnx_name name)
{
    const pg__elem elem = x->tape->values[v].elem;
    pg__onnx_init init = {
        .name = name, .dtype = elem == PG_ELEM_INT ? PG_I32 : x->real, .rank = d->rank};
    const void *data = elements(x, v);
    if (x->st != PG_OK)
        return;
    for (uint32_t k = 0; k < d->rank; k++)
        init.dims[k] = d->d[p->p[k]];
    init.values = pg__mem_array((size_t)pg__dims_elems(d), sizeof *init.values);
    if (!init.values) {
        x->st = pg__nomem(x->err);
        return;
    }
    reorder(init.values, data, elem, d, p);
    pg__onnx_check(x, pg__onnx_add_init(&x->g, &init, x->err));
}

pg__onnx_name pg__onnx_static(pg__onnx *x, pg__val v, uint32_t rank, const pg__onnx_perm *p)
{
    const pg__dims *own = pg__onnx_dims(x, v);
    const pg__onnx_value *value = &x->values[v];
    pg__dims d = {.rank = rank};
    pg__onnx_name name = 0;
    if (x->st == PG_OK)
        pg__onnx_check(x, name_static(x, v, &name, x->err));
    if (x->st != PG_OK)
        return name;
    if (value->has_take && pg__dtype_is_float(value->take.from)) {
        pg__take t = value->take;
        lead_by_ones(&t, rank);
        pg__take_permute(&t, p->p);
        pg__onnx_check(x, pg__onnx_add_take(x, &t, name, x->err));
        return name;
    }
    for (uint32_t k = 0; k < rank; k++)
        d.d[k] = k < rank - own->rank ? 1 : own->d[k - (rank - own->rank)];
    add_computed(x, v, &d, p, name);
    return name;
}

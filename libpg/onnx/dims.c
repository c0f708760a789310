/* dims.c - unknown dimensions. Tapes only say that a dimension is unknown; here each has a symbol,
 * so that Reshape and Expand can ask at run time for a size that their own operand does not have:
 * the steps of a sequence that was folded into the rows, for example. */
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "onnx/onnx.h"

static uint32_t add_sym(pg__onnx *x, const pg__onnx_sym *s)
{
    for (size_t i = 0; i < x->n_syms; i++)
        if (x->syms[i].k == s->k && x->syms[i].n == s->n &&
            memcmp(x->syms[i].of, s->of, s->n * sizeof *s->of) == 0)
            return (uint32_t)i + 1;
    if (pg__mem_grow(&x->syms, &x->cap_syms, x->n_syms + 1, sizeof *x->syms)) {
        pg__onnx_check(x, pg__nomem(x->err));
        return 0;
    }
    x->syms[x->n_syms++] = *s;
    return (uint32_t)x->n_syms;
}

/* A dimension that nothing else has. */
static uint32_t own_sym(pg__onnx *x, pg__val v, uint32_t axis)
{
    pg__onnx_sym s = {.k = 1, .n = 1, .size = PG_ONNX_ABSENT};
    s.of[0].v = v;
    s.of[0].axis = axis;
    return add_sym(x, &s);
}

/* ---- which symbol a result has ---- */

/* What the axis has where all sizes are known (symbolic.c). */
static uint64_t sized(const pg__onnx *x, pg__val v, uint32_t axis)
{
    return pg__onnx_sized_dims(x, v)->d[axis];
}

static int says_size(const pg__onnx *x, uint32_t sym, pg__val v, uint32_t axis)
{
    const pg__onnx_sym *s = &x->syms[sym - 1];
    uint64_t size = s->k;
    for (uint32_t n = 0; n < s->n; n++)
        size = pg__dim_mul(size, sized(x, s->of[n].v, s->of[n].axis));
    return size == sized(x, v, axis);
}

static int is_unknown(const pg__onnx *x, pg__val v, uint32_t axis)
{
    return pg__onnx_dims(x, v)->d[axis] == PG_DIM_ANY;
}

/* Axes in front that Reshape leaves as they are. */
static uint32_t name_kept(pg__onnx *x, pg__val from, pg__val to)
{
    const uint32_t n = pg__onnx_dims(x, from)->rank, m = pg__onnx_dims(x, to)->rank;
    uint32_t a = 0;
    while (a < n && a < m && is_unknown(x, from, a) == is_unknown(x, to, a) &&
           sized(x, from, a) == sized(x, to, a)) {
        x->values[to].sym[a] = x->values[from].sym[a];
        a++;
    }
    return a;
}

/* Unknown sizes of the other axes of the operand, in order; 0: they are too many. */
static int factors_of(const pg__onnx *x, pg__val from, uint32_t a, pg__onnx_sym *out)
{
    for (; a < pg__onnx_dims(x, from)->rank; a++) {
        const uint32_t sym = x->values[from].sym[a];
        const pg__onnx_sym *s = sym ? &x->syms[sym - 1] : NULL;
        for (uint32_t n = 0; s && n < s->n; n++) {
            if (out->n == PG_ONNX_FACTORS)
                return 0;
            out->of[out->n++] = s->of[n];
        }
    }
    return 1;
}

/* In how many ways the factors from `at` on make the unknown axes of `to` from `a` on: each takes
 * one or more, in order, and a share of the known sizes. ends: where each stops, if there is one
 * way. */
static uint32_t ways(const pg__onnx *x, pg__val to, uint32_t a, const pg__onnx_sym *all,
                     uint32_t at, uint32_t *ends)
{
    const uint32_t rank = pg__onnx_dims(x, to)->rank;
    uint64_t product = 1;
    uint32_t n = 0;
    while (a < rank && !is_unknown(x, to, a))
        a++;
    if (a == rank)
        return at == all->n;
    for (uint32_t end = at; end < all->n;) {
        product = pg__dim_mul(product, sized(x, all->of[end].v, all->of[end].axis));
        end++;
        if (product == 0 || sized(x, to, a) % product != 0)
            continue;
        const uint32_t found = ways(x, to, a + 1, all, end, ends);
        if (found > 0)
            ends[a] = end;
        n += found;
    }
    return n;
}

/* Dimensions are taken apart and put together in order; the sizes of the other tape say which. */
static void name_reshaped(pg__onnx *x, pg__val from, pg__val to)
{
    pg__onnx_sym all = {.size = PG_ONNX_ABSENT};
    uint32_t ends[PG_MAX_RANK] = {0}, at = 0, a = name_kept(x, from, to);
    const int is_clear = factors_of(x, from, a, &all) && ways(x, to, a, &all, 0, ends) == 1;
    for (; a < pg__onnx_dims(x, to)->rank; a++) {
        if (!is_unknown(x, to, a))
            continue;
        pg__onnx_sym s = {.k = sized(x, to, a), .size = PG_ONNX_ABSENT};
        while (is_clear && at < ends[a]) {
            s.k /= sized(x, all.of[at].v, all.of[at].axis);
            s.of[s.n++] = all.of[at++];
        }
        x->values[to].sym[a] = is_clear ? add_sym(x, &s) : own_sym(x, to, a);
    }
}

/* Axis `a` of the operand in the same place, counted from the last. */
static uint32_t sym_aligned(const pg__onnx *x, pg__val v, uint32_t rank, uint32_t a)
{
    const uint32_t own = pg__onnx_dims(x, v)->rank;
    return a + own < rank ? 0 : x->values[v].sym[a + own - rank];
}

/* Operations that change the number of cells along an unknown axis. */
static int keeps_axis(const pg__onnx *x, const pg__inst *i, uint32_t a)
{
    if (a == 0)
        return i->op->kind != PG_OP_concat || ((const pg__concat_attrs *)i->attrs)->axis != 0;
    switch (i->op->kind) {
    case PG_OP_conv:
    case PG_OP_conv_dx:
    case PG_OP_pool:
    case PG_OP_resize: return a + 1 == pg__onnx_dims(x, pg__out(x->tape, i, 0))->rank;
    case PG_OP_pad:
        return ((const pg__pad_attrs *)i->attrs)->before[a] == 0 &&
               ((const pg__pad_attrs *)i->attrs)->after[a] == 0;
    case PG_OP_concat: return ((const pg__concat_attrs *)i->attrs)->axis != a;
    default: return 1;
    }
}

/* A constant that is repeated for every row: the rows that the same layer had before it, which are
 * steps, too, where a layer is called for each of these. */
static uint32_t rows_before(const pg__onnx *x, const pg__inst *i)
{
    for (const pg__inst *b = i; b-- > x->tape->insts && b->origin == i->origin;)
        if (pg__onnx_dims(x, pg__out(x->tape, b, 0))->rank > 0 &&
            x->values[pg__out(x->tape, b, 0)].sym[0])
            return x->values[pg__out(x->tape, b, 0)].sym[0];
    return x->n_inputs > 0 ? x->values[x->low->inputs[0]].sym[0] : 0;
}

/* 0: none of the operands has it. */
static uint32_t sym_of_axis(const pg__onnx *x, const pg__inst *i, uint32_t k, uint32_t a)
{
    const pg__val out = pg__out(x->tape, i, k), first = pg__onnx_in(x, i, 0);
    const uint32_t rank = pg__onnx_dims(x, out)->rank;
    uint32_t sym = 0;
    if (!keeps_axis(x, i, a))
        return 0;
    if (i->op->kind == PG_OP_transpose)
        return x->values[first].sym[((const pg__transpose_attrs *)i->attrs)->perm[a]];
    if (i->op->kind == PG_OP_attention && k == 1 && a > 1)
        return x->values[pg__onnx_in(x, i, a - 2)].sym[1];
    if (i->op->kind == PG_OP_matmul && a > 0) {
        const pg__matmul_attrs *t = i->attrs;
        const uint32_t axis = a == 1 ? (t->a_turned ? 2 : 1) : (t->b_turned ? 1 : 2);
        return x->values[pg__onnx_in(x, i, a - 1)].sym[axis];
    }
    if (i->op->kind == PG_OP_embedding || i->op->kind == PG_OP_mask_steps)
        return x->values[first].sym[a];
    for (uint32_t n = 0; n < i->n_in && !sym; n++) {
        if (pg__onnx_in(x, i, n) != PG_NO_VAL)
            sym = sym_aligned(x, pg__onnx_in(x, i, n), rank, a);
        sym = sym && says_size(x, sym, out, a) ? sym : 0; /* axes may be dropped in between */
    }
    if (!sym && a == 0 && first != PG_NO_VAL) /* rows */
        sym = x->values[first].sym[0];
    if (!sym && a == 0 && i->op->kind == PG_OP_spread)
        sym = rows_before(x, i);
    return sym;
}

static void name_axis(pg__onnx *x, const pg__inst *i, uint32_t k, uint32_t a)
{
    const pg__val out = pg__out(x->tape, i, k);
    const uint32_t sym = sym_of_axis(x, i, k, a);
    x->values[out].sym[a] = sym && says_size(x, sym, out, a) ? sym : own_sym(x, out, a);
}

void pg__onnx_name_dims(pg__onnx *x, const pg__inst *i)
{
    if (x->sized->n_values == 0) /* all of them are known */
        return;
    if (i->op->kind == PG_OP_reshape) {
        name_reshaped(x, pg__onnx_in(x, i, 0), pg__out(x->tape, i, 0));
        return;
    }
    for (uint32_t k = 0; k < i->n_out; k++) {
        const pg__val out = pg__out(x->tape, i, k);
        for (uint32_t a = 0; a < pg__onnx_dims(x, out)->rank; a++)
            if (is_unknown(x, out, a))
                name_axis(x, i, k, a);
    }
}

void pg__onnx_name_input(pg__onnx *x, pg__val v, uint32_t axis, char *param)
{
    const uint32_t first = x->values[x->low->inputs[0]].sym[0];
    if (axis == 0 && first) { /* all inputs have the same rows */
        x->values[v].sym[0] = first;
        pg__mem_free(param);
        return;
    }
    x->values[v].sym[axis] = own_sym(x, v, axis);
    if (x->values[v].sym[axis])
        x->syms[x->values[v].sym[axis] - 1].param = param;
    else
        pg__mem_free(param);
}

/* ---- sizes at run time ---- */

static pg__onnx_name size_of_factor(pg__onnx *x, pg__val v, uint32_t axis)
{
    const pg__onnx_perm p = pg__onnx_native(x, v);
    const int64_t at = pg__onnx_axis(&p, axis);
    const pg__onnx_name shape = pg__onnx_op1(x, "Shape", pg__onnx_as(x, v, &p));
    return pg__onnx_op2(x, "Gather", shape, pg__onnx_numbers(x, &at, 1));
}

static pg__onnx_name size_of_sym(pg__onnx *x, uint32_t sym)
{
    const pg__onnx_sym s = x->syms[sym - 1];
    pg__onnx_name size = PG_ONNX_ABSENT;
    if (s.size != PG_ONNX_ABSENT)
        return s.size;
    for (uint32_t n = 0; n < s.n; n++) {
        const pg__onnx_name one = size_of_factor(x, s.of[n].v, s.of[n].axis);
        size = n ? pg__onnx_op2(x, "Mul", size, one) : one;
    }
    if (s.k != 1) {
        const int64_t k = (int64_t)s.k;
        size = pg__onnx_op2(x, "Mul", size, pg__onnx_numbers(x, &k, 1));
    }
    x->syms[sym - 1].size = size;
    return size;
}

pg__onnx_name pg__onnx_size(pg__onnx *x, pg__val v, uint32_t axis)
{
    const int64_t n = (int64_t)pg__onnx_dims(x, v)->d[axis];
    return x->values[v].sym[axis] ? size_of_sym(x, x->values[v].sym[axis])
                                  : pg__onnx_numbers(x, &n, 1);
}

int pg__onnx_same_dim(const pg__onnx *x, pg__val a, uint32_t i, pg__val b, uint32_t k)
{
    return pg__onnx_dims(x, a)->d[i] == pg__onnx_dims(x, b)->d[k] &&
           x->values[a].sym[i] == x->values[b].sym[k];
}

int pg__onnx_is_own(const pg__onnx *x, pg__val v, uint32_t axis)
{
    return x->values[v].sym[axis] && x->syms[x->values[v].sym[axis] - 1].of[0].v == v;
}

void pg__onnx_refuse_open(pg__onnx *x, const char *why)
{
    if (x->st != PG_OK)
        return;
    pg__onnx_refuse(x, "%s", why);
    pg__onnx_hint_sizes(x->err);
}

/* 0: as the operand has it; -1: what is left. */
pg__onnx_name pg__onnx_shape(pg__onnx *x, pg__val from, pg__val like)
{
    const pg__dims *d = pg__onnx_dims(x, like);
    int64_t shape[PG_MAX_RANK];
    pg__onnx_name parts[PG_MAX_RANK];
    uint32_t unknown = 0;
    for (uint32_t a = 0; a < d->rank; a++) {
        const int kept = d->d[a] == PG_DIM_ANY && a < pg__onnx_dims(x, from)->rank &&
                         pg__onnx_same_dim(x, from, a, like, a);
        shape[a] = kept ? 0 : d->d[a] == PG_DIM_ANY ? -1 : (int64_t)d->d[a];
        unknown += shape[a] < 0;
    }
    if (unknown <= 1)
        return pg__onnx_numbers(x, shape, d->rank);
    for (uint32_t a = 0; a < d->rank; a++)
        if (shape[a] < 0 && pg__onnx_is_own(x, like, a)) {
            pg__onnx_refuse_open(x, "its output has several sizes that the model leaves open (None "
                                    "in its input's shape)");
            return PG_ONNX_ABSENT;
        }
    for (uint32_t a = 0; a < d->rank; a++)
        parts[a] = shape[a] < 0 ? pg__onnx_size(x, like, a) : pg__onnx_numbers(x, &shape[a], 1);
    return pg__onnx_concat(x, parts, d->rank, 0);
}

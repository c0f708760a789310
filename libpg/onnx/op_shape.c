/* op_shape.c - operations that move elements: shapes, axes, cutting and joining. */
#include <string.h>

#include "base/mem.h"
#include "onnx/onnx.h"

/* Only nodes that ask for the result in another order make a Transpose. */
void pg__onnx_transpose_value(pg__onnx *x, const pg__inst *i)
{
    const pg__transpose_attrs *a = i->attrs;
    const pg__val in = pg__onnx_in(x, i, 0), out = pg__out(x->tape, i, 0);
    const uint32_t rank = pg__onnx_dims(x, in)->rank;
    const pg__onnx_perm p = pg__onnx_native(x, in);
    pg__onnx_perm q = pg__onnx_plain();
    for (uint32_t k = 0; k < rank; k++) /* axis p[k] of the operand is axis n of the result */
        for (uint32_t n = 0; n < rank; n++)
            if (a->perm[n] == p.p[k])
                q.p[k] = n;
    pg__onnx_set(x, out, &q, pg__onnx_as(x, in, &p));
}

void pg__onnx_reshape(pg__onnx *x, const pg__inst *i)
{
    const pg__val in = pg__onnx_in(x, i, 0), out = pg__out(x->tape, i, 0);
    const pg__dims *from = pg__onnx_dims(x, in), *to = pg__onnx_dims(x, out);
    int same = from->rank == to->rank;
    for (uint32_t k = 0; same && k < to->rank; k++)
        same = pg__onnx_same_dim(x, in, k, out, k);
    if (x->values[out].versions) /* a pooling has made it */
        return;
    if (same) {
        const pg__onnx_perm p = pg__onnx_native(x, in);
        pg__onnx_set(x, out, &p, pg__onnx_as(x, in, &p));
        return;
    }
    const pg__onnx_name shape = pg__onnx_shape(x, in, out);
    pg__onnx_set_plain(x, out, pg__onnx_op2(x, "Reshape", pg__onnx_get(x, in), shape));
}

void pg__onnx_concat_values(pg__onnx *x, const pg__inst *i)
{
    const pg__concat_attrs *a = i->attrs;
    const pg__val out = pg__out(x->tape, i, 0);
    const pg__onnx_perm p = pg__onnx_common(x, i, pg__onnx_dims(x, out)->rank);
    pg__str attrs = {0};
    pg__onnx_name y = 0;
    pg__onnx_name *in = pg__mem_array(i->n_in, sizeof *in);
    if (!in) {
        pg__onnx_check(x, pg__nomem(x->err));
        return;
    }
    for (uint32_t k = 0; k < i->n_in; k++)
        in[k] = pg__onnx_as(x, pg__onnx_in(x, i, k), &p);
    pg__onnx_int(x, &attrs, "axis", pg__onnx_axis(&p, a->axis));
    pg__onnx_ops(x, "Concat", &attrs, in, i->n_in, &y, 1);
    pg__onnx_set(x, out, &p, y);
    pg__mem_free(in);
}

/* Cuts cells off where numbers are negative. Slice ends with the axis. */
static pg__onnx_name cut(pg__onnx *x, pg__onnx_name v, const pg__pad_attrs *a, uint32_t rank,
                         const pg__onnx_perm *p)
{
    int64_t starts[PG_MAX_RANK], ends[PG_MAX_RANK], axes[PG_MAX_RANK];
    size_t n = 0;
    for (uint32_t k = 0; k < rank; k++) {
        const int64_t before = a->before[p->p[k]], after = a->after[p->p[k]];
        const int64_t most = a->most[p->p[k]];
        if (before >= 0 && after >= 0)
            continue;
        starts[n] = before == PG_PAD_REST ? after - most : before < 0 ? -before : 0;
        ends[n] = after == PG_PAD_REST ? most - before : after < 0 ? after : INT64_C(1) << 31;
        axes[n++] = k;
    }
    return n ? pg__onnx_slice(x, v, starts, ends, axes, NULL, n) : v;
}

static pg__onnx_name enlarge(pg__onnx *x, pg__onnx_name v, const pg__pad_attrs *a, uint32_t rank,
                             const pg__onnx_perm *p)
{
    int64_t pads[2 * PG_MAX_RANK] = {0}, any = 0;
    for (uint32_t k = 0; k < rank; k++) {
        pads[k] = a->before[p->p[k]] > 0 ? a->before[p->p[k]] : 0;
        pads[rank + k] = a->after[p->p[k]] > 0 ? a->after[p->p[k]] : 0;
        any |= pads[k] | pads[rank + k];
    }
    return any ? pg__onnx_op2(x, "Pad", v, pg__onnx_numbers(x, pads, 2 * (size_t)rank)) : v;
}

void pg__onnx_pad(pg__onnx *x, const pg__inst *i)
{
    const pg__val in = pg__onnx_in(x, i, 0);
    const uint32_t rank = pg__onnx_dims(x, in)->rank;
    const pg__onnx_perm p = pg__onnx_native(x, in);
    const pg__onnx_name v = cut(x, pg__onnx_as(x, in, &p), i->attrs, rank, &p);
    pg__onnx_set(x, pg__out(x->tape, i, 0), &p, enlarge(x, v, i->attrs, rank, &p));
}

/* Expand takes the larger of both sizes: 1 leaves an axis as it is. */
void pg__onnx_spread(pg__onnx *x, const pg__inst *i)
{
    const pg__val in = pg__onnx_in(x, i, 0), out = pg__out(x->tape, i, 0);
    const pg__dims *from = pg__onnx_dims(x, in), *to = pg__onnx_dims(x, out);
    pg__onnx_name parts[PG_MAX_RANK];
    int64_t shape[PG_MAX_RANK];
    int known = 1;
    for (uint32_t a = 0; a < to->rank; a++) {
        const uint32_t lead = to->rank - from->rank;
        const int kept = a >= lead && pg__onnx_same_dim(x, in, a - lead, out, a);
        shape[a] = kept ? 1 : to->d[a] == PG_DIM_ANY ? -1 : (int64_t)to->d[a];
        if (shape[a] < 0 && pg__onnx_is_own(x, out, a))
            pg__onnx_refuse_open(x, "repeats an axis as often as a size that the model leaves open "
                                    "(None in its input's shape)");
        known &= shape[a] >= 0;
    }
    for (uint32_t a = 0; !known && a < to->rank && x->st == PG_OK; a++)
        parts[a] = shape[a] < 0 ? pg__onnx_size(x, out, a) : pg__onnx_numbers(x, &shape[a], 1);
    const pg__onnx_name size =
        known ? pg__onnx_numbers(x, shape, to->rank) : pg__onnx_concat(x, parts, to->rank, 0);
    pg__onnx_set_plain(x, out, pg__onnx_op2(x, "Expand", pg__onnx_get(x, in), size));
}

/* Sums over what the result has once, and drops axes in front that it lacks. */
void pg__onnx_sum_to(pg__onnx *x, const pg__inst *i)
{
    const pg__val in = pg__onnx_in(x, i, 0), out = pg__out(x->tape, i, 0);
    const pg__dims *from = pg__onnx_dims(x, in), *to = pg__onnx_dims(x, out);
    const uint32_t lead = from->rank - to->rank;
    const pg__onnx_perm plain = pg__onnx_plain();
    const pg__onnx_perm p = lead ? plain : pg__onnx_native(x, in);
    int64_t axes[PG_MAX_RANK];
    size_t n = 0;
    for (uint32_t k = 0; k < from->rank; k++) {
        const uint32_t a = p.p[k];
        if (a < lead || (to->d[a - lead] == 1 && from->d[a] != 1))
            axes[n++] = k;
    }
    pg__onnx_name y = pg__onnx_as(x, in, &p);
    if (n > 0 && lead != n)
        y = pg__onnx_reduce(x, "ReduceSum", y, axes, n, 1);
    else if (n > 0) /* all of them are dropped */
        y = pg__onnx_reduce(x, "ReduceSum", y, axes, n, 0);
    if (lead > 0 && lead != n)
        y = pg__onnx_op2(x, "Squeeze", y, pg__onnx_numbers(x, axes, lead));
    pg__onnx_set(x, out, &p, y);
}

void pg__onnx_constant(pg__onnx *x, const pg__inst *i)
{
    (void)i;
    pg__onnx_refuse(x, "has a constant that depends on something"); /* it is static */
}

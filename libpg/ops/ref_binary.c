/* ref_binary.c - two operands, row by row of the result's last axis. */
#include "ops/binary_real.h"
#include "ops/strides.h"

/* One row; sa and sb are 1, or 0 if the operand is repeated. */
static inline void row_of(pg__binary_kind kind, const real *a, size_t sa, const real *b, size_t sb,
                          real *y, size_t n)
{
    if (sa == 1 && sb == 1)
        for (size_t i = 0; i < n; i++)
            y[i] = pg__combine(kind, a[i], b[i]);
    else
        for (size_t i = 0; i < n; i++)
            y[i] = pg__combine(kind, a[i * sa], b[i * sb]);
}

static void row(pg__binary_kind kind, const real *a, size_t sa, const real *b, size_t sb, real *y,
                size_t n)
{
    switch (kind) { /* constants, so that each operation has its own loop */
    case PG_ADD: row_of(PG_ADD, a, sa, b, sb, y, n); break;
    case PG_SUBTRACT: row_of(PG_SUBTRACT, a, sa, b, sb, y, n); break;
    case PG_MULTIPLY: row_of(PG_MULTIPLY, a, sa, b, sb, y, n); break;
    case PG_DIVIDE: row_of(PG_DIVIDE, a, sa, b, sb, y, n); break;
    case PG_MAXIMUM: row_of(PG_MAXIMUM, a, sa, b, sb, y, n); break;
    case PG_MINIMUM: row_of(PG_MINIMUM, a, sa, b, sb, y, n); break;
    }
}

static pg__rowwalk walk_of(const pg__dims *whole, const pg__dims *a, const pg__dims *b)
{
    pg__rowwalk w = {.off = {0, 0}};
    pg__strides(w.stride[0], whole, a);
    pg__strides(w.stride[1], whole, b);
    return w;
}

void PG_REF(binary)(PG_REF_ARGS)
{
    const pg__binary_kind kind = ((const pg__binary_attrs *)attrs_)->kind;
    const pg__dims *whole = out[0].shape;
    const real *a = pg__reals(&in[0]), *b = pg__reals(&in[1]);
    real *y = pg__reals_out(&out[0]);
    const size_t n = pg__last(whole), last = whole->rank ? whole->rank - 1 : 0;
    pg__rowwalk w = walk_of(whole, in[0].shape, in[1].shape);
    PG_UNUSED(n_in), PG_UNUSED(n_out);
    if (in[0].n == out[0].n && in[1].n == out[0].n) {
        row(kind, a, 1, b, 1, y, (size_t)out[0].n);
        return;
    }
    for (size_t r = pg__n_rows(whole); r-- > 0; y += n, pg__rowwalk_next(&w, whole))
        row(kind, a + w.off[0], w.stride[0][last], b + w.off[1], w.stride[1][last], y, n);
}

void PG_REF(binary_pick)(PG_REF_ARGS)
{
    const pg__binary_kind kind = ((const pg__binary_attrs *)attrs_)->kind;
    const pg__dims *whole = out[0].shape;
    const real *dy = pg__reals(&in[2]);
    real *da = pg__reals_out(&out[0]), *db = pg__reals_out(&out[1]);
    const size_t n = pg__last(whole), last = whole->rank ? whole->rank - 1 : 0;
    pg__rowwalk w = walk_of(whole, in[0].shape, in[1].shape);
    PG_UNUSED(n_in), PG_UNUSED(n_out);
    for (size_t r = 0; r < pg__n_rows(whole); r++, pg__rowwalk_next(&w, whole))
        for (size_t i = 0; i < n; i++) {
            const real a = pg__reals(&in[0])[w.off[0] + i * w.stride[0][last]];
            const real b = pg__reals(&in[1])[w.off[1] + i * w.stride[1][last]];
            const int first = pg__picks_first(kind, a, b);
            if (da)
                da[r * n + i] = first ? dy[r * n + i] : 0;
            if (db)
                db[r * n + i] = first ? 0 : dy[r * n + i];
        }
}

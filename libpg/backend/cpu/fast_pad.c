/* fast_pad.c - zeros around arrays, and parts cut out of them (such as a concatenation's gradient):
 * copies, which memory limits. Every number of the result is written once. Short rows are copied
 * inline, because a call for each would take longer than the copy. */
#include "backend/cpu/fast.h"
#include "backend/cpu/vec.h"

#define SHORT 256 /* numbers that are copied inline */

static void copy(float *to, const float *from, size_t n)
{
    size_t i = 0;
    if (n > SHORT) {
        memcpy(to, from, n * sizeof *to);
        return;
    }
    for (; i + 2 * PG_VEC <= n; i += 2 * PG_VEC) {
        const pg__vec a = pg__load(from + i), b = pg__load(from + i + PG_VEC);
        pg__store(to + i, a);
        pg__store(to + i + PG_VEC, b);
    }
    for (; i + PG_VEC <= n; i += PG_VEC)
        pg__store(to + i, pg__load(from + i));
    if (i < n)
        pg__store_some(to + i, pg__load_some(from + i, n - i), n - i);
}

/* An axis of the result, in numbers: zeros, the part of the operand that is kept (after the part
 * that is skipped), zeros; and the numbers per cell, in the operand and in the result. */
typedef struct axis {
    size_t skip, before, kept, after, x_step, y_step;
} axis;

static void zero(float *y, size_t n)
{
    if (n > 0)
        memset(y, 0, n * sizeof *y);
}

/* The last axis: its cells are single numbers. */
static inline void fill_row(const axis *a, const float *x, float *y)
{
    zero(y, a->before);
    copy(y + a->before, x + a->skip, a->kept);
    zero(y + a->before + a->kept, a->after);
}

static void fill(const axis *a, uint32_t n, const float *x, float *y)
{
    if (n == 1) {
        fill_row(a, x, y);
        return;
    }
    zero(y, a->before * a->y_step);
    x += a->skip * a->x_step;
    y += a->before * a->y_step;
    for (size_t i = 0; i < a->kept; i++, x += a->x_step, y += a->y_step)
        if (n == 2)
            fill_row(a + 1, x, y);
        else
            fill(a + 1, n - 1, x, y);
    zero(y, a->after * a->y_step);
}

static size_t positive(int64_t v)
{
    return v > 0 ? (size_t)v : 0;
}

/* Axes after the last one that changes become part of it. Returns how many remain; 0: nothing of
 * the operand is kept. */
static uint32_t axes_of(axis *a, const pg__pad_attrs *p, const pg__dims *x, const pg__dims *y)
{
    size_t x_step = 1, y_step = 1;
    uint32_t n = x->rank;
    for (uint32_t i = x->rank; i-- > 0;) {
        const size_t cut = positive(-p->before[i]) + positive(-p->after[i]);
        a[i] = (axis){positive(-p->before[i]),
                      positive(p->before[i]),
                      x->d[i] > cut ? (size_t)x->d[i] - cut : 0,
                      positive(p->after[i]),
                      x_step,
                      y_step};
        if (a[i].kept == 0)
            return 0;
        x_step *= (size_t)x->d[i];
        y_step *= (size_t)y->d[i];
    }
    while (n > 1 && p->before[n - 1] == 0 && p->after[n - 1] == 0)
        n--;
    const size_t each = a[n - 1].x_step;
    a[n - 1].skip *= each;
    a[n - 1].before *= each;
    a[n - 1].kept *= each;
    a[n - 1].after *= each;
    return n;
}

void PG_FAST_FN(pad)(PG_REF_ARGS)
{
    axis a[PG_MAX_RANK];
    if (in[0].shape->rank == 0) {
        PG_REF(pad)(attrs_, in, n_in, out, n_out);
        return;
    }
    const uint32_t n = axes_of(a, attrs_, in[0].shape, out[0].shape);
    if (n > 0)
        fill(a, n, in[0].p, out[0].p);
    else
        zero(out[0].p, (size_t)out[0].n);
}

/* walk.c - see walk.h. */
#include "backend/cuda/walk.h"

#include "ops/strides.h"

/* shift: the least with 2^shift >= by; mul = 2^32 (2^shift - by) / by + 1. Whatever is divided by
 * more than 2^31 is either smaller, or too large for the multiplication; of an empty axis there is
 * nothing to divide. */
pgk_div pg__div_of(uint64_t by)
{
    uint32_t shift = 0;
    if (by == 0 || by > (uint64_t)1 << 31)
        return (pgk_div){by, 0, 31};
    while ((uint64_t)1 << shift < by)
        shift++;
    return (pgk_div){by, (uint32_t)(((((uint64_t)1 << shift) - by) << 32) / by + 1), shift};
}

pg_status pg__image_of(pgk_image *out, const uint32_t cells[3], uint32_t channels, int wide,
                       pg_err *err)
{
    uint64_t n = channels;
    for (size_t k = 0; k < 3; k++)
        n = pg__dim_mul(n, cells[k]);
    if (n > INT32_MAX)
        return pg_fail(err, PG_E_UNSUPPORTED,
                       "images of %u x %u x %u cells and %llu channels are not supported on a GPU",
                       cells[0], cells[1], cells[2], (unsigned long long)channels * (wide ? 4 : 1));
    for (size_t k = 0; k < 3; k++)
        out->cells[k] = pg__div_of(cells[k]);
    out->channels = pg__div_of(channels);
    return PG_OK;
}

void pg__steps_of(uint64_t step[PG_MAX_RANK], const pg__dims *s)
{
    uint64_t all = 1;
    for (uint32_t k = s->rank; k-- > 0; all *= s->d[k])
        step[k] = all;
}

void pg__axes_add(pg__axes *a, uint64_t n, uint64_t step0, uint64_t step1)
{
    a->n[a->rank] = n;
    a->step[0][a->rank] = step0;
    a->step[1][a->rank] = step1;
    a->rank++;
}

pgk_walk pg__walk_of(const pg__axes *a)
{
    pgk_walk w = {.rank = 0};
    for (uint32_t k = a->rank; k-- > 0;) {
        pgk_axis *inner = w.rank > 0 ? &w.axis[w.rank - 1] : NULL;
        if (a->n[k] == 1)
            continue;
        if (inner && a->step[0][k] == inner->step[0] * inner->n.by &&
            a->step[1][k] == inner->step[1] * inner->n.by)
            inner->n.by *= a->n[k];
        else
            w.axis[w.rank++] = (pgk_axis){{.by = a->n[k]}, {a->step[0][k], a->step[1][k]}};
    }
    for (uint32_t k = 0; k < w.rank; k++)
        w.axis[k].n = pg__div_of(w.axis[k].n.by);
    return w;
}

pgk_walk pg__walk_along(const pg__dims *whole, const pg__dims *a, const pg__dims *b)
{
    size_t steps[2][PG_MAX_RANK] = {{0}};
    pg__axes axes = {.rank = 0};
    pg__strides(steps[0], whole, a);
    if (b)
        pg__strides(steps[1], whole, b);
    for (uint32_t k = 0; k < whole->rank; k++)
        pg__axes_add(&axes, whole->d[k], steps[0][k], steps[1][k]);
    return pg__walk_of(&axes);
}

int pg__walk_widen(pgk_walk *w)
{
    pgk_axis *last = &w->axis[0];
    int fours = w->rank > 0 && last->step[0] == 1 && last->n.by % 4 == 0;
    for (uint32_t k = 1; fours && k < w->rank; k++)
        fours = w->axis[k].step[0] % 4 == 0;
    if (!fours)
        return 0;
    last->n = pg__div_of(last->n.by / 4);
    for (uint32_t k = 1; k < w->rank; k++)
        w->axis[k].step[0] /= 4;
    return 1;
}

/* k_index.h - the place of an element: indices are decomposed by multiplications instead of
 * divisions, and several arrays of one shape are walked with separate steps. walk.c fills these
 * structs. */
#ifndef PG_BACKEND_K_INDEX_H
#define PG_BACKEND_K_INDEX_H

#include "backend/cuda/pgk.h"
#include "ops/op.h"

/* A divisor: i / by = (high half of i mul + i) >> shift for every i below 2^31. Granlund and
 * Montgomery, "Division by invariant integers using multiplication", 1994. */
typedef struct pgk_div {
    uint64_t by;
    uint32_t mul, shift;
} pgk_div;

PGK_FN uint64_t pgk_quotient(pgk_div d, uint64_t i)
{
    if (i < 0x80000000u)
        return ((uint32_t)((uint64_t)(uint32_t)i * d.mul >> 32) + (uint32_t)i) >> d.shift;
    return i / d.by;
}

/* Takes the remainder off the front of *i. */
PGK_FN uint64_t pgk_take(pgk_div d, uint64_t *i)
{
    const uint64_t q = pgk_quotient(d, *i);
    const uint64_t rest =
        *i < 0x80000000u ? (uint32_t)*i - (uint32_t)q * (uint32_t)d.by : *i - q * d.by;
    *i = q;
    return rest;
}

/* Of n in chunks of `each`: how many the one that begins there has. The last one may have less. */
PGK_FN uint64_t pgk_chunk(uint64_t begin, uint64_t each, uint64_t n)
{
    return begin >= n ? 0 : n - begin < each ? n - begin : each;
}

/* Element i of an array, in its order, lies at two other places: axis 0 is the last one. */
typedef struct pgk_axis {
    pgk_div n;
    uint64_t step[2];
} pgk_axis;

typedef struct pgk_walk {
    uint32_t rank;
    pgk_axis axis[PG_MAX_RANK];
} pgk_walk;

typedef struct pgk_places {
    uint64_t at[2];
} pgk_places;

PGK_FN pgk_places pgk_walk_to(const pgk_walk *w, uint64_t i)
{
    pgk_places p = {{0, 0}};
    if (w->rank == 0)
        return p;
    for (uint32_t k = 0; k + 1 < w->rank; k++) {
        const uint64_t at = pgk_take(w->axis[k].n, &i);
        p.at[0] += at * w->axis[k].step[0];
        p.at[1] += at * w->axis[k].step[1];
    }
    p.at[0] += i * w->axis[w->rank - 1].step[0];
    p.at[1] += i * w->axis[w->rank - 1].step[1];
    return p;
}

PGK_FN uint64_t pgk_walk_at(const pgk_walk *w, uint64_t i)
{
    return pgk_walk_to(w, i).at[0];
}

/* Images: (rows, three spatial dimensions, channels), of less than 2^31 units each (pgk_read()). */
typedef struct pgk_image {
    pgk_div cells[3], channels;
} pgk_image;

typedef struct pgk_pixel {
    uint64_t row;
    uint32_t at[3], channel;
} pgk_pixel;

PGK_FN pgk_pixel pgk_pixel_of(const pgk_image *g, uint64_t i)
{
    pgk_pixel p;
    p.channel = (uint32_t)pgk_take(g->channels, &i);
    p.at[2] = (uint32_t)pgk_take(g->cells[2], &i);
    p.at[1] = (uint32_t)pgk_take(g->cells[1], &i);
    p.at[0] = (uint32_t)pgk_take(g->cells[0], &i);
    p.row = i;
    return p;
}

/* Where the numbers of a cell begin in its image. */
PGK_FN uint32_t pgk_cell_at(const uint32_t cells[3], uint32_t channels, uint32_t a, uint32_t b,
                            uint32_t c)
{
    return ((a * cells[1] + b) * cells[2] + c) * channels;
}

#define PGK_EACH_CELL(from, to)                    \
    for (uint32_t a = from[0]; a < to[0]; a++)     \
        for (uint32_t b = from[1]; b < to[1]; b++) \
            for (uint32_t c = from[2]; c < to[2]; c++)

#endif

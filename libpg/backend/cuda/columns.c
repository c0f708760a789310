/* columns.c - sums over the rows of a matrix, in two steps: many threads each sum a part of a
 * column, then the parts are added in their order. */
#include "backend/cuda/columns.h"

#define THREADS   (1u << 17) /* more than a GPU holds at once */
#define MAX_PARTS 1024u
#define MIN_ROWS  8u /* of a part */

uint64_t pg__columns_parts(uint64_t rows, uint64_t n)
{
    uint64_t parts = n > 0 ? THREADS / n : 1;
    if (parts > rows / MIN_ROWS)
        parts = rows / MIN_ROWS;
    return parts < 1 ? 1 : parts > MAX_PARTS ? MAX_PARTS : parts;
}

pg__columns pg__columns_new(uint64_t rows, uint64_t n, pg__needs *needs)
{
    pg__columns c = {.rows = rows, .n = n, .parts = pg__columns_parts(rows, n)};
    c.at = pg__cuda_reserve(needs, (size_t)(c.parts * n) * sizeof(float));
    return c;
}

pg_status pg__columns_join(pg__dev *d, const pg__columns *c, void *sums, void *scratch)
{
    const pgk_columns_join a = {.part = {(char *)scratch + c->at, PGK_F32},
                                .y = {sums, PGK_F32},
                                .rows = c->parts,
                                .n = c->n};
    return PG_LAUNCH(d, columns_join, &a, c->n);
}

pg_status pg__columns_run(pg__dev *d, const pg__columns *c, pgk_real x, void *sums, void *scratch)
{
    const pgk_columns_part a = {.x = x,
                                .part = {(char *)scratch + c->at, PGK_F32},
                                .n = c->rows * c->n,
                                .stride = c->parts * c->n};
    const pg_status st = PG_LAUNCH(d, columns_part, &a, c->parts * c->n);
    return st == PG_OK ? pg__columns_join(d, c, sums, scratch) : st;
}

/* int8_panels.h - how packed parameters lie: panels of up to 32 columns, in each of them groups of
 * four rows, of a group four bytes for each column; then what belongs to the columns. */
#ifndef PG_BACKEND_CPU_INT8_PANELS_H
#define PG_BACKEND_CPU_INT8_PANELS_H

#include <stddef.h>
#include <stdint.h>

#define PG_INT8_GROUP 4
#define PG_INT8_UNIT  16 /* columns: a panel has one unit or two */
#define PG_INT8_PANEL 32

/* Of the columns. */
typedef struct pg__int8_columns {
    float *steps;
    int32_t *sums; /* of their bytes */
} pg__int8_columns;

#define PG_INT8_COLUMN_BYTES (sizeof(float) + sizeof(int32_t))

static inline size_t pg__int8_padded(size_t n)
{
    return (n + PG_INT8_UNIT - 1) / PG_INT8_UNIT * PG_INT8_UNIT;
}

/* k: bytes of a row. */
static inline pg__int8_columns pg__int8_columns_of(void *packed, size_t n, size_t k)
{
    const size_t padded = pg__int8_padded(n);
    float *steps = (float *)(void *)((char *)packed + padded * k);
    return (pg__int8_columns){steps, (int32_t *)(void *)(steps + padded)};
}

/* Columns of the panel that begins with column j, including those that do not count. */
static inline size_t pg__int8_width(size_t j, size_t n)
{
    const size_t left = pg__int8_padded(n - j);
    return left < PG_INT8_PANEL ? left : PG_INT8_PANEL;
}

#endif

/* int8.h - products in 8 bits: one operand arrives as floats and becomes uint8 by a scale of its
 * own for each row of the batch, the other one, a parameter, becomes int8 by a scale for each
 * column; sums are exact, in int32.
 *
 * A float x is q = round(x / step) + zero, limited to 0 .. 255, as ONNX' DynamicQuantizeLinear
 * defines it: (largest - least) / 255 is the step, and 0 is exact. A row that has a number that is
 * not finite gives NaN. A parameter w is round(w / step), where 127 steps are the largest
 * magnitude. */
#ifndef PG_BACKEND_CPU_INT8_H
#define PG_BACKEND_CPU_INT8_H

#include "backend/cpu/isa.h"
#include "backend/cpu/range.h"

typedef struct pg__int8_scale {
    float step;
    int32_t zero; /* the byte that is 0 */
} pg__int8_scale;

/* A row of c[m x n] takes runs of bytes, each a multiple of 4. */
typedef struct pg__int8_product {
    size_t n;
    size_t n_runs, run_bytes;
    const size_t *run_at; /* of each: from the first byte of the row */
} pg__int8_product;

/* w[n_runs x cells x channels x n]: a cell's channels are followed by bytes that do not count. */
typedef struct pg__int8_w {
    size_t cells, channels;
    const float *w;
} pg__int8_w;

typedef struct pg__int8_rows {
    const uint8_t *a;
    size_t n_lines, line_bytes; /* lines of rows, from one to the next */
    size_t m, row_bytes;        /* rows of a line, from one to the next */
    const pg__int8_scale *scales;
    size_t scale_step;        /* 1: one for each row of the only line; 0: one for all */
    const float *bias, *plus; /* added; plus: laid out as c, but not c. Or NULL */
    float *c;                 /* its rows follow each other */
    pg__range range;
} pg__int8_rows;

typedef struct pg__int8_kernels {
    pg__int8_scale (*scale)(const float *x, size_t n);
    void (*quantise)(const float *x, size_t n, pg__int8_scale by, uint8_t *to);
    void (*pack)(const pg__int8_product *p, const pg__int8_w *w, void *packed);
    void (*multiply)(const pg__int8_product *p, const void *packed, const pg__int8_rows *r);
} pg__int8_kernels;

const pg__int8_kernels *pg__int8_kernels_of(pg__isa isa);

/* Bytes made by pack(). */
size_t pg__int8_packed_bytes(const pg__int8_product *p);

/* What a product in 8 bits of a row of the batch costs. */
typedef struct pg__int8_size {
    size_t rows, n, k; /* c[rows x n], of k numbers each; */
    size_t k_bytes;    /* ... and of as many bytes */
    size_t operand;    /* numbers that become bytes */
    size_t expanded;   /* cells of these that get other places */
} pg__int8_size;

/* Can no sum overflow? */
int pg__int8_fits(size_t k);
/* ... and is it worth while, with VNNI? Other processors do the same, so that predictions do not
 * depend on them. */
int pg__int8_pays(const pg__int8_size *s);

#endif

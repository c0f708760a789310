/* conv_matmul.c - convolutions that are one matrix product: kernels of one cell, and kernels that
 * do not overlap (the stride is as large), whose cells are first put next to each other. */
#include "backend/cpu/conv.h"

#include <string.h>

#include "backend/cpu/gemm.h"
#include "base/mem.h"

typedef struct state {
    pg__conv c;
    int copies; /* x is put in another order */
    int gaps;   /* cells of x that no kernel meets */
} state;

static int side_by_side(const pg__conv *c)
{
    for (int i = 0; i < 3; i++)
        if (c->stride[i] < c->k[i] || (c->dilation[i] != 1 && c->k[i] > 1) || c->before[i] > 0 ||
            (c->y[i] - 1) * c->stride[i] + c->k[i] > c->x[i])
            return 0;
    return 1;
}

static size_t floats(const state *s)
{
    return s->c.rows * pg__conv_cells(s->c.y) * pg__conv_cells(s->c.k) * s->c.in;
}

static pg_status prepare(void **out, const pg__conv *c, pg__needs *needs, pg_err *err)
{
    if (c->groups > 1 || !side_by_side(c))
        return PG_OK;
    state *s = pg__mem_array(1, sizeof *s);
    if (!s)
        return pg__nomem(err);
    s->c = *c;
    s->copies = !pg__conv_all(c->stride, 1) || memcmp(c->x, c->y, sizeof c->x) != 0;
    for (int i = 0; i < 3; i++)
        s->gaps |= c->y[i] * c->k[i] != c->x[i];
    needs->scratch_bytes = s->copies ? floats(s) * sizeof(float) : 0;
    *out = s;
    return PG_OK;
}

static void release(void *p)
{
    pg__mem_free(p);
}

/* Between x and rows of (kernel cells, channels), one for each cell of y. Cells of one line of a
 * kernel stand next to each other already. */
static void copy_cells(const state *s, float *x, float *lines, int back)
{
    const pg__conv *c = &s->c;
    const size_t line = c->k[2] * c->in, n = line * sizeof *x;
    for (size_t r = 0; r < c->rows; r++)
        for (size_t y0 = 0; y0 < c->y[0]; y0++)
            for (size_t y1 = 0; y1 < c->y[1]; y1++)
                for (size_t y2 = 0; y2 < c->y[2]; y2++)
                    for (size_t k0 = 0; k0 < c->k[0]; k0++)
                        for (size_t k1 = 0; k1 < c->k[1]; k1++, lines += line) {
                            const size_t at = ((r * c->x[0] + y0 * c->stride[0] + k0) * c->x[1] +
                                               y1 * c->stride[1] + k1) *
                                                  c->x[2] +
                                              y2 * c->stride[2];
                            if (back)
                                memcpy(x + at * c->in, lines, n);
                            else
                                memcpy(lines, x + at * c->in, n);
                        }
}

static void run(const void *p, const pg__conv_mem *m)
{
    const state *s = p;
    const size_t rows = s->c.rows * pg__conv_cells(s->c.y), n = s->c.out;
    const size_t k = pg__conv_cells(s->c.k) * s->c.in;
    float *lines = s->copies ? m->scratch : m->x;
    if (s->copies && s->c.pass != PG__CONV_X)
        copy_cells(s, m->x, lines, 0);
    switch (s->c.pass) {
    case PG__CONV_Y:
        for (size_t r = 0; m->b && r < rows; r++)
            memcpy(m->y + r * n, m->b, n * sizeof *m->y);
        pg__gemm(rows, n, k, 1, (pg__mat){lines, k, 0}, (pg__mat){m->w, n, 0}, m->b != NULL, m->y,
                 n);
        break;
    case PG__CONV_X:
        pg__gemm(rows, k, n, 1, (pg__mat){m->y, n, 0}, (pg__mat){m->w, n, 1}, 0, lines, k);
        if (!s->copies)
            break;
        if (s->gaps)
            memset(m->x, 0, s->c.rows * pg__conv_cells(s->c.x) * s->c.in * sizeof *m->x);
        copy_cells(s, m->x, lines, 1);
        break;
    case PG__CONV_W:
        if (m->w)
            pg__gemm(k, n, rows, 1, (pg__mat){lines, k, 1}, (pg__mat){m->y, n, 0}, 0, m->w, n);
        if (m->b)
            s->c.kernels->column_sums(m->y, rows, n, m->b);
        break;
    }
}

const pg__conv_way pg__conv_matmul = {"matrix product", prepare, release, NULL, run};

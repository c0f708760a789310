/* conv_matmul.c - convolutions that are one matrix product: kernels of one cell, and kernels that
 * do not overlap (the stride is as large), whose cells are first copied next to each other. */
#include "backend/cpu/conv.h"

#include <string.h>

#include "backend/cpu/product.h"
#include "base/mem.h"

typedef struct state {
    pg__conv c;
    pg__product product;
    int copies;         /* x is reordered */
    int gaps;           /* cells of x that no kernel meets */
    size_t lines_bytes; /* of that order */
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

static pg__product product_of(const pg__conv *c)
{
    static const pg__product_kind kinds[] = {
        [PG_CONV_Y] = PG_ROWS, [PG_CONV_X] = PG_ROWS_TURNED, [PG_CONV_W] = PG_COLUMNS};
    const size_t k = pg__conv_cells(c->k) * c->in;
    const int back = c->pass == PG_CONV_X;
    const size_t cells = pg__conv_cells(c->y);
    pg__product p = pg__product_of(kinds[c->pass], c->rows * cells, cells, back ? k : c->out,
                                   back ? c->out : k, c->isa, c->is_constant, c->numbers);
    p.range = c->range;
    return p;
}

static size_t round_up(size_t n_bytes)
{
    return (n_bytes + 63) / 64 * 64;
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
    s->product = product_of(c);
    s->lines_bytes = s->copies ? round_up(floats(s) * sizeof(float)) : 0;
    needs->scratch_bytes = s->lines_bytes + pg__product_scratch_bytes(&s->product);
    needs->shared_bytes = pg__product_packed_bytes(&s->product);
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

static void pack(const void *p, const float *w, float *packed)
{
    const state *s = p;
    pg__product_pack(&s->product, w, packed);
}

static void run(const void *p, const pg__conv_mem *m)
{
    const state *s = p;
    const size_t rows = s->c.rows * pg__conv_cells(s->c.y);
    float *lines = s->copies ? m->scratch : m->x;
    float *scratch = (float *)(void *)((char *)m->scratch + s->lines_bytes);
    if (s->copies && s->c.pass != PG_CONV_X)
        copy_cells(s, m->x, lines, 0);
    switch (s->c.pass) {
    case PG_CONV_Y:
        pg__product_run(&s->product, lines, m->w, m->packed, m->b, m->plus, m->y, NULL);
        break;
    case PG_CONV_X:
        pg__product_run(&s->product, m->y, m->w, m->packed, NULL, NULL, lines, scratch);
        if (!s->copies)
            break;
        if (s->gaps)
            memset(m->x, 0, s->c.rows * pg__conv_cells(s->c.x) * s->c.in * sizeof *m->x);
        copy_cells(s, m->x, lines, 1);
        break;
    case PG_CONV_W:
        if (m->w)
            pg__product_run(&s->product, lines, m->y, NULL, NULL, NULL, m->w, scratch);
        if (m->b)
            s->c.kernels->column_sums(m->y, rows, s->c.out, m->b);
        break;
    }
}

const pg__conv_way pg__conv_matmul = {"matrix product", prepare, release, pack, run, 1, 1, NULL};

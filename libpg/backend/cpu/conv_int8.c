/* conv_int8.c - convolutions in 8 bits (int8.h). Each row's image becomes bytes, with what is 0
 * around it, in which the cells of a kernel's line follow each other: so a number of the result
 * takes one run of bytes for each of those lines. */
#include "backend/cpu/conv.h"

#include <string.h>

#include "backend/cpu/int8.h"
#include "base/mem.h"

typedef struct state {
    pg__conv c;
    pg__int8_product product;
    const pg__int8_kernels *k;
    size_t *run_at;    /* owned */
    size_t cells;      /* of the kernel, in a run */
    size_t cell_bytes; /* of the image: a multiple of 4 */
    size_t extent[3];  /* of the image, with what is around it */
    size_t image_bytes, expand_bytes;
} state;

static size_t whole(size_t n_bytes)
{
    return (n_bytes + 63) / 64 * 64;
}

static void release(void *p)
{
    state *s = p;
    pg__mem_free(s->run_at);
    pg__mem_free(s);
}

static void plan(state *s)
{
    const pg__conv *c = &s->c;
    const int apart = c->dilation[2] > 1;
    size_t at = 0;
    s->cell_bytes = (c->in + 3) / 4 * 4;
    s->expand_bytes = s->cell_bytes == c->in ? 0 : whole(c->x[2] * c->in + s->cell_bytes);
    for (int d = 0; d < 3; d++)
        s->extent[d] = (c->y[d] - 1) * c->stride[d] + (c->k[d] - 1) * c->dilation[d] + 1;
    s->image_bytes = whole(pg__conv_cells(s->extent) * s->cell_bytes);
    s->cells = apart ? 1 : c->k[2];
    s->product = (pg__int8_product){.n = c->out,
                                    .n_runs = pg__conv_cells(c->k) / s->cells,
                                    .run_bytes = s->cells * s->cell_bytes,
                                    .run_at = s->run_at};
    for (size_t i = 0; i < c->k[0]; i++)
        for (size_t j = 0; j < c->k[1]; j++)
            for (size_t k = 0; k < c->k[2]; k += s->cells)
                s->run_at[at++] =
                    ((i * c->dilation[0] * s->extent[1] + j * c->dilation[1]) * s->extent[2] +
                     k * c->dilation[2]) *
                    s->cell_bytes;
}

static int pays(const pg__conv *c)
{
    const size_t taps = pg__conv_cells(c->k), cell_bytes = (c->in + 3) / 4 * 4;
    const size_t cells = pg__conv_cells(c->x);
    return pg__int8_pays(&(pg__int8_size){.rows = pg__conv_cells(c->y),
                                          .n = c->out,
                                          .k = taps * c->in,
                                          .k_bytes = taps * cell_bytes,
                                          .operand = cells * c->in,
                                          .expanded = cell_bytes == c->in ? 0 : cells});
}

static pg_status prepare(void **out, const pg__conv *c, pg__needs *needs, pg_err *err)
{
    if (c->numbers != PG_NUMBERS_INT8 || c->pass != PG_CONV_Y || c->groups > 1 || !pays(c))
        return PG_OK;
    state *s = pg__mem_array(1, sizeof *s);
    size_t *run_at = pg__mem_array(pg__conv_cells(c->k), sizeof *run_at);
    if (!s || !run_at) {
        pg__mem_free(s);
        pg__mem_free(run_at);
        return pg__nomem(err);
    }
    *s = (state){.c = *c, .k = pg__int8_kernels_of(c->isa), .run_at = run_at};
    plan(s);
    needs->shared_bytes = pg__int8_packed_bytes(&s->product);
    needs->scratch_bytes = s->image_bytes + s->expand_bytes;
    needs->in_int8 = 1;
    *out = s;
    return PG_OK;
}

static void pack(const void *p, const float *w, float *packed)
{
    const state *s = p;
    const pg__int8_w of = {.cells = s->cells, .channels = s->c.in, .w = w};
    s->k->pack(&s->product, &of, packed);
}

/* ---- the image ---- */

/* Does the kernel meet cell i of dimension d? */
static int is_met(const pg__conv *c, int d, size_t i)
{
    for (size_t k = 0; k < c->k[d]; k++) {
        const size_t at = k * c->dilation[d];
        if (at <= i && (i - at) % c->stride[d] == 0)
            return 1;
    }
    return 0;
}

/* n cells, whose channels do not fill their bytes: what follows fills them, times 0. */
static void expand(const state *s, const uint8_t *from, size_t n, uint8_t *to)
{
    const size_t in = s->c.in, each = s->cell_bytes;
    for (size_t i = 0; each == 4 && i < n; i++)
        memcpy(to + 4 * i, from + i * in, 4);
    for (size_t i = 0; each != 4 && i < n; i++)
        memcpy(to + i * each, from + i * in, each);
}

/* x: a line of cells of the image. */
static void put_line(const state *s, const float *x, pg__int8_scale by, uint8_t *to,
                     uint8_t *unexpanded)
{
    const size_t before = s->c.before[2], room = s->extent[2] > before ? s->extent[2] - before : 0;
    const size_t n = room < s->c.x[2] ? room : s->c.x[2], each = s->cell_bytes;
    uint8_t *const at = to + before * each;
    if (n == 0) {
        memset(to, by.zero, s->extent[2] * each);
        return;
    }
    memset(to, by.zero, before * each);
    s->k->quantise(x, n * s->c.in, by, s->expand_bytes ? unexpanded : at);
    if (s->expand_bytes) {
        memset(unexpanded + n * s->c.in, 0, each);
        expand(s, unexpanded, n, at);
    }
    memset(at + n * each, by.zero, (room - n) * each);
}

static void put_image(const state *s, const float *x, pg__int8_scale by, uint8_t *image)
{
    const pg__conv *c = &s->c;
    const size_t line = s->extent[2] * s->cell_bytes;
    for (size_t i = 0; i < s->extent[0]; i++)
        for (size_t j = 0; j < s->extent[1]; j++) {
            uint8_t *const to = image + (i * s->extent[1] + j) * line;
            const size_t at0 = i - c->before[0], at1 = j - c->before[1]; /* wraps around: large */
            if (!is_met(c, 0, i) || !is_met(c, 1, j))
                continue;
            if (at0 >= c->x[0] || at1 >= c->x[1])
                memset(to, by.zero, line);
            else
                put_line(s, x + (at0 * c->x[1] + at1) * c->x[2] * c->in, by, to,
                         image + s->image_bytes);
        }
}

/* ---- a run ---- */

/* The lines of one plane of y. */
static pg__int8_rows rows_of(const state *s, const uint8_t *plane)
{
    const pg__conv *c = &s->c;
    const size_t line = s->extent[2] * s->cell_bytes;
    pg__int8_rows r = {.a = plane,
                       .n_lines = c->y[1],
                       .line_bytes = c->stride[1] * line,
                       .m = c->y[2],
                       .row_bytes = c->stride[2] * s->cell_bytes,
                       .range = c->range};
    if (r.line_bytes == r.m * r.row_bytes) { /* one line */
        r.m *= r.n_lines;
        r.n_lines = 1;
    }
    return r;
}

static void run(const void *p, const pg__conv_mem *m)
{
    const state *s = p;
    const pg__conv *c = &s->c;
    const size_t n_x = pg__conv_cells(c->x) * c->in, n_plane = c->y[1] * c->y[2] * c->out;
    const size_t step = c->stride[0] * s->extent[1] * s->extent[2] * s->cell_bytes;
    uint8_t *image = m->scratch;
    for (size_t row = 0; row < c->rows; row++) {
        const pg__int8_scale by = s->k->scale(m->x + row * n_x, n_x);
        put_image(s, m->x + row * n_x, by, image);
        for (size_t i = 0; i < c->y[0]; i++) {
            const size_t at = (row * c->y[0] + i) * n_plane;
            pg__int8_rows r = rows_of(s, image + i * step);
            r.scales = &by;
            r.bias = m->b;
            r.plus = m->plus ? m->plus + at : NULL;
            r.c = m->y + at;
            s->k->multiply(&s->product, m->packed, &r);
        }
    }
}

const pg__conv_way pg__conv_int8 = {"int8", prepare, release, pack, run, 1, 1, NULL};

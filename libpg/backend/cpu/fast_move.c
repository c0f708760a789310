/* fast_move.c - enlarging images by repeating cells, and reordering axes: copies, which memory
 * limits. The plain C reference handles bilinear images. */
#include "backend/cpu/fast.h"
#include "ops/resize_geo.h"
#include "ops/strides.h"

/* ---- nearest cells ---- */

/* Lines of the smaller images, by number; each stands for `lines` ones of the larger. */
static size_t n_lines(const pg__resize_geo *g)
{
    return g->rows * g->small[0] * g->small[1];
}

/* Where copy k of line i begins in the larger images. */
static size_t line_at(const pg__resize_geo *g, size_t i, size_t k)
{
    const size_t b = i % g->small[1], a = i / g->small[1]; /* a: through rows and planes */
    const size_t plane = a * g->factor[0] + k / g->factor[1];
    const size_t line = (plane * g->small[1] + b) * g->factor[1] + k % g->factor[1];
    return line * g->small[2] * g->factor[2] * g->channels;
}

void PG_FAST_FN(resize)(PG_REF_ARGS)
{
    const pg__resize_attrs *a = attrs_;
    const pg__resize_geo g = pg__resize_geo_of(a, in[0].shape);
    const size_t n = g.channels, times = g.factor[2], width = g.small[2] * times * n;
    const float *x = in[0].p;
    float *y = out[0].p;
    if (a->bilinear) {
        PG_REF(resize)(attrs_, in, n_in, out, n_out);
        return;
    }
    for (size_t i = 0; i < n_lines(&g); i++) {
        float *first = y + line_at(&g, i, 0), *to = first;
        for (size_t c = 0; c < g.small[2]; c++, x += n)
            for (size_t k = 0; k < times; k++, to += n)
                memcpy(to, x, n * sizeof *to);
        for (size_t k = 1; k < g.factor[0] * g.factor[1]; k++)
            memcpy(y + line_at(&g, i, k), first, width * sizeof *y);
    }
}

/* The sum of a cell's copies: line by line, from left to right. */
void PG_FAST_FN(resize_grad)(PG_REF_ARGS)
{
    const pg__resize_attrs *a = attrs_;
    const pg__resize_geo g = pg__resize_geo_of(a, out[0].shape);
    const size_t n = g.channels, times = g.factor[2];
    const float *dy = in[0].p;
    float *dx = out[0].p;
    if (a->bilinear) {
        PG_REF(resize_grad)(attrs_, in, n_in, out, n_out);
        return;
    }
    for (size_t i = 0; i < n_lines(&g); i++, dx += g.small[2] * n)
        for (size_t k = 0; k < g.factor[0] * g.factor[1]; k++) {
            const float *from = dy + line_at(&g, i, k);
            for (size_t c = 0; c < g.small[2]; c++)
                for (size_t t = 0; t < times; t++, from += n) {
                    float *to = dx + c * n;
                    const int is_first = k == 0 && t == 0;
                    PG_EACH
                    for (size_t m = 0; m < n; m++)
                        to[m] = (is_first ? 0 : to[m]) + from[m];
                }
        }
}

/* ---- reordering axes ---- */

#define TILE 16

/* to[j * to_step + i] = from[i * from_step + j] for i < m and j < n. */
static void turn(const float *from, size_t from_step, float *to, size_t to_step, size_t m, size_t n)
{
    for (size_t i = 0; i < m; i += TILE)
        for (size_t j = 0; j < n; j += TILE) {
            const size_t rows = m - i < TILE ? m - i : TILE, columns = n - j < TILE ? n - j : TILE;
            for (size_t c = 0; c < columns; c++)
                for (size_t r = 0; r < rows; r++)
                    to[(j + c) * to_step + i + r] = from[(i + r) * from_step + j + c];
        }
}

/* If the operand's last axis stays the last, rows are copied. Else it is another axis of the
 * result, `across`; the plane of that one and the result's last is transposed, for every index of
 * the others. */
void PG_FAST_FN(transpose)(PG_REF_ARGS)
{
    const pg__transpose_attrs *a = attrs_;
    const pg__dims *x = in[0].shape, *s = out[0].shape;
    size_t from[PG_MAX_RANK], own[PG_MAX_RANK], step = 1;
    PG_UNUSED(n_in), PG_UNUSED(n_out);
    for (uint32_t i = x->rank; i-- > 0; step *= (size_t)x->d[i])
        own[i] = step;
    pg__dims others = *s; /* with 1 where a plane is taken whole */
    pg__rowwalk w = {.off = {0, 0}};
    uint32_t across = s->rank > 0 ? s->rank - 1 : 0;
    step = 1;
    for (uint32_t i = s->rank; i-- > 0; step *= (size_t)s->d[i]) {
        from[i] = own[a->perm[i]];
        w.stride[0][i] = from[i];
        w.stride[1][i] = step;
        across = a->perm[i] == x->rank - 1 ? i : across;
    }
    const size_t last = s->rank > 0 ? s->rank - 1 : 0, n = pg__last(s);
    const int turned = s->rank > 0 && across != last;
    if (turned)
        others.d[across] = 1;
    for (size_t r = pg__n_rows(&others); r-- > 0; pg__rowwalk_next(&w, &others)) {
        const float *source = (const float *)in[0].p + w.off[0];
        float *to = (float *)out[0].p + w.off[1];
        if (turned)
            turn(source, from[last], to, w.stride[1][across], n, (size_t)s->d[across]);
        else
            memcpy(to, source, n * sizeof *to);
    }
}

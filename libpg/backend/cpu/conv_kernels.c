/* conv_kernels.c - compiled once for each instruction set: depthwise convolutions, a vector of
 * channels at a time, and sums over rows. */
#include "backend/cpu/conv_kernels.h"
#include "backend/cpu/vec.h"

typedef pg__vec vec;

/* Places of an operand's cell and of the kernel cell that meets it. */
typedef struct meeting {
    size_t from, w;
} meeting;

/* All pairs that meet in cell `at`. */
static size_t find_meetings(const pg__depthwise *d, const size_t at[3], meeting *to)
{
    const pg__tap *begin[3], *end[3];
    size_t n = 0;
    for (int i = 0; i < 3; i++) {
        begin[i] = d->axis[i].taps + d->axis[i].first[at[i]];
        end[i] = d->axis[i].taps + d->axis[i].first[at[i] + 1];
    }
    for (const pg__tap *t0 = begin[0]; t0 < end[0]; t0++)
        for (const pg__tap *t1 = begin[1]; t1 < end[1]; t1++)
            for (const pg__tap *t2 = begin[2]; t2 < end[2]; t2++)
                to[n++] = (meeting){((t0->cell * d->from[1] + t1->cell) * d->from[2] + t2->cell) *
                                        d->channels,
                                    ((t0->k * d->k[1] + t1->k) * d->k[2] + t2->k) * d->channels};
    return n;
}

PG_INLINE vec load_n(const float *p, size_t n)
{
    return n == PG_VEC ? pg__load(p) : pg__load_some(p, n);
}

PG_INLINE void store_n(float *p, vec v, size_t n)
{
    if (n == PG_VEC)
        pg__store(p, v);
    else
        pg__store_some(p, v, n);
}

/* `vecs` vectors of channels, of which the last has n. */
PG_INLINE void gather(const meeting *m, size_t n_meetings, const float *from, const float *w,
                      const float *bias, float *to, size_t vecs, size_t n)
{
    vec sum[4];
    PG_UNROLL for (size_t v = 0; v < vecs; v++) sum[v] =
        bias ? load_n(bias + v * PG_VEC, n) : pg__splat(0);
    for (const meeting *end = m + n_meetings; m < end; m++) {
        PG_UNROLL for (size_t v = 0; v < vecs; v++) sum[v] +=
            load_n(from + m->from + v * PG_VEC, n) * load_n(w + m->w + v * PG_VEC, n);
    }
    PG_UNROLL for (size_t v = 0; v < vecs; v++) store_n(to + v * PG_VEC, sum[v], n);
}

static void depthwise(const pg__depthwise *d, const float *from, const float *w, const float *bias,
                      float *to, void *scratch)
{
    const size_t image = d->from[0] * d->from[1] * d->from[2] * d->channels, all = d->channels;
    meeting *m = scratch;
    size_t at[3];
    for (size_t r = 0; r < d->rows; r++, from += image)
        for (at[0] = 0; at[0] < d->of[0]; at[0]++)
            for (at[1] = 0; at[1] < d->of[1]; at[1]++)
                for (at[2] = 0; at[2] < d->of[2]; at[2]++, to += all) {
                    const size_t n = find_meetings(d, at, m);
                    const float *b = bias;
                    size_t c = 0;
                    for (; c + 4 * PG_VEC <= all; c += 4 * PG_VEC, b += b ? 4 * PG_VEC : 0)
                        gather(m, n, from + c, w + c, b, to + c, 4, PG_VEC);
                    for (; c + PG_VEC <= all; c += PG_VEC, b += b ? PG_VEC : 0)
                        gather(m, n, from + c, w + c, b, to + c, 1, PG_VEC);
                    if (c < all)
                        gather(m, n, from + c, w + c, b, to + c, 1, all - c);
                }
}

PG_INLINE void scatter(const meeting *m, size_t n_meetings, const float *from, const float *dy,
                       float *dw, size_t vecs, size_t n)
{
    vec g[4];
    PG_UNROLL for (size_t v = 0; v < vecs; v++) g[v] = load_n(dy + v * PG_VEC, n);
    for (const meeting *end = m + n_meetings; m < end; m++) {
        PG_UNROLL for (size_t v = 0; v < vecs; v++)
        {
            float *to = dw + m->w + v * PG_VEC;
            store_n(to, load_n(to, n) + load_n(from + m->from + v * PG_VEC, n) * g[v], n);
        }
    }
}

/* One row of the batch. */
static void scatter_row(const pg__depthwise *d, const float *from, const float *dy, float *dw,
                        meeting *m)
{
    const size_t all = d->channels;
    size_t at[3];
    for (at[0] = 0; at[0] < d->of[0]; at[0]++)
        for (at[1] = 0; at[1] < d->of[1]; at[1]++)
            for (at[2] = 0; at[2] < d->of[2]; at[2]++, dy += all) {
                const size_t n = find_meetings(d, at, m);
                size_t c = 0;
                for (; c + 4 * PG_VEC <= all; c += 4 * PG_VEC)
                    scatter(m, n, from + c, dy + c, dw + c, 4, PG_VEC);
                for (; c + PG_VEC <= all; c += PG_VEC)
                    scatter(m, n, from + c, dy + c, dw + c, 1, PG_VEC);
                if (c < all)
                    scatter(m, n, from + c, dy + c, dw + c, 1, all - c);
            }
}

/* Row by row, so that errors grow with the number of rows or of cells, not with their product. */
static void depthwise_dw(const pg__depthwise *d, const float *from, const float *dy, float *dw,
                         void *scratch)
{
    const size_t cells = d->k[0] * d->k[1] * d->k[2], n = cells * d->channels;
    float *part = (float *)((meeting *)scratch + cells);
    memset(dw, 0, n * sizeof *dw);
    for (size_t r = 0; r < d->rows; r++) {
        memset(part, 0, n * sizeof *part);
        scatter_row(d, from, dy, part, scratch);
        for (size_t i = 0; i < n; i++)
            dw[i] += part[i];
        from += d->from[0] * d->from[1] * d->from[2] * d->channels;
        dy += d->of[0] * d->of[1] * d->of[2] * d->channels;
    }
}

static size_t depthwise_bytes(const pg__depthwise *d, int dw)
{
    const size_t cells = d->k[0] * d->k[1] * d->k[2];
    return cells * (sizeof(meeting) + (dw ? d->channels * sizeof(float) : 0));
}

/* Blocks of 256 rows first, so that errors grow only with their number. */
static void column_sums(const float *v, size_t m, size_t n, float *sums)
{
    for (size_t j = 0; j < n; j += PG_VEC) {
        const size_t w = n - j < PG_VEC ? n - j : PG_VEC;
        vec all = pg__splat(0);
        for (size_t r = 0; r < m; r += 256) {
            const size_t end = r + 256 < m ? r + 256 : m;
            vec part = pg__splat(0);
            if (w == PG_VEC)
                for (size_t i = r; i < end; i++)
                    part += pg__load(v + i * n + j);
            else
                for (size_t i = r; i < end; i++)
                    part += pg__load_some(v + i * n + j, w);
            all += part;
        }
        if (w == PG_VEC)
            pg__store(sums + j, all);
        else
            pg__store_some(sums + j, all, w);
    }
}

extern const pg__depthwise_lines PG_ISA_NAME(depthwise_lines);
extern const pg__conv_kernels PG_ISA_NAME(conv_kernels);
const pg__conv_kernels PG_ISA_NAME(conv_kernels) = {
    .depthwise_bytes = depthwise_bytes,
    .depthwise = depthwise,
    .depthwise_dw = depthwise_dw,
    .column_sums = column_sums,
    .lines = &PG_ISA_NAME(depthwise_lines),
};

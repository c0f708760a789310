/* wino_kernels.c - compiled once for each instruction set: Winograd's F(4x4, 3x3), see wino.h.
 *
 * Transforms work on vectors of channels, which are adjacent in memory. Matrices have the names of
 * Lavin and Gray: B' is applied to the operand's tiles, G to kernels, A' to products. The gradient
 * of a kernel is the transpose of it all: G' (B' x B * A dy A') G. */
#include "backend/cpu/wino_math.h"

/* ---- tiles ---- */

/* Where a tile begins: of an image (h, w) of n channels to a cell, with cells in front. */
typedef struct spot {
    size_t row, y, x; /* in cells of the result */
} spot;

static inline spot spot_of(const pg__wino *p, size_t tile)
{
    const size_t in_row = tile % (p->tiles_h * p->tiles_w);
    return (spot){tile / (p->tiles_h * p->tiles_w), in_row / p->tiles_w * 4,
                  in_row % p->tiles_w * 4};
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

/* n channels of a tile, those from channel c on; cells outside of the image are 0. */
PG_INLINE void operand_tile(const pg__wino *p, const float *image, spot s, size_t n, int inside,
                            float *to)
{
    vec in[6], out[6], t[6][6];
    const size_t line = p->w * p->in, top = s.y - p->before_h, left = s.x - p->before_w;
    for (size_t j = 0; j < 6; j++) {
        const size_t x = left + j; /* in front of the image: larger than any width */
        PG_UNROLL for (size_t i = 0; i < 6; i++)
        {
            const size_t y = top + i;
            in[i] = inside || (x < p->w && y < p->h) ? load_n(image + y * line + x * p->in, n)
                                                     : pg__splat(0);
        }
        operand_6(out, in);
        PG_UNROLL for (size_t i = 0; i < 6; i++) t[i][j] = out[i];
    }
    PG_UNROLL for (size_t i = 0; i < 6; i++)
    {
        operand_6(out, t[i]);
        PG_UNROLL for (size_t j = 0; j < 6; j++) pg__store(to + (i * 6 + j) * p->plane_in, out[j]);
    }
}

/* Tiles [first, first + n) of the operand into the planes. */
static void operand_tiles(const pg__wino *p, const float *operand, size_t first, size_t n,
                          float *planes)
{
    for (size_t t = 0; t < n; t++, planes += p->ld_in) {
        const spot s = spot_of(p, first + t);
        const float *image = operand + s.row * p->h * p->w * p->in;
        const int inside = s.y >= p->before_h && s.y + 6 <= p->h + p->before_h &&
                           s.x >= p->before_w && s.x + 6 <= p->w + p->before_w;
        size_t c = 0;
        for (; inside && c + PG_VEC <= p->in; c += PG_VEC)
            operand_tile(p, image + c, s, PG_VEC, 1, planes + c);
        for (; c + PG_VEC <= p->in; c += PG_VEC)
            operand_tile(p, image + c, s, PG_VEC, 0, planes + c);
        if (c < p->in)
            operand_tile(p, image + c, s, p->in - c, 0, planes + c);
    }
}

/* sums: those of the tile's cells are added; or NULL */
PG_INLINE void gradient_tile(const pg__wino *p, const float *image, spot s, size_t n, int inside,
                             float *to, float *sums)
{
    vec in[4], out[6], t[6][4], sum = sums ? load_n(sums, n) : pg__splat(0);
    for (size_t j = 0; j < 4; j++) {
        PG_UNROLL for (size_t i = 0; i < 4; i++)
        {
            const size_t y = s.y + i, x = s.x + j;
            in[i] = inside || (y < p->out_h && x < p->out_w)
                        ? load_n(image + (y * p->out_w + x) * p->out, n)
                        : pg__splat(0);
        }
        sum += (in[0] + in[1]) + (in[2] + in[3]);
        gradient_6(out, in);
        PG_UNROLL for (size_t i = 0; i < 6; i++) t[i][j] = out[i];
    }
    if (sums)
        store_n(sums, sum, n);
    for (size_t i = 0; i < 6; i++) {
        gradient_6(out, t[i]);
        PG_UNROLL for (size_t j = 0; j < 6; j++) pg__store(to + (i * 6 + j) * p->plane_out, out[j]);
    }
}

static inline float *sums_at(float *sums, size_t c)
{
    return sums ? sums + c : NULL;
}

static void gradient_tiles(const pg__wino *p, const float *dy, size_t first, size_t n,
                           float *planes, float *db)
{
    for (size_t t = 0; t < n; t++, planes += p->ld_out) {
        const spot s = spot_of(p, first + t);
        const float *image = dy + s.row * p->out_h * p->out_w * p->out;
        const int inside = s.y + 4 <= p->out_h && s.x + 4 <= p->out_w;
        size_t c = 0;
        for (; inside && c + PG_VEC <= p->out; c += PG_VEC)
            gradient_tile(p, image + c, s, PG_VEC, 1, planes + c, sums_at(db, c));
        for (; c + PG_VEC <= p->out; c += PG_VEC)
            gradient_tile(p, image + c, s, PG_VEC, 0, planes + c, sums_at(db, c));
        if (c < p->out) {
            gradient_tile(p, image + c, s, p->out - c, 0, planes + c, sums_at(db, c));
            c += PG_VEC;
        }
        for (; c < p->ld_out; c += PG_VEC) /* the last panel's rest */
            for (size_t i = 0; i < CELLS; i++)
                pg__store(planes + i * p->plane_out + c, pg__splat(0));
    }
}

/* plus: laid out as the image, from the same channel on; or NULL. */
PG_INLINE void result_tile(const pg__wino *p, const float *from, spot s, size_t n, vec bias,
                           const float *plus, float *image)
{
    vec in[6], out[4], t[4][6];
    for (size_t j = 0; j < 6; j++) {
        PG_UNROLL for (size_t i = 0; i < 6; i++) in[i] =
            pg__load(from + (i * 6 + j) * p->plane_out);
        result_4(out, in);
        PG_UNROLL for (size_t i = 0; i < 4; i++) t[i][j] = out[i];
    }
    for (size_t i = 0; i < 4 && s.y + i < p->out_h; i++) {
        const size_t at = ((s.y + i) * p->out_w + s.x) * p->out;
        result_4(out, t[i]);
        PG_UNROLL for (size_t j = 0; j < 4; j++)
        {
            if (s.x + j >= p->out_w)
                continue;
            vec v = out[j] + bias;
            if (plus)
                v += load_n(plus + at + j * p->out, n);
            store_n(image + at + j * p->out, p->range.is_used ? pg__within(v, &p->range) : v, n);
        }
    }
}

/* Channels [from, to) of the result; the planes begin with channel `from`. */
static void result_tiles(const pg__wino *p, const float *planes, size_t first, size_t n,
                         const float *bias, const float *plus, float *result, size_t from,
                         size_t to)
{
    for (size_t t = 0; t < n; t++, planes += p->ld_out) {
        const spot s = spot_of(p, first + t);
        const size_t row = s.row * p->out_h * p->out_w * p->out;
        float *image = result + row;
        size_t c = from;
        for (; c + PG_VEC <= to; c += PG_VEC)
            result_tile(p, planes + c - from, s, PG_VEC, bias ? pg__load(bias + c) : pg__splat(0),
                        plus ? plus + row + c : NULL, image + c);
        if (c < to)
            result_tile(p, planes + c - from, s, to - c,
                        bias ? pg__load_some(bias + c, to - c) : pg__splat(0),
                        plus ? plus + row + c : NULL, image + c);
    }
}

/* ---- kernels ---- */

/* Kernels for channels [i, i + n_i) of the operand and [o, o + n_o) of the result, at most a vector
 * of each: cells[k][channel of the operand][channel of the result]. */
static void kernel_block(const pg__wino *p, const float *w, size_t i, size_t n_i, size_t o,
                         size_t n_o, float cells[9][PG_VEC][PG_VEC])
{
    const size_t cell = p->in * p->out;
    const int whole = n_i == PG_VEC && n_o == PG_VEC;
    if (!whole)
        memset(cells, 0, sizeof(float[9][PG_VEC][PG_VEC]));
    for (size_t k = 0; k < 9; k++) {
        const float *from =
            w + (p->rotated ? (8 - k) * cell + o * p->in + i : k * cell + i * p->out + o);
        if (whole && p->rotated)
            PG_UNROLL for (size_t q = 0; q < PG_VEC; q++) for (size_t r = 0; r < PG_VEC; r++)
                cells[k][r][q] = from[q * p->in + r];
        else if (whole)
            for (size_t q = 0; q < PG_VEC; q++)
                pg__store(cells[k][q], pg__load(from + q * p->out));
        else
            for (size_t q = 0; q < n_o; q++)
                for (size_t r = 0; r < n_i; r++)
                    cells[k][r][q] = from[p->rotated ? q * p->in + r : r * p->out + q];
    }
}

/* To where channel i and vector o of a panel stand. */
PG_INLINE void pack_vector(float cells[9][PG_VEC][PG_VEC], size_t i, float *to, size_t plane)
{
    vec out[6], t[6][3];
    for (size_t k = 0; k < 3; k++) {
        const vec column[3] = {pg__load(cells[k][i]), pg__load(cells[3 + k][i]),
                               pg__load(cells[6 + k][i])};
        kernel_6(out, column);
        PG_UNROLL for (size_t r = 0; r < 6; r++) t[r][k] = out[r];
    }
    PG_UNROLL for (size_t r = 0; r < 6; r++)
    {
        kernel_6(out, t[r]);
        PG_UNROLL for (size_t k = 0; k < 6; k++) pg__store(to + (r * 6 + k) * plane, out[k]);
    }
}

/* Panels [first, first + panels). */
static void pack_panels(const pg__wino *p, const float *w, size_t first, size_t panels,
                        float *packed)
{
    const size_t plane = panels * p->in * PANEL + PG_WINO_GAP;
    float cells[9][PG_VEC][PG_VEC];
    for (size_t o = 0; o < panels * PANEL; o += PG_VEC)
        for (size_t i = 0; i < p->in; i += PG_VEC) {
            const size_t from = first * PANEL + o, n = min_size(PG_VEC, p->in - i);
            const size_t n_o = from < p->out ? min_size(PG_VEC, p->out - from) : 0;
            float *to = packed + (o / PANEL * p->in + i) * PANEL + o % PANEL;
            kernel_block(p, w, i, n, from, n_o, cells);
            for (size_t q = 0; q < n; q++)
                pack_vector(cells, q, to + q * PANEL, plane);
        }
}

static void pack(const pg__wino *p, const float *w, float *packed)
{
    pack_panels(p, w, 0, (p->out + PANEL - 1) / PANEL, packed);
}

/* Back from products (in x out, rows of ld) to the kernel's gradient, a vector of filters. One
 * function for all that need it: a compiler rounds alike then. */
__attribute__((noinline)) static void unpack_cells(const float *from, size_t plane, vec out[9])
{
    vec in[6], column[3], t[3][6];
    for (size_t j = 0; j < 6; j++) {
        PG_UNROLL for (size_t i = 0; i < 6; i++) in[i] = pg__load(from + (i * 6 + j) * plane);
        kernel_3(column, in);
        PG_UNROLL for (size_t i = 0; i < 3; i++) t[i][j] = column[i];
    }
    PG_UNROLL for (size_t i = 0; i < 3; i++) kernel_3(out + 3 * i, t[i]);
}

PG_INLINE void store_cells(const pg__wino *p, const vec cells[9], float *dw, size_t n)
{
    PG_UNROLL for (size_t k = 0; k < 9; k++) store_n(dw + k * p->in * p->out, cells[k], n);
}

static void unpack_vector(const pg__wino *p, const float *from, size_t plane, float *dw, size_t n)
{
    vec cells[9];
    unpack_cells(from, plane, cells);
    store_cells(p, cells, dw, n);
}

/* Lane k's part of a sum over lanes: two complete subtrees of the same size are one as soon as both
 * are there. open: of each level 9 vectors, `level` floats apart. The last lane's is the sum. */
static void unpack_lane(const pg__wino *p, size_t k, const float *from, size_t plane, float *open,
                        size_t level, float *dw, size_t n)
{
    vec cells[9];
    unpack_cells(from, plane, cells);
    for (size_t left = k; left & 1; left /= 2, open += level)
        PG_UNROLL for (size_t c = 0; c < 9; c++) cells[c] = pg__load(open + c * PG_VEC) + cells[c];
    if (k + 1 == p->lanes)
        store_cells(p, cells, dw, n);
    else
        PG_UNROLL for (size_t c = 0; c < 9; c++) pg__store(open + c * PG_VEC, cells[c]);
}

/* ---- prefetching ---- */

#define LINE 64 /* bytes */

/* Images are in memory rather than in a cache. What the transforms need next is prefetched while
 * products are computed, an equal part with each of them. */
typedef struct ahead {
    const char *at;
    size_t left, each; /* lines of the cache */
} ahead;

/* Lines of cells that tiles [first, first + n) begin in, of images (h, w) of `channels`, and `more`
 * after them; asked for in `parts`. */
static ahead ahead_of(const pg__wino *p, const float *images, size_t h, size_t w, size_t channels,
                      size_t first, size_t n, size_t more, size_t parts)
{
    const size_t line = w * channels;
    if (n == 0)
        return (ahead){(const char *)images, 0, 0};
    const spot from = spot_of(p, first), to = spot_of(p, first + n - 1);
    const size_t begin = (from.row * h + min_size(from.y, h)) * line;
    const size_t end = (to.row * h + min_size(to.y + more, h)) * line;
    const size_t lines = (end - begin) * sizeof *images / LINE;
    return (ahead){(const char *)(images + begin), lines, lines / parts + 1};
}

static ahead operand_ahead(const pg__wino *p, const float *operand, size_t first, size_t parts)
{
    const size_t n = first < p->tiles ? min_size(p->block, p->tiles - first) : 0;
    return ahead_of(p, operand, p->h, p->w, p->in, first, n, 5, parts);
}

static ahead result_ahead(const pg__wino *p, const float *result, size_t first, size_t parts)
{
    const size_t n = first < p->tiles ? min_size(p->block, p->tiles - first) : 0;
    return ahead_of(p, result, p->out_h, p->out_w, p->out, first, n, 4, parts);
}

PG_INLINE void ask(ahead *a)
{
    const size_t n = min_size(a->left, a->each);
    for (size_t i = 0; i < n; i++)
        __builtin_prefetch(a->at + i * LINE, 0, 2);
    a->at += n * LINE;
    a->left -= n;
}

/* ---- the passes ---- */

/* Tiles [0, n) of the planes by some panels of the kernel. */
static void multiply(const pg__wino *p, const float *planes_in, size_t n, const float *packed,
                     size_t panels, float *planes_out, ahead next[2])
{
    const size_t plane = panels * p->in * PANEL + PG_WINO_GAP;
    for (size_t cell = 0; cell < CELLS; cell++)
        for (size_t o = 0; o < panels; o++)
            for (size_t t = 0; t < n; t += MR) {
                ask(&next[0]);
                ask(&next[1]);
                products[min_size(MR, n - t)](
                    p->in, planes_in + cell * p->plane_in + t * p->ld_in, p->ld_in, 1,
                    packed + cell * plane + o * p->in * PANEL, PANEL,
                    planes_out + cell * p->plane_out + t * p->ld_out + o * PANEL, p->ld_out, 0);
            }
}

/* A large kernel would take four times its size in memory, and each lane would read all of that. So
 * it is transformed where it is used, some panels at a time. */
static void convolve(const pg__wino *p, const float *operand, const float *kernel,
                     const float *bias, const float *plus, float *result, float *scratch)
{
    const size_t panels = (p->out + PANEL - 1) / PANEL, group = p->group ? p->group : panels;
    float *planes_in = scratch, *planes_out = scratch + CELLS * p->plane_in;
    float *some = planes_out + CELLS * p->plane_out;
    for (size_t first = 0; first < p->tiles; first += p->block) {
        const size_t n = min_size(p->block, p->tiles - first);
        const size_t parts = CELLS * panels * ((n + MR - 1) / MR);
        ahead next[2] = {result_ahead(p, result, first, parts),
                         operand_ahead(p, operand, first + n, parts)};
        operand_tiles(p, operand, first, n, planes_in);
        for (size_t o = 0; o < panels; o += group) {
            const size_t n_panels = min_size(group, panels - o);
            if (p->group)
                pack_panels(p, kernel, o, n_panels, some);
            multiply(p, planes_in, n, p->group ? some : kernel, n_panels, planes_out, next);
            result_tiles(p, planes_out, first, n, bias, plus, result, o * PANEL,
                         min_size(p->out, (o + n_panels) * PANEL));
        }
    }
}

/* Part of the products of a kernel's gradient: channels [i, i + n_in) by [o, o + n_out). */
typedef struct part {
    size_t i, n_in, o, n_out;
} part;

static void multiply_part(const pg__wino *p, const part *q, const float *planes_x,
                          const float *planes_dy, size_t n, float *du, size_t ld, size_t plane,
                          int add, ahead next[2])
{
    for (size_t cell = 0; cell < CELLS; cell++)
        for (size_t o = 0; o < q->n_out; o += PANEL)
            for (size_t i = 0; i < q->n_in; i += MR) {
                ask(&next[0]);
                ask(&next[1]);
                products[min_size(MR, q->n_in - i)](
                    n, planes_x + cell * p->plane_in + q->i + i, 1, p->ld_in,
                    planes_dy + cell * p->plane_out + q->o + o, p->ld_out,
                    du + cell * plane + i * ld + o, ld, add);
            }
}

static void unpack_part(const pg__wino *p, const part *q, const float *du, size_t ld, size_t plane,
                        float *dw)
{
    for (size_t i = 0; i < q->n_in; i++)
        for (size_t o = 0; o < q->n_out && q->o + o < p->out; o += PG_VEC)
            unpack_vector(p, du + i * ld + o, plane, dw + (q->i + i) * p->out + q->o + o,
                          min_size(PG_VEC, p->out - q->o - o));
}

/* One block of tiles: each part of the products is transformed back at once and need not be
 * kept. */
static void gradient(const pg__wino *p, const float *x, const float *dy, float *dw, float *db,
                     float *scratch)
{
    float *planes_x = scratch, *planes_dy = planes_x + CELLS * p->plane_in;
    float *du = planes_dy + CELLS * p->plane_out;
    const int once = p->block >= p->tiles;
    const size_t ld = once ? p->block_out : p->ld_out, plane = ld * (once ? p->block_in : p->in);
    if (db)
        memset(db, 0, p->out * sizeof *db);
    for (size_t first = 0; first < p->tiles; first += p->block) {
        const size_t n = min_size(p->block, p->tiles - first);
        const size_t behind = first + n;
        const size_t parts = CELLS * (p->ld_out / PANEL) * ((p->in + MR - 1) / MR);
        ahead next[2] = {result_ahead(p, dy, behind, parts), operand_ahead(p, x, behind, parts)};
        gradient_tiles(p, dy, first, n, planes_dy, db);
        if (!dw)
            continue;
        operand_tiles(p, x, first, n, planes_x);
        for (part q = {.i = 0}; q.i < p->in; q.i += p->block_in)
            for (q.o = 0; q.o < p->ld_out; q.o += p->block_out) {
                float *to = once ? du : du + q.i * ld + q.o;
                q.n_in = min_size(p->block_in, p->in - q.i);
                q.n_out = min_size(p->block_out, p->ld_out - q.o);
                multiply_part(p, &q, planes_x, planes_dy, n, to, ld, plane, first > 0, next);
                if (first + n == p->tiles)
                    unpack_part(p, &q, to, ld, plane, dw);
            }
    }
}

static void add_lanes(const pg__wino *p, float *db)
{
    for (size_t size = 1; size < p->lanes; size *= 2)
        for (size_t lo = 0; lo < p->lanes; lo += 2 * size)
            for (size_t c = 0; c < p->out; c++)
                db[lo * p->out + c] += db[(lo + size) * p->out + c];
}

/* The sum over lanes, each of one block of tiles: the products of a part stay in the cache of first
 * level until they are turned back. */
static void gradient_lanes(const pg__wino *p, const float *x, const float *dy, float *dw, float *db,
                           float *scratch)
{
    const size_t each = CELLS * (p->plane_in + p->plane_out), ld = p->block_out;
    const size_t plane = ld * p->block_in, level = 9 * plane;
    float *du = scratch + p->lanes * each, *open = du + CELLS * plane;
    float *sums = open + PG_WINO_LEVELS * level;
    memset(sums, 0, p->lanes * p->out * sizeof *sums);
    for (size_t k = 0; k < p->lanes; k++) {
        float *planes_x = scratch + k * each, *planes_dy = planes_x + CELLS * p->plane_in;
        gradient_tiles(p, dy + k * p->rows * p->out_h * p->out_w * p->out, 0, p->tiles, planes_dy,
                       db ? sums + k * p->out : NULL);
        operand_tiles(p, x + k * p->rows * p->h * p->w * p->in, 0, p->tiles, planes_x);
    }
    add_lanes(p, sums);
    if (db)
        memcpy(db, sums, p->out * sizeof *db);
    for (part q = {.n_out = ld}; dw && q.o < p->ld_out; q.o += ld)
        for (q.i = 0; q.i < p->in; q.i += p->block_in) {
            ahead none[2] = {{NULL, 0, 0}, {NULL, 0, 0}};
            q.n_in = min_size(p->block_in, p->in - q.i);
            for (size_t k = 0; k < p->lanes; k++) {
                const float *planes_x = scratch + k * each;
                multiply_part(p, &q, planes_x, planes_x + CELLS * p->plane_in, p->tiles, du, ld,
                              plane, 0, none);
                for (size_t i = 0; i < q.n_in; i++)
                    for (size_t o = 0; o < ld && q.o + o < p->out; o += PG_VEC)
                        unpack_lane(p, k, du + i * ld + o, plane, open + 9 * (i * ld + o), level,
                                    dw + (q.i + i) * p->out + q.o + o,
                                    min_size(PG_VEC, p->out - q.o - o));
            }
        }
}

extern const pg__wino_kernels PG_ISA_NAME(wino);
const pg__wino_kernels PG_ISA_NAME(wino) = {
    .vec = PG_VEC,
    .mr = MR,
    .panel = PANEL,
    .pack = pack,
    .convolve = convolve,
    .gradient = gradient,
    .gradient_lanes = gradient_lanes,
};

/* depthwise_kernels.c - compiled once for each instruction set: see depthwise_kernels.h.
 *
 * A channel gives the same result at any place in a vector. So if channels do not fill their last
 * vector, that one begins further to the left, and some channels are computed twice. */
#include "backend/cpu/depthwise_kernels.h"
#include "backend/cpu/depthwise_tiles.h"

/* Lines that meet the one at (a, b). */
static size_t find_lines(const pg__depthwise *d, size_t a, size_t b, const float *from,
                         const float *w, meeting *to)
{
    const pg__taps *t = d->axis;
    size_t n = 0;
    for (size_t i = t[0].first[a]; i < t[0].first[a + 1]; i++)
        for (size_t j = t[1].first[b]; j < t[1].first[b + 1]; j++) {
            const pg__tap *p = &t[0].taps[i], *q = &t[1].taps[j];
            to[n++] = (meeting){from + (p->cell * d->from[1] + q->cell) * d->from[2] * d->channels,
                                w + (p->k * d->k[1] + q->k) * d->k[2] * d->channels};
        }
    return n;
}

/* Consecutive lines of the result. Each reads most of what the one before it reads, so they are
 * processed side by side, in parts that fit into the first-level cache. */
enum { STRIP = 4, NEAR_BYTES = 24 << 10 };

typedef struct strip {
    const meeting *lines[STRIP];
    const encounter *pairs[STRIP + 1]; /* of lines 2 i and 2 i + 1: up to those of the next */
    size_t n_lines[STRIP];
    size_t n, n_pairs;
} strip;

/* Some channels of a tile's cells in all lines of a strip, then others. */
static void compute_tiles(const pg__depthwise *d, const strip *s, tile_fn fn, pair_fn pair,
                          size_t columns, tile *t, float *to)
{
    const size_t line = d->of[2] * d->channels, cells = d->k[0] * d->k[1] * columns;
    const size_t vecs = NEAR_BYTES / (cells * sizeof(vec)), some = (vecs > 0 ? vecs : 1) * PG_VEC;
    for (t->begin = 0; t->begin < d->channels; t->begin = t->stop) {
        t->stop = min_size(t->begin + some, d->channels);
        t->to = to;
        for (size_t i = 0; i < s->n_pairs; i++, t->to += 2 * line)
            pair(t, s->pairs[i], s->pairs[i + 1], line);
        for (size_t i = 2 * s->n_pairs; i < s->n; i++, t->to += line) {
            t->lines = s->lines[i];
            t->n_lines = s->n_lines[i];
            fn(t);
        }
    }
}

static int in_pairs(const pg__depthwise *d)
{
    return HAS_PAIRS && d->stride == 1 && d->k[2] == 3;
}

static void compute_strip(const pg__depthwise *d, const strip *s, int mode, tile *t, float *to)
{
    const tile_fns *fns = &tiles[(d->k[2] - 3) / 2][mode];
    const ptrdiff_t k = (ptrdiff_t)d->k[2], before = (ptrdiff_t)d->before;
    const ptrdiff_t n = (ptrdiff_t)d->of[2], from = (ptrdiff_t)d->from[2];
    const ptrdiff_t columns = COLUMNS(mode, k, WIDE);
    const int odd = in_pairs(d) && n % WIDE != 0 && n % (WIDE - 1) == 0;
    /* Cells that one column reaches begin with an even one of the padded line. */
    for (ptrdiff_t at = mode == BACK_2 ? -(before % 2) : 0; at < n; at += odd ? WIDE - 1 : WIDE) {
        const ptrdiff_t first = at < 0 ? -at : 0, left = n - at;
        if (mode == BACK_2)
            t->column = (at + before) / 2 - (k - 1) / 2;
        else if (d->back)
            t->column = at + before - (k - 1);
        else
            t->column = at * (mode == STEP_2 ? 2 : 1) - before;
        t->lo = t->column < 0 ? (size_t)-t->column : 0;
        t->hi = from > t->column ? (size_t)(from - t->column) : 0;
        t->first = (size_t)first;
        t->end = (size_t)left;
        const int whole = first == 0 && left >= WIDE && t->lo == 0 && t->hi >= (size_t)columns;
        compute_tiles(d, s,
                      whole           ? fns->whole
                      : left > NARROW ? fns->wide
                                      : fns->narrow,
                      odd     ? pair_odd
                      : whole ? pair_whole
                              : pair_wide,
                      (size_t)columns, t, to + at * (ptrdiff_t)d->channels);
    }
}

/* Those from (a, b) on; room: for what strip_bytes() says. */
static strip find_strip(const pg__depthwise *d, size_t a, size_t b, const float *from,
                        const float *w, void *room)
{
    const size_t cells = d->k[0] * d->k[1];
    strip s = {.n = min_size(STRIP, d->of[1] - b)};
    meeting *lines = room;
    encounter *pairs = (encounter *)(void *)(lines + STRIP * cells);
    for (size_t i = 0; i < s.n; i++, lines += cells) {
        s.lines[i] = lines;
        s.n_lines[i] = find_lines(d, a, b + i, from, w, lines);
    }
    if (in_pairs(d))
        s.n_pairs = s.n / 2;
    s.pairs[0] = pairs;
    for (size_t i = 0; i < s.n_pairs; i++)
        s.pairs[i + 1] = pairs =
            find_encounters(s.lines[2 * i], s.n_lines[2 * i], s.lines[2 * i + 1],
                            s.n_lines[2 * i + 1], d->back, pairs);
    return s;
}

static size_t strip_bytes(const pg__depthwise *d)
{
    return STRIP * d->k[0] * d->k[1] * (sizeof(meeting) + sizeof(encounter));
}

/* Vectors of channels. */
static size_t vectors(const pg__depthwise *d)
{
    return (d->channels + PG_VEC - 1) / PG_VEC;
}

/* Floats of the operand, and their distance between what is computed and what is prefetched. */
static size_t operand_size(const pg__depthwise *d)
{
    return d->rows * d->from[0] * d->from[1] * d->from[2] * d->channels;
}
static size_t lead(const pg__depthwise *d)
{
    return d->k[1] * d->from[2] * d->channels;
}

static void depthwise(const pg__depthwise *d, const float *from, const float *w, const float *bias,
                      float *to, void *scratch)
{
    const size_t line = d->of[2] * d->channels, image = operand_size(d) / d->rows;
    const float *const end = from + operand_size(d);
    const size_t per_line = image / (d->of[0] * d->of[1]);
    const size_t parts = (d->of[2] + WIDE - 1) / WIDE * vectors(d);
    const int mode = d->stride == 1 ? STEP_1 : d->back ? BACK_2 : STEP_2;
    /* Going backwards in steps of 1 is going forwards with the kernel reversed. */
    const int reversed = d->back && mode == STEP_1;
    const float *begin = w + (reversed ? (d->k[2] - 1) * d->channels : 0);
    tile t = {.channels = d->channels, .bias = bias, .range = &d->range};
    t.w_step = reversed ? -(ptrdiff_t)d->channels : (ptrdiff_t)d->channels;
    for (size_t r = 0; r < d->rows; r++, from += image) {
        size_t done = lead(d) + (STRIP - 1) * per_line;
        for (size_t a = 0; a < d->of[0]; a++)
            for (size_t b = 0; b < d->of[1]; b += STRIP) {
                const strip s = find_strip(d, a, b, from, begin, scratch);
                t.from = look_ahead(from, done, s.n * per_line, s.n * parts, end);
                compute_strip(d, &s, mode, &t, to);
                to += s.n * line;
                done += s.n * per_line;
            }
    }
}

/* ---- gradients of kernels ---- */

/* Sums have three levels, so that errors hardly grow with the number of cells: blocks of at most
 * CELLS cells, in registers; BLOCKS blocks; everything. Larger blocks would mean less work, but
 * then the data they read arrives too late. TAKEN: cells at a time. */
enum { CELLS = 32, BLOCKS = 32, TAKEN = 4 };

/* Lines of a kernel whose sums are in registers. */
#if PG_VEC == 16
#define AT_ONCE(K) ((K) == 5 ? 5 : 3)
#else
#define AT_ONCE(K) ((K) == 3 ? 3 : (K) == 5 ? 2 : 1)
#endif
enum { MOST_SUMS = 25 };

/* Cells of a line of the result's gradient. */
typedef struct piece {
    const float *dy; /* the line */
    size_t begin, end;
} piece;

typedef struct block {
    const pg__depthwise *d;
    size_t n_pieces, n_cells, n_lines; /* n_lines: of the kernel, with what fills the last group */
    size_t inner, inner_end;           /* cells of a line that meet all cells of the kernel's */
    piece *pieces;
    const float **lines; /* per piece and line of the kernel: the operand's, or NULL */
    float *sums;         /* per vector of channels and kernel cell */
    int first;           /* nothing has been added to the sums yet */
    ahead from, dy;
} block;

/* One cell, near an end of its line. */
PG_INLINE void add_cell(const pg__depthwise *d, const float *const *lines, const float *dy,
                        size_t at, size_t c, vec *sum, ptrdiff_t K, ptrdiff_t R)
{
    const ptrdiff_t column = (ptrdiff_t)(at * d->stride) - (ptrdiff_t)d->before;
    const ptrdiff_t all = (ptrdiff_t)d->channels, end = (ptrdiff_t)d->from[2];
    const vec g = pg__load(dy + at * d->channels + c);
    PG_UNROLL for (ptrdiff_t i = 0; i < K * R; i++)
    {
        const ptrdiff_t x = column + i % K;
        if (lines[i / K] && x >= 0 && x < end)
            sum[i] = pg__mul_add(pg__load(lines[i / K] + x * all + (ptrdiff_t)c), g, sum[i]);
    }
}

/* T cells along one line. */
PG_INLINE void add_run(const float *from, size_t all, const vec *g, vec *sum, ptrdiff_t S,
                       ptrdiff_t K, ptrdiff_t T)
{
    PG_UNROLL for (ptrdiff_t i = 0; i < (T - 1) * S + K; i++)
    {
        const vec x = pg__load(from + (size_t)i * all);
        PG_UNROLL for (ptrdiff_t t = 0; t < T; t++)
        {
            if (i - t * S >= 0 && i - t * S < K)
                sum[i - t * S] = pg__mul_add(x, g[t], sum[i - t * S]);
        }
    }
}

/* T cells that meet all cells of the kernel's lines. */
PG_INLINE void add_cells(const pg__depthwise *d, const float *const *lines, const float *dy,
                         size_t at, size_t c, vec *sum, ptrdiff_t S, ptrdiff_t K, ptrdiff_t R,
                         ptrdiff_t T)
{
    const size_t all = d->channels, from = (at * (size_t)S - d->before) * all + c;
    vec g[TAKEN];
    PG_UNROLL for (ptrdiff_t i = 0; i < T; i++) g[i] = pg__load(dy + (at + (size_t)i) * all + c);
    PG_UNROLL for (ptrdiff_t r = 0; r < R; r++)
    {
        if (lines[r])
            add_run(lines[r] + from, all, g, sum + r * K, S, K, T);
    }
}

/* A block's sums for R lines of the kernel, from `line` on. */
PG_INLINE void add_lines(const block *b, size_t line, size_t c, float *to, ptrdiff_t S, ptrdiff_t K,
                         ptrdiff_t R)
{
    const pg__depthwise *d = b->d;
    vec sum[MOST_SUMS];
    PG_UNROLL for (ptrdiff_t i = 0; i < K * R; i++) sum[i] = pg__splat(0);
    for (size_t p = 0; p < b->n_pieces; p++) {
        const piece *at = &b->pieces[p];
        const float *const *lines = b->lines + p * b->n_lines + line;
        for (size_t j = at->begin; j < at->end;)
            if (j >= b->inner && j + TAKEN <= at->end && j + TAKEN <= b->inner_end) {
                add_cells(d, lines, at->dy, j, c, sum, S, K, R, TAKEN);
                j += TAKEN;
            } else if (j >= b->inner && j < b->inner_end)
                add_cells(d, lines, at->dy, j++, c, sum, S, K, R, 1);
            else
                add_cell(d, lines, at->dy, j++, c, sum, K, R);
    }
    PG_UNROLL for (ptrdiff_t i = 0; i < K * R; i++)
        pg__store(to + i * PG_VEC, b->first ? sum[i] : pg__load(to + i * PG_VEC) + sum[i]);
}

PG_INLINE void add_block(block *b, ptrdiff_t S, ptrdiff_t K)
{
    const size_t all = b->d->channels;
    float *to = b->sums;
    for (size_t next = 0; next < all; next += PG_VEC) {
        fetch(&b->from);
        fetch(&b->dy);
        for (size_t line = 0; line < b->n_lines; line += AT_ONCE(K), to += AT_ONCE(K) * K * PG_VEC)
            add_lines(b, line, min_size(next, all - PG_VEC), to, S, K, AT_ONCE(K));
    }
}

typedef void (*block_fn)(block *b);

/* clang-format off */
#define BLOCKS_OF(S, K) static void block_##S##_##K(block *b) { add_block(b, S, K); }
BLOCKS_OF(1, 3) BLOCKS_OF(1, 5) BLOCKS_OF(1, 7)
BLOCKS_OF(2, 3) BLOCKS_OF(2, 5) BLOCKS_OF(2, 7)

static const block_fn blocks[3][2] = {
    {block_1_3, block_2_3}, {block_1_5, block_2_5}, {block_1_7, block_2_7}};
/* clang-format on */

/* Lines of a kernel, with those that fill the last group of them. */
static size_t filled_lines(const pg__depthwise *d)
{
    const size_t k = d->k[2];
    const size_t group = k == 3 ? AT_ONCE(3) : k == 5 ? AT_ONCE(5) : AT_ONCE(7);
    return (d->k[0] * d->k[1] + group - 1) / group * group;
}

/* Floats of sums. */
static size_t sums_size(const pg__depthwise *d)
{
    return filled_lines(d) * d->k[2] * vectors(d) * PG_VEC;
}

/* What a block's run wants of scratch: two levels of sums, then pointers. */
static size_t depthwise_bytes(const pg__depthwise *d, int dw)
{
    if (!dw)
        return strip_bytes(d);
    return 2 * sums_size(d) * sizeof(float) +
           CELLS * (sizeof(piece) + filled_lines(d) * sizeof(float *));
}

/* Cells begin .. end of the line (a, b). */
static void add_piece(block *b, const size_t at[2], const float *from, const float *dy,
                      size_t begin, size_t end)
{
    const pg__depthwise *d = b->d;
    const pg__taps *t = d->axis;
    const float **lines = b->lines + b->n_pieces * b->n_lines;
    for (size_t i = 0; i < b->n_lines; i++)
        lines[i] = NULL;
    for (size_t i = t[0].first[at[0]]; i < t[0].first[at[0] + 1]; i++)
        for (size_t j = t[1].first[at[1]]; j < t[1].first[at[1] + 1]; j++) {
            const pg__tap *p = &t[0].taps[i], *q = &t[1].taps[j];
            lines[p->k * d->k[1] + q->k] =
                from + (p->cell * d->from[1] + q->cell) * d->from[2] * d->channels;
        }
    b->pieces[b->n_pieces++] = (piece){dy, begin, end};
    b->n_cells += end - begin;
}

/* Moves the blocks' sums into those of all. */
static void collect(block *b, float *total, int *first, size_t n)
{
    for (size_t i = 0; i < n; i += PG_VEC)
        pg__store(total + i,
                  *first ? pg__load(b->sums + i) : pg__load(total + i) + pg__load(b->sums + i));
    *first = 0;
    b->first = 1;
}

static void give(const pg__depthwise *d, const float *total, float *dw)
{
    const size_t all = d->channels, n_cells = d->k[0] * d->k[1] * d->k[2];
    const size_t filled = filled_lines(d) * d->k[2];
    for (size_t next = 0; next < all; next += PG_VEC, total += filled * PG_VEC) {
        const size_t c = min_size(next, all - PG_VEC);
        for (size_t k = 0; k < n_cells; k++)
            pg__store(dw + k * all + c, pg__load(total + k * PG_VEC));
    }
}

/* Where one that begins there ends: TAKEN cells are not torn apart. */
static size_t end_of_piece(const block *b, size_t begin)
{
    const size_t end = begin + CELLS;
    if (end >= b->d->of[2])
        return b->d->of[2];
    return end > b->inner ? end - (end - b->inner) % TAKEN : end;
}

static block new_block(const pg__depthwise *d, float *sums, void *pointers)
{
    const size_t reach = d->from[2] + d->before, s = d->stride;
    block b = {.d = d, .n_lines = filled_lines(d), .sums = sums, .first = 1};
    b.pieces = pointers;
    b.lines = (const float **)(void *)(b.pieces + CELLS);
    b.inner = (d->before + s - 1) / s;
    b.inner_end = reach < d->k[2] ? 0 : (reach - d->k[2]) / s + 1;
    return b;
}

/* A block's run, and what is read next; `done` cells of dy were read before. */
static void run_block(block *b, const float *from, const float *dy, size_t done)
{
    const pg__depthwise *d = b->d;
    const size_t n_from = operand_size(d), all = d->rows * d->of[0] * d->of[1] * d->of[2];
    const size_t n = b->n_cells * d->channels, next = (done + b->n_cells) * d->channels;
    const double ratio = (double)n_from / (double)(all * d->channels);
    const size_t n_x = (size_t)((double)n * ratio), next_x = (size_t)((double)next * ratio);
    const float *const end_x = from + n_from, *const end_dy = dy + all * d->channels;
    const int foreseen = d->channels < FORESEEN;
    if (!foreseen && done == 0) {
        b->from = look_ahead(from, 0, n_x + lead(d), 1, end_x);
        b->dy = look_ahead(dy, 0, n, 1, end_dy);
        fetch(&b->from);
        fetch(&b->dy);
    }
    if (!foreseen) {
        b->from = look_ahead(from, next_x + lead(d), n_x, vectors(d), end_x);
        b->dy = look_ahead(dy, next, n, vectors(d), end_dy);
    }
    blocks[(d->k[2] - 3) / 2][d->stride - 1](b);
    b->first = 0;
    b->n_pieces = b->n_cells = 0;
}

static void depthwise_dw(const pg__depthwise *d, const float *from, const float *dy, float *dw,
                         void *scratch)
{
    const size_t n = sums_size(d), image = operand_size(d) / d->rows;
    const size_t n_lines = d->rows * d->of[0] * d->of[1];
    float *total = scratch;
    block b = new_block(d, total + n, total + 2 * n);
    size_t at[2], n_blocks = 0, done = 0;
    int first = 1;
    for (size_t line = 0; line < n_lines; line++) {
        const size_t row = line / (d->of[0] * d->of[1]);
        at[0] = line / d->of[1] % d->of[0];
        at[1] = line % d->of[1];
        for (size_t begin = 0, end; begin < d->of[2]; begin = end) {
            end = end_of_piece(&b, begin);
            add_piece(&b, at, from + row * image, dy + line * d->of[2] * d->channels, begin, end);
            const size_t after = end < d->of[2] ? end : 0, next = end_of_piece(&b, after) - after;
            const int last = line + 1 == n_lines && end == d->of[2];
            if (b.n_cells + next <= CELLS && !last)
                continue;
            const size_t n_cells = b.n_cells;
            run_block(&b, from, dy, done);
            done += n_cells;
            if (++n_blocks % BLOCKS == 0 || last)
                collect(&b, total, &first, n);
        }
    }
    give(d, total, dw);
}

extern const pg__depthwise_lines PG_ISA_NAME(depthwise_lines);
const pg__depthwise_lines PG_ISA_NAME(depthwise_lines) = {
    .vec = PG_VEC,
    .bytes = depthwise_bytes,
    .depthwise = depthwise,
    .depthwise_dw = depthwise_dw,
};

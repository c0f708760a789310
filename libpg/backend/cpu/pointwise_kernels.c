/* pointwise_kernels.c - compiled once for each instruction set: products of long, narrow matrices,
 * see pointwise.h.
 *
 * The inner block is some rows by a panel of up to three vectors, all of it in registers: a number
 * of the one operand is broadcast and meets the vectors of the other. While it is computed, the
 * lines that come next are asked for: by the time they are read they are near. */
#include "backend/cpu/pointwise.h"
#include "backend/cpu/vec.h"

/* Rows of a block, by the vectors of a panel: what fits into the registers. */
#if PG_VEC == 16
#define MOST_ROWS 14
static const size_t rows_of[] = {0, 14, 14, 9};
#else
#define MOST_ROWS 6
static const size_t rows_of[] = {0, 6, 6, 4};
#endif
#define VECS  3   /* of the widest panel */
#define DEPTH 384 /* numbers that are summed before the sum is added to others: less rounding */

typedef pg__vec vec;

static inline size_t min_size(size_t a, size_t b)
{
    return a < b ? a : b;
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

/* ---- the inner block ---- */

/* What is asked for at each step, and how far it moves on, in bytes: a line of the one, a panel's
 * lines of the other. Where nothing is wanted they stay on what is there anyway. */
typedef struct ahead {
    const char *a, *b;
    size_t a_step, b_step;
} ahead;

/* c[m x panel] over k. The panel's last vector has `last` columns. add: to what is there. */
typedef struct block {
    size_t k, last;
    const float *a, *b, *bias;
    size_t lda, ldb, ldc;
    float *c;
    int add, far; /* far: c is not near yet */
    pg__range range;
    ahead next;
} block;

PG_INLINE void product(size_t vecs, size_t m, const block *q, size_t a_row, size_t a_col,
                       size_t b_row, int cut)
{
    const float *a = q->a, *b = q->b;
    const char *next_a = q->next.a, *next_b = q->next.b;
    const size_t a_step = q->next.a_step, b_step = q->next.b_step;
    vec s[VECS][MOST_ROWS];
    PG_UNROLL for (size_t v = 0; v < vecs; v++)
    {
        PG_UNROLL for (size_t i = 0; i < m; i++) s[v][i] = pg__splat(0);
    }
    for (size_t i = 0; q->far && i < m; i++)
        for (size_t v = 0; v < vecs; v++)
            __builtin_prefetch(q->c + i * q->ldc + v * PG_VEC, 1);
    for (size_t k = q->k; k > 0; k--, a += a_col, b += b_row) {
        vec w[VECS];
        __builtin_prefetch(next_a, 0, 2);
        PG_UNROLL for (size_t v = 0; v < vecs; v++)
        {
            __builtin_prefetch(next_b + v * sizeof(vec), 0, 2);
            w[v] = cut && v + 1 == vecs ? pg__load_some(b + v * PG_VEC, q->last)
                                        : pg__load(b + v * PG_VEC);
        }
        next_a += a_step;
        next_b += b_step;
        PG_UNROLL for (size_t i = 0; i < m; i++)
        {
            const vec x = pg__splat(a[i * a_row]);
            PG_UNROLL for (size_t v = 0; v < vecs; v++) s[v][i] = pg__mul_add(x, w[v], s[v][i]);
        }
    }
    PG_UNROLL for (size_t v = 0; v < vecs; v++)
    {
        const size_t n = v + 1 == vecs ? q->last : PG_VEC;
        const vec bias = q->bias ? load_n(q->bias + v * PG_VEC, n) : pg__splat(0);
        PG_UNROLL for (size_t i = 0; i < m; i++)
        {
            float *to = q->c + i * q->ldc + v * PG_VEC;
            const vec sum = s[v][i] + (q->add ? load_n(to, n) : bias);
            store_n(to, q->range.is_used ? pg__within(sum, &q->range) : sum, n);
        }
    }
}

typedef void (*block_fn)(const block *q);

/* Rows that stand lda apart by a packed panel; columns by rows of ldb, cut where the vector set can
 * read a part of one without harm. */
#define BLOCK(vecs, m)                                        \
    static void rows_##vecs##_##m(const block *q)             \
    {                                                         \
        product(vecs, m, q, q->lda, 1, (vecs)*PG_VEC, 0);     \
    }                                                         \
    static void columns_##vecs##_##m(const block *q)          \
    {                                                         \
        product(vecs, m, q, 1, q->lda, q->ldb, PG_VEC == 16); \
    }
/* clang-format off */
#define BLOCKS_4(vecs)  BLOCK(vecs, 1) BLOCK(vecs, 2) BLOCK(vecs, 3) BLOCK(vecs, 4)
#define BLOCKS_6(vecs)  BLOCKS_4(vecs) BLOCK(vecs, 5) BLOCK(vecs, 6)
#define BLOCKS_9(vecs)  BLOCKS_6(vecs) BLOCK(vecs, 7) BLOCK(vecs, 8) BLOCK(vecs, 9)
#define BLOCKS_14(vecs) BLOCKS_9(vecs) BLOCK(vecs, 10) BLOCK(vecs, 11) BLOCK(vecs, 12) \
                        BLOCK(vecs, 13) BLOCK(vecs, 14)
#define LIST_4(f)  NULL, f##_1, f##_2, f##_3, f##_4
#define LIST_6(f)  LIST_4(f), f##_5, f##_6
#define LIST_9(f)  LIST_6(f), f##_7, f##_8, f##_9
#define LIST_14(f) LIST_9(f), f##_10, f##_11, f##_12, f##_13, f##_14
#if PG_VEC == 16
BLOCKS_14(1) BLOCKS_14(2) BLOCKS_9(3)
#define TABLE(f) {{NULL}, {LIST_14(f##_1)}, {LIST_14(f##_2)}, {LIST_9(f##_3)}}
#else
BLOCKS_6(1) BLOCKS_6(2) BLOCKS_4(3)
#define TABLE(f) {{NULL}, {LIST_6(f##_1)}, {LIST_6(f##_2)}, {LIST_4(f##_3)}}
#endif
    /* clang-format on */
    static const block_fn by_rows[VECS + 1][MOST_ROWS + 1] = TABLE(rows);
static const block_fn by_columns[VECS + 1][MOST_ROWS + 1] = TABLE(columns);

/* ---- panels ---- */

static inline size_t vectors(size_t n)
{
    return (n + PG_VEC - 1) / PG_VEC;
}

/* The panel of which the first column is j: three vectors, but not one alone at the end. */
typedef struct panel {
    size_t j, vecs, last, width;
} panel;

static inline panel panel_at(size_t j, size_t n)
{
    const size_t left = vectors(n - j), vecs = left == 4 ? 2 : min_size(left, VECS);
    return (panel){j, vecs, min_size(n - j - (vecs - 1) * PG_VEC, PG_VEC), vecs * PG_VEC};
}

/* Rows of the tile at `done` of `rows`, cut into equal parts. */
static inline size_t tile_at(size_t done, size_t rows, size_t most)
{
    const size_t left = rows - done, tiles = (left + most - 1) / most;
    return (left + tiles - 1) / tiles;
}

static size_t packed_floats(size_t k, size_t n)
{
    return k * vectors(n) * PG_VEC;
}

/* Turned: a line of w becomes a column of the panel, some rows of it at a time. */
static void pack_panel(const panel *p, size_t k, size_t n, const float *w, size_t ld, int turned,
                       float *to)
{
    const size_t columns = min_size(p->width, n - p->j);
    if (columns < p->width)
        memset(to, 0, k * p->width * sizeof *to);
    for (size_t i = 0; !turned && i < k; i++)
        memcpy(to + i * p->width, w + i * ld + p->j, columns * sizeof *to);
    for (size_t first = 0; turned && first < k; first += 64)
        for (size_t q = 0; q < columns; q++)
            for (size_t i = first; i < min_size(first + 64, k); i++)
                to[i * p->width + q] = w[(p->j + q) * ld + i];
}

static void pack(size_t k, size_t n, const float *w, size_t ld, int turned, float *packed)
{
    for (panel p = {0}; p.j + p.width < n;) {
        p = panel_at(p.j + p.width, n);
        pack_panel(&p, k, n, w, ld, turned, packed + p.j * k);
    }
}

/* ---- rows by packed panels ---- */

#if PG_VEC == 16
#define FEW_ROWS 18 /* a multiple of what tiles have, or near one */
#else
#define FEW_ROWS 12
#endif

/* How a product is cut: depth numbers are summed at a time, over blocks of rows. few: w stays in
 * the nearest cache, so that blocks are as small as tiles, and c is walked through in order too. */
typedef struct plan {
    size_t m, n, k;
    size_t chunks, depth, rows;
    int few;
} plan;

static plan plan_of(size_t m, size_t n, size_t k)
{
    plan s = {.m = m, .n = n, .k = k, .chunks = k > DEPTH ? (k + DEPTH - 1) / DEPTH : 1};
    s.depth = (k + s.chunks - 1) / s.chunks;
    s.few = k * n <= 8192;
    const size_t floats = s.chunks > 1 ? s.depth + n : s.depth + 1;
    s.rows = s.few ? 0 : (s.chunks > 1 ? 49152 : 32768) / floats / FEW_ROWS * FEW_ROWS;
    if (s.rows == 0)
        s.rows = FEW_ROWS;
    return s;
}

/* A part of `span` bytes from p on that a tile asks for in `steps` steps: it is `part` of `parts`
 * wide and begins at `at`. */
static inline const char *share_of(const float *p, size_t span, size_t at, size_t part,
                                   size_t parts, size_t steps, size_t *step)
{
    *step = span > 0 && steps > 0 ? span * part / parts / steps + 1 : 0;
    return (const char *)p + span * at / parts;
}

/* Rows [r, r + rows) by one panel, of which the numbers from `at` on are summed; next: rows of the
 * following block. done: vectors of the block that came before, in all its chunks. */
static void multiply_panel(const plan *s, const panel *p, size_t r, size_t rows, size_t at,
                           size_t done, const float *a, const float *packed, const float *bias,
                           pg__range range, float *c)
{
    const size_t depth = min_size(s->depth, s->k - at), all = vectors(s->n) * s->chunks;
    const size_t next = min_size(s->rows, s->m - r - rows), most = rows_of[p->vecs];
    const float *w = packed + p->j * s->k + at * p->width;
    block q = {.k = depth,
               .last = p->last,
               .b = w,
               .bias = bias ? bias + p->j : NULL,
               .lda = s->k,
               .ldc = s->n,
               .add = at > 0,
               .far = !s->few && at == 0};
    if (at + depth == s->k)
        q.range = range;
    for (size_t i = 0, t; i < rows; i += t) {
        t = tile_at(i, rows, most);
        q.a = a + (r + i) * s->k + at;
        q.c = c + (r + i) * s->n + p->j;
        const size_t begin = done * rows + p->vecs * i, part = p->vecs * t;
        q.next.a = share_of(a + (r + rows) * s->k, next * s->k * sizeof *a, begin, part, all * rows,
                            depth, &q.next.a_step);
        if (s->few)
            q.next.b = share_of(c + (r + rows) * s->n, next * s->n * sizeof *c, begin, part,
                                all * rows, depth, &q.next.b_step);
        else
            q.next.b = share_of(w + s->k * p->width, depth * p->width * sizeof *w, i, t, rows,
                                depth, &q.next.b_step);
        by_rows[p->vecs][t](&q);
    }
}

static void multiply(size_t m, size_t n, size_t k, const float *a, const float *packed,
                     const float *bias, pg__range range, float *c)
{
    const plan s = plan_of(m, n, k);
    for (size_t r = 0, rows; r < m; r += rows) {
        rows = min_size(s.rows, m - r);
        size_t done = 0, at = 0;
        for (size_t i = 0; i < s.chunks; i++, at += s.depth)
            for (panel p = {0}; p.j + p.width < n; done += p.vecs) {
                p = panel_at(p.j + p.width, n);
                multiply_panel(&s, &p, r, rows, at, done, a, packed, bias, range, c);
            }
    }
}

/* ---- columns by columns, over rows ---- */

#define MOST_SUMMED  256 /* rows that are summed before the sum is added to others */
#define LEAST_SUMMED 64
#define COLUMNS      512 /* of the first operand, for which those rows stay in a cache */

/* Rows of both operands that are summed at a time, columns [i, i + columns) of the first. */
typedef struct slab {
    size_t n, k, i, columns, rows;
    size_t next; /* rows of the following slab */
    const float *a, *b;
    int first; /* of all rows: nobody has asked for them */
} slab;

/* Where the vectors cannot be cut, the panel's rows are copied, with what is missing. */
static const float *whole_panel(const slab *s, const panel *p, float *scratch, size_t *ld)
{
    const float *from = s->b + p->j;
    *ld = s->n;
    if (PG_VEC == 16 || p->last == PG_VEC)
        return from;
    *ld = p->width;
    for (size_t r = 0; r < s->rows; r++)
        for (size_t v = 0; v < p->vecs; v++)
            pg__store(scratch + r * p->width + v * PG_VEC,
                      load_n(from + r * s->n + v * PG_VEC, v + 1 < p->vecs ? PG_VEC : p->last));
    return scratch;
}

/* What a tile of columns [i, i + t) asks for: in the first slab the columns and the panel that come
 * next, else, each tile its part, the following slab. */
static ahead ahead_of(const slab *s, const panel *p, size_t i, size_t t)
{
    const float *a = s->a + s->i + i, *b = s->b + p->j;
    const size_t all = vectors(s->n), done = p->j / PG_VEC;
    ahead to = {(const char *)a, (const char *)b, 0, 0};
    if (s->first && p->j == 0 && i + t < s->columns) {
        to.a = (const char *)(a + t);
        to.a_step = s->k * sizeof *a;
    } else if (s->next > 0) {
        to.a = share_of(s->a + s->rows * s->k, s->next * s->k * sizeof *a,
                        done * s->columns + p->vecs * i, p->vecs * t, all * s->columns, s->rows,
                        &to.a_step);
    }
    if (s->first && i == 0 && p->j + p->width < s->n) {
        to.b = (const char *)(b + p->width);
        to.b_step = s->n * sizeof *b;
    } else if (s->next > 0) {
        to.b = share_of(s->b + s->rows * s->n, s->next * s->n * sizeof *b,
                        done * s->columns + p->vecs * i, p->vecs * t, all * s->columns, s->rows,
                        &to.b_step);
    }
    return to;
}

static void gradient_panel(const slab *s, const panel *p, float *c, float *scratch)
{
    const size_t most = rows_of[p->vecs];
    block q = {.k = s->rows, .last = p->last, .lda = s->k, .ldc = s->n, .add = !s->first, .far = 1};
    q.b = whole_panel(s, p, scratch, &q.ldb);
    for (size_t i = 0, t; i < s->columns; i += t) {
        t = tile_at(i, s->columns, most);
        q.a = s->a + s->i + i;
        q.c = c + (s->i + i) * s->n + p->j;
        q.next = ahead_of(s, p, i, t);
        by_columns[p->vecs][t](&q);
    }
}

static void sum_products(size_t m, size_t n, size_t k, const float *a, const float *b, float *c,
                         float *scratch)
{
    for (size_t i = 0; i < k; i += COLUMNS) {
        slab s = {.n = n, .k = k, .i = i, .columns = min_size(COLUMNS, k - i)};
        const size_t fit = 65536 / (s.columns + n);
        const size_t most = fit < LEAST_SUMMED ? LEAST_SUMMED : min_size(fit, MOST_SUMMED);
        size_t r = 0;
        do {
            s.rows = m > 0 ? tile_at(r, m, most) : 0;
            s.next = r + s.rows < m ? tile_at(r + s.rows, m, most) : 0;
            s.a = a + r * k;
            s.b = b + r * n;
            s.first = r == 0;
            for (panel p = {0}; p.j + p.width < n;) {
                p = panel_at(p.j + p.width, n);
                gradient_panel(&s, &p, c, scratch);
            }
            r += s.rows;
        } while (r < m);
    }
}

/* Is it better to have vectors of a's columns: are there fewer that are cut, for a product that
 * pays for turning the result over. */
static int turns(size_t m, size_t n, size_t k)
{
    return m >= 256 && 10 * n * vectors(k) < 9 * k * vectors(n);
}

static size_t scratch_floats(size_t m, size_t n, size_t k)
{
    return MOST_SUMMED * VECS * PG_VEC + (turns(m, n, k) ? n * k : 0);
}

static void gradient(size_t m, size_t n, size_t k, const float *a, const float *b, float *c,
                     float *scratch)
{
    if (!turns(m, n, k)) {
        sum_products(m, n, k, a, b, c, scratch);
        return;
    }
    float *turned = scratch + MOST_SUMMED * VECS * PG_VEC;
    sum_products(m, k, n, b, a, turned, scratch);
    for (size_t i = 0; i < k; i++)
        for (size_t j = 0; j < n; j++)
            c[i * n + j] = turned[j * k + i];
}

extern const pg__pointwise PG_ISA_NAME(pointwise);
const pg__pointwise PG_ISA_NAME(pointwise) = {
    .packed_floats = packed_floats,
    .pack = pack,
    .multiply = multiply,
    .scratch_floats = scratch_floats,
    .gradient = gradient,
};

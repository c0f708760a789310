/* pointwise_kernels.c - compiled once for each instruction set: products of long, narrow matrices,
 * see pointwise.h.
 *
 * The inner block is some rows by a panel of up to three vectors, all in registers: a number of one
 * operand is broadcast and multiplied with the vectors of the other. Meanwhile the next lines are
 * prefetched, so that they are in a cache when they are read. */
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
#define LINE  64  /* bytes of a line of a cache */
#define DEPTH 384 /* numbers that are summed before the sum is added to others: less rounding */
#define SOON  40  /* steps in which what is asked for has come */

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

/* What is prefetched at each step, and how far it advances, in bytes: a line of one operand, a
 * panel's lines of the other. If nothing is needed, it stays on data that is in a cache anyway. */
typedef struct ahead {
    const char *a, *b;
    size_t a_step, b_step;
} ahead;

/* c[m x panel] over k. The panel's last vector has `last` columns. add: adds to the numbers in c;
 * plus: adds numbers laid out as c, or NULL. */
typedef struct block {
    size_t k, last;
    const float *a, *b, *bias, *plus;
    size_t lda, ldb, ldc;
    float *c;
    int add, far; /* far: c is not near yet */
    pg__range range;
    ahead next;
} block;

/* Sums of m rows become n columns of c, from vector v on. */
PG_INLINE void finish(vec *s, size_t m, const block *q, size_t v, size_t n)
{
    float *const to = q->c + v * PG_VEC;
    const size_t ld = q->ldc;
    if (q->add) {
        PG_UNROLL for (size_t i = 0; i < m; i++) s[i] += load_n(to + i * ld, n);
    } else {
        const vec bias = q->bias ? load_n(q->bias + v * PG_VEC, n) : pg__splat(0);
        PG_UNROLL for (size_t i = 0; i < m; i++) s[i] += bias;
    }
    if (q->plus) {
        const float *const plus = q->plus + v * PG_VEC;
        PG_UNROLL for (size_t i = 0; i < m; i++) s[i] += load_n(plus + i * ld, n);
    }
    if (q->range.is_used) {
        const pg__range range = q->range;
        PG_UNROLL for (size_t i = 0; i < m; i++) s[i] = pg__within(s[i], &range);
    }
    PG_UNROLL for (size_t i = 0; i < m; i++) store_n(to + i * ld, s[i], n);
}

/* Where a block is in its operands, and in what is asked for. */
typedef struct walk {
    const float *a, *b;
    const char *next_a, *next_b;
} walk;

PG_INLINE void step(size_t vecs, size_t m, const block *q, walk *at, vec s[VECS][MOST_ROWS],
                    size_t a_row, size_t a_col, size_t b_row, int cut)
{
    vec w[VECS];
    __builtin_prefetch(at->next_a, 0, 2);
    PG_UNROLL for (size_t v = 0; v < vecs; v++)
    {
        if (v * sizeof(vec) % LINE == 0)
            __builtin_prefetch(at->next_b + v * sizeof(vec), 0, 2);
        w[v] = cut && v + 1 == vecs ? pg__load_some(at->b + v * PG_VEC, q->last)
                                    : pg__load(at->b + v * PG_VEC);
    }
    at->next_a += q->next.a_step;
    at->next_b += q->next.b_step;
    PG_UNROLL for (size_t i = 0; i < m; i++)
    {
        const vec x = pg__splat(at->a[i * a_row]);
        PG_UNROLL for (size_t v = 0; v < vecs; v++) s[v][i] = pg__mul_add(x, w[v], s[v][i]);
    }
    at->a += a_col;
    at->b += b_row;
}

PG_INLINE void product(size_t vecs, size_t m, const block *q, size_t a_row, size_t a_col,
                       size_t b_row, int cut)
{
    walk at = {q->a, q->b, q->next.a, q->next.b};
    size_t left = q->k;
    vec s[VECS][MOST_ROWS];
    PG_UNROLL for (size_t v = 0; v < vecs; v++)
    {
        PG_UNROLL for (size_t i = 0; i < m; i++) s[v][i] = pg__splat(0);
    }
    const float *plus = q->plus ? q->plus : q->c;
    for (; (q->plus || q->far) && left > m + SOON; left--)
        step(vecs, m, q, &at, s, a_row, a_col, b_row, cut);
    /* A row of them at each step: all at once would hold up the operands. */
    for (size_t i = 0; (q->plus || q->far) && i < m && left > 0; i++, left--) {
        for (size_t v = 0; v < vecs; v++) {
            __builtin_prefetch(q->c + i * q->ldc + v * PG_VEC, 1);
            __builtin_prefetch(plus + i * q->ldc + v * PG_VEC);
        }
        step(vecs, m, q, &at, s, a_row, a_col, b_row, cut);
    }
    for (; left > 0; left--)
        step(vecs, m, q, &at, s, a_row, a_col, b_row, cut);
    PG_UNROLL for (size_t v = 0; v < vecs; v++)
    {
        if (v + 1 < vecs || q->last == PG_VEC)
            finish(s[v], m, q, v, PG_VEC);
        else
            finish(s[v], m, q, v, q->last);
    }
}

typedef void (*block_fn)(const block *q);

/* Rows that are lda apart, by a packed panel; columns, by rows of ldb, cut if the vector set can
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

/* Rows of a block as tiles: equal ones, of which the first `more` have one more. */
typedef struct cut {
    size_t each, more;
} cut;

static cut cut_of(size_t rows, size_t most)
{
    const size_t tiles = (rows + most - 1) / most;
    return (cut){rows / tiles, rows % tiles};
}

/* How a product is cut: depth numbers are summed at a time, over blocks of rows. few: w stays in
 * the nearest cache, so that blocks are as small as tiles, and c is walked through in order too. */
typedef struct plan {
    size_t m, n, k;
    size_t chunks, depth, rows;
    int few;
    cut cuts[VECS + 1]; /* of `rows` rows, by the vectors of a panel */
} plan;

static void cut_rows(plan *s, size_t rows)
{
    for (size_t vecs = 1; vecs <= VECS; vecs++)
        s->cuts[vecs] = cut_of(rows, rows_of[vecs]);
}

static plan plan_of(size_t m, size_t n, size_t k)
{
    plan s = {.m = m, .n = n, .k = k, .chunks = k > DEPTH ? (k + DEPTH - 1) / DEPTH : 1};
    s.depth = (k + s.chunks - 1) / s.chunks;
    s.few = k * n <= 8192;
    const size_t floats = s.chunks > 1 ? s.depth + n : s.depth + 1;
    s.rows = s.few ? 0 : (s.chunks > 1 ? 49152 : 32768) / floats / FEW_ROWS * FEW_ROWS;
    if (s.rows == 0)
        s.rows = FEW_ROWS;
    cut_rows(&s, s.rows);
    return s;
}

/* What is asked for while a block is computed, in its order: bytes for each row of a vector. Tiles
 * take a few hundred cycles, divisions dozens: there are none for each of them. */
typedef struct following {
    const char *a, *c;
    double a_each, c_each;
    double per_row, per_step; /* 1 / rows, 1 / depth */
} following;

static following following_of(const plan *s, size_t r, size_t rows, const float *a, const float *c)
{
    const size_t next = min_size(s->rows, s->m - r - rows), parts = vectors(s->n) * s->chunks;
    const double each = (double)(next * sizeof *a) / (double)(parts * rows);
    return (following){.a = (const char *)(a + (r + rows) * s->k),
                       .c = (const char *)(c + (r + rows) * s->n),
                       .a_each = each * (double)s->k,
                       .c_each = each * (double)s->n,
                       .per_row = 1 / (double)rows,
                       .per_step = s->depth > 0 ? 1 / (double)s->depth : 0};
}

/* `part` parts from `at` on, of `each` bytes, in 1 / per_step steps. */
static inline const char *part_of(const char *p, double each, size_t at, size_t part,
                                  double per_step, size_t *step)
{
    *step = each > 0 ? (size_t)(ptrdiff_t)(each * (double)part * per_step) + 1 : 0;
    return p + (ptrdiff_t)(each * (double)at);
}

/* Rows of a result, and what they are made of. plus: laid out as c; or NULL. */
typedef struct rows_of_c {
    size_t r, rows;
    const float *a, *bias, *plus;
    pg__range range;
    float *c;
} rows_of_c;

/* By one panel, of which the numbers from `at` on are summed. done: vectors of the block that came
 * before, in all its chunks. */
static void multiply_panel(const plan *s, const panel *p, const rows_of_c *x, const following *f,
                           size_t at, size_t done, const float *packed)
{
    const size_t depth = min_size(s->depth, s->k - at);
    const float *w = packed + p->j * s->k + at * p->width;
    const double w_each = (double)(depth * p->width * sizeof *w) * f->per_row;
    const cut tiles = s->cuts[p->vecs];
    const int is_last = at + depth == s->k;
    block q = {.k = depth,
               .last = p->last,
               .b = w,
               .bias = x->bias ? x->bias + p->j : NULL,
               .lda = s->k,
               .ldc = s->n,
               .add = at > 0,
               .far = !s->few && at == 0};
    if (is_last)
        q.range = x->range;
    for (size_t i = 0, t, n = 0; i < x->rows; i += t, n++) {
        const size_t cell = (x->r + i) * s->n + p->j;
        t = tiles.each + (n < tiles.more);
        q.a = x->a + (x->r + i) * s->k + at;
        q.c = x->c + cell;
        q.plus = is_last && x->plus ? x->plus + cell : NULL;
        const size_t begin = done * x->rows + p->vecs * i, part = p->vecs * t;
        q.next.a = part_of(f->a, f->a_each, begin, part, f->per_step, &q.next.a_step);
        if (s->few)
            q.next.b = part_of(f->c, f->c_each, begin, part, f->per_step, &q.next.b_step);
        else
            q.next.b = part_of((const char *)(w + s->k * p->width), w_each, i, t, f->per_step,
                               &q.next.b_step);
        by_rows[p->vecs][t](&q);
    }
}

static void multiply(size_t m, size_t n, size_t k, const float *a, const float *packed,
                     const float *bias, const float *plus, pg__range range, float *c)
{
    plan s = plan_of(m, n, k);
    rows_of_c x = {.a = a, .bias = bias, .plus = plus, .range = range, .c = c};
    for (; x.r < m; x.r += x.rows) {
        x.rows = min_size(s.rows, m - x.r);
        if (x.rows < s.rows)
            cut_rows(&s, x.rows);
        const following f = following_of(&s, x.r, x.rows, a, c);
        size_t done = 0, at = 0;
        for (size_t i = 0; i < s.chunks; i++, at += s.depth)
            for (panel p = {0}; p.j + p.width < n; done += p.vecs) {
                p = panel_at(p.j + p.width, n);
                multiply_panel(&s, &p, &x, &f, at, done, packed);
            }
    }
}

/* Tiles of rows by one panel, which nothing is asked for: it would take as long as what is read. */
static void near_panel(size_t m, const panel *p, block q)
{
    const cut tiles = cut_of(m, rows_of[p->vecs]);
    q.last = p->last;
    q.next = (ahead){(const char *)q.a, (const char *)q.b, 0, 0};
    for (size_t i = 0, t, n = 0; i < m; i += t, n++) {
        t = tiles.each + (n < tiles.more);
        by_rows[p->vecs][t](&q);
        q.a += t * q.lda;
        q.c += t * q.ldc;
    }
}

static void multiply_near(size_t m, size_t n, size_t k, const float *a, size_t lda,
                          const float *packed, int add, float *c, size_t ldc)
{
    const plan s = plan_of(m, n, k);
    for (size_t i = 0, at = 0; i < s.chunks; i++, at += s.depth)
        for (panel p = {0}; m > 0 && p.j + p.width < n;) {
            p = panel_at(p.j + p.width, n);
            near_panel(m, &p,
                       (block){.k = min_size(s.depth, k - at),
                               .a = a + at,
                               .b = packed + p.j * k + at * p.width,
                               .lda = lda,
                               .ldc = ldc,
                               .c = c + p.j,
                               .add = add || at > 0});
        }
}

/* ---- columns by columns, over rows ---- */

/* Rows that are summed before the sum is added to others. A panel of them stays in the nearest
 * cache, where it is used by many rows of small tiles, or by few of large ones. */
#define MOST_SUMMED  (PG_VEC == 16 ? 256 : 128)
#define LEAST_SUMMED 64
#define COLUMNS      512 /* of the first operand, for which those rows stay in a cache */
#define COPIED       24  /* columns that make up for a copy of a panel's rows, measured with AVX2 */

/* Rows of both operands that are summed at a time, columns [i, i + columns) of the first. */
typedef struct slab {
    size_t n, k, i, columns, rows;
    size_t next; /* rows of the following slab */
    size_t ldb, ldc;
    const float *a, *b;
    int first;              /* of all rows: nobody has asked for them */
    int add;                /* to what is in c */
    float *sums_a, *sums_b; /* to which rows are added while they are near; or NULL */
} slab;

/* Where vectors cannot be cut, so that tiles are small too, the panel's rows are copied: apart,
 * they push each other out of the nearest cache. */
static const float *whole_panel(const slab *s, const panel *p, float *scratch, size_t *ld)
{
    const float *from = s->b + p->j;
    *ld = s->ldb;
    if (PG_VEC == 16 || (p->last == PG_VEC && s->columns < COPIED))
        return from;
    *ld = p->width;
    for (size_t r = 0; r < s->rows; r++)
        for (size_t v = 0; v < p->vecs; v++)
            pg__store(scratch + r * p->width + v * PG_VEC,
                      load_n(from + r * s->ldb + v * PG_VEC, v + 1 < p->vecs ? PG_VEC : p->last));
    return scratch;
}

/* A part of `span` bytes from p on that a tile asks for in `steps` steps: it is `part` of `parts`
 * wide and begins at `at`. */
static inline const char *share_of(const float *p, size_t span, size_t at, size_t part,
                                   size_t parts, size_t steps, size_t *step)
{
    *step = span > 0 && steps > 0 ? span * part / parts / steps + 1 : 0;
    return (const char *)p + span * at / parts;
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
        to.b_step = s->ldb * sizeof *b;
    } else if (s->next > 0) {
        to.b = share_of(s->b + s->rows * s->ldb, s->next * s->ldb * sizeof *b,
                        done * s->columns + p->vecs * i, p->vecs * t, all * s->columns, s->rows,
                        &to.b_step);
    }
    return to;
}

static void gradient_panel(const slab *s, const panel *p, float *c, float *scratch)
{
    const size_t most = rows_of[p->vecs];
    block q = {.k = s->rows, .last = p->last, .lda = s->k, .ldc = s->ldc, .add = s->add, .far = 1};
    q.b = whole_panel(s, p, scratch, &q.ldb);
    for (size_t i = 0, t; i < s->columns; i += t) {
        t = tile_at(i, s->columns, most);
        q.a = s->a + s->i + i;
        q.c = c + (s->i + i) * s->ldc + p->j;
        q.next = ahead_of(s, p, i, t);
        by_columns[p->vecs][t](&q);
    }
}

/* In their order, whatever the number at once. */
static void add_rows(size_t rows, size_t n, const float *x, size_t ld, float *restrict sums)
{
    size_t r = 0;
    for (; r + 4 <= rows; r += 4, x += 4 * ld)
        for (size_t j = 0; j < n; j++)
            sums[j] = (((sums[j] + x[j]) + x[ld + j]) + x[2 * ld + j]) + x[3 * ld + j];
    for (; r < rows; r++, x += ld)
        for (size_t j = 0; j < n; j++)
            sums[j] += x[j];
}

/* x: n, k, ldb, ldc, add, sums_a, sums_b */
static void sum_products(size_t m, const slab *x, const float *a, const float *b, float *c,
                         float *scratch)
{
    for (size_t i = 0; i < x->k; i += COLUMNS) {
        slab s = *x;
        s.i = i;
        s.columns = min_size(COLUMNS, s.k - i);
        const size_t fit = 65536 / (s.columns + s.n);
        const size_t most = fit < LEAST_SUMMED ? LEAST_SUMMED : min_size(fit, MOST_SUMMED);
        size_t r = 0;
        do {
            s.rows = m > 0 ? tile_at(r, m, most) : 0;
            s.next = r + s.rows < m ? tile_at(r + s.rows, m, most) : 0;
            s.a = a + r * s.k;
            s.b = b + r * s.ldb;
            s.first = r == 0;
            if (i == 0 && s.sums_a)
                add_rows(s.rows, s.k, s.a, s.k, s.sums_a);
            if (i == 0 && s.sums_b)
                add_rows(s.rows, s.n, s.b, s.ldb, s.sums_b);
            for (panel p = {0}; p.j + p.width < s.n;) {
                p = panel_at(p.j + p.width, s.n);
                gradient_panel(&s, &p, c, scratch);
            }
            s.add = 1;
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
                     float *sums, float *scratch)
{
    if (sums && k == 0)
        add_rows(m, n, b, n, sums);
    if (!turns(m, n, k)) {
        sum_products(m, &(slab){.n = n, .k = k, .ldb = n, .ldc = n, .sums_b = sums}, a, b, c,
                     scratch);
        return;
    }
    float *turned = scratch + MOST_SUMMED * VECS * PG_VEC;
    sum_products(m, &(slab){.n = k, .k = n, .ldb = k, .ldc = k, .sums_a = sums}, b, a, turned,
                 scratch);
    for (size_t i = 0; i < k; i++)
        for (size_t j = 0; j < n; j++)
            c[i * n + j] = turned[j * k + i];
}

static void gradient_part(size_t m, size_t n, size_t k, const float *a, const float *b, size_t ldb,
                          int add, float *c, size_t ldc, float *scratch)
{
    const slab s = {.n = n, .k = k, .ldb = ldb, .ldc = ldc, .add = add};
    sum_products(m, &s, a, b, c, scratch);
}

extern const pg__pointwise PG_ISA_NAME(pointwise);
const pg__pointwise PG_ISA_NAME(pointwise) = {
    .packed_floats = packed_floats,
    .pack = pack,
    .multiply = multiply,
    .multiply_near = multiply_near,
    .scratch_floats = scratch_floats,
    .gradient = gradient,
    .gradient_part = gradient_part,
};

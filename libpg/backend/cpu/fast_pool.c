/* fast_pool.c - pooling, all channels of a cell side by side. Windows that neither overlap nor
 * leave the image write their gradients instead of adding them. 2 x 2 windows read each cell once;
 * for nine cells (3 x 3) the intermediate result stays in registers. */
#include "backend/cpu/fast.h"
#include "ops/pool_geo.h"

#define PIECE 256 /* channels at a time: a window's data stays in the nearest cache */

/* As in the plain C reference: NaN wins. */
static inline float larger(float v, float than)
{
    return v > than || v != v ? v : than;
}

/* ---- windows of any kind: `n` channels, x and dx at the first cell's first of them ---- */

typedef struct window {
    const pg__pool_geo *g;
    size_t from[3], to[3], cells, n;
} window;

static void take_max(const window *w, const float *x, float *y)
{
    const size_t n = w->n;
    PG_EACH
    for (size_t k = 0; k < n; k++)
        y[k] = -INFINITY;
    PG_EACH_CELL(w->g, w->from, w->to)
    {
        const float *v = x + pg__pool_cell(w->g, a, b, c);
        PG_EACH
        for (size_t k = 0; k < n; k++)
            y[k] = larger(v[k], y[k]);
    }
}

static void take_mean(const window *w, const float *x, float *y)
{
    const size_t n = w->n;
    float sum[PIECE] = {0};
    PG_EACH_CELL(w->g, w->from, w->to)
    {
        const float *v = x + pg__pool_cell(w->g, a, b, c);
        PG_EACH
        for (size_t k = 0; k < n; k++)
            sum[k] += v[k];
    }
    const float cells = (float)w->cells;
    PG_EACH
    for (size_t k = 0; k < n; k++)
        y[k] = sum[k] / cells;
}

/* The first of the largest cells gets it all; others get nothing or, with `add`, keep what they
 * have. */
static inline void give_max(const window *w, const float *x, const float *dy, float *dx, int add)
{
    const size_t n = w->n;
    const float *first = x + pg__pool_cell(w->g, w->from[0], w->from[1], w->from[2]);
    float top[PIECE];
    int32_t best[PIECE], at = 0;
    PG_EACH
    for (size_t k = 0; k < n; k++) {
        top[k] = first[k];
        best[k] = 0;
    }
    PG_EACH_CELL(w->g, w->from, w->to)
    {
        const float *v = x + pg__pool_cell(w->g, a, b, c);
        PG_EACH
        for (size_t k = 0; k < n; k++) {
            const float new = v[k], old = top[k];
            const int32_t was = best[k];
            best[k] = new > old ? at : was;
            top[k] = new > old ? new : old;
        }
        at++;
    }
    at = 0;
    PG_EACH_CELL(w->g, w->from, w->to)
    {
        float *to = dx + pg__pool_cell(w->g, a, b, c);
        PG_EACH
        for (size_t k = 0; k < n; k++) {
            const float d = dy[k];
            to[k] = (add ? to[k] : 0) + (best[k] == at ? d : 0);
        }
        at++;
    }
}

static inline void give_mean(const window *w, const float *dy, float *dx, int add)
{
    const size_t n = w->n;
    const float cells = (float)w->cells;
    PG_EACH_CELL(w->g, w->from, w->to)
    {
        float *to = dx + pg__pool_cell(w->g, a, b, c);
        PG_EACH
        for (size_t k = 0; k < n; k++)
            to[k] = (add ? to[k] : 0) + dy[k] / cells;
    }
}

/* ---- windows of nine cells ---- */

#define NINE 9

/* Their places after the first, in windows that are not cut off anywhere. */
static void find_nine(const pg__pool_geo *g, size_t off[NINE])
{
    size_t n = 0;
    const size_t from[3] = {0, 0, 0};
    PG_EACH_CELL(g, from, g->window)
    {
        off[n++] = pg__pool_cell(g, a, b, c);
    }
}

static void take_nine(const float *x, const size_t *o, float *y, size_t n)
{
    const float *p = x + o[0], *q = x + o[1], *r = x + o[2], *s = x + o[3], *t = x + o[4],
                *u = x + o[5], *v = x + o[6], *f = x + o[7], *g = x + o[8];
    PG_EACH
    for (size_t k = 0; k < n; k++) {
        const float a = larger(r[k], larger(q[k], larger(p[k], -INFINITY)));
        const float b = larger(u[k], larger(t[k], larger(s[k], a)));
        y[k] = larger(g[k], larger(f[k], larger(v[k], b)));
    }
}

/* The first of the largest cells gets it all. */
static inline void give_nine(const float *x, const size_t *o, const float *dy, float *dx, size_t n,
                             int add)
{
#define CELLS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8)
#define WHERE(i)                  \
    const float *x##i = x + o[i]; \
    float *to##i = dx + o[i];
    CELLS(WHERE)
    PG_EACH
    for (size_t k = 0; k < n; k++) {
        float top = -INFINITY;
        int32_t best = 0;
        const int32_t d = pg__bits_of(dy[k]);
#define READ(i) \
    const float v##i = x##i[k], was##i = add ? to##i[k] : 0; /* unconditionally: no branch */
#define LOOK(i)                   \
    best = v##i > top ? i : best; \
    top = v##i > top ? v##i : top;
        CELLS(READ)
        CELLS(LOOK)
/* by bits: compilers turn a choice into a branch */
#define GIVE(i) to##i[k] = was##i + pg__of_bits(d & -(best == i));
        CELLS(GIVE)
    }
#undef GIVE
#undef LOOK
#undef READ
#undef WHERE
#undef CELLS
}

typedef enum what { TAKE_MAX, TAKE_MEAN, GIVE_MAX, GIVE_MEAN, ADD_MAX, ADD_MEAN } what;

static void one_window(what todo, window *w, const float *x, float *dx, const float *dy, float *y)
{
    for (size_t k = 0; k < w->g->channels; k += PIECE) {
        w->n = w->g->channels - k < PIECE ? w->g->channels - k : PIECE;
        switch (todo) {
        case TAKE_MAX: take_max(w, x + k, y + k); break;
        case TAKE_MEAN: take_mean(w, x + k, y + k); break;
        case GIVE_MAX: give_max(w, x + k, dy + k, dx + k, 0); break;
        case GIVE_MEAN: give_mean(w, dy + k, dx + k, 0); break;
        case ADD_MAX: give_max(w, x + k, dy + k, dx + k, 1); break;
        case ADD_MEAN: give_mean(w, dy + k, dx + k, 1); break;
        }
    }
}

/* Is the window of cell `at` along axis i nowhere cut off? */
static inline int is_inside(const pg__pool_geo *g, size_t i, size_t at)
{
    const size_t from = at * g->stride[i];
    return from >= g->before[i] && from - g->before[i] + g->window[i] <= g->x[i];
}

static void one_of_nine(what todo, const size_t *off, size_t n, const float *x, float *dx,
                        const float *dy, float *y)
{
    if (todo == TAKE_MAX)
        take_nine(x, off, y, n);
    else if (todo == GIVE_MAX)
        give_nine(x, off, dy, dx, n, 0);
    else
        give_nine(x, off, dy, dx, n, 1);
}

/* x or dx: the larger images; y or dy: the smaller ones. */
static void each_window(what todo, const pg__pool_geo *g, const float *x, float *dx,
                        const float *dy, float *y)
{
    const size_t image = g->x[0] * g->x[1] * g->x[2] * g->channels;
    const int is_max = todo == TAKE_MAX || todo == GIVE_MAX || todo == ADD_MAX;
    const int nine = is_max && g->window[0] * g->window[1] * g->window[2] == NINE;
    window w = {.g = g};
    size_t at[3], off = 0, nine_off[NINE];
    if (nine)
        find_nine(g, nine_off);
    for (size_t r = 0; r < g->rows; r++)
        for (at[0] = 0; at[0] < g->y[0]; at[0]++)
            for (at[1] = 0; at[1] < g->y[1]; at[1]++) {
                const int whole = nine && is_inside(g, 0, at[0]) && is_inside(g, 1, at[1]);
                for (at[2] = 0; at[2] < g->y[2]; at[2]++, off += g->channels) {
                    const float *to_x = x ? x + r * image : NULL, *to_dy = dy ? dy + off : NULL;
                    float *to_dx = dx ? dx + r * image : NULL, *to_y = y ? y + off : NULL;
                    if (whole && is_inside(g, 2, at[2])) {
                        const size_t first = pg__pool_cell(g, at[0] * g->stride[0] - g->before[0],
                                                           at[1] * g->stride[1] - g->before[1],
                                                           at[2] * g->stride[2] - g->before[2]);
                        one_of_nine(todo, nine_off, g->channels, to_x + first,
                                    to_dx ? to_dx + first : NULL, to_dy, to_y);
                        continue;
                    }
                    w.cells = pg__pool_clip(g, at, w.from, w.to);
                    one_window(todo, &w, to_x, to_dx, to_dy, to_y);
                }
            }
}

/* ---- 2 x 2 windows side by side, one line of them at a time ---- */

static int is_two_by_two(const pg__pool_geo *g)
{
    int is = g->x[0] == 1 && g->window[0] == 1 && g->stride[0] == 1 && g->before[0] == 0;
    for (size_t i = 1; i < 3; i++)
        is &= g->window[i] == 2 && g->stride[i] == 2 && g->before[i] == 0 && g->y[i] == g->x[i] / 2;
    return is;
}

/* The first line of cells of window line b of row r. */
static size_t line_of(const pg__pool_geo *g, size_t r, size_t b)
{
    return (r * g->x[1] + 2 * b) * g->x[2] * g->channels;
}

/* If channels do not fill vectors, they are processed in constant numbers, the last ones again with
 * some before them: results do not depend on what was written. */
#define BY_WIDTHS(n, BLOCK)                         \
    do {                                            \
        if ((n) % 16 == 0)                          \
            BLOCK(0, n);                            \
        else if ((n) > 16)                          \
            for (size_t k = 0; k < (n); k += 16)    \
                BLOCK((n)-k < 16 ? (n)-16 : k, 16); \
        else if ((n) >= 4)                          \
            for (size_t k = 0; k < (n); k += 4)     \
                BLOCK((n)-k < 4 ? (n)-4 : k, 4);    \
        else                                        \
            for (size_t k = 0; k < (n); k++)        \
                BLOCK(k, 1);                        \
    } while (0)

static inline void max_block(const float *x, size_t right, size_t below, float *y, size_t width)
{
    PG_EACH
    for (size_t k = 0; k < width; k++)
        y[k] = larger(x[below + right + k],
                      larger(x[below + k], larger(x[right + k], larger(x[k], -INFINITY))));
}

static inline void max_block_grad(const float *x, size_t right, size_t below, const float *dy,
                                  float *dx, size_t width)
{
    PG_EACH
    for (size_t k = 0; k < width; k++) {
        const float a0 = x[k], a1 = x[right + k], b0 = x[below + k], b1 = x[below + right + k];
        const float t1 = a1 > a0 ? a1 : a0, t2 = b0 > t1 ? b0 : t1, d3 = dy[k];
        const float d2 = b1 > t2 ? 0 : d3, d1 = b0 > t1 ? 0 : d2, d0 = a1 > a0 ? 0 : d1;
        dx[k] = d0; /* what none of the later cells took */
        dx[right + k] = a1 > a0 ? d1 : 0;
        dx[below + k] = b0 > t1 ? d2 : 0;
        dx[below + right + k] = b1 > t2 ? d3 : 0;
    }
}

/* What the next line of windows begins with: it lies in memory, and no processor sees two lines of
 * cells side by side coming. */
static inline void ask(const float *p, size_t n)
{
    for (size_t k = 0; k < n; k += 16)
        __builtin_prefetch(p + k, 0, 2);
}

/* next: from a cell to the one that the following line has in its place. */
static void max_line(const pg__pool_geo *g, const float *x, float *y, size_t next)
{
    const size_t n = g->channels, below = g->x[2] * n;
    for (size_t c = 0; c < g->y[2]; c++, x += 2 * n, y += n) {
        ask(x + next, 2 * n);
        ask(x + next + below, 2 * n);
#define BLOCK(at, width) max_block(x + (at), n, below, y + (at), width)
        BY_WIDTHS(n, BLOCK);
#undef BLOCK
    }
}

static void max_line_grad(const pg__pool_geo *g, const float *x, const float *dy, float *dx,
                          size_t next)
{
    const size_t n = g->channels, below = g->x[2] * n;
    for (size_t c = 0; c < g->y[2]; c++, x += 2 * n, dx += 2 * n, dy += n) {
        ask(x + next, 2 * n);
        ask(x + next + below, 2 * n);
        ask(dx + next, 2 * n);
        ask(dx + next + below, 2 * n);
#define BLOCK(at, width) max_block_grad(x + (at), n, below, dy + (at), dx + (at), width)
        BY_WIDTHS(n, BLOCK);
#undef BLOCK
    }
}

/* Behind window line b of row r; 0: nothing is. */
static size_t next_of(const pg__pool_geo *g, size_t r, size_t b)
{
    if (b + 1 < g->y[1])
        return line_of(g, r, b + 1) - line_of(g, r, b);
    return r + 1 < g->rows ? line_of(g, r + 1, 0) - line_of(g, r, b) : 0;
}

/* What no window covers. */
static void clear_rest(const pg__pool_geo *g, size_t r, float *dx)
{
    const size_t n = g->channels, line = g->x[2] * n, covered = 2 * g->y[2] * n;
    float *at = dx + r * g->x[1] * line;
    for (size_t b = 0; b < g->x[1]; b++, at += line)
        if (b >= 2 * g->y[1])
            memset(at, 0, line * sizeof *at);
        else if (covered < line)
            memset(at + covered, 0, (line - covered) * sizeof *at);
}

/* ---- both ---- */

void PG_FAST_FN(pool)(PG_REF_ARGS)
{
    const pg__pool_attrs *a = attrs_;
    const pg__pool_geo g = pg__pool_geo_of(a, in[0].shape, out[0].shape);
    const float *x = in[0].p;
    float *y = out[0].p;
    PG_UNUSED(n_in), PG_UNUSED(n_out);
    if (!a->max || !is_two_by_two(&g)) {
        each_window(a->max ? TAKE_MAX : TAKE_MEAN, &g, x, NULL, NULL, y);
        return;
    }
    for (size_t r = 0; r < g.rows; r++)
        for (size_t b = 0; b < g.y[1]; b++, y += g.y[2] * g.channels)
            max_line(&g, x + line_of(&g, r, b), y, next_of(&g, r, b));
}

/* Does every cell belong to exactly one window? */
static int is_tiled(const pg__pool_geo *g)
{
    int is = 1;
    for (size_t i = 0; i < 3; i++)
        is &=
            g->before[i] == 0 && g->stride[i] == g->window[i] && g->y[i] * g->stride[i] == g->x[i];
    return is;
}

/* One window over everything strides by 1, but only once. */
static pg__pool_geo with_strides_of_one_window(pg__pool_geo g)
{
    for (size_t i = 0; i < 3; i++)
        if (g.y[i] == 1)
            g.stride[i] = g.window[i];
    return g;
}

void PG_FAST_FN(pool_grad)(PG_REF_ARGS)
{
    const pg__pool_attrs *a = attrs_;
    const pg__pool_geo g =
        with_strides_of_one_window(pg__pool_geo_of(a, out[0].shape, in[1].shape));
    const float *x = in[0].p, *dy = in[1].p;
    float *dx = out[0].p;
    PG_UNUSED(n_in), PG_UNUSED(n_out);
    if (a->max && is_two_by_two(&g)) {
        for (size_t r = 0; r < g.rows; r++) {
            for (size_t b = 0; b < g.y[1]; b++, dy += g.y[2] * g.channels)
                max_line_grad(&g, x + line_of(&g, r, b), dy, dx + line_of(&g, r, b),
                              next_of(&g, r, b));
            clear_rest(&g, r, dx);
        }
    } else if (is_tiled(&g)) {
        each_window(a->max ? GIVE_MAX : GIVE_MEAN, &g, x, dx, dy, NULL);
    } else {
        memset(dx, 0, (size_t)out[0].n * sizeof *dx);
        each_window(a->max ? ADD_MAX : ADD_MEAN, &g, x, dx, dy, NULL);
    }
}

/* tiles.c - see tiles.h.
 *
 * Both the window and a piece are row-major, so the rows of a piece that fall into the window are
 * one stretch of its source, however the tensor was cut. Where the cut is along the first axis, a
 * piece is one stretch of the tensor as well, and is read without the window. */
#include "store/tiles.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/thread.h"
#include "base/try.h"

/* ---- do they tile the tensor? ---- */

static int by_start(const void *a, const void *b)
{
    const pg__tile *x = a, *y = b;
    for (uint32_t k = 0; k < PG_MAX_RANK; k++)
        if (x->start[k] != y->start[k])
            return x->start[k] < y->start[k] ? -1 : 1;
    return 0;
}

static uint64_t volume(const uint64_t *dims, uint32_t rank)
{
    uint64_t n = 1;
    for (uint32_t k = 0; k < rank; k++)
        n *= dims[k]; /* of a part of a tensor whose size has been checked */
    return n;
}

/* "[0:4, 0:9]" */
typedef struct box_text {
    char s[160];
} box_text;

static box_text show(const pg__tiled *t, const pg__tile *p)
{
    box_text b = {"["};
    size_t n = 1;
    for (uint32_t k = 0; k < t->rank && n < sizeof b.s - 48; k++)
        n += (size_t)snprintf(b.s + n, sizeof b.s - n, "%s%" PRIu64 ":%" PRIu64, k ? ", " : "",
                              p->start[k], p->start[k] + p->size[k]);
    b.s[n] = ']';
    return b;
}

static int is_inside(const pg__tiled *t, const pg__tile *p)
{
    for (uint32_t k = 0; k < t->rank; k++)
        if (p->start[k] > t->dims[k] || p->size[k] > t->dims[k] - p->start[k])
            return 0;
    return 1;
}

static int overlap(const pg__tiled *t, const pg__tile *a, const pg__tile *b)
{
    for (uint32_t k = 0; k < t->rank; k++)
        if (a->start[k] >= b->start[k] + b->size[k] || b->start[k] >= a->start[k] + a->size[k])
            return 0;
    return 1;
}

pg_status pg__tiles_check(pg__tiled *t, pg_err *err)
{
    uint64_t covered = 0, n_pairs = 0;
    size_t kept = 0;
    const uint64_t all = volume(t->dims, t->rank);
    for (size_t i = 0; i < t->n; i++) {
        if (!is_inside(t, &t->v[i]))
            return pg_fail(err, PG_E_FORMAT, "%s: piece %s lies outside of the tensor",
                           PG_SHOW(t->name), show(t, &t->v[i]).s);
        if (volume(t->v[i].size, t->rank))
            t->v[kept++] = t->v[i];
    }
    t->n = kept;
    if (kept)
        qsort(t->v, kept, sizeof *t->v, by_start);
    for (size_t i = 0; i < kept; i++) {
        const pg__tile *p = &t->v[i];
        for (size_t k = i + 1;
             k < kept && (t->rank == 0 || t->v[k].start[0] < p->start[0] + p->size[0]); k++) {
            if (++n_pairs > PG_LIMIT_TILE_PAIRS)
                return pg_fail(err, PG_E_LIMIT, "%s: too many pieces side by side (%zu in all)",
                               PG_SHOW(t->name), kept);
            if (overlap(t, p, &t->v[k]))
                return pg_fail(err, PG_E_FORMAT, "%s: pieces %s and %s overlap", PG_SHOW(t->name),
                               show(t, p).s, show(t, &t->v[k]).s);
        }
        covered += volume(p->size, t->rank);
    }
    if (covered != all)
        return pg_fail(err, PG_E_FORMAT, "%s: its pieces hold %s of its %s elements",
                       PG_SHOW(t->name), PG_NUM(covered), PG_NUM(all));
    return PG_OK;
}

/* ---- a regular grid ---- */

static uint64_t across(const pg__tiled *t, uint32_t axis)
{
    return t->dims[axis] / t->step[axis] + (t->dims[axis] % t->step[axis] != 0);
}

static pg__tile of_grid(const pg__tiled *t, size_t i)
{
    pg__tile x = {.source = i};
    uint64_t rest = i;
    for (uint32_t k = t->rank; k-- > 0; rest /= across(t, k)) {
        const uint64_t left = t->dims[k] - (x.start[k] = rest % across(t, k) * t->step[k]);
        x.size[k] = left < t->step[k] ? left : t->step[k];
    }
    return x;
}

pg_status pg__tiles_grid(pg__tiled *t, pg_err *err)
{
    uint64_t n = 1, bytes = t->elem;
    for (uint32_t k = 0; k < t->rank; k++) {
        if (t->step[k] == 0)
            return pg_fail(err, PG_E_FORMAT, "%s: chunks without elements", PG_SHOW(t->name));
        if (__builtin_mul_overflow(bytes, t->dims[k], &bytes) || bytes > INT64_MAX ||
            __builtin_mul_overflow(n, across(t, k), &n) || n > PG_LIMIT_OBJECTS)
            return pg_fail(err, PG_E_LIMIT, "%s: its shape is too large, or its chunks too small",
                           PG_SHOW(t->name));
    }
    t->n = (size_t)n;
    if (n > 1)
        return PG_OK;
    t->v = pg__mem_array(1, sizeof *t->v);
    if (!t->v)
        return pg__nomem(err);
    if (n)
        t->v[0] = of_grid(t, 0);
    return PG_OK;
}

const pg__tile *pg__tiles_whole(const pg__tiled *t)
{
    return t->n == 1 ? t->v : NULL;
}

pg_pieces pg__tiles_pieces(const pg__tiled *t)
{
    pg_pieces p = {.n = t->n ? t->n : 1}; /* without elements there is no piece */
    for (uint32_t k = 0; !t->v && k < t->rank; k++)
        p.axes |= (uint32_t)(t->step[k] < t->dims[k]) << k;
    for (size_t i = 0; t->v && i < t->n; i++)
        for (uint32_t k = 0; k < t->rank; k++)
            p.axes |= (uint32_t)(t->v[i].size[k] < t->dims[k]) << k;
    return p;
}

/* ---- reading ---- */

void pg__tile_window_fini(pg__tile_window *w)
{
    pg__mem_free(w->rows);
    for (size_t i = 0; i < PG_TILES_THREADS; i++)
        pg__mem_free(w->part[i].buf);
    *w = (pg__tile_window){.n_threads = w->n_threads};
}

static pg_status reserve(unsigned char **buf, size_t *cap, size_t n, pg_err *err)
{
    if (n <= *cap)
        return PG_OK;
    pg__mem_free(*buf);
    *cap = 0;
    *buf = pg__mem_bare(n);
    if (!*buf)
        return pg__nomem(err);
    *cap = n;
    return PG_OK;
}

/* What one read of a piece brings: its elements first ... first + n, and where in the tensor the
 * runs of it lie. A run is what both have in one stretch. */
typedef struct stretch {
    const pg__tiled *t;
    const pg__tile *p;
    uint64_t run;                 /* elements of a run */
    uint32_t axes;                /* that count runs: the first of all axes */
    uint64_t n_runs;              /* of the piece */
    uint64_t stride[PG_MAX_RANK]; /* elements of the tensor */
} stretch;

static stretch stretch_of(const pg__tiled *t, const pg__tile *p)
{
    stretch s = {.t = t, .p = p, .run = 1, .axes = t->rank, .n_runs = 1};
    uint64_t stride = 1;
    for (uint32_t k = t->rank; k-- > 0; stride *= t->dims[k])
        s.stride[k] = stride;
    while (s.axes > 0) {
        s.axes--;
        s.run *= p->size[s.axes];
        if (p->size[s.axes] != t->dims[s.axes])
            break;
    }
    for (uint32_t k = 0; k < s.axes; k++)
        s.n_runs *= p->size[k];
    return s;
}

/* The element of the tensor with which a run begins. */
static uint64_t run_at(const stretch *s, uint64_t i)
{
    uint64_t at = 0;
    for (uint32_t k = s->axes; k-- > 0; i /= s->p->size[k])
        at += (s->p->start[k] + i % s->p->size[k]) * s->stride[k];
    for (uint32_t k = s->axes; k < s->t->rank; k++)
        at += s->p->start[k] * s->stride[k];
    return at;
}

/* The first run that ends behind an element of the tensor: runs are in the tensor's order. */
static uint64_t first_run(const stretch *s, uint64_t element)
{
    uint64_t lo = 0, hi = s->n_runs;
    while (lo < hi) {
        const uint64_t mid = lo + (hi - lo) / 2;
        if (run_at(s, mid) + s->run > element)
            hi = mid;
        else
            lo = mid + 1;
    }
    return lo;
}

/* Elements from ... to of the tensor, which are being put together. */
typedef struct filling {
    pg__tile_window *w;  /* for the rows of pieces */
    unsigned char *rows; /* the window's, or the caller's */
    const pg__tiled *t;
    uint64_t from, to;
    pg__tile_fetch fetch;
    void *ctx;
    size_t first; /* piece of a grid */
} filling;

/* The elements of a piece that lie between them, to their places. */
static pg_status add_piece(const filling *f, size_t worker, const pg__tile *p, pg_err *err)
{
    pg_status st = PG_OK;
    const size_t elem = f->t->elem;
    const stretch s = stretch_of(f->t, p);
    const uint64_t first = first_run(&s, f->from), end = first_run(&s, f->to);
    const uint64_t last = end < s.n_runs && run_at(&s, end) < f->to ? end + 1 : end;
    if (first >= last)
        return PG_OK;
    /* The first and the last run may be cut. */
    const uint64_t head = run_at(&s, first), tail = run_at(&s, last - 1);
    const uint64_t skip = head < f->from ? f->from - head : 0;
    const uint64_t over = tail + s.run > f->to ? tail + s.run - f->to : 0;
    const uint64_t begin = first * s.run + skip;
    const size_t n = (size_t)((last - first) * s.run - skip - over) * elem;
    unsigned char *rows = f->rows;
    if (last - first == 1)
        return f->fetch(f->ctx, p, begin * elem, rows + (head + skip - f->from) * elem, n, err);
    PG_TRY(reserve(&f->w->part[worker].buf, &f->w->part[worker].cap, n, err));
    PG_TRY(f->fetch(f->ctx, p, begin * elem, f->w->part[worker].buf, n, err));
    const unsigned char *at = f->w->part[worker].buf;
    for (uint64_t i = first; i < last; i++) {
        const uint64_t run = run_at(&s, i), lo = run < f->from ? f->from : run;
        const uint64_t hi = run + s.run > f->to ? f->to : run + s.run;
        const size_t len = (size_t)(hi - lo) * elem;
        memcpy(rows + (lo - f->from) * elem, at, len);
        at += len;
    }
done:
    return st;
}

/* Do elements from ... to of the tensor lie between the first and the last of the piece? */
static int reaches(const pg__tiled *t, const pg__tile *p, uint64_t from, uint64_t to)
{
    uint64_t first = 0, last = 0;
    for (uint32_t k = 0; k < t->rank; k++) {
        first = first * t->dims[k] + p->start[k];
        last = last * t->dims[k] + p->start[k] + p->size[k] - 1;
    }
    return first < to && last >= from;
}

static pg_status add_of_grid(void *ctx, size_t worker, size_t item, pg_err *err)
{
    const filling *f = ctx;
    const pg__tile x = of_grid(f->t, f->first + item);
    return reaches(f->t, &x, f->from, f->to) ? add_piece(f, worker, &x, err) : PG_OK;
}

/* Of a grid, the pieces in its rows that the window meets. */
static pg_status fill_from_grid(filling *f, pg_err *err)
{
    const pg__tiled *t = f->t;
    const uint64_t rows = t->step[0] < t->dims[0] ? t->step[0] : t->dims[0];
    const uint64_t row = rows * volume(t->dims + 1, t->rank - 1);
    const size_t in_row = t->n / (size_t)across(t, 0);
    const size_t end = ((size_t)((f->to - 1) / row) + 1) * in_row;
    const size_t n = (f->to - f->from) * t->elem < PG_TILES_FEW ? 1 : f->w->n_threads;
    f->first = (size_t)(f->from / row) * in_row;
    return pg__parallel(n < PG_TILES_THREADS ? n : PG_TILES_THREADS, end - f->first, add_of_grid, f,
                        err);
}

static pg_status fill_from_list(const filling *f, pg_err *err)
{
    const pg__tiled *t = f->t;
    const uint64_t row = t->rank ? volume(t->dims + 1, t->rank - 1) : 0;
    for (size_t i = 0; i < t->n && t->v[i].start[0] * row < f->to; i++) {
        const pg__tile *x = &t->v[i];
        const pg_status st = reaches(t, x, f->from, f->to) ? add_piece(f, 0, x, err) : PG_OK;
        if (st != PG_OK)
            return st;
    }
    return PG_OK;
}

/* Bytes of a window: no more than it takes to read every piece in large steps, so that it stays in
 * the processor's cache. What is compressed is decompressed once for a window. */
static size_t window_of(const pg__tiled *t)
{
    const size_t wanted = t->n * PG_TILES_READ;
    if (!t->v || wanted > PG_TILES_WINDOW)
        return PG_TILES_WINDOW;
    return wanted < PG_TILES_LEAST ? PG_TILES_LEAST : wanted;
}

static pg_status put_together(filling *f, pg_err *err)
{
    return f->t->v ? fill_from_list(f, err) : fill_from_grid(f, err);
}

/* The window that begins with the element that holds byte off. */
static pg_status fill(pg__tile_window *w, const pg__tiled *t, pg__tile_fetch fetch, void *ctx,
                      uint64_t off, pg_err *err)
{
    pg_status st = PG_OK;
    const uint64_t all = volume(t->dims, t->rank), from = off / t->elem;
    const uint64_t most = window_of(t) / t->elem;
    const uint64_t to = all - from > most ? from + most : all;
    filling f = {.w = w, .t = t, .from = from, .to = to, .fetch = fetch, .ctx = ctx};
    w->tensor = NULL;
    PG_TRY(reserve(&w->rows, &w->cap, (size_t)(to - from) * t->elem, err));
    f.rows = w->rows;
    PG_TRY(put_together(&f, err));
    w->tensor = t;
    w->off = from * t->elem;
    w->n = (size_t)(to - from) * t->elem;
done:
    return st;
}

/* Are n bytes from off on, whole elements of few pieces, as many as a window would bring at a time?
 * Then they need not be copied once more. */
static int is_direct(const pg__tiled *t, uint64_t off, size_t n)
{
    return t->v && off % t->elem == 0 && n % t->elem == 0 && n >= PG_TILES_DIRECT &&
           window_of(t) == PG_TILES_LEAST;
}

/* The element of the tensor with which a piece begins: by_start() sorts by it. */
static uint64_t first_of(const pg__tiled *t, const pg__tile *p)
{
    uint64_t at = 0;
    for (uint32_t k = 0; k < t->rank; k++)
        at = at * t->dims[k] + p->start[k];
    return at;
}

/* The piece of a list that holds an element of the tensor, if it is one run of it; *skip of its
 * elements are before that one, *left from it on. NULL: there is none. */
static const pg__tile *unbroken(const pg__tiled *t, uint64_t element, uint64_t *skip,
                                uint64_t *left)
{
    size_t lo = 0, hi = t->v ? t->n : 0;
    while (lo < hi) {
        const size_t mid = lo + (hi - lo) / 2;
        if (first_of(t, &t->v[mid]) > element)
            hi = mid;
        else
            lo = mid + 1;
    }
    if (lo == 0)
        return NULL;
    const pg__tile *p = &t->v[lo - 1];
    const stretch s = stretch_of(t, p);
    *skip = element - first_of(t, p);
    if (s.n_runs != 1 || *skip >= s.run)
        return NULL;
    *left = s.run - *skip;
    return p;
}

/* Reads as many of n bytes as one piece or the window has; *have: so many. */
static pg_status read_some(pg__tile_window *w, const pg__tiled *t, pg__tile_fetch fetch, void *ctx,
                           uint64_t off, void *buf, size_t n, size_t *have, pg_err *err)
{
    pg_status st = PG_OK;
    uint64_t skip, left;
    const pg__tile *p = unbroken(t, off / t->elem, &skip, &left);
    if (p) {
        const uint64_t cut = off % t->elem;
        *have = left * t->elem - cut < n ? (size_t)(left * t->elem - cut) : n;
        return fetch(ctx, p, skip * t->elem + cut, buf, *have, err);
    }
    if (w->tensor != t || off < w->off || off >= w->off + w->n) {
        if (is_direct(t, off, n)) {
            filling f = {w, buf, t, off / t->elem, (off + n) / t->elem, fetch, ctx, 0};
            *have = n;
            return put_together(&f, err);
        }
        PG_TRY(fill(w, t, fetch, ctx, off, err));
    }
    const size_t before = (size_t)(off - w->off);
    *have = w->n - before < n ? w->n - before : n;
    memcpy(buf, w->rows + before, *have);
done:
    return st;
}

pg_status pg__tiles_read(pg__tile_window *w, const pg__tiled *t, pg__tile_fetch fetch, void *ctx,
                         uint64_t off, void *buf, size_t n, pg_err *err)
{
    if (pg__tiles_whole(t))
        return fetch(ctx, t->v, off, buf, n, err);
    for (size_t at = 0, have; at < n; at += have) {
        const pg_status st =
            read_some(w, t, fetch, ctx, off + at, (unsigned char *)buf + at, n - at, &have, err);
        if (st != PG_OK)
            return st;
    }
    return PG_OK;
}

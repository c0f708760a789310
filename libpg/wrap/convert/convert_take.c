/* convert_take.c - makes and executes recipes for the tensors of an output. A recipe is a strided
 * view of tensors of the input. Elements are gathered into a window of the output, at most 8 MiB of
 * whole rows, so that memory does not grow with the model. If the part of the input that a window
 * needs is as small, it is read in one piece, otherwise run by run along the input's own rows. */
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "wrap/convert/convert.h"

#define WINDOW_BYTES ((size_t)8 << 20) /* larger buffers pay off if values are converted */

/* ---- recipes ---- */

void pg__take_whole(pg__take *t, const pg_store *s, size_t src)
{
    const pg_weight *w = pg__store_tensor(s, src);
    *t = (pg__take){.rank = w->rank, .n_blocks = 1, .from = w->dtype, .to = w->dtype};
    uint64_t step = 1; /* the store has checked that the product fits */
    for (uint32_t k = w->rank; k-- > 0;) {
        t->dims[k] = w->dims[k];
        t->stride[k] = step;
        step *= w->dims[k];
    }
    t->block[0].src = src;
}

static uint64_t n_elements(const pg__take *t)
{
    uint64_t n = 1;
    for (uint32_t k = 0; k < t->rank; k++)
        n *= t->dims[k];
    return n;
}

void pg__take_constant(pg__take *t, uint64_t n, pg_dtype dtype, double value)
{
    *t = (pg__take){
        .rank = 1, .n_blocks = 1, .dims = {n}, .from = dtype, .to = dtype, .value = value};
    t->block[0].src = PG_NONE;
}

int pg__take_show(pg__take *t, uint32_t rank, const uint64_t *dims)
{
    uint64_t n = 1;
    if (rank == 0 || rank > PG_SHOWN_RANK)
        return 0;
    for (uint32_t k = 0; k < rank; k++)
        if (__builtin_mul_overflow(n, dims[k], &n))
            return 0;
    if (n != n_elements(t))
        return 0;
    t->shown_rank = rank;
    memcpy(t->shown, dims, rank * sizeof *dims);
    return 1;
}

void pg__take_permute(pg__take *t, const uint32_t *perm)
{
    const pg__take old = *t;
    for (uint32_t k = 0; k < t->rank; k++) {
        t->dims[k] = old.dims[perm[k]];
        t->stride[k] = old.stride[perm[k]];
        if (perm[k] == old.axis)
            t->axis = k;
    }
}

void pg__take_index(pg__take *t, uint32_t axis, uint64_t i)
{
    const uint64_t extent = t->dims[axis];
    if (t->n_blocks > 1 && t->axis == axis) {
        const uint64_t each = extent / t->n_blocks;
        t->block[0] = t->block[i / each];
        t->n_blocks = 1;
        i %= each;
    }
    for (uint32_t b = 0; b < t->n_blocks; b++)
        t->block[b].base += i * t->stride[axis];
    t->rank--;
    for (uint32_t k = axis; k < t->rank; k++) {
        t->dims[k] = t->dims[k + 1];
        t->stride[k] = t->stride[k + 1];
    }
    t->dims[t->rank] = t->stride[t->rank] = 0;
    t->axis = t->n_blocks == 1 ? 0 : t->axis > axis ? t->axis - 1 : t->axis;
}

int pg__take_reorder(pg__take *t, uint32_t axis, uint32_t n, const uint32_t *order)
{
    if (n > PG_TAKE_BLOCKS || t->dims[axis] % n || (t->n_blocks > 1 && t->axis != axis) ||
        (t->n_blocks > 1 && t->n_blocks != n))
        return 0;
    pg__take_block old[PG_TAKE_BLOCKS] = {{0}};
    for (uint32_t b = 0; b < n; b++) {
        old[b] = t->block[t->n_blocks > 1 ? b : 0];
        if (t->n_blocks == 1)
            old[b].base += b * (t->dims[axis] / n) * t->stride[axis];
    }
    for (uint32_t b = 0; b < n; b++)
        t->block[b] = old[order[b]];
    t->axis = axis;
    t->n_blocks = n;
    return 1;
}

int pg__take_join(pg__take *t, const pg__take *parts, uint32_t n, uint32_t axis)
{
    if (n == 0 || n > PG_TAKE_BLOCKS)
        return 0;
    *t = parts[0];
    for (uint32_t b = 0; b < n; b++) {
        const pg__take *p = &parts[b];
        if (p->n_blocks != 1 || p->rank != t->rank || p->from != t->from ||
            memcmp(p->dims, parts[0].dims, sizeof p->dims) != 0 ||
            memcmp(p->stride, parts[0].stride, sizeof p->stride) != 0)
            return 0;
        t->block[b] = p->block[0];
    }
    t->axis = axis;
    t->n_blocks = n;
    return !__builtin_mul_overflow(t->dims[axis], (uint64_t)n, &t->dims[axis]);
}

uint64_t pg__take_bytes(const pg__take *t)
{
    return n_elements(t) * pg_dtype_bytes(t->to);
}

uint32_t pg__take_shape(const pg__take *t, uint64_t *dims)
{
    const uint32_t rank = t->shown_rank ? t->shown_rank : t->rank;
    memcpy(dims, t->shown_rank ? t->shown : t->dims, rank * sizeof *dims);
    return rank;
}

int pg__take_is_copy(const pg__take *t, const pg_store *s)
{
    const int here_big = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__;
    const pg_weight *w = t->block[0].src == PG_NONE ? NULL : pg__store_tensor(s, t->block[0].src);
    uint64_t step = 1;
    if (!w || t->plus || t->n_blocks != 1 || t->block[0].base || t->from != t->to)
        return 0;
    if (pg_dtype_bytes(w->dtype) > 1 && pg__store_big_endian(s, t->block[0].src) != here_big)
        return 0;
    for (uint32_t k = t->rank; k-- > 0;) {
        if (t->dims[k] != 1 && t->stride[k] != step)
            return 0;
        step *= t->dims[k];
    }
    return n_elements(t) * pg_dtype_bytes(w->dtype) == w->n_bytes;
}

/* ---- execution ---- */

struct pg__taker {
    pg_store *src;
    unsigned char *input, *gathered, *output; /* WINDOW_BYTES each */
    size_t which;                             /* tensor of the window, PG_NONE: none */
    uint64_t lo, hi;                          /* its elements */
    uint64_t *counted;                        /* per tensor: elements whose rounding is known */
    pg__rounding rounding;
};

pg_status pg__taker_new(pg__taker **out, pg_store *src, size_t n_tensors, pg_err *err)
{
    pg__taker *r = pg__mem_array(1, sizeof *r);
    if (!r)
        return pg__nomem(err);
    r->src = src;
    r->which = PG_NONE;
    r->counted = pg__mem_array(n_tensors, sizeof *r->counted);
    if (!r->counted) {
        pg__taker_free(r);
        return pg__nomem(err);
    }
    *out = r;
    return PG_OK;
}

void pg__taker_free(pg__taker *r)
{
    if (!r)
        return;
    pg__mem_free(r->input);
    pg__mem_free(r->gathered);
    pg__mem_free(r->output);
    pg__mem_free(r->counted);
    pg__mem_free(r);
}

const pg__rounding *pg__taker_rounding(const pg__taker *r)
{
    return &r->rounding;
}

static pg_status read_input(pg__taker *r, size_t tensor, uint64_t off, void *buf, size_t n,
                            pg_err *err)
{
    const size_t n_weights = pg_store_n_weights(r->src);
    return tensor < n_weights ? pg_store_read(r->src, tensor, off, buf, n, err)
                              : pg_store_read_state(r->src, tensor - n_weights, off, buf, n, err);
}

/* A part of one block: n[k] elements along each axis, the first at `base` of the input; in the
 * window they are `step` apart, from element `at` on. */
typedef struct box {
    uint32_t rank;
    size_t src, size; /* bytes of an element */
    uint64_t base, at;
    uint64_t n[PG_MAX_RANK], stride[PG_MAX_RANK], step[PG_MAX_RANK];
} box;

static void put(unsigned char *to, const unsigned char *from, size_t n, size_t to_step,
                size_t from_step, size_t size)
{
    switch (size) {
    case 4:
        for (size_t i = 0; i < n; i++)
            memcpy(to + i * to_step * 4, from + i * from_step * 4, 4);
        break;
    case 2:
        for (size_t i = 0; i < n; i++)
            memcpy(to + i * to_step * 2, from + i * from_step * 2, 2);
        break;
    default:
        for (size_t i = 0; i < n; i++)
            memcpy(to + i * to_step * size, from + i * from_step * size, size);
    }
}

/* Moves to the next index over all axes but `skip`; 0 after the last. */
static int advance(const box *b, uint32_t skip, uint64_t *index, uint64_t *from, uint64_t *to)
{
    for (uint32_t k = b->rank; k-- > 0;) {
        if (k == skip)
            continue;
        *from += b->stride[k];
        *to += b->step[k];
        if (++index[k] < b->n[k])
            return 1;
        *from -= b->stride[k] * b->n[k];
        *to -= b->step[k] * b->n[k];
        index[k] = 0;
    }
    return 0;
}

/* The axis along which the input is read: the one of the smallest stride that is longer than 1. */
static uint32_t input_axis(const box *b)
{
    uint32_t best = 0;
    for (uint32_t k = 1; k < b->rank; k++)
        if (b->n[best] == 1 || (b->n[k] > 1 && b->stride[k] < b->stride[best]))
            best = k;
    return best;
}

/* How many of n elements, `step` apart, one read takes: neighbours with the bytes between them, but
 * at most a page for each. */
static uint64_t piece_of(uint64_t n, uint64_t step, size_t size)
{
    const uint64_t most = step > 4096 / size ? 1 : WINDOW_BYTES / size / step;
    return n < most ? n : most;
}

/* Gathers a box: its whole range of the input at once if that fits, otherwise run by run. */
static pg_status gather(pg__taker *r, const box *b, pg_err *err)
{
    pg_status st = PG_OK;
    uint64_t index[PG_MAX_RANK] = {0}, from = 0, to = b->at, span = 1;
    const uint32_t axis = b->rank ? input_axis(b) : 0;
    const uint64_t run = b->rank ? b->n[axis] : 1, step = b->rank ? b->stride[axis] : 1;
    for (uint32_t k = 0; k < b->rank; k++) {
        if (b->n[k] == 0)
            return PG_OK;
        span += (b->n[k] - 1) * b->stride[k];
    }
    const int at_once = span <= WINDOW_BYTES / b->size;
    if (at_once)
        PG_TRY(read_input(r, b->src, b->base * b->size, r->input, (size_t)span * b->size, err));
    do {
        for (uint64_t i = 0, n; i < run; i += n) {
            const uint64_t at = from + i * step, apart = b->rank ? b->step[axis] : 1;
            n = at_once ? run : piece_of(run - i, step, b->size);
            if (!at_once)
                PG_TRY(read_input(r, b->src, (b->base + at) * b->size, r->input,
                                  (size_t)((n - 1) * step + 1) * b->size, err));
            put(r->gathered + (size_t)(to + i * apart) * b->size,
                r->input + (at_once ? (size_t)at * b->size : 0), (size_t)n, (size_t)apart,
                (size_t)step, b->size);
        }
    } while (b->rank > 1 && advance(b, axis, index, &from, &to));
done:
    return st;
}

/* The window: elements lo..hi of the output are `count` rows of axis `cut`, with all later axes, at
 * one index of the earlier ones. */
typedef struct window {
    uint32_t cut;
    uint64_t index[PG_MAX_RANK], count, inner;
} window;

static window window_at(const pg__take *t, uint64_t element)
{
    const uint64_t most = WINDOW_BYTES / 8; /* elements of the largest type */
    window w = {.count = 1, .inner = 1};
    uint64_t rest = element;
    w.cut = t->rank ? t->rank - 1 : 0;
    while (w.cut > 0 && w.inner * t->dims[w.cut] <= most)
        w.inner *= t->dims[w.cut--];
    for (uint32_t k = t->rank; k-- > 0; rest /= t->dims[k])
        w.index[k] = k > w.cut ? 0 : rest % t->dims[k];
    if (t->rank) {
        const uint64_t left = t->dims[w.cut] - w.index[w.cut], fit = most / w.inner;
        w.count = left < fit ? left : fit;
    }
    return w;
}

/* The part of the window in block b; 0 if there is none. */
static int box_of(box *out, const pg__take *t, const window *w, uint32_t b)
{
    const uint64_t each = t->rank ? t->dims[t->axis] / t->n_blocks : 1;
    uint64_t step = 1;
    *out = (box){.rank = t->rank,
                 .src = t->block[b].src,
                 .size = pg_dtype_bytes(t->from),
                 .base = t->block[b].base};
    for (uint32_t k = t->rank; k-- > 0;) {
        uint64_t first = w->index[k], n = k < w->cut ? 1 : k == w->cut ? w->count : t->dims[k];
        const uint64_t window_first = first, window_n = n;
        if (k == t->axis) {
            const uint64_t lo = b * each, hi = lo + each, end = first + n;
            first = first > lo ? first : lo;
            if (first >= (end < hi ? end : hi))
                return 0;
            n = (end < hi ? end : hi) - first;
            out->base += (first - lo) * t->stride[k];
        } else {
            out->base += first * t->stride[k];
        }
        out->at += (first - window_first) * step;
        out->n[k] = n;
        out->stride[k] = t->stride[k];
        out->step[k] = step;
        step *= window_n;
    }
    return 1;
}

static int buffers(pg__taker *r)
{
    unsigned char **const all[] = {&r->input, &r->gathered, &r->output};
    for (size_t i = 0; i < 3; i++)
        if (!*all[i] && !(*all[i] = pg__mem_array(WINDOW_BYTES, 1)))
            return 0;
    return 1;
}

static void fill(unsigned char *to, const pg__take *t, size_t n)
{
    const size_t size = pg_dtype_bytes(t->from);
    unsigned char one[8];
    pg__round(one, t->from, &t->value, PG_F64, 1, NULL);
    for (size_t i = 0; i < n; i++)
        memcpy(to + i * size, one, size);
}

/* The window's elements of the input, into r->gathered. */
static pg_status gather_window(pg__taker *r, const pg__take *t, const window *w, pg_err *err)
{
    pg_status st = PG_OK;
    for (uint32_t b = 0; b < t->n_blocks; b++) {
        box part;
        if (t->block[b].src == PG_NONE)
            fill(r->gathered, t, (size_t)(w->count * w->inner));
        else if (box_of(&part, t, w, b))
            PG_TRY(gather(r, &part, err));
    }
done:
    return st;
}

/* Adds the same elements of another tensor, in the type of both. */
static pg_status add_window(pg__taker *r, const pg__take *t, const window *w, pg_err *err)
{
    pg_status st = PG_OK;
    pg__take other = *t;
    const size_t n = (size_t)(w->count * w->inner), size = pg_dtype_bytes(t->from);
    for (uint32_t b = 0; b < t->n_blocks; b++)
        other.block[b].src = t->plus - 1;
    memcpy(r->output, r->gathered, n * size);
    PG_TRY(gather_window(r, &other, w, err));
    for (size_t i = 0; i < n; i++) {
        const double sum = pg__value_at(r->output + i * size, t->from) +
                           pg__value_at(r->gathered + i * size, t->from);
        pg__round(r->gathered + i * size, t->from, &sum, PG_F64, 1, NULL);
    }
done:
    return st;
}

/* Makes the window that holds an element. */
static pg_status load(pg__taker *r, const pg__take *t, size_t which, uint64_t element, pg_err *err)
{
    pg_status st = PG_OK;
    const window w = window_at(t, element);
    const uint64_t n = w.count * w.inner;
    uint64_t lo = 0;
    r->which = PG_NONE;
    if (!buffers(r))
        return pg__nomem(err);
    for (uint32_t k = 0; k < t->rank; k++)
        lo = lo * t->dims[k] + w.index[k];
    PG_TRY(gather_window(r, t, &w, err));
    if (t->plus)
        PG_TRY(add_window(r, t, &w, err));
    pg__round(r->output, t->to, r->gathered, t->from, (size_t)n,
              lo == r->counted[which] ? &r->rounding : NULL);
    if (lo == r->counted[which])
        r->counted[which] = lo + n;
    r->which = which;
    r->lo = lo;
    r->hi = lo + n;
done:
    return st;
}

pg_status pg__taker_read(pg__taker *r, const pg__take *t, size_t which, uint64_t off, void *buf,
                         size_t n, pg_err *err)
{
    pg_status st = PG_OK;
    const size_t size = pg_dtype_bytes(t->to);
    unsigned char *to = buf;
    while (n) {
        const uint64_t element = off / size;
        if (r->which != which || element < r->lo || element >= r->hi)
            PG_TRY(load(r, t, which, element, err));
        const uint64_t first = off - r->lo * size, end = (r->hi - r->lo) * size;
        const size_t k = n < end - first ? n : (size_t)(end - first);
        memcpy(to, r->output + first, k);
        to += k, off += k, n -= k;
    }
done:
    return st;
}

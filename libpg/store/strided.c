/* strided.c - row-major reading of data stored in another order.
 *
 * A slab is a range of indices of one dimension with all dimensions after it, a few MiB in size. It
 * is filled in the order of the source: the dimension with the smallest stride runs fastest, so
 * that a transposed matrix takes one read per column and slab, not one per element. */
#include "store/strided.h"

#include <string.h>

#include "base/mem.h"

#define SLAB_BYTES   ((size_t)32 << 20)
#define WINDOW_BYTES ((size_t)64 << 10)
#define AHEAD_BYTES  ((size_t)16 << 10) /* read where runs are short: the next one is likely near \
                                         */
#define SHORT_BYTES  1024u
#define SPARSE_BYTES 512u /* elements further apart are read one at a time */

void pg__slab_fini(pg__slab *s)
{
    pg__mem_free(s->buf);
    pg__mem_free(s->window);
    *s = (pg__slab){0};
}

pg_status pg__strided_check(const pg__strided *v, pg_err *err)
{
    uint64_t last = v->first, far;
    for (uint32_t k = 0; k < v->rank; k++)
        if (v->dims[k] == 0)
            return PG_OK;
    for (uint32_t k = 0; k < v->rank; k++)
        if (__builtin_mul_overflow(v->dims[k] - 1, v->strides[k], &far) ||
            __builtin_add_overflow(last, far, &last))
            last = UINT64_MAX;
    if (last >= v->n_source)
        return pg_fail(err, PG_E_FORMAT, "its shape and strides leave its storage");
    return PG_OK;
}

int pg__strided_is_plain(const pg__strided *v)
{
    uint64_t want = 1;
    for (uint32_t k = v->rank; k-- > 0;) {
        if (v->dims[k] != 1 && v->strides[k] != want)
            return 0;
        want *= v->dims[k];
    }
    return 1;
}

/* One dimension of a slab; strides in elements. */
typedef struct axis {
    uint64_t n, from, to;
} axis;

typedef struct reader {
    pg__slab *s;
    const pg__strided *v;
    pg__fetch fetch;
    void *ctx;
    pg_err *err;
} reader;

/* Makes the window hold the element at byte `at`, and more of a run that spans `span` bytes. */
static pg_status look(reader *r, uint64_t at, uint64_t span, int sparse)
{
    pg__slab *s = r->s;
    const uint64_t left = r->v->n_source * r->v->size - at;
    uint64_t n = sparse ? r->v->size : span < SHORT_BYTES ? AHEAD_BYTES : span;
    if (at >= s->window_off && at + r->v->size <= s->window_off + s->window_n)
        return PG_OK;
    n = n < WINDOW_BYTES ? n : WINDOW_BYTES;
    n = n < left ? n : left;
    s->window_n = 0;
    const pg_status st = r->fetch(r->ctx, s->tensor, at, s->window, (size_t)n, r->err);
    if (st == PG_OK) {
        s->window_off = at;
        s->window_n = (size_t)n;
    }
    return st;
}

static void scatter(unsigned char *to, size_t to_step, const unsigned char *from, size_t from_step,
                    size_t n, size_t size)
{
    if (to_step == size && from_step == size) {
        memcpy(to, from, n * size);
        return;
    }
    for (; n; n--, to += to_step, from += from_step)
        switch (size) { /* the compiler turns fixed sizes into moves */
        case 1: *to = *from; break;
        case 2: memcpy(to, from, 2); break;
        case 4: memcpy(to, from, 4); break;
        default: memcpy(to, from, 8); break;
        }
}

/* Copies elements of the fastest axis, from element `from` of the source to `to` in the slab. */
static pg_status copy_run(reader *r, const axis *a, uint64_t from, unsigned char *to)
{
    const size_t size = r->v->size, to_step = (size_t)a->to * size;
    const uint64_t step = a->from * size;
    for (uint64_t left = a->n; left;) {
        const uint64_t at = from * size;
        const pg_status st = look(r, at, (left - 1) * step + size, step > SPARSE_BYTES);
        if (st != PG_OK)
            return st;
        const uint64_t seen = r->s->window_off + r->s->window_n - at;
        const uint64_t fit = step ? (seen - size) / step + 1 : left;
        const uint64_t n = fit < left ? fit : left;
        scatter(to, to_step, r->s->window + (at - r->s->window_off), (size_t)step, (size_t)n, size);
        from += n * a->from;
        to += n * to_step;
        left -= n;
    }
    return PG_OK;
}

/* Fills the slab with the box of the axes, the fastest first. */
static pg_status fill(reader *r, const axis *axes, uint32_t n, uint64_t first)
{
    uint64_t at[PG_MAX_RANK] = {0};
    for (;;) {
        uint64_t from = first, to = 0;
        for (uint32_t k = 1; k < n; k++) {
            from += at[k] * axes[k].from;
            to += at[k] * axes[k].to;
        }
        const pg_status st = copy_run(r, &axes[0], from, r->s->buf + to * r->v->size);
        if (st != PG_OK)
            return st;
        uint32_t k = 1;
        while (k < n && ++at[k] == axes[k].n)
            at[k++] = 0;
        if (k >= n)
            return PG_OK;
    }
}

static void sort_axes(axis *axes, uint32_t n)
{
    for (uint32_t i = 1; i < n; i++)
        for (uint32_t k = i; k && axes[k].from < axes[k - 1].from; k--) {
            const axis a = axes[k];
            axes[k] = axes[k - 1];
            axes[k - 1] = a;
        }
}

/* Loads the slab that holds byte off. */
static pg_status load(reader *r, uint64_t off)
{
    const pg__strided *v = r->v;
    pg__slab *s = r->s;
    axis axes[PG_MAX_RANK] = {{.n = 1, .to = 1}};
    uint64_t inner = v->size, first = v->first; /* bytes of all dimensions after d */
    uint32_t d = v->rank - 1, n = 0;
    while (d && inner * v->dims[d] <= SLAB_BYTES)
        inner *= v->dims[d--];
    const uint64_t most = SLAB_BYTES / inner, row = off / inner % v->dims[d] / most * most;
    const uint64_t count = v->dims[d] - row < most ? v->dims[d] - row : most;
    uint64_t outer = off / inner / v->dims[d], step = 1;
    s->off = (outer * v->dims[d] + row) * inner;
    s->n = 0;
    first += row * v->strides[d];
    for (uint32_t k = d; k-- > 0; outer /= v->dims[k])
        first += outer % v->dims[k] * v->strides[k];
    for (uint32_t k = v->rank; k-- > d;) {
        const uint64_t len = k == d ? count : v->dims[k];
        if (len > 1)
            axes[n++] = (axis){.n = len, .from = v->strides[k], .to = step};
        step *= len;
    }
    sort_axes(axes, n);
    const pg_status st = fill(r, axes, n ? n : 1, first);
    if (st == PG_OK)
        s->n = (size_t)(count * inner);
    return st;
}

static pg_status prepare(pg__slab *s, const pg__strided *v, size_t tensor, pg_err *err)
{
    uint64_t want = v->size;
    for (uint32_t k = 0; k < v->rank; k++)
        if (__builtin_mul_overflow(want, v->dims[k], &want) || want > SLAB_BYTES) {
            want = SLAB_BYTES;
            break;
        }
    if (s->cap < want) {
        pg__mem_free(s->buf);
        s->cap = s->n = 0;
        s->buf = pg__mem_array((size_t)want, 1);
        if (!s->buf)
            return pg__nomem(err);
        s->cap = (size_t)want;
    }
    if (!s->window && !(s->window = pg__mem_array(WINDOW_BYTES, 1)))
        return pg__nomem(err);
    if (s->tensor != tensor)
        s->n = s->window_n = 0;
    s->tensor = tensor;
    return PG_OK;
}

pg_status pg__strided_read(pg__slab *s, const pg__strided *v, size_t tensor, pg__fetch fetch,
                           void *ctx, uint64_t off, void *buf, size_t n, pg_err *err)
{
    reader r = {.s = s, .v = v, .fetch = fetch, .ctx = ctx, .err = err};
    unsigned char *out = buf;
    if (pg__strided_is_plain(v))
        return fetch(ctx, tensor, v->first * v->size + off, buf, n, err);
    pg_status st = prepare(s, v, tensor, err);
    while (st == PG_OK && n) {
        if (off < s->off || off - s->off >= s->n) {
            st = load(&r, off);
            continue;
        }
        const size_t have = s->n - (size_t)(off - s->off), k = n < have ? n : have;
        memcpy(out, s->buf + (off - s->off), k);
        out += k;
        off += k;
        n -= k;
    }
    return st;
}

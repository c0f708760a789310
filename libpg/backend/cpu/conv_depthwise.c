/* conv_depthwise.c - convolutions of each channel separately, with one filter per channel. The
 * cells that meet are the same for all channels and are found beforehand. Two ways: line by line,
 * and cell by cell for all geometries that the first has no kernels for. */
#include <string.h>

#include "backend/cpu/conv.h"
#include "backend/cpu/depthwise_kernels.h"
#include "base/mem.h"

typedef struct state {
    pg__conv_pass pass;
    pg__depthwise d;
    const pg__conv_kernels *kernels;
    int by_lines;
    size_t *first[3];
    pg__tap *taps[3];
} state;

static void release(void *p)
{
    state *s = p;
    for (int i = 0; s && i < 3; i++) {
        pg__mem_free(s->first[i]);
        pg__mem_free(s->taps[i]);
    }
    pg__mem_free(s);
}

/* The cell of x that kernel cell k meets from cell y of the result; 0 in the padding. */
static int meets(const pg__conv *c, int axis, size_t y, size_t k, size_t *x)
{
    const size_t to = y * c->stride[axis] + k * c->dilation[axis];
    *x = to - c->before[axis];
    return to >= c->before[axis] && *x < c->x[axis];
}

/* Taps of one axis, sorted by the cells of the result. */
static pg_status find_taps(state *s, const pg__conv *c, int axis, pg_err *err)
{
    const int back = s->pass == PG_CONV_X;
    const size_t n = back ? c->x[axis] : c->y[axis], k_n = c->k[axis];
    size_t *first = s->first[axis] = pg__mem_array(n + 1, sizeof *first);
    pg__tap *taps = s->taps[axis] = pg__mem_array(c->y[axis] * k_n, sizeof *taps);
    size_t x, count = 0;
    if (!first || !taps)
        return pg__nomem(err);
    for (size_t at = 0; at < n; at++) {
        first[at] = count;
        for (size_t k = 0; k < k_n && !back; k++)
            if (meets(c, axis, at, k, &x))
                taps[count++] = (pg__tap){k, x};
        for (size_t k = 0; k < k_n && back; k++) {
            const size_t to = at + c->before[axis], from = k * c->dilation[axis];
            const size_t y = to < from ? c->y[axis] : (to - from) / c->stride[axis];
            if (y < c->y[axis] && meets(c, axis, y, k, &x) && x == at)
                taps[count++] = (pg__tap){k, y};
        }
    }
    first[n] = count;
    s->d.axis[axis] = (pg__taps){n, first, taps};
    return PG_OK;
}

static int is_depthwise(const pg__conv *c)
{
    return c->groups == c->in && c->out == c->in;
}

static int has_lines(const pg__conv *c)
{
    return (c->k[2] == 3 || c->k[2] == 5 || c->k[2] == 7) && c->stride[2] <= 2 &&
           c->dilation[2] == 1 && c->in >= c->kernels->lines->vec;
}

static pg_status prepare(void **out, const pg__conv *c, int by_lines, pg__needs *needs, pg_err *err)
{
    pg_status st = PG_OK;
    state *s = pg__mem_array(1, sizeof *s);
    if (!s)
        return pg__nomem(err);
    s->pass = c->pass;
    s->kernels = c->kernels;
    s->by_lines = by_lines;
    s->d.back = c->pass == PG_CONV_X;
    s->d.stride = c->stride[2];
    s->d.before = c->before[2];
    s->d.rows = c->rows;
    s->d.channels = c->in;
    s->d.range = c->range;
    memcpy(s->d.of, c->pass == PG_CONV_X ? c->x : c->y, sizeof s->d.of);
    memcpy(s->d.from, c->pass == PG_CONV_X ? c->y : c->x, sizeof s->d.from);
    memcpy(s->d.k, c->k, sizeof s->d.k);
    for (int i = 0; st == PG_OK && i < 3; i++)
        st = find_taps(s, c, i, err);
    if (st != PG_OK) {
        release(s);
        return st;
    }
    needs->scratch_bytes = (by_lines ? c->kernels->lines->bytes
                                     : c->kernels->depthwise_bytes)(&s->d, c->pass == PG_CONV_W);
    *out = s;
    return PG_OK;
}

static pg_status prepare_lines(void **out, const pg__conv *c, pg__needs *needs, pg_err *err)
{
    return is_depthwise(c) && has_lines(c) ? prepare(out, c, 1, needs, err) : PG_OK;
}

static pg_status prepare_cells(void **out, const pg__conv *c, pg__needs *needs, pg_err *err)
{
    return is_depthwise(c) ? prepare(out, c, 0, needs, err) : PG_OK;
}

static void run(const void *p, const pg__conv_mem *m)
{
    const state *s = p;
    const pg__depthwise *d = &s->d;
    const pg__conv_kernels *k = s->kernels;
    const pg__depthwise_lines *lines = k->lines;
    switch (s->pass) {
    case PG_CONV_Y:
        (s->by_lines ? lines->depthwise : k->depthwise)(d, m->x, m->w, m->b, m->y, m->scratch);
        break;
    case PG_CONV_X:
        (s->by_lines ? lines->depthwise : k->depthwise)(d, m->y, m->w, NULL, m->x, m->scratch);
        break;
    case PG_CONV_W:
        if (m->w)
            (s->by_lines ? lines->depthwise_dw : k->depthwise_dw)(d, m->x, m->y, m->w, m->scratch);
        if (m->b)
            k->column_sums(m->y, d->rows * pg__conv_cells(d->of), d->channels, m->b);
        break;
    }
}

const pg__conv_way pg__conv_depthwise_lines = {
    "depthwise, by lines", prepare_lines, release, NULL, run, 1, 0, NULL};
const pg__conv_way pg__conv_depthwise = {"depthwise", prepare_cells, release, NULL, run, 0,
                                         0,           NULL};

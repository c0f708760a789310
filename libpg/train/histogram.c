/* histogram.c - values on the device counted in 30 buckets of one width between the least and the
 * greatest.
 *
 * Source: _buckets() of tensorboard/plugins/histogram/summary_v2.py (2.15.2): in double, the last
 * bucket holds the greatest value, and where all values are one, they count in the last bucket. */
#include "train/histogram.h"

#include <math.h>
#include <string.h>

#include "base/try.h"

#define PIECE 2048 /* elements looked at at a time */

/* What is found in two turns over the values. */
typedef struct spread {
    double least, greatest, width;
    uint64_t n;
    uint64_t counts[PG_EVENT_BUCKETS];
} spread;

typedef void look(spread *s, const double *v, size_t n);

static void find_ends(spread *s, const double *v, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(v[i]))
            continue;
        s->least = v[i] < s->least ? v[i] : s->least;
        s->greatest = v[i] > s->greatest ? v[i] : s->greatest;
        s->n++;
    }
}

static void count(spread *s, const double *v, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(v[i]))
            continue;
        const double at = (v[i] - s->least) / s->width; /* from 0 on: cutting is floor() */
        s->counts[at < PG_EVENT_BUCKETS - 1 ? (size_t)at : PG_EVENT_BUCKETS - 1]++;
    }
}

static pg_status each_piece(spread *s, look *f, pg_trainer *t, size_t param)
{
    const size_t bytes = t->backend->real_bytes, n_elems = t->n_elems[param];
    const char *from = t->params.at[param];
    double wide[PIECE];
    float piece[PIECE];
    pg_status st = PG_OK;
    for (size_t at = 0, n; at < n_elems; at += n) {
        n = n_elems - at < PIECE ? n_elems - at : PIECE;
        void *to = bytes == sizeof *wide ? (void *)wide : (void *)piece;
        PG_TRY(t->backend->get(t->dev, to, from + at * bytes, n * bytes));
        for (size_t i = 0; i < n && bytes != sizeof *wide; i++)
            wide[i] = (double)piece[i];
        f(s, wide, n);
    }
done:
    return st;
}

pg_status pg__param_histogram(double out[PG_EVENT_BUCKETS][3], pg_trainer *t, size_t param)
{
    spread s = {.least = INFINITY, .greatest = -INFINITY};
    pg_status st = PG_OK;
    PG_TRY(each_piece(&s, find_ends, t, param));
    if (s.n == 0) {
        memset(out, 0, sizeof(double[PG_EVENT_BUCKETS][3]));
        return PG_OK;
    }
    s.width = (s.greatest - s.least) / PG_EVENT_BUCKETS;
    if (s.width > 0)
        PG_TRY(each_piece(&s, count, t, param));
    else
        s.counts[PG_EVENT_BUCKETS - 1] = s.n;
    for (size_t i = 0; i < PG_EVENT_BUCKETS; i++) {
        out[i][0] = s.least + s.width * (double)i;
        out[i][1] = s.least + s.width * (double)(i + 1);
        out[i][2] = (double)s.counts[i];
    }
    out[PG_EVENT_BUCKETS - 1][1] = s.greatest;
done:
    return st;
}

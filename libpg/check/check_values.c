/* check_values.c - checks that all values are finite, in one pass over pieces of 256 KiB. In a
 * block without NaN and infinities (nearly all blocks of nearly every file), only zeros are
 * counted; both tests are integer loops of fixed length, which compilers vectorise. */
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/try.h"
#include "base/watch.h"
#include "check/check_impl.h"
#include "store/values.h"

enum { MAX_LISTED = 20, BLOCK = 256 };

typedef struct tally {
    uint64_t n, zeros, nan, inf;
    uint64_t first; /* element: the first that is not finite */
} tally;

#define SCAN(type, sign, exponent)                                            \
    do {                                                                      \
        type v[BLOCK];                                                        \
        for (; n - at >= BLOCK; at += BLOCK) {                                \
            type zeros = 0, bad = 0;                                          \
            memcpy(v, p + at * sizeof *v, sizeof v);                          \
            for (size_t i = 0; i < BLOCK; i++) {                              \
                const type magnitude = (type)(v[i] & (type) ~(sign));         \
                zeros = (type)(zeros + (magnitude == 0));                     \
                bad |= (type)((v[i] & (exponent)) == (exponent));             \
            }                                                                 \
            if (bad)                                                          \
                break;                                                        \
            t->zeros += zeros; /* 16 bits hold the 256 elements of a block */ \
        }                                                                     \
    } while (0)

/* Counts blocks of finite floats from element `at` on; returns the position of the first other
 * block, or of the incomplete last one. */
static size_t scan_blocks(tally *t, const unsigned char *p, size_t at, size_t n, pg_dtype dtype)
{
    switch (dtype) {
    case PG_F16: SCAN(uint16_t, 0x8000u, 0x7C00u); break;
    case PG_BF16: SCAN(uint16_t, 0x8000u, 0x7F80u); break;
    case PG_F32: SCAN(uint32_t, 0x80000000u, 0x7F800000u); break;
    case PG_F64: SCAN(uint64_t, 0x8000000000000000u, 0x7FF0000000000000u); break;
    default: break;
    }
    return at;
}

static void scan(tally *t, const unsigned char *p, size_t n, pg_dtype dtype)
{
    const size_t size = pg_dtype_bytes(dtype);
    for (size_t at = 0; at < n;) {
        at = scan_blocks(t, p, at, n, dtype);
        const size_t end = n - at < BLOCK ? n : at + BLOCK;
        for (; at < end; at++) {
            const double v = pg__value_at(p + at * size, dtype);
            const int nan = v != v, inf = !nan && v - v != 0;
            if ((nan || inf) && t->nan + t->inf == 0)
                t->first = t->n + at;
            t->nan += (uint64_t)nan;
            t->inf += (uint64_t)inf;
            t->zeros += v == 0;
        }
    }
    t->n += n;
}

static pg_status scan_tensor(tally *t, pg__checking *c, size_t i, unsigned char *buf, pg_err *err)
{
    pg_store *s = c->view.r.s;
    const pg_weight *w = pg__view_weight(&c->view, i);
    const size_t size = pg_dtype_bytes(w->dtype);
    for (uint64_t off = 0; off < w->n_bytes;) {
        const uint64_t left = w->n_bytes - off;
        const size_t n = left < PG_COPY_BYTES ? (size_t)left : PG_COPY_BYTES;
        if (pg__cancelled(c->o->cancel))
            return pg_fail(err, PG_E_CANCELLED, "interrupted");
        const size_t src = c->view.v[i].src, weights = pg_store_n_weights(s);
        const pg_status st = src < weights
                                 ? pg_store_read(s, src, off, buf, n, err)
                                 : pg_store_read_state(s, src - weights, off, buf, n, err);
        if (st != PG_OK)
            return st;
        scan(t, buf, n / size, w->dtype);
        pg__progress_add(c->o->progress, n);
        off += n;
    }
    return PG_OK;
}

/* "[0,2,17,5]": position of element `at` of a tensor. */
static pg_status position(pg__str *out, const pg_weight *w, uint64_t at, pg_err *err)
{
    pg_status st = PG_OK;
    uint64_t index[PG_MAX_RANK];
    for (uint32_t d = w->rank; d-- > 0;) {
        index[d] = at % w->dims[d];
        at /= w->dims[d];
    }
    PG_TRY(pg__str_puts(out, "[", err));
    for (uint32_t d = 0; d < w->rank; d++)
        PG_TRY(pg__str_printf(out, err, "%s%llu", d ? "," : "", (unsigned long long)index[d]));
    PG_TRY(pg__str_puts(out, "]", err));
done:
    return st;
}

static pg_status report_bad(pg__strs *lines, const pg__view *v, size_t i, const tally *t,
                            pg_err *err)
{
    pg_status st = PG_OK;
    pg__str at = {0};
    PG_TRY(position(&at, pg__view_weight(v, i), t->first, err));
    PG_TRY(pg__strs_printf(lines, err, "%s holds %s%s%s%s%s (first at %s)", PG_SHOW(v->v[i].label),
                           t->nan ? PG_NUM(t->nan) : "", t->nan ? " NaN" : "",
                           t->nan && t->inf ? " and " : "", t->inf ? PG_NUM(t->inf) : "",
                           t->inf ? " infinite" : "", at.s));
done:
    pg__str_fini(&at);
    return st;
}

static pg_status report_unread(pg__strs *lines, pg__checking *c, size_t i, const pg_err *why,
                               pg_err *err)
{
    const char *label = c->view.v[i].label;
    c->report.damaged = 1;
    return pg__strs_printf(lines, err, "%s cannot be read: %s", PG_SHOW(label), why->msg);
}

pg_status pg__check_values(pg__checking *c, pg_err *err)
{
    pg_status st = PG_OK;
    pg__strs lines = {0};
    uint64_t n = 0, zeros = 0, bad = 0, n_bytes = 0;
    size_t unread = 0;
    unsigned char *buf = pg__mem_array(PG_COPY_BYTES, 1);
    if (!buf)
        return pg__nomem(err);
    for (size_t i = 0; i < c->view.n; i++)
        n_bytes += pg__view_weight(&c->view, i)->n_bytes;
    pg__progress_start(c->o->progress, n_bytes);
    for (size_t i = 0; i < c->view.n; i++) {
        tally t = {0};
        pg_err why = {0};
        st = scan_tensor(&t, c, i, buf, &why);
        if (st == PG_E_FORMAT || st == PG_E_LIMIT) {
            unread++;
            PG_TRY(report_unread(&lines, c, i, &why, err));
            continue;
        }
        if (st != PG_OK) {
            (void)pg_fail(err, st, "%s", why.msg);
            pg_err_prefix(err, PG_SHOW(c->path));
            goto done;
        }
        n += t.n, zeros += t.zeros, bad += t.nan + t.inf;
        if (t.nan + t.inf)
            PG_TRY(report_bad(&lines, &c->view, i, &t, err));
    }
    if (unread)
        PG_TRY(pg__check_add(c, "values", 0, err, "%zu of %zu tensors cannot be read", unread,
                             c->view.n));
    else if (bad)
        PG_TRY(
            pg__check_add(c, "values", 0, err, "%s of %s are not finite", PG_NUM(bad), PG_NUM(n)));
    else
        PG_TRY(pg__check_add(c, "values", 1, err, "%s finite, %s zeros", PG_NUM(n), PG_NUM(zeros)));
    for (size_t i = 0; i < lines.n && i < MAX_LISTED; i++)
        PG_TRY(pg__check_detail(c, err, "%s", lines.v[i]));
    if (lines.n > MAX_LISTED)
        PG_TRY(pg__check_detail(c, err, "... %zu more tensors", lines.n - MAX_LISTED));
done:
    pg__strs_fini(&lines);
    pg__mem_free(buf);
    return st;
}

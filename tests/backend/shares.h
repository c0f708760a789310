/* shares.h - what every back end does where two are blended and one of them counts nothing. */
#ifndef PG_TEST_BACKEND_SHARES_H
#define PG_TEST_BACKEND_SHARES_H

#include <math.h>

#include "backend/backend.h"

/* 0 inf would be no number for good. */
static void check_share_of_nothing(const pg__backend *b, double keep, double take, double want)
{
    const double values[] = {keep == 0 ? NAN : 3, take == 0 ? INFINITY : 3};
    const float rounded[] = {(float)values[0], (float)values[1]};
    const size_t n = b->real_bytes;
    const char *from = n == sizeof *values ? (const char *)values : (const char *)rounded;
    _Alignas(double) char got[sizeof *values];
    pg__dev *d;
    void *a, *c;
    assert_ok(b->open(&d, 0, &(pg__dev_opts){.n_threads = 1}, NULL));
    assert_ok(b->alloc(d, &a, n, NULL));
    assert_ok(b->alloc(d, &c, n, NULL));
    assert_ok(b->put(d, a, from, n));
    assert_ok(b->put(d, c, from + n, n));
    assert_ok(b->flat.blend(d, a, keep, c, take, 1));
    assert_ok(b->get(d, got, a, n));
    assert_true((n == sizeof want ? *(double *)(void *)got : *(float *)(void *)got) == want);
    b->free(d, a);
    b->free(d, c);
    b->close(d);
}

static void check_shares_of_nothing(const pg__backend *b)
{
    check_share_of_nothing(b, 0, 0.5, 1.5);
    check_share_of_nothing(b, 0.5, 0, 1.5);
    check_share_of_nothing(b, 0, 0, 0);
}

#endif

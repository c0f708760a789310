/* dense.c - dense layers as matrix products. */
#include <string.h>

#include "backend/cpu/cpu.h"
#include "backend/cpu/dense_int8.h"
#include "backend/cpu/product.h"
#include "base/mem.h"
#include "base/try.h"

typedef struct dense {
    pg__product product;
    size_t packed_bytes; /* bytes made of w in every run; 0: none, or made once for all */
    size_t n_in;         /* an absent bias may have no place either */
    const pg__lines *lines;
    pg__dense_int8 *in_int8; /* instead of the product; or NULL */
} dense;

static size_t last(const pg__dims *s)
{
    return (size_t)s->d[s->rank - 1];
}

static size_t rows_of(const pg__dims *s)
{
    return last(s) > 0 ? (size_t)(pg__dims_elems(s) / last(s)) : 0;
}

/* A product [rows of s] x n over k. */
static pg_status new_state(void **state, const pg__cpu_inst *i, pg__product_kind kind,
                           const pg__dims *s, size_t n, size_t k, pg__needs *needs, pg_err *err)
{
    dense *d = pg__mem_array(1, sizeof *d);
    if (!d)
        return pg__nomem(err);
    const size_t m = rows_of(s), batch = s->rank > 1 && s->d[0] > 0 ? (size_t)s->d[0] : 1;
    *d = (dense){.product = pg__product_of(kind, m, m / batch, n, k, i->isa, 0, pg__cpu_numbers(i)),
                 .n_in = i->inst->n_in,
                 .lines = pg__isa_fns_of(i->isa)->lines};
    needs->shared_bytes = pg__product_packed_bytes(&d->product);
    needs->scratch_bytes = pg__product_scratch_bytes(&d->product);
    if (needs->shared_bytes > 0 && !pg__cpu_is_param(i, 1)) {
        d->packed_bytes = needs->scratch_bytes = needs->shared_bytes;
        needs->shared_bytes = 0;
    }
    *state = d;
    return PG_OK;
}

static void release(void *state)
{
    dense *d = state;
    pg__dense_int8_free(d->in_int8);
    pg__mem_free(d);
}

static void share(const void *state, void *const *args, void *shared)
{
    const dense *d = state;
    if (d->in_int8)
        pg__dense_int8_pack(d->in_int8, args[1], shared);
    else
        pg__product_pack(&d->product, args[1], shared);
}

static const float *packed_of(const dense *d, const float *w, void *scratch, const void *shared)
{
    if (d->packed_bytes == 0)
        return shared;
    pg__product_pack(&d->product, w, scratch);
    return scratch;
}

/* ---- y = x w + b ---- */

enum { X, W, B };

static pg_status prepare_int8(void **state, const pg__cpu_inst *i, pg__needs *needs, pg_err *err)
{
    const pg__dims *x = &i->shapes[X];
    const size_t batch = x->rank > 1 && x->d[0] > 0 ? (size_t)x->d[0] : 1;
    const size_t cells = rows_of(x) / batch, n = last(&i->shapes[W]);
    pg_status st = PG_OK;
    dense *d = NULL;
    if (!pg__dense_int8_pays(cells, n, last(x)))
        return PG_OK;
    d = pg__mem_array(1, sizeof *d);
    if (!d)
        return pg__nomem(err);
    *d = (dense){.n_in = i->inst->n_in};
    PG_TRY(pg__dense_int8_new(&d->in_int8, batch, cells, n, last(x), i->isa, needs, err));
    if (d->in_int8) {
        *state = d;
        d = NULL;
    }
done:
    if (d)
        release(d);
    return st;
}

static pg_status prepare(void **state, const pg__cpu_inst *i, pg__needs *needs, pg_err *err)
{
    pg_status st = PG_OK;
    if (pg__cpu_numbers(i) == PG_NUMBERS_INT8)
        PG_TRY(prepare_int8(state, i, needs, err));
    if (!*state)
        PG_TRY(new_state(state, i, PG_ROWS, &i->shapes[X], last(&i->shapes[W]), last(&i->shapes[X]),
                         needs, err));
done:
    return st;
}

static void run(const void *state, void *const *args, void *scratch, const void *shared)
{
    const dense *d = state;
    const float *bias = d->n_in > B ? args[B] : NULL;
    if (d->in_int8)
        pg__dense_int8_run(d->in_int8, args[X], shared, bias, args[d->n_in], scratch);
    else
        pg__product_run(&d->product, args[X], args[W], packed_of(d, args[W], scratch, shared), bias,
                        NULL, args[d->n_in], NULL);
}

const pg__cpu_kernel pg__cpu_dense = {prepare, release, share, run, NULL};

/* ---- dx = dy w' ---- */

enum { DY, DX_W, DX };

static pg_status prepare_dx(void **state, const pg__cpu_inst *i, pg__needs *needs, pg_err *err)
{
    return new_state(state, i, PG_ROWS_TURNED, &i->shapes[DY], (size_t)i->shapes[DX_W].d[0],
                     last(&i->shapes[DY]), needs, err);
}

static void run_dx(const void *state, void *const *args, void *scratch, const void *shared)
{
    const dense *d = state;
    pg__product_run(&d->product, args[DY], args[DX_W], packed_of(d, args[DX_W], scratch, shared),
                    NULL, NULL, args[DX], scratch);
}

const pg__cpu_kernel pg__cpu_dense_dx = {prepare_dx, release, share, run_dx, NULL};

/* ---- dw = x' dy, db = the sum of dy's rows ---- */

enum { DW_X, DW_DY, DW, DB };

static pg_status prepare_dw(void **state, const pg__cpu_inst *i, pg__needs *needs, pg_err *err)
{
    return new_state(state, i, PG_COLUMNS, &i->shapes[DW_DY], last(&i->shapes[DW_DY]),
                     last(&i->shapes[DW_X]), needs, err);
}

static void run_dw(const void *state, void *const *args, void *scratch, const void *shared)
{
    const dense *d = state;
    pg__product p = d->product;
    const float *dy = args[DW_DY];
    float *db = args[DB];
    (void)shared;
    if (db)
        memset(db, 0, p.n * sizeof *db);
    p.sums = p.own ? db : NULL; /* on the same way through dy */
    if (args[DW])
        pg__product_run(&p, args[DW_X], dy, NULL, NULL, NULL, args[DW], scratch);
    for (size_t r = 0; db && !(args[DW] && p.own) && r < p.m; r++)
        d->lines->add(db, dy + r * p.n, p.n);
}

const pg__cpu_kernel pg__cpu_dense_dw = {prepare_dw, release, NULL, run_dw, NULL};

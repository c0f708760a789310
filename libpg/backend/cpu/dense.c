/* dense.c - dense layers as matrix products; the bias comes first, and the product is added to it.
 */
#include <string.h>

#include "backend/cpu/cpu.h"
#include "backend/cpu/gemm.h"
#include "base/mem.h"

/* y[m x n] = x[m x k] w[k x n] + b */
typedef struct dense {
    size_t m, k, n;
    size_t n_in; /* an absent bias may have no place either */
    const pg__lines *lines;
} dense;

static size_t last(const pg__dims *s)
{
    return (size_t)s->d[s->rank - 1];
}

/* rows: the operand with the rows. */
static pg_status new_state(void **state, const pg__cpu_inst *i, const pg__dims *rows, size_t k,
                           size_t n, pg_err *err)
{
    dense *d = pg__mem_array(1, sizeof *d);
    if (!d)
        return pg__nomem(err);
    *d = (dense){.m = last(rows) > 0 ? (size_t)(pg__dims_elems(rows) / last(rows)) : 0,
                 .k = k,
                 .n = n,
                 .n_in = i->inst->n_in,
                 .lines = pg__isa_fns_of(i->isa)->lines};
    *state = d;
    return PG_OK;
}

static void release(void *state)
{
    pg__mem_free(state);
}

/* ---- y ---- */

enum { X, W, B };

static pg_status prepare(void **state, const pg__cpu_inst *i, pg__needs *needs, pg_err *err)
{
    (void)needs;
    return new_state(state, i, &i->shapes[X], last(&i->shapes[X]), last(&i->shapes[W]), err);
}

static void run(const void *state, void *const *args, void *scratch, const void *shared)
{
    const dense *d = state;
    const float *b = d->n_in > B ? args[B] : NULL;
    float *y = args[d->n_in];
    (void)scratch, (void)shared;
    for (size_t r = 0; b && r < d->m; r++)
        memcpy(y + r * d->n, b, d->n * sizeof *y);
    pg__gemm(d->m, d->n, d->k, 1, (pg__mat){args[X], d->k, 0}, (pg__mat){args[W], d->n, 0},
             b != NULL, y, d->n);
}

const pg__cpu_kernel pg__cpu_dense = {.prepare = prepare, .release = release, .run = run};

/* ---- dx = dy w' ---- */

enum { DY, DX_W, DX };

static pg_status prepare_dx(void **state, const pg__cpu_inst *i, pg__needs *needs, pg_err *err)
{
    (void)needs;
    return new_state(state, i, &i->shapes[DY], (size_t)i->shapes[DX_W].d[0], last(&i->shapes[DY]),
                     err);
}

static void run_dx(const void *state, void *const *args, void *scratch, const void *shared)
{
    const dense *d = state;
    (void)scratch, (void)shared;
    pg__gemm(d->m, d->k, d->n, 1, (pg__mat){args[DY], d->n, 0}, (pg__mat){args[DX_W], d->n, 1}, 0,
             args[DX], d->k);
}

const pg__cpu_kernel pg__cpu_dense_dx = {.prepare = prepare_dx, .release = release, .run = run_dx};

/* ---- dw = x' dy, db = the sum of dy's rows ---- */

enum { DW_X, DW_DY, DW, DB };

static pg_status prepare_dw(void **state, const pg__cpu_inst *i, pg__needs *needs, pg_err *err)
{
    (void)needs;
    return new_state(state, i, &i->shapes[DW_DY], last(&i->shapes[DW_X]), last(&i->shapes[DW_DY]),
                     err);
}

static void run_dw(const void *state, void *const *args, void *scratch, const void *shared)
{
    const dense *d = state;
    const float *dy = args[DW_DY];
    float *db = args[DB];
    (void)scratch, (void)shared;
    if (args[DW])
        pg__gemm(d->k, d->n, d->m, 1, (pg__mat){args[DW_X], d->k, 1}, (pg__mat){dy, d->n, 0}, 0,
                 args[DW], d->n);
    if (db)
        memset(db, 0, d->n * sizeof *db);
    for (size_t r = 0; db && r < d->m; r++)
        d->lines->add(db, dy + r * d->n, d->n);
}

const pg__cpu_kernel pg__cpu_dense_dw = {.prepare = prepare_dw, .release = release, .run = run_dw};

/* product.c - see product.h. The library applies the bias, or makes its gradient, if it can; else a
 * kernel does. */
#include "backend/cuda/product.h"

#include "backend/cuda/blas.h"
#include "backend/cuda/columns.h"
#include "backend/cuda/kernel_copy.h"
#include "base/mem.h"
#include "base/try.h"

typedef struct product {
    pg__product_size size;
    size_t n_in;
    int has_bias;
    pg__blas_plan *plain;
    pg__blas_plan *with;     /* the bias; NULL: there is none, or the library does not take it */
    pg__kernel_copy w, bias; /* bias: in the type of y, as libraries take it */
    pg__columns columns;
    pgk_type type, out_type;
} product;

void pg__product_release(void *state)
{
    product *p = state;
    if (!p)
        return;
    pg__blas_free(p->plain);
    pg__blas_free(p->with);
    pg__mem_free(p);
}

/* What is multiplied: x w, dy w', x' dy. */
static pg__blas_shape shape_of(const product *p)
{
    const pg__product_size *s = &p->size;
    pg__blas_shape b = {.m = s->m, .n = s->n, .k = s->k, .alpha = 1};
    b.a = b.b = p->type;
    b.c = p->out_type;
    if (s->pass == PG_PASS_X) {
        b.n = s->k;
        b.k = s->n;
        b.b_transposed = 1;
    } else if (s->pass == PG_PASS_W) {
        b.m = s->k;
        b.k = s->m;
        b.a_transposed = 1;
    }
    return b;
}

/* A sum over many rows for a small result is split, or most of the GPU would be idle; the library
 * does not split it if it also sums the bias. */
static int takes_bias_grad(const pg__product_size *s)
{
    return s->k * s->n >= (uint64_t)1 << 20 || s->m <= 4096;
}

/* Results that a gradient does not want are found at run time only, so both ways are there. */
static pg_status plan(product *p, pg__dev *d, pg__needs *needs, pg_err *err)
{
    pg__blas_shape s = shape_of(p);
    pg_err why = {0};
    pg_status st = PG_OK;
    if (p->has_bias && (p->size.pass != PG_PASS_W || takes_bias_grad(&p->size))) {
        s.epilogue = p->size.pass == PG_PASS_W ? PG_BLAS_BIAS_GRAD : PG_BLAS_BIAS;
        st = pg__blas_new(&p->with, d, &s, needs, &why);
        if (st != PG_OK && st != PG_E_UNSUPPORTED)
            return pg_fail(err, st, "%s", why.msg);
        s.epilogue = PG_BLAS_NONE;
    }
    return p->with && p->size.pass == PG_PASS_Y ? PG_OK
                                                : pg__blas_new(&p->plain, d, &s, needs, err);
}

pg_status pg__product_new(void **state, const pg__cuda_inst *i, const pg__product_size *size,
                          pg__needs *needs, pg_err *err)
{
    product *p = pg__mem_array(1, sizeof *p);
    pg_status st = PG_OK;
    if (!p)
        return pg__nomem(err);
    p->size = *size;
    p->n_in = i->inst->n_in;
    p->has_bias =
        size->pass == PG_PASS_W || (size->pass == PG_PASS_Y && p->n_in > 2 && pg__cuda_has(i, 2));
    p->type = pg__cuda_real(i, 0).type;
    p->out_type = pg__cuda_real(i, p->n_in).type;
    PG_TRY(plan(p, i->dev, needs, err));
    if (size->pass == PG_PASS_W)
        p->columns = pg__columns_new(size->m, size->n, needs);
    else
        p->w = pg__kernel_copy_new(i, 1, size->k, size->n, 0, p->type, needs);
    if (size->pass == PG_PASS_Y && p->with)
        p->bias = pg__kernel_copy_new(i, 2, 1, size->n, 0, p->out_type, needs);
    *state = p;
    p = NULL;
done:
    pg__product_release(p);
    return st;
}

pg_status pg__product_share(pg__dev *d, const void *state, void *const *args, void *shared)
{
    const product *p = state;
    const pg_status st = pg__kernel_copy_share(d, &p->w, args, shared);
    return st == PG_OK ? pg__kernel_copy_share(d, &p->bias, args, shared) : st;
}

static pg_status run_w(pg__dev *d, const product *p, void *const *args, void *scratch)
{
    void *dw = args[2], *db = args[3];
    const pg__blas_plan *plan = db && p->with ? p->with : p->plain;
    pg_status st = PG_OK;
    if (dw)
        PG_TRY(pg__blas_run(d, plan, args[0], args[1], dw, db, scratch));
    if (db && (!dw || plan == p->plain))
        PG_TRY(pg__columns_run(d, &p->columns, (pgk_real){args[1], p->type}, db, scratch));
done:
    return st;
}

pg_status pg__product_run(pg__dev *d, const void *state, void *const *args, void *scratch,
                          const void *shared)
{
    const product *p = state;
    void *y = args[p->n_in], *bias = p->has_bias ? args[2] : NULL;
    const void *w, *own_bias = NULL;
    pg_status st = PG_OK;
    if (p->size.pass == PG_PASS_W)
        return run_w(d, p, args, scratch);
    PG_TRY(pg__kernel_copy_run(d, &p->w, args, scratch, shared, &w));
    if (p->with)
        PG_TRY(pg__kernel_copy_run(d, &p->bias, args, scratch, shared, &own_bias));
    PG_TRY(pg__blas_run(d, p->with ? p->with : p->plain, args[0], w, y, pg__cuda_const(own_bias),
                        scratch));
    if (bias && !p->with) {
        const pgk_add_bias a = {.bias = {bias, PGK_F32}, .y = {y, p->out_type}, .n = p->size.n};
        PG_TRY(PG_LAUNCH(d, add_bias, &a, p->size.m * p->size.n));
    }
done:
    return st;
}

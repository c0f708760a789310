/* host_blas.c - blas.h without a GPU: see host.h. */
#include "host.h"

#include <stdlib.h>
#include <string.h>

#include "backend/cuda/blas.h"

/* What a run spoils, so that whoever keeps something there is found out. */
#define WORKSPACE 768

struct pg__blas_plan {
    pg__blas_shape s;
    size_t way; /* as FAKE_CUDA_PLANS names them */
};

typedef struct product {
    pg__blas_shape s;
    pgk_real a, b, c, bias;
    void *scratch;
} product;

static uint64_t or_else(uint64_t given, uint64_t usual)
{
    return given ? given : usual;
}

pg_status pg__blas_open(pg__dev *d, pg_err *err)
{
    (void)d;
    return pg__fake_fails("blas_open")
               ? pg_fail(err, PG_E_UNSUPPORTED, "blas_open: failure that was ordered")
               : PG_OK;
}

void pg__blas_close(pg__dev *d)
{
    (void)d;
}

typedef struct choice {
    pg__dev *d;
    pg__blas_plan *p;
} choice;

static pg_status make(void *of, size_t k, size_t *scratch_bytes, pg_err *err)
{
    ((choice *)of)->p->way = k;
    *scratch_bytes = WORKSPACE;
    return pg__fake_has_plan(k) ? PG_OK : pg_fail(err, PG_E_NO, "no such plan");
}

static pg_status try_one(void *of, size_t k, void *const *arrays, void *scratch)
{
    choice *c = of;
    (void)k;
    return pg__blas_run(c->d, c->p, arrays[0], arrays[1], arrays[2], arrays[3], scratch);
}

pg_status pg__blas_new(pg__blas_plan **out, pg__dev *d, const pg__blas_shape *s, pg__needs *needs,
                       pg_err *err)
{
    const pg__pick_case work = pg__blas_case(s);
    if (pg__fake_fails("blas_new"))
        return pg_fail(err, PG_E_DEVICE, "blas_new: failure that was ordered");
    if (s->a != s->b || (s->epilogue != PG_BLAS_NONE && pg__fake_refuses("epilogue")))
        return pg_fail(err, PG_E_UNSUPPORTED, "no matrix product of this kind");
    pg__blas_plan *p = calloc(1, sizeof *p);
    if (!p)
        abort();
    p->s = *s;
    p->s.lda = or_else(s->lda, s->a_transposed ? s->m : s->k);
    p->s.ldb = or_else(s->ldb, s->b_transposed ? s->k : s->n);
    p->s.ldc = or_else(s->ldc, s->n);
    p->s.batch = or_else(s->batch, 1);
    p->s.align = s->align ? s->align : 16;
    size_t way = 0;
    const pg__ways ways = {
        .of = &(choice){d, p}, .n = pg__fake_n_plans(), .make = make, .run = try_one};
    const pg_status st = pg__pick(&way, d, &work, &ways, err);
    p->way = way;
    if (st != PG_OK) {
        pg__blas_free(p);
        return st == PG_E_NO ? PG_E_UNSUPPORTED : st;
    }
    if (needs->scratch_bytes < WORKSPACE)
        needs->scratch_bytes = WORKSPACE;
    *out = p;
    return PG_OK;
}

void pg__blas_free(pg__blas_plan *p)
{
    free(p);
}

static float at(pgk_real m, uint64_t ld, int transposed, uint64_t r, uint64_t c)
{
    return pgk_get(m, transposed ? c * ld + r : r * ld + c);
}

static pgk_real from(pgk_real m, uint64_t n)
{
    m.p = (char *)m.p + n * (m.type == PGK_F32 ? 4 : 2);
    return m;
}

static void one_product(const product *p, pgk_real a, pgk_real b, pgk_real c)
{
    const pg__blas_shape *s = &p->s;
    for (uint64_t i = 0; i < s->m; i++)
        for (uint64_t j = 0; j < s->n; j++) {
            float sum = 0;
            for (uint64_t k = 0; k < s->k; k++)
                sum += at(a, s->lda, s->a_transposed, i, k) * at(b, s->ldb, s->b_transposed, k, j);
            sum *= s->alpha;
            if (s->beta != 0)
                sum += s->beta * pgk_get(c, i * s->ldc + j);
            if (s->epilogue == PG_BLAS_BIAS)
                sum += pgk_get(p->bias, j);
            pgk_set(c, i * s->ldc + j, sum);
        }
}

static void sum_columns(const product *p)
{
    const pg__blas_shape *s = &p->s;
    for (uint64_t j = 0; j < s->n; j++) {
        float sum = 0;
        for (uint64_t k = 0; k < s->k; k++)
            sum += at(p->b, s->ldb, s->b_transposed, k, j);
        pgk_set(p->bias, j, sum);
    }
}

static void multiply(const void *args, uint64_t n)
{
    const product *p = args;
    memset(pgk_host_memory(p->scratch), 0xa5, WORKSPACE);
    for (uint64_t k = 0; k < n; k++)
        one_product(p, from(p->a, k * p->s.stride_a), from(p->b, k * p->s.stride_b),
                    from(p->c, k * p->s.stride_c));
    if (p->s.epilogue == PG_BLAS_BIAS_GRAD)
        sum_columns(p);
}

/* What was promised when algorithms were chosen, and what cuBLASLt wants of its workspace. */
static int are_aligned(const pg__blas_plan *p, const product *job)
{
    const void *const at[] = {job->a.p, job->b.p, job->c.p, job->bias.p};
    const size_t n = p->s.epilogue == PG_BLAS_NONE ? 3 : 4;
    for (size_t k = 0; k < n; k++)
        if (!pg__fake_is_at(at[k], p->s.align))
            return 0;
    return pg__fake_is_at(job->scratch, 256);
}

pg_status pg__blas_run(pg__dev *d, const pg__blas_plan *p, const void *a, const void *b, void *c,
                       void *bias, void *scratch)
{
    const product job = {.s = p->s,
                         .a = {pg__cuda_const(a), p->s.a},
                         .b = {pg__cuda_const(b), p->s.b},
                         .c = {c, p->s.c},
                         .bias = {bias, p->s.c},
                         .scratch = scratch};
    if (!are_aligned(p, &job))
        return pg_fail(&d->failure, PG_E_DEVICE, "matmul: an address is not a multiple of %u",
                       p->s.align);
    return pg__cuda_launched(d,
                             pg__fake_queue_plan(pg__rt_stream(d->rt), "matmul", p->way, multiply,
                                                 &job, sizeof job, p->s.batch),
                             "matmul");
}

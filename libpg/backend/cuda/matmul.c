/* matmul.c - matrix products of all rows of a batch at once. */
#include "backend/cuda/blas.h"
#include "base/mem.h"
#include "ops/attrs.h"

enum { A, B, Y };

static void release(void *state)
{
    pg__blas_free(state);
}

PG_CUDA_PREPARE(prepare)
{
    const pg__matmul_attrs *turned = i->attrs;
    const pg__dims *a = &i->shapes[A], *y = &i->shapes[Y];
    pg__blas_plan *plan = NULL;
    pg__blas_shape s = {.m = y->d[1],
                        .n = y->d[2],
                        .k = a->d[turned->a_turned ? 1 : 2],
                        .a_transposed = turned->a_turned,
                        .b_transposed = turned->b_turned,
                        .batch = y->d[0],
                        .alpha = 1,
                        .a = pg__cuda_real(i, A).type,
                        .b = pg__cuda_real(i, B).type,
                        .c = pg__cuda_real(i, Y).type};
    s.stride_a = s.m * s.k;
    s.stride_b = s.k * s.n;
    s.stride_c = s.m * s.n;
    const uint64_t all = s.stride_a | s.stride_b | s.stride_c;
    const uint64_t bytes = (all & (~all + 1)) * (s.a == PGK_F32 ? 4 : 2);
    s.align = bytes < 16 ? (uint32_t)bytes : 16u; /* of what is not the batch's first */
    const pg_status st = pg__blas_new(&plan, i->dev, &s, needs, err);
    *state = plan;
    return st;
}

static pg_status run(pg__dev *d, const void *state, void *const *args, void *scratch,
                     const void *shared)
{
    (void)shared;
    return pg__blas_run(d, state, args[A], args[B], args[Y], NULL, scratch);
}

const pg__cuda_op pg__cuda_matmul = {.prepare = prepare, .release = release, .run = run};

/* matmul.c - matrix products of the rows of a batch, one after the other. */
#include "backend/cpu/cpu.h"
#include "backend/cpu/gemm.h"
#include "base/mem.h"
#include "ops/attrs.h"

enum { A, B, Y };

typedef struct matmul {
    size_t batch, m, n, k, a_width, b_width;
    pg__matmul_attrs turned;
} matmul;

static pg_status prepare(void **state, const pg__cpu_inst *i, pg__needs *needs, pg_err *err)
{
    const pg__dims *a = &i->shapes[A], *b = &i->shapes[B], *y = &i->shapes[Y];
    matmul *p = pg__mem_array(1, sizeof *p);
    (void)needs;
    if (!p)
        return pg__nomem(err);
    p->turned = *(const pg__matmul_attrs *)i->attrs;
    p->batch = (size_t)y->d[0];
    p->m = (size_t)y->d[1];
    p->n = (size_t)y->d[2];
    p->k = (size_t)a->d[p->turned.a_turned ? 1 : 2];
    p->a_width = (size_t)a->d[2];
    p->b_width = (size_t)b->d[2];
    *state = p;
    return PG_OK;
}

static void release(void *state)
{
    pg__mem_free(state);
}

static void run(const void *state, void *const *args, void *scratch, const void *shared)
{
    const matmul *p = state;
    const float *a = args[A], *b = args[B];
    float *y = args[Y];
    (void)scratch, (void)shared;
    for (size_t r = 0; r < p->batch; r++)
        pg__gemm(p->m, p->n, p->k, 1,
                 (pg__mat){a + r * p->m * p->k, p->a_width, p->turned.a_turned},
                 (pg__mat){b + r * p->k * p->n, p->b_width, p->turned.b_turned}, 0,
                 y + r * p->m * p->n, p->n);
}

const pg__cpu_kernel pg__cpu_matmul = {.prepare = prepare, .release = release, .run = run};

/* constant.c - constants: they are copied to the device once, when the instruction is prepared, and
 * read from there. The kernel owns that memory and frees it before its device is closed. */
#include "backend/cuda/cuda.h"
#include "base/mem.h"
#include "base/try.h"

typedef struct constant {
    pg__rt *rt;
    pgk_real values; /* float */
    pgk_real y;
    uint64_t n;
} constant;

static void release_constant(void *state)
{
    constant *c = state;
    if (!c)
        return;
    if (c->values.p)
        pg__rt_free(c->rt, c->values.p);
    pg__mem_free(c);
}

/* The values have arrived when this returns, because other streams read them, too. */
static pg_status upload(constant *c, const double *values, pg_err *err)
{
    const size_t n_bytes = (size_t)c->n * sizeof(float);
    float *narrow = pg__mem_array((size_t)c->n, sizeof *narrow);
    pg_status st = PG_OK;
    if (!narrow)
        return pg__nomem(err);
    for (uint64_t k = 0; k < c->n; k++)
        narrow[k] = (float)values[k];
    PG_TRY(pg__rt_alloc(c->rt, &c->values.p, n_bytes, err));
    PG_TRY(pg__rt_put(c->rt, c->values.p, narrow, n_bytes, err));
    PG_TRY(pg__rt_sync(c->rt, err));
done:
    pg__mem_free(narrow);
    return st;
}

PG_CUDA_PREPARE(prepare_constant)
{
    constant *c = pg__mem_array(1, sizeof *c);
    pg_status st = PG_OK;
    (void)needs;
    if (!c)
        return pg__nomem(err);
    c->rt = i->dev->rt;
    c->values.type = PGK_F32;
    c->y = pg__cuda_real(i, 0);
    c->n = pg__cuda_n(i, 0);
    PG_TRY(upload(c, ((const pg__constant_attrs *)i->attrs)->values, err));
    *state = c;
    c = NULL;
done:
    release_constant(c);
    return st;
}

static pg_status run_constant(pg__dev *d, const void *state, void *const *args, void *scratch,
                              const void *shared)
{
    const constant *c = state;
    const pgk_retype a = {.x = c->values, .y = {args[0], c->y.type}};
    (void)scratch, (void)shared;
    return PG_LAUNCH(d, retype, &a, c->n);
}
const pg__cuda_op pg__cuda_constant = {
    .prepare = prepare_constant, .release = release_constant, .run = run_constant};

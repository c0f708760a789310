/* cuda.c - the table of how operations are done on a GPU, and what its lines share. */
#include "backend/cuda/cuda.h"

#include <string.h>

#include "base/mem.h"

#define PG_CUDA(name) extern const pg__cuda_op pg__cuda_##name;
#include "backend/cuda/cuda_ops.def"
#undef PG_CUDA

static const pg__cuda_op *const ops[PG_N_OPS] = {
#define PG_CUDA(name) [PG_OP_##name] = &pg__cuda_##name,
#include "backend/cuda/cuda_ops.def"
#undef PG_CUDA
};

const pg__cuda_op *pg__cuda_op_of(const pg__op *op)
{
    return op->kind < PG_N_OPS ? ops[op->kind] : NULL;
}

static pg__val value_of(const pg__cuda_inst *i, size_t k)
{
    return k < i->inst->n_in ? pg__in(i->tape, i->inst, k)
                             : pg__out(i->tape, i->inst, k - i->inst->n_in);
}

int pg__cuda_has(const pg__cuda_inst *i, size_t k)
{
    return k < (size_t)i->inst->n_in + i->inst->n_out && value_of(i, k) != PG_NO_VAL;
}

pgk_real pg__cuda_real(const pg__cuda_inst *i, size_t k)
{
    const pg__elem elem = pg__cuda_has(i, k) ? i->tape->values[value_of(i, k)].elem : PG_ELEM_REAL;
    return (pgk_real){NULL, elem == PG_ELEM_BF16  ? PGK_BF16
                            : elem == PG_ELEM_F16 ? PGK_F16
                                                  : PGK_F32};
}

uint64_t pg__cuda_n(const pg__cuda_inst *i, size_t k)
{
    return pg__cuda_has(i, k) ? pg__dims_elems(&i->shapes[k]) : 0;
}

uint64_t pg__cuda_last(const pg__cuda_inst *i, size_t k)
{
    return i->shapes[k].rank > 0 ? i->shapes[k].d[i->shapes[k].rank - 1] : 1;
}

uint64_t pg__cuda_rows(const pg__cuda_inst *i, size_t k)
{
    const uint64_t last = pg__cuda_last(i, k);
    return last > 0 ? pg__cuda_n(i, k) / last : 0;
}

int pg__cuda_is_param(const pg__cuda_inst *i, size_t k)
{
    return i->tape->values[value_of(i, k)].role == PG_PARAM;
}

size_t pg__cuda_reserve(pg__needs *needs, size_t n)
{
    const size_t at = (needs->scratch_bytes + 255) / 256 * 256;
    needs->scratch_bytes = at + n;
    return at;
}

pg_status pg__cuda_launched(pg__dev *d, int code, const char *what)
{
    if (code == 0)
        return PG_OK;
    return pg_fail(&d->failure, PG_E_DEVICE, "cuda:%zu: %s: %s", pg__rt_ordinal(d->rt), what,
                   pg__rt_error(code));
}

/* ---- operations that are one kernel ---- */

#define MAX_ARGS 512 /* bytes */

typedef struct one {
    const char *name;
    pg__cuda_launch_fn launch;
    uint64_t n;
    size_t n_reals, n_bytes;
    _Alignas(16) unsigned char args[MAX_ARGS];
} one;

pg_status pg__cuda_one(void **state, const pg__cuda_inst *i, const char *name,
                       pg__cuda_launch_fn launch, const void *args, size_t n_bytes, uint64_t n,
                       pg_err *err)
{
    one *o = pg__mem_aligned(sizeof *o);
    pgk_real *reals;
    if (!o)
        return pg__nomem(err);
    *o = (one){.name = name,
               .launch = launch,
               .n = n,
               .n_reals = (size_t)i->inst->n_in + i->inst->n_out,
               .n_bytes = n_bytes};
    memcpy(o->args, args, n_bytes);
    reals = (pgk_real *)(void *)o->args;
    for (size_t k = 0; k < o->n_reals; k++)
        reals[k] = pg__cuda_real(i, k);
    *state = o;
    return PG_OK;
}

pg_status pg__cuda_run_one(pg__dev *d, const void *state, void *const *args, void *scratch,
                           const void *shared)
{
    const one *o = state;
    _Alignas(16) unsigned char mine[MAX_ARGS];
    pgk_real *reals = (pgk_real *)(void *)mine;
    (void)scratch, (void)shared;
    memcpy(mine, o->args, o->n_bytes);
    for (size_t k = 0; k < o->n_reals; k++)
        reals[k].p = args[k];
    return pg__cuda_launched(d, o->launch(mine, o->n, pg__rt_stream(d->rt)), o->name);
}

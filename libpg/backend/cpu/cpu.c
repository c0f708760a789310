/* cpu.c - the tables of what is done better than by plain C. */
#include "backend/cpu/cpu.h"

#ifdef PG_HAVE_ONEDNN
#include "backend/cpu/dense.h"
#endif

typedef struct function {
    pg__op_kind kind;
    pg__ref_fn fn;
} function;

static const function functions[] = {
#ifdef PG_HAVE_ONEDNN
    {PG__OP_dense, pg__cpu_dense},
    {PG__OP_dense_dw, pg__cpu_dense_dw},
    {PG__OP_dense_dx, pg__cpu_dense_dx},
#endif
    {PG__N_OPS, NULL},
};

#define PG_CPU(name) extern const pg__cpu_kernel pg__cpu_##name;
#include "backend/cpu/kernels.def"
#undef PG_CPU

typedef struct kernel {
    pg__op_kind kind;
    const pg__cpu_kernel *kernel;
} kernel;

static const kernel kernels[] = {
#define PG_CPU(name) {PG__OP_##name, &pg__cpu_##name},
#include "backend/cpu/kernels.def"
#undef PG_CPU
    {PG__N_OPS, NULL},
};

const pg__cpu_kernel *pg__cpu_kernel_of(const pg__op *op)
{
    for (const kernel *k = kernels; k->kernel; k++)
        if (op == pg__op_of(k->kind))
            return k->kernel;
    return NULL;
}

pg__ref_fn pg__cpu_fn(const pg__op *op, pg__isa isa)
{
    for (const function *f = functions; f->fn; f++)
        if (op == pg__op_of(f->kind))
            return f->fn;
    const pg__isa_fns *fns = pg__isa_fns_of(isa);
    const size_t kind = (size_t)(op - pg__op_of((pg__op_kind)0));
    return fns->fast[kind] ? fns->fast[kind] : fns->ops[kind];
}

int pg__cpu_has(const pg__cpu_inst *i, size_t k)
{
    return pg__in(i->tape, i->inst, k) != PG__NO_VAL;
}

int pg__cpu_is_param(const pg__cpu_inst *i, size_t k)
{
    return pg__cpu_has(i, k) && i->tape->values[pg__in(i->tape, i->inst, k)].role == PG__PARAM;
}

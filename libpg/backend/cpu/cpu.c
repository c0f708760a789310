/* cpu.c - the tables of operations that are faster than in plain C. */
#include "backend/cpu/cpu.h"

#define PG_CPU(name) extern const pg__cpu_kernel pg__cpu_##name;
#include "backend/cpu/kernels.def"
#undef PG_CPU

typedef struct kernel {
    pg__op_kind kind;
    const pg__cpu_kernel *kernel;
} kernel;

static const kernel kernels[] = {
#define PG_CPU(name) {PG_OP_##name, &pg__cpu_##name},
#include "backend/cpu/kernels.def"
#undef PG_CPU
    {PG_N_OPS, NULL},
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
    const pg__isa_fns *fns = pg__isa_fns_of(isa);
    const size_t kind = (size_t)(op - pg__op_of((pg__op_kind)0));
    return fns->fast[kind] ? fns->fast[kind] : fns->ops[kind];
}

int pg__cpu_has(const pg__cpu_inst *i, size_t k)
{
    return pg__in(i->tape, i->inst, k) != PG_NO_VAL;
}

int pg__cpu_is_param(const pg__cpu_inst *i, size_t k)
{
    if (!pg__cpu_has(i, k))
        return 0;
    const pg__val v = pg__tape_root(i->tape, pg__in(i->tape, i->inst, k));
    return i->tape->values[v].role == PG_PARAM;
}

pg__numbers pg__cpu_numbers(const pg__cpu_inst *i)
{
    if (i->tape->in_int8 && pg__cpu_is_param(i, 1))
        return PG_NUMBERS_INT8;
    for (size_t k = 0; k < 2; k++)
        if (!pg__cpu_has(i, k) ||
            i->tape->values[pg__in(i->tape, i->inst, k)].elem != PG_ELEM_AS_BF16)
            return PG_NUMBERS_F32;
    return PG_NUMBERS_BF16;
}

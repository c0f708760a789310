/* isa_fns.c - compiled once for each instruction set: the table of that build's functions. */
#include "backend/cpu/fast.h"
#include "backend/cpu/isa.h"

#define FNS_(isa) pg__isa_fns_##isa
#define FNS(isa)  FNS_(isa)

extern const pg__lines PG_JOIN(pg__lines_, PG_ISA);
extern const pg__isa_fns FNS(PG_ISA);
const pg__isa_fns FNS(PG_ISA) = {
    .ops =
        {
#define PG_OP(name, n_out, tol, attrs)      PG_REF(name),
#define PG_GRAD_OP(name, n_out, tol, attrs) PG_REF(name),
#include "ops/ops.def"
#undef PG_OP
#undef PG_GRAD_OP
        },
    .fast =
        {
#define PG_FAST(name) [PG_OP_##name] = PG_FAST_FN(name),
#include "backend/cpu/fast.def"
#undef PG_FAST
        },
    .updates =
        {
#define PG_OPTIMIZER(name, slots) PG_UPDATE(name),
#include "ops/optimizers.def"
#undef PG_OPTIMIZER
        },
    .accumulate = PG_FAST_FN(accumulate),
    .blend = PG_FAST_FN(blend),
    .clip = PG_FAST_FN(clip),
    .squares = PG_FAST_FN(squares),
    .to_bf16 = PG_FAST_FN(to_bf16),
    .lines = &PG_JOIN(pg__lines_, PG_ISA),
};

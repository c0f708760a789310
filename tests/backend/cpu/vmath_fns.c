/* Compiled once for each instruction set, as the kernels are. */
#include "vmath_fns.h"
#include "backend/cpu/vmath.h"

#define FNS_(isa) vmath_fns_##isa
#define FNS(isa)  FNS_(isa)

#define DO(name)                                            \
    static void v##name(const float *x, float *y, size_t n) \
    {                                                       \
        for (size_t i = 0; i < n; i++)                      \
            y[i] = pg__v##name(x[i]);                       \
    }
VMATH_FNS(DO)
#undef DO

const vmath_fns FNS(PG_ISA) = {
#define DO(name) v##name,
    VMATH_FNS(DO)
#undef DO
};

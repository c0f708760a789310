/* isa.c - the builds of the kernels that exist, and those that this processor can run. */
#include "backend/cpu/isa.h"
#include "backend/cpu/pointwise.h"

#ifdef PG_HAVE_X86_ISAS
#include <cpuid.h>
#endif
#include <string.h>

extern const pg__isa_fns pg__isa_fns_f32;
#ifdef PG_HAVE_X86_ISAS
extern const pg__isa_fns pg__isa_fns_avx2, pg__isa_fns_avx512;
#endif

static const char *const names[PG_N_ISAS] = {"base", "avx2", "avx512"};

const char *pg__isa_name(pg__isa isa)
{
    return names[isa];
}

#ifdef PG_HAVE_X86_ISAS

/* What libpg/ops/meson.build compiles for; the operating system must support it, too. */
int pg__isa_present(pg__isa isa)
{
    const int avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    switch (isa) {
    case PG_ISA_AVX2: return avx2;
    case PG_ISA_AVX512:
        return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    case PG_ISA_BASE:
    case PG_N_ISAS: break;
    }
    return isa == PG_ISA_BASE;
}

int pg__isa_has_bf16(pg__isa isa)
{
    return pg__pointwise_bf16_of(isa) && __builtin_cpu_is("amd");
}

/* AVX-VNNI is bit 4 of EAX; not all compilers know its name. */
int pg__isa_has_vnni(pg__isa isa)
{
    unsigned a = 0, b, c, d;
    if (isa == PG_ISA_AVX512)
        return __builtin_cpu_supports("avx512vnni") != 0;
    return isa == PG_ISA_AVX2 && __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 4 & 1);
}

const pg__isa_fns *pg__isa_fns_of(pg__isa isa)
{
    return isa == PG_ISA_AVX512 ? &pg__isa_fns_avx512
           : isa == PG_ISA_AVX2 ? &pg__isa_fns_avx2
                                : &pg__isa_fns_f32;
}

#else

int pg__isa_present(pg__isa isa)
{
    return isa == PG_ISA_BASE;
}

int pg__isa_has_bf16(pg__isa isa)
{
    (void)isa;
    return 0;
}

int pg__isa_has_vnni(pg__isa isa)
{
    (void)isa;
    return 0;
}

const pg__isa_fns *pg__isa_fns_of(pg__isa isa)
{
    (void)isa;
    return &pg__isa_fns_f32;
}

#endif

pg_status pg__isa_named(pg__isa *out, const char *name, pg_err *err)
{
    const int any = !name || !*name;
    for (int i = PG_N_ISAS - 1; i >= 0; i--) {
        const pg__isa isa = (pg__isa)i;
        const int meant = any || strcmp(name, names[i]) == 0;
        if (meant && pg__isa_present(isa)) {
            *out = isa;
            return PG_OK;
        }
        if (meant && !any)
            return pg_fail(err, PG_E_UNSUPPORTED, "PG_ISA: this processor has no %s", name);
    }
    return pg_fail(err, PG_E_ARG, "PG_ISA: %s is not base, avx2 or avx512", name);
}

/* int8.c - what products in 8 bits have in common for all instruction sets. */
#include "backend/cpu/int8.h"

#include "backend/cpu/int8_panels.h"

extern const pg__int8_kernels pg__int8_kernels_f32;
#ifdef PG_HAVE_X86_ISAS
extern const pg__int8_kernels pg__int8_kernels_avx2, pg__int8_kernels_avx512;
#endif
#ifdef PG_HAVE_AVX512_VNNI
extern const pg__int8_kernels pg__int8_kernels_avx512vnni;
#endif
#ifdef PG_HAVE_AVX_VNNI
extern const pg__int8_kernels pg__int8_kernels_avxvnni;
#endif

const pg__int8_kernels *pg__int8_kernels_of(pg__isa isa)
{
#ifdef PG_HAVE_AVX512_VNNI
    if (isa == PG_ISA_AVX512 && pg__isa_has_vnni(isa))
        return &pg__int8_kernels_avx512vnni;
#endif
#ifdef PG_HAVE_AVX_VNNI
    if (isa == PG_ISA_AVX2 && pg__isa_has_vnni(isa))
        return &pg__int8_kernels_avxvnni;
#endif
#ifdef PG_HAVE_X86_ISAS
    if (isa != PG_ISA_BASE)
        return isa == PG_ISA_AVX512 ? &pg__int8_kernels_avx512 : &pg__int8_kernels_avx2;
#endif
    (void)isa;
    return &pg__int8_kernels_f32;
}

size_t pg__int8_packed_bytes(const pg__int8_product *p)
{
    return pg__int8_padded(p->n) * (p->n_runs * p->run_bytes + PG_INT8_COLUMN_BYTES);
}

#define MOST_SUMMED 65536 /* 255 x 127 as often is less than 2^31 */

int pg__int8_fits(size_t k)
{
    return k <= MOST_SUMMED;
}

/* Measured on Zen 4, in multiplications of float32: what it takes to find a row's scale, to make a
 * number a byte, and to move a cell's bytes; four products of bytes are as fast as one. What is
 * gained must be worth what is lost in precision. */
#define SCALE 3000.0
#define BYTE  10.0
#define MOVE  40.0
#define WORTH 1.25

int pg__int8_pays(const pg__int8_size *s)
{
    const double cells = (double)s->rows;
    const double floats = cells * (double)s->n * (double)s->k;
    const double bytes = cells * (double)pg__int8_padded(s->n) * (double)s->k_bytes / 4 + SCALE +
                         BYTE * (double)s->operand + MOVE * (double)s->expanded;
    return pg__int8_fits(s->k) && floats >= WORTH * bytes;
}

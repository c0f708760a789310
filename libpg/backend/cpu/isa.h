/* isa.h - instruction sets that kernels are built for.
 *
 * The same sources are compiled once for each: for the baseline of the architecture, and on x86-64
 * for AVX2 with FMA and for AVX-512. Opening a device chooses the build that runs. Equal operands
 * give equal bits within one build; builds differ by rounding, within the operation's bound.
 * PG_ISA, set by the build system, names the build for which a file is compiled. */
#ifndef PG_BACKEND_CPU_ISA_H
#define PG_BACKEND_CPU_ISA_H

#include "backend/cpu/lines.h"
#include "ops/op.h"
#include "ops/optimizer.h"

typedef enum pg__isa { PG_ISA_BASE, PG_ISA_AVX2, PG_ISA_AVX512, PG_N_ISAS } pg__isa;

/* What the floats of operands hold. */
typedef enum pg__numbers {
    PG_NUMBERS_F32,
    PG_NUMBERS_BF16,
    PG_NUMBERS_INT8 /* floats that are to be made into 8 bits: int8.h */
} pg__numbers;

/* The functions of one build. */
typedef struct pg__isa_fns {
    pg__ref_fn ops[PG_N_OPS];  /* the plain C references */
    pg__ref_fn fast[PG_N_OPS]; /* functions that replace them (fast.def), or NULL */
    pg__update_fn updates[PG_N_OPTIMIZERS];
    /* Flat memory; see backend.h. */
    void (*accumulate)(float *into, const float *from, size_t n);
    void (*blend)(float *into, float keep, const float *from, float take, size_t n);
    void (*clip)(float *g, float scale, float limit, size_t n);
    double (*squares)(const float *g, size_t n);
    void (*to_bf16)(float *v, size_t n); /* to the nearest bfloat16, ties to even */
    const pg__lines *lines;
} pg__isa_fns;

const char *pg__isa_name(pg__isa isa); /* "base", "avx2", "avx512" */
int pg__isa_present(pg__isa isa);      /* is it built, and does this processor support it? */

/* Are products of bfloat16 faster than those of float32? They are where VDPBF16PS starts as often
 * as an FMA: on AMD's processors, as measured on Zen 4. Intel's start one for four FMAs; its AMX is
 * not used. */
int pg__isa_has_bf16(pg__isa isa);

/* Does the processor multiply 8 bits faster than float32, by AVX512-VNNI or, with AVX2, AVX-VNNI?
 */
int pg__isa_has_vnni(pg__isa isa);

/* By name; NULL or empty: the best that is present. PG_E_ARG: no such name; PG_E_UNSUPPORTED: not
 * present. */
pg_status pg__isa_named(pg__isa *out, const char *name, pg_err *err);

/* isa must be present. */
const pg__isa_fns *pg__isa_fns_of(pg__isa isa);

#endif

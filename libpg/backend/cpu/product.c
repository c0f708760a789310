/* product.c - chooses the kernel of a matrix product. */
#include "backend/cpu/product.h"

#include <string.h>

extern const pg__pointwise pg__pointwise_f32;
#ifdef PG_HAVE_X86_ISAS
extern const pg__pointwise pg__pointwise_avx2, pg__pointwise_avx512;
#endif

const pg__pointwise *pg__pointwise_of(pg__isa isa)
{
#ifdef PG_HAVE_X86_ISAS
    if (isa != PG_ISA_BASE)
        return isa == PG_ISA_AVX512 ? &pg__pointwise_avx512 : &pg__pointwise_avx2;
#endif
    (void)isa;
    return &pg__pointwise_f32;
}

#ifdef PG_HAVE_AVX512_BF16
extern const pg__pointwise pg__pointwise_bf16;

const pg__pointwise *pg__pointwise_bf16_of(pg__isa isa)
{
    return isa == PG_ISA_AVX512 && __builtin_cpu_supports("avx512bf16") ? &pg__pointwise_bf16
                                                                        : NULL;
}
#else
const pg__pointwise *pg__pointwise_bf16_of(pg__isa isa)
{
    (void)isa;
    return NULL;
}
#endif

/* Measured on Zen 4: converting an operand must be made up for by how often it is used, and packing
 * a large w by rows. */
static int pays_in_bf16(pg__product_kind kind, size_t cells, size_t n, size_t k)
{
    if (kind == PG_COLUMNS)
        return k >= 48 && n >= 16;
    return k >= 32 && n >= 16 && (cells >= 16 || k * n <= (1 << 20));
}

#ifdef PG_HAVE_ONEDNN
#include "backend/cpu/gemm.h"

/* Measured: oneDNN copies both operands into panels in every call, which matters if one is small or
 * transposed. Ours packs w at every update, which rows must make up for: rows per row of the batch,
 * because the number that a lane has must not matter. */
static int pays(pg__product_kind kind, size_t m, size_t cells, size_t n, size_t k)
{
    if (n < 8 || k < 8)
        return 0;
    switch (kind) {
    case PG_ROWS:
        return (cells >= 16 && n <= k && k * n <= (1 << 14)) ||
               (cells >= 96 && k >= 128 && k * n <= (1 << 20));
    case PG_ROWS_TURNED: return cells >= 32 && k >= 24 && k * n <= (1 << 20);
    case PG_COLUMNS: return m >= 2048 && (n <= 2 * k || m >= 8192) && k * n <= (1 << 18);
    }
    return 0;
}

/* Is w so large that reading it is most of the work? */
static int is_across(pg__product_kind kind, size_t n, size_t k)
{
    return kind == PG_ROWS_TURNED && k >= 64 && n >= 2 * k && k * n >= (1 << 17);
}

static void by_onednn(const pg__product *p, const float *a, const float *w, const float *bias,
                      float *c)
{
    if (p->kind == PG_COLUMNS) {
        pg__gemm(p->k, p->n, p->m, 1, (pg__mat){a, p->k, 1}, (pg__mat){w, p->n, 0}, 0, c, p->n);
        return;
    }
    const int turned = p->kind == PG_ROWS_TURNED;
    for (size_t r = 0; bias && r < p->m; r++)
        memcpy(c + r * p->n, bias, p->n * sizeof *c);
    pg__gemm(p->m, p->n, p->k, 1, (pg__mat){a, p->k, 0}, (pg__mat){w, turned ? p->k : p->n, turned},
             bias != NULL, c, p->n);
}
#else
static int pays(pg__product_kind kind, size_t m, size_t cells, size_t n, size_t k)
{
    (void)kind, (void)m, (void)cells, (void)n, (void)k;
    return 1;
}

static int is_across(pg__product_kind kind, size_t n, size_t k)
{
    (void)kind, (void)n, (void)k;
    return 0;
}

static void by_onednn(const pg__product *p, const float *a, const float *w, const float *bias,
                      float *c)
{
    (void)p, (void)a, (void)w, (void)bias, (void)c;
}
#endif

pg__product pg__product_of(pg__product_kind kind, size_t m, size_t cells, size_t n, size_t k,
                           pg__isa isa, int always, pg__numbers numbers)
{
    if (numbers == PG_NUMBERS_BF16 && pg__isa_has_bf16(isa) && pays_in_bf16(kind, cells, n, k))
        return (pg__product){
            .kind = kind, .m = m, .n = n, .k = k, .own = pg__pointwise_bf16_of(isa)};
    const int own = always || pays(kind, m, cells, n, k), across = !own && is_across(kind, n, k);
    return (pg__product){.kind = kind,
                         .m = m,
                         .n = n,
                         .k = k,
                         .across = across,
                         .own = own || across ? pg__pointwise_of(isa) : NULL};
}

size_t pg__product_packed_bytes(const pg__product *p)
{
    return p->own && !p->across && p->kind != PG_COLUMNS
               ? p->own->packed_floats(p->k, p->n) * sizeof(float)
               : 0;
}

void pg__product_pack(const pg__product *p, const float *w, float *packed)
{
    const int turned = p->kind == PG_ROWS_TURNED;
    p->own->pack(p->k, p->n, w, turned ? p->k : p->n, turned, packed);
}

#define STRIP 112 /* rows of w at a time: a multiple of what tiles have */

size_t pg__product_scratch_bytes(const pg__product *p)
{
    size_t n = 0;
    if (p->across)
        n = p->own->packed_floats(p->k, p->m) + STRIP * p->m;
    else if (p->own && p->kind == PG_COLUMNS)
        n = p->own->scratch_floats(p->m, p->n, p->k);
    return n * sizeof(float);
}

/* The rows of w, in place, by the transpose of a: strips of the result, which are transposed
 * back. */
static void run_across(const pg__product *p, const float *a, const float *w, float *c,
                       float *scratch)
{
    float *strip = scratch + p->own->packed_floats(p->k, p->m);
    p->own->pack(p->k, p->m, a, p->k, 1, scratch);
    for (size_t j = 0; j < p->n; j += STRIP) {
        const size_t width = p->n - j < STRIP ? p->n - j : STRIP;
        p->own->multiply(width, p->m, p->k, w + j * p->k, scratch, NULL, NULL, (pg__range){0},
                         strip);
        for (size_t from = 0; from < width; from += 16)
            for (size_t r = 0; r < p->m; r++)
                for (size_t i = from; i < width && i < from + 16; i++)
                    c[r * p->n + j + i] = strip[i * p->m + r];
    }
}

void pg__product_run(const pg__product *p, const float *a, const float *w, const float *packed,
                     const float *bias, const float *plus, float *c, float *scratch)
{
    if (!p->own)
        by_onednn(p, a, w, bias, c);
    else if (p->across)
        run_across(p, a, w, c, scratch);
    else if (p->kind == PG_COLUMNS)
        p->own->gradient(p->m, p->n, p->k, a, w, c, p->sums, scratch);
    else
        p->own->multiply(p->m, p->n, p->k, a, packed, bias, plus, p->range, c);
}

/* The products of layers by kernels of our own, against double, on shapes that fill registers,
 * panels and blocks, or do not. */
#include "pg_test.h"

#include <math.h>
#include <stdlib.h>

#include "backend/cpu/guarded.h"
#include "backend/cpu/product.h"
#include "base/mem.h"

typedef struct shape {
    size_t m, n, k;
} shape;

static const shape shapes[] = {
    {1, 1, 1},      {2, 3, 1},      {1, 17, 3},    {3, 16, 17},    {5, 31, 2},    {19, 33, 16},
    {40, 48, 20},   {29, 64, 9},    {15, 65, 31},  {37, 80, 130},  {41, 100, 95}, {300, 24, 144},
    {300, 144, 24}, {257, 10, 33},  {530, 17, 16}, {67, 129, 385}, {70, 40, 800}, {9, 200, 1153},
    {600, 9, 513},  {1100, 23, 70}, {3, 7, 0},     {0, 5, 4},
};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

static int in_bf16; /* only numbers of bfloat16 */

/* Mean not 0, so that what is missing in a sum is seen. */
static float *numbers(size_t n)
{
    float *p = pg__mem_aligned((n + 1) * sizeof *p);
    uint32_t seed = 7;
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        p[i] = (float)(seed >> 8) / 16777216.0f - 0.4f;
    }
    if (in_bf16)
        pg__isa_fns_of(PG_ISA_BASE)->to_bf16(p, n);
    return p;
}

static size_t operand(const pg__product *p)
{
    return p->kind == PG_COLUMNS ? p->m * p->n : p->k * p->n;
}

static size_t result(const pg__product *p)
{
    return (p->kind == PG_COLUMNS ? p->k : p->m) * p->n;
}

static double exact(const pg__product *p, const float *a, const float *w, const float *bias,
                    size_t i, size_t j)
{
    double sum = bias ? (double)bias[j] : 0;
    for (size_t q = 0; q < (p->kind == PG_COLUMNS ? p->m : p->k); q++)
        sum += p->kind == PG_COLUMNS ? (double)a[q * p->k + i] * (double)w[q * p->n + j]
               : p->kind == PG_ROWS  ? (double)a[i * p->k + q] * (double)w[q * p->n + j]
                                     : (double)a[i * p->k + q] * (double)w[j * p->k + q];
    return sum;
}

static float *run(const pg__product *p, const float *a, const float *w, const float *bias,
                  const float *plus)
{
    const size_t packed_bytes = pg__product_packed_bytes(p), c_bytes = result(p) * sizeof(float);
    const size_t scratch_bytes = pg__product_scratch_bytes(p);
    float *packed = guarded(packed_bytes), *scratch = guarded(scratch_bytes), *c = guarded(c_bytes);
    float *out = pg__mem_aligned(c_bytes);
    if (packed_bytes > 0)
        pg__product_pack(p, w, packed);
    pg__product_run(p, a, packed_bytes > 0 ? NULL : w, packed, bias, plus, c, scratch);
    memcpy(out, c, c_bytes);
    drop(packed, packed_bytes);
    drop(scratch, scratch_bytes);
    drop(c, c_bytes);
    return out;
}

static void check(const pg__product *p, int has_bias)
{
    float *a = numbers(p->m * p->k), *w = numbers(operand(p)), *bias = numbers(p->n);
    const float *b = has_bias && p->kind == PG_ROWS ? bias : NULL;
    float *c = run(p, a, w, b, NULL), *again = run(p, a, w, b, NULL);
    double worst = 0, top = 1e-30;
    for (size_t i = 0; i < result(p); i++) {
        const double want = exact(p, a, w, b, i / p->n, i % p->n), off = fabs(want - (double)c[i]);
        top = fmax(top, fabs(want));
        worst = off <= worst ? worst : off; /* NaN too */
    }
    if (!(worst <= 1e-6 * top))
        fail_msg("kind %d, %zu x %zu x %zu: off by %.3g of %.3g", (int)p->kind, p->m, p->n, p->k,
                 worst, top);
    assert_memory_equal(c, again, result(p) * sizeof *c);
    pg__mem_free(a);
    pg__mem_free(w);
    pg__mem_free(bias);
    pg__mem_free(c);
    pg__mem_free(again);
}

static void products_agree_with_double(void **state)
{
    (void)state;
    for (int isa = 0; isa < PG_N_ISAS; isa++)
        for (size_t s = 0; s < N_SHAPES && pg__isa_present((pg__isa)isa); s++)
            for (int kind = 0; kind < 3; kind++) {
                const shape *of = &shapes[s];
                const pg__product p = pg__product_of((pg__product_kind)kind, of->m, of->m, of->n,
                                                     of->k, (pg__isa)isa, 1, PG_NUMBERS_F32);
                assert_non_null(p.own);
                check(&p, s % 2 == 0);
            }
}

/* What is added, and then kept within a range, is what would be done behind the product. */
static void check_plus(pg__product p)
{
    float *a = numbers(p.m * p.k), *w = numbers(operand(&p)), *bias = numbers(p.n);
    float *plus = numbers(result(&p)), *apart = run(&p, a, w, bias, NULL);
    p.range = (pg__range){1, -0.1f, 0.2f};
    float *joined = run(&p, a, w, bias, plus);
    for (size_t i = 0; i < result(&p); i++) {
        const float sum = apart[i] + plus[i];
        assert_true(joined[i] == (sum < -0.1f ? -0.1f : sum > 0.2f ? 0.2f : sum));
    }
    pg__mem_free(a);
    pg__mem_free(w);
    pg__mem_free(bias);
    pg__mem_free(plus);
    pg__mem_free(apart);
    pg__mem_free(joined);
}

static void something_is_added_within_the_product(void **state)
{
    (void)state;
    for (int isa = 0; isa < PG_N_ISAS; isa++)
        for (size_t s = 0; s < N_SHAPES && pg__isa_present((pg__isa)isa); s++)
            check_plus(pg__product_of(PG_ROWS, shapes[s].m, shapes[s].m, shapes[s].n, shapes[s].k,
                                      (pg__isa)isa, 1, PG_NUMBERS_F32));
}

/* Rows [0, p->m) at once, and a few at a time. */
static void check_rows(pg__product p)
{
    const size_t all = p.m;
    float *a = numbers(all * p.k), *w = numbers(p.k * p.n), *whole = run(&p, a, w, NULL, NULL);
    for (size_t r = 0; r < all; r += p.m) {
        p.m = r % 5 + 1 < all - r ? r % 5 + 1 : all - r;
        float *some = run(&p, a + r * p.k, w, NULL, NULL);
        assert_memory_equal(some, whole + r * p.n, p.m * p.n * sizeof *some);
        pg__mem_free(some);
    }
    pg__mem_free(a);
    pg__mem_free(w);
    pg__mem_free(whole);
}

/* Lanes cut rows anywhere. */
static void rows_know_nothing_of_each_other(void **state)
{
    static const shape of[] = {{61, 24, 144}, {67, 96, 16}, {131, 40, 800}, {97, 130, 120}};
    (void)state;
    for (int isa = 0; isa < PG_N_ISAS; isa++)
        for (size_t s = 0; s < 8 && pg__isa_present((pg__isa)isa); s++) {
            const pg__product_kind kind = s < 4 ? PG_ROWS : PG_ROWS_TURNED;
            check_rows(pg__product_of(kind, of[s % 4].m, 1, of[s % 4].n, of[s % 4].k, (pg__isa)isa,
                                      1, PG_NUMBERS_F32));
        }
}

/* Rows are added one after the other, in float, and to what is there. */
static void check_sums(pg__product p)
{
    float *a = numbers(p.m * p.k), *w = numbers(p.m * p.n), *sums = numbers(p.n);
    float *want = numbers(p.n), *alone = run(&p, a, w, NULL, NULL);
    p.sums = sums;
    float *c = run(&p, a, w, NULL, NULL);
    for (size_t i = 0; i < p.m * p.n; i++)
        want[i % p.n] += w[i];
    assert_memory_equal(sums, want, p.n * sizeof *want);
    assert_memory_equal(c, alone, result(&p) * sizeof *c);
    pg__mem_free(a);
    pg__mem_free(w);
    pg__mem_free(sums);
    pg__mem_free(want);
    pg__mem_free(alone);
    pg__mem_free(c);
}

static void rows_are_summed_on_the_way(void **state)
{
    (void)state;
    for (int isa = 0; isa < PG_N_ISAS; isa++)
        for (size_t s = 0; s < N_SHAPES && pg__isa_present((pg__isa)isa); s++)
            check_sums(pg__product_of(PG_COLUMNS, shapes[s].m, shapes[s].m, shapes[s].n,
                                      shapes[s].k, (pg__isa)isa, 1, PG_NUMBERS_F32));
}

/* Of rows that are apart, as steps of a sequence are: the bits of whole rows, and nothing between
 * them. */
static void check_near(const pg__product *p, size_t gap)
{
    const size_t lda = p->k + gap, ldc = p->n + 2 * gap, packed_bytes = pg__product_packed_bytes(p);
    float *a = numbers(p->m * p->k), *w = numbers(p->k * p->n), *whole = run(p, a, w, NULL, NULL);
    float *apart = numbers(p->m * lda), *c = numbers(p->m * ldc), *was = numbers(p->m * ldc);
    float *packed = guarded(packed_bytes);
    pg__product_pack(p, w, packed);
    for (size_t r = 0; r < p->m; r++)
        memcpy(apart + r * lda, a + r * p->k, p->k * sizeof *a);
    for (int add = 0; add < 2; add++) {
        p->own->multiply_near(p->m, p->n, p->k, apart, lda, packed, add, c, ldc);
        for (size_t i = 0; i < p->m * ldc; i++) {
            const size_t r = i / ldc, j = i % ldc;
            const float *of = j < p->n ? &whole[r * p->n + j] : NULL;
            if (!of || !add)
                assert_true(c[i] == (of ? *of : was[i]));
            else
                assert_true(fabsf(c[i] - 2 * *of) <= 1e-5f * fabsf(*of));
        }
    }
    drop(packed, packed_bytes);
    pg__mem_free(a);
    pg__mem_free(w);
    pg__mem_free(whole);
    pg__mem_free(apart);
    pg__mem_free(c);
    pg__mem_free(was);
}

static void rows_may_be_apart(void **state)
{
    (void)state;
    for (int isa = 0; isa < PG_N_ISAS; isa++)
        for (size_t s = 0; s < 2 * N_SHAPES && pg__isa_present((pg__isa)isa); s++) {
            const shape *of = &shapes[s / 2];
            const pg__product_kind kind = s % 2 ? PG_ROWS_TURNED : PG_ROWS;
            const pg__product p =
                pg__product_of(kind, of->m, of->m, of->n, of->k, (pg__isa)isa, 1, PG_NUMBERS_F32);
            check_near(&p, s % 7);
        }
}

/* The gradient of a few rows that go into a wide layer. */
static void large_kernels_are_read_as_they_lie(void **state)
{
    static const shape of[] = {{37, 1999, 70}, {3, 896, 400}};
    (void)state;
    for (int isa = 0; isa < PG_N_ISAS; isa++)
        for (size_t s = 0; s < 2 && pg__isa_present((pg__isa)isa); s++) {
            const pg__product p = pg__product_of(PG_ROWS_TURNED, of[s].m, 1, of[s].n, of[s].k,
                                                 (pg__isa)isa, 0, PG_NUMBERS_F32);
#ifdef PG_HAVE_ONEDNN
            assert_true(p.across);
            assert_int_equal(pg__product_packed_bytes(&p), 0);
#endif
            check(&p, 0);
            check_rows(p);
        }
}

/* MobileNetV2's second projection, as it is trained. */
static void layers_of_models_take_our_own(void **state)
{
    (void)state;
    for (int kind = 0; kind < 3; kind++)
        assert_non_null(pg__product_of((pg__product_kind)kind, 4608, 576, 24, 144, PG_ISA_BASE, 0,
                                       PG_NUMBERS_F32)
                            .own);
}

/* What is taken for two rows is taken for many. */
static void the_choice_does_not_depend_on_rows(void **state)
{
    (void)state;
    for (size_t n = 1; n <= 4096; n *= 2)
        for (size_t k = 1; k <= 4096; k *= 2)
            for (int kind = 0; kind < 2; kind++)
                assert_ptr_equal(pg__product_of((pg__product_kind)kind, 98, 49, n, k, PG_ISA_BASE,
                                                0, PG_NUMBERS_F32)
                                     .own,
                                 pg__product_of((pg__product_kind)kind, 19600, 49, n, k,
                                                PG_ISA_BASE, 0, PG_NUMBERS_F32)
                                     .own);
}

/* By kernels that take nothing else: the same sums, rows that know nothing of each other, what is
 * added. */
static void products_of_bfloat16_agree_with_double(void **state)
{
    (void)state;
    const pg__pointwise *own =
        pg__isa_present(PG_ISA_AVX512) ? pg__pointwise_bf16_of(PG_ISA_AVX512) : NULL;
    if (!own)
        skip();
    in_bf16 = 1;
    for (size_t s = 0; s < N_SHAPES; s++)
        for (int kind = 0; kind < 3; kind++) {
            const pg__product p = {.kind = (pg__product_kind)kind,
                                   .m = shapes[s].m,
                                   .n = shapes[s].n,
                                   .k = shapes[s].k,
                                   .own = own};
            check(&p, s % 2 == 0);
            if (kind != PG_COLUMNS)
                check_rows(p);
            if (kind == PG_ROWS)
                check_plus(p);
            if (kind == PG_COLUMNS)
                check_sums(p);
        }
    in_bf16 = 0;
}

/* A processor that has them takes them, if both operands hold such numbers and that pays. */
static void products_of_bfloat16_are_taken_where_they_pay(void **state)
{
    (void)state;
    if (!pg__isa_present(PG_ISA_AVX512) || !pg__isa_has_bf16(PG_ISA_AVX512))
        skip();
    const pg__pointwise *own = pg__pointwise_bf16_of(PG_ISA_AVX512);
    for (int kind = 0; kind < 3; kind++) {
        const pg__product_kind k = (pg__product_kind)kind;
        assert_ptr_equal(pg__product_of(k, 512, 1, 256, 256, PG_ISA_AVX512, 0, PG_NUMBERS_BF16).own,
                         own);
        assert_ptr_not_equal(
            pg__product_of(k, 512, 1, 256, 256, PG_ISA_AVX512, 1, PG_NUMBERS_F32).own, own);
        assert_ptr_not_equal(pg__product_of(k, 512, 1, 8, 8, PG_ISA_AVX512, 1, PG_NUMBERS_BF16).own,
                             own);
    }
    assert_false(pg__isa_has_bf16(PG_ISA_BASE) || pg__isa_has_bf16(PG_ISA_AVX2));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_agree_with_double),
        cmocka_unit_test(something_is_added_within_the_product),
        cmocka_unit_test(rows_know_nothing_of_each_other),
        cmocka_unit_test(rows_may_be_apart),
        cmocka_unit_test(rows_are_summed_on_the_way),
        cmocka_unit_test(large_kernels_are_read_as_they_lie),
        cmocka_unit_test(layers_of_models_take_our_own),
        cmocka_unit_test(the_choice_does_not_depend_on_rows),
        cmocka_unit_test(products_of_bfloat16_agree_with_double),
        cmocka_unit_test(products_of_bfloat16_are_taken_where_they_pay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

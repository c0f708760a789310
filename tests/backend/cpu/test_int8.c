/* Products in 8 bits, on shapes that fill registers, panels and blocks, or do not, against the
 * definition of int8.h in double. */
#include "pg_test.h"

#include <math.h>
#include <stdlib.h>

#include "backend/cpu/conv.h"
#include "backend/cpu/dense_int8.h"
#include "backend/cpu/guarded.h"
#include "backend/cpu/int8.h"
#include "base/mem.h"

extern const pg__conv_way pg__conv_int8;
extern const pg__int8_kernels pg__int8_kernels_f32;
#ifdef PG_HAVE_X86_ISAS
extern const pg__int8_kernels pg__int8_kernels_avx2, pg__int8_kernels_avx512;
extern const pg__int8_kernels pg__int8_kernels_dpbusd; /* those of AVX-VNNI, see dpbusd.h */
#endif

/* Mean not 0, so that what is missing in a sum is seen. */
static float *numbers(size_t n, uint32_t seed)
{
    float *p = pg__mem_aligned((n + 1) * sizeof *p);
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        p[i] = (float)(seed >> 8) / 16777216.0f - 0.4f;
    }
    return p;
}

static void assert_near(double is, double want, double by)
{
    if (!(fabs(is - want) <= by))
        fail_msg("%.9g, not %.9g", is, want);
}

/* ---- the definition ---- */

typedef struct quantised {
    double step, zero;
    double *q; /* without the zero */
} quantised;

static quantised by_definition(const float *x, size_t n)
{
    double low = 0, high = 0;
    for (size_t i = 0; i < n; i++) {
        low = x[i] < low ? (double)x[i] : low;
        high = x[i] > high ? (double)x[i] : high;
    }
    quantised out = {(double)(float)((high - low) / 255), 0, pg__mem_array(n + 1, sizeof(double))};
    out.zero = out.step > 0 ? rint(-low / out.step) : 0;
    for (size_t i = 0; i < n; i++) {
        const double q = (out.step > 0 ? rint((double)x[i] / out.step) : 0) + out.zero;
        out.q[i] = (q < 0 ? 0 : q > 255 ? 255 : q) - out.zero;
    }
    return out;
}

/* As w, but each column in steps of a 127th of its largest magnitude. */
static double *columns_by_definition(const float *w, size_t rows, size_t n)
{
    double *out = pg__mem_array(rows * n + 1, sizeof *out);
    for (size_t j = 0; j < n; j++) {
        float most = 0;
        for (size_t r = 0; r < rows; r++)
            most = fabsf(w[r * n + j]) > most ? fabsf(w[r * n + j]) : most;
        const double step = (double)(most / 127);
        for (size_t r = 0; r < rows; r++)
            out[r * n + j] = step > 0 ? (double)rintf(w[r * n + j] / (float)step) * step : 0;
    }
    return out;
}

/* ---- bytes ---- */

static void each_set(void (*check)(const pg__int8_kernels *k))
{
    for (int isa = PG_ISA_BASE; isa < PG_N_ISAS; isa++)
        if (pg__isa_present((pg__isa)isa))
            check(pg__int8_kernels_of((pg__isa)isa));
#ifdef PG_HAVE_X86_ISAS
    if (pg__isa_present(PG_ISA_AVX512)) /* also where VNNI is faster */
        check(&pg__int8_kernels_avx512);
#endif
}

static void check_bytes(const pg__int8_kernels *k)
{
    enum { N = 77 };
    float *x = numbers(N, 3);
    for (size_t n = 1; n < N; n++) {
        const quantised want = by_definition(x, n);
        const pg__int8_scale by = k->scale(x, n);
        uint8_t *got = guarded(n);
        assert_near((double)by.step, want.step, 1e-6 * want.step);
        assert_int_equal(by.zero, (int)want.zero);
        k->quantise(x, n, by, got);
        for (size_t i = 0; i < n; i++)
            assert_int_equal(got[i], (int)(want.q[i] + want.zero));
        drop(got, n);
        pg__mem_free(want.q);
    }
    pg__mem_free(x);
}

static void test_bytes_are_by_definition(void **state)
{
    (void)state;
    each_set(check_bytes);
}

static void check_ends(const pg__int8_kernels *k)
{
    static const float zeros[20], tiny[] = {1e-44f, -1e-44f}, huge[] = {3e38f, -3e38f, 0};
    static const float below[] = {-1, -2, -4}, ties[] = {-0.5f, 254.5f, 0.5f, 1.5f, 2.5f, 3.5f};
    uint8_t q[20];
    pg__int8_scale by = k->scale(zeros, 20);
    assert_true(by.step == 1 && by.zero == 0);
    k->quantise(zeros, 20, by, q);
    assert_true(q[0] == 0 && q[19] == 0);
    by = k->scale(tiny, 2);
    k->quantise(tiny, 2, by, q);
    assert_true(by.step == 1 && q[0] == by.zero && q[1] == by.zero);
    by = k->scale(huge, 3);
    k->quantise(huge, 3, by, q);
    assert_true(isfinite(by.step) && q[0] == 255 && q[1] == 0 && q[2] == by.zero);
    by = k->scale(below, 3);
    k->quantise(below, 3, by, q);
    assert_true(by.zero == 255 && q[2] == 0);
    by = k->scale(ties, 6);
    k->quantise(ties, 6, by, q);
    assert_true(by.step == 1 && by.zero == 0 && q[2] == 0 && q[3] == 2 && q[4] == 2 && q[5] == 4);
    for (int i = 0; i < 3; i++) {
        float x[20] = {0};
        x[i * 9] = i == 0 ? NAN : i == 1 ? INFINITY : -INFINITY;
        by = k->scale(x, 20);
        assert_true(isnan(by.step));
        k->quantise(x, 20, by, q); /* the sanitizers look */
    }
}

static void test_zeros_and_what_is_not_finite(void **state)
{
    (void)state;
    each_set(check_ends);
}

/* ---- dense layers ---- */

typedef struct shape {
    size_t batch, cells, n, k;
} shape;

static void check_dense(pg__isa isa, shape s)
{
    const size_t rows = s.batch * s.cells, n_x = rows * s.k, n_y = rows * s.n;
    float *x = numbers(n_x, 5), *w = numbers(s.k * s.n, 6), *bias = numbers(s.n, 7);
    double *columns = columns_by_definition(w, s.k, s.n);
    pg__dense_int8 *d = NULL;
    pg__needs needs = {0};
    pg_err err = {0};
    assert_ok(pg__dense_int8_new(&d, s.batch, s.cells, s.n, s.k, isa, &needs, &err));
    assert_non_null(d);
    assert_true(needs.in_int8);
    void *packed = guarded(needs.shared_bytes), *scratch = guarded(needs.scratch_bytes);
    float *y = guarded(n_y * sizeof *y);
    pg__dense_int8_pack(d, w, packed);
    for (size_t i = 0; i < s.cells * s.k; i++) /* rows of other sizes have other scales */
        x[i] *= 9;
    pg__dense_int8_run(d, x, packed, bias, y, scratch);
    for (size_t b = 0; b < s.batch; b++) {
        const quantised q = by_definition(x + b * s.cells * s.k, s.cells * s.k);
        for (size_t at = 0; at < s.cells * s.n; at++) {
            const size_t i = at / s.n, j = at % s.n;
            double sum = 0;
            for (size_t c = 0; c < s.k; c++)
                sum += q.q[i * s.k + c] * columns[c * s.n + j];
            const double want = sum * q.step + (double)bias[j];
            assert_near((double)y[b * s.cells * s.n + at], want, 2e-6 * (fabs(want) + 1));
        }
        pg__mem_free(q.q);
    }
    pg__dense_int8_free(d);
    drop(packed, needs.shared_bytes);
    drop(scratch, needs.scratch_bytes);
    drop(y, n_y * sizeof *y);
    pg__mem_free(columns);
    pg__mem_free(bias);
    pg__mem_free(w);
    pg__mem_free(x);
}

static void test_dense_layers(void **state)
{
    static const shape shapes[] = {
        {1, 1, 16, 16},  {3, 1, 17, 19}, {40, 1, 33, 20},  {2, 15, 31, 18},  {2, 16, 48, 64},
        {3, 29, 65, 33}, {1, 1, 100, 5}, {1, 1, 129, 700}, {2, 70, 16, 513}, {5, 3, 47, 4099},
    };
    (void)state;
    for (int isa = PG_ISA_BASE; isa < PG_N_ISAS; isa++)
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes && pg__isa_present((pg__isa)isa); i++)
            check_dense((pg__isa)isa, shapes[i]);
}

/* text: rows, in, out; then of each of three dimensions: x, k, stride, dilation, before, after */
static pg__conv conv_of(const char *text, pg__isa isa)
{
    pg__conv c = {.isa = isa, .numbers = PG_NUMBERS_INT8, .groups = 1, .has_bias = 1};
    char *end = NULL;
    c.rows = strtoul(text, &end, 10);
    c.in = strtoul(end, &end, 10);
    c.out = strtoul(end, &end, 10);
    for (int d = 0; d < 3; d++) {
        c.x[d] = strtoul(end, &end, 10);
        c.k[d] = strtoul(end, &end, 10);
        c.stride[d] = strtoul(end, &end, 10);
        c.dilation[d] = strtoul(end, &end, 10);
        c.before[d] = strtoul(end, &end, 10);
        c.after[d] = strtoul(end, &end, 10);
        c.y[d] =
            (c.before[d] + c.x[d] + c.after[d] - (c.k[d] - 1) * c.dilation[d] - 1) / c.stride[d] +
            1;
    }
    return c;
}

static void test_only_what_pays(void **state)
{
    const pg__conv few = conv_of("1 16 16  1 1 1 1 0 0  64 1 1 1 0 0  64 1 1 1 0 0", PG_ISA_BASE);
    void *s = NULL;
    pg__needs needs = {0};
    pg_err err = {0};
    (void)state;
    assert_true(pg__dense_int8_pays(1, 1000, 2048));
    assert_true(pg__dense_int8_pays(128, 256, 256));
    assert_false(pg__dense_int8_pays(1, 32, 64));
    assert_false(pg__dense_int8_pays(1000, 16, 16));
    assert_false(pg__dense_int8_pays(128, 256, 65537));
    assert_ok(pg__conv_int8.prepare(&s, &few, &needs, &err));
    assert_null(s);
}

/* The largest bytes by the largest kernels, as often as is allowed. */
static void test_sums_do_not_overflow(void **state)
{
    enum { N = 16, K = 65536 };
    float *x = pg__mem_array(K, sizeof *x), *w = pg__mem_array((size_t)N * K, sizeof *w), y[N];
    pg_err err = {0};
    (void)state;
    for (size_t k = 0; k < K; k++)
        x[k] = 1;
    for (size_t i = 0; i < (size_t)N * K; i++)
        w[i] = i % 2 ? 1 : -1;
    for (int isa = PG_ISA_BASE; isa < PG_N_ISAS; isa++) {
        pg__dense_int8 *d = NULL;
        pg__needs needs = {0};
        if (!pg__isa_present((pg__isa)isa))
            continue;
        assert_ok(pg__dense_int8_new(&d, 1, 1, N, K + 1, (pg__isa)isa, &needs, &err));
        assert_null(d);
        assert_ok(pg__dense_int8_new(&d, 1, 1, N, K, (pg__isa)isa, &needs, &err));
        void *packed = guarded(needs.shared_bytes), *scratch = guarded(needs.scratch_bytes);
        pg__dense_int8_pack(d, w, packed);
        pg__dense_int8_run(d, x, packed, NULL, y, scratch);
        for (size_t j = 0; j < N; j++)
            assert_near((double)y[j], j % 2 ? K : -K, 0.01);
        pg__dense_int8_free(d);
        drop(packed, needs.shared_bytes);
        drop(scratch, needs.scratch_bytes);
    }
    pg__mem_free(w);
    pg__mem_free(x);
}

/* ---- convolutions ---- */

static void at_cells(const size_t d[3], size_t i, size_t out[3])
{
    out[2] = i % d[2];
    out[1] = i / d[2] % d[1];
    out[0] = i / d[2] / d[1];
}

/* One number of y, of one row. */
static double convolved(const pg__conv *c, const double *x, const double *w, size_t cell, size_t o)
{
    size_t y[3], k[3];
    double sum = 0;
    at_cells(c->y, cell, y);
    for (size_t tap = 0; tap < pg__conv_cells(c->k); tap++) {
        size_t at = 0;
        int inside = 1;
        at_cells(c->k, tap, k);
        for (int d = 0; d < 3; d++) {
            const size_t i = y[d] * c->stride[d] + k[d] * c->dilation[d] - c->before[d];
            inside &= i < c->x[d];
            at = at * c->x[d] + i;
        }
        for (size_t i = 0; inside && i < c->in; i++)
            sum += x[at * c->in + i] * w[(tap * c->in + i) * c->out + o];
    }
    return sum;
}

static void check_conv(const pg__conv *c, int with_plus)
{
    const size_t n_x = pg__conv_cells(c->x) * c->in, n_y = pg__conv_cells(c->y) * c->out;
    const size_t n_w = pg__conv_cells(c->k) * c->in;
    float *x = numbers(c->rows * n_x, 1), *w = numbers(n_w * c->out, 2), *b = numbers(c->out, 3);
    float *plus = numbers(c->rows * n_y, 4), *y = guarded(c->rows * n_y * sizeof *y);
    double *columns = columns_by_definition(w, n_w, c->out);
    void *s = NULL;
    pg__needs needs = {0};
    pg_err err = {0};
    assert_ok(pg__conv_int8.prepare(&s, c, &needs, &err));
    assert_non_null(s);
    void *packed = guarded(needs.shared_bytes), *scratch = guarded(needs.scratch_bytes);
    pg__conv_int8.pack(s, w, packed);
    pg__conv_int8.run(s, &(pg__conv_mem){.x = x,
                                         .w = w,
                                         .b = b,
                                         .y = y,
                                         .plus = with_plus ? plus : NULL,
                                         .packed = packed,
                                         .scratch = scratch});
    for (size_t row = 0; row < c->rows; row++) {
        const quantised q = by_definition(x + row * n_x, n_x);
        for (size_t i = 0; i < n_y; i++) {
            const size_t at = row * n_y + i;
            double want = convolved(c, q.q, columns, i / c->out, i % c->out) * q.step +
                          (double)b[i % c->out] + (with_plus ? (double)plus[at] : 0);
            if (c->range.is_used)
                want = fmin(fmax(want, (double)c->range.low), (double)c->range.high);
            assert_near((double)y[at], want, 4e-6 * (fabs(want) + 1));
        }
        pg__mem_free(q.q);
    }
    pg__conv_int8.release(s);
    drop(packed, needs.shared_bytes);
    drop(scratch, needs.scratch_bytes);
    drop(y, c->rows * n_y * sizeof *y);
    pg__mem_free(columns);
    pg__mem_free(plus);
    pg__mem_free(b);
    pg__mem_free(w);
    pg__mem_free(x);
}

static void test_convolutions(void **state)
{
    static const char *const setups[] = {
        "2 16 117  1 1 1 1 0 0  7 1 1 1 0 0  9 1 1 1 0 0",  /* one product */
        "2 19 401  1 1 1 1 0 0  8 1 2 1 0 0  9 1 2 1 0 0",  /* strides that leave cells out */
        "2 3 150   1 1 1 1 0 0  9 3 1 1 1 1  17 3 1 1 1 1", /* few channels, padded */
        "1 8 100   1 1 1 1 0 0  9 3 2 1 0 1  8 2 2 1 0 1",
        "1 20 50   1 1 1 1 0 0  11 3 1 2 2 2  12 2 1 3 0 0", /* dilated */
        "1 5 101   4 2 1 1 0 1  5 3 2 1 1 1  6 2 3 1 0 0",   /* volumes */
        "2 64 32   1 1 1 1 0 0  1 1 1 1 0 0  33 5 1 1 4 0",  /* causal sequences */
        "1 16 33   1 1 1 1 0 0  2 5 1 1 3 3  1 3 1 1 2 2",   /* more around it than in it */
        "1 16 201  1 1 1 1 0 0  4 1 1 1 0 0  1 1 4 1 3 0",   /* only what is around it */
        "1 300 112 1 1 1 1 0 0  150 3 1 1 1 1  1 3 1 1 1 1", /* panels leave the cache: lines, */
        "1 2400 128 1 1 1 1 0 0  9 1 1 1 0 0  9 1 1 1 0 0",  /* one product */
    };
    (void)state;
    for (int isa = PG_ISA_BASE; isa < PG_N_ISAS; isa++)
        for (size_t i = 0; i < sizeof setups / sizeof *setups && pg__isa_present((pg__isa)isa);
             i++) {
            pg__conv c = conv_of(setups[i], (pg__isa)isa);
            check_conv(&c, 0);
            c.range = (pg__range){1, 0, 1.5f};
            check_conv(&c, 1);
        }
}

#ifdef PG_HAVE_X86_ISAS
typedef struct two {
    const pg__int8_kernels *a, *b;
    pg__isa isa;
} two;

static float *multiplied(const pg__int8_kernels *k, const pg__int8_product *p, size_t m)
{
    const size_t bytes = pg__int8_packed_bytes(p), all = m * p->run_bytes;
    float *x = numbers(all, 1), *w = numbers(p->n * p->run_bytes, 2);
    float *y = guarded(m * p->n * sizeof *y);
    uint8_t *a = guarded(all);
    void *packed = guarded(bytes);
    const pg__int8_scale by = k->scale(x, all);
    k->quantise(x, all, by, a);
    k->pack(p, &(pg__int8_w){1, p->run_bytes, w}, packed);
    k->multiply(
        p, packed,
        &(pg__int8_rows){
            .a = a, .n_lines = 1, .m = m, .row_bytes = p->run_bytes, .scales = &by, .c = y});
    drop(packed, bytes);
    drop(a, all);
    pg__mem_free(w);
    pg__mem_free(x);
    return y;
}

/* A processor runs one of them only; its sums are exact, and so are the other's. */
static void test_the_same_bits_with_vnni_and_without(void **state)
{
    const two sets[] = {
        {pg__int8_kernels_of(PG_ISA_AVX512), &pg__int8_kernels_avx512, PG_ISA_AVX512},
        {&pg__int8_kernels_dpbusd, &pg__int8_kernels_avx2, PG_ISA_AVX2},
    };
    static const size_t first = 0;
    (void)state;
    for (size_t i = 0; i < 2; i++)
        for (size_t m = 1; m < 62 && pg__isa_present(sets[i].isa); m += 5) {
            const pg__int8_product p = {
                .n = 7 * m % 83 + 1, .n_runs = 1, .run_bytes = 148, .run_at = &first};
            float *a = multiplied(sets[i].a, &p, m), *b = multiplied(sets[i].b, &p, m);
            assert_memory_equal(a, b, m * p.n * sizeof *a);
            drop(a, m * p.n * sizeof *a);
            drop(b, m * p.n * sizeof *b);
        }
}
#endif

/* ... and only its row. */
static void test_an_image_that_is_not_finite_gives_nan(void **state)
{
    const pg__conv c = conv_of("2 3 150  1 1 1 1 0 0  9 3 1 1 1 1  17 3 1 1 1 1", PG_ISA_BASE);
    const size_t n_x = pg__conv_cells(c.x) * c.in, n_y = pg__conv_cells(c.y) * c.out;
    float *x = numbers(2 * n_x, 1), *w = numbers(27 * c.out, 2), *b = numbers(c.out, 3);
    float *y = numbers(2 * n_y, 4);
    void *s = NULL;
    pg__needs needs = {0};
    pg_err err = {0};
    (void)state;
    x[n_x - 1] = -INFINITY;
    assert_ok(pg__conv_int8.prepare(&s, &c, &needs, &err));
    void *packed = guarded(needs.shared_bytes), *scratch = guarded(needs.scratch_bytes);
    pg__conv_int8.pack(s, w, packed);
    pg__conv_int8.run(
        s, &(pg__conv_mem){.x = x, .w = w, .b = b, .y = y, .packed = packed, .scratch = scratch});
    for (size_t i = 0; i < 2 * n_y; i++)
        assert_int_equal(isnan(y[i]) != 0, i < n_y);
    pg__conv_int8.release(s);
    drop(packed, needs.shared_bytes);
    drop(scratch, needs.scratch_bytes);
    pg__mem_free(y);
    pg__mem_free(b);
    pg__mem_free(w);
    pg__mem_free(x);
}

static void test_a_kernel_that_is_not_finite_gives_nan(void **state)
{
    enum { N = 20, K = 16 };
    float *x = numbers(K, 1), *w = numbers(N * K, 2), y[N];
    pg__dense_int8 *d = NULL;
    pg__needs needs = {0};
    pg_err err = {0};
    (void)state;
    w[0 * N + 3] = NAN;
    w[5 * N + 4] = INFINITY;
    for (size_t k = 0; k < K; k++)
        w[k * N + 7] = 0;
    assert_ok(pg__dense_int8_new(&d, 1, 1, N, K, PG_ISA_BASE, &needs, &err));
    void *packed = guarded(needs.shared_bytes), *scratch = guarded(needs.scratch_bytes);
    pg__dense_int8_pack(d, w, packed);
    pg__dense_int8_run(d, x, packed, NULL, y, scratch);
    for (size_t j = 0; j < N; j++)
        assert_int_equal(isnan(y[j]) != 0, j == 3 || j == 4);
    assert_true(y[7] == 0);
    pg__dense_int8_free(d);
    drop(packed, needs.shared_bytes);
    drop(scratch, needs.scratch_bytes);
    pg__mem_free(w);
    pg__mem_free(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes_are_by_definition),
        cmocka_unit_test(test_zeros_and_what_is_not_finite),
        cmocka_unit_test(test_dense_layers),
        cmocka_unit_test(test_only_what_pays),
        cmocka_unit_test(test_sums_do_not_overflow),
        cmocka_unit_test(test_convolutions),
#ifdef PG_HAVE_X86_ISAS
        cmocka_unit_test(test_the_same_bits_with_vnni_and_without),
#endif
        cmocka_unit_test(test_an_image_that_is_not_finite_gives_nan),
        cmocka_unit_test(test_a_kernel_that_is_not_finite_gives_nan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

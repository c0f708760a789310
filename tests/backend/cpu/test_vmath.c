/* The kernels' own exp, tanh, ...: against libm in double over the whole range of floats, for each
 * instruction set that this processor has. PG_VMATH_STEP=1 tries every float (minutes). */
#include "pg_test.h"

#include <math.h>

#include "backend/cpu/isa.h"
#include "vmath_fns.h"

#define CHUNK 4096

static double sigmoid(double x)
{
    return x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x));
}
static double softplus(double x)
{
    return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
}

/* Error in units of the last place of the true value; infinity where it is another kind of number.
 */
static double error_of(double want, float got)
{
    int exponent;
    if (isnan(want))
        return isnan(got) ? 0 : INFINITY;
    if ((float)want == got)
        return 0;
    if (isnan(got) || isinf(got) || isinf(want))
        return INFINITY;
    (void)frexp(want, &exponent);
    exponent = exponent < -125 ? -125 : exponent > 128 ? 128 : exponent;
    return fabs(want - (double)got) / ldexp(1, exponent - 24);
}

static uint32_t step_from_environment(void)
{
    const char *text = getenv("PG_VMATH_STEP");
    return text ? (uint32_t)strtoul(text, NULL, 10) : 4001;
}

/* Up to CHUNK floats from those of `*bits` on. */
static size_t next_floats(float *x, uint64_t *bits)
{
    const uint32_t step = step_from_environment();
    size_t n = 0;
    for (; n < CHUNK && *bits <= UINT32_MAX; n++, *bits += step) {
        const uint32_t b = (uint32_t)*bits;
        memcpy(&x[n], &b, sizeof b);
    }
    return n;
}

static void for_each_isa(void (*see)(const vmath_fns *f, const char *isa))
{
    see(&vmath_fns_f32, "base");
#ifdef PG_HAVE_X86_ISAS
    if (pg__isa_present(PG_ISA_AVX2))
        see(&vmath_fns_avx2, "avx2");
    if (pg__isa_present(PG_ISA_AVX512))
        see(&vmath_fns_avx512, "avx512");
#endif
}

static void check(const char *isa, const char *name, void (*fn)(const float *, float *, size_t),
                  double (*exact)(double), double bound)
{
    static float x[CHUNK], y[CHUNK];
    for (uint64_t bits = 0; bits <= UINT32_MAX;) {
        const size_t n = next_floats(x, &bits);
        fn(x, y, n);
        for (size_t i = 0; i < n; i++)
            if (!(error_of(exact((double)x[i]), y[i]) <= bound))
                fail_msg("%s, %s(%.9g) is %.9g, off by %.3g units", isa, name, (double)x[i],
                         (double)y[i], error_of(exact((double)x[i]), y[i]));
    }
}

/* The kinks of the approximations, denormals, what is no number. */
static void check_edges(const char *isa, const char *name,
                        void (*fn)(const float *, float *, size_t), double (*exact)(double),
                        double bound)
{
    static const float edges[] = {
        0,         1e-45f,     1e-38f,     1.17549435e-38f, 0.33333334f, 0.34657359f, 0.92773438f,
        1,         1.0986123f, 4,          17.328f,         40,          87.33654f,   88.722839f,
        88.72284f, 89,         103.27893f, 103.97208f,      104,         3.4e38f,     INFINITY,
        NAN};
    for (size_t i = 0; i < sizeof edges / sizeof *edges; i++)
        for (int ulps = -40; ulps <= 40; ulps++) {
            int32_t bits;
            float x[2], y[2];
            memcpy(&bits, &edges[i], sizeof bits);
            bits += ulps;
            memcpy(&x[0], &bits, sizeof bits);
            x[1] = -x[0];
            fn(x, y, 2);
            for (int k = 0; k < 2; k++)
                if (!(error_of(exact((double)x[k]), y[k]) <= bound))
                    fail_msg("%s, %s(%.9g) is %.9g", isa, name, (double)x[k], (double)y[k]);
        }
}

static void stays_within_its_bounds(const vmath_fns *f, const char *isa)
{
    const struct {
        const char *name;
        void (*fn)(const float *, float *, size_t);
        double (*exact)(double);
        double bound;
    } fns[] = {{"exp", f->exp, exp, 2},    {"expm1", f->expm1, expm1, 2},
               {"tanh", f->tanh, tanh, 3}, {"sigmoid", f->sigmoid, sigmoid, 3},
               {"log", f->log, log, 2},    {"softplus", f->softplus, softplus, 2},
               {"erf", f->erf, erf, 2}};
    for (size_t i = 0; i < sizeof fns / sizeof *fns; i++) {
        check(isa, fns[i].name, fns[i].fn, fns[i].exact, fns[i].bound);
        check_edges(isa, fns[i].name, fns[i].fn, fns[i].exact, fns[i].bound);
    }
}

static void every_function_stays_within_its_bound(void **state)
{
    (void)state;
    for_each_isa(stays_within_its_bounds);
}

static void agrees_below_zero(const vmath_fns *f, const char *isa)
{
    static float x[CHUNK], y[CHUNK], down[CHUNK];
    for (uint64_t bits = UINT32_C(1) << 31; bits <= UINT32_MAX;) { /* -0 to -NaN */
        const size_t n = next_floats(x, &bits);
        f->exp(x, y, n);
        f->exp_down(x, down, n);
        for (size_t i = 0; i < n; i++)
            if (memcmp(&y[i], &down[i], sizeof y[i]) != 0 && !(isnan(y[i]) && isnan(down[i])))
                fail_msg("%s, exp(%.9g) is %.9g, %.9g by exp_down", isa, (double)x[i], (double)y[i],
                         (double)down[i]);
    }
}

static void exp_of_negative_numbers_has_the_bits_of_exp(void **state)
{
    (void)state;
    for_each_isa(agrees_below_zero);
}

static void zeros_keep_their_sign(void **state)
{
    const float x[2] = {0.0f, -0.0f};
    float y[2];
    (void)state;
    vmath_fns_f32.tanh(x, y, 2);
    assert_true(!signbit(y[0]) && signbit(y[1]));
    vmath_fns_f32.erf(x, y, 2);
    assert_true(!signbit(y[0]) && signbit(y[1]));
}

PG_TEST_MAIN(cmocka_unit_test(every_function_stays_within_its_bound),
             cmocka_unit_test(exp_of_negative_numbers_has_the_bits_of_exp),
             cmocka_unit_test(zeros_keep_their_sign))

/* The engine finds what is wrong in kernels of wrong.cu, at its line, and nothing in those of
 * right.cu, which compute what they should; instructions round as PTX says. The argument is the
 * folder of these files. */
#include "pg_test.h"

#include <math.h>

#include "engine.h"
#include "ops.h"

extern const ptx_module ptx_wrong, ptx_right;

#define N_SEEDS 6

/* Memory of a device, on both sides. */
typedef struct buffer {
    void *host;
    uint64_t device;
} buffer;

static buffer take(size_t n, int is_known)
{
    buffer b = {aligned_alloc(256, (n + 255) / 256 * 256), 0};
    memset(b.host, 0, n);
    b.device = (uint64_t)(uintptr_t)b.host | PTX_DEVICE;
    ptx_memory(b.device, b.host, n, is_known);
    return b;
}

static void give(buffer b)
{
    ptx_memory(b.device, NULL, 0, 0);
    free(b.host);
}

static int launch(const ptx_module *m, const char *name, uint32_t blocks, uint32_t threads,
                  void *const *args, char message[512])
{
    const ptx_kernel *k = ptx_kernel_of(m, name);
    _Alignas(16) unsigned char params[256];
    assert_non_null(k);
    ptx_pack(k, args, params);
    message[0] = '\0';
    return ptx_run(k, (uint32_t[]){blocks, 1, 1}, (uint32_t[]){threads, 1, 1}, params, 0, message,
                   512);
}

static void runs(const char *name, uint32_t blocks, void *const *args)
{
    char message[512];
    if (launch(&ptx_right, name, blocks, 256, args, message) != 0)
        fail_msg("%s", message);
}

/* ---- what is wrong ---- */

/* Does the line of wrong.cu with this number end in the comment? */
static int is_marked(unsigned long number, const char *name)
{
    char path[512], line[256], mark[64];
    int is = 0;
    (void)snprintf(path, sizeof path, "%s/wrong.cu", pg_testdata);
    (void)snprintf(mark, sizeof mark, "/* %s */\n", name);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    for (unsigned long n = 1; fgets(line, sizeof line, f); n++) {
        const size_t long_ = strlen(line), short_ = strlen(mark);
        is |= n == number && long_ >= short_ && strcmp(line + long_ - short_, mark) == 0;
    }
    fclose(f);
    return is;
}

static const struct {
    const char *name, *says;
    size_t bytes;
    int is_known;
} wrong[] = {
    {"race", "a race", 256, 1},
    {"race_of_blocks", "a race", 256, 1},
    {"race_with_atomic", "", 256, 1}, /* or nobody has written it yet */
    {"race_over_shuffle", "a race", 256, 1},
    {"missing_barrier", "a divergent barrier: thread ", 256, 1},
    {"divergent_shuffle", "a divergent shuffle: thread ", 256, 1},
    {"shuffle_of_others", "a divergent shuffle: it takes the value of lane 0", 256, 1},
    {"shuffle_without_oneself", "its mask 0x7fffffff does not name it", 256, 1},
    {"divergent_vote", "a divergent vote: thread 7", 256, 1},
    {"one_past_the_end", "writes 4 bytes from byte 256 on of memory that has 256", 256, 1},
    {"before_the_begin", "reads 4 bytes at 0x", 256, 1},
    {"beyond_shared", "reads 4 bytes from byte 256 on of shared memory that has 256", 256, 1},
    {"misaligned", "writes 16 bytes at 0x", 256, 1},
    {"unknown_shared", "reads 4 bytes of shared memory that nobody has written", 256, 1},
    {"unknown_local", "reads 4 bytes of local memory that nobody has written", 256, 1},
    {"unknown_memory", "reads 4 bytes of memory that nobody has written", 256, 0},
    {"host_memory", "writes 4 bytes at 0x1000, which is no memory of a device", 256, 1},
    {"no_divisor", "divides by 0", 256, 1},
    {"called", " on of memory that has 256", 256, 1},
};
#define N_WRONG (sizeof wrong / sizeof *wrong)

static void what_is_wrong_is_found_at_its_line(void **state)
{
    (void)state;
    for (size_t c = 0; c < N_WRONG * N_SEEDS; c++) {
        const size_t k = c / N_SEEDS;
        const char *const name = wrong[k].name;
        char message[512];
        ptx_seed = (unsigned)(c % N_SEEDS);
        buffer y = take(wrong[k].bytes, wrong[k].is_known);
        if (launch(&ptx_wrong, name, 2, 64, (void *[]){&y.device}, message) == 0)
            fail_msg("%s, seed %u: nothing was found", name, ptx_seed);
        const char *const at = strstr(message, "wrong.cu:");
        if (!at || !strstr(message, wrong[k].says) ||
            !is_marked(strtoul(at + strlen("wrong.cu:"), NULL, 10), name))
            fail_msg("%s, seed %u: %s", name, ptx_seed, message);
        give(y);
    }
    ptx_seed = 0;
}

static void every_kernel_of_wrong_cu_is_tried(void **state)
{
    size_t n = 0;
    (void)state;
    while (ptx_wrong.kernels[n].name)
        n++;
    assert_int_equal(n, N_WRONG);
}

static void a_fault_tells_who_called(void **state)
{
    char message[512];
    buffer y = take(256, 1);
    (void)state;
    assert_int_equal(launch(&ptx_wrong, "called", 1, 64, (void *[]){&y.device}, message), -1);
    assert_non_null(strstr(message, " from wrong.cu:"));
    assert_non_null(strstr(message, ": called, block 0,0,0 thread 0,0,0: "));
    give(y);
}

static void memory_of_another_device_is_found(void **state)
{
    char message[512];
    const ptx_kernel *k = ptx_kernel_of(&ptx_right, "votes");
    buffer y = take(1024, 1);
    (void)state;
    assert_int_equal(ptx_run(k, (uint32_t[]){1, 1, 1}, (uint32_t[]){256, 1, 1}, &y.device, 3,
                             message, sizeof message),
                     -1);
    assert_non_null(strstr(message, "memory of another device"));
    give(y);
}

/* ---- what is right ---- */

static void sums_are_those_of_blocks(void **state)
{
    static const unsigned sizes[] = {1, 31, 33, 255, 256, 257, 1023, 1025};
    (void)state;
    for (size_t c = 0; c < sizeof sizes / sizeof *sizes * N_SEEDS; c++) {
        unsigned n = sizes[c / N_SEEDS];
        const unsigned blocks = (n + 255) / 256;
        buffer x = take(n * sizeof(float), 1), y = take(blocks * sizeof(float), 0);
        ptx_seed = (unsigned)(c % N_SEEDS);
        for (unsigned i = 0; i < n; i++)
            ((float *)x.host)[i] = (float)(i % 37);
        runs("sum", blocks, (void *[]){&x.device, &y.device, &n});
        for (unsigned b = 0; b < blocks; b++) {
            float want = 0;
            for (unsigned i = 256 * b; i < n && i < 256 * (b + 1); i++)
                want += (float)(i % 37);
            assert_true(((const float *)y.host)[b] == want); /* NOLINT: whole numbers */
        }
        give(x), give(y);
    }
    ptx_seed = 0;
}

static void atomics_count_all(void **state)
{
    unsigned n = 3000;
    (void)state;
    for (ptx_seed = 0; ptx_seed < N_SEEDS; ptx_seed++) {
        buffer x = take(n * sizeof(unsigned), 1), y = take(8 * sizeof(unsigned), 1);
        unsigned want[8] = {0};
        for (unsigned i = 0; i < n; i++) {
            ((unsigned *)x.host)[i] = i * i;
            want[i * i % 8]++;
        }
        runs("histogram", 3, (void *[]){&x.device, &y.device, &n});
        assert_memory_equal(y.host, want, sizeof want);
        give(x), give(y);
    }
    ptx_seed = 0;
}

static void warps_exchange(void **state)
{
    (void)state;
    for (ptx_seed = 0; ptx_seed < N_SEEDS; ptx_seed++) {
        buffer y = take(256 * sizeof(float), 1);
        runs("turned", 1, (void *[]){&y.device});
        for (unsigned t = 0; t < 256; t++)
            assert_int_equal(((const unsigned *)y.host)[t],
                             (31 - (t + 1) % 32) * (31 - (t + 1) % 32));
        runs("votes", 1, (void *[]){&y.device});
        for (unsigned t = 0; t < 256; t++)
            assert_int_equal(((const unsigned *)y.host)[t], 0x49249249u ^ 2u);
        runs("groups", 1, (void *[]){&y.device});
        for (unsigned t = 0; t < 256; t++) {
            const float v = (float)(t / 8 * 64 + 28), before = (float)((t / 8 - 1) * 64 + 28);
            const float up = t % 32 < 8 ? v : before, first = (float)(t / 16 * 128 + 28);
            assert_true(fabsf(((const float *)y.host)[t] - (v + 1000 * up + 1e6f * first)) <=
                        1e-6f * 1e6f * first);
        }
        give(y);
    }
    ptx_seed = 0;
}

static double odd(int v)
{
    switch (v % 6) {
    case 0: return 1.5 * v;
    case 1: return sqrt((double)v);
    case 2: return (double)(v / 3) - v % 5;
    case 3: return (double)((long long)v * 1000003 / 17);
    case 4: return (double)(float)v / 3;
    default: return -v;
    }
}

static void everything_else_is_computed(void **state)
{
    buffer x = take(256 * sizeof(int), 1), y = take(256 * sizeof(double), 0);
    (void)state;
    for (int t = 0; t < 256; t++)
        ((int *)x.host)[t] = t * 977 % 2000 - 300;
    runs("odds", 1, (void *[]){&x.device, &y.device});
    for (int t = 0; t < 256; t++) {
        const int v = ((const int *)x.host)[t];
        const double got = ((const double *)y.host)[t], want = odd(v) + (v & 15) * v;
        assert_true(got == want || (isnan(got) && isnan(want))); /* NOLINT: exact */
    }
    give(x), give(y);
}

/* Which all are made of instructions that are approximate. */
static void functions_stay_within_their_errors(void **state)
{
    unsigned n = 1025;
    (void)state;
    for (ptx_seed = 0; ptx_seed < N_SEEDS; ptx_seed++) {
        buffer x = take(n * sizeof(float), 1), y = take(n * sizeof(float), 0);
        for (unsigned i = 0; i < n; i++)
            ((float *)x.host)[i] = (float)((int)i - 512) / 30;
        runs("exponentials", 1, (void *[]){&x.device, &y.device, &n});
        for (unsigned i = 0; i < n; i++) {
            const double v = (double)((const float *)x.host)[i];
            const double want = exp(v) + log(1 + fabs(v)) + tanh(v) + erf(v) +
                                cos((double)(100 * ((const float *)x.host)[i]));
            assert_true(fabs((double)((const float *)y.host)[i] - want) <= 1e-6 * (4 + fabs(want)));
        }
        give(x), give(y);
    }
    ptx_seed = 0;
}

/* ---- roundings ---- */

static float any_float(uint64_t *state, int powers)
{
    const uint64_t r = ptx_random(state);
    const float f = (float)(r >> 40) * 0x1p-23f - 1;
    return ldexpf(f, (int)(r & 0xffff) % powers - powers / 2);
}

/* Exact in __float128 as long as the powers are not far apart. */
static void sums_and_products_round_as_told(void **state)
{
    uint64_t random = 1;
    (void)state;
    for (unsigned k = 0; k < 200000; k++) {
        const float a = any_float(&random, 20), b = any_float(&random, 20);
        const float c = any_float(&random, 40);
        const __float128 exact = (__float128)a * b + c;
        const uint32_t x = ptx_keep_32(a), y = ptx_keep_32(b), z = ptx_keep_32(c);
        const float down = ptx_real_32(ptx_fma_rm_f32(x, y, z));
        const float up = ptx_real_32(ptx_fma_rp_f32(x, y, z));
        const float zero = ptx_real_32(ptx_fma_rz_f32(x, y, z));
        const float near = ptx_real_32(ptx_fma_rn_f32(x, y, z));
        assert_true(down <= exact && exact <= up);
        assert_true((__float128)down == exact ? up == down : up == nextafterf(down, INFINITY));
        assert_true(zero == (exact < 0 ? up : down)); /* NOLINT: one of the two */
        assert_true(near == (exact - down < up - exact || down == up ? down : up) ||
                    exact - down == up - exact);
    }
    assert_int_equal(ptx_add_rz_f32(0x3f800000, 0x33ffffff), 0x3f800000);
    assert_int_equal(ptx_add_rp_f32(0x3f800000, 0x00000001), 0x3f800001);
    assert_int_equal(ptx_fma_rn_f32(0x3f800001, 0x3f800001, 0xbf800002), 0x28800000);
}

static void conversions_round_and_saturate(void **state)
{
    static const struct {
        float x;
        uint32_t nearest, towards_0;
    } whole[] = {{0.5f, 0, 0},
                 {1.5f, 2, 1},
                 {2.5f, 2, 2},
                 {-0.5f, 0, 0},
                 {-1.5f, (uint32_t)-2, (uint32_t)-1},
                 {3e9f, INT32_MAX, INT32_MAX},
                 {-3e9f, 0x80000000u, 0x80000000u},
                 {NAN, 0, 0},
                 {INFINITY, INT32_MAX, INT32_MAX}};
    (void)state;
    for (size_t k = 0; k < sizeof whole / sizeof *whole; k++) {
        assert_int_equal(ptx_cvt_rni_s32_f32(ptx_keep_32(whole[k].x)), whole[k].nearest);
        assert_int_equal(ptx_cvt_rzi_s32_f32(ptx_keep_32(whole[k].x)), whole[k].towards_0);
    }
    assert_true(ptx_cvt_rzi_u64_f32(ptx_keep_32(NAN)) == (uint64_t)1 << 63);
    assert_true(ptx_cvt_rzi_u64_f32(ptx_keep_32(-1)) == 0);
    assert_true(ptx_cvt_rzi_u64_f32(ptx_keep_32(2e19f)) == UINT64_MAX);
    assert_true(ptx_cvt_rzi_s64_f32(ptx_keep_32(-2e19f)) == (uint64_t)1 << 63);
    assert_int_equal(ptx_cvt_rzi_u32_f32(ptx_keep_32(4294967040.0f)), 4294967040u);
    assert_int_equal(ptx_cvt_rn_f32_u32(16777217), ptx_keep_32(16777216));
    assert_int_equal(ptx_cvt_rn_f32_u64(UINT64_MAX), ptx_keep_32(0x1p64f));
    assert_int_equal(ptx_cvt_rn_f32_f64(ptx_keep_64(1 + 0x1p-24)), ptx_keep_32(1));
    assert_int_equal(ptx_cvt_sat_f32_f32(ptx_keep_32(NAN)), 0);
    assert_int_equal(ptx_cvt_sat_f32_f32(ptx_keep_32(1.5f)), ptx_keep_32(1));
    assert_int_equal(ptx_add_f32(ptx_keep_32(INFINITY), ptx_keep_32(-INFINITY)), 0x7fffffff);
    assert_int_equal(ptx_shl_b32(1, 32), 0);
    assert_int_equal(ptx_shr_s32(0x80000000u, 99), UINT32_MAX);
    assert_int_equal(ptx_max_f32(ptx_keep_32(NAN), ptx_keep_32(-3)), ptx_keep_32(-3));
    assert_int_equal(ptx_shf_l_wrap_b32(0x80000001u, 5, 33), 11);
}

/* Which bits lie how far from what is exact; whether it is ever another number than the nearest. */
static void approximate_ones_are_off_within_their_bounds(void **state)
{
    static const struct {
        uint32_t (*of)(uint32_t);
        double (*exact)(double);
        double relative;
    } all[] = {{ptx_ex2_approx_f32, exp2, 0x1p-22},
               {ptx_ex2_approx_ftz_f32, exp2, 0x1p-22},
               {ptx_tanh_approx_f32, tanh, 0x1p-11},
               {ptx_sqrt_approx_f32, sqrt, 0x1p-23}};
    (void)state;
    for (size_t k = 0; k < sizeof all / sizeof *all; k++)
        for (ptx_seed = 0; ptx_seed < N_SEEDS; ptx_seed++) {
            unsigned n_off = 0;
            for (unsigned i = 1; i < 1000; i++) {
                const double exact = all[k].exact((double)((float)i / 50));
                const float got = ptx_real_32(all[k].of(ptx_keep_32((float)i / 50)));
                assert_true(fabs((double)got - exact) <= all[k].relative * exact);
                n_off += got != (float)exact; /* NOLINT: bits */
            }
            assert_true(ptx_seed == 0 ? n_off == 0 : n_off > 100);
        }
    ptx_seed = 2;
    assert_int_equal(ptx_ex2_approx_f32(0), ptx_keep_32(1));
    assert_int_equal(ptx_rcp_approx_ftz_f32(0x80000001u), ptx_keep_32(-INFINITY));
    assert_int_equal(ptx_lg2_approx_f32(ptx_keep_32(0)), ptx_keep_32(-INFINITY));
    ptx_seed = 0;
}

PG_TEST_MAIN(cmocka_unit_test(what_is_wrong_is_found_at_its_line),
             cmocka_unit_test(every_kernel_of_wrong_cu_is_tried),
             cmocka_unit_test(a_fault_tells_who_called),
             cmocka_unit_test(memory_of_another_device_is_found),
             cmocka_unit_test(sums_are_those_of_blocks), cmocka_unit_test(atomics_count_all),
             cmocka_unit_test(warps_exchange), cmocka_unit_test(everything_else_is_computed),
             cmocka_unit_test(functions_stay_within_their_errors),
             cmocka_unit_test(sums_and_products_round_as_told),
             cmocka_unit_test(conversions_round_and_saturate),
             cmocka_unit_test(approximate_ones_are_off_within_their_bounds))

#include "pg_test.h"

#include <math.h>

#include "base/hash.h"

/* A store of one tensor whose bytes are `ctx`. */
static pg_status from_memory(void *ctx, size_t tensor, uint64_t off, void *buf, size_t n,
                             pg_err *err)
{
    (void)tensor, (void)err;
    memcpy(buf, (const char *)ctx + off, n);
    return PG_OK;
}

static void nothing(void *ctx)
{
    (void)ctx;
}

static pg_stats stats_of(void *data, size_t n, pg_dtype dtype, int big_endian)
{
    static const pg__store_io io = {.read = from_memory, .close = nothing};
    const uint64_t dims[] = {n};
    const pg__tensor_desc d = {
        .name = "w", .dtype = dtype, .rank = 1, .dims = dims, .big_endian = big_endian};
    pg_store *s = NULL;
    pg_stats out;
    assert_ok(pg__store_new(&s, "test", &io, data, NULL));
    assert_ok(pg__store_add_weight(s, &d, NULL));
    assert_ok(pg_store_stats(&out, s, 0, NULL));
    pg_store_close(s);
    return out;
}

static void counts_zeros_nans_and_infinities_apart(void **state)
{
    (void)state;
    float v[] = {0, -1, 3, NAN, INFINITY, -0.0f, 2};
    const pg_stats s = stats_of(v, 7, PG_F32, 0);
    assert_int_equal(s.n, 7);
    assert_int_equal(s.n_zero, 2);
    assert_int_equal(s.n_nan, 1);
    assert_int_equal(s.n_inf, 1);
    assert_true(s.min == -1 && s.max == 3);
    assert_true(fabs(s.mean - 0.8) < 1e-12);
    assert_true(fabs(s.std - sqrt(2.16)) < 1e-12); /* of 0 -1 3 0 2 */
    assert_int_equal(s.crc32, pg__crc32(0, v, sizeof v));
}

static void spreads_values_over_bins_of_equal_width(void **state)
{
    (void)state;
    double v[] = {0, 1, 2, 3, 4, 5, 6, 7, 8};
    const uint64_t want[PG_STATS_BINS] = {1, 1, 1, 1, 1, 1, 1, 2};
    pg_stats s = stats_of(v, 9, PG_F64, 0);
    assert_memory_equal(s.bins, want, sizeof want);
    double same[] = {5, 5, 5};
    s = stats_of(same, 3, PG_F64, 0);
    assert_int_equal(s.bins[0], 3);
    double wide[] = {-1.7e308, 1.7e308};
    s = stats_of(wide, 2, PG_F64, 0);
    assert_true(s.bins[0] == 1 && s.bins[PG_STATS_BINS - 1] == 1);
}

/* Blocks and single values, what is finite and what is not, against plain sums in one order. */
static void agrees_with_plain_sums_at_any_length(void **state)
{
    (void)state;
    static float v[5000];
    uint32_t x = 1;
    for (size_t n = 1; n < 5000; n = n * 2 + 1) {
        double sum = 0, squares = 0, finite = 0;
        uint64_t want[PG_STATS_BINS] = {0}, zeros = 0;
        for (size_t i = 0; i < n; i++) {
            x = x * 1664525u + 1013904223u;
            v[i] = x >> 24 == 7 && i > 2000 ? (x & 1 << 20   ? NAN
                                               : x & 1 << 21 ? INFINITY
                                                             : -INFINITY)
                                            : (float)(x >> 8) / 65536 - 100 - (float)(i & 1);
            v[i] = x >> 24 == 9 ? 0 : v[i];
            zeros += v[i] == 0;
        }
        const pg_stats s = stats_of(v, n, PG_F32, 0);
        for (size_t i = 0; i < n; i++)
            if (isfinite(v[i])) {
                const double d = ((double)v[i] - s.min) / (s.max - s.min) * PG_STATS_BINS;
                sum += (double)v[i], finite++;
                want[n == 1 ? 0 : d >= PG_STATS_BINS ? PG_STATS_BINS - 1 : (size_t)d]++;
            }
        for (size_t i = 0; i < n; i++)
            if (isfinite(v[i]))
                squares += ((double)v[i] - sum / finite) * ((double)v[i] - sum / finite);
        assert_int_equal(s.n, n);
        assert_int_equal(s.n_zero, zeros);
        assert_true((double)(s.n - s.n_nan - s.n_inf) == finite);
        assert_true(fabs(s.mean - sum / finite) < 1e-10);
        assert_true(fabs(s.std - sqrt(squares / finite)) < 1e-10);
        for (size_t k = 0; k < PG_STATS_BINS; k++)
            assert_int_equal(s.bins[k], want[k]);
    }
}

static void sets_bounds_of_any_fineness_as_numpy_does(void **state)
{
    (void)state;
    float v[11];
    uint64_t bins[10];
    pg_stats s;
    pg_err err = {0};
    static const pg__store_io io = {.read = from_memory, .close = nothing};
    const uint64_t dims[] = {11};
    const pg__tensor_desc d = {.name = "w", .dtype = PG_F32, .rank = 1, .dims = dims};
    /* numpy.histogram(x.astype(float64), 10) of these tenths */
    const uint64_t want[10] = {1, 1, 1, 1, 1, 1, 2, 0, 2, 1};
    pg_store *store = NULL;
    for (int i = 0; i < 11; i++)
        v[i] = (float)i / 10;
    assert_ok(pg__store_new(&store, "test", &io, v, NULL));
    assert_ok(pg__store_add_weight(store, &d, NULL));
    assert_ok(pg_store_histogram(&s, bins, 10, store, 0, NULL));
    assert_memory_equal(bins, want, sizeof want);
    assert_true(s.n == 11 && s.max == 1);
    assert_fails(PG_E_ARG, pg_store_histogram(&s, bins, 0, store, 0, &err), &err);
    pg_store_close(store);
}

static void knows_every_type(void **state)
{
    (void)state;
    uint16_t half[] = {0x3C00, 0xC000, 0x0001, 0x7C00, 0x7E00}; /* 1, -2, 2^-24, inf, nan */
    pg_stats s = stats_of(half, 5, PG_F16, 0);
    assert_true(s.min == -2 && s.max == 1 && s.n_inf == 1 && s.n_nan == 1);
    uint16_t brain[] = {0x3F80, 0xC040};
    s = stats_of(brain, 2, PG_BF16, 0);
    assert_true(s.min == -3 && s.max == 1);
    int8_t i8[] = {-128, 127};
    s = stats_of(i8, 2, PG_I8, 0);
    assert_true(s.min == -128 && s.max == 127);
    uint8_t flags[] = {0, 1, 1};
    s = stats_of(flags, 3, PG_BOOL, 0);
    assert_true(s.n_zero == 1 && s.max == 1);
    uint64_t u64[] = {UINT64_MAX};
    s = stats_of(u64, 1, PG_U64, 0);
    assert_true(s.max == (double)UINT64_MAX);
}

static void sums_the_same_bytes_whatever_their_order_in_the_file(void **state)
{
    (void)state;
    uint32_t little[] = {0x3F800000}, big[] = {0x0000803F};
    const pg_stats a = stats_of(little, 1, PG_F32, 0), b = stats_of(big, 1, PG_F32, 1);
    assert_true(b.max == 1);
    assert_int_equal(a.crc32, b.crc32);
}

static void reads_on_after_the_first_piece(void **state)
{
    (void)state;
    const size_t n = 200000; /* more than 256 KiB */
    float *v = calloc(n, sizeof *v);
    for (size_t i = 0; i < n; i++)
        v[i] = (float)(i + 1);
    const pg_stats s = stats_of(v, n, PG_F32, 0);
    assert_true(s.n == n && s.min == 1 && s.max == (float)n);
    assert_true(fabs(s.mean - (double)(n + 1) / 2) < 1e-6);
    assert_int_equal(s.crc32, pg__crc32(0, v, n * sizeof *v));
    free(v);
}

static void told(void *ctx, uint64_t n_done, uint64_t n_total)
{
    uint64_t *last = ctx;
    assert_true(n_done >= last[0] && n_done <= n_total);
    last[0] = n_done, last[1] = n_total;
}

/* A tensor of one piece is read once, a longer one twice. */
static void tells_how_far_it_is_and_can_be_stopped(void **state)
{
    (void)state;
    static float v[100000];
    static const pg__store_io io = {.read = from_memory, .close = nothing};
    const uint64_t few[] = {10}, many[] = {100000};
    const pg__tensor_desc a = {.name = "a", .dtype = PG_F32, .rank = 1, .dims = few};
    const pg__tensor_desc b = {.name = "b", .dtype = PG_F32, .rank = 1, .dims = many};
    const size_t which[] = {1, 0}, wrong[] = {0, 2};
    uint64_t last[2] = {0}, bins[2 * 3];
    int stop = 0;
    pg_progress p = {.tell = told, .ctx = last};
    const pg_stats_opts o = {.progress = &p, .cancel = &stop};
    pg_stats out[2];
    pg_err err = {0};
    pg_store *s = NULL;
    v[0] = 2, v[99999] = -1;
    assert_ok(pg__store_new(&s, "test", &io, v, NULL));
    assert_ok(pg__store_add_weight(s, &a, NULL));
    assert_ok(pg__store_add_weight(s, &b, NULL));
    assert_ok(pg_store_stats_of(out, NULL, 0, s, which, 2, &o, NULL));
    assert_true(last[0] == 800040 && last[1] == 800040);
    assert_true(out[0].n == 100000 && out[0].min == -1 && out[1].n == 10 && out[1].min == 0);
    assert_true(out[0].bins[2] == 99998 && out[1].bins[0] == 9);
    assert_ok(pg_store_stats_of(out, bins, 3, s, which, 2, NULL, NULL));
    assert_true(bins[0] == 1 && bins[1] == 99998 && bins[2] == 1); /* -1 | 0 .. | 2 */
    assert_true(bins[3] == 9 && bins[4] == 0 && bins[5] == 1 && out[0].bins[2] == 0);
    assert_fails(PG_E_ARG, pg_store_stats_of(out, NULL, 0, s, wrong, 2, NULL, &err), &err);
    stop = 1;
    assert_fails(PG_E_CANCELLED, pg_store_stats_of(out, NULL, 0, s, which, 2, &o, &err), &err);
    pg_store_close(s);
}

static void says_nothing_about_nothing(void **state)
{
    (void)state;
    float none[1] = {0};
    pg_err err = {0};
    const pg_stats s = stats_of(none, 0, PG_F32, 0);
    assert_true(s.n == 0 && isnan(s.min) && isnan(s.mean) && isnan(s.std) && s.crc32 == 0);
    pg_store *empty = pg_test_store("a");
    pg_stats out;
    assert_fails(PG_E_ARG, pg_store_stats(&out, empty, 0, &err), &err);
    pg_store_close(empty);
}

PG_TEST_MAIN(cmocka_unit_test(counts_zeros_nans_and_infinities_apart),
             cmocka_unit_test(agrees_with_plain_sums_at_any_length),
             cmocka_unit_test(spreads_values_over_bins_of_equal_width),
             cmocka_unit_test(sets_bounds_of_any_fineness_as_numpy_does),
             cmocka_unit_test(knows_every_type),
             cmocka_unit_test(sums_the_same_bytes_whatever_their_order_in_the_file),
             cmocka_unit_test(reads_on_after_the_first_piece),
             cmocka_unit_test(tells_how_far_it_is_and_can_be_stopped),
             cmocka_unit_test(says_nothing_about_nothing))

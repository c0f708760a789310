#include "pg_test.h"

#include <math.h>

#include "store/stats_block.h"

enum { N = 16384 };

static uint32_t state = 1;

static uint32_t next(void)
{
    return state = state * 1664525u + 1013904223u;
}

/* Numbers of all sizes, some of them equal, zero or -0; `special`: some are no numbers. */
static void fill(float *v, double *d, size_t n, int special)
{
    static const float odd[] = {0, -0.0f, 1, 1, -1};
    static const float no[] = {NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < n; i++) {
        const uint32_t x = next() >> 8;
        v[i] =
            x % 7 == 0 ? odd[x / 7 % 5] : ldexpf((float)x / 65536 - 128, (int)(next() >> 28) - 8);
        if (special && x % 11 == 0)
            v[i] = no[x / 11 % 3];
        d[i] = (double)v[i];
    }
}

static void looks_the_same_in_all_widths(void **unused)
{
    (void)unused;
    static float v[PG_STATS_BLOCK];
    static double d[PG_STATS_BLOCK];
    for (size_t n = PG_STATS_LANES; n <= PG_STATS_BLOCK; n += PG_STATS_LANES) {
        fill(v, d, n, 0);
        pg__part want, got;
        pg__look(&want, (unsigned char *)v, n, 1, PG_WIDTH_PLAIN);
        for (pg__width w = PG_WIDTH_PLAIN; w <= pg__widest(); w++) {
            pg__look(&got, (unsigned char *)v, n, 1, w);
            assert_memory_equal(&got, &want, sizeof got);
            pg__look(&got, (unsigned char *)d, n, 0, w);
            assert_memory_equal(&got, &want, sizeof got);
        }
    }
}

static void looks_as_one_value_after_the_other(void **unused)
{
    (void)unused;
    static float v[PG_STATS_BLOCK];
    static double d[PG_STATS_BLOCK];
    fill(v, d, PG_STATS_BLOCK, 0);
    pg__part got;
    double min = d[0], max = d[0], sum = 0, m2 = 0;
    uint64_t zeros = 0;
    for (size_t i = 0; i < PG_STATS_BLOCK; i++) {
        min = d[i] < min ? d[i] : min;
        max = d[i] > max ? d[i] : max;
        sum += d[i];
        zeros += d[i] == 0;
    }
    for (size_t i = 0; i < PG_STATS_BLOCK; i++)
        m2 += (d[i] - sum / PG_STATS_BLOCK) * (d[i] - sum / PG_STATS_BLOCK);
    pg__look(&got, (unsigned char *)v, PG_STATS_BLOCK, 1, PG_WIDTH_PLAIN);
    assert_true(got.min == min && got.max == max && got.zeros == zeros);
    assert_true(fabs(got.mean * PG_STATS_BLOCK - sum) <= 1e-12 * fabs(max - min) * PG_STATS_BLOCK);
    assert_true(fabs(got.m2 - m2) <= 1e-11 * m2);
}

/* Far from zero and close together: what a sum of squares would not see. */
static void keeps_the_digits_of_values_close_together(void **unused)
{
    (void)unused;
    double d[32];
    pg__part got;
    for (pg__width w = PG_WIDTH_PLAIN; w <= pg__widest(); w++) {
        for (size_t i = 0; i < 32; i++)
            d[i] = 1e9 + (double)(i & 1);
        pg__look(&got, (unsigned char *)d, 32, 0, w);
        assert_true(got.mean == 1e9 + 0.5 && got.m2 == 8);
        for (size_t i = 0; i < 32; i++)
            d[i] = 0.1;
        pg__look(&got, (unsigned char *)d, 32, 0, w);
        assert_true(got.mean == 0.1 && got.m2 == 0);
    }
}

static void a_block_with_something_else_has_no_mean(void **unused)
{
    (void)unused;
    const float others[] = {NAN, INFINITY, -INFINITY};
    pg__part got;
    for (pg__width w = PG_WIDTH_PLAIN; w <= pg__widest(); w++)
        for (size_t k = 0; k < 3; k++)
            for (size_t at = 0; at < 32; at++) {
                float v[32] = {0};
                v[at] = others[k];
                pg__look(&got, (unsigned char *)v, 32, 1, w);
                assert_true(!isfinite(got.mean));
            }
}

static void ranks_as_one_value_after_the_other(void **unused)
{
    (void)unused;
    static float v[N];
    static double d[N];
    static const size_t lengths[] = {16, 32, 240, 256, 4080, 4096, N};
    static const size_t bins[] = {1, 2, 7, 8, 9, 15, 40};
    for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++)
        for (size_t b = 0; b < sizeof bins / sizeof *bins; b++) {
            double edges[40] = {0};
            uint64_t want[40] = {0};
            fill(v, d, lengths[l], 1);
            for (size_t k = 1; k < bins[b];
                 k++) /* values of the tensor are edges, and what lies between */
                edges[k] = k % 2 ? (double)k * 0.3 - 2 : k == 4 ? 0 : floor((double)k * 0.3 - 2);
            for (size_t k = 1; k < bins[b]; k++)
                edges[k] = edges[k] < edges[k - 1] && k > 1 ? edges[k - 1] : edges[k];
            if (b == 3)
                edges[7] = (double)INFINITY;
            for (size_t i = 0; i < lengths[l]; i++)
                for (size_t k = 1; k < bins[b]; k++)
                    want[k] += (uint64_t)(d[i] >= edges[k]);
            for (pg__width w = PG_WIDTH_PLAIN; w <= pg__widest(); w++)
                for (int single = 0; single < 2; single++) {
                    uint64_t got[40] = {0};
                    pg__rank(got, edges, bins[b], single ? (unsigned char *)v : (unsigned char *)d,
                             lengths[l], single, w);
                    assert_memory_equal(got, want, sizeof got);
                }
        }
}

PG_TEST_MAIN(cmocka_unit_test(looks_the_same_in_all_widths),
             cmocka_unit_test(looks_as_one_value_after_the_other),
             cmocka_unit_test(keeps_the_digits_of_values_close_together),
             cmocka_unit_test(a_block_with_something_else_has_no_mean),
             cmocka_unit_test(ranks_as_one_value_after_the_other))

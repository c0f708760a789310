/* Divisions by multiplication, and axes that are taken as one. */
#include "pg_test.h"

#include "backend/cuda/walk.h"

static void expect_quotient(uint64_t by, uint64_t i)
{
    const pgk_div d = pg__div_of(by);
    uint64_t front = i;
    if (pgk_quotient(d, i) != i / by)
        fail_msg("%llu / %llu is not %llu", (unsigned long long)i, (unsigned long long)by,
                 (unsigned long long)pgk_quotient(d, i));
    assert_true(pgk_take(d, &front) == i % by && front == i / by);
}

static void around(uint64_t by, uint64_t i)
{
    for (uint64_t k = 0; k < 3; k++)
        if (i + k > 0)
            expect_quotient(by, i + k - 1);
}

static void divides_by_everything(void **state)
{
    const uint64_t edge = (uint64_t)1 << 31;
    const uint64_t large[] = {65535,    65536,    65537,    edge - 2,  edge - 1,  edge,
                              edge + 1, 2 * edge, 3 * edge, edge << 9, UINT64_MAX};
    uint64_t seed = 1;
    (void)state;
    for (uint64_t k = 0; k < 3000 + sizeof large / sizeof *large; k++) {
        const uint64_t by = k < 3000 ? k + 1 : large[k - 3000];
        around(by, 0);
        around(by, by);
        around(by, edge / by * by); /* the last multiples that are multiplied */
        around(by, edge);
        for (unsigned n = 0; n < 50; n++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            expect_quotient(by, seed >> 33);
            expect_quotient(by, seed >> 33 << n % 33);
        }
    }
}

static void takes_axes_as_one_where_their_steps_allow(void **state)
{
    const pg__dims whole = {4, {2, 3, 1, 5}}, same = whole, last = {1, {5}}, none = {0, {0}};
    (void)state;
    assert_int_equal(pg__walk_along(&whole, &same, NULL).rank, 1);
    assert_int_equal(pg__walk_along(&whole, &same, &last).rank, 2);
    assert_int_equal(pg__walk_along(&whole, &none, NULL).rank, 1);
    assert_int_equal(pg__walk_along(&none, &none, &none).rank, 0);
    const pgk_walk w = pg__walk_along(&whole, &same, &last);
    for (uint64_t i = 0; i < 30; i++) {
        assert_int_equal(pgk_walk_to(&w, i).at[0], i);
        assert_int_equal(pgk_walk_to(&w, i).at[1], i % 5);
    }
}

static void takes_fours_where_all_steps_allow(void **state)
{
    pg__axes rows = {.rank = 0}, crooked = {.rank = 0};
    (void)state;
    pg__axes_add(&rows, 3, 16, 0);
    pg__axes_add(&rows, 8, 1, 0);
    pg__axes_add(&crooked, 3, 6, 0);
    pg__axes_add(&crooked, 8, 1, 0);
    pgk_walk w = pg__walk_of(&rows);
    assert_true(pg__walk_widen(&w));
    assert_int_equal(pgk_walk_at(&w, 2 * 2 + 1), 2 * 4 + 1); /* of fours */
    w = pg__walk_of(&crooked);
    assert_false(pg__walk_widen(&w));
    assert_int_equal(pgk_walk_at(&w, 2 * 8 + 1), 2 * 6 + 1);
}

static void refuses_images_that_its_indices_do_not_reach(void **state)
{
    const uint32_t half[] = {1 << 15, 1 << 15, 1}, fits[] = {1 << 15, (1 << 15) - 1, 1};
    const uint32_t huge[] = {UINT32_MAX, UINT32_MAX, UINT32_MAX};
    pgk_image image;
    pg_err err = {0};
    (void)state;
    assert_ok(pg__image_of(&image, fits, 2, 0, &err));
    const pgk_pixel last = pgk_pixel_of(&image, 3 * (uint64_t)fits[0] * fits[1] * 2 - 1);
    assert_true(last.row == 2 && last.channel == 1 && last.at[2] == 0);
    assert_true(last.at[0] == fits[0] - 1 && last.at[1] == fits[1] - 1);
    assert_fails(PG_E_UNSUPPORTED, pg__image_of(&image, half, 2, 1, &err), &err);
    assert_non_null(strstr(err.msg, "images of 32768 x 32768 x 1 cells and 8 channels"));
    assert_fails(PG_E_UNSUPPORTED, pg__image_of(&image, huge, UINT32_MAX, 0, &err), &err);
}

PG_TEST_MAIN(cmocka_unit_test(divides_by_everything),
             cmocka_unit_test(takes_axes_as_one_where_their_steps_allow),
             cmocka_unit_test(takes_fours_where_all_steps_allow),
             cmocka_unit_test(refuses_images_that_its_indices_do_not_reach))

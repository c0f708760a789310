/* Images changed at random: the numbers are spread as they should be, belong to rows whatever slice
 * those are in, and come between the bounds that each generation of Keras draws between. */
#include "model/match_test.h"

#include <math.h>

#include "model/lower/lower.h"
#include "ops/attrs.h"

#define N_ROWS 20000

static void run(pg__op_kind kind, const void *attrs, pg__arg a, pg__arg b, pg__arg out)
{
    const pg__arg in[] = {a, b};
    pg__op_of(kind)->ref_f32(attrs, in, 2, &out, 1);
}

/* rows x columns numbers of a step; row: the first of the batch's rows. */
static float *drawn(uint64_t rows, uint64_t columns, uint64_t row, int32_t step, int rows_share)
{
    int32_t state[PG_STEP_N] = {[PG_STEP_SEED] = 5, [PG_STEP_COUNT] = step};
    const pg__uniform_attrs a = {.to = {.rank = 2, .d = {rows, columns}},
                                 .stream = 3,
                                 .rows_share = rows_share,
                                 .low = {-1, 2},
                                 .high = {3, 2.5}};
    float *v = calloc(rows * columns, sizeof *v);
    assert_non_null(v);
    state[PG_STEP_ROW] = (int32_t)row;
    run(PG_OP_uniform, &a, (pg__arg){.p = state}, (pg__arg){.p = NULL},
        (pg__arg){.shape = &a.to, .p = v, .n = rows * columns});
    return v;
}

static void numbers_are_spread_evenly_between_their_bounds(void **state)
{
    double sum[2] = {0}, squares[2] = {0}, products = 0;
    size_t tenths[10] = {0};
    float *v = drawn(N_ROWS, 2, 0, 1, 0);
    (void)state;
    for (size_t r = 0; r < N_ROWS; r++) {
        const double x = (v[2 * r] + 1) / 4, y = (v[2 * r + 1] - 2) / 0.5;
        assert_true(x >= 0 && x < 1 && y >= 0 && y < 1);
        sum[0] += x, sum[1] += y;
        squares[0] += x * x, squares[1] += y * y;
        products += x * y;
        tenths[(size_t)(10 * x)]++;
    }
    for (size_t k = 0; k < 2; k++) {
        assert_true(fabs(sum[k] / N_ROWS - 0.5) < 0.01);
        assert_true(fabs(squares[k] / N_ROWS - 1.0 / 3) < 0.01);
    }
    assert_true(fabs(products / N_ROWS - 0.25) < 0.01);
    for (size_t k = 0; k < 10; k++)
        assert_true(tenths[k] > N_ROWS / 10 - 200 && tenths[k] < N_ROWS / 10 + 200);
    free(v);
}

static void numbers_belong_to_rows_and_steps(void **state)
{
    float *all = drawn(100, 2, 0, 1, 0), *part = drawn(30, 2, 41, 1, 0);
    float *later = drawn(100, 2, 0, 2, 0), *one = drawn(1, 2, 0, 1, 1),
          *same = drawn(1, 2, 50, 1, 1);
    (void)state;
    assert_memory_equal(part, all + 82, 60 * sizeof *part);
    assert_true(memcmp(all, later, 200 * sizeof *all) != 0);
    assert_memory_equal(one, same, 2 * sizeof *one);
    free(all), free(part), free(later), free(one), free(same);
}

static void mirrors_about_every_second_image(void **state)
{
    static const float image[6] = {1, 2, 3, 4, 5, 6}, across[6] = {3, 2, 1, 6, 5, 4},
                       down[6] = {4, 5, 6, 1, 2, 3}, both[6] = {6, 5, 4, 3, 2, 1};
    const pg__dims x = {.rank = 4, .d = {1, 2, 3, 1}}, n = {.rank = 2, .d = {1, 2}};
    const pg__warp_attrs a = {
        .kind = PG_WARP_FLIP, .fill = PG_FILL_NEAREST, .nearest = 1, .size = {2, 3}};
    size_t seen[4] = {0};
    float *u = drawn(N_ROWS, 1, 0, 1, 0);
    (void)state;
    for (size_t i = 0; i + 1 < N_ROWS; i += 2) {
        float y[6], by[2] = {(u[i] + 1) / 4, (u[i + 1] + 1) / 4}, from[6];
        memcpy(from, image, sizeof from);
        run(PG_OP_warp, &a, (pg__arg){&x, from, 6}, (pg__arg){&n, by, 2}, (pg__arg){&x, y, 6});
        const size_t which = (by[0] < 0.5F ? 1u : 0u) + (by[1] < 0.5F ? 2u : 0u);
        const float *const want[] = {image, across, down, both};
        assert_memory_equal(y, want[which], sizeof y);
        seen[which]++;
    }
    for (size_t k = 0; k < 4; k++)
        assert_true(seen[k] > N_ROWS / 8 - 150 && seen[k] < N_ROWS / 8 + 150);
    free(u);
}

static void crops_begin_at_every_cell_alike(void **state)
{
    const pg__dims x = {.rank = 4, .d = {1, 1, 7, 1}}, y = {.rank = 4, .d = {1, 1, 3, 1}};
    const pg__dims n = {.rank = 2, .d = {1, 2}};
    const pg__warp_attrs a = {
        .kind = PG_WARP_CROP, .fill = PG_FILL_NEAREST, .nearest = 1, .size = {1, 3}};
    size_t seen[5] = {0};
    float *u = drawn(N_ROWS, 1, 0, 1, 0);
    (void)state;
    for (size_t i = 0; i < N_ROWS; i++) {
        float image[7] = {0, 1, 2, 3, 4, 5, 6}, part[3], by[2] = {(u[i] + 1) / 4 * 5, 0};
        run(PG_OP_warp, &a, (pg__arg){&x, image, 7}, (pg__arg){&n, by, 2}, (pg__arg){&y, part, 3});
        assert_true(part[0] <= 4 && part[1] == part[0] + 1 && part[2] == part[0] + 2);
        seen[(size_t)part[0]]++;
    }
    for (size_t k = 0; k < 5; k++)
        assert_true(seen[k] > N_ROWS / 5 - 250 && seen[k] < N_ROWS / 5 + 250);
    free(u);
}

/* What the layer draws its numbers between; -1 columns: it draws none. */
typedef struct bounds {
    int columns, rows_share;
    double low[2], high[2];
} bounds;

static bounds bounds_of(const char *class_name, const char *config, const char *version,
                        int training)
{
    char json[1024];
    bounds b = {.columns = -1};
    const pg__rules *rules;
    pg__lowered low;
    pg_err err = {0};
    assert_ok(pg__rules_of(&rules, version, NULL));
    snprintf(json, sizeof json,
             "{\"class_name\":\"Sequential\",\"config\":[{\"class_name\":\"%s\",\"config\":"
             "{\"name\":\"l\",\"batch_input_shape\":[null,8,6,3],%s}}]}",
             class_name, config);
    template_ t = template_of(json);
    if (pg__lower(&low,
                  &(pg__lower_opts){.graph = t.g,
                                    .leaves = &t.leaves,
                                    .rules = rules,
                                    .n_rows = 4,
                                    .training = training},
                  &err) != PG_OK)
        fail_msg("%s: %s", class_name, err.msg);
    for (uint32_t i = 0; i < low.tape.n_insts; i++)
        if (low.tape.insts[i].op == pg__op_of(PG_OP_uniform)) {
            const pg__uniform_attrs *a = low.tape.insts[i].attrs;
            b = (bounds){
                (int)a->to.d[1], a->rows_share, {a->low[0], a->low[1]}, {a->high[0], a->high[1]}};
        }
    pg__lowered_fini(&low);
    template_free(&t);
    return b;
}

static void bounds_are_those_of_each_keras(void **state)
{
    static const struct {
        const char *class_name, *config, *version;
        bounds want;
    } cases[] = {
        {"RandomFlip", "\"mode\":\"horizontal_and_vertical\"", "2.15", {2, 0, {0, 0}, {1, 1}}},
        {"RandomFlip", "\"mode\":\"horizontal_and_vertical\"", "3.6", {1, 0, {0, 0}, {1, 1}}},
        {"RandomFlip", "\"mode\":\"vertical\"", "3.6", {2, 0, {1, 0}, {1, 1}}},
        {"RandomTranslation",
         "\"height_factor\":[-0.2,0.3],\"width_factor\":0.5",
         "2.15",
         {2, 0, {-0.5, -0.2}, {0.5, 0.3}}},
        {"RandomRotation",
         "\"factor\":0.25",
         "2.15",
         {1, 0, {-1.5707963267948966}, {1.5707963267948966}}},
        {"RandomZoom", "\"height_factor\":0.25", "2.15", {1, 0, {0.75, 0.75}, {1.25, 1.25}}},
        {"RandomZoom",
         "\"height_factor\":0.25,\"width_factor\":[0.5,0.75]",
         "3.6",
         {2, 0, {1.5, 0.75}, {1.75, 1.25}}},
        {"RandomContrast", "\"factor\":0.25", "2.15", {1, 1, {0.75}, {1.25}}},
        {"RandomContrast", "\"factor\":[0.5,0.25]", "2.15", {1, 1, {0.5}, {1.25}}},
        {"RandomContrast", "\"factor\":[0,0.25]", "3.6", {1, 0, {1}, {1.25}}},
        {"RandomBrightness", "\"factor\":0.5", "3.6", {1, 0, {-127.5}, {127.5}}},
        {"RandomBrightness",
         "\"factor\":[-0.5,0.25],\"value_range\":[0,1]",
         "2.15",
         {1, 0, {-0.5}, {0.25}}},
        {"RandomCrop", "\"height\":5,\"width\":6", "2.15", {2, 1, {0, 0}, {1, 4}}},
        {"RandomCrop", "\"height\":5,\"width\":5", "3.6", {2, 1, {0, 0}, {2, 4}}},
        {"RandomCrop", "\"height\":5,\"width\":6", "3.6", {-1, 0, {0}, {0}}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const bounds got = bounds_of(cases[i].class_name, cases[i].config, cases[i].version, 1);
        const bounds *want = &cases[i].want;
        int same = got.columns == want->columns && got.rows_share == want->rows_share;
        for (int k = 0; k < got.columns; k++)
            same &= fabs(got.low[k] - want->low[k]) < 1e-12 &&
                    fabs(got.high[k] - want->high[k]) < 1e-12;
        if (!same)
            fail_msg("%s %s of %s: %d columns, from %g, %g to %g, %g", cases[i].class_name,
                     cases[i].config, cases[i].version, got.columns, got.low[0], got.low[1],
                     got.high[0], got.high[1]);
        assert_int_equal(
            bounds_of(cases[i].class_name, cases[i].config, cases[i].version, 0).columns, -1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_spread_evenly_between_their_bounds),
        cmocka_unit_test(numbers_belong_to_rows_and_steps),
        cmocka_unit_test(mirrors_about_every_second_image),
        cmocka_unit_test(crops_begin_at_every_cell_alike),
        cmocka_unit_test(bounds_are_those_of_each_keras),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

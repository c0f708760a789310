/* reduce.c - gradients of lanes are added in the order of the tree, whatever order they come in and
 * whoever computed them. */
#include "pg_test.h"

#include "train/step/devices.h"
#include "train/step/trainer.h"

enum { LANES = 8 };

static pg_trainer *opened(size_t threads)
{
    char model[600];
    pg_trainer *t = NULL;
    snprintf(model, sizeof model, "%s/golden/mlp_digits/model.json", pg_testdata);
    const pg_train_opts opts = {.model = model,
                                .loss = "categorical_crossentropy",
                                .threads = threads,
                                .deterministic = 1,
                                .lanes = LANES};
    assert_ok(pg_trainer_open(&t, &opts, NULL));
    for (size_t k = 0; k < t->pool.cut.n_workers; k++)
        pg__partials_reset(&t->pool.workers[k]);
    return t;
}

/* Rounding shows in which order these are added. */
static float number(size_t lane, uint64_t i)
{
    static const float of[LANES] = {1, 0x1p-24f, 3e7f, -3e7f, 0.1f, 0x1p-25f, 7, 1e-3f};
    return of[lane] * (float)(1 + i % 3);
}

static void lane_ends(pg_trainer *t, pg__worker *w, size_t lane, int is_last)
{
    pg__flat *g = NULL;
    assert_ok(pg__partials_begin(t, w, &g, NULL));
    for (uint64_t i = 0; i < t->vars.offsets[t->vars.n_params]; i++)
        ((float *)g->mem)[i] = number(lane, i);
    assert_ok(pg__partials_end(t, w, lane, 1, is_last, g, NULL));
}

static float tree(size_t lo, size_t size, uint64_t i)
{
    return size == 1 ? number(lo, i) : tree(lo, size / 2, i) + tree(lo + size / 2, size / 2, i);
}

static void assert_sum_is_the_trees(pg_trainer *t)
{
    const uint64_t n = t->vars.offsets[t->vars.n_params];
    pg__flat *sum = NULL;
    assert_ok(pg__partials_sum(t, 0, n, &sum));
    for (uint64_t i = 0; i < n; i++) {
        const float want = tree(0, LANES, i);
        assert_memory_equal(&((float *)sum->mem)[i], &want, sizeof want);
    }
}

static void the_order_in_which_lanes_end_does_not_matter(void **state)
{
    static const size_t orders[][LANES] = {
        {0, 1, 2, 3, 4, 5, 6, 7}, {7, 6, 5, 4, 3, 2, 1, 0}, {3, 0, 6, 1, 7, 2, 5, 4}};
    (void)state;
    for (size_t k = 0; k < 3; k++) {
        pg_trainer *t = opened(1);
        pg__worker *w = &t->pool.workers[0];
        assert_false(pg__partials_any(&t->pool));
        for (size_t i = 0; i < LANES; i++)
            lane_ends(t, w, orders[k][i], 1);
        assert_true(pg__partials_any(&t->pool));
        assert_int_equal(w->n_partials, 1); /* like a binary counter */
        assert_int_equal(w->partials[0].size, LANES);
        assert_sum_is_the_trees(t);
        pg_trainer_close(t);
    }
}

static void nor_does_it_which_worker_computed_them(void **state)
{
    static const size_t workers[LANES] = {0, 1, 1, 1, 2, 0, 2, 2};
    (void)state;
    pg_trainer *t = opened(3);
    assert_int_equal(t->pool.cut.n_workers, 3);
    for (size_t i = 0; i < LANES; i++)
        lane_ends(t, &t->pool.workers[workers[i]], i, 1);
    assert_sum_is_the_trees(t);
    pg_trainer_close(t);
}

static void a_lane_without_rows_adds_nothing(void **state)
{
    (void)state;
    pg_trainer *t = opened(1);
    pg__worker *w = &t->pool.workers[0];
    pg__flat *sum = NULL;
    for (size_t i = 0; i < LANES; i++)
        assert_ok(pg__partials_end(t, w, i, 1, 1, NULL, NULL));
    assert_false(pg__partials_any(&t->pool));
    assert_ok(pg__partials_sum(t, 0, 16, &sum));
    assert_null(sum);
    pg__partials_reset(w);
    for (size_t i = 0; i < LANES; i++)
        if (i == 5)
            lane_ends(t, w, i, 1);
        else
            assert_ok(pg__partials_end(t, w, i, 1, 1, NULL, NULL));
    assert_ok(pg__partials_sum(t, 0, 16, &sum));
    for (uint64_t i = 0; i < 16; i++)
        assert_true(((float *)sum->mem)[i] == number(5, i));
    pg_trainer_close(t);
}

/* A lane whose rows do not fit at once runs in parts, which are added first. */
static void parts_of_a_lane_are_one_before_it_merges(void **state)
{
    (void)state;
    pg_trainer *t = opened(1);
    pg__worker *w = &t->pool.workers[0];
    lane_ends(t, w, 0, 1);
    lane_ends(t, w, 1, 0);
    assert_int_equal(w->n_partials, 2); /* lane 1 is not whole */
    lane_ends(t, w, 1, 1);
    assert_int_equal(w->n_partials, 1);
    const float want = number(0, 0) + (number(1, 0) + number(1, 0));
    assert_memory_equal(w->partials[0].grads->mem, &want, sizeof want);
    pg_trainer_close(t);
}

PG_TEST_MAIN(cmocka_unit_test(the_order_in_which_lanes_end_does_not_matter),
             cmocka_unit_test(nor_does_it_which_worker_computed_them),
             cmocka_unit_test(a_lane_without_rows_adds_nothing),
             cmocka_unit_test(parts_of_a_lane_are_one_before_it_merges))

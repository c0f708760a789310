#include "pg_test.h"

#include "train/exec/lanes.h"

/* Rows of each lane, as text. */
static const char *rows(const pg__cut *cut, uint64_t n_rows, char text[256])
{
    size_t n = 0;
    uint64_t next = 0;
    text[0] = '\0';
    for (size_t k = 0; k < pg__lane_count(cut); k++) {
        const pg__lane l = pg__lane_of(cut, n_rows, k);
        assert_true(l.first == next);
        assert_true(l.worker < cut->n_workers && l.replica < cut->n_replicas);
        assert_int_equal(l.worker / (cut->n_workers / cut->n_replicas), l.replica);
        next = l.first + l.n;
        n += (size_t)snprintf(text + n, 256 - n, "%s%llu@%zu", k ? " " : "",
                              (unsigned long long)l.n, l.worker);
    }
    assert_true(next == n_rows);
    return text;
}

static void slices_are_those_of_multi_gpu_model(void **state)
{
    char t[256];
    (void)state;
    assert_string_equal(rows(&(pg__cut){3, 3, 0, 0, 0, 0}, 64, t), "21@0 21@1 22@2");
    assert_string_equal(rows(&(pg__cut){4, 4, 0, 0, 0, 0}, 10, t), "2@0 2@1 2@2 4@3");
    assert_string_equal(rows(&(pg__cut){4, 4, 0, 0, 0, 0}, 3, t), "0@0 0@1 0@2 3@3");
    assert_string_equal(rows(&(pg__cut){2, 4, 0, 0, 0, 0}, 10, t), "2@0 3@1 2@2 3@3");
}

static void deterministic_lanes_do_not_depend_on_their_owners(void **state)
{
    char t[256];
    (void)state;
    assert_string_equal(rows(&(pg__cut){1, 1, 8, 0, 0, 0}, 20, t),
                        "2@0 3@0 2@0 3@0 2@0 3@0 2@0 3@0");
    assert_string_equal(rows(&(pg__cut){3, 3, 8, 0, 0, 0}, 20, t),
                        "2@0 3@0 2@0 3@1 2@1 3@1 2@2 3@2");
    assert_string_equal(rows(&(pg__cut){2, 4, 8, 0, 0, 0}, 20, t),
                        "2@0 3@0 2@1 3@1 2@2 3@2 2@3 3@3");
    assert_string_equal(rows(&(pg__cut){1, 2, 8, 0, 0, 0}, 5, t),
                        "0@0 1@0 0@0 1@0 1@1 0@1 1@1 1@1");
}

static void lanes_may_be_parts_of_slices(void **state)
{
    char t[256];
    (void)state;
    assert_string_equal(rows(&(pg__cut){3, 3, 8, 1, 0, 0}, 20, t),
                        "2@0 2@0 2@0 2@1 2@1 2@1 4@2 4@2");
    assert_string_equal(rows(&(pg__cut){2, 2, 4, 1, 0, 0}, 9, t), "2@0 2@0 2@1 3@1");
}

static void every_row_has_one_lane_whatever_the_sizes(void **state)
{
    char t[256];
    (void)state;
    for (size_t replicas = 1; replicas <= 8; replicas++)
        for (uint64_t n = 0; n < 70; n++) {
            (void)rows(&(pg__cut){replicas, replicas, 8, 0, 0, 0}, n, t);
            (void)rows(&(pg__cut){replicas, 2 * replicas, 0, 0, 0, 0}, n, t);
        }
}

/* Processes of `each` replicas: their rows are neighbours, and together all of the batch; a lane of
 * one is what it is where there is only one process. */
static void processes_share_a_batch(void **state)
{
    (void)state;
    for (size_t n_lanes = 0; n_lanes <= 8; n_lanes += 8)
        for (size_t n_here = 1; n_here <= 2; n_here++)
            for (uint64_t n = 0; n < 70; n++) {
                const pg__cut alone = {4, 4, n_lanes, 0, 0, 0};
                uint64_t next = 0, first, end;
                for (size_t at = 0; at < 4; at += n_here) {
                    const pg__cut cut = {4, n_here, n_lanes, 0, at, n_here};
                    pg__rows_here(&cut, n, &first, &end);
                    assert_true(first == end || first == next);
                    next = first == end ? next : end;
                    for (size_t k = 0; k < pg__lane_count(&cut); k++) {
                        const pg__lane here = pg__lane_of(&cut, n, k);
                        const pg__lane all = pg__lane_of(&alone, n, n_lanes ? k : at + k);
                        const int is_mine = all.replica >= at && all.replica < at + n_here;
                        assert_true(here.first == all.first && here.n == all.n);
                        assert_int_equal(here.replica, all.replica);
                        assert_true(here.worker == (is_mine ? all.worker - at : PG_NO_WORKER));
                    }
                }
                assert_true(next == n);
            }
}

static void complete_subtrees_are_run_at_once(void **state)
{
    pg__lane lanes[8];
    const pg__cut three = {3, 3, 8, 0, 0, 0}, two = {2, 2, 8, 0, 0, 0};
    (void)state;
    assert_int_equal(pg__lanes_at_once(&(pg__cut){1, 1, 8, 0, 0, 0}, 8), 8);
    assert_int_equal(pg__lanes_at_once(&(pg__cut){1, 1, 64, 0, 0, 0}, 8), 8);
    assert_int_equal(pg__lanes_at_once(&two, 8), 4);
    assert_int_equal(pg__lanes_at_once(&(pg__cut){1, 2, 8, 0, 0, 0}, 8), 4);
    assert_int_equal(pg__lanes_at_once(&three, 8), 2);
    assert_int_equal(pg__lanes_at_once(&(pg__cut){8, 8, 8, 0, 0, 0}, 8), 1);
    for (size_t k = 0; k < 8; k++)
        lanes[k] = pg__lane_of(&three, 32, k); /* of three, three and two */
    for (size_t k = 0; k < 8; k++)
        assert_int_equal(pg__lanes_alike(lanes, 8, k, 2), k != 2 && k != 3);
    assert_false(pg__lanes_alike(lanes, 8, 0, 4));
    for (size_t k = 0; k < 8; k++)
        lanes[k] = pg__lane_of(&two, 21, k); /* one of them has fewer rows than its neighbours */
    assert_false(pg__lanes_alike(lanes, 8, 0, 4));
}

PG_TEST_MAIN(cmocka_unit_test(slices_are_those_of_multi_gpu_model),
             cmocka_unit_test(deterministic_lanes_do_not_depend_on_their_owners),
             cmocka_unit_test(lanes_may_be_parts_of_slices),
             cmocka_unit_test(every_row_has_one_lane_whatever_the_sizes),
             cmocka_unit_test(processes_share_a_batch),
             cmocka_unit_test(complete_subtrees_are_run_at_once))

/* Which rows come when: passes, steps, validation, blocks. */
#include "pg_test.h"

#include "train/data/batch_order.h"

/* "0 1|2 3/" : batches end with '|', validation stands in (), epochs end with '/'. */
static void assert_course(const pg__batch_order_opts *o, const char *want)
{
    char got[512];
    uint64_t rows[32];
    size_t n = 0;
    pg__turn turn;
    pg__batch_order *c = NULL;
    assert_ok(pg__batch_order_new(&c, o, NULL));
    while (pg__batch_order_next(c, &turn, rows)) {
        if (turn.validation)
            n += (size_t)sprintf(got + n, "(");
        for (size_t i = 0; i < turn.n_rows; i++)
            n += (size_t)sprintf(got + n, "%s%d", i ? " " : "", (int)rows[i]);
        n += (size_t)sprintf(got + n, "%s", turn.validation ? ")" : turn.is_last ? "" : "|");
        if (turn.ends_epoch)
            n += (size_t)sprintf(got + n, "/");
    }
    got[n] = '\0';
    assert_string_equal(got, want);
    pg__batch_order_free(c);
}

static void an_epoch_is_one_pass(void **state)
{
    (void)state;
    assert_course(
        &(pg__batch_order_opts){
            .n_train = 5, .batch_size = 2, .epochs = 2, .shuffling = PG_SHUFFLE_NONE},
        "0 1|2 3|4/0 1|2 3|4/");
}

static void steps_cut_an_endless_stream(void **state)
{
    (void)state; /* as Keras 2.15: 8 rows, batches of 2, 3 steps */
    assert_course(
        &(pg__batch_order_opts){
            .n_train = 8, .batch_size = 2, .epochs = 2, .steps = 3, .shuffling = PG_SHUFFLE_NONE},
        "0 1|2 3|4 5/6 7|0 1|2 3/");
}

static void validation_begins_at_its_first_row(void **state)
{
    (void)state;
    assert_course(&(pg__batch_order_opts){.n_train = 4,
                                          .n_val = 5,
                                          .batch_size = 2,
                                          .epochs = 3,
                                          .steps = 1,
                                          .val_steps = 2,
                                          .val_every = 2,
                                          .shuffling = PG_SHUFFLE_NONE},
                  "0 1/2 3(0 1)(2 3)/0 1/");
}

static void numbers_begin_at_the_initial_epoch(void **state)
{
    const pg__batch_order_opts o = {
        .n_train = 2, .n_val = 1, .batch_size = 2, .epochs = 4, .first_epoch = 2, .val_every = 3};
    uint64_t rows[2];
    pg__turn turn;
    pg__batch_order *c = NULL;
    (void)state;
    assert_ok(pg__batch_order_new(&c, &o, NULL));
    assert_true(pg__batch_order_next(c, &turn, rows));
    assert_int_equal(turn.epoch, 2);
    assert_false(turn.ends_epoch); /* epoch 3 validates */
    assert_true(pg__batch_order_next(c, &turn, rows));
    assert_true(turn.validation);
    assert_true(pg__batch_order_next(c, &turn, rows));
    assert_int_equal(turn.epoch, 3);
    assert_true(turn.ends_epoch);
    assert_false(pg__batch_order_next(c, &turn, rows));
    pg__batch_order_free(c);
}

static void whole_batches_leave_the_rest_out(void **state)
{
    (void)state;
    assert_course(&(pg__batch_order_opts){.n_train = 5,
                                          .batch_size = 2,
                                          .epochs = 2,
                                          .whole_only = 1,
                                          .shuffling = PG_SHUFFLE_NONE},
                  "0 1|2 3/0 1|2 3/");
}

static void every_row_comes_once_in_another_order_each_epoch(void **state)
{
    for (int by_block = 0; by_block < 2; by_block++) {
        const pg__batch_order_opts o = {.n_train = 23,
                                        .batch_size = 5,
                                        .epochs = 2,
                                        .seed = 3,
                                        .shuffling =
                                            by_block ? PG_SHUFFLE_BATCHES : PG_SHUFFLE_ROWS};
        uint64_t rows[5], seen[46];
        size_t n = 0, in_place = 0;
        pg__turn turn;
        pg__batch_order *c = NULL;
        (void)state;
        assert_ok(pg__batch_order_new(&c, &o, NULL));
        while (pg__batch_order_next(c, &turn, rows))
            for (size_t i = 0; i < turn.n_rows; i++) {
                assert_true(!by_block || rows[i] / 5 == rows[0] / 5); /* blocks stay together */
                seen[n++] = rows[i];
            }
        assert_int_equal(n, 46);
        for (size_t epoch = 0; epoch < 2; epoch++) {
            unsigned char there[23] = {0};
            for (size_t i = 0; i < 23; i++)
                there[seen[epoch * 23 + i]]++;
            for (size_t i = 0; i < 23; i++)
                assert_int_equal(there[i], 1);
        }
        for (size_t i = 0; i < 23; i++)
            in_place += seen[i] == seen[23 + i];
        assert_true(in_place < 23);
        pg__batch_order_free(c);
    }
}

static void too_little_data_is_known_before(void **state)
{
    pg__batch_order *c = NULL;
    pg_err err = {0};
    pg__batch_order_opts o = {.n_train = 8, .batch_size = 2, .epochs = 1, .steps = 5};
    (void)state;
    assert_fails(PG_E_MISMATCH, pg__batch_order_new(&c, &o, &err), &err);
    assert_non_null(strstr(err.msg, "5 steps per epoch"));
    o = (pg__batch_order_opts){
        .n_train = 8, .n_val = 2, .batch_size = 2, .epochs = 1, .val_steps = 2};
    assert_fails(PG_E_MISMATCH, pg__batch_order_new(&c, &o, &err), &err);
    assert_non_null(strstr(err.msg, "2 validation steps"));
    o = (pg__batch_order_opts){.n_train = 1, .batch_size = 2, .epochs = 1, .whole_only = 1};
    assert_fails(PG_E_MISMATCH, pg__batch_order_new(&c, &o, &err), &err);
}

PG_TEST_MAIN(cmocka_unit_test(an_epoch_is_one_pass), cmocka_unit_test(steps_cut_an_endless_stream),
             cmocka_unit_test(validation_begins_at_its_first_row),
             cmocka_unit_test(numbers_begin_at_the_initial_epoch),
             cmocka_unit_test(whole_batches_leave_the_rest_out),
             cmocka_unit_test(every_row_comes_once_in_another_order_each_epoch),
             cmocka_unit_test(too_little_data_is_known_before))

/* Batches from the thread that reads ahead: all of them in order, errors in their turn, a quick
 * end.
 */
#include "pg_test.h"

#include "train/data_files.h"
#include "train/model/prefetch.h"

enum { ROWS = 40, BATCH = 4 };

typedef struct set {
    pg_trainer *t;
    pg_data *data;
    pg__feed feed;
    pg__batch_order *course;
    pg__prefetch *ahead;
} set;

/* Row i of x and y holds i; y of the row `bad` is no class. */
static void open_set(set *s, int bad)
{
    static const char model[] =
        "{\"class_name\": \"Sequential\", \"keras_version\": \"2.15.0\", \"config\": {\"name\": "
        "\"s\", \"layers\": [{\"class_name\": \"InputLayer\", \"config\": {\"batch_input_shape\": "
        "[null, 1], \"dtype\": \"float32\", \"name\": \"in\"}}, {\"class_name\": \"Dense\", "
        "\"config\": {\"name\": \"out\", \"units\": 50, \"activation\": \"softmax\"}}]}}";
    const pg__batch_order_opts course = {
        .n_train = ROWS, .batch_size = BATCH, .epochs = 2, .shuffling = PG_SHUFFLE_NONE};
    const pg__program *p = NULL;
    float x[ROWS], y[ROWS];
    char list[400];
    pg_err err = {0};
    for (int i = 0; i < ROWS; i++)
        x[i] = y[i] = (float)i;
    write_text("model.json", model);
    write_npy("x.npy", PG_F32, 0, 2, (const uint64_t[]){ROWS, 1}, x);
    write_npy("y.npy", PG_F32, 0, 1, (const uint64_t[]){ROWS}, y);
    const test_path path = in_dir("model.json");
    const pg_train_opts opts = {
        .model = path.s, .loss = "sparse_categorical_crossentropy", .threads = 1};
    *s = (set){.t = NULL};
    assert_ok(pg_trainer_open(&s->t, &opts, &err));
    snprintf(list, sizeof list, "%s,%s", in_dir("x.npy").s, in_dir("y.npy").s);
    assert_ok(pg_data_open(&s->data, list, &err));
    assert_ok(pg__feed_bind(s->t, s->data, PG_FOR_TRAINING, &err));
    assert_ok(pg__feed_open(&s->feed, s->t, s->data, PG_FOR_TRAINING, &err));
    assert_ok(pg__feed_fit_inputs(&s->feed, s->t, &err));
    assert_ok(pg__feed_program(s->t, BATCH, PG_TRAINS, &p, &err));
    assert_ok(pg__feed_fit(&s->feed, p, &err));
    if (bad >= 0) { /* changed behind the checks' back */
        y[bad] = -1;
        write_npy("y.npy", PG_F32, 0, 1, (const uint64_t[]){ROWS}, y);
    }
    assert_ok(pg__batch_order_new(&s->course, &course, &err));
    assert_ok(pg__prefetch_new(&s->ahead, s->course, &s->feed, NULL, BATCH, &err));
}

static void close_set(set *s)
{
    pg__prefetch_free(s->ahead);
    pg__batch_order_free(s->course);
    pg__feed_close(&s->feed);
    pg_data_close(s->data);
    pg_trainer_close(s->t);
}

static void all_batches_come_in_order(void **state)
{
    set s;
    const pg__batch *b = NULL;
    pg__turn turn;
    pg_err err = {0};
    size_t n = 0;
    (void)state;
    open_set(&s, -1);
    for (;; n += b->n_rows) {
        assert_ok(pg__prefetch_next(s.ahead, &b, &turn, &err));
        if (!b)
            break;
        assert_int_equal(turn.epoch, n / ROWS);
        for (size_t i = 0; i < b->n_rows; i++) {
            assert_true(((const float *)b->inputs[0])[i] == (float)((n + i) % ROWS));
            assert_int_equal(((const int32_t *)b->targets[0])[i], (n + i) % ROWS);
        }
        usleep(n % 3 == 0 ? 300 : 0); /* now one of both is faster, now the other */
    }
    assert_int_equal(n, 2 * ROWS);
    close_set(&s);
}

static void an_error_comes_at_the_turn_of_its_batch(void **state)
{
    set s;
    const pg__batch *b = NULL;
    pg__turn turn;
    pg_err err = {0};
    (void)state;
    open_set(&s, 4 * BATCH + 1);
    for (int i = 0; i < 4; i++)
        assert_ok(pg__prefetch_next(s.ahead, &b, &turn, &err));
    assert_fails(PG_E_MISMATCH, pg__prefetch_next(s.ahead, &b, &turn, &err), &err);
    assert_non_null(strstr(err.msg, "row 17 of \"y0\" holds the class -1"));
    close_set(&s);
}

static void a_file_that_shrinks_stops_it(void **state)
{
    set s;
    const pg__batch *b = NULL;
    pg__turn turn;
    pg_err err = {0};
    pg_status st = PG_OK;
    (void)state;
    open_set(&s, -1);
    assert_int_equal(truncate(in_dir("x.npy").s, 128 + 7 * BATCH * 4), 0);
    for (int i = 0; i < 2 * ROWS / BATCH && st == PG_OK; i++)
        st = pg__prefetch_next(s.ahead, &b, &turn, &err);
    assert_int_equal(st, PG_E_FORMAT);
    assert_non_null(strstr(err.msg, "x.npy: "));
    close_set(&s);
}

static void it_can_be_left_at_any_time(void **state)
{
    (void)state;
    for (int taken = 0; taken < 5; taken++) {
        set s;
        const pg__batch *b = NULL;
        pg__turn turn;
        open_set(&s, -1);
        for (int i = 0; i < taken; i++)
            assert_ok(pg__prefetch_next(s.ahead, &b, &turn, NULL));
        close_set(&s);
    }
}

PG_TEST_MAIN_WITH(make_test_dir, remove_test_dir, cmocka_unit_test(all_batches_come_in_order),
                  cmocka_unit_test(an_error_comes_at_the_turn_of_its_batch),
                  cmocka_unit_test(a_file_that_shrinks_stops_it),
                  cmocka_unit_test(it_can_be_left_at_any_time))

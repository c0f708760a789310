/* What is checked before training, and the words for it; weights of rows and classes. */
#include "pg_test.h"

#include <math.h>

#include "train/data_files.h"
#include "train/model/feed.h"

static const char mlp[] =
    "{\"class_name\": \"Sequential\", \"keras_version\": \"2.15.0\", \"config\": {\"name\": \"s\", "
    "\"layers\": [{\"class_name\": \"InputLayer\", \"config\": {\"batch_input_shape\": [null, 2, "
    "2, "
    "1], \"dtype\": \"float32\", \"name\": \"in\"}}, {\"class_name\": \"Flatten\", \"config\": "
    "{\"name\": \"flat\"}}, {\"class_name\": \"Dense\", \"config\": {\"name\": \"out\", \"units\": "
    "3, \"activation\": \"softmax\"}}]}}";
static const char words[] =
    "{\"class_name\": \"Sequential\", \"keras_version\": \"2.15.0\", \"config\": {\"name\": \"s\", "
    "\"layers\": [{\"class_name\": \"InputLayer\", \"config\": {\"batch_input_shape\": [null, 2], "
    "\"dtype\": \"int32\", \"name\": \"in\"}}, {\"class_name\": \"Embedding\", \"config\": "
    "{\"name\": "
    "\"emb\", \"input_dim\": 5, \"output_dim\": 3}}, {\"class_name\": \"Flatten\", \"config\": "
    "{\"name\": \"flat\"}}, {\"class_name\": \"Dense\", \"config\": {\"name\": \"out\", \"units\": "
    "1}}"
    "]}}";

/* Trains on x.npy and y.npy of the folder. */
static pg_status train(const char *model, const char *loss, const pg_fit_opts *fit,
                       const char *reshape, pg_err *err)
{
    pg_trainer *t = NULL;
    pg_data *d = NULL;
    char list[400];
    write_text("model.json", model);
    snprintf(list, sizeof list, "%s,%s", in_dir("x.npy").s, in_dir("y.npy").s);
    const test_path path = in_dir("model.json");
    const pg_train_opts opts = {.model = path.s, .loss = loss, .threads = 1, .devices = "ref:0"};
    assert_ok(pg_trainer_open(&t, &opts, err));
    assert_ok(pg_data_open(&d, list, err));
    if (reshape)
        assert_ok(pg_data_reshape(d, reshape, err));
    const pg_status st = pg_fit(t, d, fit, NULL, err);
    pg_data_close(d);
    pg_trainer_close(t);
    return st;
}

static const pg_fit_opts plain = {.batch_size = 2, .no_shuffle = 1};

static void write_x(uint32_t rank, const uint64_t *dims)
{
    const float x[16] = {0};
    write_npy("x.npy", PG_F32, 0, rank, dims, x);
}

static void write_y(uint32_t rank, const uint64_t *dims, const float *y)
{
    write_npy("y.npy", PG_F32, 0, rank, dims, y);
}

static void shapes_that_differ_are_told_with_the_way_out(void **state)
{
    const float y[] = {0, 1, 2, 0};
    pg_err err = {0};
    (void)state;
    write_x(2, (const uint64_t[]){4, 4});
    write_y(1, (const uint64_t[]){4}, y);
    assert_fails(PG_E_MISMATCH, train(mlp, "sparse_categorical_crossentropy", &plain, NULL, &err),
                 &err);
    assert_non_null(strstr(err.msg, "x.npy: \"x0\" is 4\xC3\x97"
                                    "4, model input \"in\" expects (None, 2, 2, 1)"));
    assert_string_equal(advice_of(&err), "set reshape=2,2,1");
    assert_ok(train(mlp, "sparse_categorical_crossentropy", &plain, "2,2,1", &err));
    write_x(3, (const uint64_t[]){4, 2, 2}); /* a missing last axis of 1 is added, as in Keras */
    assert_ok(train(mlp, "sparse_categorical_crossentropy", &plain, NULL, &err));
}

static void numbers_of_rows_must_agree(void **state)
{
    const float y[] = {0, 1, 2};
    pg_err err = {0};
    (void)state;
    write_x(3, (const uint64_t[]){4, 2, 2});
    write_y(1, (const uint64_t[]){3}, y);
    assert_fails(PG_E_MISMATCH, train(mlp, "mse", &plain, NULL, &err), &err);
    assert_non_null(strstr(err.msg, "y.npy: \"y0\" has 3 rows, \"x0\" has 4"));
    write_x(3, (const uint64_t[]){0, 2, 2});
    write_y(1, (const uint64_t[]){0}, y);
    assert_fails(PG_E_MISMATCH, train(mlp, "mse", &plain, NULL, &err), &err);
    assert_non_null(strstr(err.msg, "holds no rows"));
}

static void classes_and_one_hot_rows_are_told_apart(void **state)
{
    const float classes[] = {0, 1, 2, 0}, rows[] = {1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 0, 0};
    pg_err err = {0};
    (void)state;
    write_x(3, (const uint64_t[]){4, 2, 2});
    write_y(1, (const uint64_t[]){4}, classes);
    assert_fails(PG_E_MISMATCH, train(mlp, "categorical_crossentropy", &plain, NULL, &err), &err);
    assert_string_equal(err.msg, "targets are integer classes (0\xE2\x80\x93"
                                 "2) but categorical_crossentropy expects one-hot rows");
    assert_string_equal(advice_of(&err), "set loss=sparse_categorical_crossentropy");
    write_y(2, (const uint64_t[]){4, 3}, rows);
    assert_fails(PG_E_MISMATCH, train(mlp, "sparse_categorical_crossentropy", &plain, NULL, &err),
                 &err);
    assert_string_equal(advice_of(&err), "set loss=categorical_crossentropy");
    assert_fails(PG_E_MISMATCH, train(words, "mse", &plain, NULL, &err), &err);
}

static void classes_out_of_range_are_told_with_their_row(void **state)
{
    const float much[] = {0, 1, 3, 0}, little[] = {0, -1, 2, 0}, half[] = {0, 1, 1, 0.5f};
    pg_err err = {0};
    (void)state;
    write_x(3, (const uint64_t[]){4, 2, 2});
    write_y(1, (const uint64_t[]){4}, much);
    assert_fails(PG_E_MISMATCH, train(mlp, "sparse_categorical_crossentropy", &plain, NULL, &err),
                 &err);
    assert_non_null(
        strstr(err.msg, "row 2 of \"y0\" holds the class 3, output \"out\" knows 0 to 2"));
    write_y(2, (const uint64_t[]){4, 1}, little);
    assert_fails(PG_E_MISMATCH, train(mlp, "sparse_categorical_crossentropy", &plain, NULL, &err),
                 &err);
    assert_non_null(strstr(err.msg, "row 1 of \"y0\" holds the class -1"));
    write_y(1, (const uint64_t[]){4}, half);
    assert_fails(PG_E_MISMATCH, train(mlp, "sparse_categorical_crossentropy", &plain, NULL, &err),
                 &err);
    assert_non_null(strstr(err.msg, "row 3 holds 0.5 where a class or an id is needed"));
}

static void ids_beyond_the_embedding_are_told_with_their_row(void **state)
{
    const int32_t x[] = {0, 4, 1, 5};
    const float y[] = {0, 1};
    pg_err err = {0};
    (void)state;
    write_npy("x.npy", PG_I32, 0, 2, (const uint64_t[]){2, 2}, x);
    write_y(2, (const uint64_t[]){2, 1}, y);
    assert_fails(PG_E_MISMATCH, train(words, "mse", &plain, NULL, &err), &err);
    assert_non_null(
        strstr(err.msg, "row 1 of \"x0\" holds the id 5, Embedding \"emb\" knows 0 to 4"));
}

/* Opening a trainer of the model `words` notes this, and nothing else. */
static void check_note(const char *optimizer, const char *rules, int optimizer_rules,
                       const char *note)
{
    write_text("model.json", words);
    const test_path path = in_dir("model.json");
    pg_trainer *t = NULL;
    const pg_train_opts opts = {.model = path.s,
                                .loss = "mse",
                                .devices = "ref:0",
                                .optimizer = optimizer,
                                .optimizer_rules = optimizer_rules,
                                .rules = rules};
    assert_ok(pg_trainer_open(&t, &opts, NULL));
    assert_int_equal(pg_trainer_n_notes(t), note != NULL);
    if (note)
        assert_string_equal(pg_trainer_note(t, 0), note);
    pg_trainer_close(t);
}

static void clipped_ids_are_noted(void **state)
{
    static const char note[] =
        "emb: Keras 2.15 clips the gradients of an id's occurrences one by one, libpg their sum";
    (void)state;
    check_note("SGD:clipnorm=1", NULL, 0, note);
    check_note("SGD:clipvalue=1", "2.15", 0, note);
    check_note("SGD", "2.15", 0, NULL);
    check_note("SGD:clipnorm=1", "3.6", 0, NULL);
}

static void rows_that_older_optimizers_leave_alone_are_noted(void **state)
{
    (void)state;
    check_note(
        "SGD:momentum=0.9", "2.10", 0,
        "emb: the older SGD of Keras 2.10 changes only the rows of ids in the batch, libpg all");
    check_note(
        "Ftrl", "2.15", 1,
        "emb: the older Ftrl of Keras 2.15 changes only the rows of ids in the batch, libpg all");
    check_note("RMSprop:momentum=0.5", "2.10", 0,
               "emb: the older RMSprop of Keras 2.10 changes only the rows of ids in the batch, "
               "libpg all");
    check_note("RMSprop", "2.10", 0, NULL);
    check_note("Adam", "2.10", 0, NULL);
    check_note("SGD", "2.10", 0, NULL);
    check_note("SGD:momentum=0.9", "2.3", 0, NULL); /* not tf.keras */
    check_note("SGD:momentum=0.9", "2.15", 0, NULL);
    check_note("SGD:momentum=0.9", "3.6", 0, NULL);
}

static void nan_in_the_first_batch_is_told_with_its_row(void **state)
{
    float x[16] = {0};
    const float y[] = {0, 1, 2, 0};
    pg_err err = {0};
    (void)state;
    x[5] = NAN;
    write_npy("x.npy", PG_F32, 0, 3, (const uint64_t[]){4, 2, 2}, x);
    write_y(1, (const uint64_t[]){4}, y);
    assert_fails(PG_E_MISMATCH, train(mlp, "sparse_categorical_crossentropy", &plain, NULL, &err),
                 &err);
    assert_non_null(strstr(err.msg, "x.npy: row 1 of \"x0\" holds NaN"));
}

static void class_weights_name_what_they_lack(void **state)
{
    const float y[] = {0, 1, 2, 0};
    pg_fit_opts fit = plain;
    pg_err err = {0};
    (void)state;
    write_x(3, (const uint64_t[]){4, 2, 2});
    write_y(1, (const uint64_t[]){4}, y);
    fit.class_weight = "0=1,1=2";
    assert_fails(PG_E_MISMATCH, train(mlp, "sparse_categorical_crossentropy", &fit, NULL, &err),
                 &err);
    assert_non_null(strstr(err.msg, "row 2 is of class 2, which has no class weight"));
    fit.class_weight = "0=1,1=2,2=0.5";
    assert_ok(train(mlp, "sparse_categorical_crossentropy", &fit, NULL, &err));
    static const char *const wrong[] = {"0", "a=1", "0=x", "0=-1", "0=1;1=2", "0=1,=2"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        fit.class_weight = wrong[i];
        assert_fails(PG_E_ARG, train(mlp, "sparse_categorical_crossentropy", &fit, NULL, &err),
                     &err);
    }
}

PG_TEST_MAIN_WITH(make_test_dir, remove_test_dir,
                  cmocka_unit_test(shapes_that_differ_are_told_with_the_way_out),
                  cmocka_unit_test(numbers_of_rows_must_agree),
                  cmocka_unit_test(classes_and_one_hot_rows_are_told_apart),
                  cmocka_unit_test(classes_out_of_range_are_told_with_their_row),
                  cmocka_unit_test(ids_beyond_the_embedding_are_told_with_their_row),
                  cmocka_unit_test(clipped_ids_are_noted),
                  cmocka_unit_test(rows_that_older_optimizers_leave_alone_are_noted),
                  cmocka_unit_test(nan_in_the_first_batch_is_told_with_its_row),
                  cmocka_unit_test(class_weights_name_what_they_lack))

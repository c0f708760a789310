/* What is saved is what was trained: training that goes on from a full model's file is the training
 * that was never interrupted, for every optimizer of every era. */
#include "pg_test.h"

#include <math.h>
#include <unistd.h>

#include "pg/train.h"
#include "train/model/slots.h"

typedef struct run {
    const char *model, *optimizer, *rules; /* optimizer NULL: that of the file */
    int optimizer_rules;
    size_t epochs;
} run;

static char folder[64];

static const char *in_folder(const char *name)
{
    static char path[4][128];
    static unsigned n;
    char *p = path[n++ % 4];
    if (!folder[0]) {
        strcpy(folder, "/tmp/pg-test-XXXXXX");
        assert_non_null(mkdtemp(folder));
    }
    snprintf(p, sizeof path[0], "%s/%s", folder, name);
    return p;
}

static int clean(void **state)
{
    static const char *const names[] = {"full.h5", "full.keras", "w.weights.h5", "w.safetensors"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unlink(in_folder(names[i]));
    return rmdir(folder);
}

static const char *golden(const char *file)
{
    static char path[4][600];
    static unsigned n;
    char *p = path[n++ % 4];
    snprintf(p, sizeof path[0], "%s/golden/mlp_digits/%s", pg_testdata, file);
    return p;
}

static pg_trainer *train(const run *r)
{
    pg_trainer *t = NULL;
    pg_data *d = NULL;
    pg_err err = {0};
    const int is_json = strstr(r->model, ".json") != NULL;
    const pg_train_opts opts = {.model = r->model,
                                .weights = is_json ? golden("init_weights.h5") : NULL,
                                .optimizer = r->optimizer,
                                .optimizer_rules = r->optimizer_rules,
                                .rules = r->rules,
                                .loss = is_json ? "categorical_crossentropy" : NULL,
                                .threads = 1,
                                .deterministic = 1};
    if (pg_trainer_open(&t, &opts, &err) != PG_OK)
        fail_msg("%s: %s", r->model, err.msg);
    assert_ok(pg_data_open(&d, golden("data.npz"), &err));
    const pg_fit_opts fit = {.batch_size = 60, .epochs = r->epochs, .no_shuffle = 1};
    if (r->epochs && pg_fit(t, d, &fit, NULL, &err) != PG_OK)
        fail_msg("%s", err.msg);
    pg_data_close(d);
    return t;
}

static void assert_same(const char *what, pg_trainer *a, pg_trainer *b, double tolerance)
{
    assert_int_equal(pg_trainer_n_weights(a), pg_trainer_n_weights(b));
    for (size_t i = 0; i < pg_trainer_n_weights(a); i++) {
        const size_t n = (size_t)(pg_trainer_weight(a, i)->n_bytes / sizeof(float));
        double *x = calloc(n, sizeof *x), *y = calloc(n, sizeof *y);
        assert_ok(pg_trainer_read(a, i, x, n, NULL));
        assert_ok(pg_trainer_read(b, i, y, n, NULL));
        for (size_t k = 0; k < n; k++)
            if (!(fabs(x[k] - y[k]) <= tolerance))
                fail_msg("%s: %s, element %zu: %g and %g", what, pg_trainer_weight(a, i)->name, k,
                         x[k], y[k]);
        free(x);
        free(y);
    }
}

/* Two epochs at once, and one, a file, one more. */
static void expect_equal_after_reload(const char *optimizer, const char *rules, int optimizer_rules,
                                      const char *suffix)
{
    char what[128];
    pg_err err = {0};
    const char *path = in_folder(strcmp(suffix, ".keras") ? "full.h5" : "full.keras");
    const int nadam = strncmp(optimizer, "nadam", 5) == 0; /* its product is a float in files */
    snprintf(what, sizeof what, "%s, rules %s, family %d, %s", optimizer, rules, optimizer_rules,
             suffix);
    run r = {golden("model.json"), optimizer, rules, optimizer_rules, 2};
    pg_trainer *whole = train(&r);
    r.epochs = 1;
    pg_trainer *first = train(&r);
    if (pg_trainer_save(first, path, &(pg_save_opts){.force = 1, .full_model = 1}, &err) != PG_OK)
        fail_msg("%s: %s", what, err.msg);
    pg_trainer *second = train(&(run){path, NULL, rules, 0, 1});
    if (!strstr(pg_trainer_note(second, 0), "continues after"))
        fail_msg("%s: %s", what, pg_trainer_note(second, 0));
    assert_same(what, whole, second, nadam ? 1e-6 : 0);
    pg_trainer_close(whole);
    pg_trainer_close(first);
    pg_trainer_close(second);
}

static const char *const optimizers[] = {"sgd:learning_rate=0.1",
                                         "sgd:learning_rate=0.1,momentum=0.9,nesterov",
                                         "rmsprop",
                                         "rmsprop:momentum=0.5,centered",
                                         "adam:learning_rate=0.003",
                                         "adam:amsgrad,epsilon=1e-5",
                                         "adagrad",
                                         "adadelta:learning_rate=1",
                                         "adamax",
                                         "nadam",
                                         "adam:clipnorm=0.1",
                                         "sgd:clipvalue=0.01"};

static void goes_on_as_if_never_interrupted(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof optimizers / sizeof *optimizers; i++) {
        expect_equal_after_reload(optimizers[i], "2.15", 2, ".h5");
        expect_equal_after_reload(optimizers[i], "2.15", 2, ".keras");
        expect_equal_after_reload(optimizers[i], "2.15", 1, ".h5");
    }
    expect_equal_after_reload("adamw:weight_decay=0.1", "2.15", 2, ".keras");
    expect_equal_after_reload("sgd:decay=0.5,momentum=0.5", "2.15", 1, ".h5");
}

static void goes_on_with_the_files_of_every_era(void **state)
{
    static const char *const rules[] = {"2.0.9", "2.2.4", "2.3.1", "2.2.4-tf"};
    (void)state;
    for (size_t k = 0; k < sizeof rules / sizeof *rules; k++)
        for (size_t i = 0; i < sizeof optimizers / sizeof *optimizers; i++)
            if (!strstr(optimizers[i], "centered") || strchr(rules[k], '-'))
                expect_equal_after_reload(optimizers[i], rules[k], 0, ".h5");
}

static void names_the_wrapper_whose_model_it_trains(void **state)
{
    char path[600];
    pg_trainer *t = NULL;
    pg_err err = {0};
    (void)state;
    snprintf(path, sizeof path, "%s/files/keras-2.2.4/cnn4-g2/wrapper_model.h5", pg_testdata);
    assert_ok(pg_trainer_open(&t, &(pg_train_opts){.model = path}, &err));
    assert_int_equal(pg_trainer_n_weights(t), 8);
    assert_non_null(strstr(pg_trainer_note(t, 0), "wrapper of 2 replicas"));
    assert_non_null(strstr(pg_trainer_note(t, 1), "continues after 3 updates of Adam"));
    assert_null(pg_trainer_note(t, 2));
    pg_trainer_close(t);
}

static void a_given_optimizer_starts_anew(void **state)
{
    char path[600];
    pg_trainer *t = NULL;
    (void)state;
    snprintf(path, sizeof path, "%s/files/keras-2.2.4/cnn4-g2/expected_model.h5", pg_testdata);
    assert_ok(pg_trainer_open(&t, &(pg_train_opts){.model = path, .optimizer = "adam"}, NULL));
    assert_non_null(strstr(pg_trainer_note(t, 0), "left out"));
    assert_int_equal(t->compiled.optimizer.iterations, 0);
    pg_trainer_close(t);
}

static void assert_format(const char *path, const char *want, size_t n_state)
{
    pg_store *s = NULL;
    assert_ok(pg_store_open(&s, path, NULL, NULL));
    assert_string_equal(pg_store_format(s), want);
    assert_int_equal(pg_store_n_state(s), n_state);
    pg_store_close(s);
}

/* The name says the format, as in Keras; below 2.12 .weights.h5 is nothing special. */
static void chooses_formats_as_keras_does(void **state)
{
    char old[600];
    const pg_save_opts force = {.force = 1};
    pg_trainer *t = train(&(run){golden("model.json"), "adam", NULL, 0, 0});
    (void)state;
    assert_ok(pg_trainer_save(t, in_folder("w.weights.h5"), &force, NULL));
    assert_format(in_folder("w.weights.h5"), "keras-weights-h5", 0);
    assert_ok(pg_trainer_save(t, in_folder("full.h5"), &force, NULL));
    assert_format(in_folder("full.h5"), "keras-h5-weights", 0);
    assert_ok(pg_trainer_save(t, in_folder("full.keras"), &force, NULL));
    assert_format(in_folder("full.keras"), "keras-zip", 1 + 2 * pg_trainer_n_weights(t));
    assert_ok(pg_trainer_save(t, in_folder("w.safetensors"), &force, NULL));
    assert_format(in_folder("w.safetensors"), "safetensors", 0);
    pg_trainer_close(t);
    snprintf(old, sizeof old, "%s/files/keras-2.2.4/cnn4-g2/template_model.h5", pg_testdata);
    assert_ok(pg_trainer_open(&t, &(pg_train_opts){.model = old}, NULL));
    assert_ok(pg_trainer_save(t, in_folder("w.weights.h5"), &force, NULL));
    assert_format(in_folder("w.weights.h5"), "keras-h5-weights", 0);
    pg_trainer_close(t);
}

/* What appeared under the name while a model was trained stays, and so does the model. */
static void saves_beside_what_is_there(void **state)
{
    static const char *const given[] = {"t.weights.h5", "t.h5"};
    static const char *const want[][2] = {{"t-1.weights.h5", "t-2.weights.h5"},
                                          {"t-1.h5", "t-2.h5"}};
    const pg_save_opts beside = {.beside = 1};
    const run r = {.model = golden("model.json")};
    pg_trainer *t = train(&r);
    pg_err err = {0};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        char path[128], word[8] = "";
        snprintf(path, sizeof path, "%s", in_folder(given[i]));
        FILE *f = fopen(path, "w");
        assert_non_null(f);
        assert_int_equal(fputs("theirs", f) < 0 || fclose(f), 0);
        assert_fails(PG_E_ARG, pg_trainer_save(t, path, NULL, &err), &err);
        for (size_t k = 0; k < 2; k++) {
            assert_ok(pg_trainer_save(t, path, &beside, &err));
            assert_string_equal(pg_trainer_saved(t), in_folder(want[i][k]));
        }
        f = fopen(path, "r");
        assert_non_null(f);
        assert_string_equal(fgets(word, sizeof word, f), "theirs");
        fclose(f);
        for (size_t k = 0; k < 2; k++)
            assert_int_equal(unlink(in_folder(want[i][k])), 0);
        unlink(path);
    }
    assert_fails(PG_E_ARG, pg_trainer_save(t, in_folder("t.txt"), &beside, &err), &err);
    assert_fails(PG_E_IO, pg_trainer_save(t, "/dev/null/x.h5", &beside, &err), &err);
    pg_trainer_close(t);
}

static void tells_before_training_what_cannot_be_saved(void **state)
{
    char path[600];
    pg_trainer *t = NULL;
    pg_err err = {0};
    (void)state;
    assert_fails(PG_E_ARG, pg_trainer_check_output(NULL, "x.pt", NULL, &err), &err);
    snprintf(path, sizeof path, "%s/files/keras-1.2.2-py3/make_parallel-cnn4/template.json",
             pg_testdata);
    assert_ok(pg_trainer_open(&t, &(pg_train_opts){.model = path, .loss = "mse"}, &err));
    assert_fails(PG_E_UNSUPPORTED, pg_trainer_check_output(t, in_folder("full.keras"), NULL, &err),
                 &err);
    assert_ok(pg_trainer_check_output(t, in_folder("new.h5"), NULL, &err));
    pg_trainer_close(t);
}

PG_TEST_MAIN_WITH(NULL, clean, cmocka_unit_test(goes_on_as_if_never_interrupted),
                  cmocka_unit_test(goes_on_with_the_files_of_every_era),
                  cmocka_unit_test(names_the_wrapper_whose_model_it_trains),
                  cmocka_unit_test(a_given_optimizer_starts_anew),
                  cmocka_unit_test(chooses_formats_as_keras_does),
                  cmocka_unit_test(saves_beside_what_is_there),
                  cmocka_unit_test(tells_before_training_what_cannot_be_saved))

/* Folders of pictures: the pixels that Keras gives (testdata/extra/pictures), and what is refused.
 */
#include "pg_test.h"

#include "train/data_files.h"

static char pictures[512];

static pg_data *open_pictures(uint64_t height, uint64_t width, uint64_t channels, const char *how)
{
    const pg__dims in = {4, {PG_DIM_ANY, height, width, channels}};
    const pg__ends ends = one_in_one_out(&in);
    pg_data *d = NULL;
    pg_err err = {0};
    snprintf(pictures, sizeof pictures, "%s/extra/pictures/classes", pg_testdata);
    assert_ok(pg_data_open(&d, pictures, &err));
    assert_ok(pg_data_interpolate(d, how, &err));
    pg_data_allow_classes(d, 1); /* cat/more */
    assert_ok(pg__data_bind(d, &ends, &err));
    return d;
}

static void assert_as_keras(const char *name, uint64_t height, uint64_t width, uint64_t channels,
                            const char *how)
{
    char path[600];
    const pg__dims in = {4, {PG_DIM_ANY, height, width, channels}};
    pg__ends ends = one_in_one_out(&in);
    pg_data *want = NULL, *d = open_pictures(height, width, channels, how);
    size_t n = 0;
    snprintf(path, sizeof path, "%s/extra/pictures/%s.npy", pg_testdata, name);
    ends.targeted = NULL;
    assert_ok(pg_data_open(&want, path, NULL));
    assert_ok(pg__data_bind(want, &ends, NULL));
    double *pixels = read_all(pg__data_find(want, "x0"), &n);
    assert_int_equal(n, 6 * height * width * channels);
    assert_array(d, "x0", pixels, n);
    pg__mem_free(pixels);
    pg_data_close(want);
    pg_data_close(d);
}

static void pixels_are_those_of_keras(void **state)
{
#if defined(PG_HAVE_PNG) && defined(PG_HAVE_JPEG)
    (void)state;
    assert_as_keras("rgb", 9, 10, 3, "bilinear");
    assert_as_keras("grey", 16, 5, 1, "bilinear");
    assert_as_keras("nearest", 9, 10, 3, "nearest");
#else
    (void)state, (void)assert_as_keras;
    skip();
#endif
}

static void classes_are_the_subfolders_in_order(void **state)
{
    pg_data *d = open_pictures(4, 4, 3, "bilinear");
    (void)state;
    assert_array(d, "y0", (const double[]){0, 0, 1, 1, 1, 1}, 6);
    assert_true(pg__data_find(d, "y0")->is_class);
    pg_data_close(d);
}

static void folders_that_are_no_classes_are_refused(void **state)
{
    const pg__dims in = {4, {PG_DIM_ANY, 4, 4, 3}};
    pg__ends ends = one_in_one_out(&in);
    pg_data *d = open_pictures(4, 4, 3, "bilinear");
    pg_err err = {0};
    char command[900];
    (void)state;
    assert_int_equal(pg_data_n_notes(d), 1);
    assert_non_null(strstr(pg_data_note(d, 0), "2 classes of pictures: Ant 2, cat 4"));
    pg_data_allow_classes(d, 0);
    assert_fails(PG_E_MISMATCH, pg__data_bind(d, &ends, &err), &err);
    assert_non_null(strstr(err.msg, "cat/more"));
    ends.targeted = NULL; /* predictions look at no classes */
    assert_ok(pg__data_bind(d, &ends, &err));
    assert_int_equal(pg_data_n_notes(d), 0);
    pg_data_close(d);
    ends = one_in_one_out(&in);
    snprintf(command, sizeof command,
             "mkdir -p %s/q/docs && cp -r %s/extra/pictures/classes/Ant %s/q", test_dir,
             pg_testdata, test_dir);
    assert_int_equal(system(command), 0);
    assert_ok(pg_data_open(&d, in_dir("q").s, &err));
    assert_fails(PG_E_MISMATCH, pg__data_bind(d, &ends, &err), &err);
    assert_non_null(strstr(err.msg, "\"docs\" holds no pictures"));
    pg_data_close(d);
}

static void folders_without_subfolders_have_no_classes(void **state)
{
    const pg__dims in = {4, {PG_DIM_ANY, 4, 4, 3}};
    pg__ends ends = one_in_one_out(&in);
    char path[600];
    pg_data *d = NULL;
    (void)state;
    snprintf(path, sizeof path, "%s/extra/pictures/classes/Ant", pg_testdata);
    assert_ok(pg_data_open(&d, path, NULL));
    ends.targeted = NULL;
    assert_ok(pg__data_bind(d, &ends, NULL));
    assert_int_equal(pg__data_find(d, "x0")->dims.d[0], 2);
    assert_null(pg__data_find(d, "y0"));
    pg_data_close(d);
}

static void damaged_pictures_are_named(void **state)
{
    static const char *const names[] = {"Ant/grey.png", "Ant/z.jpg", "Ant/none.png"};
    static const char *const words[] = {"grey.png: ", "z.jpg: ", "none.png: "};
    const pg__dims in = {4, {PG_DIM_ANY, 4, 4, 3}};
    const pg__ends ends = one_in_one_out(&in);
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        char command[900];
        float row[4 * 4 * 3];
        pg_data *d = NULL;
        pg_err err = {0};
        snprintf(command, sizeof command,
                 "rm -rf %s/p && mkdir -p %s/p/Ant && touch %s/p/Ant/none.png && "
                 "head -c 120 '%s/extra/pictures/classes/%s' > %s/p/%s",
                 test_dir, test_dir, test_dir, pg_testdata, i < 2 ? names[i] : names[0], test_dir,
                 names[i]);
        assert_int_equal(system(command), 0);
        if (i < 2)
            assert_int_equal(unlink(in_dir("p/Ant/none.png").s), 0);
        else
            assert_int_equal(truncate(in_dir("p/Ant/none.png").s, 0), 0);
        assert_ok(pg_data_open(&d, in_dir("p").s, &err));
        assert_ok(pg__data_bind(d, &ends, &err));
        const pg_status st = pg__array_read(pg__data_find(d, "x0"), (const uint64_t[]){0}, 1,
                                            PG_AS_F32, row, NULL, &err);
        assert_true(st == PG_E_FORMAT || st == PG_E_UNKNOWN || st == PG_E_UNSUPPORTED);
        assert_non_null(strstr(err.msg, words[i]));
        pg_data_close(d);
    }
}

static void what_models_cannot_take_is_refused(void **state)
{
    const pg__dims flat = {2, {PG_DIM_ANY, 10}}, two = {4, {PG_DIM_ANY, 4, 4, 2}};
    const pg__dims open = {4, {PG_DIM_ANY, PG_DIM_ANY, PG_DIM_ANY, 3}};
    const pg__ends no = one_in_one_out(&flat), channels = one_in_one_out(&two),
                   any = one_in_one_out(&open);
    pg_data *d = open_pictures(4, 4, 3, "bilinear");
    pg_err err = {0};
    (void)state;
    assert_fails(PG_E_MISMATCH, pg__data_bind(d, &no, &err), &err);
    assert_fails(PG_E_MISMATCH, pg__data_bind(d, &channels, &err), &err);
    assert_fails(PG_E_MISMATCH, pg__data_bind(d, &any, &err), &err);
    assert_string_equal(advice_of(&err), "set reshape=224,224,3");
    assert_ok(pg_data_reshape(d, "5,6,3", NULL));
    assert_ok(pg__data_bind(d, &any, NULL));
    assert_int_equal(pg__data_find(d, "x0")->dims.d[2], 6);
    assert_fails(PG_E_ARG, pg_data_interpolate(d, "cubic", &err), &err);
    pg_data_close(d);
    assert_int_equal(mkdir(in_dir("none").s, 0700), 0);
    assert_fails(PG_E_MISMATCH, pg_data_open(&d, in_dir("none").s, &err), &err);
}

PG_TEST_MAIN_WITH(make_test_dir, remove_test_dir, cmocka_unit_test(pixels_are_those_of_keras),
                  cmocka_unit_test(classes_are_the_subfolders_in_order),
                  cmocka_unit_test(folders_that_are_no_classes_are_refused),
                  cmocka_unit_test(folders_without_subfolders_have_no_classes),
                  cmocka_unit_test(damaged_pictures_are_named),
                  cmocka_unit_test(what_models_cannot_take_is_refused))

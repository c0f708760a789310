/* Data files as arrays: lists, packed files, orders of rows and bytes, conversions, damage. */
#include "pg_test.h"

#include "train/data_files.h"

static const double six[] = {0, 1, 2, 3, 4, 5};

static void write_pair(void)
{
    const float x[] = {0, 1, 2, 3, 4, 5};
    const int64_t y[] = {7, 8, 9};
    write_npy("x.npy", PG_F32, 0, 2, (const uint64_t[]){3, 2}, x);
    write_npy("y.npy", PG_I64, 0, 1, (const uint64_t[]){3}, y);
}

static pg_data *open_list(const char *a, const char *b)
{
    char list[400];
    pg_data *d = NULL;
    pg_err err = {0};
    snprintf(list, sizeof list, "%s,%s", in_dir(a).s, in_dir(b).s);
    if (pg_data_open(&d, list, &err) != PG_OK)
        fail_msg("%s", err.msg);
    return d;
}

static void a_list_of_files_is_inputs_then_targets(void **state)
{
    const pg__dims in = {2, {PG_DIM_ANY, 2}};
    const pg__ends ends = one_in_one_out(&in);
    (void)state;
    write_pair();
    pg_data *d = open_list("x.npy", "y.npy");
    assert_ok(pg__data_bind(d, &ends, NULL));
    assert_array(d, "x0", six, 6);
    assert_array(d, "y0", (const double[]){7, 8, 9}, 3);
    pg_data_close(d);
}

static void arrays_may_be_in_memory(void **state)
{
    const pg__dims in = {2, {PG_DIM_ANY, 2}};
    const pg__ends ends = one_in_one_out(&in);
    const float x[] = {0, 1, 2, 3, 4, 5};
    const int64_t y[] = {7, 8, 9};
    const pg_array arrays[] = {{"x0", PG_F32, 2, {3, 2}, x}, {"y0", PG_I64, 1, {3}, y}};
    pg_data *d = NULL;
    (void)state;
    assert_ok(pg_data_arrays(&d, arrays, 2, NULL));
    assert_ok(pg__data_bind(d, &ends, NULL));
    assert_array(d, "x0", six, 6);
    assert_array(d, "y0", (const double[]){7, 8, 9}, 3);
    pg_data_close(d);
}

static void arrays_in_memory_go_by_their_names(void **state)
{
    const pg__dims in = {2, {PG_DIM_ANY, 2}};
    const pg__ends ends = one_in_one_out(&in);
    const float x[] = {0, 1, 2, 3, 4, 5};
    const int64_t y[] = {7, 8, 9};
    const pg_array arrays[] = {{"y0", PG_I64, 1, {3}, y}, {"x0", PG_F32, 2, {3, 2}, x}};
    pg_data *d = NULL;
    (void)state;
    assert_ok(pg_data_arrays(&d, arrays, 2, NULL));
    assert_ok(pg__data_bind(d, &ends, NULL));
    assert_array(d, "x0", six, 6);
    assert_array(d, "y0", (const double[]){7, 8, 9}, 3);
    pg_data_close(d);
}

/* What a file like that of keras.datasets.mnist is for each use. */
static void sets_of_a_file_are_told_apart(void **state)
{
    const pg__dims in = {2, {PG_DIM_ANY, 2}};
    pg__ends ends = one_in_one_out(&in);
    const float x[] = {0, 1, 2, 3, 4, 5}, other[] = {6, 7};
    const int64_t y[] = {7, 8, 9};
    const pg_array arrays[] = {{"x_train", PG_F32, 2, {3, 2}, x},
                               {"y_train", PG_I64, 1, {3}, y},
                               {"x_test", PG_F32, 2, {1, 2}, other},
                               {"y_test", PG_I64, 1, {1}, y}};
    pg_data *d = NULL;
    pg_err err = {0};
    (void)state;
    assert_ok(pg_data_arrays(&d, arrays, 4, NULL));
    assert_int_equal(pg_data_n_notes(d), 0);
    for (int again = 0; again < 2; again++) {
        ends.use = PG_FOR_TRAINING;
        assert_ok(pg__data_bind(d, &ends, &err));
        assert_array(d, "x0", six, 6);
        assert_array(d, "y0", (const double[]){7, 8, 9}, 3);
        assert_int_equal(pg_data_n_notes(d), 1);
        assert_non_null(strstr(pg_data_note(d, 0), "\"x_train\" (3\xC3\x97"
                                                   "2 float32) is the input"));
        assert_null(pg_data_note(d, 1));
        ends.use = PG_FOR_EVALUATION;
        assert_fails(PG_E_AMBIGUOUS, pg__data_bind(d, &ends, &err), &err);
        assert_string_equal(advice_of(&err),
                            "choose-data x=x_train y=y_train or x=x_test y=y_test");
        assert_non_null(strstr(err.detail, "x_test: 1\xC3\x97"
                                           "2 float32"));
        ends.use = PG_FOR_VALIDATION;
        assert_fails(PG_E_AMBIGUOUS, pg__data_bind(d, &ends, &err), &err);
    }
    assert_true(pg_data_has_set(d, "train") && pg_data_has_set(d, "test"));
    assert_false(pg_data_has_set(d, "val") || pg_data_has_set(d, "tset"));
    assert_fails(PG_E_ARG, pg_data_set(d, "tset", &err), &err);
    assert_ok(pg_data_set(d, "test", &err));
    assert_ok(pg__data_bind(d, &ends, &err));
    assert_array(d, "x0", (const double[]){6, 7}, 2);
    assert_array(d, "y0", (const double[]){7}, 1);
    assert_ok(pg_data_set(d, "val", &err));
    assert_fails(PG_E_MISMATCH, pg__data_bind(d, &ends, &err), &err);
    pg_data_close(d);
}

static void arrays_are_chosen_by_name(void **state)
{
    const pg__dims in = {2, {PG_DIM_ANY, 2}};
    const pg__ends ends = one_in_one_out(&in);
    const float x[] = {0, 1, 2, 3, 4, 5}, wrong[] = {9, 9, 9, 9, 9, 9};
    const int64_t y[] = {7, 8, 9};
    const pg_array arrays[] = {{"x0", PG_F32, 2, {3, 2}, wrong},
                               {"left", PG_F32, 2, {3, 2}, x},
                               {"right", PG_I64, 1, {3}, y}};
    pg_data *d = NULL;
    pg_err err = {0};
    (void)state;
    assert_ok(pg_data_arrays(&d, arrays, 3, NULL));
    assert_true(pg_data_holds(d, "left,right"));
    assert_false(pg_data_holds(d, "left,wrong"));
    assert_false(pg_data_holds(d, "lef"));
    assert_fails(PG_E_ARG, pg_data_select(d, "left,", NULL, &err), &err);
    assert_ok(pg_data_select(d, "left", "right", &err));
    assert_ok(pg__data_bind(d, &ends, &err));
    assert_array(d, "x0", six, 6);
    assert_array(d, "y0", (const double[]){7, 8, 9}, 3);
    assert_ok(pg_data_select(d, "left,x0", NULL, &err));
    assert_fails(PG_E_MISMATCH, pg__data_bind(d, &ends, &err), &err);
    assert_ok(pg_data_select(d, "lost", NULL, &err));
    assert_fails(PG_E_MISMATCH, pg__data_bind(d, &ends, &err), &err);
    pg_data_close(d);
    write_pair();
    d = open_list("x.npy", "y.npy");
    assert_fails(PG_E_ARG, pg_data_select(d, "x", "y", &err), &err);
    assert_fails(PG_E_ARG, pg_data_set(d, "test", &err), &err);
    pg_data_close(d);
}

static void an_input_with_two_possible_targets_is_refused(void **state)
{
    const pg__dims in = {2, {PG_DIM_ANY, 2}};
    const pg__ends ends = one_in_one_out(&in);
    const float x[] = {0, 1, 2, 3, 4, 5};
    const int64_t y[] = {7, 8, 9}, other[] = {1, 2, 3};
    const pg_array arrays[] = {{"features", PG_F32, 2, {3, 2}, x},
                               {"labels", PG_I64, 1, {3}, other},
                               {"targets", PG_I64, 1, {3}, y}};
    pg_data *d = NULL;
    pg_err err = {0};
    (void)state;
    assert_ok(pg_data_arrays(&d, arrays, 3, NULL));
    assert_ok(pg_data_select(d, "features", NULL, &err));
    assert_fails(PG_E_AMBIGUOUS, pg__data_bind(d, &ends, &err), &err);
    assert_non_null(strstr(err.msg, "\"labels\" could be the target of \"features\", and so could "
                                    "\"targets\""));
    assert_string_equal(advice_of(&err), "choose-data y=labels or y=targets");
    assert_ok(pg_data_select(d, "features", "targets", &err));
    assert_ok(pg__data_bind(d, &ends, &err));
    assert_array(d, "y0", (const double[]){7, 8, 9}, 3);
    pg_data_close(d);
    assert_ok(pg_data_arrays(&d, arrays, 2, NULL));
    assert_ok(pg_data_select(d, "features", NULL, &err));
    assert_ok(pg__data_bind(d, &ends, &err));
    assert_array(d, "y0", (const double[]){1, 2, 3}, 3);
    pg_data_close(d);
}

static void arrays_that_are_none_are_refused(void **state)
{
    const float x[] = {0, 1};
    const pg_array bad[] = {{NULL, PG_F32, 1, {2}, x},
                            {"", PG_F32, 1, {2}, x},
                            {"x0", PG_F32, 0, {0}, x},
                            {"x0", PG_F32, PG_MAX_RANK + 1, {2}, x},
                            {"x0", PG_F32, 2, {2, 1}, NULL},
                            {"x0", PG_F32, 3, {1ULL << 40, 1ULL << 40, 0}, x},
                            {"x0", PG_F64, 2, {1ULL << 40, 1ULL << 23}, x}};
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        pg_data *d = NULL;
        pg_err err = {0};
        assert_fails(PG_E_ARG, pg_data_arrays(&d, &bad[i], 1, &err), &err);
        assert_null(d);
    }
}

static void more_files_than_the_model_takes_are_refused(void **state)
{
    const pg__dims in = {2, {PG_DIM_ANY, 2}};
    const pg__ends ends = one_in_one_out(&in);
    char list[800];
    pg_data *d = NULL;
    pg_err err = {0};
    (void)state;
    write_pair();
    snprintf(list, sizeof list, "%s,%s,%s,%s", in_dir("x.npy").s, in_dir("y.npy").s,
             in_dir("y.npy").s, in_dir("y.npy").s);
    assert_ok(pg_data_open(&d, list, &err));
    assert_fails(PG_E_MISMATCH, pg__data_bind(d, &ends, &err), &err);
    pg_data_close(d);
}

static void a_comma_in_the_name_of_a_file_is_no_separator(void **state)
{
    const pg__dims in = {2, {PG_DIM_ANY, 2}};
    pg__ends ends = one_in_one_out(&in);
    pg_data *d = NULL;
    (void)state;
    write_pair();
    assert_int_equal(rename(in_dir("x.npy").s, in_dir("a,b.npy").s), 0);
    assert_ok(pg_data_open(&d, in_dir("a,b.npy").s, NULL));
    ends.targeted = NULL;
    assert_ok(pg__data_bind(d, &ends, NULL));
    assert_array(d, "x0", six, 6);
    pg_data_close(d);
}

static void packed_files_are_what_they_hold(void **state)
{
    const pg__dims in = {2, {PG_DIM_ANY, 2}};
    const pg__ends ends = one_in_one_out(&in);
    char command[400];
    (void)state;
    write_pair();
    snprintf(command, sizeof command, "cd %s && gzip -kf x.npy && gzip -kf y.npy", test_dir);
    assert_int_equal(system(command), 0);
    pg_data *d = open_list("x.npy.gz", "y.npy.gz");
    assert_ok(pg__data_bind(d, &ends, NULL));
    assert_array(d, "x0", six, 6);
    pg_data_close(d);
}

static void packed_files_that_end_too_early_are_refused(void **state)
{
    char command[400];
    pg_data *d = NULL;
    pg_err err = {0};
    (void)state;
    write_pair();
    snprintf(command, sizeof command,
             "cd %s && gzip -kf x.npy && head -c 60 x.npy.gz > half.npy.gz", test_dir);
    assert_int_equal(system(command), 0);
    assert_fails(PG_E_FORMAT, pg_data_open(&d, in_dir("half.npy.gz").s, &err), &err);
    assert_non_null(strstr(err.msg, "half.npy.gz: compressed data ends too early"));
}

static void both_orders_of_bytes_are_read(void **state)
{
    const unsigned char x[] = {0, 0, 0, 1, 0, 1, 0, 0}, y[] = {0, 3, 255, 254};
    const pg__dims in = {2, {PG_DIM_ANY, 1}};
    const pg__ends ends = one_in_one_out(&in);
    (void)state;
    write_npy("bx.npy", PG_I32, 1, 2, (const uint64_t[]){2, 1}, x);
    write_npy("by.npy", PG_I16, 1, 1, (const uint64_t[]){2}, y);
    pg_data *d = open_list("bx.npy", "by.npy");
    assert_ok(pg__data_bind(d, &ends, NULL));
    assert_array(d, "x0", (const double[]){1, 65536}, 2);
    assert_array(d, "y0", (const double[]){3, -2}, 2);
    pg_data_close(d);
}

static void rows_come_in_the_order_asked_for(void **state)
{
    const uint64_t rows[] = {2, 0, 1, 2};
    const float want[] = {4, 5, 0, 1, 2, 3, 4, 5};
    const pg__dims in = {2, {PG_DIM_ANY, 2}};
    const pg__ends ends = one_in_one_out(&in);
    float got[8];
    (void)state;
    write_pair();
    pg_data *d = open_list("x.npy", "y.npy");
    assert_ok(pg__data_bind(d, &ends, NULL));
    assert_ok(pg__array_read(pg__data_find(d, "x0"), rows, 4, PG_AS_F32, got, NULL, NULL));
    assert_memory_equal(got, want, sizeof want);
    pg_data_close(d);
}

static void every_type_is_converted(void **state)
{
    static const struct {
        pg_dtype dtype;
        double value;
    } cases[] = {{PG_I8, -5},     {PG_I16, -300},        {PG_I32, -70000},   {PG_I64, 1 << 24},
                 {PG_U8, 250},    {PG_U16, 65000},       {PG_U32, 1u << 30}, {PG_U64, 12},
                 {PG_F32, -0.25}, {PG_F64, 1.0 / 1024.0}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        unsigned char raw[8];
        const double v = cases[i].value;
        const int64_t whole = (int64_t)v; /* little-endian: its first bytes are the short ones */
        const float f = (float)v;
        float as_float = 0;
        double as_double = 0;
        int32_t as_int = 0;
        memcpy(raw, cases[i].dtype == PG_F64 ? (const void *)&v : (const void *)&whole, 8);
        if (cases[i].dtype == PG_F32)
            memcpy(raw, &f, sizeof f);
        assert_int_equal(pg__cast_values(&as_float, PG_AS_F32, raw, cases[i].dtype, 1), 1);
        assert_int_equal(pg__cast_values(&as_double, PG_AS_F64, raw, cases[i].dtype, 1), 1);
        assert_true(as_float == f);
        assert_true(as_double == v);
        assert_int_equal(pg__cast_values(&as_int, PG_AS_I32, raw, cases[i].dtype, 1),
                         (double)whole == v);
        assert_true(as_int == whole || (double)whole != v);
    }
}

static void what_is_no_integer_of_32_bits_is_named(void **state)
{
    const float x[] = {1, 2.5f};
    const uint64_t rows[] = {0, 1};
    const pg__dims in = {1, {PG_DIM_ANY}};
    pg__ends ends = one_in_one_out(&in);
    int32_t got[2];
    pg_data *d = NULL;
    pg_err err = {0};
    (void)state;
    write_npy("f.npy", PG_F32, 0, 1, (const uint64_t[]){2}, x);
    ends.targeted = NULL;
    assert_ok(pg_data_open(&d, in_dir("f.npy").s, NULL));
    assert_ok(pg__data_bind(d, &ends, NULL));
    assert_fails(PG_E_MISMATCH,
                 pg__array_read(pg__data_find(d, "x0"), rows, 2, PG_AS_I32, got, NULL, &err), &err);
    assert_non_null(strstr(err.msg, "row 1 holds 2.5"));
    assert_int_equal(pg__cast_values(got, PG_AS_I32, &(int64_t){INT64_C(1) << 32}, PG_I64, 1), 0);
    pg_data_close(d);
}

static void a_file_that_shrinks_is_one_clear_error(void **state)
{
    const uint64_t rows[] = {2};
    const pg__dims in = {2, {PG_DIM_ANY, 2}};
    const pg__ends ends = one_in_one_out(&in);
    float got[2];
    pg_err err = {0};
    (void)state;
    write_pair();
    pg_data *d = open_list("x.npy", "y.npy");
    assert_ok(pg__data_bind(d, &ends, NULL));
    assert_int_equal(truncate(in_dir("x.npy").s, 130), 0);
    assert_fails(PG_E_FORMAT,
                 pg__array_read(pg__data_find(d, "x0"), rows, 1, PG_AS_F32, got, NULL, &err), &err);
    assert_non_null(strstr(err.msg, "x.npy: "));
    pg_data_close(d);
}

static void damaged_and_unknown_files_are_refused(void **state)
{
    pg_data *d = NULL;
    pg_err err = {0};
    (void)state;
    write_pair();
    assert_int_equal(truncate(in_dir("x.npy").s, 140), 0);
    assert_fails(PG_E_FORMAT, pg_data_open(&d, in_dir("x.npy").s, &err), &err);
    write_bytes("noise", "\x01\x02\x03\x04", 4);
    assert_fails(PG_E_UNKNOWN, pg_data_open(&d, in_dir("noise").s, &err), &err);
    write_bytes("empty", "", 0);
    assert_fails(PG_E_UNKNOWN, pg_data_open(&d, in_dir("empty").s, &err), &err);
    assert_fails(PG_E_IO, pg_data_open(&d, in_dir("nowhere").s, &err), &err);
}

static void reading_stops_when_it_is_told_to(void **state)
{
    const uint64_t rows[] = {0};
    const pg__dims in = {2, {PG_DIM_ANY, 2}};
    const pg__ends ends = one_in_one_out(&in);
    const int stop = 1;
    float got[2];
    pg_err err = {0};
    (void)state;
    write_pair();
    pg_data *d = open_list("x.npy", "y.npy");
    assert_ok(pg__data_bind(d, &ends, NULL));
    assert_fails(PG_E_CANCELLED,
                 pg__array_read(pg__data_find(d, "x0"), rows, 1, PG_AS_F32, got, &stop, &err),
                 &err);
    pg_data_close(d);
}

static void only_dimensions_are_a_new_shape(void **state)
{
    pg_data *d = NULL;
    pg_err err = {0};
    (void)state;
    write_pair();
    assert_ok(pg_data_open(&d, in_dir("x.npy").s, NULL));
    assert_ok(pg_data_reshape(d, "28,28,1", NULL));
    assert_int_equal(pg__data_reshape(d)->rank, 4);
    assert_int_equal(pg__data_reshape(d)->d[2], 28);
    assert_fails(PG_E_ARG, pg_data_reshape(d, "28,,1", &err), &err);
    assert_fails(PG_E_ARG, pg_data_reshape(d, "", &err), &err);
    assert_fails(PG_E_ARG, pg_data_reshape(d, "-1,3", &err), &err);
    assert_fails(PG_E_ARG, pg_data_reshape(d, "1,1,1,1,1,1,1,1", &err), &err);
    pg_data_close(d);
}

PG_TEST_MAIN_WITH(
    make_test_dir, remove_test_dir, cmocka_unit_test(a_list_of_files_is_inputs_then_targets),
    cmocka_unit_test(arrays_in_memory_go_by_their_names),
    cmocka_unit_test(sets_of_a_file_are_told_apart), cmocka_unit_test(arrays_are_chosen_by_name),
    cmocka_unit_test(an_input_with_two_possible_targets_is_refused),
    cmocka_unit_test(arrays_may_be_in_memory), cmocka_unit_test(arrays_that_are_none_are_refused),
    cmocka_unit_test(more_files_than_the_model_takes_are_refused),
    cmocka_unit_test(a_comma_in_the_name_of_a_file_is_no_separator),
    cmocka_unit_test(packed_files_are_what_they_hold),
    cmocka_unit_test(packed_files_that_end_too_early_are_refused),
    cmocka_unit_test(both_orders_of_bytes_are_read),
    cmocka_unit_test(rows_come_in_the_order_asked_for), cmocka_unit_test(every_type_is_converted),
    cmocka_unit_test(what_is_no_integer_of_32_bits_is_named),
    cmocka_unit_test(a_file_that_shrinks_is_one_clear_error),
    cmocka_unit_test(damaged_and_unknown_files_are_refused),
    cmocka_unit_test(reading_stops_when_it_is_told_to),
    cmocka_unit_test(only_dimensions_are_a_new_shape))

/* CSV tables: headers, targets by name or place, what people's programs write, what is refused. */
#include "pg_test.h"

#include "train/data_files.h"

static pg_data *open_table(const char *text, uint64_t columns, int predicting)
{
    const pg__dims in = {2, {PG_DIM_ANY, columns}};
    pg__ends ends = one_in_one_out(&in);
    pg_data *d = NULL;
    pg_err err = {0};
    write_text("t.csv", text);
    if (predicting)
        ends.targeted = NULL;
    if (pg_data_open(&d, in_dir("t.csv").s, &err) != PG_OK)
        fail_msg("%s", err.msg);
    assert_ok(pg__data_bind(d, &ends, &err));
    return d;
}

static void assert_refused(const char *text, pg_status code, const char *why)
{
    pg_data *d = NULL;
    pg_err err = {0};
    write_text("t.csv", text);
    assert_fails(code, pg_data_open(&d, in_dir("t.csv").s, &err), &err);
    if (!strstr(err.msg, why))
        fail_msg("\"%s\" lacks \"%s\"", err.msg, why);
}

static void without_a_header_the_last_column_is_the_target(void **state)
{
    pg_data *d = open_table("1,2.5,0\n-3,4e2,1\n", 2, 0);
    (void)state;
    assert_array(d, "x0", (const double[]){1, 2.5, -3, 400}, 4);
    assert_array(d, "y0", (const double[]){0, 1}, 2);
    pg_data_close(d);
}

static void columns_are_found_by_their_names(void **state)
{
    pg_data *d = open_table("\xEF\xBB\xBF\"a\",y,w,b,y.1\r\n1,2,3,4,5\r\n6,7,8,9,10\r\n", 2, 0);
    (void)state;
    assert_array(d, "x0", (const double[]){1, 4, 6, 9}, 4);
    assert_array(d, "y0", (const double[]){2, 5, 7, 10}, 4);
    assert_array(d, "w0", (const double[]){3, 8}, 2);
    pg_data_close(d);
    d = open_table("out,a\n1,2\n", 1, 0);
    assert_array(d, "y0", (const double[]){1}, 1);
    pg_data_close(d);
}

static void a_target_that_nobody_named_is_noted(void **state)
{
    pg_data *d = open_table("a,b,price\n1,2,3\n", 2, 0);
    (void)state;
    assert_int_equal(pg_data_n_notes(d), 1);
    assert_non_null(strstr(pg_data_note(d, 0), "t.csv: the last column, \"price\", is the target"));
    pg_data_close(d);
    d = open_table("1,2,3\n", 2, 0);
    assert_non_null(strstr(pg_data_note(d, 0), "the last of 3 columns is the target"));
    pg_data_close(d);
    d = open_table("1,2,3\n", 2, 1);
    assert_non_null(strstr(pg_data_note(d, 0), "is left out"));
    pg_data_close(d);
    d = open_table("y,a\n1,2\n", 1, 0);
    assert_int_equal(pg_data_n_notes(d), 0);
    pg_data_close(d);
}

static void columns_are_chosen_by_name(void **state)
{
    const pg__dims in = {2, {PG_DIM_ANY, 2}};
    pg__ends ends = one_in_one_out(&in);
    pg_data *d = open_table("price,a,b,c\n1,2,3,4\n5,6,7,8\n", 3, 0);
    pg_err err = {0};
    (void)state;
    assert_ok(pg_data_select(d, "c,a", "price", &err));
    assert_ok(pg__data_bind(d, &ends, &err));
    assert_array(d, "x0", (const double[]){4, 2, 8, 6}, 4); /* as they are listed */
    assert_array(d, "y0", (const double[]){1, 5}, 2);
    assert_int_equal(pg_data_n_notes(d), 0);
    assert_ok(pg_data_select(d, "a", "c,price", &err));
    assert_ok(pg__data_bind(d, &ends, &err));
    assert_array(d, "y0", (const double[]){4, 1, 8, 5}, 4);
    assert_ok(pg_data_select(d, "c", "c", &err));
    assert_fails(PG_E_MISMATCH, pg__data_bind(d, &ends, &err), &err);
    assert_ok(pg_data_select(d, "a,b", "cost", &err));
    assert_fails(PG_E_MISMATCH, pg__data_bind(d, &ends, &err), &err);
    ends.targeted = NULL;
    assert_ok(pg__data_bind(d, &ends, &err));
    assert_array(d, "x0", (const double[]){2, 3, 6, 7}, 4);
    pg_data_close(d);
    d = open_table("1,2,3\n", 2, 0);
    assert_ok(pg_data_select(d, NULL, "a", &err));
    ends = one_in_one_out(&in);
    assert_fails(PG_E_MISMATCH, pg__data_bind(d, &ends, &err), &err);
    assert_non_null(strstr(err.msg, "no header"));
    pg_data_close(d);
}

static void semicolons_and_tabs_are_separators_too(void **state)
{
    pg_data *d = open_table("1; 2 ;3\n", 2, 0);
    (void)state;
    assert_array(d, "x0", (const double[]){1, 2}, 2);
    pg_data_close(d);
    d = open_table("1\t\"2\"\t3", 2, 0);
    assert_array(d, "x0", (const double[]){1, 2}, 2);
    pg_data_close(d);
}

static void predictions_need_no_target_column(void **state)
{
    pg_data *d = open_table("1,2\n3,4\n", 2, 1);
    (void)state;
    assert_array(d, "x0", (const double[]){1, 2, 3, 4}, 4);
    pg_data_close(d);
    d = open_table("1,2,9\n3,4,9\n", 2, 1); /* it may be there */
    assert_array(d, "x0", (const double[]){1, 2, 3, 4}, 4);
    pg_data_close(d);
}

static void several_inputs_have_columns_of_their_names(void **state)
{
    static const char *const in[] = {"left", "right"}, *const out[] = {"out"};
    static const unsigned char targeted[] = {1};
    const pg__dims dims[] = {{2, {PG_DIM_ANY, 1}}, {2, {PG_DIM_ANY, 2}}};
    const pg__ends ends = {.n_inputs = 2,
                           .n_outputs = 1,
                           .input_names = in,
                           .output_names = out,
                           .input_dims = dims,
                           .targeted = targeted};
    pg_data *d = NULL;
    (void)state;
    write_text("t.csv", "right,left,right.1,y\n1,2,3,4\n");
    assert_ok(pg_data_open(&d, in_dir("t.csv").s, NULL));
    assert_ok(pg__data_bind(d, &ends, NULL));
    assert_array(d, "x0", (const double[]){2}, 1);
    assert_array(d, "x1", (const double[]){1, 3}, 2);
    pg_data_close(d);
}

static void numbers_are_read_exactly(void **state)
{
    static const char *const texts[] = {
        "0.1", "-0.000001", "123456789012345", "3.141592653589793", "1e-300", "0.30000000000000004",
        "-7.", ".5"};
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char row[80];
        const double want = strtod(texts[i], NULL);
        snprintf(row, sizeof row, "%s,1\n", texts[i]);
        pg_data *d = open_table(row, 1, 0);
        assert_array(d, "x0", &want, 1);
        pg_data_close(d);
    }
}

static void ragged_rows_and_words_are_named(void **state)
{
    (void)state;
    assert_refused("1,2\n3\n", PG_E_FORMAT, "t.csv: line 2 has 1 columns, the first line has 2");
    assert_refused("1,2\n3,4,5\n", PG_E_FORMAT, "line 2 has 3 columns");
    assert_refused("a,b\n1,2\n\n3,x\n", PG_E_FORMAT, "line 4, column 2: \"x\" is not a number");
    assert_refused("1,2\n3,\n", PG_E_FORMAT, "line 2, column 2: \"\" is not a number");
    assert_refused("a,b\n", PG_E_MISMATCH, "holds no rows");
}

static void long_tables_are_read_whole(void **state)
{
    enum { ROWS = 60000 };
    char *text = pg__mem_array((size_t)ROWS * 16, 1);
    size_t n = 0, have = 0;
    (void)state;
    for (int i = 0; i < ROWS; i++)
        n += (size_t)sprintf(text + n, "%d,%d\n", i, i % 7);
    pg_data *d = open_table(text, 1, 0);
    double *v = read_all(pg__data_find(d, "x0"), &have);
    assert_int_equal(have, ROWS);
    for (int i = 0; i < ROWS; i++)
        assert_true(v[i] == i);
    pg__mem_free(v);
    pg__mem_free(text);
    pg_data_close(d);
}

PG_TEST_MAIN_WITH(make_test_dir, remove_test_dir,
                  cmocka_unit_test(without_a_header_the_last_column_is_the_target),
                  cmocka_unit_test(columns_are_found_by_their_names),
                  cmocka_unit_test(a_target_that_nobody_named_is_noted),
                  cmocka_unit_test(columns_are_chosen_by_name),
                  cmocka_unit_test(semicolons_and_tabs_are_separators_too),
                  cmocka_unit_test(predictions_need_no_target_column),
                  cmocka_unit_test(several_inputs_have_columns_of_their_names),
                  cmocka_unit_test(numbers_are_read_exactly),
                  cmocka_unit_test(ragged_rows_and_words_are_named),
                  cmocka_unit_test(long_tables_are_read_whole))

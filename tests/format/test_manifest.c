/* Tests of format/manifest.c and manifest_read.c: what is printed is read back, and a manifest of a
 * stranger is refused by name. */
#include "pg_test.h"

#include "base/mem.h"
#include "format/manifest.h"

#define HEAD "{\"format\": \"npy\", \"version\": 1, \"source\": \"x.h5\", \"layers\": [\"a\"], "
#define TENSOR(files)                                                                     \
    HEAD "\"tensors\": [{\"name\": \"a/k:0\", \"layer\": \"a\", \"dtype\": \"float32\", " \
         "\"shape\": [4, 2], \"bytes\": 32, \"h5\": \"/a/a/k:0\", \"files\": [" files "]}]}"
#define FILE1(path, off, rows)                                           \
    "{\"path\": \"" path "\", \"offset_rows\": " off ", \"rows\": " rows \
    ", \"crc32\": \"0123abcd\"}"

static pg_status parse(const char *text, pg_err *err)
{
    pg__manifest m = {0};
    *err = (pg_err){0};
    const pg_status st = pg__manifest_parse(&m, text, strlen(text), err);
    pg__manifest_fini(&m);
    return st;
}

static void reads_what_it_printed(void **state)
{
    (void)state;
    pg_err err;
    pg__manifest m = {0}, back = {0};
    pg__str text = {0}, again = {0};
    const char *strs[] = {"tens\"or", "\xff\xfe"};
    const size_t lens[] = {7, 2};
    const float numbers[] = {1.5f, -0.0f};
    const pg__h5_attr a = {.name = "names",
                           .type = {.cls = PG_H5_STR_FIXED, .size = 7, .pad = 1},
                           .rank = 1,
                           .dims = {2},
                           .n_elems = 2,
                           .strs = strs,
                           .lens = lens};
    const pg__h5_attr b = {.name = "\xffodd",
                           .type = {.cls = PG_H5_NUMBER, .dtype = PG_F32, .size = 4},
                           .rank = 1,
                           .dims = {2},
                           .n_elems = 2,
                           .raw = numbers};
    m.format = pg__mem_strdup("npy");
    m.source_format = pg__mem_strdup("keras-h5-weights");
    assert_ok(pg__strs_add(&m.layers, "a\nb", 3, &err));
    const pg__shard_tensor t = {.name = (char *)(uintptr_t) "k",
                                .h5 = (char *)(uintptr_t) "a/k",
                                .dtype = PG_BF16,
                                .rank = 1,
                                .dims = {3},
                                .n_bytes = 6};
    const pg__shard_tensor state_t = {.name = (char *)(uintptr_t) "m",
                                      .layer = PG_NONE,
                                      .role = PG_ROLE_STATE,
                                      .dtype = PG_I64,
                                      .n_bytes = 8};
    const pg__piece p = {.path = (char *)(uintptr_t) "a/k.npy", .rows = 3, .crc = 0xfedcba98};
    const pg__piece q = {.path = (char *)(uintptr_t) "m.npy", .rows = 1};
    assert_ok(pg__manifest_add_tensor(&m, &t, &err));
    assert_ok(pg__manifest_add_piece(&m, &p, &err));
    assert_ok(pg__manifest_add_tensor(&m, &state_t, &err));
    assert_ok(pg__manifest_add_piece(&m, &q, &err));
    assert_ok(pg__manifest_add_object(&m, "", &err));
    assert_ok(pg__manifest_add_attr(&m, &a, &err));
    assert_ok(pg__manifest_add_object(&m, "a", &err));
    assert_ok(pg__manifest_add_attr(&m, &b, &err));
    assert_ok(pg__manifest_add_member(&m, "config.json", "{}", 2, &err));
    assert_ok(pg__manifest_print(&text, &m, &err));
    assert_ok(pg__manifest_parse(&back, text.s, text.n, &err));
    assert_int_equal(back.n_weights, 1);
    assert_int_equal(back.n_state, 1);
    assert_int_equal(back.pieces[0].crc, 0xfedcba98);
    assert_memory_equal(back.attrs[0].strs[1], strs[1], 2);
    assert_memory_equal(back.attrs[1].raw, numbers, sizeof numbers);
    assert_ok(pg__manifest_print(&again, &back, &err));
    assert_string_equal(again.s, text.s);
    pg__manifest_fini(&m);
    pg__manifest_fini(&back);
    pg__str_fini(&text);
    pg__str_fini(&again);
}

static void refuses_paths_that_lead_elsewhere(void **state)
{
    (void)state;
    static const char *const bad[] = {"../k.npy", "/etc/k.npy", "a/../../k.npy",    "a//k.npy",
                                      "",         "a/./k.npy",  "a\\\\..\\\\k.npy", "a\\nk.npy"};
    pg_err err;
    char text[1024];
    assert_ok(parse(TENSOR(FILE1("a/k.npy", "0", "4")), &err));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        (void)snprintf(text, sizeof text, TENSOR(FILE1("%s", "0", "4")), bad[i]);
        assert_int_equal(parse(text, &err), PG_E_FORMAT);
        assert_non_null(strstr(err.msg, "leads out of the folder"));
    }
    assert_int_equal(parse(TENSOR(FILE1("a\\u0000b", "0", "4")), &err), PG_E_FORMAT);
}

static void refuses_rows_that_do_not_tile_a_tensor(void **state)
{
    (void)state;
    static const char *const bad[] = {
        TENSOR(FILE1("a", "0", "3")),
        TENSOR(FILE1("a", "0", "5")),
        TENSOR(FILE1("a", "1", "3")),
        TENSOR(FILE1("a", "0", "2") ", " FILE1("b", "3", "1")),
        TENSOR(FILE1("a", "0", "2") ", " FILE1("b", "1", "3")),
        TENSOR(FILE1("a", "0", "2") ", " FILE1("b", "2", "9223372036854775807")),
        TENSOR(FILE1("a", "0", "-4")),
        TENSOR(FILE1("a", "2", "2") ", " FILE1("b", "0", "2")), /* exchanged */
        TENSOR(""),
    };
    pg_err err;
    assert_ok(parse(TENSOR(FILE1("a", "0", "1") ", " FILE1("b", "1", "3")), &err));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(parse(bad[i], &err), PG_E_FORMAT);
}

static void refuses_sizes_and_types_that_contradict_each_other(void **state)
{
    (void)state;
    static const char *const bad[] = {
        HEAD
        "\"tensors\": [{\"name\": \"k\", \"layer\": \"b\", \"dtype\": \"float32\", \"shape\": [], "
        "\"bytes\": 4, \"files\": []}]}",
        HEAD
        "\"tensors\": [{\"name\": \"k\", \"layer\": \"a\", \"dtype\": \"object\", \"shape\": [], "
        "\"bytes\": 4, \"files\": []}]}",
        HEAD
        "\"tensors\": [{\"name\": \"k\", \"layer\": \"a\", \"dtype\": \"float32\", \"shape\": [2], "
        "\"bytes\": 4, \"files\": []}]}",
        HEAD "\"tensors\": [{\"name\": \"k\", \"layer\": \"a\", \"dtype\": \"float32\", "
             "\"shape\": [1,1,1,1,1,1,1,1,1], \"bytes\": 4, \"files\": []}]}",
        HEAD "\"tensors\": 7}",
        HEAD "\"tensors\": [], \"attributes\": {\"a/b\": {}}}",
        HEAD "\"tensors\": [], \"attributes\": {\"/../b\": {}}}",
        HEAD
        "\"tensors\": [], \"attributes\": {\"/\": {\"n\": {\"type\": \"float32\", \"shape\": [9], "
        "\"value\": {\"hex\": \"00\"}}}}}",
        HEAD "\"tensors\": [], \"attributes\": {\"/\": {\"n\": {\"type\": \"string\", \"kind\": "
             "\"fixed\", \"size\": 2, \"shape\": [], \"value\": \"abc\"}}}}",
        HEAD "\"tensors\": [], \"tensors\": []}",
    };
    pg_err err;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(parse(bad[i], &err), PG_E_FORMAT);
    assert_int_equal(
        parse(HEAD "\"tensors\": [{\"name\": \"k\", \"layer\": \"a\", \"dtype\": \"float32\", "
                   "\"shape\": [4294967296, 4294967296], \"bytes\": 4, \"files\": []}]}",
              &err),
        PG_E_LIMIT);
}

static void leaves_other_json_alone(void **state)
{
    (void)state;
    static const char *const other[] = {"{}", "[]", "{\"class_name\": \"Functional\"}",
                                        "{\"tensors\": []}", "7"};
    pg_err err;
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        assert_int_equal(parse(other[i], &err), PG_E_UNKNOWN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_what_it_printed),
        cmocka_unit_test(refuses_paths_that_lead_elsewhere),
        cmocka_unit_test(refuses_rows_that_do_not_tile_a_tensor),
        cmocka_unit_test(refuses_sizes_and_types_that_contradict_each_other),
        cmocka_unit_test(leaves_other_json_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

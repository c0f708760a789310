/* safetensors in several files: one store through the index, and every disagreement of index and
 * shards refused. */
#include "wrap/shards.h"

#include "format/format.h"

#define PLAIN "extra/wrapped/plain.safetensors"
#define INDEX "/model.safetensors.index.json"
#define FIRST "/model-00001-of-00002.safetensors"
#define LAST  "/model-00002-of-00002.safetensors"

static const char *in(const char *dir, const char *file)
{
    char path[100];
    snprintf(path, sizeof path, "%s%s", dir, file);
    return tmp(path);
}

static void split_in_two(const char *dir)
{
    pg_store *s = open_file(data(PLAIN));
    const size_t most = (pg_store_n_weights(s) + 1) / 2;
    pg_store_close(s);
    split_into(dir, PLAIN, PG_SHARD_SAFETENSORS, most);
}

static void an_index_is_the_file_that_was_split(void **state)
{
    (void)state;
    split_in_two("whole");
    pg_store *s = open_file(in("whole", INDEX));
    assert_string_equal(pg_store_format(s), "safetensors");
    pg_store_close(s);
    assert_same(in("whole", INDEX), data(PLAIN), 1);
}

static void shards_that_are_not_there_are_named(void **state)
{
    (void)state;
    split_in_two("gone");
    assert_int_equal(unlink(in("gone", LAST)), 0);
    assert_store_refused(in("gone", INDEX), PG_E_FORMAT, &LAST[1]);
}

static void a_tensor_in_another_shard_than_the_index_says_is_refused(void **state)
{
    (void)state;
    split_in_two("swapped");
    assert_int_equal(rename(in("swapped", FIRST), in("swapped", "/x")), 0);
    assert_int_equal(rename(in("swapped", LAST), in("swapped", FIRST)), 0);
    assert_int_equal(rename(in("swapped", "/x"), in("swapped", LAST)), 0);
    assert_store_refused(in("swapped", INDEX), PG_E_FORMAT, &FIRST[1]);
}

static void nothing_but_files_beside_the_index_is_opened(void **state)
{
    (void)state;
    split_in_two("out");
    overwrite(in("out", INDEX), "model-00001-of-00002", "../../etc/x/y/z/0000");
    assert_store_refused(in("out", INDEX), PG_E_FORMAT, "../../etc");
}

static void other_json_is_left_alone(void **state)
{
    static const char *const other[] = {"{\"class_name\": \"Sequential\"}",
                                        "{\"weight_map\": \".bin\"}",
                                        "{\"weight_map\": {\"/vars\": \"a_00000.weights.h5\"}}"};
    (void)state;
    for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
        pg_store *s = NULL;
        pg__io *io = NULL;
        pg_err err = {0};
        assert_int_equal(pg__fmt_st_index.probe((const uint8_t *)other[i], strlen(other[i])), 1);
        assert_ok(pg__io_open_mem(&io, other[i], strlen(other[i]), NULL));
        assert_fails(PG_E_UNKNOWN, pg__fmt_st_index.open(&s, io, "x.json", NULL, &err), &err);
        assert_fails(PG_E_UNKNOWN, pg__fmt_st_index.open(&s, io, NULL, NULL, &err), &err);
        pg__io_close(io);
    }
    assert_int_equal(pg__fmt_st_index.probe((const uint8_t *)"\x89HDF", 4), 0);
}

PG_TEST_MAIN_WITH(NULL, remove_splits, cmocka_unit_test(an_index_is_the_file_that_was_split),
                  cmocka_unit_test(shards_that_are_not_there_are_named),
                  cmocka_unit_test(a_tensor_in_another_shard_than_the_index_says_is_refused),
                  cmocka_unit_test(nothing_but_files_beside_the_index_is_opened),
                  cmocka_unit_test(other_json_is_left_alone))

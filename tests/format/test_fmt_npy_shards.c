/* A model that pgsplit cut into .npy files: one store through its manifest, and no file taken that
 * is not the manifest's. */
#include "wrap/shards.h"

#include "format/format.h"

#define MODEL "files/keras-2.2.4/cnn4-g2/template_model.h5"

static const char *in(const char *dir, const char *file)
{
    char path[100];
    snprintf(path, sizeof path, "%s/%s", dir, file);
    return tmp(path);
}

static void a_manifest_is_the_file_that_was_split(void **state)
{
    static const pg_shard_format formats[] = {PG_SHARD_NPY, PG_SHARD_NPZ};
    static const char *const dirs[] = {"npy", "npz"};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        split_into(dirs[i], MODEL, formats[i], 3);
        pg_store *s = open_file(in(dirs[i], "manifest.json"));
        assert_string_equal(pg_store_format(s), "npy-shards");
        pg_store_close(s);
        assert_same(in(dirs[i], "manifest.json"), data(MODEL), 1);
    }
}

static void files_that_are_not_there_are_named(void **state)
{
    (void)state;
    split_into("gone", MODEL, PG_SHARD_NPZ, 3);
    assert_int_equal(unlink(in("gone", "model-00001-of-00003.npz")), 0);
    assert_store_refused(in("gone", "manifest.json"), PG_E_FORMAT, "model-00001-of-00003.npz");
}

static void a_file_that_was_cut_short_is_refused(void **state)
{
    (void)state;
    split_into("short", MODEL, PG_SHARD_NPZ, 3);
    assert_int_equal(truncate(in("short", "model-00002-of-00003.npz"), 700), 0);
    assert_store_refused(in("short", "manifest.json"), PG_E_FORMAT, "model-00002-of-00003.npz");
}

static void nothing_outside_the_folder_is_opened(void **state)
{
    (void)state;
    split_into("out", MODEL, PG_SHARD_NPZ, 3);
    overwrite(in("out", "manifest.json"), "model-00001-of-00003", "../../etc/x/y/z/0000");
    assert_store_refused(in("out", "manifest.json"), PG_E_FORMAT, "../../etc");
}

static void other_json_is_left_alone(void **state)
{
    static const char text[] = "{\"weight_map\": {\"a.weight\": \"a.safetensors\"}}";
    pg_store *s = NULL;
    pg__io *io = NULL;
    pg_err err = {0};
    (void)state;
    assert_ok(pg__io_open_mem(&io, text, strlen(text), NULL));
    assert_fails(PG_E_UNKNOWN, pg__fmt_npy_shards.open(&s, io, "x.json", NULL, &err), &err);
    assert_fails(PG_E_UNKNOWN, pg__fmt_npy_shards.open(&s, io, NULL, NULL, &err), &err);
    pg__io_close(io);
}

PG_TEST_MAIN_WITH(NULL, remove_splits, cmocka_unit_test(a_manifest_is_the_file_that_was_split),
                  cmocka_unit_test(files_that_are_not_there_are_named),
                  cmocka_unit_test(a_file_that_was_cut_short_is_refused),
                  cmocka_unit_test(nothing_outside_the_folder_is_opened),
                  cmocka_unit_test(other_json_is_left_alone))

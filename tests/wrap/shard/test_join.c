/* Joining: any shard leads to its index, the output is the file that was split, and damage leaves
 * none. */
#include "wrap/shards.h"

#include "base/limits.h"

#define MODEL "files/keras-2.2.4/cnn4-g2/template_model.h5"
#define PLAIN "extra/wrapped/plain.safetensors"

static const char *in(const char *dir, const char *file)
{
    char path[100];
    snprintf(path, sizeof path, "%s/%s", dir, file);
    return tmp(path);
}

static void join_ok(const char *from, const char *to, const pg_join_opts *opts)
{
    pg_err err = {0};
    if (pg_join_file(from, to, opts, NULL, &err) != PG_OK)
        fail_msg("%s", err.msg);
}

static void any_part_of_a_split_leads_to_the_whole(void **state)
{
    static const struct {
        const char *file, *parts[3], *out;
        pg_shard_format format;
    } cases[] = {
        {MODEL, {"", "manifest.json", "conv2d_1/kernel.npy"}, "out.h5", PG_SHARD_NPY},
        {MODEL, {"", "manifest.json", "model-00002-of-00003.npz"}, "out.h5", PG_SHARD_NPZ},
        {PLAIN,
         {"", "model.safetensors.index.json", "model-00001-of-00003.safetensors"},
         "out.safetensors",
         PG_SHARD_SAFETENSORS},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t k = 0; k < 3; k++) {
            char dir[20];
            snprintf(dir, sizeof dir, "any-%zu-%zu", i, k);
            split_into(dir, cases[i].file, cases[i].format, 3);
            const char *from = k ? in(dir, cases[i].parts[k]) : tmp(dir);
            const char *to = in(dir, cases[i].out);
            join_ok(from, to, NULL);
            assert_same(to, data(cases[i].file), 1);
        }
}

static void a_tensor_lies_a_limited_number_of_folders_below_its_manifest(void **state)
{
    char path[200];
    pg_err err = {0};
    (void)state;
    split_into("far", MODEL, PG_SHARD_NPY, 0);
    snprintf(path, sizeof path, "%s", tmp("far"));
    for (unsigned i = 0; i <= PG_LIMIT_SHARD_DEPTH; i++) {
        strcat(path, "/d");
        assert_int_equal(mkdir(path, 0700), 0);
    }
    strcat(path, "/x.npy");
    fclose(fopen(path, "wb"));
    assert_fails(PG_E_IO, pg_join_file(path, tmp("far.h5"), NULL, NULL, &err), &err);
    assert_int_not_equal(access(tmp("far.h5"), F_OK), 0);
}

static void only_what_was_asked_for_is_joined(void **state)
{
    const pg_join_opts opts = {.only = "*/kernel:0"};
    (void)state;
    split_into("only", MODEL, PG_SHARD_NPY, 0);
    join_ok(tmp("only"), tmp("only.h5"), &opts);
    pg_store *all = open_file(data(MODEL)), *some = open_file(tmp("only.h5"));
    assert_in_range(pg_store_n_weights(some), 1, pg_store_n_weights(all) - 1);
    for (size_t i = 0; i < pg_store_n_weights(some); i++)
        assert_non_null(strstr(pg_store_weight(some, i)->name, "kernel"));
    pg_store_close(all);
    pg_store_close(some);
}

static void damage_is_found_before_there_is_an_output(void **state)
{
    pg_err err = {0};
    pg_shard_report rep = {0};
    (void)state;
    split_into("bad", MODEL, PG_SHARD_NPZ, 3);
    FILE *f = fopen(in("bad", "model-00002-of-00003.npz"), "r+b");
    assert_non_null(f);
    fseek(f, -200, SEEK_END); /* within its directory, or the last tensor */
    const int c = fgetc(f);
    fseek(f, -200, SEEK_END);
    fputc(c ^ 1, f);
    fclose(f);
    assert_int_equal(unlink(in("bad", "model-00003-of-00003.npz")), 0);
    assert_fails(PG_E_FORMAT, pg_join_file(tmp("bad"), tmp("bad.h5"), NULL, &rep, &err), &err);
    assert_int_equal(rep.n_missing, 1);
    assert_string_equal(rep.missing[0], "model-00003-of-00003.npz");
    assert_int_equal(rep.n_damaged, 1);
    assert_non_null(strstr(rep.damaged[0], "model-00002-of-00003.npz"));
    assert_int_not_equal(access(tmp("bad.h5"), F_OK), 0);
    pg_shard_report_fini(&rep);
}

static void a_whole_file_is_no_shard(void **state)
{
    pg_err err = {0};
    (void)state;
    assert_fails(PG_E_ARG, pg_join_file(data(MODEL), tmp("x.h5"), NULL, NULL, &err), &err);
    assert_fails(PG_E_ARG, pg_join_file(data(MODEL), NULL, NULL, NULL, &err), &err);
}

PG_TEST_MAIN_WITH(NULL, remove_splits, cmocka_unit_test(any_part_of_a_split_leads_to_the_whole),
                  cmocka_unit_test(a_tensor_lies_a_limited_number_of_folders_below_its_manifest),
                  cmocka_unit_test(only_what_was_asked_for_is_joined),
                  cmocka_unit_test(damage_is_found_before_there_is_an_output),
                  cmocka_unit_test(a_whole_file_is_no_shard))

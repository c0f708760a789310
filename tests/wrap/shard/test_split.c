/* Splitting: how many files there are, what an interrupted split keeps, and whose folder it may
 * use. */
#include "wrap/shards.h"

#define MODEL   "files/keras-2.2.4/cnn4-g2/template_model.h5"
#define WRAPPER "files/keras-2.2.4/cnn4-g2/wrapper_model.h5"

static pg_shard_report split(const char *file, const char *dir, const pg_split_opts *opts)
{
    pg_shard_report rep = {0};
    pg_err err = {0};
    if (pg_split_file(data(file), tmp(dir), opts, &rep, &err) != PG_OK)
        fail_msg("%s", err.msg);
    return rep;
}

static void a_shard_holds_no_more_than_it_may(void **state)
{
    (void)state;
    for (size_t most = 1; most <= 4; most++) {
        char dir[20];
        const pg_split_opts opts = {.format = PG_SHARD_SAFETENSORS, .max_tensors = most};
        snprintf(dir, sizeof dir, "most-%zu", most);
        pg_shard_report rep = split(MODEL, dir, &opts);
        size_t n = 0;
        for (size_t i = 0; i + 2 < rep.n_files; i++) { /* a manifest and the index end the list */
            assert_in_range(rep.files[i].n_tensors, 1, most);
            n += rep.files[i].n_tensors;
        }
        assert_int_equal(n, rep.n_tensors);
        assert_int_equal(rep.n_files - 2, (rep.n_tensors + most - 1) / most);
        pg_shard_report_fini(&rep);
    }
}

static void a_large_tensor_is_cut_into_files_that_make_it_again(void **state)
{
    const pg_split_opts whole = {0}, cut = {.max_shard_bytes = 1000};
    (void)state;
    pg_shard_report a = split(MODEL, "whole", &whole), b = split(MODEL, "cut", &cut);
    assert_int_equal(a.n_files, a.n_tensors + 1);
    assert_true(b.n_files > a.n_files);
    assert_int_equal(a.n_params, b.n_params);
    assert_same(tmp("cut/manifest.json"), data(MODEL), 1);
    pg_shard_report_fini(&a);
    pg_shard_report_fini(&b);
}

static void a_dry_run_plans_the_same_files_and_writes_none(void **state)
{
    const pg_split_opts dry = {.write = {.dry_run = 1}}, wet = {0};
    (void)state;
    pg_shard_report a = split(MODEL, "plan", &dry);
    assert_int_not_equal(access(tmp("plan"), F_OK), 0);
    pg_shard_report b = split(MODEL, "plan", &wet);
    assert_int_equal(a.n_files, b.n_files);
    for (size_t i = 0; i < a.n_files; i++)
        assert_string_equal(a.files[i].path, b.files[i].path);
    pg_shard_report_fini(&a);
    pg_shard_report_fini(&b);
}

/* Without its manifest, which is written last, a folder is an interrupted split. */
static void an_interrupted_split_goes_on(void **state)
{
    const pg_split_opts opts = {0};
    (void)state;
    pg_shard_report rep = split(MODEL, "cont", &opts);
    const size_t n = rep.n_files;
    char lost[200];
    snprintf(lost, sizeof lost, "%s/%s", tmp("cont"), rep.files[0].path);
    pg_shard_report_fini(&rep);
    assert_int_equal(unlink(tmp("cont/manifest.json")), 0);
    assert_int_equal(unlink(lost), 0);
    rep = split(MODEL, "cont", &opts);
    assert_int_equal(rep.n_files, n);
    assert_int_equal(rep.n_reused, n - 2); /* all but the lost one and the manifest */
    assert_same(tmp("cont/manifest.json"), data(MODEL), 1);
    pg_shard_report_fini(&rep);
}

static void a_folder_with_other_files_is_left_alone(void **state)
{
    pg_err err = {0};
    const pg_split_opts force = {.write = {.force = 1}};
    (void)state;
    assert_int_equal(mkdir(tmp("mine"), 0700), 0);
    fclose(fopen(tmp("mine/letter.txt"), "w"));
    assert_fails(PG_E_ARG, pg_split_file(data(MODEL), tmp("mine"), NULL, NULL, &err), &err);
    assert_fails(PG_E_ARG, pg_split_file(data(MODEL), tmp("mine"), &force, NULL, &err), &err);
    assert_int_equal(access(tmp("mine/letter.txt"), F_OK), 0);
    assert_int_not_equal(access(tmp("mine/manifest.json"), F_OK), 0);
}

static void the_template_of_a_wrapper_can_be_split(void **state)
{
    const pg_split_opts opts = {.unwrap = 1};
    (void)state;
    pg_shard_report rep = split(WRAPPER, "unwrapped", &opts);
    assert_same(tmp("unwrapped/manifest.json"), data(MODEL), 0);
    pg_shard_report_fini(&rep);
}

PG_TEST_MAIN_WITH(NULL, remove_splits, cmocka_unit_test(a_shard_holds_no_more_than_it_may),
                  cmocka_unit_test(a_large_tensor_is_cut_into_files_that_make_it_again),
                  cmocka_unit_test(a_dry_run_plans_the_same_files_and_writes_none),
                  cmocka_unit_test(an_interrupted_split_goes_on),
                  cmocka_unit_test(a_folder_with_other_files_is_left_alone),
                  cmocka_unit_test(the_template_of_a_wrapper_can_be_split))

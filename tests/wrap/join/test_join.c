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

/* ---- checkpoints of several ranks ---- */

#define RANKS "modern/dcp-fsdp2/ckpt"

static void join_fails(pg_status code, const char *to, const pg_join_opts *opts, const char *says)
{
    pg_err err = {0};
    assert_fails(code, pg_join_file(data(RANKS), tmp(to), opts, NULL, &err), &err);
    if (!strstr(err.msg, says))
        fail_msg("\"%s\" does not say %s", err.msg, says);
}

static void a_folder_gets_shards_that_hold_what_one_file_holds(void **state)
{
    const pg_join_opts opts = {.max_shard_bytes = 2000};
    (void)state;
    join_ok(data(RANKS), tmp("one.safetensors"), NULL);
    join_ok(data(RANKS), tmp("hub"), &opts);
    assert_int_equal(access(in("hub", "model-00004-of-00004.safetensors"), F_OK), 0);
    join_ok(tmp("hub"), tmp("again.safetensors"), NULL);
    assert_same(tmp("again.safetensors"), tmp("one.safetensors"), 1);
}

static void jobs_write_the_folder_that_one_call_writes(void **state)
{
    static const unsigned order[] = {3, 1, 2, 1}; /* one is repeated */
    char command[400];
    (void)state;
    join_ok(data(RANKS), tmp("alone"), &(pg_join_opts){.max_shard_bytes = 2000});
    for (size_t i = 0; i < 4; i++)
        join_ok(data(RANKS), tmp("jobs"),
                &(pg_join_opts){.max_shard_bytes = 2000, .job = order[i], .n_jobs = 3});
    assert_int_not_equal(access(in("jobs", "model.safetensors.index.json"), F_OK), 0);
    join_ok(data(RANKS), tmp("jobs"), &(pg_join_opts){.max_shard_bytes = 2000, .finish = 1});
    snprintf(command, sizeof command, "diff -r '%s' ", tmp("alone"));
    snprintf(command + strlen(command), sizeof command - strlen(command), "'%s'", tmp("jobs"));
    assert_int_equal(system(command), 0);
}

static void the_end_of_all_jobs_misses_none(void **state)
{
    const pg_join_opts finish = {.max_shard_bytes = 2000, .finish = 1};
    (void)state;
    join_fails(PG_E_ARG, "gap", &finish, "no job has written here yet");
    join_ok(data(RANKS), tmp("gap"),
            &(pg_join_opts){.max_shard_bytes = 2000, .job = 1, .n_jobs = 2});
    join_fails(PG_E_FORMAT, "gap", &finish, "2 of 4 shards missing or damaged");
    join_ok(data(RANKS), tmp("gap"),
            &(pg_join_opts){.max_shard_bytes = 2000, .job = 2, .n_jobs = 2});
    FILE *f = fopen(in("gap", "model-00002-of-00004.safetensors"), "r+b");
    assert_non_null(f);
    fseek(f, -5, SEEK_END);
    fputc(0x5a, f);
    fclose(f);
    join_fails(PG_E_FORMAT, "gap", &finish, "1 of 4 shards missing or damaged");
    join_ok(data(RANKS), tmp("gap"),
            &(pg_join_opts){.max_shard_bytes = 2000, .job = 2, .n_jobs = 2});
    join_ok(data(RANKS), tmp("gap"), &finish);
}

static void jobs_with_other_options_are_not_mixed(void **state)
{
    (void)state;
    join_ok(data(RANKS), tmp("mix"),
            &(pg_join_opts){.max_shard_bytes = 3000, .job = 1, .n_jobs = 1});
    join_fails(PG_E_ARG, "mix",
               &(pg_join_opts){.max_shard_bytes = 1500, .dtype = "bfloat16", .finish = 1},
               "other options than this call");
    join_fails(PG_E_ARG, "mix", &(pg_join_opts){.job = 3, .n_jobs = 2}, "counted from 1");
}

static void a_type_is_changed_on_the_way(void **state)
{
    (void)state;
    join_ok(data(RANKS), tmp("half.safetensors"), &(pg_join_opts){.dtype = "bfloat16"});
    pg_store *s = open_file(tmp("half.safetensors"));
    for (size_t i = 0; i < pg_store_n_weights(s); i++)
        assert_int_not_equal(pg_store_weight(s, i)->dtype, PG_F32);
    pg_store_close(s);
}

static void a_checkpoint_without_a_model_is_refused(void **state)
{
    /* {"opt_state": {"m": float32[2]}} of flax.serialization */
    static const char only_state[] = "\x81\xa9opt_state\x81\xa1m\xc7\x15\x01\x93\x91\x02\xa7"
                                     "float32\xc4\x08\0\0\x80\x3f\0\0\0\x40";
    pg_err err = {0};
    (void)state;
    FILE *f = fopen(tmp("state.msgpack"), "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(only_state, 1, sizeof only_state - 1, f), sizeof only_state - 1);
    assert_int_equal(fclose(f), 0);
    assert_fails(PG_E_UNSUPPORTED,
                 pg_join_file(tmp("state.msgpack"), tmp("none.safetensors"), NULL, NULL, &err),
                 &err);
    if (!strstr(err.msg, "holds no model, only 1 tensor"))
        fail_msg("%s", err.msg);
}

static void what_pgsplit_cut_keeps_its_types(void **state)
{
    pg_err err = {0};
    (void)state;
    split_into("plain", PLAIN, PG_SHARD_NPY, 0);
    assert_fails(
        PG_E_ARG,
        pg_join_file(tmp("plain"), tmp("x"), &(pg_join_opts){.dtype = "float16"}, NULL, &err),
        &err);
}

PG_TEST_MAIN_WITH(NULL, remove_splits, cmocka_unit_test(any_part_of_a_split_leads_to_the_whole),
                  cmocka_unit_test(a_tensor_lies_a_limited_number_of_folders_below_its_manifest),
                  cmocka_unit_test(only_what_was_asked_for_is_joined),
                  cmocka_unit_test(damage_is_found_before_there_is_an_output),
                  cmocka_unit_test(a_whole_file_is_no_shard),
                  cmocka_unit_test(a_folder_gets_shards_that_hold_what_one_file_holds),
                  cmocka_unit_test(jobs_write_the_folder_that_one_call_writes),
                  cmocka_unit_test(the_end_of_all_jobs_misses_none),
                  cmocka_unit_test(jobs_with_other_options_are_not_mixed),
                  cmocka_unit_test(a_type_is_changed_on_the_way),
                  cmocka_unit_test(a_checkpoint_without_a_model_is_refused),
                  cmocka_unit_test(what_pgsplit_cut_keeps_its_types))

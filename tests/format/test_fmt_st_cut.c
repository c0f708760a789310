#include "format/modern.h"

#include <sys/resource.h>
#include <unistd.h>

#include "format/ranks.h"

static void puts_the_files_of_ranks_together(void **state)
{
    (void)state;
    modern_check("dcp-hf-safetensors/ckpt", "dcp-hf-safetensors/expected.safetensors", "");
    modern_check("dcp-hf-safetensors/ckpt/shard-00003-model-00001-of-00001.safetensors",
                 "dcp-hf-safetensors/expected.safetensors", "");
}

static void name_file(char *out, size_t n, const char *folder, int rank)
{
    snprintf(out, n, "%s/shard-%05d-model-00001-of-00001.safetensors", folder, rank);
}

/* A tensor of one element in a rank's file. */
static void write_rank(const char *folder, int rank)
{
    char path[128], header[256];
    name_file(path, sizeof path, folder, rank);
    const int n = snprintf(header, sizeof header,
                           "{\"__metadata__\":{\"DCP_SHARDING_INFO\":\"{\\\"t%d\\\":"
                           "{\\\"saved_offsets\\\":[0]}}\"},\"t%d\":{\"dtype\":\"U8\","
                           "\"shape\":[1],\"data_offsets\":[0,1]}}",
                           rank, rank);
    const char length[8] = {(char)n};
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(length, 1, 8, f), 8);
    assert_int_equal(fwrite(header, 1, (size_t)n, f), n);
    assert_int_equal(fwrite("x", 1, 1, f), 1);
    fclose(f);
}

static void remove_ranks(const char *folder, int n)
{
    char path[128];
    for (int rank = 1; rank <= n; rank++) {
        name_file(path, sizeof path, folder, rank);
        (void)unlink(path);
    }
    (void)rmdir(folder);
}

/* Without one rank's file the others' tensors are whole, yet not all. */
static void refuses_a_gap_between_ranks(void **state)
{
    (void)state;
    char folder[] = "/tmp/pg-cut-XXXXXX";
    pg_store *s = NULL;
    pg_err err = {0};
    assert_non_null(mkdtemp(folder));
    write_rank(folder, 1);
    write_rank(folder, 3);
    assert_fails(PG_E_FORMAT, pg_store_open(&s, folder, NULL, &err), &err);
    assert_non_null(strstr(err.msg, "1 of 3 shards missing"));
    write_rank(folder, 2);
    assert_fails(PG_E_AMBIGUOUS, pg_store_open(&s, folder, NULL, &err), &err);
    assert_string_equal(pg_action_get(&err.action, "rules"), "ranks=N");
    assert_fails(PG_E_FORMAT, pg_store_open(&s, folder, &(pg_open_opts){.rules = "ranks=4"}, &err),
                 &err);
    assert_fails(PG_E_ARG, pg_store_open(&s, folder, &(pg_open_opts){.rules = "ranks=3x"}, &err),
                 &err);
    assert_ok(pg_store_open(&s, folder, &(pg_open_opts){.rules = "ranks=3"}, NULL));
    assert_int_equal(pg_store_n_weights(s), 3);
    pg_store_close(s);
    remove_ranks(folder, 3);
}

/* More ranks than files that a process may have open. */
static void many_ranks_need_few_descriptors(void **state)
{
    (void)state;
    enum { N = PG_RANK_FILES_OPEN + 100 };
    char folder[] = "/tmp/pg-cut-XXXXXX", c = 0;
    struct rlimit before;
    pg_store *s = NULL;
    assert_non_null(mkdtemp(folder));
    for (int rank = 1; rank <= N; rank++)
        write_rank(folder, rank);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    const struct rlimit few = {PG_RANK_FILES_OPEN + 50, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    char rules[32];
    snprintf(rules, sizeof rules, "ranks=%d", N);
    assert_ok(pg_store_open(&s, folder, &(pg_open_opts){.rules = rules}, NULL));
    assert_int_equal(pg_store_n_weights(s), N);
    for (size_t i = 0; i < N; i++) {
        assert_ok(pg_store_read(s, i, 0, &c, 1, NULL));
        assert_int_equal(c, 'x');
    }
    pg_store_close(s);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    remove_ranks(folder, N);
}

PG_TEST_MAIN(cmocka_unit_test(puts_the_files_of_ranks_together),
             cmocka_unit_test(refuses_a_gap_between_ranks),
             cmocka_unit_test(many_ranks_need_few_descriptors))

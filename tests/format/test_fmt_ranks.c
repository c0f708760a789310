#include "format/modern.h"

#include <unistd.h>

static void puts_every_checkpoint_together(void **state)
{
    (void)state;
    static const struct {
        const char *checkpoint, *expected;
    } rows[] = {
        {"rank-pt-dtensor/ckpt", "rank-pt-dtensor/expected.safetensors"},
        {"rank-pt-dtensor/ckpt/model_world_size_4_rank_2.pt",
         "rank-pt-dtensor/expected.safetensors"},
        {"rank-pt-dtensor-2d/ckpt", "rank-pt-dtensor-2d/expected.safetensors"},
        {"rank-pt-fsdp1-sharded/ckpt", "rank-pt-fsdp1-sharded/expected.safetensors"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        modern_check(rows[i].checkpoint, rows[i].expected, "");
}

static void refuses_flat_parameters(void **state)
{
    (void)state;
    pg_store *s = NULL;
    pg_err err = {0};
    assert_fails(PG_E_UNSUPPORTED,
                 pg_store_open(&s, modern_path("rank-pt-fsdp1-local/ckpt"), NULL, &err), &err);
    assert_non_null(strstr(err.msg, "_flat_param: a flat parameter"));
}

static void name_file(char *out, size_t n, const char *folder, int rank)
{
    snprintf(out, n, "%s/model_world_size_4_rank_%d.pt", folder, rank);
}

static void copy_rank(const char *folder, int rank)
{
    static char bytes[1 << 16];
    char path[640];
    name_file(path, sizeof path, modern_path("rank-pt-dtensor/ckpt"), rank);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    const size_t n = fread(bytes, 1, sizeof bytes, f);
    assert_true(feof(f));
    fclose(f);
    name_file(path, sizeof path, folder, rank);
    f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    fclose(f);
}

/* The first rank's file is not there, nor the last one's: neither of which the others' names show.
 */
static void names_the_files_that_are_missing(void **state)
{
    (void)state;
    char folder[] = "/tmp/pg-ranks-XXXXXX", path[128];
    pg_store *s = NULL;
    assert_non_null(mkdtemp(folder));
    for (int rank = 0; rank < 4; rank++)
        copy_rank(folder, rank);
    for (int rank = 0; rank < 4; rank += 3) {
        pg_err err = {0};
        name_file(path, sizeof path, folder, rank);
        assert_int_equal(unlink(path), 0);
        assert_fails(PG_E_FORMAT, pg_store_open(&s, folder, NULL, &err), &err);
        name_file(path, sizeof path, "", rank);
        assert_non_null(strstr(err.msg, "1 of 4 shards missing"));
        assert_non_null(strstr(err.detail, path + 1));
        copy_rank(folder, rank);
    }
    for (int rank = 0; rank < 4; rank++) {
        name_file(path, sizeof path, folder, rank);
        (void)unlink(path);
    }
    (void)rmdir(folder);
}

PG_TEST_MAIN(cmocka_unit_test(puts_every_checkpoint_together),
             cmocka_unit_test(refuses_flat_parameters),
             cmocka_unit_test(names_the_files_that_are_missing))

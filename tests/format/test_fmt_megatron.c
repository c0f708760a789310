#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "format/megatron.h"
#include "format/modern.h"

/* What Megatron-Core itself holds in one process; old-*: the orders before version 2. */
static void puts_every_checkpoint_together(void **state)
{
    (void)state;
    static const char *const names[] = {"gelu-tp2-pp2", "llama-tp2-pp2-vp2", "moe-pp2-ep2", "old-1",
                                        "old-2"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char checkpoint[128], expected[128];
        snprintf(checkpoint, sizeof checkpoint, "megatron-%s/ckpt", names[i]);
        snprintf(expected, sizeof expected, "megatron-%s/expected.safetensors", names[i]);
        modern_check(checkpoint, expected, "");
    }
}

static void takes_a_job_an_iteration_a_rank_or_its_file(void **state)
{
    (void)state;
    static const char *const ends[] = {"", "/", "/iter_0000020", "/iter_0000020/mp_rank_01_000/",
                                       "/iter_0000020/mp_rank_01_001/model_optim_rng.pt",
                                       "/latest_checkpointed_iteration.txt"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        char checkpoint[128];
        snprintf(checkpoint, sizeof checkpoint, "megatron-gelu-tp2-pp2/ckpt%s", ends[i]);
        modern_check(checkpoint, "megatron-gelu-tp2-pp2/expected.safetensors", "");
    }
}

static void asks_for_the_order_that_no_file_says(void **state)
{
    (void)state;
    pg_store *s = NULL, *e = NULL;
    pg_err err = {0};
    const char *path = modern_path("megatron-old-0/ckpt");
    assert_int_equal(pg_store_open(&s, path, NULL, &err), PG_E_AMBIGUOUS);
    assert_non_null(strstr(err.msg, "no checkpoint_version"));
    assert_int_equal(
        pg_store_open(&s, path, &(pg_open_opts){.rules = "megatron-lm-0,heads=3"}, &err),
        PG_E_FORMAT);
    assert_ok(pg_store_open(&s, path, &(pg_open_opts){.rules = "megatron-lm-0,heads=4"}, NULL));
    assert_ok(pg_store_open(&e, modern_path("megatron-old-0/expected.safetensors"), NULL, NULL));
    assert_int_equal(pg_store_n_weights(s), pg_store_n_weights(e));
    for (size_t k = 0; k < pg_store_n_weights(e); k++)
        modern_equal(s, modern_find(s, pg_store_weight(e, k)->name), e, k);
    pg_store_close(s);
    pg_store_close(e);
}

/* Of two ranks' 20 rows each, 37; and 20, where the second rank's are padding. */
static void cuts_off_padding(void **state)
{
    (void)state;
    static const char *const rules[] = {"vocab=37", "vocab=20"};
    static const uint64_t rows[] = {37, 20};
    const char *name = "embedding.word_embeddings.weight";
    static float x[40 * 16], y[40 * 16];
    for (size_t i = 0; i < 2; i++) {
        pg_store *s = NULL, *e = NULL;
        assert_ok(pg_store_open(&s, modern_path("megatron-gelu-tp2-pp2/ckpt"),
                                &(pg_open_opts){.rules = rules[i]}, NULL));
        assert_ok(pg_store_open(&e, modern_path("megatron-gelu-tp2-pp2/expected.safetensors"), NULL,
                                NULL));
        const size_t k = modern_find(s, name), n = (size_t)rows[i] * 16 * sizeof *x;
        assert_int_equal(pg_store_weight(s, k)->dims[0], rows[i]);
        assert_ok(pg_store_read(s, k, 0, x, n, NULL));
        assert_ok(pg_store_read(e, modern_find(e, name), 0, y, n, NULL));
        assert_memory_equal(x, y, n);
        pg_store_close(s);
        pg_store_close(e);
    }
}

static void reads_rules(void **state)
{
    (void)state;
    pg__megatron_rules r = {0};
    int given = 0;
    static const char *const bad[] = {
        "x",        "megatron-lm-4", "heads=", "heads=0", "heads=4x", "heads=-1",
        "vocab=+1", "a=2",           "=0",     "a=",      ",",        "a=0,,b=1"};
    assert_ok(pg__megatron_rules_read(&r, NULL, NULL));
    assert_int_equal(r.version, -1);
    pg__megatron_rules_fini(&r);
    assert_ok(pg__megatron_rules_read(&r, "megatron-lm-1,heads=12,*.a=glu,a=b=first", NULL));
    assert_int_equal(r.version, 1);
    assert_int_equal(r.heads, 12);
    assert_int_equal(pg__megatron_rule(&r, "x.a", &given), PG_MEGATRON_HALVES);
    assert_int_equal(given, 1);
    assert_int_equal(pg__megatron_rule(&r, "a=b", &given), PG_MEGATRON_FIRST);
    assert_int_equal(pg__megatron_rule(&r, "decoder.layers.0.mlp.linear_fc2.weight", &given),
                     PG_MEGATRON_COLUMNS);
    assert_int_equal(given, 0);
    assert_int_equal(pg__megatron_rule(&r, "decoder.layers.0.mixer.norm.weight", &given),
                     PG_MEGATRON_UNKNOWN);
    pg__megatron_rules_fini(&r);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        pg_err err = {0};
        if (pg__megatron_rules_read(&r, bad[i], &err) != PG_E_ARG)
            fail_msg("%s", bad[i]);
        assert_null(r.cuts);
    }
}

/* Reading them shows copies that differ; nothing of them is a model before. */
static void compares_copies(void **state)
{
    (void)state;
    static const char *const folders[] = {"bad-copies", "bad-stages-tied"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        char path[512];
        float x[8];
        pg_err err = {0};
        pg_store *s = NULL;
        snprintf(path, sizeof path, "%s/extra/megatron/%s", pg_testdata, folders[i]);
        assert_ok(pg_store_open(&s, path, NULL, NULL));
        const char *name =
            i ? "embedding.word_embeddings.weight" : "embedding.position_embeddings.weight";
        const size_t k = modern_find(s, name);
        assert_int_not_equal(k, PG_NONE);
        const size_t n = (size_t)pg_store_weight(s, k)->n_bytes;
        assert_true(n <= sizeof x);
        assert_int_equal(pg_store_read(s, k, 0, x, n, &err), PG_E_FORMAT);
        assert_non_null(strstr(err.msg, i ? "mp_rank_00_001" : "mp_rank_01"));
        pg_store_close(s);
    }
}

static void copy(const char *from, const char *to)
{
    static char bytes[1 << 16];
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
    assert_non_null(in);
    assert_non_null(out);
    const size_t n = fread(bytes, 1, sizeof bytes, in);
    assert_true(n < sizeof bytes && fwrite(bytes, 1, n, out) == n);
    (void)fclose(in);
    (void)fclose(out);
}

/* The file of an only rank: its other parts are as in any .pt. */
static void leaves_other_parts_of_an_only_rank_to_pytorch(void **state)
{
    (void)state;
    char dir[512], path[600], from[512];
    pg_store *s = NULL;
    assert_non_null(mkdtemp(strcpy(dir, "/tmp/pg_megatron_XXXXXX")));
    snprintf(path, sizeof path, "%s/mp_rank_00", dir);
    assert_int_equal(mkdir(path, 0777), 0);
    strcat(path, "/model_optim_rng.pt");
    snprintf(from, sizeof from, "%s/extra/parts/megatron.pt", pg_testdata);
    copy(from, path);
    assert_ok(pg_store_open(&s, path, &(pg_open_opts){.part = "optimizer"}, NULL));
    assert_string_equal(pg_store_format(s), "pytorch-zip");
    pg_store_close(s);
    assert_int_equal(unlink(path), 0);
    *strrchr(path, '/') = 0;
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(rmdir(dir), 0);
}

PG_TEST_MAIN(cmocka_unit_test(puts_every_checkpoint_together),
             cmocka_unit_test(takes_a_job_an_iteration_a_rank_or_its_file),
             cmocka_unit_test(asks_for_the_order_that_no_file_says),
             cmocka_unit_test(cuts_off_padding), cmocka_unit_test(reads_rules),
             cmocka_unit_test(compares_copies),
             cmocka_unit_test(leaves_other_parts_of_an_only_rank_to_pytorch))

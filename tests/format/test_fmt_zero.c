#include "format/modern.h"

static void puts_every_checkpoint_together(void **state)
{
    (void)state;
    static const char *const names[] = {"zero2-groups", "zero3", "zero3-tied"};
    static const char *const ends[] = {"", "/", "/global_step2",
                                       "/global_step2/zero_pp_rank_1_mp_rank_00_optim_states.pt"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (size_t k = 0; k < sizeof ends / sizeof *ends; k++) {
            char checkpoint[128], expected[128];
            snprintf(checkpoint, sizeof checkpoint, "%s/ckpt%s", names[i], ends[k]);
            snprintf(expected, sizeof expected, "%s/expected.safetensors", names[i]);
            modern_check(checkpoint, expected, "");
        }
}

static void compare(const char *checkpoint, const char *part, const char *expected)
{
    pg_store *s = NULL, *e = NULL;
    pg_err err = {0};
    char path[512];
    const pg_open_opts opts = {.part = part};
    snprintf(path, sizeof path, "%s/%s", pg_testdata, checkpoint);
    if (pg_store_open(&s, path, &opts, &err) != PG_OK)
        fail_msg("%s", err.msg);
    snprintf(path, sizeof path, "%s/%s", pg_testdata, expected);
    assert_ok(pg_store_open(&e, path, NULL, NULL));
    for (size_t k = 0; k < pg_store_n_weights(e); k++) {
        const size_t i = modern_find(s, pg_store_weight(e, k)->name);
        if (i == PG_NONE)
            fail_msg("%s: no %s", checkpoint, pg_store_weight(e, k)->name);
        assert_int_equal(pg_store_weight(s, i)->dtype, pg_store_weight(e, k)->dtype);
        modern_equal(s, i, e, k);
    }
    assert_int_equal(pg_store_n_weights(s), pg_store_n_weights(e));
    pg_store_close(s);
    pg_store_close(e);
}

/* A part of a checkpoint of testdata/extra/zero, which has what tests/interop/deepspeed.py found
 * right. */
static void check_part(const char *name, const char *step, const char *part)
{
    char checkpoint[128], expected[128];
    snprintf(checkpoint, sizeof checkpoint, "extra/zero/%s/ckpt/%s", name, step);
    snprintf(expected, sizeof expected, "extra/zero/%s/%s.safetensors", name, part);
    compare(checkpoint, part, expected);
}

/* what the module held, in each process */
static void takes_the_weights_as_trained(void **state)
{
    (void)state;
    compare("modern/zero2-groups/ckpt", "module",
            "modern/zero2-groups/expected_module.safetensors");
    compare("modern/zero3/ckpt", "module", "modern/zero3/expected_module.safetensors");
    compare("modern/zero3-tied/ckpt", "module", "modern/zero3-tied/expected_module.safetensors");
}

/* small: 8 parameters and a tied name, so that the list grows with the tied one; outside: a
 * parameter that the optimizer was not given; frozen and none: frozen ones of stage 1, and without
 * elements; experts on two of four ranks; slices of tensor parallelism; stages of a pipeline; small
 * subgroups on three ranks. */
static void takes_every_part(void **state)
{
    (void)state;
    static const char *const names[] = {"small",
                                        "1-bf16-outside-groups",
                                        "1-bf16-frozen-groups",
                                        "2-fp32-none-frozen",
                                        "experts",
                                        "slices",
                                        "pipe-tied",
                                        "sub"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        check_part(names[i], "", "model");
        check_part(names[i], "", "module");
        check_part(names[i], "", "optimizer");
    }
}

static void reads_universal_checkpoints(void **state)
{
    (void)state;
    check_part("small", "global_step2_universal", "model");
    check_part("small", "global_step2_universal/", "optimizer");
    check_part("small", "global_step2_universal/", "module");
    check_part("sub", "global_step2_universal", "model"); /* of stage 3: flat tensors */
    check_part("sub", "global_step2_universal", "optimizer");
}

static void lists_its_parts(void **state)
{
    (void)state;
    pg_store *s = NULL;
    const pg_open_opts none = {.part = ""}, all = {.part = "."};
    const char *path = modern_path("zero3/ckpt");
    assert_ok(pg_store_open(&s, path, &none, NULL));
    assert_int_equal(pg_store_n_weights(s), 0);
    assert_int_equal(pg_store_n_parts(s), 3);
    pg_store_close(s);
    assert_ok(pg_store_open(&s, path, &all, NULL));
    assert_true(modern_find(s, "g") != PG_NONE && modern_find(s, "g.exp_avg") != PG_NONE);
    pg_store_close(s);
}

PG_TEST_MAIN(cmocka_unit_test(puts_every_checkpoint_together),
             cmocka_unit_test(takes_the_weights_as_trained), cmocka_unit_test(takes_every_part),
             cmocka_unit_test(reads_universal_checkpoints), cmocka_unit_test(lists_its_parts))

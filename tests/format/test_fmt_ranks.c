#include "format/modern.h"

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

PG_TEST_MAIN(cmocka_unit_test(puts_every_checkpoint_together),
             cmocka_unit_test(refuses_flat_parameters))

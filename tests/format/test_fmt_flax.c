#include "format/modern.h"

static void reads_every_tree(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"flax-msgpack/flax_model.msgpack", "flax-msgpack/expected.safetensors"},
        {"flax-msgpack-chunked/flax_model.msgpack", "flax-msgpack-chunked/expected.safetensors"},
        {"flax-msgpack-replicated/flax_model.msgpack",
         "flax-msgpack-replicated/expected.safetensors"},
        {"flax-msgpack-trainstate/checkpoint_2", "flax-msgpack-trainstate/expected.safetensors"},
        {"flax-checkpoints-legacy/ckpt/checkpoint_2",
         "flax-checkpoints-legacy/expected.safetensors"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        modern_check(rows[i][0], rows[i][1], "");
}

/* The expected state has the arrays below "a" alone. */
static void reads_every_type(void **state)
{
    (void)state;
    pg_store *s = NULL, *e = NULL;
    assert_ok(pg_store_open(&s, modern_path("flax-msgpack-dtypes/d.msgpack"),
                            &(pg_open_opts){.part = "a"}, NULL));
    assert_ok(pg_store_open(&e, modern_path("flax-msgpack-dtypes/expected.safetensors"), NULL, NULL));
    assert_int_equal(pg_store_n_weights(s), 11);
    for (size_t k = 0; k < 11; k++) {
        const size_t i = modern_find(s, pg_store_weight(e, k)->name);
        assert_int_not_equal(i, PG_NONE);
        modern_equal(s, i, e, k);
    }
    pg_store_close(s);
    pg_store_close(e);
}

PG_TEST_MAIN(cmocka_unit_test(reads_every_tree), cmocka_unit_test(reads_every_type))

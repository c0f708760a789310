#include "format/modern.h"

#include "pg/store.h"

static void reads_every_tree(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"orbax-zarr-per-array/ckpt", "orbax-zarr-per-array/expected.safetensors"},
        {"orbax-zarr3-per-array/ckpt", "orbax-zarr3-per-array/expected.safetensors"},
        {"orbax-ocdbt/ckpt", "orbax-ocdbt/expected.safetensors"},
        {"orbax-ocdbt-zarr3/ckpt", "orbax-ocdbt-zarr3/expected.safetensors"},
        {"orbax-manager-standard/ckpt", "orbax-manager-standard/expected.safetensors"},
        {"orbax-manager-standard/ckpt/5", "orbax-manager-standard/expected.safetensors"},
        {"orbax-manager-standard/ckpt/5/state", "orbax-manager-standard/expected.safetensors"},
        {"orbax-ocdbt/ckpt/manifest.ocdbt", "orbax-ocdbt/expected.safetensors"},
        {"orbax-ocdbt/ckpt/_METADATA", "orbax-ocdbt/expected.safetensors"},
    };
    pg_store *s = NULL;
    pg_err err = {0};
    if (pg_store_open(&s, modern_path(rows[0][0]), NULL, &err) == PG_OK) {
        unsigned char c;
        if (pg_store_read(s, 0, 0, &c, 1, &err) == PG_E_UNSUPPORTED) /* built without libzstd */
            skip();
    }
    pg_store_close(s);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        modern_check(rows[i][0], rows[i][1], "");
}

PG_TEST_MAIN(cmocka_unit_test(reads_every_tree))

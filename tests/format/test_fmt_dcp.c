#include "format/modern.h"

static void puts_every_checkpoint_together(void **state)
{
    (void)state;
    static const struct {
        const char *checkpoint, *expected, *prefix;
    } rows[] = {
        {"dcp-fsdp2/ckpt", "dcp-fsdp2/expected.safetensors", ""},
        {"dcp-fsdp2-flatroot/ckpt", "dcp-fsdp2-flatroot/expected.safetensors", ""},
        {"dcp-tp-fsdp2/ckpt", "dcp-tp-fsdp2/expected.safetensors", ""},
        {"dcp-hsdp/ckpt", "dcp-hsdp/expected.safetensors", ""},
        {"dcp-ddp/ckpt", "dcp-ddp/expected.safetensors", "module."},
        {"dcp-dtypes/ckpt", "dcp-dtypes/expected.safetensors", ""},
        {"dcp-file-per-item/ckpt", "dcp-file-per-item/expected.safetensors", ""},
        {"dcp-fsdp1-sharded/pytorch_model_fsdp_0", "dcp-fsdp1-sharded/expected.safetensors", ""},
        {"dcp-fsdp2/ckpt/__1_0.distcp", "dcp-fsdp2/expected.safetensors", ""},
        {"dcp-fsdp2/ckpt/.metadata", "dcp-fsdp2/expected.safetensors", ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        modern_check(rows[i].checkpoint, rows[i].expected, rows[i].prefix);
}

PG_TEST_MAIN(cmocka_unit_test(puts_every_checkpoint_together))

#include "format/modern.h"

static void puts_the_files_of_ranks_together(void **state)
{
    (void)state;
    modern_check("dcp-hf-safetensors/ckpt", "dcp-hf-safetensors/expected.safetensors", "");
    modern_check("dcp-hf-safetensors/ckpt/shard-00003-model-00001-of-00001.safetensors",
                 "dcp-hf-safetensors/expected.safetensors", "");
}

PG_TEST_MAIN(cmocka_unit_test(puts_the_files_of_ranks_together))

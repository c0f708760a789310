/* fuzz_index.c - any bytes as an index of shards: Hugging Face's, Keras', and our manifest, in a
 * folder where no shard lies. What they name is looked for and never found. */
#include "fuzz_store.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    fuzz_open(&pg__fmt_st_index, data, n, "/dev/fd/no/model.safetensors.index.json");
    fuzz_open(&pg__fmt_keras_sharded, data, n, "/dev/fd/no/model.weights.json");
    fuzz_open(&pg__fmt_npy_shards, data, n, "/dev/fd/no/manifest.json");
    return 0;
}

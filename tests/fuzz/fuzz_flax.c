/* fuzz_flax.c - any bytes as msgpack of Flax. */
#include "fuzz_store.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    fuzz_open(&pg__fmt_flax, data, n, "w.msgpack");
    return 0;
}

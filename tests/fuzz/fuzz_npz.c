/* fuzz_npz.c - any bytes as an archive of arrays (.npz). */
#include "fuzz_store.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    fuzz_open(&pg__fmt_numpy, data, n, "w.npz");
    return 0;
}

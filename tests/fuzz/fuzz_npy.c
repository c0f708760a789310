/* fuzz_npy.c - any bytes as an .npy. */
#include "fuzz_store.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (n >= 6 && memcmp(data, "\x93NUMPY", 6) == 0)
        fuzz_open(&pg__fmt_numpy, data, n, "w.npy");
    return 0;
}

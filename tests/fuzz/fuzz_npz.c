/* fuzz_npz.c - any bytes as an archive of arrays (.npz). */
#include "fuzz_store.h"
#include "fuzz_zip.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    uint8_t *copy = malloc(n ? n : 1);
    if (!copy)
        return 0;
    memcpy(copy, data, n);
    mend_checksums(copy, n);
    fuzz_open(&pg__fmt_numpy, copy, n, "w.npz");
    free(copy);
    return 0;
}

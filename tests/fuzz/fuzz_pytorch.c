/* fuzz_pytorch.c - any bytes as what torch.save() writes: an archive, or the stream of old. */
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
    fuzz_open(&pg__fmt_pytorch, copy, n, "w.pt");
    free(copy);
    return 0;
}

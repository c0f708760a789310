/* fuzz_pytorch.c - any bytes as what torch.save() writes: an archive, or the stream of old. */
#include "fuzz_store.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    fuzz_open(&pg__fmt_pytorch, data, n, "w.pt");
    return 0;
}

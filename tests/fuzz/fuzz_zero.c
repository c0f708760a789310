/* fuzz_zero.c - two pickles as a checkpoint of ZeRO: of the optimizer and of the module, each in
 * the files of two ranks, with storages as long as it says. The first byte chooses slices and the
 * part, the next two are the length of the first pickle. What is accepted must be readable. */
#include "fuzz_zip.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void write_slice(int slice, const archive *optimizer, const archive *module)
{
    char name[96];
    snprintf(name, sizeof name, "mp_rank_%02d_model_states.pt", slice);
    write_file(name, module);
    for (int rank = 0; rank < 2; rank++) {
        snprintf(name, sizeof name, "zero_pp_rank_%d_mp_rank_%02d_model_states.pt", rank, slice);
        write_file(name, module);
        snprintf(name, sizeof name, "zero_pp_rank_%d_mp_rank_%02d_optim_states.pt", rank, slice);
        write_file(name, optimizer);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static archive optimizer, module;
    static const char *const parts[] = {NULL, "module", "optimizer", "."};
    const size_t first = n > 3 ? (size_t)(data[1] | data[2] << 8) : 0;
    char path[128];
    if (n <= 3 || first > n - 3)
        return 0;
    const char *text = (const char *)data + 3;
    if (!make(&optimizer, text, first) || !make(&module, text + first, n - 3 - first))
        return 0;
    require(mkdir(folder(), 0700) == 0 || errno == EEXIST);
    write_slice(0, &optimizer, &module);
    write_slice(1, data[0] & 1 ? &optimizer : NULL, data[0] & 1 ? &module : NULL);
    snprintf(path, sizeof path, "%s/zero_pp_rank_0_mp_rank_00_optim_states.pt", folder());
    const pg_open_opts opts = {.part = parts[data[0] >> 1 & 3]};
    open_path(path, &opts, data, n);
    write_slice(0, NULL, NULL);
    write_slice(1, NULL, NULL);
    rmdir(folder());
    return 0;
}

/* fuzz_megatron.c - two pickles as a checkpoint of Megatron-LM, each the file of a rank with
 * storages as long as it says. The first byte chooses how the ranks' folders are called (tensor,
 * pipeline or expert ranks), the second the rules, the next two are the length of the first pickle;
 * without a second both ranks have the first. What is accepted must be readable. */
#include "fuzz_zip.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static const char *const ranks[][2] = {{"mp_rank_00", "mp_rank_01"},
                                       {"mp_rank_00_000", "mp_rank_00_001"},
                                       {"mp_rank_00_000_000", "mp_rank_00_000_001"},
                                       {"mp_rank_00", NULL}};

static void write_rank(const char *rank, const archive *a)
{
    char path[160], name[64];
    if (!rank)
        return;
    snprintf(path, sizeof path, "%s/%s", folder(), rank);
    snprintf(name, sizeof name, "%s/model_optim_rng.pt", rank);
    if (a)
        require(mkdir(path, 0700) == 0 || errno == EEXIST);
    write_file(name, a);
    if (!a)
        (void)rmdir(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static archive first, second;
    static const char *const rules[] = {NULL,
                                        "megatron-lm-0,heads=2",
                                        "megatron-lm-1,heads=2",
                                        "megatron-core,vocab=3",
                                        "*=0",
                                        "*=1",
                                        "*=glu",
                                        "*=same"};
    if (n <= 4)
        return 0;
    const size_t n_first = (size_t)(data[2] | data[3] << 8), rest = n - 4;
    const char *text = (const char *)data + 4;
    if (n_first > rest || !make(&first, text, n_first) ||
        (n_first < rest && !make(&second, text + n_first, rest - n_first)))
        return 0;
    const char *const *names = ranks[data[0] & 3];
    require(mkdir(folder(), 0700) == 0 || errno == EEXIST);
    write_rank(names[0], &first);
    write_rank(names[1], n_first < rest ? &second : &first);
    open_path(folder(), &(pg_open_opts){.rules = rules[data[1] & 7]}, data, n);
    write_rank(names[0], NULL);
    write_rank(names[1], NULL);
    rmdir(folder());
    return 0;
}

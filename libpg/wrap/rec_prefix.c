/* rec_prefix.c - PyTorch's wrappers, which show in tensor names only: DataParallel and
 * DistributedDataParallel put "module." before every key, torch.compile "_orig_mod."; they nest
 * either way.
 *
 * A prefix counts only when every tensor has it: a model with a child that is itself called
 * "module" has other keys beside it. Each word is taken once, because "module.module." is more
 * often such a child than a wrapper in a wrapper. */
#include <string.h>

#include "wrap/recogniser.h"

static const char *const words[] = {"module.", "_orig_mod."};

/* Index of the word that every name has at byte `at`, followed by more, or -1. */
static int word_of_all(const pg_store *s, size_t at)
{
    for (int k = 0; k < 2; k++) {
        const size_t n = strlen(words[k]);
        size_t i = 0;
        while (i < pg_store_n_weights(s)) {
            const char *name = pg_store_weight(s, i)->name + at;
            if (strncmp(name, words[k], n) != 0 || name[n] == 0)
                break;
            i++;
        }
        if (i > 0 && i == pg_store_n_weights(s))
            return k;
    }
    return -1;
}

static size_t prefix(const pg_store *s)
{
    const int outer = pg_store_n_layers(s) ? -1 : word_of_all(s, 0);
    if (outer < 0)
        return 0;
    const size_t len = strlen(words[outer]);
    return word_of_all(s, len) == 1 - outer ? len + strlen(words[1 - outer]) : len;
}

const pg__recogniser pg__rec_prefix = {
    .name = "pytorch",
    .doc = "DataParallel, DistributedDataParallel, torch.compile: module. and _orig_mod. prefixes",
    .prefix = prefix,
};

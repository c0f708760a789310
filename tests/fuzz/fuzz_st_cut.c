/* fuzz_st_cut.c - what HuggingFaceStorageWriter leaves: a file of safetensors for each of up to
 * three ranks. The first byte chooses their names and the rule, two bytes before each file are its
 * length. What is accepted must be readable. */
#include "fuzz_zip.h"

#define MOST_RANKS 3

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void file_name(char *out, size_t cap, int rank, int choice)
{
    snprintf(out, cap, "shard-%05d-model-%05d-of-%05d.safetensors", rank + 1 + (choice == 1),
             choice == 2 ? rank + 1 : 1, choice == 2 ? MOST_RANKS : 1);
}

static void write_bytes(const char *name, const uint8_t *bytes, size_t n)
{
    char path[160];
    snprintf(path, sizeof path, "%s/%s", folder(), name);
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    require(fd >= 0 && write(fd, bytes, n) == (ssize_t)n);
    close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const char *const rules[] = {NULL, "ranks=1", "ranks=2", "ranks=3"};
    char name[96];
    size_t at = 1;
    int n_ranks = 0;
    if (n < 4)
        return 0;
    const int choice = data[0] & 3;
    require(mkdir(folder(), 0700) == 0 || errno == EEXIST);
    for (; n_ranks < MOST_RANKS && n - at > 2; n_ranks++) {
        const size_t said = (size_t)(data[at] | data[at + 1] << 8), left = n - at - 2;
        const size_t len = said < left ? said : left;
        file_name(name, sizeof name, n_ranks, choice);
        write_bytes(name, data + at + 2, len);
        at += 2 + len;
    }
    open_path(folder(), &(pg_open_opts){.rules = rules[data[0] >> 2 & 3]}, data, n);
    for (int i = 0; i < n_ranks; i++) {
        file_name(name, sizeof name, i, choice);
        write_file(name, NULL);
    }
    rmdir(folder());
    return 0;
}

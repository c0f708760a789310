/* judge_h5.c - reads names of files from stdin, one a line. What our reader passes goes to libhdf5,
 * which opens and reads everything (fuzz_h5_open.c). Answers "refused" or "passed"; a crash, a hang
 * or an abort() is the last word, and mutants.py sees which file it was. */
#include "../fuzz/fuzz_h5_open.c"

#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#define LIMIT_S 5

static uint8_t *load(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    if (!f || fseek(f, 0, SEEK_END) != 0)
        abort();
    *n = (size_t)ftell(f);
    rewind(f);
    uint8_t *data = malloc(*n ? *n : 1); /* exact, so that sanitizers see a step too far */
    if (!data || fread(data, 1, *n, f) != *n)
        abort();
    fclose(f);
    return data;
}

int main(void)
{
    char path[4096];
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    while (fgets(path, sizeof path, stdin)) {
        size_t n, n_unread;
        path[strcspn(path, "\n")] = 0;
        uint8_t *data = load(path, &n);
        alarm(LIMIT_S);
        const int passed = ours_passes(data, n, &n_unread);
        LLVMFuzzerTestOneInput(data, n);
        alarm(0);
        free(data);
        puts(passed ? "passed" : "refused");
        fflush(stdout);
    }
    return 0;
}

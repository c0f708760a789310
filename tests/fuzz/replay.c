/* replay.c - runs a fuzz target over every file below the given folders, as a normal test: what was
 * found once is never found again. A file may take LIMIT_S seconds and, but for sanitizers, which
 * reserve terabytes, LIMIT_BYTES of memory. */
#include <ftw.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

#define LIMIT_S     (SANITIZED ? 10 : 2)
#define LIMIT_BYTES ((rlim_t)1 << 30)
#define MAX_FILE    (4 << 20)

static const char *current;
static size_t n_files;

static void say(const char *s)
{
    (void)!write(STDERR_FILENO, s, strlen(s));
}

static void too_long(int sig)
{
    (void)sig;
    say("takes too long: ");
    say(current);
    say("\n");
    _exit(1);
}

static void crashed(int sig)
{
    say("crash on ");
    say(current);
    say("\n");
    signal(sig, SIG_DFL);
    raise(sig);
}

static int run(const char *path, const struct stat *sb, int kind, struct FTW *ftw)
{
    (void)ftw;
    if (kind != FTW_F || sb->st_size > MAX_FILE)
        return 0;
    const size_t n = (size_t)sb->st_size;
    uint8_t *data = malloc(n ? n : 1); /* exact, so that sanitizers see a step too far */
    FILE *f = fopen(path, "rb");
    if (!data || !f || fread(data, 1, n, f) != n) {
        perror(path);
        exit(1);
    }
    fclose(f);
    current = path;
    alarm(LIMIT_S);
    LLVMFuzzerTestOneInput(data, n);
    alarm(0);
    free(data);
    n_files++;
    return 0;
}

int main(int argc, char **argv)
{
    signal(SIGALRM, too_long);
    signal(SIGABRT, crashed);
    if (!SANITIZED) {
        signal(SIGSEGV, crashed);
        signal(SIGBUS, crashed);
        setrlimit(RLIMIT_AS, &(struct rlimit){LIMIT_BYTES, LIMIT_BYTES});
    }
    for (int i = 1; i < argc; i++)
        if (nftw(argv[i], run, 16, FTW_PHYS) != 0) {
            perror(argv[i]);
            return 1;
        }
    printf("%zu files\n", n_files);
    return n_files == 0;
}

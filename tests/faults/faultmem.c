/* faultmem.c - an LD_PRELOAD library that lets one chosen call fail: the n-th allocation, or the
 * n-th file call made through libc's PLT.
 *
 *   FM_SPEC   comma list of CALL:N[+]:ERR. CALL = malloc (malloc, calloc, realloc and the memalign
 *             family), mmap, open, read, write, fsync, ftruncate, rename, close; N = 1-based;
 *             + = that call and all later ones; ERR = ENOMEM, ENOSPC, EIO, EINTR, EDQUOT, EMFILE,
 *             EACCES, EROFS, short (half of the bytes) or kill.
 *             Examples: malloc:17:ENOMEM   fsync:1+:EIO,write:3:ENOSPC
 *   FM_FROM   count only calls whose return address lies in an object whose file name contains this
 *   FM_COUNT  file that gets "<call> <number counted>" lines at exit
 *
 * stdio's own writes do not pass through the PLT. Not to be mixed with sanitizer builds. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

/* glibc's headers mark the replaced functions; declaring them here again needs no prototypes. */
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t),
    *__libc_memalign(size_t, size_t);

enum { C_MALLOC, C_MMAP, C_OPEN, C_READ, C_WRITE, C_FSYNC, C_TRUNC, C_RENAME, C_CLOSE, N_CALLS };
enum { ERR_SHORT = -1, ERR_KILL = -2 };

static const char *const call_names[N_CALLS] = {"malloc", "mmap",      "open",   "read", "write",
                                                "fsync",  "ftruncate", "rename", "close"};
static atomic_long counted[N_CALLS];
static long fail_at[N_CALLS];
static int sticky[N_CALLS], fail_with[N_CALLS], ready;
static char from[128], count_file[512];
static __thread int inside; /* our own calls do not count */

static int error_of(const char *name)
{
    static const struct {
        const char *name;
        int value;
    } table[] = {{"ENOMEM", ENOMEM},   {"ENOSPC", ENOSPC}, {"EIO", EIO},       {"EINTR", EINTR},
                 {"EDQUOT", EDQUOT},   {"EMFILE", EMFILE}, {"EACCES", EACCES}, {"EROFS", EROFS},
                 {"short", ERR_SHORT}, {"kill", ERR_KILL}};

    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strcmp(name, table[i].name) == 0)
            return table[i].value;
    return ENOMEM;
}

static void report(void)
{
    FILE *f;

    inside++;
    f = fopen(count_file, "w");
    for (int i = 0; f && i < N_CALLS; i++)
        fprintf(f, "%s %ld\n", call_names[i], (long)counted[i]);
    if (f)
        fclose(f);
    inside--;
}

static void add_spec(const char *item)
{
    const char *err = strrchr(item, ':');
    char call[32];
    char plus = 0;
    long n = 0;

    if (sscanf(item, "%31[^:]:%ld%c", call, &n, &plus) < 2)
        return;
    for (int i = 0; i < N_CALLS; i++) {
        if (strcmp(call, call_names[i]) == 0) {
            fail_at[i] = n;
            sticky[i] = plus == '+';
            fail_with[i] = error_of(err ? err + 1 : "");
        }
    }
}

__attribute__((constructor)) static void init(void)
{
    const char *e;

    inside++;
    if ((e = getenv("FM_FROM")))
        snprintf(from, sizeof from, "%s", e);
    if ((e = getenv("FM_COUNT"))) {
        snprintf(count_file, sizeof count_file, "%s", e);
        atexit(report);
    }
    if ((e = getenv("FM_SPEC"))) {
        char spec[512], *save = NULL;

        snprintf(spec, sizeof spec, "%s", e);
        for (char *p = strtok_r(spec, ",", &save); p; p = strtok_r(NULL, ",", &save))
            add_spec(p);
    }
    inside--;
    ready = 1;
}

/* 0 = go on; > 0 = fail with this errno; ERR_SHORT = do half of it. */
static int hit(int call, const void *return_address)
{
    long n;

    if (!ready || inside)
        return 0;
    if (from[0]) {
        Dl_info info;
        int ours;

        inside++;
        ours = dladdr(return_address, &info) && info.dli_fname && strstr(info.dli_fname, from);
        inside--;
        if (!ours)
            return 0;
    }
    n = ++counted[call];
    if (!fail_at[call] || !(n == fail_at[call] || (sticky[call] && n > fail_at[call])))
        return 0;
    if (fail_with[call] == ERR_KILL) {
        kill(getpid(), SIGKILL);
        pause();
    }
    return fail_with[call];
}

#define CALLER __builtin_return_address(0)

#define FAIL_MALLOC                  \
    do {                             \
        if (hit(C_MALLOC, CALLER)) { \
            errno = ENOMEM;          \
            return NULL;             \
        }                            \
    } while (0)

void *malloc(size_t n)
{
    FAIL_MALLOC;
    return __libc_malloc(n);
}

void *calloc(size_t a, size_t b)
{
    FAIL_MALLOC;
    return __libc_calloc(a, b);
}

void *realloc(void *p, size_t n)
{
    if (n)
        FAIL_MALLOC;
    return __libc_realloc(p, n);
}

void *aligned_alloc(size_t a, size_t n)
{
    FAIL_MALLOC;
    return __libc_memalign(a, n);
}

void *memalign(size_t a, size_t n); /* <malloc.h> */
void *memalign(size_t a, size_t n)
{
    FAIL_MALLOC;
    return __libc_memalign(a, n);
}

int posix_memalign(void **p, size_t a, size_t n)
{
    if (hit(C_MALLOC, CALLER))
        return ENOMEM;
    *p = __libc_memalign(a, n);
    return *p ? 0 : ENOMEM;
}

/* The libc function behind ours, looked up once. POSIX lets a function pointer pass through void *;
 * ISO C does not, hence the copy. */
#define REAL(type, name, params)          \
    static type(*real) params;            \
    if (!real) {                          \
        void *sym;                        \
        inside++;                         \
        sym = dlsym(RTLD_NEXT, name);     \
        inside--;                         \
        memcpy(&real, &sym, sizeof real); \
    }

#define FAIL(call, value)                    \
    do {                                     \
        const int fault = hit(call, CALLER); \
        if (fault > 0) {                     \
            errno = fault;                   \
            return value;                    \
        }                                    \
    } while (0)

#define FAIL_OR_HALVE(call, n)               \
    do {                                     \
        const int fault = hit(call, CALLER); \
        if (fault > 0) {                     \
            errno = fault;                   \
            return -1;                       \
        }                                    \
        if (fault == ERR_SHORT && (n) > 1)   \
            (n) /= 2;                        \
    } while (0)

void *mmap(void *addr, size_t n, int prot, int flags, int fd, off_t off)
{
    REAL(void *, "mmap", (void *, size_t, int, int, int, off_t))
    FAIL(C_MMAP, MAP_FAILED);
    return real(addr, n, prot, flags, fd, off);
}

ssize_t write(int fd, const void *buf, size_t n)
{
    REAL(ssize_t, "write", (int, const void *, size_t))
    FAIL_OR_HALVE(C_WRITE, n);
    return real(fd, buf, n);
}

ssize_t pwrite(int fd, const void *buf, size_t n, off_t off)
{
    REAL(ssize_t, "pwrite", (int, const void *, size_t, off_t))
    FAIL_OR_HALVE(C_WRITE, n);
    return real(fd, buf, n, off);
}

ssize_t pwrite64(int fd, const void *buf, size_t n, off64_t off)
{
    REAL(ssize_t, "pwrite64", (int, const void *, size_t, off64_t))
    FAIL_OR_HALVE(C_WRITE, n);
    return real(fd, buf, n, off);
}

ssize_t read(int fd, void *buf, size_t n)
{
    REAL(ssize_t, "read", (int, void *, size_t))
    FAIL_OR_HALVE(C_READ, n);
    return real(fd, buf, n);
}

ssize_t pread(int fd, void *buf, size_t n, off_t off)
{
    REAL(ssize_t, "pread", (int, void *, size_t, off_t))
    FAIL_OR_HALVE(C_READ, n);
    return real(fd, buf, n, off);
}

ssize_t pread64(int fd, void *buf, size_t n, off64_t off)
{
    REAL(ssize_t, "pread64", (int, void *, size_t, off64_t))
    FAIL_OR_HALVE(C_READ, n);
    return real(fd, buf, n, off);
}

int fsync(int fd)
{
    REAL(int, "fsync", (int))
    FAIL(C_FSYNC, -1);
    return real(fd);
}

int fdatasync(int fd)
{
    REAL(int, "fdatasync", (int))
    FAIL(C_FSYNC, -1);
    return real(fd);
}

int ftruncate(int fd, off_t n)
{
    REAL(int, "ftruncate", (int, off_t))
    FAIL(C_TRUNC, -1);
    return real(fd, n);
}

int ftruncate64(int fd, off64_t n)
{
    REAL(int, "ftruncate64", (int, off64_t))
    FAIL(C_TRUNC, -1);
    return real(fd, n);
}

int rename(const char *old, const char *new)
{
    REAL(int, "rename", (const char *, const char *))
    FAIL(C_RENAME, -1);
    return real(old, new);
}

int close(int fd)
{
    int fault;

    REAL(int, "close", (int))
    fault = hit(C_CLOSE, CALLER);
    if (fault <= 0)
        return real(fd);
    real(fd);
    errno = fault;
    return -1;
}

#define OPEN_MODE(mode)                  \
    if (flags & (O_CREAT | O_TMPFILE)) { \
        va_list ap;                      \
        va_start(ap, flags);             \
        (mode) = va_arg(ap, mode_t);     \
        va_end(ap);                      \
    }

int open(const char *path, int flags, ...)
{
    mode_t mode = 0;

    REAL(int, "open", (const char *, int, ...))
    OPEN_MODE(mode)
    FAIL(C_OPEN, -1);
    return real(path, flags, mode);
}

int open64(const char *path, int flags, ...)
{
    mode_t mode = 0;

    REAL(int, "open64", (const char *, int, ...))
    OPEN_MODE(mode)
    FAIL(C_OPEN, -1);
    return real(path, flags, mode);
}

int openat(int dir, const char *path, int flags, ...)
{
    mode_t mode = 0;

    REAL(int, "openat", (int, const char *, int, ...))
    OPEN_MODE(mode)
    FAIL(C_OPEN, -1);
    return real(dir, path, flags, mode);
}

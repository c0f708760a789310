/* faultmem.c - an LD_PRELOAD library that lets one chosen call fail: the n-th allocation, or the
 * n-th file call made through libc's PLT.
 *
 *   FM_SPEC   comma list of CALL:N[+]:ERR. CALL = malloc (malloc, calloc, realloc and the memalign
 *             family), mmap, open, read, write, fsync, ftruncate, rename, close; N = 1-based;
 *             + = that call and all later ones; ERR = ENOMEM, ENOSPC, EIO, EINTR, EDQUOT, EMFILE,
 *             EACCES, EROFS, short (half of the bytes) or kill.
 *             Examples: malloc:17:ENOMEM   fsync:1+:EIO,write:3:ENOSPC
 *   FM_FROM   count only calls whose return address lies in an object whose file name contains this
 *   FM_COUNT  file that gets "<call> <number counted>" lines at exit, and "live <number>": of the
 *             counted allocations those that nobody has freed
 *
 * stdio's own writes do not pass through the PLT. Not to be mixed with sanitizer builds. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

/* glibc's headers mark the replaced functions; declaring them here again needs no prototypes. */
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t),
    *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

enum { C_MALLOC, C_MMAP, C_OPEN, C_READ, C_WRITE, C_FSYNC, C_TRUNC, C_RENAME, C_CLOSE, N_CALLS };
enum { ERR_SHORT = -1, ERR_KILL = -2 };

static const char *const call_names[N_CALLS] = {"malloc", "mmap",      "open",   "read", "write",
                                                "fsync",  "ftruncate", "rename", "close"};
static atomic_long counted[N_CALLS];
static long fail_at[N_CALLS];
static int sticky[N_CALLS], fail_with[N_CALLS], ready;
static char from[128], count_file[512];
static __thread int inside; /* our own calls do not count */

/* ---- what is allocated: a hash table of pointers, used under a lock ----------------------------
 */

#define SLOTS ((size_t)1 << 20)
#define GONE  ((void *)1) /* a slot that was used: the search goes on behind it */

static void *live[SLOTS];
static long n_live;
static atomic_flag live_lock = ATOMIC_FLAG_INIT;

static size_t slot_of(const void *p)
{
    return (size_t)((uintptr_t)p / 16 * UINT64_C(0x9E3779B97F4A7C15) >> 40) % SLOTS;
}

static void *born(void *p)
{
    size_t k = slot_of(p);

    if (!p || !count_file[0])
        return p;
    while (atomic_flag_test_and_set(&live_lock))
        ;
    while (live[k] && live[k] != GONE)
        k = (k + 1) % SLOTS;
    live[k] = p;
    n_live++;
    atomic_flag_clear(&live_lock);
    return p;
}

/* 1 if it was counted. */
static int dead(const void *p)
{
    size_t k = slot_of(p);
    int found;

    if (!p || !count_file[0])
        return 0;
    while (atomic_flag_test_and_set(&live_lock))
        ;
    while (live[k] && live[k] != p)
        k = (k + 1) % SLOTS;
    found = live[k] != NULL;
    if (found) {
        live[k] = GONE;
        n_live--;
    }
    atomic_flag_clear(&live_lock);
    return found;
}

/* ---- what is counted and what fails ------------------------------------------------------------
 */

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
        fprintf(f, "live %ld\n", n_live);
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

/* Whether a call from there counts. */
static int is_ours(const void *return_address)
{
    Dl_info info;
    int ours = 1;

    if (!ready || inside)
        return 0;
    if (from[0]) {
        inside++;
        ours = dladdr(return_address, &info) && info.dli_fname && strstr(info.dli_fname, from);
        inside--;
    }
    return ours;
}

/* 0 = go on; > 0 = fail with this errno; ERR_SHORT = do half of it. */
static int hit_ours(int call)
{
    const long n = ++counted[call];

    if (!fail_at[call] || !(n == fail_at[call] || (sticky[call] && n > fail_at[call])))
        return 0;
    if (fail_with[call] == ERR_KILL) {
        kill(getpid(), SIGKILL);
        pause();
    }
    return fail_with[call];
}

static int hit(int call, const void *return_address)
{
    return is_ours(return_address) ? hit_ours(call) : 0;
}

#define CALLER __builtin_return_address(0)

#define ALLOCATE(expression)                           \
    do {                                               \
        const int ours = is_ours(CALLER);              \
        if (ours && hit_ours(C_MALLOC)) {              \
            errno = ENOMEM;                            \
            return NULL;                               \
        }                                              \
        return ours ? born(expression) : (expression); \
    } while (0)

void *malloc(size_t n)
{
    ALLOCATE(__libc_malloc(n));
}

void *calloc(size_t a, size_t b)
{
    ALLOCATE(__libc_calloc(a, b));
}

void *realloc(void *p, size_t n)
{
    const int ours = is_ours(CALLER);
    int counted_before;
    void *q;

    if (n && ours && hit_ours(C_MALLOC)) {
        errno = ENOMEM;
        return NULL;
    }
    counted_before = dead(p);
    q = __libc_realloc(p, n);
    if (counted_before && !q && n)
        (void)born(p);
    else if (counted_before || (!p && ours))
        (void)born(q);
    return q;
}

void free(void *p)
{
    (void)dead(p);
    __libc_free(p);
}

void *aligned_alloc(size_t a, size_t n)
{
    ALLOCATE(__libc_memalign(a, n));
}

void *memalign(size_t a, size_t n); /* <malloc.h> */
void *memalign(size_t a, size_t n)
{
    ALLOCATE(__libc_memalign(a, n));
}

int posix_memalign(void **p, size_t a, size_t n)
{
    const int ours = is_ours(CALLER);

    if (ours && hit_ours(C_MALLOC))
        return ENOMEM;
    *p = __libc_memalign(a, n);
    if (ours)
        (void)born(*p);
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

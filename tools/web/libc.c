/* libc.c - what Emscripten's C library lacks where its own JavaScript is not there: system.js has
 * the system, and these few functions lead to it. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include <wasm_simd128.h>

#include "base/sort.h"

int fcntl(int fd, int what, ...)
{
    if (what == F_DUPFD_CLOEXEC || what == F_DUPFD)
        return dup(fd);
    if (what == F_SETFD || what == F_GETFD)
        return 0;
    if (what == F_GETFL)
        return O_RDWR;
    errno = EINVAL;
    return -1;
}

long __syscall_openat(long folder, long path, long flags, ...);
long __syscall_open(long path, long flags, ...);
long __syscall_open(long path, long flags, ...)
{
    return __syscall_openat(AT_FDCWD, path, flags, 0666);
}

/* Nothing signals here, and memory has no pages to advise on. */
int sigaltstack(const stack_t *restrict new, stack_t *restrict old)
{
    (void)new, (void)old;
    return 0;
}

int madvise(void *p, size_t n, int advice)
{
    (void)p, (void)n, (void)advice;
    return 0;
}

typedef int comparison(const void *a, const void *b);

static int compare(const void *a, const void *b, void *context)
{
    return (*(comparison **)context)(a, b);
}

/* Equal items stay in their order, as on the systems that the tools are for. */
void qsort(void *v, size_t n, size_t size, comparison *by)
{
    pg__sort(v, n, size, compare, &by);
}

/* The proof compares all that was written; Emscripten's goes a byte at a time. */
int memcmp(const void *a, const void *b, size_t n)
{
    const unsigned char *p = a, *q = b;
    for (; n >= 16 && !wasm_v128_any_true(wasm_v128_xor(wasm_v128_load(p), wasm_v128_load(q)));
         n -= 16, p += 16)
        q += 16;
    for (; n && *p == *q; n--, p++)
        q++;
    return n ? *p - *q : 0;
}

/* What -fstack-protector asks of a C library. */
extern uintptr_t __stack_chk_guard;
extern _Noreturn void __stack_chk_fail(void);
uintptr_t __stack_chk_guard = 0x5bd1e995;

__attribute__((constructor, no_stack_protector)) static void set_guard(void)
{
    (void)getentropy(&__stack_chk_guard, sizeof __stack_chk_guard);
}

_Noreturn void __stack_chk_fail(void)
{
    __builtin_trap();
}

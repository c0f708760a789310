/* mem.c - the only place in libpg that calls malloc and its relatives; products of sizes are
 * checked. */
#include "base/mem.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

void *pg__mem_array(size_t n, size_t size)
{
    return n == 0 || size == 0 ? calloc(1, 1) : calloc(n, size);
}

/* Where the system has huge pages, whole pages of a large piece become such: the processor caches
 * the addresses of only few pages. If the system refuses, nothing is lost but time. */
static void ask_for_huge_pages(void *p, size_t n)
{
#ifdef MADV_HUGEPAGE
    const size_t least = (size_t)4 << 20, page = 65536; /* a multiple of every system's */
    const size_t gap = (page - (uintptr_t)p % page) % page;
    if (n >= least)
        (void)madvise((char *)p + gap, (n - gap) / page * page, MADV_HUGEPAGE);
#else
    (void)p, (void)n;
#endif
}

void *pg__mem_aligned(size_t n)
{
    const size_t line = 64;
    if (n > SIZE_MAX - line)
        return NULL;
    const size_t whole = n == 0 ? line : (n + line - 1) / line * line;
    void *p = aligned_alloc(line, whole);
    if (!p)
        return NULL;
    ask_for_huge_pages(p, whole);
    memset(p, 0, whole);
    return p;
}

void *pg__mem_bare(size_t n)
{
    const size_t page = 4096, whole = n > SIZE_MAX - page ? 0 : (n / page + 1) * page;
    void *p = whole ? aligned_alloc(page, whole) : NULL;
#ifdef MADV_NOHUGEPAGE /* else each touch would take the 2 MiB around it */
    if (p)
        (void)madvise(p, whole, MADV_NOHUGEPAGE);
#endif
    return p;
}

char *pg__mem_strndup(const char *s, size_t len)
{
    char *p = len < SIZE_MAX ? pg__mem_array(len + 1, 1) : NULL;
    if (p)
        memcpy(p, s, len);
    return p;
}

char *pg__mem_strdup(const char *s)
{
    return s ? pg__mem_strndup(s, strlen(s)) : NULL;
}

int pg__mem_grow(void *items, size_t *cap, size_t n, size_t size)
{
    void **p = items;
    size_t want = *cap ? *cap : 8;
    if (n <= *cap)
        return 0;
    while (want < n && want <= SIZE_MAX / 2)
        want *= 2;
    if (want < n || want > SIZE_MAX / size)
        return -1;
    void *grown = realloc(*p, want * size);
    if (!grown)
        return -1;
    *p = grown;
    *cap = want;
    return 0;
}

void pg__mem_free(void *p)
{
    free(p);
}

pg_status pg__nomem(pg_err *err)
{
    return pg_fail(err, PG_E_NOMEM, "out of memory");
}

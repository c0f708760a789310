/* guarded.h - memory that shows whether kernels read or write what they may not. */
#ifndef PG_TESTS_GUARDED_H
#define PG_TESTS_GUARDED_H

#include "pg_test.h"

#include "base/mem.h"

/* Full of what nobody may use, and ends with what nobody may write to. */
static inline void *guarded(size_t n_bytes)
{
    unsigned char *p = pg__mem_aligned(n_bytes + 64);
    memset(p, 0xFF, n_bytes + 64);
    return p;
}

static inline void drop(void *p, size_t n_bytes)
{
    for (size_t i = 0; i < 64; i++)
        assert_int_equal(((const unsigned char *)p)[n_bytes + i], 0xFF);
    pg__mem_free(p);
}

#endif

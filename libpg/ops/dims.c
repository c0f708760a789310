/* dims.c - shapes. */
#include <stdio.h>
#include <string.h>

#include "ops/op.h"

pg__dims pg__dims_of(uint32_t rank, const uint64_t *d)
{
    pg__dims s = {.rank = rank};
    for (uint32_t i = 0; i < rank; i++)
        s.d[i] = d[i];
    return s;
}

int pg__dims_equal(const pg__dims *a, const pg__dims *b)
{
    return a->rank == b->rank && memcmp(a->d, b->d, a->rank * sizeof *a->d) == 0;
}

uint64_t pg__dim_mul(uint64_t a, uint64_t b)
{
    uint64_t product;
    if (a == PG_DIM_ANY || b == PG_DIM_ANY || __builtin_mul_overflow(a, b, &product))
        return PG_DIM_ANY;
    return product;
}

uint64_t pg__dim_add(uint64_t a, uint64_t b)
{
    uint64_t sum;
    if (a == PG_DIM_ANY || b == PG_DIM_ANY || __builtin_add_overflow(a, b, &sum))
        return PG_DIM_ANY;
    return sum;
}

int pg__dim_fits(uint64_t a, uint64_t b)
{
    return a == b || a == PG_DIM_ANY || b == PG_DIM_ANY;
}

int pg__dims_fit(const pg__dims *a, const pg__dims *b)
{
    int fits = a->rank == b->rank;
    for (uint32_t i = 0; fits && i < a->rank; i++)
        fits = pg__dim_fits(a->d[i], b->d[i]);
    return fits;
}

uint64_t pg__dims_elems(const pg__dims *s)
{
    uint64_t n = 1;
    for (uint32_t i = 0; i < s->rank; i++)
        n = pg__dim_mul(n, s->d[i]);
    return n;
}

pg__dims_text pg__dims_show(const pg__dims *s)
{
    pg__dims_text t;
    size_t n = (size_t)snprintf(t.s, sizeof t.s, "(");
    for (uint32_t i = 0; i < s->rank && n < sizeof t.s; i++) {
        const char *sep = i > 0 ? ", " : "";
        if (s->d[i] == PG_DIM_ANY)
            n += (size_t)snprintf(t.s + n, sizeof t.s - n, "%sNone", sep);
        else
            n += (size_t)snprintf(t.s + n, sizeof t.s - n, "%s%llu", sep,
                                  (unsigned long long)s->d[i]);
    }
    if (n < sizeof t.s)
        (void)snprintf(t.s + n, sizeof t.s - n, s->rank == 1 ? ",)" : ")");
    return t;
}

/* keep.h - how a target says that an input is a whole file: mutators (mutate.c) start from such
 * ones half of the time, or nearly all that they make would be refused at the door. */
#ifndef PG_FUZZ_KEEP_H
#define PG_FUZZ_KEEP_H

#include <stddef.h>
#include <stdint.h>

void mutate_keep(const uint8_t *data, size_t n) __attribute__((weak)); /* NULL without a mutator */

static inline void keep(const uint8_t *data, size_t n)
{
    if (mutate_keep)
        mutate_keep(data, n);
}

#endif

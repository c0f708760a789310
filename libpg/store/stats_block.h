/* stats_block.h - statistics of blocks of float32 or double, in sixteen lanes on any processor: all
 * implementations give the same numbers to the last bit. */
#ifndef PG_STORE_STATS_BLOCK_H
#define PG_STORE_STATS_BLOCK_H

#include <stddef.h>
#include <stdint.h>

enum { PG_STATS_LANES = 16, PG_STATS_BLOCK = 1024 /* elements processed together, at most */ };

typedef enum pg__width { PG_WIDTH_PLAIN, PG_WIDTH_AVX2, PG_WIDTH_AVX512 } pg__width;

/* The widest implementation that this processor supports. */
pg__width pg__widest(void);

/* Statistics of one block of finite values. */
typedef struct pg__part {
    double min, max, mean, m2; /* m2: sum of squared distances from the mean */
    uint64_t zeros;
} pg__part;

/* n elements at p, float32 (single) or double; n is a positive multiple of 16. A NaN or an infinity
 * makes the mean a NaN or an infinity. */
void pg__look(pg__part *out, const unsigned char *p, size_t n, int single, pg__width width);

/* Adds to above[k] how many of n elements (a multiple of 16 below 2^31) are not below edges[k], for
 * k from 1 to n_bins - 1. Edges are ascending; a NaN is below all of them. */
void pg__rank(uint64_t *above, const double *edges, size_t n_bins, const unsigned char *p, size_t n,
              int single, pg__width width);

#endif

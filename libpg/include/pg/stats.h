/* stats.h - what the values of a tensor look like, in one pass and bounded memory. */
#ifndef PG_STATS_H
#define PG_STATS_H

#include "pg/progress.h"
#include "pg/store.h"

#ifdef __cplusplus
extern "C" {
#endif

#define PG_STATS_BINS 8

typedef struct pg_stats {
    double min, max, mean, std; /* over the finite elements; NaN if there are none */
    uint64_t n, n_zero, n_nan, n_inf;
    uint64_t bins[PG_STATS_BINS]; /* equal widths from min to max; everything in the first if those
                                     are equal */
    uint32_t crc32;               /* zlib's CRC-32 of the little-endian, C-order bytes */
} pg_stats;

typedef struct pg_stats_opts {
    pg_progress *progress;      /* NULL: nothing is reported */
    const volatile int *cancel; /* not 0: stops with PG_E_CANCELLED; NULL: never */
} pg_stats_opts;

/* Reads weight i (twice if it has more than 256 KiB: the histogram needs min and max) and fills
 * *out. Errors: those of pg_store_read(). */
PG_API PG_MUST_USE pg_status pg_store_stats(pg_stats *out, pg_store *s, size_t i, pg_err *err);

/* The same, with any number of bins: bins[0 .. n_bins) count the finite elements, bounds as
 * numpy.histogram() sets them between out->min and out->max; out->bins stay 0.
 * Errors: also PG_E_ARG if n_bins is 0, PG_E_NOMEM. */
PG_API PG_MUST_USE pg_status pg_store_histogram(pg_stats *out, uint64_t *bins, size_t n_bins,
                                                pg_store *s, size_t i, pg_err *err);

/* The same for the n weights which[0 .. n), in one call that reports progress: fills out[k] for
 * which[k]. bins NULL: as pg_store_stats(); else as pg_store_histogram(), bins[k * n_bins .. (k +
 * 1) * n_bins) for which[k]. opts may be NULL. After an error some of out[] are filled. Errors:
 * also PG_E_CANCELLED. */
PG_API PG_MUST_USE pg_status pg_store_stats_of(pg_stats *out, uint64_t *bins, size_t n_bins,
                                               pg_store *s, const size_t *which, size_t n,
                                               const pg_stats_opts *opts, pg_err *err);

#ifdef __cplusplus
}
#endif

#endif

/* compare.h - are two checkpoints the same model, and if not, what changed? Works across formats
 * and through a wrapper: layers are compared as the template has them.
 *
 *     pg_err err;
 *     pg_comparison c = {0};
 *     if (pg_compare_files(&c, "a.h5", "b.keras", NULL, &err) == PG_OK)
 *         printf("%zu of %zu tensors equal\n", c.n_equal, c.n_rows);
 *     pg_comparison_fini(&c);
 */
#ifndef PG_COMPARE_H
#define PG_COMPARE_H

#include "pg/inspect.h"
#include "pg/progress.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pg_compare_opts {
    double abs, rel;    /* elements this close are equal: |a-b| <= abs, or |a-b| <= rel*|a| */
    int by_order;       /* pair tensors by position, not by name */
    const char *ignore; /* glob of tensors to leave out; NULL = none */
    int quick;          /* stop at the first difference: rows may be incomplete */
    /* As pg_open_opts.part: of A, and also of B if part_b is NULL. With part alone, one of the two
     * files may have a format without parts. */
    const char *part, *part_b;
    const char *rules; /* as pg_open_opts.rules, of both */
    const volatile int *cancel; /* stop with PG_E_CANCELLED once *cancel is not 0; may be NULL */
    pg_progress *progress;      /* gets the bytes of A that have been compared; may be NULL */
} pg_compare_opts;

typedef enum pg_row_kind {
    PG_ROW_EQUAL, /* also across types: 1.0 as float32 and as float16 */
    PG_ROW_DIFFERS,
    PG_ROW_SHAPE,
    PG_ROW_DTYPE, /* not numbers of the same kind: floating point, whole, bool */
    PG_ROW_ONLY_A,
    PG_ROW_ONLY_B
} pg_row_kind;

typedef struct pg_compare_row {
    pg_row_kind kind;
    char *name;     /* "conv1/kernel", owned */
    pg_weight a, b; /* shape and type of each side, .layer unset; .name as stored, owned by the row;
                       NULL where absent */
    uint64_t n, n_changed, n_nan; /* elements; those beyond the tolerance; NaN on either side */
    /* Over finite elements: largest |a-b|; root mean square of a-b; |a-b| / |a| and the cosine in
     * L2 norms. NaN where undefined (rel_l2: a is all zero). Bytes that are equal: 0, 0, 0 and 1.
     */
    double max_abs, rms, rel_l2, cosine;
} pg_compare_row;

typedef struct pg_comparison {
    pg_compare_row *rows; /* in the order of A, then what only B has */
    size_t n_rows, n_equal, n_differ, n_only_a, n_only_b;
    uint64_t n_params;
    int through_wrapper; /* one of the files was a wrapper's */
} pg_comparison;

/* Releases what a comparison owns and zeroes it. NULL and {0} are allowed. */
PG_API void pg_comparison_fini(pg_comparison *c);

/* Compares the models' weights (not optimizer state or descriptions); fills *out, which the caller
 * zeroed or released. PG_OK whether equal or not: equal models have n_equal == n_rows. NaN equals
 * NaN of the same bits. Memory does not grow with the tensors. opts may be NULL. Errors:
 * PG_E_MISMATCH (no tensor name in common; a hint says whether by_order would help; or names that
 * mean different layers, where a description in one of the files would decide), PG_E_FORMAT (a
 * file is damaged, or holds no tensor), PG_E_ARG (tolerance below 0), PG_E_CANCELLED, and those of
 * pg_store_open() and pg_store_read(). */
PG_API PG_MUST_USE pg_status pg_compare_files(pg_comparison *out, const char *a, const char *b,
                                              const pg_compare_opts *opts, pg_err *err);

/* One layer of a comparison: adjacent rows. n_equal == n_rows: none of its tensors changed, as in a
 * layer that was frozen. */
typedef struct pg_compare_layer {
    const char *name; /* borrowed from a row: its first n_name bytes, "conv1" of "conv1/kernel" */
    size_t n_name, n_rows, n_equal;
} pg_compare_layer;

/* The layer of row `row` and of the rows behind it; returns the first row of the next one:
 * for (size_t i = 0; i < c->n_rows;) i = pg_comparison_layer(&l, c, i); */
PG_API size_t pg_comparison_layer(pg_compare_layer *out, const pg_comparison *c, size_t row);

#ifdef __cplusplus
}
#endif

#endif

/* convert.h - the same weights in another container: legacy .h5, .weights.h5, .keras, safetensors.
 *
 *     pg_err err;
 *     pg_convert_report rep = {0};
 *     if (pg_convert_file("model.h5", "model.safetensors", NULL, &rep, &err) != PG_OK)
 *         fprintf(stderr, "%s\n", err.msg);
 *     pg_convert_report_fini(&rep);
 */
#ifndef PG_CONVERT_H
#define PG_CONVERT_H

#include "pg/unwrap.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum pg_layout { PG_LAYOUT_KERAS, PG_LAYOUT_PYTORCH } pg_layout;

typedef struct pg_convert_opts {
    pg_write_opts write;
    const char *to; /* "h5", "weights.h5", "keras", "safetensors"; NULL = by suffix of the output;
                       "npy", "npz": a folder, as pg_split_file() writes it */
    const char *model;      /* description, if `in` has none and the target needs one */
    const char *model_text; /* the text of one: `model` then only names it ("-": standard input) */
    int unwrap;             /* convert the template of a wrapper's file */
    pg_layout layout;       /* PG_LAYOUT_PYTORCH: kernels transposed, names mapped */
    const char *rename;     /* JSON file {"old": "new"} applied to tensor names; NULL = none */
    const char *dtype; /* "float32", "float16", "bfloat16": of all floating-point weights; NULL =
                          unchanged */
    int keras;         /* 2 or 3: the Keras whose dialect the config gets; 0 = the input's */
    int keep_keras1;   /* pg_convert_open(): of Keras 1, turn only kernels of convolutions: each
                          gate keeps its tensors, and layers that no longer exist are accepted */
} pg_convert_opts;

typedef struct pg_convert_report {
    const char *format;          /* static: of the output, see pg_store_format() */
    size_t n_tensors, n_state;   /* tensors of the model; tensors of the optimizer that were kept,
                                    not among n_tensors */
    size_t n_written;            /* both together: all tensors of the output */
    size_t n_verified;           /* of n_written, read back and equal to the repeated conversion */
    uint64_t n_params, n_bytes;  /* elements and bytes of the model tensors written */
    uint64_t file_bytes;         /* size of the output; dry_run: 0 */
    size_t n_changed;            /* tensors whose bytes differ from the input's */
    size_t n_hwio, n_transposed; /* PyTorch: kernels of convolutions; other kernels */
    size_t n_class_paths;        /* config: module paths rewritten for another Keras */
    double max_rel_error;        /* of rounding, with dtype; dry_run: 0 */
    uint64_t n_overflow;         /* elements that became infinite */
    uint64_t n_underflow;        /* elements that became zero */
    char **notes;                /* what was dropped or assumed, one line each */
    size_t n_notes;
} pg_convert_report;

/* Releases what a report owns and zeroes it. NULL and {0} are allowed. */
PG_API void pg_convert_report_fini(pg_convert_report *r);

/* What PG_LAYOUT_PYTORCH covers: a layer in no row is refused by name. All strings are static;
 * blanks separate the words of keras and pytorch. */
typedef struct pg_layout_row {
    const char *keras, *pytorch; /* classes; modules of torch.nn */
    const char *tensors;         /* what happens to its tensors */
} pg_layout_row;
PG_API const pg_layout_row *pg_layout_rows(size_t *n);

/* The metadata of a safetensors output says where it comes from: "pg.source" (the base name of
 * `in`), "pg.crc32" (of that file; absent if a store does not come from a file), "pg.tool"; man
 * pg-formats.
 *
 * Reads `in`, writes the same weights to `out`, which appears whole or not at all and is compared
 * with a second run of the conversion. opts and report may be NULL; *report must be zeroed.
 * Errors: PG_E_MISMATCH (the target needs a model description, or the one given does not fit),
 * PG_E_UNSUPPORTED (the message lists what the target cannot hold), PG_E_CANCELLED, and those of
 * pg_store_open(). */
PG_API PG_MUST_USE pg_status pg_convert_file(const char *in, const char *out,
                                             const pg_convert_opts *opts, pg_convert_report *report,
                                             pg_err *err);

/* The same for an open checkpoint, which the caller still owns. Shards (npy, npz) are not
 * written. */
PG_API PG_MUST_USE pg_status pg_convert_store(pg_store *in, const char *out,
                                              const pg_convert_opts *opts,
                                              pg_convert_report *report, pg_err *err);

/* Opens any checkpoint as a legacy .h5 would hold it: layers by name, trainable weights first,
 * kernels of Keras 1 as later releases keep them. Nothing is written, and tensors are read on
 * demand. Of opts only model (or model_text), unwrap and keep_keras1 matter.
 * Without a description, either `in`'s own or a given one, other layouts stay as they are; with
 * unwrap, a wrapper's file looks like its template's. Errors: those of pg_store_open() and
 * pg_convert_file(). */
PG_API PG_MUST_USE pg_status pg_convert_open(pg_store **out, const char *in,
                                             const pg_convert_opts *opts, pg_convert_report *report,
                                             pg_err *err);

#ifdef __cplusplus
}
#endif

#endif

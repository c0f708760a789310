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
    const char *model;      /* description, where `in` has none and the target needs one */
    const char *model_text; /* the text of one: `model` then only names it ("-": standard input) */
    int unwrap;             /* convert the template of a wrapper's file */
    pg_layout layout;       /* PG_LAYOUT_PYTORCH: kernels transposed, names mapped */
    const char *rename;     /* JSON file {"old": "new"} applied to tensor names; NULL = none */
    const char *dtype; /* "float32", "float16", "bfloat16": of all floating-point weights; NULL = as
                          they are */
    int keras;         /* 2 or 3: whose dialect of the config; 0 = the input's */
    int keep_keras1;   /* pg_convert_open(): of Keras 1, only kernels of convolutions are turned:
                          each gate keeps its tensors, and layers that are gone are let through */
} pg_convert_opts;

typedef struct pg_convert_report {
    const char *format;         /* static: of the output, see pg_store_format() */
    size_t n_tensors, n_state;  /* model tensors; optimizer tensors kept, not among n_tensors */
    size_t n_written;           /* both together: all tensors of the output */
    size_t n_verified;          /* of n_written, read back and equal to the conversion done again */
    uint64_t n_params, n_bytes; /* elements and bytes of the model tensors written */
    uint64_t file_bytes;        /* size of the output; dry_run: 0 */
    size_t n_changed;           /* tensors whose bytes are not the input's */
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

/* What PG_LAYOUT_PYTORCH covers: a layer that is in no row is refused by name. All strings are
 * static; words of keras and pytorch are separated by blanks. */
typedef struct pg_layout_row {
    const char *keras, *pytorch; /* classes; modules of torch.nn */
    const char *tensors;         /* what becomes of its tensors */
} pg_layout_row;
PG_API const pg_layout_row *pg_layout_rows(size_t *n);

/* The metadata of safetensors say where they come from: "pg.source" (the base name of `in`),
 * "pg.crc32" (of that file; absent where a store comes from no file), "pg.tool"; man pg-formats.
 *
 * Reads `in`, writes the same weights to `out`, which appears whole or not at all and is compared
 * with the conversion done once more. opts and report may be NULL; *report must be zeroed.
 * Errors: PG_E_MISMATCH (the target needs a model description, or the one given does not fit),
 * PG_E_UNSUPPORTED (the message lists what the target cannot hold), PG_E_CANCELLED, and those of
 * pg_store_open(). */
PG_API PG_MUST_USE pg_status pg_convert_file(const char *in, const char *out,
                                             const pg_convert_opts *opts, pg_convert_report *report,
                                             pg_err *err);

/* The same for an open checkpoint, which stays the caller's. Shards (npy, npz) are not written. */
PG_API PG_MUST_USE pg_status pg_convert_store(pg_store *in, const char *out,
                                              const pg_convert_opts *opts,
                                              pg_convert_report *report, pg_err *err);

/* Opens any checkpoint as a legacy .h5 would hold it: layers by name, trainable weights first,
 * kernels of Keras 1 as later releases keep them. Nothing is written, tensors are read when asked
 * for. Of opts only model (or model_text), unwrap, keep_keras1 and write.trust_input count: without
 * a description, `in`'s own or the one given, other layouts stay as they are; with unwrap a
 * wrapper's file is seen as its template's. Errors: those of pg_store_open() and pg_convert_file().
 */
PG_API PG_MUST_USE pg_status pg_convert_open(pg_store **out, const char *in,
                                             const pg_convert_opts *opts, pg_convert_report *report,
                                             pg_err *err);

#ifdef __cplusplus
}
#endif

#endif

/* check.h - will Keras load this file, strictly, on one device? A list of named checks with facts.
 *
 *     pg_err err;
 *     pg_check_report r = {0};
 *     if (pg_check_file(&r, "model.h5", &(pg_check_opts){.model = "model.json"}, &err) == PG_OK)
 *         for (size_t i = 0; i < r.n_checks; i++)
 *             printf("%s %s\n", r.checks[i].ok ? "ok" : "not ok", r.checks[i].name);
 *     pg_check_report_fini(&r);
 */
#ifndef PG_CHECK_H
#define PG_CHECK_H

#include "pg/inspect.h"
#include "pg/progress.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pg_check_opts {
    const char *model; /* description that the file must fit: JSON, full .h5 or .keras; NULL: its
                          own */
    const char *model_text; /* the JSON itself; `model` then only names it ("-": standard input) */
    int only_finite, only_no_wrapper; /* run only these: "container", and what model and sha256 ask
                                         for; both 0 = everything */
    int strict;                       /* layers of unknown classes fail instead of being noted */
    const char *sha256; /* a SHA256SUMS file that must hold the right sum of this file, or of all
                           files of this folder */
    /* The file is loaded strictly on `device` (NULL: cpu:0), and its predictions for the rows of
     * `input` (see pg_data_open()) are compared with `expect`: an .npy, or for several outputs an
     * .npz with y0, y1, ... or the outputs' names. Give both or neither; with a device alone,
     * predictions for made-up rows must be finite. */
    const char *input, *expect, *device;
    double tolerance;           /* |difference| <= tolerance * max(1, |expected|); 0: 1e-4 */
    const char *part;           /* as pg_open_opts.part */
    const char *rules;          /* as pg_open_opts.rules */
    const volatile int *cancel; /* stop with PG_E_CANCELLED once *cancel is not 0; may be NULL */
    pg_progress *progress;      /* gets the bytes whose values have been examined; may be NULL */
} pg_check_opts;

typedef struct pg_check {
    const char *name; /* static: "container", "structure", "wrapper", "values", "checksums",
                         "predicted" */
    int ok;
    char *summary;  /* one line, owned */
    char **details; /* more lines, owned */
    size_t n_details;
} pg_check;

typedef struct pg_check_report {
    pg_check *checks;
    size_t n_checks;
    int ok;      /* all of them */
    int damaged; /* the file itself is broken: its container, or bytes of a tensor */
    int fitted;  /* the structure was compared with a model */
    pg_action action; /* what to do next, or PG_DO_NOTHING */
    char *hint;       /* advice in words where action has none, or NULL */
    char **notes;
    size_t n_notes;
} pg_check_report;

/* Releases what a report owns and zeroes it. NULL and {0} are allowed. */
PG_API void pg_check_report_fini(pg_check_report *r);

/* Runs the checks on one file and fills *out, which the caller zeroed or released. The structure
 * fits if Keras' strict loader accepts the file: layers with weights by position, each with its
 * variables and shapes. PG_OK if the checks could be run, whatever they found; a damaged or unknown
 * file fails the check "container", and is not an error. opts may be NULL. Errors: PG_E_IO;
 * PG_E_UNSUPPORTED for legal files that are not covered, and for predictions of models that pgfit
 * cannot compute; PG_E_CANCELLED; those of reading the model description, the list of sums, input
 * and expect. */
PG_API PG_MUST_USE pg_status pg_check_file(pg_check_report *out, const char *path,
                                           const pg_check_opts *opts, pg_err *err);

#ifdef __cplusplus
}
#endif

#endif

/* unwrap.h - takes the template out of a parallel checkpoint, puts it back, and repairs layer
 * lists.
 *
 * Outputs appear whole or not at all: on failure nothing is created and an existing file stays as
 * it was, even the input with in_place. After writing, the output is opened again and every tensor
 * is compared with its source.
 *
 *     pg_err err;
 *     pg_rewrite_report rep = {0};
 *     const pg_unwrap_opts o = {.like = "model.json"};
 *     if (pg_unwrap_file("parallel.h5", "single.h5", &o, &rep, &err) != PG_OK)
 *         fprintf(stderr, "%s\n", err.msg);
 *     pg_rewrite_report_fini(&rep);
 */
#ifndef PG_UNWRAP_H
#define PG_UNWRAP_H

#include "pg/inspect.h"
#include "pg/progress.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pg_write_opts {
    int force;         /* replace an existing output */
    int dry_run;       /* check and plan everything, write nothing */
    int no_sync;       /* do not wait for the disk */
    int skip_verify;   /* do not read the output back */
    const char *part;  /* of the input, as pg_open_opts.part */
    const char *rules; /* as pg_open_opts.rules */
    size_t n_threads;  /* as pg_open_opts.n_threads */
    int sha256;        /* report the output's SHA-256; only for pg_unwrap_file() and
                          pg_wrap_file() */
    /* Change the input itself; out is NULL. Only pg_unwrap_file() and pg_wrap_file() support it,
     * for .h5 files of the legacy layout: tensors stay where they are, new groups and lists are
     * appended, and one sector is rewritten to point there. A crash at any moment leaves the old
     * model or the new one. Data that is no longer needed stays in the file, unreachable: the
     * wrapper's groups, dropped optimizer state, the old model_config with the Python bytecode of
     * its Lambda layers (the report's notes say so). The new structure is always read back and
     * compared before that sector is written; skip_verify has no effect, and no_sync skips only the
     * last wait. PG_E_UNSUPPORTED with the reason: another format, a superblock of a newer HDF5, a
     * user block. PG_E_ARG: the file has several hard links; prove is set.
     * PG_E_IO: in use (flock), read-only. If the file system has no locks, a note says that no
     * other program must write. */
    int in_place;
    const volatile int *cancel; /* stop with PG_E_CANCELLED once *cancel is not 0; may be NULL */
    pg_progress *progress;      /* gets the bytes written and, after that, proven; may be NULL */
    /* The caller's own proof: called with the complete output (or folder of shards) under its
     * temporary name; after a status other than PG_OK the output never gets its final name. */
    pg_status (*prove)(void *user, const char *path, pg_err *err);
    void *user;
} pg_write_opts;

typedef struct pg_unwrap_opts {
    pg_write_opts write;
    const char *like;          /* model JSON, full .h5 or .keras that the output must fit; of a file
                                  of PyTorch: any with the tensors' names in the bare model */
    const char *like_text;     /* the JSON itself; `like` then only names it in messages and hints:
                                  "-" is standard input. NULL: `like` is opened */
    const char *template_name; /* take this nested model out, whatever the verdict */
    const char *strip_prefix;  /* PyTorch: remove this prefix instead of the detected one */
    int partial;               /* write although layers are missing or extra */
    int weights_only;          /* drop the configs and the optimizer state */
    int no_optimizer;          /* drop the optimizer state */
} pg_unwrap_opts;

typedef struct pg_wrap_opts {
    pg_write_opts write;
    const char *like;    /* a wrapper's file, weights-only or full: wrap as it does */
    unsigned n_replicas; /* without like: layers as multi_gpu_model(gpus=n) makes them */
    const char *name;    /* without like: name of the template as a layer; NULL = automatic */
} pg_wrap_opts;

/* What was written, or with dry_run would be. */
typedef struct pg_rewrite_report {
    const char *action;  /* static: "unwrapped", "wrapped", "repaired", "prefix removed",
                          * "words removed" (of PyTorch's wrappers, anywhere in names); in
                          * place "unchanged": it fits as it is, not a byte was written */
    char *template_name; /* owned; may be NULL */
    size_t replicas;     /* of the wrapper taken off or put on; 0 = not applicable */
    size_t n_layers;     /* layers of the output, weightless ones included */
    size_t n_weighted;   /* layers of the output that hold tensors */
    size_t n_tensors,
        n_state;       /* model tensors; optimizer tensors kept, which n_tensors leaves out */
    size_t n_written;  /* both together: all tensors of the output */
    size_t n_verified; /* of n_written, read back and equal to their source: all of them after
                          PG_OK, except with write.skip_verify and dry_run: then none */
    uint64_t n_params, n_bytes; /* elements and bytes of the model tensors */
    uint64_t file_bytes;        /* size of the output (dry_run: an estimate, but exact in place) */
    uint64_t added_bytes;       /* in place: how many bytes were added to the file, else 0 */
    char sha256[65]; /* of the output, as hex digits; "" if not asked for (dry_run: neither) */
    char **removed;  /* layers of the input that are not in the output, "name (reason)" */
    char **kept;     /* e.g. "training_config", "optimizer state (11 tensors)" */
    char **notes;    /* assumptions and things to know, one line each */
    char **missing, **extra; /* with partial: layers only in the model; only in the file */
    size_t n_removed, n_kept, n_notes, n_missing, n_extra;
} pg_rewrite_report;

/* Releases what a report owns and zeroes it. NULL and {0} are allowed. */
PG_API void pg_rewrite_report_fini(pg_rewrite_report *r);

/* Reads `in`, writes the single-device checkpoint to `out`, in the format of `in`. With opts->like,
 * a file that is not a wrapper's is repaired (renamed, reordered, or wrapped) so that it fits the
 * model. opts and report may be NULL; *report must be zeroed, release it with
 * pg_rewrite_report_fini().
 * Errors: PG_E_NO (nothing to unwrap), PG_E_AMBIGUOUS (needs like), PG_E_MISMATCH (does not fit
 * like), PG_E_UNSUPPORTED, PG_E_CANCELLED, and those of pg_store_open(). */
PG_API PG_MUST_USE pg_status pg_unwrap_file(const char *in, const char *out,
                                            const pg_unwrap_opts *opts, pg_rewrite_report *report,
                                            pg_err *err);

/* The reverse: makes a wrapper's file from a template's. Give exactly one of opts->like and
 * opts->n_replicas. Errors as above; PG_E_MISMATCH lists what does not fit. */
PG_API PG_MUST_USE pg_status pg_wrap_file(const char *in, const char *out, const pg_wrap_opts *opts,
                                          pg_rewrite_report *report, pg_err *err);

#ifdef __cplusplus
}
#endif

#endif

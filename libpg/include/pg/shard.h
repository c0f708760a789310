/* shard.h - cuts an oversized checkpoint into shards, and joins shards again.
 *
 * An .npy folder holds one file per tensor (tensors beyond max_shard_bytes are cut along axis 0)
 * and manifest.json, which is written last: a folder without it is an interrupted split, and the
 * same call continues it. The other formats fill one shard after the other; safetensors and Keras
 * have their own kind of index, which is then written last.
 *
 *     pg_err err;
 *     pg_shard_report rep = {0};
 *     if (pg_split_file("model.h5", "out", NULL, &rep, &err) != PG_OK)
 *         fprintf(stderr, "%s\n", err.msg);
 *     pg_shard_report_fini(&rep);
 */
#ifndef PG_SHARD_H
#define PG_SHARD_H

#include "pg/unwrap.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum pg_shard_format {
    PG_SHARD_NPY,         /* NAME/kernel.npy ... and manifest.json */
    PG_SHARD_NPZ,         /* model-00001-of-00003.npz ... and manifest.json */
    PG_SHARD_SAFETENSORS, /* model-00001-of-00003.safetensors ... and model.safetensors.index.json
                           */
    PG_SHARD_KERAS        /* model_00000.weights.h5 ... and model.weights.json (Keras 3.10) */
} pg_shard_format;

/* By its name on the command line ("npy", "npz", "safetensors", "keras"); 0 if it is unknown. */
PG_API int pg_shard_format_by_name(pg_shard_format *out, const char *name);

typedef struct pg_split_opts {
    pg_write_opts write; /* force replaces an earlier split, nothing else */
    pg_shard_format format;
    uint64_t max_shard_bytes; /* 0: npy never cuts, the other formats use 5 GB */
    size_t max_tensors;       /* per shard, npy excepted; 0 = no limit */
    int unwrap;               /* split the template of a wrapper's file */
    int sha256;               /* also write SHA256SUMS, as sha256sum -c reads it */
    size_t n_threads; /* npy: write this many files at a time; 0 = 1. The files are the same */
    /* safetensors: n_jobs processes, which may be on different machines, write the shards of one
     * folder. Each is called with the same arguments and its own job, 1 to n_jobs, at any time and
     * again if it failed. When all are through, a call with finish = 1 compares the checksum of
     * every shard with what its job wrote, and writes the index. n_jobs = 0: one call does all. */
    unsigned job, n_jobs;
    int finish;
} pg_split_opts;

typedef struct pg_join_opts {
    pg_write_opts write;
    const char *only; /* tensors whose "layer/weight" matches this glob; NULL = all */
    /* For checkpoints of several ranks, and shards of Hugging Face: */
    const char *dtype;        /* as pg_convert_opts.dtype */
    uint64_t max_shard_bytes; /* `out` becomes a folder of shards of safetensors, not one file; 0:
                                 only if it is a folder, or ends with "/", 5 GB each */
    unsigned job, n_jobs;     /* as in pg_split_opts; `out` becomes a folder */
    int finish;
} pg_join_opts;

typedef struct pg_shard_file {
    char *path; /* relative to the folder, owned */
    size_t n_tensors;
    uint64_t n_bytes;
} pg_shard_file;

typedef struct pg_shard_report {
    pg_shard_file *files;                /* written (or with dry_run: planned), the index last */
    size_t n_files, n_reused;            /* n_reused: complete from an interrupted run */
    size_t n_layers, n_tensors, n_state; /* tensors of the model; tensors of the optimizer, not
                                            among them */
    size_t n_written;  /* both together, and values beside the model that no layer lists */
    size_t n_verified; /* of n_written, read back and equal to their source */
    uint64_t n_params, n_bytes;
    size_t n_chunked_lists;    /* join: name lists cut because they exceed an object header */
    char **missing, **damaged; /* join, salvage: "path (reason)", all of them */
    size_t n_missing, n_damaged;
    char **notes;
    size_t n_notes;
} pg_shard_report;

/* Releases what a report owns and zeroes it. NULL and {0} are allowed. */
PG_API void pg_shard_report_fini(pg_shard_report *r);

/* Writes the checkpoint `in` (anything that pg_store_open() reads, even a half-written file, whose
 * losses the report lists) as shards into folder `dir`, which is made if needed.
 * Errors: PG_E_ARG (dir is not empty), PG_E_IO, and those of pg_store_open(). */
PG_API PG_MUST_USE pg_status pg_split_file(const char *in, const char *dir,
                                           const pg_split_opts *opts, pg_shard_report *report,
                                           pg_err *err);

/* The same for an open checkpoint, which the caller still owns; name: of the file that it would
 * be. */
PG_API PG_MUST_USE pg_status pg_split_store(pg_store *in, const char *name, const char *dir,
                                            const pg_split_opts *opts, pg_shard_report *report,
                                            pg_err *err);

/* Bytes of "100MB" or "1.5GiB"; a number without a unit is refused as ambiguous. PG_E_ARG says what
 * to write. */
PG_API PG_MUST_USE pg_status pg_shard_size(uint64_t *out, const char *text, pg_err *err);

/* Removes a folder that pg_split_file() wrote: the files that its index names, then the folder, if
 * nothing else is in it. PG_E_UNKNOWN: it has no index; PG_E_IO. */
PG_API PG_MUST_USE pg_status pg_shards_remove(const char *dir, pg_err *err);

/* Joins a folder, its manifest or index, or a shard into `out`, in the format that was split. The
 * model in a checkpoint that several ranks wrote becomes safetensors. Of a split model, only the
 * weights if `out` ends with ".safetensors" or ".weights.h5" and the shards are of that kind,
 * but the original file was not. Everything is checked before the first byte is written;
 * PG_E_FORMAT lists missing and damaged shards in the report. */
PG_API PG_MUST_USE pg_status pg_join_file(const char *in, const char *out, const pg_join_opts *opts,
                                          pg_shard_report *report, pg_err *err);

#ifdef __cplusplus
}
#endif

#endif

/* split.h - one run of pgsplit. split.c lists the contents; split_npy.c, split_npz.c,
 * split_safetensors.c and split_keras.c write them. */
#ifndef PG_WRAP_SHARD_SPLIT_H
#define PG_WRAP_SHARD_SPLIT_H

#include "base/sha256.h"
#include "format/h5/h5.h"
#include "format/manifest.h"
#include "pg/shard.h"
#include "wrap/rewrite/rewrite.h"

/* An item with bytes: a tensor of the store, or another dataset. */
typedef struct pg__split_tensor {
    const char *name; /* its name in the view */
    size_t layer;     /* its layer in the view, or PG_NONE */
    pg__shard_role role;
    size_t data;  /* index of its tensor in r.s; PG_NONE if it is dataset `obj` of the tree */
    uint32_t obj; /* index of its object in the tree, or PG_H5_NONE */
    pg_weight w;  /* gives its type and shape */
    int big_endian;
} pg__split_tensor;

typedef struct pg__split {
    const char *dir; /* the folder that the caller named */
    char *into;      /* files are written here: dir, or a folder beside it that will replace it */
    int replaces;    /* `into` is such a folder */
    const pg_split_opts *o;
    pg__rewrite r;     /* r.s is the input; r.plan is used only to unwrap */
    pg_store *view;    /* what is split: the input itself, or the layout of its template */
    pg__sink *layout;  /* holds the layout of the template; NULL if the input itself is split */
    pg__io *layout_io; /* reads it */
    pg__h5 *tree;      /* the view's HDF5 file, borrowed; NULL if it is not a single HDF5 file */
    pg__split_tensor *v;
    size_t n, cap;
    pg_shard_report rep;
    pg__strs sums;    /* the lines of SHA256SUMS */
    uint64_t n_bytes; /* how many bytes all tensors have */
    int lock;         /* locks the folder `into` against another run, or -1 */
    int fresh;        /* the folder holds nothing of an earlier run */
    int entered;      /* the folder exists and is locked */
    int is_ours;      /* the folder was empty, so all files in it are ours */
    size_t n_above;   /* length of the path of the first missing folder in `into`, or SIZE_MAX */
    size_t n_threads;
    unsigned char *buf, *room; /* every thread has PG_COPY_BYTES of each */
} pg__split;

/* Reads raw bytes of a tensor; the other function reads little-endian ones (off and n are multiples
 * of the element size). */
pg_status pg__split_read(pg__split *s, size_t i, uint64_t off, void *buf, size_t n, pg_err *err);

pg_status pg__split_read_little(pg__split *s, size_t i, uint64_t off, void *buf, size_t n,
                                pg_err *err);

/* Returns where the raw bytes of item i lie in the input. If io is NULL, one thread at a time must
 * read them through pg__split_read(). */
pg__extent pg__split_extent(const pg__split *s, size_t i);

/* ---- split_undo.c ---- */

/* Call before making the folder: notes which parent folders are missing. */
void pg__split_look(pg__split *s);

/* Call after a failure: removes empty folders that the run made. */
void pg__split_undo(pg__split *s);

/* Where "path" is written, into out (emptied before). */
pg_status pg__split_path(pg__str *out, const pg__split *s, const char *path, pg_err *err);

/* Names the report's next file. */
pg_status pg__split_file(pg__split *s, const char *path, size_t n_tensors, uint64_t n_bytes,
                         pg_err *err);

pg_status pg__split_note(pg__split *s, pg_err *err, const char *fmt, ...) PG_PRINTF(3, 4);

/* A file that is produced piece by piece, in order: written, or first compared with the file that
 * an interrupted run left. */
typedef struct pg__split_out {
    pg__sink *sink; /* NULL: a comparison */
    pg__io *old;    /* of a comparison */
    int same;
    uint64_t at;
    uint64_t shared, shared_end; /* number of bytes that exist without being written */
    unsigned char *buf, *room;   /* PG_COPY_BYTES each: the filler's, pg__split_put()'s */
    uint32_t crc;
    pg__sha256 sha;
} pg__split_out;
pg_status pg__split_put(pg__split *s, pg__split_out *f, const void *p, size_t n, pg_err *err);

/* Call before putting anything: lets the file, which will hold n bytes of a tensor (from byte
 * `from`) at `off`, share blocks with the input where the file system can. The bytes must be put
 * anyway, for the checksums. */
pg_status pg__split_share(pg__split *s, pg__split_out *f, uint64_t off, size_t tensor,
                          uint64_t from, uint64_t n, pg_err *err);

/* The result for a file. */
typedef struct pg__split_made {
    int done, reused;
    uint64_t n_bytes;
    uint32_t crc;
    char sha256[65];
} pg__split_made;

/* Produces file `path`: the filler puts its bytes, and is called twice if an older file differs.
 * May be called from thread `worker` if the filler allows it. */
typedef pg_status (*pg__split_filler)(pg__split *s, pg__split_out *f, void *ctx, pg_err *err);
pg_status pg__split_produce(pg__split *s, size_t worker, const char *path, uint64_t n_bytes,
                            pg__split_filler fill, void *ctx, pg__split_made *made, pg_err *err);
/* Its place in the report and in SHA256SUMS. */
pg_status pg__split_record(pg__split *s, const char *path, size_t n_tensors,
                           const pg__split_made *made, pg_err *err);
/* Both, and pg__split_kept(). */
pg_status pg__split_make(pg__split *s, const char *path, size_t n_tensors, uint64_t n_bytes,
                         pg__split_filler fill, void *ctx, uint32_t *crc, pg_err *err);

/* ---- split_image.c ---- */

typedef struct pg__split_range {
    uint64_t off, n;
} pg__split_range;

/* A file that is not written front to back. Bytes that belong to no tensor go to `sink`: the file,
 * or memory while an older file is compared. */
typedef struct pg__split_image {
    pg__sink *sink;
    pg__io *old; /* of a comparison, else NULL */
    int same;
    pg__split_range *data; /* of a comparison: where tensors lie */
    size_t n, cap;
} pg__split_image;

/* Puts all of tensor i to byte off; *crc (may be NULL) is continued. */
pg_status pg__split_put_tensor(pg__split *s, pg__split_image *f, size_t i, uint64_t off,
                               uint32_t *crc, pg_err *err);

/* Produces file `path`: fill() writes it, and is called twice if an older file differs. */
pg_status pg__split_build(pg__split *s, const char *path, size_t n_tensors,
                          pg_status (*fill)(pg__split *s, pg__split_image *f, void *ctx,
                                            pg_err *err),
                          void *ctx, uint32_t *crc, pg_err *err);

/* ---- one file per format ---- */

/* Fills in the manifest except for the checksums of pieces. */
pg_status pg__split_npy(pg__split *s, pg_err *err);
pg_status pg__split_npz(pg__split *s, pg_err *err);
pg_status pg__split_safetensors(pg__split *s, pg_err *err);
pg_status pg__split_keras(pg__split *s, pg_err *err);

/* The parts of a manifest besides tensors. */
pg_status pg__split_describe(pg__manifest *m, pg__split *s, const char *format, pg_err *err);
/* Adds tensor i without its pieces. */
pg_status pg__split_add(pg__manifest *m, pg__split *s, size_t i, pg_err *err);
/* Its raw name for shard_names.h: "conv1/kernel:0". */
pg_status pg__split_raw_name(pg__str *out, const pg__split *s, size_t i, pg_err *err);

/* Shard of each of the first n_tensors tensors (split_fill.c). */
typedef struct pg__filling {
    size_t *shard, n;
} pg__filling;
pg_status pg__split_fill(pg__filling *out, const pg__split *s, size_t n_tensors, pg_err *err);
size_t pg__filling_count(const pg__filling *f, size_t n_tensors, size_t shard);
void pg__filling_fini(pg__filling *f);

/* ---- split_files.c ---- */

/* Opens a sink for `path`; ends it (commit, both sums). */
pg_status pg__split_open(pg__split *s, const char *path, pg__sink **out, pg_err *err);
pg_status pg__split_close(pg__split *s, const char *path, pg__sink *sink, size_t n_tensors,
                          uint32_t *crc, pg_err *err);

/* Counts a correct file that an interrupted run left. */
pg_status pg__split_keep(pg__split *s, const char *path, pg__io *old, size_t n_tensors,
                         uint32_t *crc, pg_err *err);

/* Returns st; after a failure, adds how far the split got. */
pg_status pg__split_kept(const pg__split *s, pg_status st, pg_err *err);

/* Writes manifest.json of a split that ends with another index, before that index. */
pg_status pg__split_side_manifest(pg__split *s, const pg__manifest *m, pg_err *err);

/* ---- split_jobs.c ----
 * Several processes fill one folder. Each leaves a record of its shards, whose names begin with
 * PG_JOB_RECORD, until the last call has written the index. */

#define PG_JOB_RECORD ".pg-job-"

/* Whether this run writes the shard; a run alone writes all. */
int pg__split_is_mine(const pg__split *s, size_t shard);

/* What all jobs must agree on: the names and sizes of the shards, and their headers' sums. */
typedef struct pg__job_shard {
    char name[64];
    uint64_t n_bytes;
    size_t n_tensors;
    uint32_t head, crc; /* crc: of the whole file */
} pg__job_shard;

/* Leaves the record of this job, with the sums of its shards. */
pg_status pg__split_end_job(pg__split *s, const pg__job_shard *v, size_t n, pg_err *err);

/* Reads the records of all jobs and compares the shards with them; v[i].crc is set. PG_E_FORMAT
 * lists the jobs and shards that are missing or damaged. */
pg_status pg__split_collect(pg__split *s, pg__job_shard *v, size_t n, pg_err *err);

/* Removes the records. */
void pg__split_forget_jobs(pg__split *s);

/* ---- split_folder.c ---- */

/* Makes the folder, or checks that it holds an interrupted run of this split and nothing else. With
 * force, replaces an earlier split when this one is complete; until then files are written beside
 * it. n_bytes: space needed. A dry run makes nothing. */
pg_status pg__split_prepare(pg__split *s, const char *index, const pg__strs *files,
                            uint64_t n_bytes, pg_err *err);

/* One sync of what was written, if it is wanted. */
pg_status pg__split_sync(const pg__split *s, pg_err *err);

/* Ends a split: SHA256SUMS, one sync, then the index, which completes it. */
pg_status pg__split_finish(pg__split *s, const char *index, const pg__str *text, size_t n_entries,
                           pg_err *err);

#endif

/* shards.h - the files named by a manifest: opened, checked, copied. fmt_npy_shards.c makes a store
 * of them, shards_tree.c the original HDF5 file. */
#ifndef PG_FORMAT_SHARDS_H
#define PG_FORMAT_SHARDS_H

#include "format/format.h"
#include "format/manifest.h"

typedef struct pg__shards pg__shards;

/* What is wrong with the files, one line each: "conv1/kernel.npy (reason)". */
typedef struct pg__shard_faults {
    pg__strs missing, damaged;
    const volatile int *cancel; /* stop with PG_E_CANCELLED once *cancel is not 0; may be NULL */
} pg__shard_faults;

void pg__shard_faults_fini(pg__shard_faults *f);

/* PG_OK if there are none, else PG_E_FORMAT and all of them in one error: how many of n_files and,
 * with `details`, which. */
pg_status pg__shard_faults_report(const pg__shard_faults *f, size_t n_files, int details,
                                  pg_err *err);

/* Reads the manifest io, whose path is `path`, and checks every file that it names (existence,
 * header, size; not the data). only: glob; tensors that do not match are ignored; may be NULL.
 * Files that are missing or damaged are listed in faults, together with all others whose checksum
 * is wrong (NULL: as details of the error, without looking at checksums), and PG_E_FORMAT is
 * returned. */
pg_status pg__shards_open(pg__shards **out, pg__io *io, const char *path, const char *only,
                          pg__shard_faults *faults, pg_err *err);
void pg__shards_close(pg__shards *s);
const pg__manifest *pg__shards_manifest(const pg__shards *s);
int pg__shards_big_endian(const pg__shards *s, size_t tensor);
size_t pg__shards_n_files(const pg__shards *s); /* different ones */

/* Copies tensor i of the manifest to byte off of sink. Checksums are computed on the way; a file
 * that fails is added to the list of damages and copying continues, so that all are found. */
pg_status pg__shards_copy(pg__shards *s, size_t tensor, pg__sink *sink, uint64_t off, pg_err *err);
/* Compares whole archives (npz, safetensors) with their checksums: differences go to the list of
 * damages. */
pg_status pg__shards_check_archives(pg__shards *s, pg_err *err);
/* Compares every file with its checksum: differences go to the list of damages. cancel may be
 * NULL. */
pg_status pg__shards_check_files(pg__shards *s, const volatile int *cancel, pg_err *err);
/* The same as one error that names them all: for callers that copy without comparing. */
pg_status pg__shards_prove(pg__shards *s, const volatile int *cancel, pg_err *err);
const pg__strs *pg__shards_damages(const pg__shards *s);
size_t pg__shards_n_verified(const pg__shards *s); /* tensors whose files matched their checksums */

/* A store over s; the store owns s afterwards. */
pg_status pg__shards_store(pg_store **out, pg__shards *s, pg_err *err);
pg__shards *pg__shards_of(const pg_store *s); /* NULL if the store is of another format */

/* Adds the names of all files; some may occur twice. */
pg_status pg__shards_files(pg__strs *out, const pg__shards *s, pg_err *err);

/* Writes the HDF5 file or .keras archive that was split. only: as above; then lists of names
 * contain the remaining ones. *n_chunked counts lists that had to be cut. */
pg_status pg__shards_write_tree(pg__shards *s, pg__sink *sink, int only, size_t *n_chunked,
                                pg_err *err);

#endif

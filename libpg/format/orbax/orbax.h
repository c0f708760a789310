/* orbax.h - checkpoints of Orbax (JAX): arrays in zarr, each chunk a value under a key. Keys are
 * files of a folder, or entries of an OCDBT database (ocdbt.c). zarr.c reads what an array is and
 * decodes its chunks. FORMATS.md: "Orbax". */
#ifndef PG_FORMAT_ORBAX_ORBAX_H
#define PG_FORMAT_ORBAX_ORBAX_H

#include "base/str.h"
#include "io/io.h"
#include "io/zstd.h"
#include "store/tiles.h"

/* ---- keys and values ---- */

typedef struct pg__kv_entry {
    char *key;        /* owned */
    size_t file;      /* index of files, or PG_NONE: the bytes are `direct` */
    char *direct;     /* owned */
    uint64_t off, n;
} pg__kv_entry;

typedef struct pg__kv {
    int folder;       /* descriptor of the checkpoint's folder; not owned */
    pg__kv_entry *v;  /* sorted; n == 0: keys are files of the folder */
    size_t n, cap;
    int is_database;
    pg__strs files;   /* paths below the folder */
} pg__kv;

/* Reads the database whose manifest is in the folder. */
pg_status pg__ocdbt_read(pg__kv *out, int folder, pg_err *err);
void pg__kv_fini(pg__kv *kv);

/* The value of a key: n bytes at off of a file, which the caller closes. *io stays NULL if there is
 * none. */
pg_status pg__kv_open(const pg__kv *kv, const char *key, pg__io **io, uint64_t *off, uint64_t *n,
                      pg_err *err);

/* The value of a key into fresh memory; at most `most` bytes. *out stays NULL if there is none. */
pg_status pg__kv_get(const pg__kv *kv, const char *key, size_t most, unsigned char **out, size_t *n,
                     pg_err *err);

/* ---- orbax_paths.c ---- */

/* The _METADATA of the tree of arrays in a folder: of the folder itself, of the only such item of a
 * step, or of the newest step. *out stays NULL if there is none; PG_E_AMBIGUOUS; PG_E_FORMAT for
 * what was not finished. */
pg_status pg__orbax_in_folder(char **out, const char *folder, pg_err *err);

/* The same for a file of a checkpoint that people name in its place. */
pg_status pg__orbax_of_path(char **out, const char *path, pg_err *err);

/* ---- zarr.c ---- */

typedef struct pg__zarr {
    char *name;  /* owned: the prefix of its keys */
    pg_dtype dtype;
    int is_complex, big_endian;
    pg__tiled tiled; /* a grid of chunks, each compressed by itself; tile.source numbers them */
    uint64_t shard[PG_MAX_RANK]; /* extents of a value that holds several chunks; or as step */
    uint64_t in_shard;           /* chunks in a value */
    int version;                 /* 2 or 3 */
    int is_sharded, index_first; /* chunks inside of a value, which has an index */
    int compressed;              /* by Zstandard */
    char separator;              /* in keys */
    int fill_is_zero;
    int missing_is_fill; /* for the caller: a chunk that is not there is filled; else an error */
} pg__zarr;

/* Reads the array whose keys begin with name + "/". *there = 0 if it has no metadata. */
pg_status pg__zarr_open(pg__zarr *out, int *there, const pg__kv *kv, const char *name, pg_err *err);
void pg__zarr_fini(pg__zarr *a);

/* ---- chunk.c ---- */

typedef struct pg__chunk {
    pg__io *io; /* its bytes: n from off on; NULL if it is missing */
    uint64_t off, n;
    uint64_t n_all; /* bytes of its elements */
    int missing;
    pg__zstd *z; /* has decoded the first `at` bytes */
    uint64_t at;
    unsigned n_restarts;
    unsigned char *whole; /* all elements; or NULL */
    int read_to_end;      /* the last read reached its last element */
    char *label;          /* its key, for messages; owned */
} pg__chunk;

/* A missing chunk may be filled with zeros; else it is PG_E_FORMAT. */
pg_status pg__chunk_open(pg__chunk *out, const pg__zarr *a, const pg__kv *kv, const pg__tile *tile,
                         pg_err *err);

/* n bytes from byte off on of the chunk's elements that lie in the tensor, row-major. */
pg_status pg__chunk_read(pg__chunk *c, const pg__zarr *a, const pg__tile *tile, uint64_t off,
                         void *buf, size_t n, pg_err *err);
size_t pg__chunk_memory(const pg__chunk *c);
void pg__chunk_fini(pg__chunk *c);

#endif

/* orbax.h - checkpoints of Orbax (JAX): arrays in zarr, each chunk a value under a key. Keys are
 * files of a folder, or entries of an OCDBT database (ocdbt.c). zarr.c reads what an array is and
 * decodes its chunks. FORMATS.md: "Orbax". */
#ifndef PG_FORMAT_ORBAX_ORBAX_H
#define PG_FORMAT_ORBAX_ORBAX_H

#include "base/str.h"
#include "io/io.h"
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

/* The value of a key into fresh memory; at most `most` bytes. *out stays NULL if there is none. */
pg_status pg__kv_get(const pg__kv *kv, const char *key, size_t most, unsigned char **out, size_t *n,
                     pg_err *err);

/* ---- orbax_paths.c ---- */

/* The _METADATA of the tree of arrays in a folder: of the folder itself, of the only such item of a
 * step, or of the newest step. *out stays NULL if there is none; PG_E_AMBIGUOUS; PG_E_FORMAT for
 * what was not finished. */
pg_status pg__orbax_in_folder(char **out, const char *folder, pg_err *err);

/* ---- zarr.c ---- */

typedef struct pg__zarr {
    char *name;  /* owned: the prefix of its keys */
    pg_dtype dtype;
    int is_complex, big_endian;
    pg__tiled tiled;  /* a tile for each chunk that is compressed by itself; tile.source counts them */
    uint64_t chunk[PG_MAX_RANK];  /* extents of a chunk */
    uint64_t shard[PG_MAX_RANK];  /* of a value that holds several chunks; or as `chunk` */
    int version;                  /* 2 or 3 */
    int is_sharded, index_first;  /* chunks inside of a value, which has an index */
    int compressed;               /* by Zstandard */
    char separator;               /* in keys */
    int missing_is_zero;          /* a chunk that is not there holds zeros; else it is an error */
    size_t first_chunk;           /* for the caller: number of its first tile among those of all arrays */
} pg__zarr;

/* Reads the array whose keys begin with name + "/". *there = 0 if it has no metadata. */
pg_status pg__zarr_open(pg__zarr *out, int *there, const pg__kv *kv, const char *name, pg_err *err);
void pg__zarr_fini(pg__zarr *a);

/* The elements of a tile, row-major, into fresh memory. */
pg_status pg__zarr_tile(unsigned char **out, const pg__zarr *a, const pg__kv *kv,
                        const pg__tile *tile, pg_err *err);

#endif

/* h5_types.h - the HDF5 types and attributes that weight files use; shared by reader and writer. */
#ifndef PG_FORMAT_H5_H5_TYPES_H
#define PG_FORMAT_H5_H5_TYPES_H

#include "pg/store.h"

/* Bytes [start, end) of a file. */
typedef struct pg__run {
    uint64_t start, end;
} pg__run;

typedef enum pg__h5_class {
    PG_H5_NUMBER,     /* dtype says which; bool is h5py's enum, bfloat16 the opaque of 2 bytes */
    PG_H5_STR_FIXED,  /* size bytes each */
    PG_H5_STR_VLEN,
    PG_H5_OTHER       /* legal, but never the type of a weight: the values are not read */
} pg__h5_class;

typedef struct pg__h5_dtype {
    pg__h5_class cls;
    pg_dtype dtype;   /* PG_H5_NUMBER */
    uint32_t size;    /* bytes of an element in the file */
    int big_endian;
    int utf8;         /* strings: character set, 0 = ASCII */
    int pad;          /* strings: 0 null-terminated, 1 null-padded, 2 space-padded */
    const char *unread; /* PG_H5_OTHER: the message for callers that need the values */
} pg__h5_dtype;

/* An attribute: extent and values. rank 0 and n_elems 1 = scalar; rank PG_H5_NULL = null space. */
#define PG_H5_NULL UINT32_MAX
typedef struct pg__h5_attr {
    const char *name;
    pg__h5_dtype type;
    uint32_t rank;
    uint64_t dims[PG_MAX_RANK];
    uint64_t n_elems;
    const void *raw;     /* PG_H5_NUMBER, PG_H5_STR_FIXED: the file's bytes, n_elems x size */
    const char **strs;   /* strings: NUL-terminated copies (fixed: padding removed), else NULL */
    const size_t *lens;  /* their lengths, embedded NULs counted */
} pg__h5_attr;

#endif

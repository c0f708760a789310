/* data_impl.h - what data.c and data_roles.c share. */
#ifndef PG_TRAIN_DATA_DATA_IMPL_H
#define PG_TRAIN_DATA_DATA_IMPL_H

#include "base/str.h"
#include "train/data/data.h"

/* One file of --data A,B. */
typedef struct pg__part {
    const pg__source *source;
    void *state;
    char *path;
} pg__part;

struct pg_data {
    char *path; /* as given */
    pg__part *parts;
    pg__array *arrays;
    size_t n_parts, n_arrays, cap_arrays; /* n_parts 0: the arrays are the caller's */
    int nearest, any_classes;
    pg__dims reshape; /* of a row, after a first dimension of any size; rank 0: none */
    int n_holders;    /* runs that are reading its arrays */
    pg__strs x, y;    /* selected names */
    char *set;        /* the selected set, "train", "test" or "val"; NULL: according to use */
    pg__strs notes;   /* of the last bind */
    struct {
        uint64_t first, n;
        size_t n_arrays;
        uint32_t mark;
    } known; /* the cached checksum */
};

/* Do arrays have names by which they can be selected? */
int pg__data_has_names(const pg_data *d);

/* Assigns roles to the arrays that were selected, or by a well-known layout. */
pg_status pg__data_assign(pg_data *d, const pg__ends *ends, pg_err *err);

#endif

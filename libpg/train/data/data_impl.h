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
    char *path; /* as it was given */
    pg__part *parts;
    pg__array *arrays;
    size_t n_parts, n_arrays, cap_arrays; /* no part: the arrays are the caller's */
    int nearest, any_classes;
    pg__dims reshape; /* of a row, behind a first dimension of any size; rank 0: none */
    int n_holders;    /* runs that read its arrays */
    pg__strs x, y;    /* names that were chosen */
    char *set;        /* "train", "test" or "val" of what the file holds; NULL: as it is used for */
    pg__strs notes;   /* of the last bind */
    struct {
        uint64_t first, n;
        size_t n_arrays;
        uint32_t mark;
    } known; /* of the rows looked at last */
};

/* Whether arrays have names by which they can be chosen. */
int pg__data_has_names(const pg_data *d);

/* Gives the arrays that were chosen, or that a well-known layout means, their roles. */
pg_status pg__data_assign(pg_data *d, const pg__ends *ends, pg_err *err);

#endif

/* data.h - rows of training data, read when they are needed.
 *
 * A source (sources.def, data_NAME.c) turns one file or folder into arrays: rows of one shape and
 * element type, and a function that reads some of them as they lie. What is common to all is in
 * data.c: which source it is, lists of files, the order of the rows, conversion. */
#ifndef PG_TRAIN_DATA_H
#define PG_TRAIN_DATA_H

#include "io/io.h"
#include "ops/op.h"
#include "pg/train.h"

typedef struct pg__array pg__array;

/* Reads rows first .. first + n - 1, one behind the other, as elements of the array's type. The
 * message does not name the file. */
typedef pg_status (*pg__read_fn)(const pg__array *a, uint64_t first, uint64_t n, void *raw,
                                 pg_err *err);

struct pg__array {
    char *key;        /* "x0"; NULL: known by its place in a list of files */
    const char *path; /* of the file, for messages */
    pg__dims dims;    /* rows in front; PG_DIM_ANY: as the model asks */
    pg_dtype dtype;   /* of what `read` gives */
    int big_endian;
    int names_files; /* messages of `read` do so themselves: there are many */
    int is_class;    /* numbers of classes that the source made up: fit to become one-hot rows */
    pg__read_fn read;
    void *self; /* for `read` */
    uint64_t at;
    void (*close)(void *self); /* NULL: self is the source's */
};

/* What a model asks of its data. */
typedef struct pg__ends {
    size_t n_inputs, n_outputs;
    const char *const *input_names, *const *output_names;
    const pg__dims *input_dims;    /* rows unknown */
    const unsigned char *targeted; /* per output: a target is needed; NULL: none is */
} pg__ends;

typedef struct pg__source {
    const char *name;
    /* Is it this? head: the first n bytes of the file, of at most PG_SOURCE_HEAD. */
    int (*claims)(const unsigned char *head, size_t n);
    /* Adds arrays by pg__data_add(); *state is the source's own. io is borrowed; NULL: a folder. */
    pg_status (*open)(pg_data *d, pg__io *io, const char *path, void **state, pg_err *err);
    /* The arrays as this model needs them, or NULL: they are the same for all. */
    pg_status (*bind)(pg_data *d, void *state, const pg__ends *ends, pg_err *err);
    void (*close)(void *state); /* NULL: it has none */
} pg__source;

#define PG_SOURCE_HEAD 16

/* Takes over what a->key and a->self are, also on failure. a->path is set here. */
pg_status pg__data_add(pg_data *d, const pg__array *a, pg_err *err);

/* Adds what a .npy file holds, or (with a key) a member of an archive. */
pg_status pg__data_add_npy(pg_data *d, const char *key, size_t key_len, pg__io *io, pg_err *err);

/* Adds an array that is the caller's. PG_E_ARG, PG_E_NOMEM. */
pg_status pg__data_add_memory(pg_data *d, const pg_array *from, pg_err *err);

/* Removes all arrays, before a source makes others. */
void pg__data_drop(pg_data *d);

/* An array of an io at byte a->at: fills read, self (a reference) and close. */
void pg__array_in_io(pg__array *a, pg__io *io);

/* While its arrays are being read (holds: 1, then 0) they must stay what they are. */
void pg__data_hold(pg_data *d, int holds);

/* Before arrays are looked up for a model. PG_E_ARG: somebody holds them. */
pg_status pg__data_bind(pg_data *d, const pg__ends *ends, pg_err *err);

/* One file that is open already; its io's name stands for the path. References io. */
pg_status pg__data_open_io(pg_data **out, pg__io *io, pg_err *err);

/* By key; NULL if there is none. */
const pg__array *pg__data_find(const pg_data *d, const char *key);
const char *pg__data_path(const pg_data *d);

/* The dimensions that rows with as many elements are to have (the first: any), or NULL. */
const pg__dims *pg__data_reshape(const pg_data *d);

/* Pictures are resized to the nearest pixel, not between pixels. */
int pg__data_is_nearest(const pg_data *d);

/* Elements of one row, and its bytes in the file. */
uint64_t pg__array_row_elems(const pg__array *a);
uint64_t pg__array_row_bytes(const pg__array *a);

/* Element type that rows are asked for in. */
typedef enum pg__cast { PG__AS_F32, PG__AS_F64, PG__AS_I32 } pg__cast;
size_t pg__cast_bytes(pg__cast cast);

/* n elements at `from` (any address) as numbers of another type; returns how many could be: below
 * n, element [result] is no integer that 32 bits hold. */
size_t pg__cast_values(void *dst, pg__cast cast, const void *from, pg_dtype dtype, size_t n);

/* Rows `rows[0..n)` one behind the other into dst. stop: PG_E_CANCELLED once *stop is set; may be
 * NULL. PG_E_FORMAT: the file shrank; PG_E_MISMATCH: as integers, a value that is none. */
pg_status pg__array_read(const pg__array *a, const uint64_t *rows, size_t n, pg__cast cast,
                         void *dst, const int *stop, pg_err *err);

#endif

/* data.h - rows of training data, read when they are needed.
 *
 * A source (sources.def, data_NAME.c) turns one file or folder into arrays: rows of one shape and
 * element type, and a function that reads some of them as they lie. What is common to all is in
 * data.c: which source it is, lists of files, the order of the rows, conversion. */
#ifndef PG_TRAIN_DATA_DATA_H
#define PG_TRAIN_DATA_DATA_H

#include "io/io.h"
#include "ops/op.h"
#include "pg/train.h"
#include "train/data/batch_order.h"

typedef struct pg__array pg__array;

/* Reads rows first .. first + n - 1, one behind the other, as elements of the array's type. The
 * message does not name the file. */
typedef pg_status (*pg__read_fn)(const pg__array *a, uint64_t first, uint64_t n, void *raw,
                                 pg_err *err);

struct pg__array {
    char *key;        /* "x0"; NULL: known by its place in a list of files */
    char role[24];    /* "x0" where another name means that for the model in hand; or "" */
    char *why;        /* what keeps it from being read, as a type that is no number; or NULL */
    const char *path; /* of the file, for messages */
    pg__dims dims;    /* rows in front; PG_DIM_ANY: as the model asks */
    pg_dtype dtype;   /* of what `read` gives */
    int big_endian;
    int names_files;  /* messages of `read` do so themselves: there are many */
    int is_flat;      /* `read` goes by the row's bytes alone: dims may be seen otherwise */
    int is_class;     /* numbers of classes that the source made up: fit to become one-hot rows */
    size_t n_classes; /* then: how many there are */
    pg__read_fn read;
    void *self; /* for `read` */
    uint64_t at;
    /* Where each row comes from a file of its own: its path, and *name below the folder. */
    const char *(*file_of)(const pg__array *a, uint64_t row, const char **name);
    void (*close)(void *self); /* NULL: self is the source's */
};

typedef enum pg__feed_use {
    PG__FOR_TRAINING,
    PG__FOR_VALIDATION,
    PG__FOR_EVALUATION,
    PG__FOR_PREDICTION
} pg__feed_use;

/* What a model asks of its data. */
typedef struct pg__ends {
    pg__feed_use use;
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
    int has_columns;            /* pg_data_select() names some */
} pg__source;

#define PG_SOURCE_HEAD 16

extern const pg__source pg__source_folder;

/* Takes over what a->key and a->self are, also on failure. a->path is set here. */
pg_status pg__data_add(pg_data *d, const pg__array *a, pg_err *err);

/* Adds one that is there and cannot be read, which is told when it is needed. */
pg_status pg__data_add_unread(pg_data *d, const char *name, size_t len, const char *why,
                              pg_err *err);

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

/* A checksum of n rows that was found before, of as many arrays as were looked at; 0: there is
 * none. What a program has in memory may change from call to call: it has none. */
uint32_t pg__data_mark(const pg_data *d, uint64_t first, uint64_t n, size_t n_arrays);
void pg__data_set_mark(pg_data *d, uint64_t first, uint64_t n, size_t n_arrays, uint32_t mark);

/* Before arrays are looked up for a model. PG_E_ARG: somebody holds them. */
pg_status pg__data_bind(pg_data *d, const pg__ends *ends, pg_err *err);

/* One file that is open already; its io's name stands for the path. References io. */
pg_status pg__data_open_io(pg_data **out, pg__io *io, pg_err *err);

/* By role or key; NULL if there is none. */
const pg__array *pg__data_find(const pg_data *d, const char *key);

/* Array k of n of a kind: "x0", "xval0"; the layer's name; "x", "xval" for the only one; NULL. */
const pg__array *pg__data_find_role(const pg_data *d, const char *stem, size_t k, size_t n,
                                    const char *layer, int is_val);

/* Were arrays chosen by name or set, so that xval0 is not looked for? */
int pg__data_is_chosen(const pg_data *d);

/* Names, shapes and types of the arrays, as details of an error; 0: they have no names. */
int pg__data_list(const pg_data *d, pg_err *err);

/* A line that the user should know, until the next bind. PG_E_NOMEM. */
pg_status pg__data_note(pg_data *d, pg_err *err, const char *fmt, ...) PG_PRINTF(3, 4);

/* Notes a test or validation set of the file that nobody asked for. PG_E_NOMEM. */
pg_status pg__data_mention_unused(pg_data *d, pg_err *err);

/* Folders of pictures have classes of the same names; other data have none. PG_E_MISMATCH. */
pg_status pg__folder_same_classes(const pg_data *train, const pg_data *val, pg_err *err);

/* May folders of classes be as they like? */
int pg__data_any_classes(const pg_data *d);

/* "60000x784" with multiplication signs, as people speak of data. */
pg__dims_text pg__dims_spoken(const pg__dims *d);
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

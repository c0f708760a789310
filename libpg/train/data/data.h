/* data.h - rows of training data, read when they are needed.
 *
 * A source (sources.def, data_NAME.c) turns one file or folder into arrays: rows of one shape and
 * element type, with a function that reads consecutive rows unconverted. data.c has the common
 * part: choosing the source, lists of files, the order of rows, conversion. */
#ifndef PG_TRAIN_DATA_DATA_H
#define PG_TRAIN_DATA_DATA_H

#include "io/io.h"
#include "ops/op.h"
#include "pg/train.h"
#include "train/data/batch_order.h"

typedef struct pg__array pg__array;

/* Reads n consecutive rows from `first` on, in the array's type. The message does not name the
 * file. */
typedef pg_status (*pg__read_fn)(const pg__array *a, uint64_t first, uint64_t n, void *raw,
                                 pg_err *err);

struct pg__array {
    char *key;        /* "x0"; NULL: known by its place in a list of files */
    char role[24];    /* "x0" if another name means that for the current model; or "" */
    char *why;        /* why it cannot be read, such as a type that is not numeric; or NULL */
    const char *path; /* of the file, for messages */
    pg__dims dims;    /* rows first; PG_DIM_ANY: as the model requires */
    pg_dtype dtype;   /* of what `read` gives */
    int big_endian;
    int names_files;  /* it has many files, which the messages of `read` name */
    int is_flat;      /* `read` depends only on the bytes of a row: dims may be reinterpreted */
    int is_class;     /* class numbers made up by the source: may become one-hot rows */
    size_t n_classes; /* then: number of classes */
    pg__read_fn read;
    void *self; /* for `read` */
    uint64_t at;
    /* If each row comes from a file of its own: its path, and its *name relative to the folder. */
    const char *(*file_of)(const pg__array *a, uint64_t row, const char **name);
    void (*close)(void *self); /* NULL: self is the source's */
};

typedef enum pg__feed_use {
    PG_FOR_TRAINING,
    PG_FOR_VALIDATION,
    PG_FOR_EVALUATION,
    PG_FOR_PREDICTION
} pg__feed_use;

/* What a model requires of its data. */
typedef struct pg__ends {
    pg__feed_use use;
    size_t n_inputs, n_outputs;
    const char *const *input_names, *const *output_names;
    const pg__dims *input_dims;    /* rows unknown */
    const unsigned char *targeted; /* per output: a target is needed; NULL: none is */
} pg__ends;

typedef struct pg__source {
    const char *name;
    /* Does the file belong to this source? head: its first n bytes, at most PG_SOURCE_HEAD. */
    int (*claims)(const unsigned char *head, size_t n);
    /* Adds arrays by pg__data_add(); *state is the source's own. io is borrowed; NULL: a folder. */
    pg_status (*open)(pg_data *d, pg__io *io, const char *path, void **state, pg_err *err);
    /* Makes the arrays as this model needs them; NULL: they are the same for all models. */
    pg_status (*bind)(pg_data *d, void *state, const pg__ends *ends, pg_err *err);
    void (*close)(void *state); /* NULL: no state */
    int has_columns;            /* pg_data_select() can name some */
} pg__source;

#define PG_SOURCE_HEAD 16

extern const pg__source pg__source_folder;

/* Takes ownership of a->key and a->self, even on failure. Sets a->path. */
pg_status pg__data_add(pg_data *d, const pg__array *a, pg_err *err);

/* Adds an array that cannot be read, which is reported only if it is needed. */
pg_status pg__data_add_unread(pg_data *d, const char *name, size_t len, const char *why,
                              pg_err *err);

/* Adds the array of a .npy file or (with a key) of an archive's member. */
pg_status pg__data_add_npy(pg_data *d, const char *key, size_t key_len, pg__io *io, pg_err *err);

/* Adds an array in the caller's memory. PG_E_ARG, PG_E_NOMEM. */
pg_status pg__data_add_memory(pg_data *d, const pg_array *from, pg_err *err);

/* Removes all arrays, before a source makes new ones. */
void pg__data_drop(pg_data *d);

/* An array of an io at byte a->at: fills read, self (a reference) and close. */
void pg__array_in_io(pg__array *a, pg__io *io);

/* Protects arrays from changes while they are being read (holds: 1, then 0). */
void pg__data_hold(pg_data *d, int holds);

/* A cached checksum of n rows of n_arrays arrays; 0: none. Arrays in a program's memory may change
 * between calls, so they have none. */
uint32_t pg__data_mark(const pg_data *d, uint64_t first, uint64_t n, size_t n_arrays);
void pg__data_set_mark(pg_data *d, uint64_t first, uint64_t n, size_t n_arrays, uint32_t mark);

/* Call it before arrays are looked up for a model. PG_E_ARG: a run is reading them. */
pg_status pg__data_bind(pg_data *d, const pg__ends *ends, pg_err *err);

/* Opens a file from an io, whose name serves as the path. Keeps a reference to io. */
pg_status pg__data_open_io(pg_data **out, pg__io *io, pg_err *err);

/* An array by role or key; NULL if there is none. */
const pg__array *pg__data_find(const pg_data *d, const char *key);

/* Array k of n of a kind: "x0", "xval0"; the layer's name; "x", "xval" for the only one; NULL. */
const pg__array *pg__data_find_role(const pg_data *d, const char *stem, size_t k, size_t n,
                                    const char *layer, int is_val);

/* Were arrays selected by name or set, so that xval0 does not count? */
int pg__data_is_chosen(const pg_data *d);

/* Names, shapes and types of the arrays, as details of an error; 0: they have no names. */
int pg__data_list(const pg_data *d, pg_err *err);

/* Adds a note for the user, kept until the next bind. PG_E_NOMEM. */
pg_status pg__data_note(pg_data *d, pg_err *err, const char *fmt, ...) PG_PRINTF(3, 4);

/* Notes a test or validation set in the file that is not used. PG_E_NOMEM. */
pg_status pg__data_mention_unused(pg_data *d, pg_err *err);

/* PG_E_MISMATCH if both are folders of pictures and their classes differ. */
pg_status pg__folder_same_classes(const pg_data *train, const pg_data *val, pg_err *err);

/* Are differing classes allowed? */
int pg__data_any_classes(const pg_data *d);

/* "60000x784", with multiplication signs, for messages. */
pg__dims_text pg__dims_spoken(const pg__dims *d);
const char *pg__data_path(const pg_data *d);

/* The dimensions for rows with that many elements (the first: any), or NULL. */
const pg__dims *pg__data_reshape(const pg_data *d);

/* Are pictures resized by the nearest pixel, without interpolation? */
int pg__data_is_nearest(const pg_data *d);

/* Elements of one row, and its bytes in the file. */
uint64_t pg__array_row_elems(const pg__array *a);
uint64_t pg__array_row_bytes(const pg__array *a);

/* The element type to read rows in. */
typedef enum pg__cast { PG_AS_F32, PG_AS_F64, PG_AS_I32 } pg__cast;
size_t pg__cast_bytes(pg__cast cast);

/* Converts n elements at `from` (any alignment); returns how many succeeded: if fewer than n,
 * element [result] is not a 32-bit integer. */
size_t pg__cast_values(void *dst, pg__cast cast, const void *from, pg_dtype dtype, size_t n);

/* Reads rows[0..n) into dst, contiguously. stop: PG_E_CANCELLED once *stop is set; may be NULL.
 * PG_E_FORMAT: the file shrank; PG_E_MISMATCH: a value is not an integer, with PG_AS_I32. */
pg_status pg__array_read(const pg__array *a, const uint64_t *rows, size_t n, pg__cast cast,
                         void *dst, const int *stop, pg_err *err);

#endif

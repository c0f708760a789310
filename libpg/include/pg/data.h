/* data.h - rows to train, evaluate and predict with.
 *
 *   errors   on failure the out arguments are untouched and *err (if not NULL) is filled
 *   threads  data are used by one thread at a time */
#ifndef PG_DATA_H
#define PG_DATA_H

#include <stddef.h>
#include <stdint.h>

#include "pg/err.h"
#include "pg/store.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pg_data pg_data;

/* Arrays of one number of rows, found out by their contents:
 *
 *   .npz, HDF5     keys x0, x1, ... and y0, y1, ... in the order of the model's inputs and outputs
 *                  (or their names, or x and y), w0, w1, ... for weights of rows; xval0, yval0, ...
 *                  are the validation's. HDF5: datasets at the root
 *                  An .npz or HDF5 file may also call them as well-known data sets do, for a model
 *                  with one input and one target: x_train and y_train (x_test, y_test, x_val,
 *                  y_val), train_images and train_labels, X and y, data and labels (or target),
 *                  images and labels, arr_0 and arr_1; a note says which were taken
 *   A,B,...        .npy or IDX files of one array each: inputs, targets, weights, in that order
 *   CSV            a table of numbers. With a header, columns named like an output, or y, y0, ...
 *                  are targets (y, y.1, y.2 together are one), w, w0, ... weights; without such
 *                  names the last column is the target. Other columns are the input
 *   a folder       PNG and JPEG pictures, one subfolder for each class (in the order of their
 *                  names), resized to the model's input, values 0 to 255: what Keras'
 *                  image_dataset_from_directory() gives. Classes become one-hot rows where the loss
 *                  wants them. Without subfolders: pictures for predictions
 *
 * Files may be packed with gzip. Values are read when they are needed; only CSV is held in
 * memory, and what is compressed is unpacked once into a file without a name in $TMPDIR or /tmp.
 * Errors: PG_E_IO, PG_E_FORMAT, PG_E_MISMATCH, PG_E_UNSUPPORTED, PG_E_UNKNOWN. */
PG_API PG_MUST_USE pg_status pg_data_open(pg_data **out, const char *path, pg_err *err);
PG_API void pg_data_close(pg_data *d); /* NULL is allowed */

/* One array of data, in the caller's memory. */
typedef struct pg_array {
    const char *key; /* "x0", "y0", "w0", ..., or the name of an input or output */
    pg_dtype dtype;
    uint32_t rank;              /* with the rows: 1 or more */
    uint64_t dims[PG_MAX_RANK]; /* dims[0]: rows */
    const void *values;         /* row-major, in the machine's byte order */
} pg_array;

/* Data that are in memory: keys as in an .npz. Values are not copied; they must stay where they are
 * until the data are closed. PG_E_ARG: an array without a key or values, PG_E_NOMEM. */
PG_API PG_MUST_USE pg_status pg_data_arrays(pg_data **out, const pg_array *arrays, size_t n,
                                            pg_err *err);

/* Rows of inputs that are no file's: each number 0 or 1 by chance, as the seed says, dimensions
 * that the model leaves open 32. For predictions: does the model compute at all? */
PG_API PG_MUST_USE pg_status pg_data_random(pg_data **out, uint64_t n_rows, uint64_t seed,
                                            pg_err *err);

/* Rows of inputs that have as many elements get these dimensions: "28,28,1". Pictures get this size
 * where the model leaves it open. PG_E_ARG. */
PG_API PG_MUST_USE pg_status pg_data_reshape(pg_data *d, const char *dims, pg_err *err);

/* How pictures are resized: "bilinear" (as if never called) or "nearest". PG_E_ARG. */
PG_API PG_MUST_USE pg_status pg_data_interpolate(pg_data *d, const char *how, pg_err *err);

/* Names of the arrays that are inputs and targets, as many as the model has, in its order:
 * "x_train", "left,right"; of a table's columns those that make up the only input (target), side by
 * side in the order of this list, or one for each. NULL: as the names say by themselves.
 * Predictions look at x alone. PG_E_ARG: no names, or data without any; that the file has none of
 * them is PG_E_MISMATCH later. */
PG_API PG_MUST_USE pg_status pg_data_select(pg_data *d, const char *x, const char *y, pg_err *err);

/* 1: an array of each of these names ("x_train,y_train") is there; of a table: 1, it is known with
 * the model. */
PG_API int pg_data_holds(const pg_data *d, const char *names);

/* Which set of a file that holds several is meant: "train", "test" or "val". Open the file a second
 * time to validate with its test set. PG_E_ARG. */
PG_API PG_MUST_USE pg_status pg_data_set(pg_data *d, const char *set, pg_err *err);

/* 1: the file holds such a set, inputs and targets under names that pg_data_set() knows. */
PG_API int pg_data_has_set(const pg_data *d, const char *set);

/* any: 1: folders of pictures are taken as Keras takes them: classes may be fewer than the output
 * has, or empty, and pictures lie in folders below those of the classes. 0 (as if never called):
 * that is PG_E_MISMATCH. */
PG_API void pg_data_allow_classes(pg_data *d, int any);

/* What should be known of how the data were understood, one line each, from when pg_fit() and its
 * kin began to use them: which arrays became what, a table's target, classes of pictures. NULL:
 * there is no such note. */
PG_API size_t pg_data_n_notes(const pg_data *d);
PG_API const char *pg_data_note(const pg_data *d, size_t i);

#ifdef __cplusplus
}
#endif

#endif

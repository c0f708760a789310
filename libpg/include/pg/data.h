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

/* Arrays with the same number of rows; the contents decide the format:
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
 * Files may be packed with gzip. Values are read when needed; only CSV is held in memory, and
 * compressed data is unpacked once into an unnamed file in $TMPDIR or /tmp.
 * Errors: PG_E_IO, PG_E_FORMAT, PG_E_MISMATCH, PG_E_UNSUPPORTED, PG_E_UNKNOWN. */
PG_API PG_MUST_USE pg_status pg_data_open(pg_data **out, const char *path, pg_err *err);
PG_API void pg_data_close(pg_data *d); /* NULL is allowed */

/* One array of data, in the caller's memory. */
typedef struct pg_array {
    const char *key; /* "x0", "y0", "w0", ..., or the name of an input or output */
    pg_dtype dtype;
    uint32_t rank;              /* rows included: 1 or more */
    uint64_t dims[PG_MAX_RANK]; /* dims[0]: rows */
    const void *values;         /* row-major, in the machine's byte order */
} pg_array;

/* Data in memory, with keys as in an .npz. Values are not copied; they must stay in place until the
 * data are closed. PG_E_ARG: an array without a key or values, PG_E_NOMEM. */
PG_API PG_MUST_USE pg_status pg_data_arrays(pg_data **out, const pg_array *arrays, size_t n,
                                            pg_err *err);

/* Made-up rows of inputs: each number is 0 or 1 at random, from the seed; dimensions that the model
 * leaves open become 32. For predictions: can the model compute at all? */
PG_API PG_MUST_USE pg_status pg_data_random(pg_data **out, uint64_t n_rows, uint64_t seed,
                                            pg_err *err);

/* Gives these dimensions to the rows of inputs that have as many elements: "28,28,1". Pictures get
 * this size if the model leaves it open. PG_E_ARG. */
PG_API PG_MUST_USE pg_status pg_data_reshape(pg_data *d, const char *dims, pg_err *err);

/* How pictures are resized: "bilinear" (the default) or "nearest". PG_E_ARG. */
PG_API PG_MUST_USE pg_status pg_data_interpolate(pg_data *d, const char *how, pg_err *err);

/* Names of the arrays that are inputs and targets, one for each of the model's, in its order:
 * "x_train", "left,right". For a table: the columns that form the only input (target), side by side
 * in the order of this list, or one for each. NULL: decided by the names themselves. Predictions
 * need x alone. PG_E_ARG: no names, or data without names; a name that the file lacks is
 * PG_E_MISMATCH later. */
PG_API PG_MUST_USE pg_status pg_data_select(pg_data *d, const char *x, const char *y, pg_err *err);

/* 1: the data have an array of each of these names ("x_train,y_train"); for a table always 1,
 * because that is known only with the model. */
PG_API int pg_data_holds(const pg_data *d, const char *names);

/* Selects one set of a file that holds several: "train", "test" or "val". To validate with a file's
 * test set, open the file a second time. PG_E_ARG. */
PG_API PG_MUST_USE pg_status pg_data_set(pg_data *d, const char *set, pg_err *err);

/* 1: the file holds such a set, with inputs and targets under names that pg_data_set() knows. */
PG_API int pg_data_has_set(const pg_data *d, const char *set);

/* any = 1: folders of pictures are accepted as Keras accepts them: there may be fewer classes than
 * the output has, classes may be empty, and pictures may lie in folders below those of the classes.
 * any = 0 (the default): that is PG_E_MISMATCH. */
PG_API void pg_data_allow_classes(pg_data *d, int any);

/* Notes on how the data were interpreted, one line each, available once pg_fit() or a similar call
 * has begun to use them: which arrays became what, a table's target, classes of pictures. NULL
 * after the last. */
PG_API size_t pg_data_n_notes(const pg_data *d);
PG_API const char *pg_data_note(const pg_data *d, size_t i);

#ifdef __cplusplus
}
#endif

#endif

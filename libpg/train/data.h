/* data.h - rows of training data, read when they are needed. */
#ifndef PG_TRAIN_DATA_H
#define PG_TRAIN_DATA_H

#include "ops/op.h"
#include "pg/train.h"

/* One array: dims[0] rows. */
typedef struct pg__array pg__array;

/* By key; NULL if there is none. */
const pg__array *pg__data_find(const pg_data *d, const char *key);
const char *pg__data_path(const pg_data *d);

/* Shape with the rows in front, element type of the file. */
pg__dims pg__array_dims(const pg__array *a);
pg_dtype pg__array_dtype(const pg__array *a);

/* Element type that rows are asked for in. */
typedef enum pg__cast { PG__AS_F32, PG__AS_F64, PG__AS_I32 } pg__cast;

/* Rows `rows[0..n)` one behind the other into dst. PG_E_FORMAT: the file shrank; or, as integers, a
 * value that is none. */
pg_status pg__array_read(const pg__array *a, const uint64_t *rows, size_t n, pg__cast cast,
                         void *dst, pg_err *err);

#endif

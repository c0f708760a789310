/* h5_write_type.h - converts our description of a type to a type of libhdf5. */
#ifndef PG_FORMAT_H5_H5_WRITE_TYPE_H
#define PG_FORMAT_H5_H5_WRITE_TYPE_H

#include "format/h5/h5_types.h"

/* A new datatype (hid_t), to be closed with H5Tclose(), or -1. A fixed string needs its size. */
int64_t pg__h5_type_new(const pg__h5_dtype *t);

#endif

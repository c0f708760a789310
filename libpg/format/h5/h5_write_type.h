/* h5_write_type.h - our description of a type as one of libhdf5's. */
#ifndef PG_FORMAT_H5_H5_WRITE_TYPE_H
#define PG_FORMAT_H5_H5_WRITE_TYPE_H

#include "format/h5/h5_types.h"

/* A new datatype (hid_t), to be closed with H5Tclose(), or -1. A fixed string needs its size. */
int64_t pg__h5_type_new(const pg__h5_dtype *t);

#endif

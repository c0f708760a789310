/* h5.h - HDF5: a strict reader and a writer of our own; libhdf5 for new groups over an old file. Uses
 * io and store. Begin reading at h5_impl.h, which lists the reader's parts, and h5_writer.c. */
#ifndef PG_FORMAT_H5_H5_H
#define PG_FORMAT_H5_H5_H

#include "format/h5/h5_reader.h"
#include "format/h5/h5_relink.h"
#include "format/h5/h5_types.h"
#include "format/h5/h5_writer.h"
#include "format/h5/relinked.h"

#endif

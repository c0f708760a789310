/* h5_encode.h - datatypes and dataspaces as the bytes that libhdf5 and h5py store (File Format
 * Specification, sections IV.A.2.b and d): half floats as a 2-byte IEEE float, bool as an enum of
 * int8 with FALSE and TRUE, bfloat16 as an opaque type of 2 bytes with an empty tag. */
#ifndef PG_FORMAT_H5_H5_ENCODE_H
#define PG_FORMAT_H5_H5_ENCODE_H

#include "format/h5/h5_types.h"

#define PG_H5_TYPE_BYTES  40u
#define PG_H5_SPACE_BYTES (8u + 16u * PG_MAX_RANK)

/* Both write into zeroed bytes and return how many; 0: there is no such type. rank: PG_H5_NULL for
 * a null space, otherwise at most PG_MAX_RANK. */
size_t pg__h5_encode_type(unsigned char out[PG_H5_TYPE_BYTES], const pg__h5_dtype *t);
size_t pg__h5_encode_space(unsigned char out[PG_H5_SPACE_BYTES], uint32_t rank,
                           const uint64_t *dims);

/* Bytes of one element in the file; 0: there is no such type. */
size_t pg__h5_elem_bytes(const pg__h5_dtype *t);

#endif

/* kinds.h - checkpoints of parallel training that are not read yet: one line of kinds.c names each,
 * as a folder and as one of its files, with what its framework makes of it.
 *
 * All return PG_OK where it is none of them, else PG_E_UNSUPPORTED; the message does not name the
 * path. */
#ifndef PG_FORMAT_KINDS_H
#define PG_FORMAT_KINDS_H

#include "io/io.h"

/* By what the folder holds. */
pg_status pg__kind_of_folder(const char *folder, pg_err *err);

/* Whether its files may lie among others: TensorFlow's checkpoints have no folder of their own. */
int pg__kind_is_loose(const char *folder);

/* By the file's name where its bytes would mislead: a part of a whole that is cut along tensors. */
pg_status pg__kind_of_file(const char *path, pg_err *err);

/* Nothing is at path, but path.index of a TensorFlow checkpoint is. */
pg_status pg__kind_of_prefix(const char *path, pg_err *err);

/* By the bytes: of an index of TensorFlow's, of what Flax writes. n: of head; tail: the last 8. */
pg_status pg__kind_of_bytes(const unsigned char *head, size_t n, const unsigned char tail[8],
                            const char *path, pg_err *err);

/* A shard in the safetensors of torch.distributed.checkpoint. */
pg_status pg__kind_of_shard(const char *path, pg_err *err);

#endif

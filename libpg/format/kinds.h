/* kinds.h - checkpoints of parallel training that libpg does not read yet. A line of kinds.c names
 * each, as a folder and as one of its files, and says how its framework converts it.
 *
 * All functions return PG_OK if it is none of them, else PG_E_UNSUPPORTED; the message does not
 * name the path. */
#ifndef PG_FORMAT_KINDS_H
#define PG_FORMAT_KINDS_H

#include "io/io.h"

/* By the contents of the folder. */
pg_status pg__kind_of_folder(const char *folder, pg_err *err);

/* By the file's name, if its bytes would mislead: a part of a checkpoint that is cut within
 * tensors. */
pg_status pg__kind_of_file(const char *path, pg_err *err);

/* A shard that torch.distributed.checkpoint wrote as safetensors. */
pg_status pg__kind_of_shard(const char *path, pg_err *err);

#endif

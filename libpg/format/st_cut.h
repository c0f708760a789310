/* st_cut.h - torch.distributed.checkpoint in safetensors (HuggingFaceStorageWriter): a file of each
 * rank, whose metadata say where its tensors begin in the whole ones. fmt_st_cut.c puts them
 * together. */
#ifndef PG_FORMAT_ST_CUT_H
#define PG_FORMAT_ST_CUT_H

#include "pg/store.h"

#define PG_ST_CUT "DCP_SHARDING_INFO" /* in the metadata */

/* 1 if a file of that name is the part of one rank
 * ("shard-00001-model-00001-of-00002.safetensors"); 0: a file of whole tensors
 * ("model-00001-of-00002.safetensors"); -1: the name does not say. */
int pg__st_cut_by_name(const char *path);

/* Opens the files of all ranks beside `path`. rules: pg_open_opts.rules. PG_E_AMBIGUOUS if nothing
 * settles whether they are all. */
pg_status pg__st_cut_open(pg_store **out, const char *path, const char *rules, pg_err *err);

/* The first such file in a folder; *out stays NULL if there is none. */
pg_status pg__st_cut_in_folder(char **out, const char *folder, pg_err *err);

#endif

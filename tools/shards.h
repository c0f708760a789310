/* shards.h - shared by pgsplit and pgjoin. */
#ifndef SHARDS_H
#define SHARDS_H

#include "cli.h"

/* Prints an error with the lists of the report; returns the exit status. */
int shards_fail(const pg_shard_report *r, const pg_err *err);

/* Of --max-shard-size; 0 after a complaint. */
int shards_size(uint64_t *out, const char *text);

/* A file that lists shards. */
int shards_is_index(const pg_shard_file *f);

/* "3 .safetensors files + model.safetensors.index.json" */
void shards_files(const pg_shard_report *r, const char *suffix);

/* The member "files". */
void shards_list_json(const pg_shard_report *r);

/* Members of the JSON object that both tools print. */
void shards_json(const pg_shard_report *r);

/* "0.4 s  640 MB/s" at the end of a line, if stdout is a terminal. */
void shards_speed(uint64_t n_bytes, double seconds);
double shards_now(void);

#endif

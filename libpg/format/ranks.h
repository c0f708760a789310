/* ranks.h - a model of which each process saved its own part with torch.save(), as DTensors or
 * ShardedTensors: one file a rank. fmt_ranks.c puts the parts together, ranks_paths.c finds the
 * files. FORMATS.md: "Files of ranks". */
#ifndef PG_FORMAT_RANKS_H
#define PG_FORMAT_RANKS_H

#include "format/pytorch_file.h"

/* Of a checkpoint's files: further ones are opened for each read, for there may be thousands. */
#define PG_RANK_FILES_OPEN 128u

/* 1 if an object of a pickle is a part of a larger tensor. */
int pg__ranks_is_one(const pg__pickle *p);

/* Opens the files of all ranks; f: that of one of them, at `path`. */
pg_status pg__ranks_open(pg_store **out, pg__pt_source *f, const char *path,
                         const pg_open_opts *opts, pg_err *err);

/* ---- ranks_paths.c ---- */

/* One name in a folder, in which a number is the rank. */
typedef struct pg__rank_file {
    char *name; /* owned */
    uint64_t rank;
} pg__rank_file;

typedef struct pg__rank_files {
    pg__rank_file *v; /* in the order of ranks */
    size_t n, cap;
    char *prefix, *suffix; /* around the number; owned */
} pg__rank_files;

/* The files whose names differ from that of `path` in its rank alone: the number that follows
 * "rank", or, if knows_who, the only one that is `who`. PG_E_AMBIGUOUS if no number of the name is
 * surely the rank. */
pg_status pg__ranks_list(pg__rank_files *out, const char *path, int knows_who, uint64_t who,
                         pg_err *err);
void pg__rank_files_fini(pg__rank_files *f);

/* The first rank's file in a folder, if such files of a model are in it; else *out stays NULL.
 * PG_E_AMBIGUOUS: of several models. */
pg_status pg__ranks_in_folder(char **out, const char *folder, pg_err *err);

#endif

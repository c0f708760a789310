/* find.h - the checkpoints in a folder and in all folders below it.
 *
 *     pg_found found = {0};
 *     pg_err err = {0};
 *     if (pg_find(&found, ".", &err) != PG_OK)
 *         fprintf(stderr, "%s\n", err.msg);
 *     for (size_t i = 0; i < found.n; i++)
 *         puts(found.paths[i]);
 *     pg_found_fini(&found);
 */
#ifndef PG_FIND_H
#define PG_FIND_H

#include <stddef.h>

#include "pg/err.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pg_found {
    char **paths; /* sorted by bytes, each "FOLDER/...": files, and folders that are one checkpoint
                     as a whole (split models, torch DCP, ...), whose contents are not listed */
    size_t n;
    /* What was left out: */
    size_t n_others; /* files of other kinds */
    size_t n_hidden; /* files and folders whose names begin with "." */
    size_t n_links;  /* symbolic links to folders: they may form circles */
    size_t n_deep;   /* folders more than 32 levels down */
    size_t n_closed; /* folders that cannot be read */
} pg_found;

/* Searches a folder. Names decide or, if a name says little (.bin), the first bytes; only
 * pg_store_open() finds out whether a file is good. If the folder itself is one checkpoint, it is
 * the result. out is overwritten; release it only after PG_OK. */
PG_API pg_status pg_find(pg_found *out, const char *folder, pg_err *err);

/* Releases the result of pg_find(); NULL is allowed. */
PG_API void pg_found_fini(pg_found *found);

#ifdef __cplusplus
}
#endif

#endif

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
    char **paths; /* in the order of their bytes, each "FOLDER/...": files, and folders that are one
                   * checkpoint as a whole (split models, torch DCP, ...), into which nobody looks */
    size_t n;
    /* What was left out: */
    size_t n_others; /* files of other kinds */
    size_t n_hidden; /* files and folders with a name that begins with "." */
    size_t n_links;  /* symbolic links to folders: they may lead round in circles */
    size_t n_deep;   /* folders more than 32 levels below */
    size_t n_closed; /* folders that cannot be read */
} pg_found;

/* Goes through a folder. Names decide, and where a name says little (.bin) the first bytes:
 * pg_store_open() says whether a file is good. A folder that is one checkpoint is found itself. out is
 * overwritten, and to be released only after PG_OK. */
PG_API pg_status pg_find(pg_found *out, const char *folder, pg_err *err);

/* Releases what pg_find() found; NULL is fine. */
PG_API void pg_found_fini(pg_found *found);

#ifdef __cplusplus
}
#endif

#endif

/* file.h - a text or binary output that appears whole or not at all, for programs that report on
 * checkpoints. libpg writes its own outputs in the same way.
 *
 *     pg_err err;
 *     pg_file *f = NULL;
 *     if (pg_file_create(&f, "report.txt", NULL, &err) != PG_OK ||
 *         pg_file_write(f, "all is well\n", 12, &err) != PG_OK ||
 *         pg_file_commit(f, NULL, &err) != PG_OK)
 *         fprintf(stderr, "%s\n", err.msg);
 *     pg_file_close(f);
 */
#ifndef PG_FILE_H
#define PG_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "pg/err.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pg_file pg_file;

typedef struct pg_file_opts {
    int force;                  /* replace an existing file */
    int no_sync;                /* do not wait for the disk */
    const char *input;          /* a file that must not be replaced; may be NULL */
    const volatile int *cancel; /* stop with PG_E_CANCELLED once *cancel is not 0; may be NULL */
} pg_file_opts;

/* Starts a temporary file beside path. opts may be NULL. The caller releases *out with
 * pg_file_close(). Errors: PG_E_ARG (exists, is a folder, is the input), PG_E_IO, PG_E_NOMEM. */
PG_API PG_MUST_USE pg_status pg_file_create(pg_file **out, const char *path,
                                            const pg_file_opts *opts, pg_err *err);

/* Appends n bytes. Errors: PG_E_IO, PG_E_CANCELLED; later calls fail too. */
PG_API PG_MUST_USE pg_status pg_file_write(pg_file *f, const void *p, size_t n, pg_err *err);

/* Gives the file its name; *n_bytes (may be NULL) is its size. Nothing may be written after it. */
PG_API PG_MUST_USE pg_status pg_file_commit(pg_file *f, uint64_t *n_bytes, pg_err *err);

/* Releases f; without a commit nothing remains. NULL is allowed. */
PG_API void pg_file_close(pg_file *f);

#ifdef __cplusplus
}
#endif

#endif

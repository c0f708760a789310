/* resume.h - reads the saved state of an interrupted or ended run, without a trainer. See
 * pg_fit_opts.resume. */
#ifndef PG_RESUME_H
#define PG_RESUME_H

#include "pg/err.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The `settings` that were stored in a resume file; release them with pg_text_free(). PG_E_IO,
 * PG_E_FORMAT. */
PG_API PG_MUST_USE pg_status pg_resume_settings(char **out, const char *resume_file, pg_err *err);

/* May the resumed run replace this file? Not 0: the file does not exist, or it is the one that the
 * run wrote last or was allowed to replace (pg_fit_opts.output), and by its size, time and inode
 * nobody has written to it since. 0: it belongs to somebody else, or that cannot be known. */
PG_API int pg_resume_owns(const char *resume_file, const char *output);

#ifdef __cplusplus
}
#endif

#endif

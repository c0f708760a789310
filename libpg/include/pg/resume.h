/* resume.h - what the state of an interrupted or ended run knows, without a trainer. See
 * pg_fit_opts.resume. */
#ifndef PG_RESUME_H
#define PG_RESUME_H

#include "pg/err.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The `settings` that a resume file was made with; release it with pg_text_free(). PG_E_IO,
 * PG_E_FORMAT. */
PG_API PG_MUST_USE pg_status pg_resume_settings(char **out, const char *resume_file, pg_err *err);

/* May the run replace this file when it goes on? Not 0: it is the one that the run wrote last, or
 * was allowed to replace (pg_fit_opts.output), and nobody has written to it since, as size, time
 * and inode tell; or there is none. 0: it is somebody else's, or that cannot be known. */
PG_API int pg_resume_owns(const char *resume_file, const char *output);

#ifdef __cplusplus
}
#endif

#endif

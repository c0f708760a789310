/* rewrite.h - what pgunwrap and pgwrap share: they read one file and write another. */
#ifndef REWRITE_H
#define REWRITE_H

#include "cli.h"

/* The common options of writers as the library wants them. */
pg_write_opts rewrite_opts(void);

/* The output's name: -o FILE or the last operand; NULL for a dry run without one. */
const char *rewrite_output(char **argv, size_t n);

/* Tells what was written (or would be), or what went wrong, as text or JSON; releases the report.
 * Returns the exit status. */
int rewrite_tell(pg_rewrite_report *r, const char *in, const char *out, const pg_err *err);

#endif

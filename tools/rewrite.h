/* rewrite.h - shared by pgunwrap and pgwrap: they read one file and write another. */
#ifndef REWRITE_H
#define REWRITE_H

#include "cli.h"

/* A paragraph of both manuals. */
#define CLI_IN_PLACE                                                                            \
    "--in-place appends the new structure to a legacy .h5 (weights or full model) and then\n"   \
    "rewrites one sector at its beginning: no tensor moves, and a crash at any moment leaves "  \
    "the\n"                                                                                     \
    "old model or the new one. Removed data stays in the file, out of reach, including the\n"   \
    "Python bytecode of an old description, and every change makes the file larger;\n"          \
    "pgconvert IN NEW.h5 writes a copy without it. The new structure is always read back\n"     \
    "and compared first; --no-sync skips only the last wait for the disk. Files with several\n" \
    "hard links, or in use by another program, are refused (exit status 2); on a file system\n" \
    "without locks such use cannot be detected, and a note says so. Other formats and files\n"  \
    "with a newer superblock are refused too (3). A symbolic link is followed."

/* Another one, about temporary files. */
#define CLI_KILLED                                                                         \
    "A killed run leaves its temporary file .OUT.pg-XXXXXX; the next run that writes OUT " \
    "removes\n"                                                                            \
    "it."

/* An option of both: --sha256. */
extern int rewrite_sha256;
#define CLI_SHA256                                                    \
    {                                                                 \
        0, "sha256", NULL, &rewrite_sha256, NULL, NULL, NULL,         \
            "print the SHA-256 of the output as a line of SHA256SUMS" \
    }

/* The common options of writers, as the library takes them. */
pg_write_opts rewrite_opts(void);

/* Name of the output: -o FILE or the last operand; NULL in a dry run without one. */
const char *rewrite_output(char **argv, size_t n);

/* Reports what was (or would be) written, or the error, as text or JSON; releases the report.
 * Returns the exit status. */
int rewrite_print(pg_rewrite_report *r, const char *in, const char *out, const pg_err *err);

#endif

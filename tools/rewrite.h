/* rewrite.h - what pgunwrap and pgwrap share: they read one file and write another. */
#ifndef REWRITE_H
#define REWRITE_H

#include "cli.h"

/* A paragraph of both manuals. */
#define CLI_IN_PLACE                                                                               \
    "--in-place adds the new structure behind the data of a legacy .h5 (weights or full model) "   \
    "and\n"                                                                                        \
    "then rewrites one sector at its beginning: no tensor is moved, and a crash at any moment\n"   \
    "leaves the old model or the new one. What is no longer wanted stays in the file, out of "     \
    "reach,\n"                                                                                     \
    "Python bytecode of an old description too, and every change makes the file larger; a copy\n"  \
    "(pgconvert IN NEW.h5) has nothing of it. The new structure is always read back and "          \
    "compared\n"                                                                                   \
    "first; --no-sync leaves out only the last wait for the disk. Files with several hard links "  \
    "or\n"                                                                                         \
    "in use by another program are refused (exit status 2); on a file system without locks that\n" \
    "cannot be seen, and a note says so. Other formats and\n" \
    "those with a newer superblock are refused too (3). A symbolic link is followed."

/* And one of theirs about copies. */
#define CLI_KILLED                                                                              \
    "A run that was killed leaves its temporary file .OUT.pg-XXXXXX behind; the next one that " \
    "writes\n"                                                                                  \
    "OUT removes it."

/* An option of both: --sha256. */
extern int rewrite_sha256;
#define CLI_SHA256                                                    \
    {                                                                 \
        0, "sha256", NULL, &rewrite_sha256, NULL, NULL, NULL,         \
            "print the SHA-256 of the output, as a SHA256SUMS has it" \
    }

/* The common options of writers as the library wants them. */
pg_write_opts rewrite_opts(void);

/* The output's name: -o FILE or the last operand; NULL for a dry run without one. */
const char *rewrite_output(char **argv, size_t n);

/* Tells what was written (or would be), or what went wrong, as text or JSON; releases the report.
 * Returns the exit status. */
int rewrite_tell(pg_rewrite_report *r, const char *in, const char *out, const pg_err *err);

#endif

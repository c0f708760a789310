/* each.h - several inputs of one command: pgunwrap --out-dir DIR IN... */
#ifndef EACH_H
#define EACH_H

#include "cli.h"

/* For the options of a tool: --out-dir DIR, -j N. */
extern const char *each_dir;
extern unsigned each_jobs;
#define CLI_EACH                                                                                   \
    {0,         "out-dir", "DIR", NULL,                                                            \
     &each_dir, NULL,      NULL,  "write each IN to DIR, under its own name; makes DIR"},          \
    {                                                                                              \
        'j', "jobs", "N", NULL, NULL, &each_jobs, NULL, "--out-dir: N files at a time (default 1)" \
    }

/* A paragraph of the manuals. */
#define CLI_SEVERAL                                                                            \
    "With --out-dir, every operand is an input. Each is reported as if it were alone, in the " \
    "order\n"                                                                                  \
    "of the operands (--json: a list); one that fails does not stop the others. A last line "  \
    "counts\n"                                                                                 \
    "them, and the exit status is the worst of theirs."

/* Does one input, as the tool does with two operands; returns the exit status. */
typedef int (*each_fn)(const char *in, const char *out);

/* Calls fn for each of n inputs, in a process of its own, with DIR/NAME as its output; suffix, if
 * not NULL, replaces that of NAME. Returns the worst exit status. */
int each_input(char *const *inputs, size_t n, const char *suffix, each_fn fn);

#endif

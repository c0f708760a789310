/* pgcheck.h - the results of a run, and their output formats. */
#ifndef PGCHECK_H
#define PGCHECK_H

#include "cli.h"

typedef struct checked {
    const char *path;
    pg_check_report r;
    pg_err err;  /* code is PG_OK if the checks ran */
    int status;  /* exit status for this file alone */
    int is_over; /* all of this is known */
} checked;

/* What to do next: "" if nothing is known. */
cli_hint check_hint(const pg_check_report *r);

/* For continuous integration: Test Anything Protocol 13, JUnit's XML, GitHub's annotations. */
void check_print_tap(const checked *files, size_t n);
void check_print_junit(const checked *files, size_t n);
void check_print_github(const checked *files, size_t n);

/* is_list: several files were asked for, whatever their number here. */
void check_print_json(const checked *files, size_t n, int is_list);

/* pgcheck_summary.c: appends a table in Markdown to the file at path; n_all: so many were asked
 * for. Returns 0 if that fails, which is reported. */
int check_write_summary(const char *path, const checked *files, size_t n, size_t n_all);

#endif

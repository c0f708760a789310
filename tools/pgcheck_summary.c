/* pgcheck_summary.c - the results as a table in Markdown, below what FILE already holds: GitHub
 * shows the file that GITHUB_STEP_SUMMARY names with the job. Texts come from files: every mark
 * that Markdown or HTML could take for its own is escaped. */
#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "pgcheck.h"

enum { MOST_ROWS = 1000 }; /* GitHub refuses a summary of more than 1 MiB */

static void text(FILE *f, const char *s)
{
    for (; *s; s++) {
        const int is_mark = ispunct((unsigned char)*s) && !strchr(" .,-/()=;\"'", *s);
        if (is_mark && (unsigned char)*s < 0x80)
            fputc('\\', f);
        fputc(*s == '\n' || *s == '\r' ? ' ' : *s, f);
    }
}

static const char *word(int status)
{
    switch (status) {
    case CLI_OK: return "passed";
    case CLI_NO: return "**failed**";
    case CLI_LACKS: return "**not supported**";
    case CLI_INTERRUPTED: return "interrupted";
    default: return "**error**";
    }
}

static void row(FILE *out, const checked *f)
{
    const cli_hint hint = check_hint(&f->r);
    const char *between = "";
    fputs("| ", out);
    text(out, cli_name(f->path).s);
    fprintf(out, " | %s | ", word(f->status));
    if (f->err.code != PG_OK)
        text(out, f->err.msg);
    for (size_t i = 0; i < f->r.n_checks; i++)
        if (!f->r.checks[i].ok) {
            fprintf(out, "%s%s: ", between, f->r.checks[i].name);
            text(out, f->r.checks[i].summary);
            between = "<br>";
        }
    if (!f->r.ok && hint.s[0]) {
        fprintf(out, "%stry: ", between);
        text(out, hint.s);
    }
    fputs(" |\n", out);
}

static void table(FILE *out, const checked *files, size_t n, size_t n_all)
{
    size_t n_passed = 0, n_rows = 0;
    for (size_t i = 0; i < n; i++)
        n_passed += files[i].status == CLI_OK;
    fprintf(out, "### pgcheck: %zu of %s passed\n\n| file | result | why |\n|---|---|---|\n",
            n_passed, cli_plural(n_all, "file").s);
    for (int good = 0; good < 2; good++) /* what needs attention comes first */
        for (size_t i = 0; i < n && n_rows < MOST_ROWS; i++)
            if ((files[i].status == CLI_OK) == good) {
                row(out, &files[i]);
                n_rows++;
            }
    if (n > n_rows)
        fprintf(out, "\n%zu more are not shown.\n", n - n_rows);
    fputc('\n', out);
}

int check_write_summary(const char *path, const checked *files, size_t n, size_t n_all)
{
    FILE *out = fopen(path, "a");
    int is_bad = !out;
    if (out) {
        table(out, files, n, n_all);
        is_bad = ferror(out) != 0;
        is_bad |= fclose(out) != 0;
    }
    if (is_bad)
        cli_complain(NULL, NULL, "%s: %s", cli_name(path).s, strerror(errno));
    return !is_bad;
}

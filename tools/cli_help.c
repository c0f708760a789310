/* cli_help.c - --help, --version and the short text of a call without operands. */
#include <string.h>

#include "cli.h"

enum { COLUMN = 26, WIDTH = 100 }; /* where the explanations start, where lines are cut */

/* The rest of a line that has reached COLUMN, continued on more lines if necessary. */
static void print_help(const char *s)
{
    size_t n;
    for (; (n = strlen(s)) > WIDTH - COLUMN; s += n + 1) {
        for (n = WIDTH - COLUMN; n > 0 && s[n] != ' '; n--)
            ;
        if (n == 0)
            break; /* one long word */
        printf("%.*s\n%*s", (int)n, s, COLUMN, "");
    }
    puts(s);
}

static void print_option(const cli_opt *o)
{
    char left[80];
    const int may = cli_may_have_argument(o);
    const char *arg = !may ? o->arg : o->arg ? o->arg : o->choices;
    const int n = snprintf(left, sizeof left, "  %c%c%c --%s%s%s%s", o->letter ? '-' : ' ',
                           o->letter ? o->letter : ' ', o->letter ? ',' : ' ', o->name,
                           may   ? "[="
                           : arg ? " "
                                 : "",
                           arg ? arg : "", may ? "]" : "");
    if (n + 2 > COLUMN)
        printf("%s\n%*s", left, COLUMN, "");
    else
        printf("%s%*s", left, COLUMN - n, "");
    print_help(o->help);
}

static void print_options(const cli_tool *t)
{
    const cli_opt *o;
    const char *last = "";
    for (size_t i = 0; (o = cli_option(t, i)); i++) {
        const char *heading = cli_heading(t, i);
        if (strcmp(heading, last) != 0)
            printf("\n%s:\n", heading);
        last = heading;
        print_option(o);
    }
}

static void print_examples(const cli_tool *t, FILE *f)
{
    size_t widest = 0;
    for (const cli_example *e = t->examples; e->command; e++)
        widest = strlen(e->command) > widest ? strlen(e->command) : widest;
    for (const cli_example *e = t->examples; e->command; e++)
        fprintf(f, "  %-*s   %s\n", (int)widest, e->command, e->what);
}

/* Has the form of every other error. */
void cli_short_help(const cli_tool *t, FILE *f)
{
    fprintf(f, "%s: no input file; usage: %s [OPTION...] %s\n", t->name, t->name, t->operands);
    print_examples(t, f);
    fprintf(f, "try: %s --help\n", t->name);
}

void cli_help(const cli_tool *t)
{
    printf("%s - %s\n\nExamples:\n", t->name, t->summary);
    print_examples(t, stdout);
    printf("\nUsage: %s [OPTION...] %s\n", t->name, t->operands);
    for (const char *const *p = t->about; *p; p++)
        printf("%s%s\n", p[0][0] == ' ' ? "" : "\n", *p);
    print_options(t);
    puts("\nExit status:\n  0    done");
    if (t->status_1)
        printf("  1    %s\n", t->status_1);
    printf("  2    error: usage, I/O, damaged or unknown file\n"
           "  3    valid, but this version does not support it\n");
    if (t->has_ranks)
        puts("  4    another process of the job died or did not arrive in time");
    if (t->has_devices)
        puts("  5    a GPU failed during the run");
    printf("  130  interrupted\n"
           "Full manual: man %s\n",
           t->name);
}

/* Scripts read the first line only. */
void cli_version(const cli_tool *t)
{
    const char *part;
    if (cli.json)
        printf("{\"name\": \"%s\", \"version\": \"%s\", \"inside\": [", t->name, pg_version());
    else
        printf("%s (libpg) %s\n", t->name, pg_version());
    for (size_t i = 0; (part = pg_build_info(i)); i++)
        printf(cli.json ? "%s\"%s\"" : "%s  %s\n", cli.json && i > 0 ? ", " : "", part);
    if (cli.json)
        puts("]}");
}

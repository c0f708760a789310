/* cli_help.c - --help and the short text of a call without operands, from the option table. */
#include <string.h>

#include "cli.h"

enum { COLUMN = 26 }; /* where the explanations start */

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
        printf("%s\n%*s%s\n", left, COLUMN, "", o->help);
    else
        printf("%s%*s%s\n", left, COLUMN - n, "", o->help);
}

static void print_examples(const cli_tool *t, FILE *f)
{
    size_t widest = 0;
    for (const cli_example *e = t->examples; e->command; e++)
        widest = strlen(e->command) > widest ? strlen(e->command) : widest;
    for (const cli_example *e = t->examples; e->command; e++)
        fprintf(f, "  %-*s   %s\n", (int)widest, e->command, e->what);
}

/* In the shape of every other error. */
void cli_short_help(const cli_tool *t, FILE *f)
{
    fprintf(f, "%s: what file? usage: %s [OPTION...] %s\n", t->name, t->name, t->operands);
    print_examples(t, f);
    fprintf(f, "try: %s --help\n", t->name);
}

void cli_help(const cli_tool *t)
{
    const cli_opt *o;
    printf("%s - %s\n\nExamples:\n", t->name, t->summary);
    print_examples(t, stdout);
    printf("\nUsage: %s [OPTION...] %s\n", t->name, t->operands);
    for (const char *const *p = t->about; *p; p++)
        printf("%s%s\n", p[0][0] == ' ' ? "" : "\n", *p);
    printf("\nOptions:\n");
    for (size_t i = 0; (o = cli_option(t, i)); i++)
        print_option(o);
    puts("\nExit status:\n  0    done");
    if (t->status_1)
        printf("  1    %s\n", t->status_1);
    printf("  2    error: usage, I/O, damaged or unknown file\n"
           "  3    valid, but not covered by this version\n");
    if (t->has_ranks)
        puts("  4    another process of the job is gone, or did not come in time");
    if (t->has_devices)
        puts("  5    a GPU failed while it worked");
    printf("  130  interrupted\n"
           "Full manual: man %s\n",
           t->name);
}

/* cli_man.c - the manual page in mdoc(7), from the option table. The build runs each tool with the
 * hidden option --man and installs what it prints. */
#include <ctype.h>
#include <string.h>

#include "cli.h"

#define RELEASE_DATE \
    "November 28, 2026" /* date of this text, not of the build: builds are reproducible */

/* mdoc text: every sentence on a line of its own, and no line that starts like a macro. */
static void man_text(const char *s)
{
    for (int at_start = 1; *s; s++) {
        if (at_start && (*s == '.' || *s == '\''))
            fputs("\\&", stdout);
        if (*s == '\\')
            fputs("\\e", stdout);
        else if (*s == '-' && s[1] == '-')
            fputs("\\-", stdout);
        else
            putchar(*s);
        at_start = *s == '\n';
        if (s[0] == '.' && s[1] == ' ' && isupper((unsigned char)s[2])) {
            putchar('\n');
            s++;
        }
    }
}

static void man_quoted(const char *s)
{
    putchar('"');
    for (; *s; s++) {
        if (*s == '"')
            fputs("\"\"", stdout);
        else if (*s == '\\')
            fputs("\\e", stdout);
        else
            putchar(*s);
    }
    putchar('"');
}

static void print_option(const cli_opt *o)
{
    fputs(".It ", stdout);
    if (o->letter)
        printf("Fl %c , ", o->letter);
    printf("Fl -%s", o->name);
    if (cli_may_have_argument(o))
        printf(" Ns [=%s]", o->arg ? o->arg : o->choices);
    else if (o->arg)
        printf(" Ar %s", o->arg);
    putchar('\n');
    if (o->help[0] != '-')
        putchar(toupper((unsigned char)o->help[0]));
    man_text(o->help + (o->help[0] != '-'));
    puts(".");
}

static void print_options(const cli_tool *t)
{
    const cli_opt *o;
    const char *last = "";
    puts(".Sh OPTIONS");
    for (size_t i = 0; (o = cli_option(t, i)); i++) {
        const char *heading = cli_heading(t, i);
        if (strcmp(heading, last) != 0) {
            if (i > 0)
                puts(".El");
            if (strcmp(heading, "Options") != 0)
                printf(".Ss %s\n", heading);
            puts(".Bl -tag -width Ds");
        }
        last = heading;
        print_option(o);
    }
    puts(".El");
}

static void print_about(const cli_tool *t)
{
    int listing = 0;
    puts(".Sh DESCRIPTION\n.Nm");
    printf("%s.\n", t->summary);
    for (const char *const *p = t->about; *p; p++) {
        const int shown = p[0][0] == ' ';
        if (listing && !shown)
            puts(".Ed");
        if (!shown)
            puts(".Pp");
        else if (!listing)
            puts(".Bd -literal -offset indent");
        man_text(shown ? *p + 2 : *p);
        putchar('\n');
        listing = shown;
    }
    if (listing)
        puts(".Ed");
}

static void print_status(const cli_tool *t)
{
    puts(".Sh EXIT STATUS\n.Bl -tag -width 130 -compact\n.It 0\nDone.");
    if (t->status_1)
        printf(".It 1\nThe answer is no: %s.\n", t->status_1);
    puts(".It 2\nError: usage, I/O, damaged or unknown file.\n"
         ".It 3\nThe file is valid, but this version does not support it.");
    if (t->has_devices)
        puts("Or a named GPU does not exist, or a library that it needs is missing.");
    if (t->has_ranks)
        puts(".It 4\nAnother process of the same job died or did not arrive in time.");
    if (t->has_devices)
        puts(".It 5\nA GPU failed during the run.");
    puts(".It 130\nInterrupted.\n.El");
}

void cli_man(const cli_tool *t)
{
    static const char *const all[] = {"pginfo", "pgunwrap", "pgwrap"};
    puts(".Dd " RELEASE_DATE);
    fputs(".Dt ", stdout);
    for (const char *p = t->name; *p; p++)
        putchar(toupper((unsigned char)*p));
    printf(" 1\n.Os libpg %s\n.Sh NAME\n.Nm %s\n.Nd %s\n", pg_version(), t->name, t->summary);
    printf(".Sh SYNOPSIS\n.Nm\n.Op Ar OPTION ...\n");
    for (const char *p = t->operands; *p;) {
        const size_t n = strcspn(p, " ");
        printf(".Ar %.*s\n", (int)n, p);
        p += n + (p[n] == ' ');
    }
    print_about(t);
    print_options(t);
    puts(".Sh ENVIRONMENT\nColours are off where\n.Ev NO_COLOR\nis set or\n.Ev TERM\nis dumb.");
    if (t->has_devices)
        puts(".Pp\n.Ev CUDA_VISIBLE_DEVICES\n"
             "lists the GPUs that the driver shows, in the order in which they are numbered, by "
             "number or\nby name\n.Pq nvidia-smi -L .\n"
             "The list ends before the first GPU that does not exist; -1 or an empty value hides "
             "all.\n.Pp\n"
             ".Ev PG_CUDA_PLUGIN\nis the path of pg-cuda.so, if it does not lie beside libpg.");
    print_status(t);
    puts(".Sh EXAMPLES");
    for (const cli_example *e = t->examples; e->command; e++) {
        putchar(toupper((unsigned char)e->what[0]));
        man_text(e->what + 1);
        printf(":\n.Pp\n.Dl ");
        man_quoted(e->command);
        putchar('\n');
        if (e[1].command)
            puts(".Pp");
    }
    puts(".Sh SEE ALSO");
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strcmp(all[i], t->name) != 0)
            printf(".Xr %s 1 ,\n", all[i]);
    puts(".Xr pg 7");
}

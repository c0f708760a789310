/* cli_complete.c - completion scripts for bash, zsh and fish, from the option table. */
#include <string.h>

#include "cli.h"

/* The choices of an option ("a|b|c") with blanks between them. */
static void print_choices(const char *choices)
{
    for (const char *p = choices; *p; p++)
        putchar(*p == '|' ? ' ' : *p);
}

static void bash(const cli_tool *t)
{
    const cli_opt *o;
    printf("# bash completion for %s\n_%s() {\n", t->name, t->name);
    puts("    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
         "    case $prev in");
    for (size_t i = 0; (o = cli_option(t, i)); i++) {
        if (!cli_needs_argument(o))
            continue;
        printf("    --%s", o->name);
        if (o->letter)
            printf("|-%c", o->letter);
        fputs(") ", stdout);
        if (o->choices) {
            fputs("COMPREPLY=($(compgen -W \"", stdout);
            print_choices(o->choices);
            fputs("\" -- \"$cur\")); return ;;\n", stdout);
        } else {
            puts(cli_wants_file(o) ? "COMPREPLY=($(compgen -f -- \"$cur\")); return ;;"
                                   : "COMPREPLY=(); return ;;");
        }
    }
    puts("    esac\n    case $cur in");
    fputs("    -*) COMPREPLY=($(compgen -W \"", stdout);
    for (size_t i = 0; (o = cli_option(t, i)); i++)
        printf("%s--%s", i ? " " : "", o->name);
    puts("\" -- \"$cur\")) ;;\n"
         "    *) COMPREPLY=($(compgen -f -- \"$cur\")) ;;\n"
         "    esac\n}");
    printf("complete -o filenames -F _%s %s\n", t->name, t->name);
}

/* Text inside single quotes and, for zsh, inside [brackets]. */
static void print_help_text(const char *s, int zsh)
{
    for (; *s; s++) {
        if (*s == '\'')
            fputs(zsh ? "'\\''" : "\\'", stdout);
        else if (zsh && (*s == '[' || *s == ']' || *s == ':'))
            printf("\\%c", *s);
        else
            putchar(*s);
    }
}

static void zsh(const cli_tool *t)
{
    const cli_opt *o;
    printf("#compdef %s\n_arguments -s \\\n", t->name);
    for (size_t i = 0; (o = cli_option(t, i)); i++) {
        if (o->letter)
            printf("  '(-%c --%s)'{-%c,--%s%s}'[", o->letter, o->name, o->letter, o->name,
                   cli_needs_argument(o) ? "=" : "");
        else
            printf("  '--%s%s[", o->name, cli_needs_argument(o) ? "=" : "");
        print_help_text(o->help, 1);
        putchar(']');
        if (!cli_needs_argument(o)) {
            puts("' \\");
            continue;
        }
        if (o->choices) {
            printf(":%s:(", o->arg);
            print_choices(o->choices);
            putchar(')');
        } else {
            printf(":%s:%s", o->arg, cli_wants_file(o) ? "_files" : "");
        }
        puts("' \\");
    }
    puts("  '*:file:_files'");
}

static void fish(const cli_tool *t)
{
    const cli_opt *o;
    for (size_t i = 0; (o = cli_option(t, i)); i++) {
        printf("complete -c %s", t->name);
        if (o->letter)
            printf(" -s %c", o->letter);
        printf(" -l %s", o->name);
        if (cli_needs_argument(o) && o->choices) {
            fputs(" -x -a '", stdout);
            print_choices(o->choices);
            putchar('\'');
        } else if (cli_needs_argument(o)) {
            fputs(cli_wants_file(o) ? " -r" : " -x", stdout);
        }
        fputs(" -d '", stdout);
        print_help_text(o->help, 0);
        puts("'");
    }
}

int cli_completion(const cli_tool *t, const char *shell)
{
    if (strcmp(shell, "bash") == 0)
        bash(t);
    else if (strcmp(shell, "zsh") == 0)
        zsh(t);
    else
        fish(t);
    return CLI_OK;
}

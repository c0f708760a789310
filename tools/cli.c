/* cli.c - parses by the option table: options, suggestions, usage errors, signals, standard
 * streams. */
#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

cli_common cli;

static const cli_tool *this_tool;
static int help, version, man;
static const char *completion;

static const cli_opt everywhere[] = {
    CLI_HEADING("Display and help"),
    {'q', "quiet", NULL, &cli.quiet, NULL, NULL, NULL, "print nothing but errors"},
    {'v', "verbose", NULL, &cli.verbose, NULL, NULL, NULL, "also print the reasons"},
    {0, "json", NULL, &cli.json, NULL, NULL, NULL, "print one JSON document instead of text"},
    {0, "color", "WHEN", NULL, &cli.color, NULL, "auto|always|never",
     "colours: auto, always or never"},
    {0, "progress", "WHEN", NULL, &cli.progress, NULL, "auto|always|never",
     "show progress on stderr: auto (after 0.5 s; without a terminal every 10 s), always or never"},
    {0, "completion", "SHELL", NULL, &completion, NULL, "bash|zsh|fish",
     "print the completion script for bash, zsh or fish"},
    {'h', "help", NULL, &help, NULL, NULL, NULL, "print this text"},
    {'V', "version", NULL, &version, NULL, NULL, NULL, "print the version"},
    {0},
};

static char *typed[256]; /* the command line before operands move; empty if it is longer */
static int n_typed;

static const cli_opt parts[] = {
    CLI_HEADING("Reading"),
    {0, "part", "KEY", NULL, &cli.part, NULL, NULL,
     "take this part of a checkpoint (model_ema, nets.generator, optimizer; . for all)"},
    {0},
};

static const cli_opt writers[] = {
    CLI_HEADING("Writing"),
    {'o', "output", "FILE", NULL, &cli.output, NULL, NULL,
     "write to FILE (instead of the last operand)"},
    {'f', "force", NULL, &cli.force, NULL, NULL, NULL, "replace an existing output"},
    {'n', "dry-run", NULL, &cli.dry_run, NULL, NULL, NULL, "check everything, write nothing"},
    {0, "no-sync", NULL, &cli.no_sync, NULL, NULL, NULL,
     "do not wait until the output is on the disk"},
    {0, "skip-verify", NULL, &cli.skip_verify, NULL, NULL, NULL, "do not read the output back"},
    {0},
};

static int has_own(const cli_tool *t, const char *name)
{
    for (const cli_opt *o = t->opts; o && o->name; o++)
        if (strcmp(o->name, name) == 0)
            return 1;
    return 0;
}

enum { N_TABLES = 4 };

/* The i-th option of the first tables of a tool, and its heading. */
static const cli_opt *look_up(const cli_tool *t, size_t n_tables, size_t i, const char **heading)
{
    const cli_opt *const tables[N_TABLES] = {t->opts, t->groups & CLI_WRITES ? writers : NULL,
                                             t->groups & CLI_READS_PARTS ? parts : NULL,
                                             everywhere};
    *heading = "Options";
    for (size_t k = 0; k < n_tables; k++)
        for (const cli_opt *o = tables[k]; o && o->name; o++)
            if (!*o->name)
                *heading = o->help;
            else if ((k == 0 || !has_own(t, o->name)) && i-- == 0)
                return o;
    return NULL;
}

const cli_opt *cli_option(const cli_tool *t, size_t i)
{
    const char *heading;
    return look_up(t, N_TABLES, i, &heading);
}

const cli_opt *cli_own_option(const cli_tool *t, size_t i)
{
    const char *heading;
    return look_up(t, 1, i, &heading);
}

const char *cli_heading(const cli_tool *t, size_t i)
{
    const char *heading;
    (void)look_up(t, N_TABLES, i, &heading);
    return heading;
}

int cli_has_option(const char *name)
{
    const cli_opt *o;
    for (size_t i = 0; (o = cli_option(this_tool, i)); i++)
        if (strcmp(o->name, name) == 0)
            return 1;
    return 0;
}

const char *cli_tool_name(void)
{
    return this_tool->name;
}

int cli_wants_file(const cli_opt *o)
{
    return o->arg && (strcmp(o->arg, "FILE") == 0 || strcmp(o->arg, "MODEL") == 0);
}

int cli_needs_argument(const cli_opt *o)
{
    return o->arg && !(o->count && o->text);
}

int cli_may_have_argument(const cli_opt *o)
{
    return o->count && o->text;
}

int cli_takes_list(const cli_opt *o)
{
    const size_t n = o->arg ? strlen(o->arg) : 0;
    return n >= 4 && strcmp(o->arg + n - 4, ",...") == 0;
}

int cli_has_events(void)
{
    return this_tool->has_events;
}

/* Ends the program; hint may be NULL. */
_Noreturn static void refuse(const char *hint, const char *fmt, ...) PG_PRINTF(2, 3);
_Noreturn static void refuse(const char *hint, const char *fmt, ...)
{
    char msg[1024];
    pg_err err = {.code = PG_OK};
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(msg, sizeof msg, fmt, ap);
    va_end(ap);
    (void)pg_fail(&err, PG_E_ARG, "%s", msg);
    if (hint)
        pg_err_hint(&err, "%s", hint);
    if (this_tool->refused)
        this_tool->refused(&err);
    exit(err.msg[0] ? cli_fail(&err) : cli_status(err.code));
}

static const char *usage_hint(void)
{
    static cli_buf hint;
    snprintf(hint.s, sizeof hint.s, "%s --help", this_tool->name);
    return hint.s;
}

static const char *option_name(const void *tool, size_t i)
{
    const cli_opt *o = cli_option(tool, i);
    return o ? o->name : NULL;
}

_Noreturn static void unknown_option(const char *name)
{
    const char *best = pg_nearest(name, option_name, this_tool);
    refuse(best ? NULL : usage_hint(), "unknown option --%s%s%s%s", cli_name(name).s,
           best ? "; did you mean --" : "", best ? best : "", best ? "?" : "");
}

static int is_choice(const char *choices, const char *value)
{
    const size_t n = strlen(value);
    for (const char *p = choices; p; p = strchr(p, '|'), p = p ? p + 1 : NULL)
        if (n && strncmp(p, value, n) == 0 && (p[n] == '|' || p[n] == 0))
            return 1;
    return 0;
}

static const cli_opt *set_ones[128];
static size_t n_set;

static int was_given(const cli_opt *o)
{
    for (size_t i = 0; i < n_set; i++)
        if (set_ones[i] == o)
            return 1;
    return 0;
}

const cli_opt *cli_given_option(const char *name)
{
    for (size_t i = 0; i < n_set; i++)
        if (strcmp(set_ones[i]->name, name) == 0)
            return set_ones[i];
    return NULL;
}

int cli_given(const char *name)
{
    return cli_given_option(name) != NULL;
}

/* For text that lives as long as the program. */
static char *take_memory(size_t size)
{
    char *mem = malloc(size);
    if (mem)
        return mem;
    cli_complain(NULL, NULL, "out of memory");
    exit(CLI_TROUBLE);
}

/* Lists ("A,B,...") may be given in pieces. */
static const char *add_to_list(const cli_opt *o, const char *had, const char *value)
{
    if (!had || !was_given(o) || !cli_takes_list(o))
        return value;
    const size_t size = strlen(had) + strlen(value) + 2;
    char *both = take_memory(size);
    snprintf(both, size, "%s,%s", had, value);
    return both;
}

/* "a=1, b=2" in quotes: people write blanks after commas. */
static const char *without_blanks(const cli_opt *o, const char *value)
{
    if (!o->arg || !strchr(o->arg, '=') || !strstr(value, ", "))
        return value;
    char *made = take_memory(strlen(value) + 1), *to = made;
    for (const char *p = value; *p; p++)
        if (*p != ' ' || to == made || to[-1] != ',')
            *to++ = *p;
    *to = '\0';
    return made;
}

static int set_value(const cli_opt *o, const char *value, cli_buf *why)
{
    if (o->count)
        ++*o->count;
    if (o->count && !value)
        return 1;
    if (o->choices && !is_choice(o->choices, value)) {
        snprintf(why->s, sizeof why->s, "\"%.100s\" is not one of %s", cli_name(value).s,
                 o->choices);
        return 0;
    }
    if (o->text) {
        *o->text = add_to_list(o, *o->text, without_blanks(o, value));
        return 1;
    }
    char *end = NULL;
    errno = 0;
    const unsigned long n = strtoul(value, &end, 10);
    if (errno || *end || value[0] < '0' || value[0] > '9' || n == 0 || n > 1000000) {
        snprintf(why->s, sizeof why->s, "\"%.100s\" is not a whole number from 1",
                 cli_name(value).s);
        return 0;
    }
    *o->number = (unsigned)n;
    return 1;
}

int cli_set(const cli_opt *o, const char *value, cli_buf *why)
{
    if (!set_value(o, value, why))
        return 0;
    if (!was_given(o) && n_set < sizeof set_ones / sizeof *set_ones)
        set_ones[n_set++] = o;
    return 1;
}

static void set_option(const cli_opt *o, const char *value)
{
    cli_buf why;
    if (cli_set(o, value, &why))
        return;
    refuse(NULL, "--%s: %s", o->name, why.s);
}

/* "--name", "--name=value" or "--name value"; returns how many more arguments were used. */
static int long_option(const char *arg, const char *next)
{
    const char *eq = strchr(arg, '=');
    char name[64];
    const cli_opt *o;
    snprintf(name, sizeof name, "%.*s", eq ? (int)(eq - arg) : (int)strlen(arg), arg);
    if (strcmp(name, "man") == 0 && !eq) {
        man = 1;
        return 0;
    }
    for (size_t i = 0; (o = cli_option(this_tool, i)); i++)
        if (strcmp(name, o->name) == 0)
            break;
    if (!o) {
        unknown_option(name);
    } else if (!cli_needs_argument(o) && !cli_may_have_argument(o) && eq) {
        refuse(usage_hint(), "--%s takes no value", name);
    } else if (cli_needs_argument(o) && !eq && !next) {
        refuse(usage_hint(), "--%s needs a value (%s)", name, o->arg);
    } else {
        set_option(o, eq ? eq + 1 : cli_needs_argument(o) ? next : NULL);
        return cli_needs_argument(o) && !eq;
    }
    return 0;
}

/* "-x", "-xyz" (switches), "-xvalue" or "-x value"; returns how many more arguments were used. */
static int short_options(const char *arg, const char *next)
{
    for (; *arg; arg++) {
        const cli_opt *o;
        for (size_t i = 0; (o = cli_option(this_tool, i)); i++)
            if (o->letter == *arg)
                break;
        if (!o) {
            const char one[2] = {*arg, 0};
            refuse(usage_hint(), "unknown option -%s", cli_name(one).s);
        } else if (!cli_needs_argument(o)) {
            set_option(o, NULL);
        } else if (arg[1]) {
            set_option(o, arg + 1 + (arg[1] == '='));
            return 0;
        } else if (next) {
            set_option(o, next);
            return 1;
        } else {
            refuse(usage_hint(), "-%c needs a value (%s)", *arg, o->arg);
        }
    }
    return 0;
}

static volatile sig_atomic_t n_signals;
static volatile int cancelled;
static int has_cancel;

/* A second Ctrl-C means: now. A batch system sends SIGTERM several times, so only the first one
 * counts. */
CLI_AT_A_SIGNAL static void on_signal(int sig)
{
    if (!has_cancel || (n_signals++ && sig == SIGINT))
        cli_leave(CLI_INTERRUPTED);
    __atomic_store_n(&cancelled, 1, __ATOMIC_RELAXED); /* the tool may have threads */
}

const volatile int *cli_cancel(void)
{
    has_cancel = 1;
    return &cancelled;
}

/* Opens standard streams that the caller closed: otherwise an output file could get such a
 * descriptor, and an error message would be written into it. They are open for reading only, so
 * that a write fails. */
static void start(const cli_tool *t)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    static char stack[64 << 10]; /* a signal frame with AVX-512 registers takes several kB */
    const stack_t apart = {.ss_sp = stack, .ss_size = sizeof stack};
    struct sigaction sa, old;
    this_tool = t;
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDONLY) < 0)
            _exit(CLI_TROUBLE);
    (void)setvbuf(stderr, NULL, _IOLBF, 0); /* the processes of a job write whole lines */
    memset(&sa, 0, sizeof sa);
    sigemptyset(&sa.sa_mask);
    sa.sa_handler = on_signal;
    /* SA_RESTART: a line that is being printed is printed whole. SA_ONSTACK: code that oneDNN
     * generates keeps values below the stack pointer, where the handler's frame would lie. */
    sa.sa_flags = SA_RESTART | (sigaltstack(&apart, NULL) == 0 ? SA_ONSTACK : 0);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        if (sigaction(signals[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
            sigaction(signals[i], &sa, NULL);
    /* If the reader of a pipe goes away, the program ends quietly, but not during a save. */
    sa.sa_handler = t->groups & CLI_WRITES ? SIG_IGN : SIG_DFL;
    sigaction(SIGPIPE, &sa, NULL);
    /* A write beyond the limit on file sizes (ulimit -f) fails with an error instead of a
     * signal. */
    sa.sa_handler = SIG_IGN;
    sigaction(SIGXFSZ, &sa, NULL);
}

/* A writer that could not print its result refuses before it starts. */
static void require_stdout(void)
{
    const int flags = fcntl(STDOUT_FILENO, F_GETFL);
    if (flags >= 0 && (flags & O_ACCMODE) != O_RDONLY)
        return;
    cli_reported_in_json(); /* stdout is closed: print no object */
    refuse(NULL, "standard output is closed; nothing written");
}

/* With --in-place, which takes one operand. */
_Noreturn static void refuse_second(char **argv, size_t n)
{
    const char *second = cli.output ? cli.output : argv[2];
    if (n > 2 || (n > 1 && cli.output))
        refuse(NULL, "--in-place takes one file at a time");
    if (n == 0)
        refuse(NULL, "--in-place changes the file itself: leave out --output");
    if (strcmp(argv[1], second) == 0)
        refuse(NULL, "--in-place changes %s itself: name it once", cli_name(second).s);
    refuse(NULL, "--in-place changes %s itself: leave out %s%s, or --in-place", cli_name(argv[1]).s,
           cli.output ? "--output " : "", cli_name(second).s);
}

/* With --out-dir, n operands are n inputs. */
static void check_inputs(const cli_tool *t, size_t n)
{
    if (!**t->out_dir)
        refuse(NULL, "an empty file name was given (a variable that is not set?)");
    if (cli.output)
        refuse(NULL, "--out-dir names the outputs: leave out --output");
    if (cli.in_place)
        refuse(NULL, "--in-place changes the files themselves: leave out --out-dir");
    if (n == 0)
        refuse(usage_hint(), "operands are missing; usage: %s [OPTION...] %s", t->name,
               t->operands);
}

static void check_operands(const cli_tool *t, char **argv, size_t n)
{
    const size_t given = n;
    cli_buf several;
    if (t->out_dir && cli_given("jobs"))
        refuse(NULL, "--jobs needs --out-dir: one input is one job");
    if (cli.in_place && (cli.output || n > 1))
        refuse_second(argv, n);
    if (cli.output || (cli.in_place && n))
        n++;
    if (n < t->min_operands && !(cli.dry_run && given && n + 1 == t->min_operands))
        refuse(usage_hint(), "%s; usage: %s [OPTION...] %s",
               n ? "an operand is missing" : "operands are missing", t->name, t->operands);
    if (n <= t->max_operands)
        return;
    if (t->out_dir && !cli.output)
        cli_repeat(several.s, sizeof several.s, "--out-dir DIR");
    else
        several.s[0] = 0;
    refuse(several.s[0] ? several.s : usage_hint(), "too many operands; usage: %s [OPTION...] %s",
           t->name, t->operands);
}

static void choose_weights(void)
{
    if (cli.as_trained && (cli.master || cli.part))
        refuse(NULL, "--as-trained and %s exclude each other", cli.master ? "--master" : "--part");
    if (cli.master && cli.part)
        refuse(NULL, "--master and --part exclude each other");
    if (cli.as_trained)
        cli.part = "module";
}

static void finish_parsing(const cli_tool *t, int argc, char **argv, size_t n)
{
    cli_term_init();
    if (help || version || man || completion) {
        int status = CLI_OK;
        if (help)
            cli_help(t);
        else if (version)
            cli_version(t);
        else if (man)
            cli_man(t);
        else
            status = cli_completion(t, completion);
        exit(cli_finish(status));
    }
    if (argc <= 1) {
        cli_short_help(t, stderr);
        exit(CLI_TROUBLE);
    }
    choose_weights();
    if (t->out_dir && *t->out_dir)
        check_inputs(t, n);
    else
        check_operands(t, argv, n);
    if (t->groups & CLI_WRITES && !cli.quiet)
        require_stdout();
}

/* "" comes from an unset shell variable; "-" means a pipe to other programs. */
static void refuse_name(const char *name, int may_be_pipe)
{
    if (!*name)
        refuse(NULL, "an empty file name was given (a variable that is not set?)");
    if (may_be_pipe && strcmp(name, "-") == 0)
        refuse(NULL, "-: a checkpoint is read and written at many positions, so it cannot be a "
                     "pipe; give a file name");
}

/* Errors before --json is parsed are objects, too. */
static void look_for_json(char **argv)
{
    for (size_t i = 1; argv[i] && strcmp(argv[i], "--") != 0; i++)
        if (strncmp(argv[i], "--json", 6) == 0 && (argv[i][6] == '\0' || argv[i][6] == '='))
            cli_expect_json();
}

size_t cli_parse(const cli_tool *t, int argc, char **argv)
{
    size_t n = 0;
    int only_operands = 0;
    start(t);
    n_typed = argc <= (int)(sizeof typed / sizeof *typed) ? argc : 0;
    memcpy(typed, argv, (size_t)n_typed * sizeof *typed);
    cli_term_init();
    look_for_json(argv);
    for (int i = 1; i < argc; i++) {
        char *arg = argv[i];
        if (only_operands || arg[0] != '-' || arg[1] == 0) {
            argv[++n] = arg;
        } else if (strcmp(arg, "--") == 0) {
            only_operands = 1;
        } else if (arg[1] == '-') {
            i += long_option(arg + 2, argv[i + 1]);
        } else {
            i += short_options(arg + 1, argv[i + 1]);
        }
    }
    finish_parsing(t, argc, argv, n);
    for (size_t i = 1; i <= n; i++)
        refuse_name(argv[i], !only_operands && !(t->groups & CLI_READS_STDIN));
    if (cli.output)
        refuse_name(cli.output, 1);
    return n;
}

pg_status cli_model_text(const char *model, const char **text, pg_err *err)
{
    static char *kept;
    pg_status st = PG_OK;
    *text = NULL;
    if (!model || strcmp(model, "-") != 0)
        return PG_OK;
    if (!kept && isatty(STDIN_FILENO))
        st = pg_fail(err, PG_E_ARG, "a terminal; pipe a model's JSON in, or give a file name");
    else if (!kept)
        st = pg_model_text_read(&kept, STDIN_FILENO, err);
    if (st != PG_OK)
        pg_err_prefix(err, "standard input");
    *text = kept;
    return st;
}

static char done[320];

void cli_did(const char *file, const char *what)
{
    snprintf(done, sizeof done, "; %s was %s", cli_name(file).s, what);
}

int cli_finish(int status)
{
    const int failed = ferror(stdout);
    errno = 0;
    if (fflush(stdout) == 0 && !failed)
        return status;
    if (errno ==
        EPIPE) { /* ends as if SIGPIPE had not been ignored: quietly, and visibly to the shell */
        signal(SIGPIPE, SIG_DFL);
        raise(SIGPIPE);
    }
    cli_reported_in_json();
    cli_complain(NULL, NULL, "standard output: %s%s",
                 errno ? strerror(errno) : "could not be written", done);
    return CLI_TROUBLE;
}

void cli_repeat(char *out, size_t cap, const char *option)
{
    size_t n = (size_t)snprintf(out, cap, "%s %s", this_tool->name, option);
    n = n_typed ? n : cap;
    for (int i = 1; i < n_typed && n < cap; i++) {
        const int is_option = typed[i][0] == '-';
        const cli_buf name = cli_name(is_option ? typed[i] : "");
        const cli_quoted operand = is_option ? (cli_quoted){""} : cli_quote(typed[i]);
        const char *shown = is_option ? name.s : operand.s;
        n = *shown ? n + (size_t)snprintf(out + n, cap - n, " %s", shown) : cap;
    }
    if (n >= cap)
        *out = 0;
}

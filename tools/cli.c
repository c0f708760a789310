/* cli.c - the option table at work: parsing, suggestions, errors, signals, standard streams. */
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
    {'q', "quiet", NULL, &cli.quiet, NULL, NULL, NULL, "print nothing but errors"},
    {'v', "verbose", NULL, &cli.verbose, NULL, NULL, NULL, "print the reasons too"},
    {0, "json", NULL, &cli.json, NULL, NULL, NULL, "print one JSON document instead of text"},
    {0, "color", "WHEN", NULL, &cli.color, NULL, "auto|always|never",
     "colours: auto, always or never"},
    {0, "progress", "WHEN", NULL, &cli.progress, NULL, "auto|always|never",
     "tell how far it is on stderr: auto (from 0.5 s on; if no terminal, every 10 s), always or "
     "never"},
    {0, "completion", "SHELL", NULL, &completion, NULL, "bash|zsh|fish",
     "print the completion script for bash, zsh or fish"},
    {'h', "help", NULL, &help, NULL, NULL, NULL, "print this text"},
    {'V', "version", NULL, &version, NULL, NULL, NULL, "print the version"},
    {0},
};

static const cli_opt hdf5[] = {
    {0, "trust-input", NULL, &cli.trust_input, NULL, NULL, NULL,
     "let the HDF5 library itself read what our own reader does not cover"},
    {0},
};

static const cli_opt writers[] = {
    {'o', "output", "FILE", NULL, &cli.output, NULL, NULL,
     "write FILE (instead of the last operand)"},
    {'f', "force", NULL, &cli.force, NULL, NULL, NULL, "replace an existing output"},
    {'n', "dry-run", NULL, &cli.dry_run, NULL, NULL, NULL, "check everything, write nothing"},
    {0, "no-sync", NULL, &cli.no_sync, NULL, NULL, NULL, "do not wait until the disk has it"},
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

const cli_opt *cli_option(const cli_tool *t, size_t i)
{
    const cli_opt *const groups[] = {t->opts, t->groups & CLI_WRITES ? writers : NULL,
                                     t->groups & CLI_READS_HDF5 ? hdf5 : NULL, everywhere};
    for (size_t g = 0; g < sizeof groups / sizeof *groups; g++)
        for (const cli_opt *o = groups[g]; o && o->name; o++)
            if ((g == 0 || !has_own(t, o->name)) && i-- == 0)
                return o;
    return NULL;
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

static void leave_for_usage(void)
{
    fprintf(stderr, "try: %s --help\n", this_tool->name);
    exit(CLI_TROUBLE);
}

static const char *option_name(const void *tool, size_t i)
{
    const cli_opt *o = cli_option(tool, i);
    return o ? o->name : NULL;
}

static void unknown_option(const char *name)
{
    const char *best = pg_nearest(name, option_name, this_tool);
    cli_complain(NULL, NULL, "unknown option --%s%s%s%s", cli_name(name).s,
                 best ? "; did you mean --" : "", best ? best : "", best ? "?" : "");
    if (best)
        exit(CLI_TROUBLE);
    leave_for_usage();
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

int cli_given(const char *name)
{
    for (size_t i = 0; i < n_set; i++)
        if (strcmp(set_ones[i]->name, name) == 0)
            return 1;
    return 0;
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

/* "a=1, b=2" in quotes: people write blanks behind commas. */
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
    cli_complain(NULL, NULL, "--%s: %s", o->name, why.s);
    exit(CLI_TROUBLE);
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
        cli_complain(NULL, NULL, "--%s takes no value", name);
        leave_for_usage();
    } else if (cli_needs_argument(o) && !eq && !next) {
        cli_complain(NULL, NULL, "--%s needs a value (%s)", name, o->arg);
        leave_for_usage();
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
            cli_complain(NULL, NULL, "unknown option -%s", cli_name(one).s);
            leave_for_usage();
        } else if (!cli_needs_argument(o)) {
            set_option(o, NULL);
        } else if (arg[1]) {
            set_option(o, arg + 1 + (arg[1] == '='));
            return 0;
        } else if (next) {
            set_option(o, next);
            return 1;
        } else {
            cli_complain(NULL, NULL, "-%c needs a value (%s)", *arg, o->arg);
            leave_for_usage();
        }
    }
    return 0;
}

static volatile sig_atomic_t n_signals;
static volatile int cancelled;
static int has_cancel;

/* Who presses Ctrl-C again wants it now. A batch system sends SIGTERM several times and means the
 * first one. */
static void on_signal(int sig)
{
    if (!has_cancel || (n_signals++ && sig == SIGINT))
        cli_leave(CLI_INTERRUPTED);
    __atomic_store_n(&cancelled, 1, __ATOMIC_RELAXED); /* a tool may use threads */
}

const volatile int *cli_cancel(void)
{
    has_cancel = 1;
    return &cancelled;
}

/* Standard streams that the caller closed are filled, so that no output file can take their place
 * and be written into by an error message; what is open for reading only reports the write. */
static void start(const cli_tool *t)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction sa, old;
    this_tool = t;
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDONLY) < 0)
            _exit(CLI_TROUBLE);
    (void)setvbuf(stderr, NULL, _IOLBF, 0); /* processes of a job write whole lines */
    memset(&sa, 0, sizeof sa);
    sigemptyset(&sa.sa_mask);
    sa.sa_handler = on_signal;
    sa.sa_flags = SA_RESTART; /* a line that is being printed is printed whole */
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        if (sigaction(signals[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
            sigaction(signals[i], &sa, NULL);
    /* A reader that went away ends the program quietly, but not in the middle of a save. */
    sa.sa_handler = t->groups & CLI_WRITES ? SIG_IGN : SIG_DFL;
    sigaction(SIGPIPE, &sa, NULL);
    /* A limit on file sizes (ulimit -f) is an error of the write that meets it, not the end. */
    sa.sa_handler = SIG_IGN;
    sigaction(SIGXFSZ, &sa, NULL);
}

/* A writer that cannot tell its result says so before it starts. */
static void require_stdout(void)
{
    const int flags = fcntl(STDOUT_FILENO, F_GETFL);
    if (flags >= 0 && (flags & O_ACCMODE) != O_RDONLY)
        return;
    cli_complain(NULL, NULL, "standard output is closed; nothing written");
    exit(CLI_TROUBLE);
}

static void print_version(void)
{
    if (cli.json)
        printf("{\"name\": \"%s\", \"version\": \"%s\"}\n", this_tool->name, pg_version());
    else
        printf("%s (libpg) %s\n", this_tool->name, pg_version());
}

/* With --in-place, which has one operand. */
static void refuse_second(char **argv, size_t n)
{
    const char *second = cli.output ? cli.output : argv[2];
    if (n > 2 || (n > 1 && cli.output))
        cli_complain(NULL, NULL, "--in-place takes one file at a time");
    else if (n == 0)
        cli_complain(NULL, NULL,
                     "--in-place changes the file itself: it does not go with --output");
    else if (strcmp(argv[1], second) == 0)
        cli_complain(NULL, NULL, "--in-place changes %s itself: name it once", cli_name(second).s);
    else
        cli_complain(NULL, NULL, "--in-place changes %s itself: leave out %s%s, or --in-place",
                     cli_name(argv[1]).s, cli.output ? "--output " : "", cli_name(second).s);
    exit(CLI_TROUBLE);
}

static void finish_parsing(const cli_tool *t, int argc, char **argv, size_t n)
{
    const size_t given = n;
    cli_term_init();
    if (help || version || man || completion) {
        int status = CLI_OK;
        if (help)
            cli_help(t);
        else if (version)
            print_version();
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
    if (cli.in_place && (cli.output || n > 1))
        refuse_second(argv, n);
    if (cli.output || (cli.in_place && n))
        n++;
    if (n < t->min_operands && !(cli.dry_run && given && n + 1 == t->min_operands)) {
        cli_complain(NULL, NULL, "%s; usage: %s [OPTION...] %s",
                     n ? "an operand is missing" : "operands are missing", t->name, t->operands);
        leave_for_usage();
    }
    if (n > t->max_operands) {
        cli_complain(NULL, NULL, "too many operands; usage: %s [OPTION...] %s", t->name,
                     t->operands);
        leave_for_usage();
    }
    if (t->groups & CLI_WRITES && !cli.quiet)
        require_stdout();
}

/* "" is a shell variable that was never set; "-" means a pipe to other programs. */
static void refuse_name(const char *name, int may_be_pipe)
{
    if (!*name)
        cli_complain(NULL, NULL, "an empty file name was given (a variable that is not set?)");
    else if (may_be_pipe && strcmp(name, "-") == 0)
        cli_complain(NULL, NULL,
                     "-: a checkpoint cannot come from a pipe or go to one, its parts are reached "
                     "at many places; give a file name");
    else
        return;
    exit(CLI_TROUBLE);
}

size_t cli_parse(const cli_tool *t, int argc, char **argv)
{
    size_t n = 0;
    int only_operands = 0;
    start(t);
    cli_term_init();
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
        refuse_name(argv[i], !only_operands);
    if (cli.output)
        refuse_name(cli.output, 1);
    return n;
}

static void print_block(const char *msg, const char *detail, const char *hint)
{
    cli_progress_end();
    fflush(stdout);
    cli_color(stderr, CLI_BAD);
    cli_printf(stderr, "%s:", this_tool->name);
    cli_color(stderr, CLI_PLAIN);
    cli_printf(stderr, " %s\n", msg);
    while (detail && *detail) {
        const size_t n = strcspn(detail, "\n");
        cli_printf(stderr, "  %.*s\n", (int)n, detail);
        detail += n + (detail[n] == '\n');
    }
    if (hint && *hint)
        cli_printf(stderr, "try: %s\n", hint);
}

int cli_complain(const char *detail, const char *hint, const char *fmt, ...)
{
    char msg[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(msg, sizeof msg, fmt, ap);
    va_end(ap);
    print_block(msg, detail, hint);
    return CLI_TROUBLE;
}

int cli_status(pg_status code)
{
    switch (code) {
    case PG_OK: return CLI_OK;
    case PG_E_NO:
    case PG_E_AMBIGUOUS:
    case PG_E_MISMATCH: return CLI_NO;
    case PG_E_UNSUPPORTED: return CLI_LACKS;
    case PG_E_DEVICE: return CLI_DEVICE;
    case PG_E_PEER: return CLI_PEER;
    case PG_E_CANCELLED: return CLI_INTERRUPTED;
    case PG_E_ARG:
    case PG_E_NOMEM:
    case PG_E_IO:
    case PG_E_FORMAT:
    case PG_E_LIMIT:
    case PG_E_UNKNOWN: break;
    }
    return CLI_TROUBLE;
}

int cli_worse(int a, int b)
{
    static const int order[] = {CLI_OK, CLI_NO, CLI_LACKS, CLI_PEER, CLI_DEVICE, CLI_TROUBLE};
    for (size_t i = 0; i < sizeof order / sizeof *order; i++)
        if (a == order[i])
            return b;
        else if (b == order[i])
            return a;
    return a;
}

int cli_fail(const pg_err *err)
{
    if (err->msg[0]) /* else another process of the same job says it */
        print_block(err->msg, err->detail, err->hint);
    return cli_status(err->code);
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
    if (errno == EPIPE) { /* as if the signal had not been ignored: quiet, and seen by the shell */
        signal(SIGPIPE, SIG_DFL);
        raise(SIGPIPE);
    }
    cli_complain(NULL, NULL, "standard output: %s%s",
                 errno ? strerror(errno) : "could not be written", done);
    return CLI_TROUBLE;
}

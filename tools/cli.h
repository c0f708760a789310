/* cli.h - what all pg tools share: one option table gives parsing, --help, the man page and the
 * shell completions; one place prints errors, handles signals and knows the terminal.
 *
 * Exit status as in diff(1): 0 done, 1 the answer is "no", 2 trouble; 3 valid, but this build
 * cannot; 130 interrupted. */
#ifndef CLI_H
#define CLI_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <pg/pg.h>

enum {
    CLI_OK = 0,
    CLI_NO = 1,
    CLI_TROUBLE = 2,
    CLI_LACKS = 3,
    CLI_PEER = 4,
    CLI_DEVICE = 5,
    CLI_INTERRUPTED = 130
};

/* One option. One of count, text and number is set: a switch counts how often it was given, an
 * option with an argument keeps the last one, a list ("A,...") all of them. If count and text are
 * both set, it is a switch that may have an argument after '='. A tool's own option hides a common
 * one of the same name. CLI_HEADING rows divide a table for --help and the manual. The table ends
 * with {0}. */
typedef struct cli_opt {
    char letter;         /* 0 = none */
    const char *name;    /* without "--" */
    const char *arg;     /* placeholder of the argument; NULL = a switch */
    int *count;          /* switch */
    const char **text;   /* argument as it is */
    unsigned *number;    /* argument as a whole number from 1 */
    const char *choices; /* "auto|always|never": the only arguments allowed; may be NULL */
    const char *help;    /* one sentence without a full stop */
} cli_opt;

/* A row that is no option: the heading of the options that follow. */
#define CLI_HEADING(words)                         \
    {                                              \
        0, "", NULL, NULL, NULL, NULL, NULL, words \
    }

typedef struct cli_example {
    const char *command, *what;
} cli_example;

/* Groups of common options; operands may be "-", a model's JSON on standard input. */
enum { CLI_READS_HDF5 = 1, CLI_WRITES = 2, CLI_READS_PARTS = 4, CLI_READS_STDIN = 8 };

typedef struct cli_tool {
    const char *name;
    const char *operands; /* as in the synopsis, "IN OUT" */
    const char *summary;  /* what the tool does: no full stop, not capitalised (man's NAME line) */
    const cli_example *examples; /* ends with {0} */
    const char *const *about;    /* paragraphs for --help and the manual; ends with NULL; lines that
                                  * start with two blanks are shown as they are */
    const char *status_1;        /* what exit status 1 means here, NULL if it does not occur */
    int has_events;              /* --json: an object per line, each with an "event" */
    int has_devices;             /* status 5: one of them failed */
    int has_ranks;               /* status 4: another process of the job did not come */
    const cli_opt *opts;
    unsigned groups;
    size_t min_operands, max_operands;
    void (*refused)(pg_err *err); /* what cannot be, before it is printed; may be NULL */
} cli_tool;

/* Values of the options that several tools have. */
typedef struct cli_common {
    int quiet, verbose, json;
    int trust_input;                          /* CLI_READS_HDF5 */
    const char *part;                         /* CLI_READS_PARTS */
    int force, dry_run, no_sync, skip_verify; /* CLI_WRITES */
    int in_place;                             /* there is no output; an option of the tool's own */
    const char *output;                       /* CLI_WRITES: -o FILE, the last operand instead */
    const char *color, *progress;
} cli_common;
extern cli_common cli;

/* Parses argv: options and operands in any order. Operands are moved to argv[1], argv[2], ...;
 * their number is returned. Exits after --help, --version, --man, --completion and usage errors. */
size_t cli_parse(const cli_tool *tool, int argc, char **argv);

/* The command as it was typed, with this option first; "" if it does not fit, or holds what a
 * terminal must not get. */
void cli_repeat(char *out, size_t cap, const char *option);

/* Of the tool that was parsed for. */
int cli_has_option(const char *name);
const char *cli_tool_name(void);
int cli_has_events(void);

/* The i-th option that a tool has, its own first, then the common ones; NULL at the end.
 * cli_own_option(): without the common ones. cli_heading(): the heading that the i-th option stands
 * under. */
const cli_opt *cli_option(const cli_tool *tool, size_t i);
const cli_opt *cli_own_option(const cli_tool *tool, size_t i);
const char *cli_heading(const cli_tool *tool, size_t i);

/* Whether an argument of the option is the name of a file; whether there must be an argument, or
 * may be one; whether it is a list. */
int cli_wants_file(const cli_opt *o);
int cli_needs_argument(const cli_opt *o);
int cli_may_have_argument(const cli_opt *o);
int cli_takes_list(const cli_opt *o);

/* Was it on the command line, or set by cli_set()? */
int cli_given(const char *name);

/* Sets an option as the command line does (value NULL: a switch without an argument), for values
 * that come from elsewhere: 0 and `why` filled where it cannot be that. */
typedef struct cli_buf cli_buf;
int cli_set(const cli_opt *o, const char *value, cli_buf *why);

/* A signal sets this flag once a tool has asked for it; before, it ends the program at once, and so
 * does SIGINT behind another one. */
const volatile int *cli_cancel(void);

/* Ends the program now, from a signal handler too; its temporary files are removed. */
_Noreturn void cli_leave(int status);

/* Prints "tool: message", indented details and "try: hint" to stderr; returns the exit status that
 * fits err->code. cli_status() only says the status. With --json the first error is an object on
 * stdout as well: {"error", "code", "status", "details", "hint"}. */
int cli_fail(const pg_err *err);
int cli_status(pg_status code);

/* A hint that is an option becomes the command as it was typed, with it. cli_fail() does so. */
void cli_complete_hint(pg_err *err);

/* The same with what did not fit into the error, a line or a list of the object for each. */
typedef struct cli_list {
    const char *name, *between; /* of a line: "missing", ": " */
    char **items;
    size_t n;
} cli_list;
int cli_fail_lists(const pg_err *err, const cli_list *lists, size_t n_lists);

/* For a tool whose own objects hold the errors: their members, without braces, and no other object
 * from now on. cli_expect_json(): --json will be given. */
void cli_json_error(const pg_err *err, int status);
void cli_told_in_json(void);
void cli_expect_json(void);

/* Where a model is given as "-", *text gets its JSON from standard input, else NULL. It is kept
 * until the program ends. */
pg_status cli_model_text(const char *model, const char **text, pg_err *err);

/* The one of two exit statuses that matters more: an error over "not covered" over "no". */
int cli_worse(int a, int b);

/* Same block from pieces; detail and hint may be NULL. Returns CLI_TROUBLE. */
int cli_complain(const char *detail, const char *hint, const char *fmt, ...) PG_PRINTF(3, 4);

/* Before a result is printed: "FILE was written". Said by cli_finish() if the result cannot be, so
 * that nobody takes what happened for what did not. */
void cli_did(const char *file, const char *what);

/* Last call of main: flushes stdout; a full or closed one is reported and gives CLI_TROUBLE. */
int cli_finish(int status);

/* --- cli_progress.c --- */

/* What goes into the options of a call that moves bytes: NULL with -q or --progress=never. */
pg_progress *cli_progress(void);

/* After that call: nothing of the progress stays on the terminal. */
void cli_progress_end(void);

/* --- cli_help.c, cli_man.c, cli_complete.c: everything that is made from the table --- */
void cli_help(const cli_tool *tool);
void cli_short_help(const cli_tool *tool, FILE *f);
void cli_man(const cli_tool *tool);
int cli_completion(const cli_tool *tool, const char *shell); /* CLI_TROUBLE: unknown shell */

/* --- cli_term.c: the terminal, and text made fit for it --- */

typedef enum cli_style { CLI_PLAIN, CLI_BOLD, CLI_GOOD, CLI_WARN, CLI_BAD, CLI_FAINT } cli_style;

/* Looks at the locale, NO_COLOR, TERM and --color. */
void cli_term_init(void);

/* Whether somebody sees what is drawn there. */
int cli_on_terminal(FILE *f);

/* Columns of the terminal that stdout is; 0 where it is none, or its width is unknown. */
size_t cli_columns(void);

/* printf of UTF-8 text; where the locale is not UTF-8, "x" stands for a multiplication sign, '#'
 * and '.' for bars, and \xNN for the rest. */
void cli_printf(FILE *f, const char *fmt, ...) PG_PRINTF(2, 3);
void cli_puts(FILE *f, const char *text);

/* Starts (CLI_PLAIN: ends) a colour; nothing where colours are off. */
void cli_color(FILE *f, cli_style style);

size_t cli_width(const char *utf8); /* columns that text takes, one per character */

/* A buffer for one short piece of text, so that these can stand in a printf. */
struct cli_buf {
    char s[256];
};

cli_buf cli_name(const char *name); /* a name from a file, control bytes escaped */
cli_buf cli_name_n(const char *name, size_t len);
cli_buf cli_count(uint64_t n);                    /* 23,626 */
cli_buf cli_plural(uint64_t n, const char *what); /* 1 layer, 4 layers */
cli_buf cli_size(uint64_t n_bytes);               /* 94.5 kB */
cli_buf cli_shape(const pg_weight *w);            /* 3x3x1x32 with multiplication signs; "scalar" */

/* An argument fit to be pasted into a shell; "" if it is too long or holds what a terminal must not
 * get, for a command that is not right must not be proposed. */
typedef struct cli_quoted {
    char s[1024];
} cli_quoted;
cli_quoted cli_quote(const char *arg);

#endif

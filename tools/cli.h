/* cli.h - shared by all pg tools. One option table drives parsing, --help, the man page and the
 * shell completions; one place prints errors, handles signals and knows the terminal.
 *
 * Exit status as in diff(1): 0 done, 1 the answer is "no", 2 trouble; 3 valid, but not supported by
 * this build; 130 interrupted. */
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

/* For the options of a tool that reads parts: which of the copies that mixed precision keeps. */
#define CLI_WEIGHTS                                                                              \
    {0,    "as-trained", NULL, &cli.as_trained,                                                  \
     NULL, NULL,         NULL, "of DeepSpeed: the weights as they were trained, often 16 bits"}, \
    {                                                                                            \
        0, "master", NULL, &cli.master, NULL, NULL, NULL,                                        \
            "of DeepSpeed: the float32 weights that the optimizer keeps (default)"               \
    }

typedef struct cli_example {
    const char *command, *what;
} cli_example;

/* An option of tools that join what ranks wrote. */
#define CLI_RULES                                                            \
    {                                                                        \
        0, "rules", "RULES", NULL, &cli.rules, NULL, NULL,                   \
            "settle what a job's files leave open (man pg-formats)" \
    }

/* Groups of common options; operands may be "-", a model's JSON on standard input. */
enum { CLI_WRITES = 1, CLI_READS_PARTS = 2, CLI_READS_STDIN = 4 };

typedef struct cli_tool {
    const char *name;
    const char *operands; /* as in the synopsis, "IN OUT" */
    const char *summary;  /* what the tool does: no full stop, not capitalised (man's NAME line) */
    const cli_example *examples; /* ends with {0} */
    const char *const *about;    /* paragraphs for --help and the manual; ends with NULL; lines that
                                  * start with two blanks are shown as they are */
    const char *status_1;        /* what exit status 1 means here, NULL if it does not occur */
    int has_events;              /* --json: an object per line, each with an "event" */
    int has_devices;             /* exit status 5: a device failed */
    int has_ranks;               /* exit status 4: another process of the job is missing */
    const cli_opt *opts;
    unsigned groups;
    size_t min_operands, max_operands;
    const char *const *out_dir;   /* if *out_dir is set, every operand is an input; may be NULL */
    void (*refused)(pg_err *err); /* edits a usage error before it is printed; may be NULL */
} cli_tool;

/* Values of the options that several tools have. */
typedef struct cli_common {
    int quiet, verbose, json;
    const char *part;                         /* CLI_READS_PARTS; pgfit */
    int master, as_trained;                   /* CLI_WEIGHTS; as_trained is part "module" */
    const char *rules;                        /* an option of the tool's own */
    int force, dry_run, no_sync, skip_verify; /* CLI_WRITES */
    int in_place;                             /* no output file; an option of the tool's own */
    const char *output;                       /* CLI_WRITES: -o FILE instead of the last operand */
    const char *color, *progress;
} cli_common;
extern cli_common cli;

/* Parses argv: options and operands in any order. Operands are moved to argv[1], argv[2], ...;
 * their number is returned. Exits after --help, --version, --man, --completion and usage errors. */
size_t cli_parse(const cli_tool *tool, int argc, char **argv);

/* The command as it was typed, with this option first; "" if it does not fit, or contains
 * characters that must not reach a terminal. */
void cli_repeat(char *out, size_t cap, const char *option);

/* About the tool whose command line was parsed. */
int cli_has_option(const char *name);
const char *cli_tool_name(void);
int cli_has_events(void);

/* The i-th option that a tool has, its own first, then the common ones; NULL at the end.
 * cli_own_option(): without the common ones. cli_heading(): the heading that the i-th option stands
 * under. */
const cli_opt *cli_option(const cli_tool *tool, size_t i);
const cli_opt *cli_own_option(const cli_tool *tool, size_t i);
const char *cli_heading(const cli_tool *tool, size_t i);

/* Whether the argument of an option is a file name; whether it must have an argument; whether it
 * may have one; whether it is a list. */
int cli_wants_file(const cli_opt *o);
int cli_needs_argument(const cli_opt *o);
int cli_may_have_argument(const cli_opt *o);
int cli_takes_list(const cli_opt *o);

/* Was it on the command line, or set by cli_set()? Which one is it? */
int cli_given(const char *name);
const cli_opt *cli_given_option(const char *name);

/* Sets an option as the command line does (value NULL: a switch without an argument), for values
 * from elsewhere. Returns 0 and fills in `why` if the value is not allowed. */
typedef struct cli_buf cli_buf;
int cli_set(const cli_opt *o, const char *value, cli_buf *why);

/* After this call, a signal sets the flag; before, it ends the program at once, as a second SIGINT
 * always does. */
const volatile int *cli_cancel(void);

/* Of what runs in a signal handler: before a call that does not return, AddressSanitizer would
 * allocate, which waits for ever if the signal came while somebody allocated. */
#define CLI_AT_A_SIGNAL __attribute__((no_sanitize_address))

/* Ends the program now, from a signal handler too; its temporary files are removed. */
_Noreturn void cli_leave(int status);

/* Prints "tool: message", indented details and "try: hint" to stderr; returns the exit status that
 * fits err->code. cli_status() only says the status. With --json the first error is an object on
 * stdout as well: {"error", "code", "status", "details", "hint", "action"}. */
int cli_fail(const pg_err *err);
int cli_status(pg_status code);

/* cli_action.c: an action as a command line, "" for none; the same into err->hint where there is
 * one, as cli_fail() does; ', "action": {"do": ..., ...}' or null. */
typedef struct cli_hint {
    char s[sizeof((pg_err *)0)->hint];
} cli_hint;
cli_hint cli_hint_of(const pg_action *a);
void cli_complete_hint(pg_err *err);
void cli_json_action(const pg_action *a);

/* The same, with lists that did not fit into the error: each becomes a line, or a list of the
 * object. */
typedef struct cli_list {
    const char *name, *between; /* of a line: "missing", ": " */
    char **items;
    size_t n;
} cli_list;
int cli_fail_lists(const pg_err *err, const cli_list *lists, size_t n_lists);

/* For a tool whose own objects hold the errors: prints the members, without braces. From then
 * on, or after cli_reported_in_json(), no other object is printed. cli_expect_json(): --json will
 * be given. */
void cli_json_error(const pg_err *err, int status);
void cli_reported_in_json(void);
void cli_expect_json(void);

/* If the model is "-", *text gets its JSON from standard input, otherwise NULL. It stays valid
 * until the program ends. */
pg_status cli_model_text(const char *model, const char **text, pg_err *err);

/* The more important of two exit statuses: an error before "not covered" before "no". */
int cli_worse(int a, int b);

/* Same block from pieces; detail and hint may be NULL. Returns CLI_TROUBLE. */
int cli_complain(const char *detail, const char *hint, const char *fmt, ...) PG_PRINTF(3, 4);

/* Call before printing a result: "FILE was written". cli_finish() says so if stdout fails, so that
 * nobody believes that nothing happened. */
void cli_did(const char *file, const char *what);

/* Last call of main: flushes stdout; a full or closed one is reported and gives CLI_TROUBLE. */
int cli_finish(int status);

/* --- cli_progress.c --- */

/* For the options of a call that moves bytes; NULL with -q or --progress=never. */
pg_progress *cli_progress(void);

/* Call afterwards: removes the progress from the terminal. */
void cli_progress_end(void);

/* --- cli_help.c, cli_man.c, cli_complete.c: everything that is made from the table --- */
void cli_help(const cli_tool *tool);
void cli_short_help(const cli_tool *tool, FILE *f);
void cli_version(const cli_tool *tool);
void cli_man(const cli_tool *tool);
int cli_completion(const cli_tool *tool, const char *shell); /* CLI_TROUBLE: unknown shell */

/* --- cli_term.c: the terminal, and text for it --- */

typedef enum cli_style { CLI_PLAIN, CLI_BOLD, CLI_GOOD, CLI_WARN, CLI_BAD, CLI_FAINT } cli_style;

/* Looks at the locale, NO_COLOR, TERM and --color. */
void cli_term_init(void);

/* Whether f is a terminal that somebody looks at. */
int cli_on_terminal(FILE *f);

/* Width of the terminal at stdout; 0 if it is not one, or its width is unknown. */
size_t cli_columns(void);

/* printf for UTF-8 text; if the locale is not UTF-8, "x" replaces a multiplication sign, '#' and
 * '.' replace bars, and \xNN the rest. */
void cli_printf(FILE *f, const char *fmt, ...) PG_PRINTF(2, 3);
void cli_puts(FILE *f, const char *text);

/* Starts (CLI_PLAIN: ends) a colour; does nothing if colours are off. */
void cli_color(FILE *f, cli_style style);

size_t cli_width(const char *utf8); /* columns that text takes, one per character */

/* A buffer for one short piece of text, returned by value for use in a printf. */
struct cli_buf {
    char s[256];
};

cli_buf cli_name(const char *name); /* a name from a file, control bytes escaped */
cli_buf cli_name_n(const char *name, size_t len);
cli_buf cli_count(uint64_t n);                    /* 23,626 */
cli_buf cli_plural(uint64_t n, const char *what); /* 1 layer, 4 layers */
cli_buf cli_size(uint64_t n_bytes);               /* 94.5 kB */
cli_buf cli_shape(const pg_weight *w);            /* 3x3x1x32 with multiplication signs; "scalar" */

/* An argument quoted for a shell; "" if it is too long or contains characters that must not reach a
 * terminal, as a wrong command must not be proposed. */
typedef struct cli_quoted {
    char s[1024];
} cli_quoted;
cli_quoted cli_quote(const char *arg);

#endif

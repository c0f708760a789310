/* cli_action.c - what would help (pg_err.action) as a command line: all of them are in one table.
 *
 * In a line of the table {key} stands for an argument, quoted for a shell; {key|WORD} is WORD if
 * the argument is absent. [key:...] is left out if that argument is absent, [!key:...] if it is
 * present. {$} is the tool that was called, with the options that it would need again. A line that
 * is too long, or holds a name that cannot be quoted for a shell, is not printed. */
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "json_out.h"

/* How the words of several choices are parted; NULL: a line of the table. */
static const struct {
    const char *line, *choices;
} table[PG_N_DO] = {
    [PG_DO_SET] = {NULL, ", "},
    [PG_DO_GIVE] = {NULL, ", "},
    [PG_DO_UNWRAP] = {"[split:pgjoin {split} {file} && ]pgunwrap [template:--template {template} ]"
                      "[partial:--partial ][like:--like {like} ][needs_model:--like MODEL ]"
                      "[needs_names:--like PLAIN ][part:--part {part} ][in_place:--in-place "
                      "]{file|WEIGHTS}[out: {out}]"
                      "[!out:[!in_place: OUT[suffix:{suffix}]]]"
                      "[partial:   (such a file loads with by_name=True only)]"
                      "[needs_model:   (MODEL: the one-device model as JSON, full .h5 or .keras)]"
                      "[needs_names:   (PLAIN: .pt or .safetensors with the names of the bare "
                      "model)]",
                      NULL},
    [PG_DO_UNWRAP_TEMPLATE] = {"pgunwrap [in_place:--in-place ]{file}[!in_place: TEMPLATE]; "
                               "pgunwrap --partial --like {like} [in_place:--in-place {file}]"
                               "[!in_place:TEMPLATE OUT]   (a wrapper's template comes out as a "
                               "whole)",
                               NULL},
    [PG_DO_WRAP] = {"[file:pgwrap --like WRAPPER {file} OUT]"
                    "[!file:--like PARALLEL.h5, a file of such a wrapper]",
                    NULL},
    [PG_DO_JOIN] = {"[out:pgjoin [part:--part {part} ]{file} {out}]"
                    "[!out:pgjoin {file} WHOLE; pgunwrap WHOLE OUT]",
                    NULL},
    [PG_DO_CONVERT] = {"pgconvert [layout:--layout {layout} ][model:--model {model} ]{file} "
                       "[out:{out}][!out:OUT[suffix:{suffix}]]",
                       NULL},
    [PG_DO_COPY] = {"pgconvert {file} NEW.h5", NULL},
    [PG_DO_COMPARE_BY_ORDER] = {"pgdiff --by-order {file} {other}", NULL},
    [PG_DO_GIVE_MODEL] = {"[!input:[!device:pgconvert]][input:pgcheck][device:pgcheck] "
                          "--model model.json [input:--input {input} --expect {expect} ]"
                          "[device:--device {device} ]{file}[!input:[!device: {out|OUT}]]",
                          NULL},
    [PG_DO_CHOOSE_FORMAT] =
        {"[to:pgconvert --to {to} {file} FOLDER][!to:--to FORMAT   (h5, weights.h5, "
         "keras, safetensors, npy, npz, onnx)]",
         NULL},
    [PG_DO_CHOOSE_PART] = {"--part {part}", NULL},
    [PG_DO_OVERWRITE] = {"--force   (replaces [split:that split][!split:it])", NULL},
    [PG_DO_IN_PLACE] = {"{$} --in-place {file}", NULL},
    [PG_DO_WRITE_NEW] = {"{$} {file} OUT[suffix:{suffix}]", NULL},
    [PG_DO_REPACK] = {"h5repack {file} NEW.h5   (of the HDF5 tools; then this again with NEW.h5)",
                      NULL},
    [PG_DO_LEAVE_OUT] = {"copy these files again, or leave their tensors out: pgjoin --only GLOB",
                         NULL},
    [PG_DO_LARGER_SHARDS] = {"a larger --max-shard-size", NULL},
    [PG_DO_SMALLER_BATCH] =
        {"[batch_size:--batch-size {batch_size}][accumulate:; with --accumulate "
         "{accumulate} the update is [rows:that of {rows} rows][!rows:the same]]"
         "[place:[batch_size:, or ]--place some of its layers on another device]",
         NULL},
    [PG_DO_CHOOSE_DATA] = {NULL, ", or "},
    [PG_DO_USE_TEST_SET] = {"--val test   (the test set in the file of --data)", NULL},
    [PG_DO_RESUME] = {"pgfit --resume={file}", NULL},
    [PG_DO_START_AFRESH] = {"[!elsewhere:--resume=never starts afresh]"
                            "[elsewhere:another folder, or --resume=never]",
                            NULL},
    [PG_DO_LIST_LAYERS] = {"pgfit --list-layers   (names those that can)", NULL},
    [PG_DO_RENAME] = {"pgconvert --rename, where only the names differ", NULL},
    [PG_DO_USE_GPU] = {"--gpus 1 --precision {precision}, or without --precision", NULL},
    [PG_DO_LAUNCH] = {"[srun:srun --mpi=pmix pgfit ... (srun --mpi=list shows the choices)]"
                      "[!srun:mpirun -np N pgfit ..., or --devices auto for this rank's GPU]",
                      NULL},
    [PG_DO_LAUNCH_RANKS] = {"mpirun -np {ranks}, or without --deterministic", NULL},
    [PG_DO_RANK_PER_GPU] =
        {"a process for each GPU, or one for each machine (mpirun --map-by node)", NULL},
    [PG_DO_MEASURE_LINK] = {"mpirun --host a,b --map-by node[!alone:, with][alone: pgfit ... on] "
                            "two of the machines",
                            NULL},
    [PG_DO_BUILD_WITH_MPI] = {"apt-get install {package}, then where libpg was built: meson setup "
                              "--reconfigure -Dmpi=enabled build && meson compile -C build",
                              NULL},
};

/* A line that grows; `bad`: it must not be shown. */
typedef struct line {
    cli_hint text;
    size_t n;
    int bad;
    const pg_action *a;
    cli_quoted file, out; /* names that are free, where a tool must choose them; "" */
} line;

PG_PRINTF(2, 3) static void put(line *l, const char *fmt, ...)
{
    const size_t left = sizeof l->text.s - l->n;
    va_list ap;
    va_start(ap, fmt);
    const int n = vsnprintf(l->text.s + l->n, left, fmt, ap);
    va_end(ap);
    if (n < 0 || (size_t)n >= left)
        l->bad = 1;
    else
        l->n += (size_t)n;
}

static void put_quoted(line *l, const char *text)
{
    const cli_quoted plain = cli_quote(*text == '-' ? text + 1 : text), full = cli_quote(text);
    const int dashed = *text == '-' && strcmp(plain.s, text + 1) == 0;
    put(l, "%s%s", dashed ? "./-" : "", dashed ? plain.s : full.s);
    l->bad |= full.s[0] == 0;
}

/* The part of a checkpoint that the user asked for is the one to take the model out of. */
static const char *value_of(const line *l, const char *key)
{
    if ((l->a->what == PG_DO_UNWRAP || l->a->what == PG_DO_JOIN) && strcmp(key, "part") == 0)
        return cli.part && *cli.part ? cli.part : NULL;
    return l->file.s[0] && strcmp(key, "file") == 0 ? l->file.s
           : l->out.s[0] && strcmp(key, "out") == 0 ? l->out.s
                                                    : pg_action_get(l->a, key);
}

/* ---- a line of the table ---- */

/* The tool and the options that affect its output; other options are not repeated. */
static void put_command(line *l)
{
    static const char *const names[] = {"part",    "like",         "template",     "strip-prefix",
                                        "partial", "weights-only", "no-optimizer", "gpus",
                                        "name",    "rules"};
    put(l, "%s", cli_tool_name());
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const cli_opt *o = cli_given_option(names[i]);
        if (!o)
            continue;
        put(l, " --%s", o->name);
        if (o->number)
            put(l, " %u", *o->number);
        else if (o->text)
            put(l, " "), put_quoted(l, *o->text);
    }
}

/* At the '{' of an argument; returns the end of it. */
static const char *put_argument(line *l, const char *p)
{
    const char *end = p + strcspn(p, "}");
    char key[32];
    const size_t n = strcspn(++p, "|}");
    snprintf(key, sizeof key, "%.*s", (int)n, p);
    const char *value = value_of(l, key);
    if (*p == '$')
        put_command(l);
    else if (value)
        put_quoted(l, value);
    else if (p[n] == '|')
        put(l, "%.*s", (int)(end - p - (ptrdiff_t)n - 1), p + n + 1);
    else
        l->bad = 1;
    return end + 1;
}

/* After the ']' of a group that is left out. */
static const char *skip_group(const char *p)
{
    for (size_t depth = 1; *p && depth; p++)
        depth += (*p == '[') - (size_t)(*p == ']');
    return p;
}

static void put_line(line *l, const char *p)
{
    while (*p) {
        const size_t n = strcspn(p, "{[]");
        put(l, "%.*s", (int)n, p);
        p += n;
        if (*p == '{') {
            p = put_argument(l, p);
        } else if (*p == '[') {
            char key[32];
            const int absent = *++p == '!';
            const size_t n_key = strcspn(p += absent, ":");
            snprintf(key, sizeof key, "%.*s", (int)n_key, p);
            p += n_key + 1;
            if ((value_of(l, key) == NULL) != absent)
                p = skip_group(p);
        } else if (*p == ']') {
            p++;
        }
    }
}

/* ---- options ---- */

/* What the tool has no option for is a member of the call. */
static void put_option(line *l, const char *key, const char *value)
{
    char name[32];
    snprintf(name, sizeof name, "%s", key);
    for (char *p = name; *p; p++)
        *p = *p == '_' ? '-' : *p;
    const int is_option = cli_has_option(name);
    put(l, is_option ? "--%s" : "%s =", is_option ? name : key);
    if (*value)
        put(l, " "), put_quoted(l, value);
}

static void put_options(line *l, const char *between)
{
    const char *key, *value, *gap = "";
    for (size_t i = 0; (key = pg_action_arg(l->a, i, &value)); i++) {
        const int next = strcmp(key, "or") == 0, note = strcmp(key, "note") == 0;
        put(l, "%s", next ? between : note && *value == ',' ? "" : gap);
        gap = next ? "" : " ";
        if (note)
            put(l, "%s", value);
        else if (!next)
            put_option(l, key, value);
    }
}

/* ---- names ---- */

/* "single.h5", or "single-2.h5" if that is there: a file that may be written. */
static cli_quoted free_name(const char *wish, const char *suffix)
{
    cli_quoted name = {""};
    const size_t n = strlen(wish), n_suffix = strlen(suffix);
    const int n_stem =
        (int)(n > n_suffix && strcmp(wish + n - n_suffix, suffix) == 0 ? n - n_suffix : n);
    snprintf(name.s, sizeof name.s, "%s", wish);
    for (unsigned k = 2; k < 100 && access(name.s, F_OK) == 0; k++)
        snprintf(name.s, sizeof name.s, "%.*s-%u%s", n_stem, wish, k, wish + n_stem);
    return name;
}

static void choose_names(line *l)
{
    const char *suffix = pg_action_get(l->a, "suffix"), *out = pg_action_get(l->a, "out");
    const char *file = pg_action_get(l->a, "file");
    if (!suffix || !out)
        return;
    l->out = free_name(out, suffix);
    if (file && pg_action_get(l->a, "split"))
        l->file = free_name(file, suffix);
}

/* ---- what others call ---- */

cli_hint cli_hint_of(const pg_action *a)
{
    line l = {.a = a};
    cli_hint typed = {""};
    const size_t what = (size_t)a->what < PG_N_DO ? (size_t)a->what : 0;
    choose_names(&l);
    if (table[what].line)
        put_line(&l, table[what].line);
    else if (table[what].choices)
        put_options(&l, table[what].choices);
    if (l.bad)
        return (cli_hint){""};
    if (a->what != PG_DO_CHOOSE_PART)
        return l.text;
    if (cli_has_option("part")) /* else it is of what only others take */
        cli_repeat(typed.s, sizeof typed.s, l.text.s);
    return typed;
}

void cli_complete_hint(pg_err *err)
{
    if (err->action.what == PG_DO_NOTHING)
        return;
    const cli_hint hint = cli_hint_of(&err->action);
    memcpy(err->hint, hint.s, sizeof err->hint);
}

void cli_json_action(const pg_action *a)
{
    const char *key, *value;
    size_t n_choices = 1;
    if (a->what == PG_DO_NOTHING) {
        fputs(", \"action\": null", stdout);
        return;
    }
    printf(", \"action\": {\"do\": \"%s\"", pg_do_name(a->what));
    for (size_t i = 0; (key = pg_action_arg(a, i, &value)); i++) {
        if (strcmp(key, "or") != 0) {
            json_member(key, value);
            continue;
        }
        fputs(", \"or\": {\"do\": \"set\"", stdout);
        n_choices++;
    }
    while (n_choices--)
        putchar('}');
}

/* pgcheck - will this file load, strictly, on one device? */
#include "pgcheck.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static pg_check_opts o;
static const char *format, *summary, *tolerance;
static unsigned n_jobs = 1;

static const cli_opt options[] = {
    {0, "model", "MODEL", NULL, &o.model, NULL, NULL,
     "the model that the file must fit: JSON (-: from standard input), full .h5 or .keras"},
    {0, "finite", NULL, &o.only_finite, NULL, NULL, NULL, "check only that every value is finite"},
    {0, "no-wrapper", NULL, &o.only_no_wrapper, NULL, NULL, NULL,
     "check only that no parallel wrapper wrote the file"},
    {0, "strict", NULL, &o.strict, NULL, NULL, NULL,
     "fail on layers of unknown classes instead of noting them"},
    {0, "sha256", "FILE", NULL, &o.sha256, NULL, NULL,
     "also compare its SHA-256 with the one in FILE (a SHA256SUMS)"},
    {0, "input", "FILE", NULL, &o.input, NULL, NULL,
     "also predict for these rows (.npy, .npz, ...)"},
    {0, "expect", "FILE", NULL, &o.expect, NULL, NULL,
     "--input: the predictions to expect (.npy; several outputs: .npz)"},
    {0, "tolerance", "T", NULL, &tolerance, NULL, NULL,
     "--expect: largest difference, relative to max(1, |expected|) (default 1e-4)"},
    {0, "device", "DEVICE", NULL, &o.device, NULL, NULL,
     "predict on this device (default cpu:0); without --input: made-up rows must give finite "
     "numbers"},
    {0, "format", "FORMAT", NULL, &format, NULL, "text|tap|junit|github",
     "text, tap (version 13), junit (XML) or github (annotations)"},
    {0, "summary", "FILE", NULL, &summary, NULL, NULL,
     "also append a table in Markdown to FILE, as GITHUB_STEP_SUMMARY wants it"},
    {'j', "jobs", "N", NULL, NULL, &n_jobs, NULL, "check N files at a time (default 1)"},
    CLI_RULES,
    {0},
};

static const cli_example examples[] = {
    {"pgcheck --model model.json single.h5", "will load_weights() take it?"},
    {"pgcheck --finite -j 4 checkpoints/*.h5", "did the training diverge?"},
    {"pgcheck --format github --model m.json *.h5", "the same in a GitHub workflow"},
    {"pgcheck --sha256 SHA256SUMS model.keras", "is it the published file?"},
    {"pgcheck --input x.npy --expect y.npy model.keras", "does it predict what Keras predicts?"},
    {"pgcheck out/", "are all shards of a split model whole?"},
    {0},
};

static const char *const about[] = {
    "Checks, in this order:",
    "  container  every structure of the file lies within it and is well formed\n"
    "  structure  layers, order, variables, shapes and types are those of the model, so that "
    "Keras'\n"
    "             strict load_weights() takes it; without --model, those of the file's "
    "description\n"
    "  wrapper    no parallel wrapper (multi_gpu_model and others) wrote it\n"
    "  values     no NaN, no infinity\n"
    "  checksums  the shards of a split model match its manifest; with --sha256, the file (of a\n"
    "             folder: every file in it) has its published SHA-256\n"
    "  predicted  with --input and --expect: loaded strictly on one device, it predicts these "
    "values;\n"
    "             with --device alone: it predicts finite numbers",
    "With --finite or --no-wrapper, pgcheck runs only these checks and those that --model,\n"
    "--sha256 and --input ask for. Layers of unknown classes are checked by their number of\n"
    "weights, and noted.",
    "Several files are shown in the order of the operands: a line for each that passes (-v: its\n"
    "checks), what is wrong with the others, and a last line that counts them. The exit status\n"
    "is the worst of theirs.",
    NULL,
};

static const cli_tool tool = {
    .name = "pgcheck",
    .operands = "FILE...",
    .summary =
        "checks that a checkpoint loads strictly on one device, and that its values are sane",
    .examples = examples,
    .about = about,
    .status_1 = "a check failed",
    .has_devices = 1,
    .opts = options,
    .groups = CLI_READS_PARTS,
    .min_operands = 1,
    .max_operands = (size_t)-1,
};

static void print_check(const pg_check *c, int width)
{
    const char *word = c->ok ? "ok" : "not ok";
    cli_color(stdout, c->ok ? CLI_GOOD : CLI_BAD);
    cli_puts(stdout, word);
    cli_color(stdout, CLI_PLAIN);
    cli_printf(stdout, "%*s  %-9s    %s\n", width - (int)strlen(word), "", c->name, c->summary);
    for (size_t i = 0; i < c->n_details; i++)
        cli_printf(stdout, "%*s    %s\n", width, "", c->details[i]);
}

cli_hint check_hint(const pg_check_report *r)
{
    cli_hint words = {""};
    if (r->action.what != PG_DO_NOTHING)
        return cli_hint_of(&r->action);
    snprintf(words.s, sizeof words.s, "%s", r->hint ? r->hint : "");
    return words;
}

static void print_text(const checked *f, int several)
{
    const cli_hint hint = check_hint(&f->r);
    int width = 2;
    for (size_t i = 0; i < f->r.n_checks; i++)
        width = f->r.checks[i].ok ? width : 6;
    if (several && !(f->r.ok && !cli.verbose))
        cli_printf(stdout, "%s\n", cli_name(f->path).s);
    for (size_t i = 0; i < f->r.n_checks && !(several && f->r.ok && !cli.verbose); i++)
        print_check(&f->r.checks[i], width);
    for (size_t i = 0; i < f->r.n_notes; i++)
        cli_printf(stdout, "  note: %s\n", f->r.notes[i]);
    if (f->r.ok)
        cli_printf(stdout, "%s: %s\n", cli_name(f->path).s,
                   f->r.fitted ? "loads strictly on one device" : "all checks passed");
    else if (hint.s[0])
        cli_printf(stdout, "try: %s\n", hint.s);
}

static void check(checked *f)
{
    f->err.code = pg_check_file(&f->r, f->path, &o, &f->err);
    if (f->err.code != PG_OK)
        f->status = cli_status(f->err.code);
    else if (f->r.damaged)
        f->status = CLI_TROUBLE;
    else
        f->status = f->r.ok ? CLI_OK : CLI_NO;
    /* an unreadable model, or a part that must be named, is an error of the command, not an answer
     * about the file */
    if (f->err.code == PG_E_MISMATCH || f->err.code == PG_E_AMBIGUOUS)
        f->status = CLI_TROUBLE;
    f->is_over = 1;
}

/* ---- all of them ---- */

typedef struct run {
    checked *files;
    size_t n, n_begun, n_shown, n_working;
    int status, is_text;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* a file or a thread is over */
} run;

/* The first file answers for an interruption that came before all. */
static int goes_on(const run *r)
{
    return r->n_begun < r->n && (r->n_begun == 0 || !__atomic_load_n(o.cancel, __ATOMIC_RELAXED));
}

static void *work(void *arg)
{
    run *r = arg;
    pthread_mutex_lock(&r->lock);
    while (goes_on(r)) {
        checked mine = r->files[r->n_begun];
        checked *f = &r->files[r->n_begun++];
        pthread_mutex_unlock(&r->lock);
        check(&mine);
        pthread_mutex_lock(&r->lock);
        *f = mine;
        pthread_cond_broadcast(&r->changed);
    }
    r->n_working--;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

/* An unreadable model is reported once, not for each file. */
static void complain(const run *r, size_t i)
{
    const pg_err *err = &r->files[i].err;
    if (err->code != PG_OK && (i == 0 || strcmp(err->msg, r->files[i - 1].err.msg) != 0))
        cli_fail(err);
}

/* Text is shown at once; the other formats begin with a count, or are one document. */
static void show(run *r)
{
    const checked *f = &r->files[r->n_shown];
    r->status = f->status == CLI_INTERRUPTED || r->status == CLI_INTERRUPTED
                    ? CLI_INTERRUPTED
                    : cli_worse(r->status, f->status);
    if (r->is_text && f->err.code == PG_OK && !cli.quiet)
        print_text(f, r->n > 1);
    if (r->is_text)
        complain(r, r->n_shown);
    r->n_shown++;
}

static void run_alone(run *r)
{
    while (goes_on(r)) {
        o.progress = cli_progress();
        check(&r->files[r->n_begun++]);
        cli_progress_end();
        show(r);
    }
}

/* Each file has a thread; this one shows what is over. */
static void run_many(run *r, size_t most)
{
    pthread_t threads[64];
    size_t n = 0;
    pthread_mutex_lock(&r->lock);
    while (n < most && n < sizeof threads / sizeof *threads &&
           pthread_create(&threads[n], NULL, work, r) == 0)
        n++, r->n_working++;
    while (r->n_shown < r->n && n > 0) {
        while (!r->files[r->n_shown].is_over && r->n_working > 0)
            pthread_cond_wait(&r->changed, &r->lock);
        if (!r->files[r->n_shown].is_over)
            break;
        pthread_mutex_unlock(&r->lock);
        show(r);
        pthread_mutex_lock(&r->lock);
    }
    pthread_mutex_unlock(&r->lock);
    for (size_t i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    if (n == 0)
        run_alone(r);
}

static void print_all(const run *r)
{
    size_t n_passed = 0;
    for (size_t i = 0; i < r->n_shown; i++)
        n_passed += r->files[i].status == CLI_OK;
    if (cli.json)
        check_print_json(r->files, r->n_shown, r->n > 1);
    else if (cli.quiet)
        return;
    else if (r->is_text && r->n > 1)
        cli_printf(stdout, "%zu of %zu files passed\n", n_passed, r->n);
    else if (r->is_text)
        return;
    else if (strcmp(format, "tap") == 0)
        check_print_tap(r->files, r->n_shown);
    else if (strcmp(format, "junit") == 0)
        check_print_junit(r->files, r->n_shown);
    else
        check_print_github(r->files, r->n_shown);
}

static void finish(run *r)
{
    if (r->n_shown < r->n)
        r->status = CLI_INTERRUPTED;
    print_all(r);
    for (size_t i = 0; i < r->n_shown && !r->is_text; i++)
        complain(r, i);
    if (summary && !check_write_summary(summary, r->files, r->n_shown, r->n))
        r->status = cli_worse(r->status, CLI_TROUBLE);
}

static int read_tolerance(void)
{
    char *end = NULL;
    if (!tolerance)
        return 1;
    o.tolerance = strtod(tolerance, &end);
    return *tolerance != '\0' && *end == '\0' && o.tolerance > 0;
}

int main(int argc, char **argv)
{
    const size_t n = cli_parse(&tool, argc, argv);
    pg_err err = {0};
    if (!read_tolerance())
        return cli_finish(cli_complain(NULL, NULL, "--tolerance %s: not a number above 0",
                                       cli_name(tolerance).s));
    if (cli_model_text(o.model, &o.model_text, &err) != PG_OK)
        return cli_finish(cli_fail(&err));
    run r = {.n = n, .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    r.is_text = !cli.json && (!format || strcmp(format, "text") == 0);
    r.files = calloc(n, sizeof *r.files);
    if (!r.files)
        return cli_finish(cli_complain(NULL, NULL, "out of memory"));
    for (size_t i = 0; i < n; i++)
        r.files[i].path = argv[i + 1];
    o.part = cli.part;
    o.rules = cli.rules;
    o.cancel = cli_cancel();
    if (n_jobs > 1 && n > 1)
        run_many(&r, n_jobs < n ? n_jobs : n);
    else
        run_alone(&r);
    finish(&r);
    for (size_t i = 0; i < n; i++)
        pg_check_report_fini(&r.files[i].r);
    free(r.files);
    return cli_finish(r.status);
}

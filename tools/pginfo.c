/* pginfo - what is this checkpoint, and does it load? */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "pginfo.h"
#include "table.h"

static info_opts opts;
static int recursive; /* accepted, and always so */

static const cli_opt options[] = {
    {0, "stats", NULL, &opts.stats, NULL, NULL, NULL,
     "read the values too: range, mean, zeros, NaN, checksum, histogram"},
    {0, "layers", "GLOB", NULL, &opts.layers, NULL, NULL, "show only layers whose name matches"},
    {0, "sort", "KEY", NULL, &opts.sort, NULL, "name|size", "order tensors by name or by size"},
    {0, "markdown", NULL, &opts.markdown, NULL, NULL, NULL, "print the table as Markdown"},
    {0, "html", "FILE", NULL, &opts.html, NULL, NULL,
     "write a page for browsers, with a histogram per tensor, to FILE"},
    {'r', "recursive", NULL, &recursive, NULL, NULL, NULL,
     "look into all folders below (the default)"},
    CLI_RULES,
    {'f', "force", NULL, &opts.force, NULL, NULL, NULL, "--html: replace an existing FILE"},
    {0},
};

static const cli_example examples[] = {
    {"pginfo parallel.h5", "what does this file hold, and why does it not load?"},
    {"pginfo --stats --layers 'conv*' model.h5", "look at the values of some layers"},
    {"pginfo --html report.html model.h5", "a page to read and to share"},
    {"pginfo checkpoints/*.h5", "one line per file"},
    {"pginfo --json model.h5", "the same for scripts"},
    {0},
};

static const char *const about[] = {
    "pginfo reads weight and model files of every Keras (.h5, .weights.h5, .keras, .weights.json\n"
    "with its shards), safetensors, PyTorch (.pt, .pth) and NumPy (.npy, .npz). It reads names,\n"
    "shapes and sizes, and values only for --stats; it never runs code inside a file (Lambda\n"
    "layers, pickles). It tells the file of a parallel wrapper (multi_gpu_model and others) from\n"
    "an ordinary nested model, and gives the reason.",
    "Use it when Keras reports one of:",
    "  You are trying to load a weight file containing 1 layers into a model with 4 layers.",
    "  Layer count mismatch when loading weights from file. Model expected 4 layers, found 1 saved "
    "layers.",
    "  Layer 'conv1' expected 2 variables, but received 0 variables during loading.",
    "  TypeError: arg 4 (defaults) must be None or tuple",
    "  Unable to open file (truncated file: ...), file signature not found",
    "--html reads the values as --stats does and writes one page, without scripts and without\n"
    "anything loaded from elsewhere: the tree of layers with sizes, ranges and histograms, the\n"
    "verdict, and the command to type next.",
    "A folder stands for the checkpoints in it and in all folders below. The last line counts\n"
    "what was left out (hidden files, files of other kinds, links to folders). Several files get\n"
    "one line each, and the exit status is the worst of theirs.",
    NULL,
};

static const cli_tool tool = {
    .name = "pginfo",
    .operands = "FILE|DIR...",
    .summary = "shows what a checkpoint file holds and whether a parallel wrapper wrote it",
    .examples = examples,
    .about = about,
    .opts = options,
    .groups = CLI_READS_PARTS,
    .min_operands = 1,
    .max_operands = (size_t)-1,
};

/* The files to inspect: the operands, with each folder replaced by its checkpoints. */
typedef struct list {
    char **v;
    size_t n, cap;
} list;

static void list_fini(list *l)
{
    for (size_t i = 0; i < l->n; i++)
        free(l->v[i]);
    free(l->v);
}

static int list_grow(list *l)
{
    const size_t cap = l->cap ? 2 * l->cap : 16;
    char **more = l->n == l->cap ? realloc(l->v, cap * sizeof *l->v) : l->v;
    if (!more)
        return -1;
    if (l->n == l->cap)
        l->cap = cap;
    l->v = more;
    return 0;
}

static void add(list *l, const char *dir, const char *name)
{
    char *path = list_grow(l) == 0 ? malloc(strlen(dir) + strlen(name) + 2) : NULL;
    if (!path) {
        list_fini(l);
        cli_complain(NULL, NULL, "out of memory");
        exit(CLI_TROUBLE);
    }
    const size_t n = strlen(dir);
    sprintf(path, "%s%s%s", dir, n && dir[n - 1] != '/' ? "/" : "", name);
    l->v[l->n++] = path;
}

/* "4 files of other kinds, 1 hidden" */
static cli_buf left_out(const pg_found *f)
{
    const struct {
        size_t n;
        const char *one, *more;
    } kinds[] = {{f->n_others, "file of another kind", "files of other kinds"},
                 {f->n_hidden, "hidden", "hidden"},
                 {f->n_links, "link to a folder", "links to folders"},
                 {f->n_deep, "folder too deep", "folders too deep"},
                 {f->n_closed, "folder that cannot be read", "folders that cannot be read"}};
    cli_buf out = {""};
    size_t at = 0;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds && at < sizeof out.s; i++)
        if (kinds[i].n)
            at += (size_t)snprintf(out.s + at, sizeof out.s - at, "%s%s %s", at ? ", " : "",
                                   cli_count(kinds[i].n).s,
                                   kinds[i].n == 1 ? kinds[i].one : kinds[i].more);
    return out;
}

static int add_folder(list *l, const char *path, pg_found *total)
{
    pg_found f = {0};
    pg_err err = {0};
    int status = CLI_OK;
    const pg_status st = pg_find(&f, path, &err);
    if (cli.json && (st == PG_E_IO || f.n == 0)) {
        add(l, "", path); /* its object says why */
        pg_found_fini(&f);
        return CLI_OK;
    }
    if (st != PG_OK)
        return cli_fail(&err);
    for (size_t i = 0; i < f.n; i++)
        add(l, "", f.paths[i]);
    if (f.n == 0)
        status = cli_complain(*left_out(&f).s ? left_out(&f).s : NULL, NULL,
                              "%s: no checkpoint files in this folder or below (looked for .h5, "
                              ".hdf5, .keras, .safetensors, .weights.json, .pt, .pth, .bin, "
                              ".ckpt, .npz, .msgpack, .onnx)",
                              cli_name(path).s);
    else if (f.n_closed)
        status = CLI_TROUBLE;
    total->n_others += f.n_others;
    total->n_hidden += f.n_hidden;
    total->n_links += f.n_links;
    total->n_deep += f.n_deep;
    total->n_closed += f.n_closed;
    pg_found_fini(&f);
    return status;
}

/* Scripts get one document: an object, or an array where several files (or a folder) were given. */
static int print_json(const list *l, int several)
{
    int status = CLI_OK;
    cli_reported_in_json();
    for (size_t i = 0; i < l->n; i++) {
        info in;
        info_open(&in, l->v[i], &opts);
        fputs(!several ? "" : i ? ",\n" : "[", stdout);
        info_print_json(&in, &opts);
        status = cli_worse(status, in.status);
        fputs(!several ? "\n" : i + 1 == l->n ? "]\n" : "", stdout);
        if (in.err.code != PG_OK)
            cli_fail(&in.err);
        info_close(&in);
    }
    return status;
}

/* On a terminal, paths are relative to the only folder given, and fit the line. */
static const char *shown_path(const char *path, const char *folder)
{
    const size_t n = folder && cli_columns() && !opts.markdown ? strlen(folder) : 0;
    if (!n || strncmp(path, folder, n) != 0 || !path[n])
        return path;
    return path + n + strspn(path + n, "/");
}

/* One line per file. folder: the only operand, or NULL. */
static int print_list(const list *l, const char *folder, const pg_found *out)
{
    table t = {0};
    int status = CLI_OK;
    info_list_head(&t);
    t.fit = cli_columns();
    t.most = 60;
    for (size_t i = 0; i < l->n; i++) {
        info in;
        info_open(&in, l->v[i], &opts);
        if (in.err.code != PG_OK)
            cli_fail(&in.err);
        info_list_add(&t, &in, shown_path(in.path, folder));
        status = cli_worse(status, in.status);
        info_close(&in);
    }
    if (!cli.quiet && table_print(&t, "", opts.markdown) < 0)
        status = cli_complain(NULL, NULL, "out of memory");
    table_free(&t);
    if (!cli.quiet && *left_out(out).s)
        cli_printf(stdout, "\nleft out: %s\n", left_out(out).s);
    return status;
}

/* A page per file. */
static int print_pages(const list *l)
{
    int status = CLI_OK;
    for (size_t i = 0; i < l->n; i++) {
        info in;
        info_open(&in, l->v[i], &opts);
        if (i && !cli.quiet)
            putchar('\n');
        status = cli_worse(status, info_print_text(&in, &opts));
        info_close(&in);
    }
    return status;
}

/* The page about one file. */
static int write_html(const list *l, int several)
{
    info in;
    if (several || l->n != 1 || cli.json || opts.markdown)
        return cli_complain(NULL, NULL, "--html takes one file, and neither --json nor --markdown");
    info_open(&in, l->v[0], &opts);
    const int status = info_write_html(&in, &opts);
    info_close(&in);
    return status;
}

int main(int argc, char **argv)
{
    const size_t n = cli_parse(&tool, argc, argv);
    list files = {0};
    pg_found out = {0};
    const char *folder = NULL;
    int several = n > 1, status = CLI_OK;
    for (size_t i = 1; i <= n; i++) {
        struct stat st;
        if (stat(argv[i], &st) == 0 && S_ISDIR(st.st_mode)) {
            folder = n == 1 ? argv[i] : NULL;
            status = cli_worse(status, add_folder(&files, argv[i], &out));
            several |= files.n != 1 || strcmp(files.v[0], argv[i]) != 0;
        } else {
            add(&files, "", argv[i]);
        }
    }
    if (files.n && opts.html)
        status = cli_worse(status, write_html(&files, several));
    else if (files.n && cli.json)
        status = cli_worse(status, print_json(&files, several));
    else if (several && !opts.stats && !opts.layers && !opts.sort)
        status = cli_worse(status, files.n ? print_list(&files, folder, &out) : CLI_OK);
    else
        status = cli_worse(status, print_pages(&files));
    list_fini(&files);
    return cli_finish(status);
}

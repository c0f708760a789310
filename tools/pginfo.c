/* pginfo - what is this checkpoint, and does it load? */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "pginfo.h"
#include "table.h"

static info_opts opts;

static const cli_opt options[] = {
    {0, "stats", NULL, &opts.stats, NULL, NULL, NULL,
     "read the values too: range, mean, zeros, NaN, checksum, histogram"},
    {0, "layers", "GLOB", NULL, &opts.layers, NULL, NULL, "show only layers whose name matches"},
    {0, "sort", "KEY", NULL, &opts.sort, NULL, "name|size", "order tensors by name or by size"},
    {0, "markdown", NULL, &opts.markdown, NULL, NULL, NULL, "print the table as Markdown"},
    {0, "html", "FILE", NULL, &opts.html, NULL, NULL,
     "write a page for browsers, with a histogram per tensor, to FILE"},
    {'f', "force", NULL, &opts.force, NULL, NULL, NULL, "--html: replace an existing FILE"},
    {0},
};

static const cli_example examples[] = {
    {"pginfo parallel.h5", "what is in this file, and why does it not load?"},
    {"pginfo --stats --layers 'conv*' model.h5", "look at the values of some layers"},
    {"pginfo --html report.html model.h5", "a page to look at and to pass on"},
    {"pginfo checkpoints/*.h5", "one line per file"},
    {"pginfo --json model.h5", "the same for scripts"},
    {0},
};

static const char *const about[] = {
    "Reads weight and model files of every Keras (.h5, .weights.h5, .keras, .weights.json with "
    "its\n"
    "shards), safetensors, PyTorch (.pt, .pth) and NumPy (.npy, .npz). Names, shapes and sizes\n"
    "are read, values only for --stats; code inside a file (Lambda layers, pickles) is never\n"
    "run. A file of a parallel wrapper\n"
    "(multi_gpu_model and others) is told apart from an ordinary nested model, with the reason.",
    "Use it when Keras says one of:",
    "  You are trying to load a weight file containing 1 layers into a model with 4 layers.",
    "  Layer count mismatch when loading weights from file. Model expected 4 layers, found 1 saved "
    "layers.",
    "  Layer 'conv1' expected 2 variables, but received 0 variables during loading.",
    "  TypeError: arg 4 (defaults) must be None or tuple",
    "  Unable to open file (truncated file: ...), file signature not found",
    "--html reads the values as --stats does and writes one page without scripts that loads "
    "nothing\n"
    "from elsewhere: the tree of layers with sizes, ranges and histograms, the verdict, and what "
    "to\n"
    "type next.",
    "A folder stands for the checkpoint files in it. With several files, one line is printed for\n"
    "each, and the exit status is the worst.",
    NULL,
};

static const cli_tool tool = {
    .name = "pginfo",
    .operands = "FILE|DIR...",
    .summary = "tells what a checkpoint file holds and whether a parallel wrapper wrote it",
    .examples = examples,
    .about = about,
    .opts = options,
    .groups = CLI_READS_HDF5,
    .min_operands = 1,
    .max_operands = (size_t)-1,
};

/* The files to look at: operands, folders replaced by what is in them. */
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

static int is_checkpoint_name(const char *name)
{
    static const char *const suffixes[] = {".h5",          ".hdf5",         ".keras",
                                           ".safetensors", ".weights.json", ".pt",
                                           ".pth",         ".pth.tar",      ".npz"};
    const size_t n = strlen(name);
    for (size_t i = 0; name[0] != '.' && i < sizeof suffixes / sizeof *suffixes; i++)
        if (n > strlen(suffixes[i]) && strcmp(name + n - strlen(suffixes[i]), suffixes[i]) == 0)
            return 1;
    return 0;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* 1 if a folder is one split model: the library finds its index. */
static int is_split(const char *path)
{
    static const char *const names[] = {"manifest.json", "model.safetensors.index.json",
                                        "model.weights.json"};
    char at[4096];
    struct stat st;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const int n = snprintf(at, sizeof at, "%s/%s", path, names[i]);
        if (n > 0 && (size_t)n < sizeof at && stat(at, &st) == 0)
            return 1;
    }
    return 0;
}

static int add_folder(list *l, const char *path)
{
    const size_t before = l->n;
    DIR *d = opendir(path);
    if (!d)
        return cli_complain(NULL, NULL, "%s: %s", cli_name(path).s, strerror(errno));
    errno = 0;
    for (struct dirent *e; (e = readdir(d)); errno = 0)
        if (is_checkpoint_name(e->d_name))
            add(l, path, e->d_name);
    const int sys = errno;
    closedir(d);
    if (sys) /* a part of the list is no list */
        return cli_complain(NULL, NULL, "%s: %s", cli_name(path).s, strerror(sys));
    if (l->n == before && cli.json)
        add(l, "", path); /* scripts get an object that says no */
    else if (l->n == before)
        return cli_complain(NULL, NULL,
                            "%s: no checkpoint files in this folder (looked for .h5, "
                            ".hdf5, .keras, .safetensors, .weights.json, .pt, .pth, .npz)",
                            cli_name(path).s);
    qsort(l->v + before, l->n - before, sizeof *l->v, by_path);
    return CLI_OK;
}

/* Scripts get one document: an object, or an array where several files (or a folder) were given. */
static int print_json(const list *l, int several)
{
    int status = CLI_OK;
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

/* One line per file. */
static int print_list(const list *l)
{
    table t = {0};
    int status = CLI_OK;
    info_list_head(&t);
    for (size_t i = 0; i < l->n; i++) {
        info in;
        info_open(&in, l->v[i], &opts);
        if (in.err.code != PG_OK)
            cli_fail(&in.err);
        info_list_add(&t, &in);
        status = cli_worse(status, in.status);
        info_close(&in);
    }
    if (!cli.quiet && table_print(&t, "", opts.markdown) < 0)
        status = cli_complain(NULL, NULL, "out of memory");
    table_free(&t);
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
    int several = n > 1, status = CLI_OK;
    for (size_t i = 1; i <= n; i++) {
        struct stat st;
        if (stat(argv[i], &st) == 0 && S_ISDIR(st.st_mode) && !is_split(argv[i])) {
            status = cli_worse(status, add_folder(&files, argv[i]));
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
        status = cli_worse(status, files.n ? print_list(&files) : CLI_OK);
    else
        status = cli_worse(status, print_pages(&files));
    list_fini(&files);
    return cli_finish(status);
}

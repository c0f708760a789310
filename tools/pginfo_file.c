/* pginfo_file.c - opens one file and finds out everything that the three output formats show. */
#include <errno.h>
#include <fnmatch.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "pginfo.h"

static uint64_t n_elements(const pg_weight *w)
{
    const size_t one = pg_dtype_bytes(w->dtype);
    return one ? w->n_bytes / one : 0;
}

size_t info_bare_length(const char *name)
{
    const char *colon = strrchr(name, ':');
    const size_t n = strlen(name);
    if (!colon || colon == name || !colon[1] || colon[1 + strspn(colon + 1, "0123456789")])
        return n;
    return (size_t)(colon - name);
}

/* Where the layer ends in a tensor's name, 0 if the name does not show it. Inside a wrapper only
 * the name shows it: "conv1/kernel:0" in the layer "model_1"; safetensors have "conv1.weight". */
static size_t layer_length(const info *in, const pg_weight *w)
{
    const pg_layer *l = pg_store_layer(in->store, w->layer);
    const size_t bare = info_bare_length(w->name);
    const char *end;
    if (!l) {
        end = strrchr(w->name, '.');
    } else if (in->verdict == PG_V_WRAPPER && in->found.template_name &&
               strcmp(l->name, in->found.template_name) == 0) {
        end = strchr(w->name, '/');
    } else {
        size_t n = strlen(l->name);
        while (n > 1 && l->name[n - 1] == '/') /* the weights of "a/" are "a/kernel" */
            n--;
        return strncmp(w->name, l->name, n) == 0 && w->name[n] == '/' ? n : 0;
    }
    return end && (size_t)(end - w->name) < bare ? (size_t)(end - w->name) : 0;
}

/* A path of the path layout without its common beginning: "layers/", and inside a wrapper
 * "layers/functional/layers/". */
static const char *short_path(const info *in, const char *path)
{
    static const char container[] = "layers/";
    const size_t n = sizeof container - 1;
    const char *of = in->verdict == PG_V_WRAPPER ? in->found.template_name : NULL;
    if (strncmp(path, container, n) != 0)
        return path;
    path += n;
    if (of && strncmp(path, of, strlen(of)) == 0 && path[strlen(of)] == '/' &&
        strncmp(path + strlen(of) + 1, container, n) == 0)
        path += strlen(of) + 1 + n;
    return path;
}

void info_row_names(const info *in, size_t i, cli_buf *layer, cli_buf *tensor)
{
    const pg_weight *w = pg_store_weight(in->store, i);
    const pg_layer *l = pg_store_layer(in->store, w->layer);
    const size_t n = layer_length(in, w), bare = info_bare_length(w->name);
    const char *from = short_path(in, w->name);
    if (from > w->name + n)
        from = w->name;
    *layer = n ? cli_name_n(from, (size_t)(w->name + n - from)) : cli_name(l ? l->name : "");
    *tensor = n ? cli_name_n(w->name + n + 1, bare - n - 1) : cli_name_n(w->name, bare);
}

static int by_text(const void *a, const void *b)
{
    const cli_buf *x = a, *y = b;
    return strcmp(x->s, y->s);
}

/* Layers that hold tensors, each counted once although a wrapper lists the trainable weights of all
 * layers before the other ones. */
static size_t count_weighted(const info *in)
{
    const size_t n = pg_store_n_weights(in->store);
    size_t count = 0;
    if (in->verdict != PG_V_WRAPPER) {
        for (size_t i = 0; i < pg_store_n_layers(in->store); i++)
            count += pg_store_layer(in->store, i)->n_weights > 0;
        return count;
    }
    cli_buf *names = n ? calloc(n, sizeof *names) : NULL, tensor;
    if (!names || pg_store_n_layers(in->store) == 0) {
        free(names);
        return 0;
    }
    for (size_t i = 0; i < n; i++)
        info_row_names(in, i, &names[i], &tensor);
    qsort(names, n, sizeof *names, by_text);
    for (size_t i = 0; i < n; i++)
        count += i == 0 || strcmp(names[i - 1].s, names[i].s) != 0;
    free(names);
    return count;
}

/* The error for a file that opened but is damaged or unknown, in the words of the judgement. */
static void complain(info *in)
{
    const int damaged = in->verdict == PG_V_DAMAGED;
    const char *why = in->found.reason ? in->found.reason : pg_store_damage(in->store);
    if (!damaged && in->verdict != PG_V_UNKNOWN)
        return;
    if (in->err.code == PG_OK)
        pg_fail(&in->err, damaged ? PG_E_FORMAT : PG_E_UNKNOWN, "%s: %s", cli_name(in->path).s,
                why       ? why
                : damaged ? "damaged"
                          : "not a checkpoint");
    if (damaged && pg_store_n_weights(in->store) > 0 && in->err.detail[0] == 0)
        pg_err_detail(&in->err, "left in it: %s with weights, %s, %s parameters (%s)",
                      cli_plural(in->n_weighted, "layer").s,
                      cli_plural(pg_store_n_weights(in->store), "tensor").s,
                      cli_count(in->n_params).s, cli_size(in->n_bytes).s);
    in->status = CLI_TROUBLE;
}

/* Height of a bin in a histogram of the page: at least 1 unless it is empty. */
static void set_heights(unsigned char heights[INFO_BINS], const uint64_t bins[INFO_BINS])
{
    uint64_t most = 1;
    for (size_t k = 0; k < INFO_BINS; k++)
        most = bins[k] > most ? bins[k] : most;
    for (size_t k = 0; k < INFO_BINS; k++)
        heights[k] = (unsigned char)ceil((double)bins[k] / (double)most * (double)INFO_HEIGHT);
}

static void *array(size_t n, size_t size)
{
    return calloc(n ? n : 1, size);
}

/* For the n tensors in rows; all or none. */
static pg_status read_rows(info *in, const size_t *rows, size_t n)
{
    const pg_stats_opts opts = {.progress = cli_progress(), .cancel = cli_cancel()};
    pg_stats *got = array(n, sizeof *got);
    uint64_t(*bins)[INFO_BINS] = in->heights ? array(n, sizeof *bins) : NULL;
    const pg_status st = got && (bins || !in->heights)
                             ? pg_store_stats_of(got, bins ? bins[0] : NULL, INFO_BINS, in->store,
                                                 rows, n, &opts, &in->err)
                             : pg_fail(&in->err, PG_E_NOMEM, "out of memory");
    cli_progress_end();
    for (size_t k = 0; k < n && st == PG_OK; k++) {
        in->stats[rows[k]] = got[k];
        if (bins)
            set_heights(in->heights[rows[k]], bins[k]);
    }
    free(got);
    free(bins);
    return st;
}

/* Reads all values before printing: a file with a damaged tensor is refused as a whole. */
static void read_stats(info *in, const info_opts *o)
{
    size_t n = 0, *rows = info_rows(in, o, &n);
    const size_t all = pg_store_n_weights(in->store);
    in->stats = array(all, sizeof *in->stats);
    in->heights = o->html ? array(all, sizeof *in->heights) : NULL;
    const int ready = rows && in->stats && (in->heights || !o->html);
    pg_status st = ready ? read_rows(in, rows, n) : pg_fail(&in->err, PG_E_NOMEM, "out of memory");
    free(rows);
    if (st != PG_OK)
        pg_err_prefix(&in->err, cli_name(in->path).s);
    else
        st = pg_store_check_same(in->store, &in->err);
    if (st == PG_OK)
        return;
    in->status = cli_status(st);
    in->verdict = pg_failure_verdict(st);
    free(in->stats);
    free(in->heights);
    in->stats = NULL;
    in->heights = NULL;
}

/* A prefix of TensorFlow is no file, and a folder's size is not that of its files. */
static pg_status find_size(info *in, const char *path)
{
    struct stat st;
    int rc;
    do
        rc = stat(path, &st);
    while (rc && errno == EINTR);
    if (rc == 0 && S_ISREG(st.st_mode))
        in->file_bytes = (uint64_t)st.st_size;
    return rc == 0 || errno == ENOENT || errno == ENOTDIR
               ? PG_OK
               : pg_fail_sys(&in->err, PG_E_IO, errno, "%s", cli_name(path).s);
}

void info_open(info *in, const char *path, const info_opts *o)
{
    const pg_open_opts open = {.part = cli.part, .rules = cli.rules};
    const pg_open_opts rescue = {.salvage = 1};
    const pg_open_opts listed = {.part = ""};
    *in = (info){.path = path};
    pg_status code = find_size(in, path);
    if (code == PG_OK)
        code = pg_store_open(&in->store, path, &open, &in->err);
    if (code == PG_E_AMBIGUOUS) { /* other tools need to know which part; pginfo lists all */
        in->question = in->err;
        in->err = (pg_err){0};
        code = pg_store_open(&in->store, path, &listed, &in->err);
    }
    if (code != PG_OK) {
        in->status = cli_status(code);
        in->verdict = pg_failure_verdict(code);
        in->format = in->file_bytes ? pg_failure_container(path, code) : NULL;
        if (code != PG_E_FORMAT || pg_store_open(&in->store, path, &rescue, NULL) != PG_OK)
            return;
    }
    in->format = pg_store_format(in->store);
    for (size_t i = 0; i < pg_store_n_weights(in->store); i++) {
        in->n_params += n_elements(pg_store_weight(in->store, i));
        in->n_bytes += pg_store_weight(in->store, i)->n_bytes;
    }
    pg_err *err = code == PG_OK ? &in->err : NULL;
    const pg_status judged = pg_inspect(&in->found, in->store, err);
    if (code == PG_OK && judged != PG_OK)
        in->status = cli_status(judged);
    else if (code == PG_OK)
        in->verdict = pg_store_damage(in->store) ? PG_V_DAMAGED
                      : in->question.code        ? PG_V_AMBIGUOUS
                                                 : in->found.verdict;
    in->n_weighted = count_weighted(in);
    if (judged == PG_OK)
        complain(in);
    if (in->err.code == PG_OK && pg_count_params(&in->counts, in->store, &in->err) != PG_OK)
        in->status = cli_status(in->err.code);
    if ((o->stats || o->html) && in->err.code == PG_OK)
        read_stats(in, o);
}

void info_close(info *in)
{
    free(in->stats);
    free(in->heights);
    pg_finding_fini(&in->found);
    pg_store_close(in->store);
    *in = (info){0};
}

int info_layer_wanted(const info *in, const info_opts *o, size_t i)
{
    return !o->layers || fnmatch(o->layers, pg_store_layer(in->store, i)->name, 0) == 0;
}

static const info *sorted; /* for qsort(), which passes no context */

static int by_size(const void *a, const void *b)
{
    const size_t i = *(const size_t *)a, j = *(const size_t *)b;
    const uint64_t x = pg_store_weight(sorted->store, i)->n_bytes;
    const uint64_t y = pg_store_weight(sorted->store, j)->n_bytes;
    return x < y ? 1 : x > y ? -1 : i < j ? -1 : i > j;
}

static int by_name(const void *a, const void *b)
{
    const size_t i = *(const size_t *)a, j = *(const size_t *)b;
    const int c =
        strcmp(pg_store_weight(sorted->store, i)->name, pg_store_weight(sorted->store, j)->name);
    return c ? c : i < j ? -1 : i > j;
}

size_t *info_rows(const info *in, const info_opts *o, size_t *n)
{
    const size_t all = pg_store_n_weights(in->store);
    size_t *rows = calloc(all ? all : 1, sizeof *rows);
    *n = 0;
    for (size_t i = 0; rows && i < all; i++) {
        cli_buf layer, tensor;
        info_row_names(in, i, &layer, &tensor);
        const size_t at = pg_store_weight(in->store, i)->layer;
        if (!o->layers || fnmatch(o->layers, layer.s, 0) == 0 ||
            (at != PG_NONE && info_layer_wanted(in, o, at)))
            rows[(*n)++] = i;
    }
    sorted = in;
    if (rows && o->sort)
        qsort(rows, *n, sizeof *rows, strcmp(o->sort, "size") == 0 ? by_size : by_name);
    return rows;
}

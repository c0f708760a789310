/* pginfo_text.c - the text about one file: format, verdict, tensors, and what to do. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "pginfo.h"
#include "table.h"

enum { LINE = 80, PARTS = 40 }; /* right edge of the size on the first line; parts shown */

const char *info_format_words(const char *format)
{
    static const struct {
        const char *format, *words;
    } known[] = {
        {"keras-h5-weights", "Keras weights (HDF5, legacy layout)"},
        {"keras-h5-model", "Keras model (HDF5, legacy layout)"},
        {"keras-weights-h5", "Keras weights (HDF5, .weights.h5 layout)"},
        {"keras-zip", "Keras model (.keras)"},
        {"keras-sharded", "Keras weights (shards with an index)"},
        {"npy-shards", "split model (manifest.json)"},
        {"safetensors", "safetensors"},
        {"pytorch-zip", "PyTorch checkpoint"},
        {"pickle", "pickled NumPy arrays"},
        {"pytorch-stream", "PyTorch checkpoint (torch before 1.6)"},
        {"npy", "NumPy array (.npy)"},
        {"npz", "NumPy arrays (.npz)"},
        {"hdf5", "HDF5, not a Keras file"},
        {"tensorflow", "TensorFlow checkpoint"},
        {"torch-dcp", "torch.distributed checkpoint (DCP)"},
        {"torch-dcp-safetensors", "torch.distributed checkpoint (safetensors)"},
        {"megatron", "Megatron-LM checkpoint"},
        {"torch-ranks", "PyTorch checkpoint (a file for each rank)"},
        {"deepspeed-zero", "DeepSpeed checkpoint (ZeRO)"},
        {"flax-msgpack", "Flax checkpoint (msgpack)"},
        {"orbax", "Orbax checkpoint (JAX)"},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].format, format) == 0)
            return known[i].words;
    return format;
}

static void print_title(const info *in)
{
    const char *writer = pg_store_writer(in->store);
    const cli_buf name = cli_name(in->path);
    const cli_buf size = cli_size(in->file_bytes ? in->file_bytes : in->n_bytes); /* a folder */
    const cli_buf by = cli_name(writer ? writer : "");
    const char *words = info_format_words(in->format);
    const size_t used = cli_width(name.s) + 2 + cli_width(words) +
                        (writer ? 2 + cli_width(by.s) : 0) + cli_width(size.s);
    cli_color(stdout, CLI_BOLD);
    cli_puts(stdout, name.s);
    cli_color(stdout, CLI_PLAIN);
    cli_printf(stdout, "  %s%s%s%*s%s\n", words, writer ? ", " : "", by.s,
               used + 2 < LINE ? (int)(LINE - used) : 2, "", size.s);
}

/* "4 layers with weights, 8 tensors, 23,626 parameters (94.5 kB float32)" */
static void print_totals(const info *in)
{
    const size_t n = pg_store_n_weights(in->store);
    const char *type = n ? pg_dtype_name(pg_store_weight(in->store, 0)->dtype) : "";
    for (size_t i = 1; i < n; i++)
        if (pg_store_weight(in->store, i)->dtype != pg_store_weight(in->store, 0)->dtype)
            type = "of several types";
    if (in->n_weighted)
        cli_printf(stdout, "%s with weights, ", cli_plural(in->n_weighted, "layer").s);
    cli_printf(stdout, "%s, %s parameters (%s%s%s)\n", cli_plural(n, "tensor").s,
               cli_count(in->n_params).s, cli_size(in->n_bytes).s, *type ? " " : "", type);
}

/* "lambda, lambda_1", at most a line of them. */
static void print_list(char **names, size_t n)
{
    size_t width = 0;
    for (size_t i = 0; i < n; i++) {
        const cli_buf name = cli_name(names[i]);
        if ((width += cli_width(name.s) + 2) > LINE && i) {
            cli_printf(stdout, ", \xE2\x80\xA6 (%zu more)", n - i);
            return;
        }
        cli_printf(stdout, "%s%s", i ? ", " : "", name.s);
    }
}

/* The verdict in a sentence, as the library words it. */
static void print_reason(const info *in, cli_style style)
{
    cli_color(stdout, style);
    cli_printf(stdout, "  %s", in->found.reason);
    cli_color(stdout, CLI_PLAIN);
    cli_puts(stdout, in->found.certain || in->verdict != PG_V_WRAPPER ? "\n  " : " (likely)\n  ");
}

static void print_wrapper(const info *in)
{
    const pg_finding *f = &in->found;
    if (!f->replicas) {
        print_reason(in, CLI_WARN);
        print_totals(in);
        return;
    }
    cli_color(stdout, CLI_WARN);
    cli_printf(stdout, "  parallel wrapper%s", f->certain ? "" : " (likely)");
    cli_color(stdout, CLI_PLAIN);
    cli_printf(stdout, ": %zu replicas", f->replicas);
    if (f->n_slices) {
        cli_puts(stdout, " (");
        print_list(f->slices, f->n_slices);
        cli_puts(stdout, ")");
    }
    cli_puts(stdout, f->n_merges ? ", merged in " : "");
    for (size_t i = 0; i < f->n_merges; i++)
        cli_printf(stdout, "%s\"%s\"", i ? ", " : "", cli_name(f->merges[i]).s);
    cli_printf(stdout, "\n  template \"%s\": ", cli_name(f->template_name).s);
    print_totals(in);
}

/* "wrapped ("module.")", "not wrapped" of one part, and the command that takes it. */
static void add_part(table *t, const info *in, const pg_part *part)
{
    pg_store *s = NULL;
    pg_finding f = {0};
    char text[3072] = "";
    const pg_open_opts o = {.part = part->path};
    const int ok = part->is_model && pg_store_open(&s, in->path, &o, NULL) == PG_OK &&
                   pg_inspect(&f, s, NULL) == PG_OK;
    const int wrapped = ok && f.verdict == PG_V_WRAPPER;
    table_add(t, cli_name(part->path).s);
    table_add(t, !ok ? part->kind : wrapped ? "model, wrapped" : "model");
    table_add(t, cli_count(part->n_tensors).s);
    table_add(t, part->n_params ? cli_count(part->n_params).s : "");
    if (ok && *cli_quote(part->path).s && *cli_quote(in->path).s)
        (void)snprintf(text, sizeof text, "%s --part %s %s OUT.safetensors",
                       wrapped ? "pgunwrap" : "pgconvert", cli_quote(part->path).s,
                       cli_quote(in->path).s);
    table_add(t, text);
    pg_finding_fini(&f);
    pg_store_close(s);
}

/* The parts of a checkpoint that does not say which of them is the model. */
static int print_parts(const info *in)
{
    static const char *const head[] = {"part", "is", "tensors", "params", "taken by"};
    table t = {.n_cols = 5, .right = 0xC};
    const size_t skip = strlen(cli_name(in->path).s);
    const char *why = in->question.msg; /* "PATH: ...", or the index that belongs to PATH */
    const char *colon = strlen(why) > skip ? strstr(why + skip, ": ") : NULL;
    cli_color(stdout, CLI_WARN);
    cli_printf(stdout, "  %s\n\n", colon ? colon + 2 : why);
    cli_color(stdout, CLI_PLAIN);
    for (size_t c = 0; c < t.n_cols; c++)
        table_add(&t, head[c]);
    const size_t n = pg_store_n_parts(in->store);
    for (size_t i = 0; i < n && i < PARTS; i++)
        add_part(&t, in, pg_store_part(in->store, i));
    const int failed = table_print(&t, "  ", 0) < 0;
    table_free(&t);
    if (n > PARTS)
        cli_printf(stdout, "  and %zu more (--json lists them)\n", n - PARTS);
    return failed ? cli_complain(NULL, NULL, "out of memory") : CLI_OK;
}

/* The tensors of the model that are cut. */
typedef struct cut {
    size_t n;
    uint64_t least, most; /* pieces */
    uint32_t axes;
} cut;

static cut cut_of(const pg_store *s)
{
    cut c = {0};
    for (size_t i = 0; i < pg_store_n_weights(s); i++) {
        const pg_pieces p = pg_store_pieces(s, i);
        if (p.n < 2)
            continue;
        c.least = c.n == 0 || p.n < c.least ? p.n : c.least;
        c.most = p.n > c.most ? p.n : c.most;
        c.axes |= p.axes;
        c.n++;
    }
    return c;
}

/* "saved by 4 ranks; 20 of 26 tensors are cut, in 2 to 4 pieces, along axes 0, 1" */
static void print_ranks(const info *in)
{
    const char *ranks = pg_store_ranks(in->store);
    const cut c = cut_of(in->store);
    const char *before = c.axes & (c.axes - 1) ? ", along axes " : ", along axis ";
    if (!ranks && c.n == 0)
        return;
    cli_printf(stdout, "  %s%s", ranks ? ranks : "", ranks && c.n ? "; " : "");
    if (c.n) {
        cli_printf(stdout, "%s of %s %s cut, in ", cli_count(c.n).s,
                   cli_plural(pg_store_n_weights(in->store), "tensor").s, c.n == 1 ? "is" : "are");
        if (c.least < c.most)
            cli_printf(stdout, "%s to ", cli_count(c.least).s);
        cli_printf(stdout, "%s pieces", cli_count(c.most).s);
    }
    for (uint32_t k = 0; k < PG_MAX_RANK; k++)
        if (c.axes >> k & 1) {
            cli_printf(stdout, "%s%u", before, k);
            before = ", ";
        }
    putchar('\n');
}

static void print_verdict(const info *in)
{
    switch (in->verdict) {
    case PG_V_WRAPPER: print_wrapper(in); break;
    case PG_V_SINGLE:
        if (in->found.unsettled) {
            print_reason(in, CLI_WARN);
            print_totals(in);
            break;
        }
        cli_color(stdout, CLI_GOOD);
        cli_puts(stdout, "  not wrapped");
        cli_color(stdout, CLI_PLAIN);
        cli_puts(stdout,
                 pg_store_n_layers(in->store) && !in->found.index ? ", loads as it is: " : ": ");
        print_totals(in);
        break;
    case PG_V_NESTED:
    case PG_V_AMBIGUOUS:
    case PG_V_NO_WEIGHTS:
        print_reason(in, CLI_WARN);
        print_totals(in);
        break;
    case PG_V_UNKNOWN:
    case PG_V_DAMAGED: break; /* printed on stderr */
    }
    print_ranks(in);
    if (in->counts.known)
        cli_printf(stdout, "  trainable parameters: %s, non-trainable: %s\n",
                   cli_count(in->counts.trainable).s, cli_count(in->counts.non_trainable).s);
    size_t n_beside;
    const char *beside = pg_store_beside(in->store, &n_beside);
    if (pg_store_n_state(in->store) > n_beside)
        cli_printf(stdout, "  with the state of the optimizer: %s\n",
                   cli_plural(pg_store_n_state(in->store) - n_beside, "tensor").s);
    if (beside)
        cli_printf(stdout, "  other contents: %s\n", beside);
    if (pg_store_others(in->store))
        cli_printf(stdout, "  other contents: %s\n", pg_store_others(in->store));
    if (in->found.index)
        cli_printf(stdout, "  one shard of several; the whole: %s\n", cli_name(in->found.index).s);
    for (size_t i = 0; cli.verbose && i < in->found.n_evidence; i++)
        cli_printf(stdout, "  evidence: %s\n", in->found.evidence[i]);
}

cli_buf info_number(double v)
{
    cli_buf out;
    const double a = fabs(v);
    if (isnan(v))
        snprintf(out.s, sizeof out.s, "\xE2\x80\x93");
    else if (a != 0 && (a >= 1e4 || a < 1e-4))
        snprintf(out.s, sizeof out.s, "%.2e", v);
    else
        snprintf(out.s, sizeof out.s, "%.4f", v + 0.0); /* no minus before a zero */
    return out;
}

static void add_number(table *t, double v)
{
    table_add(t, info_number(v).s);
}

/* Eight blocks, as high as their bins are full; a dot for an empty bin. */
static void add_histogram(table *t, const pg_stats *s)
{
    static const char *const blocks[] = {"\xC2\xB7",     "\xE2\x96\x81", "\xE2\x96\x82",
                                         "\xE2\x96\x83", "\xE2\x96\x84", "\xE2\x96\x85",
                                         "\xE2\x96\x86", "\xE2\x96\x87", "\xE2\x96\x88"};
    char text[PG_STATS_BINS * 4 + 1] = "";
    uint64_t most = 1;
    for (size_t i = 0; i < PG_STATS_BINS; i++)
        most = s->bins[i] > most ? s->bins[i] : most;
    for (size_t i = 0; i < PG_STATS_BINS; i++) {
        const double share = (double)s->bins[i] / (double)most;
        strcat(text, blocks[s->bins[i] ? (int)ceil(share * 8) : 0]);
    }
    table_add(t, text);
}

static void add_stats(table *t, const pg_stats *s)
{
    char text[32];
    add_number(t, s->min);
    add_number(t, s->max);
    add_number(t, s->mean);
    add_number(t, s->std);
    const double zeros = s->n ? 100 * (double)s->n_zero / (double)s->n : 0;
    snprintf(text, sizeof text, "%.0f%%", s->n_zero < s->n && zeros > 99 ? 99.0 : zeros);
    table_add(t, text);
    table_add(t, cli_count(s->n_nan + s->n_inf).s);
    snprintf(text, sizeof text, "%08x", (unsigned)s->crc32);
    table_add(t, text);
    add_histogram(t, s);
}

static void add_row(table *t, const info *in, const cli_buf *layer, const cli_buf *tensor, size_t i)
{
    const pg_weight *w = pg_store_weight(in->store, i);
    const size_t one = pg_dtype_bytes(w->dtype);
    table_add(t, layer->s);
    table_add(t, tensor->s);
    table_add(t, cli_shape(w).s);
    table_add(t, cli_count(one ? w->n_bytes / one : 0).s);
}

int info_no_layer(const info *in, const info_opts *o)
{
    return cli_complain(NULL, NULL, "%s: no layer matches \"%s\"", cli_name(in->path).s,
                        cli_name(o->layers).s);
}

static int print_table(const info *in, const info_opts *o)
{
    static const char *const plain[] = {"layer", "tensor", "shape", "params"};
    static const char *const stats[] = {"tensor", "shape", "min",     "max",   "mean",
                                        "std",    "zeros", "nan/inf", "crc32", "values"};
    table t = {.n_cols = o->stats ? 10 : 4, .right = o->stats ? 0xFCu : 0x8u};
    cli_buf layer = {""}, last = {""}, tensor;
    int status = CLI_OK;
    size_t n = 0, *rows = info_rows(in, o, &n);
    for (size_t c = 0; c < t.n_cols; c++)
        table_add(&t, o->stats ? stats[c] : plain[c]);
    for (size_t k = 0; rows && k < n; k++) {
        info_row_names(in, rows[k], &layer, &tensor);
        if (o->stats) {
            char name[2 * sizeof layer.s];
            snprintf(name, sizeof name, "%s%s%s", layer.s, *layer.s ? "/" : "", tensor.s);
            table_add(&t, name);
            table_add(&t, cli_shape(pg_store_weight(in->store, rows[k])).s);
            add_stats(&t, &in->stats[rows[k]]);
        } else {
            const cli_buf none = {""};
            const int again = !o->markdown && k && strcmp(layer.s, last.s) == 0;
            add_row(&t, in, again ? &none : &layer, &tensor, rows[k]);
            last = layer;
        }
    }
    if (!rows || (n && putchar('\n') == '\n' && table_print(&t, "  ", o->markdown) < 0))
        status = cli_complain(NULL, NULL, "out of memory");
    else if (n == 0 && o->layers)
        status = info_no_layer(in, o);
    free(rows);
    table_free(&t);
    return status;
}

/* The errors of the frameworks for a wrapper's file, so that people recognise theirs. */
static void print_trouble(const info *in)
{
    size_t weighted = 0;
    for (size_t i = 0; i < pg_store_n_layers(in->store); i++)
        weighted += pg_store_layer(in->store, i)->n_weights > 0;
    if (pg_store_n_layers(in->store) == 0) {
        const char *prefix = in->found.template_name ? in->found.template_name : "";
        const size_t n = strlen(prefix);
        const int leads = n && prefix[n - 1] == '.'; /* otherwise words from within the names */
        cli_printf(stdout,
                   "\nThis file does not load into the bare model. PyTorch reports:\n"
                   "  Missing key(s) in state_dict: ... Unexpected key(s) in state_dict: "
                   "\"%s...\"\n",
                   leads ? cli_name(prefix).s : "");
        return;
    }
    cli_puts(stdout,
             "\nThis file does not load into the one-device model. Keras reports one of:\n");
    if (strncmp(in->format, "keras-h5", 8) == 0) {
        cli_printf(stdout,
                   "  You are trying to load a weight file containing %zu layers into a model with "
                   "%zu layers.\n",
                   weighted, in->n_weighted);
        cli_printf(stdout,
                   "  Layer count mismatch when loading weights from file. Model expected %zu "
                   "layers, found %zu saved layers.\n",
                   in->n_weighted, weighted);
    } else {
        cli_puts(stdout, "  Layer '...' expected 2 variables, but received 0 variables during "
                         "loading.\n  A total of ... objects could not be loaded.\n");
    }
    if (strcmp(in->format, "keras-h5-model") == 0)
        cli_puts(stdout,
                 "  TypeError: arg 4 (defaults) must be None or tuple   (load_model in Keras 3)\n");
}

static void print_next(const info *in)
{
    const cli_hint next = cli_hint_of(&in->found.next);
    if (next.s[0])
        cli_printf(stdout, "try: %s\n", next.s);
}

int info_print_text(const info *in, const info_opts *o)
{
    int status = in->status;
    if (in->err.code != PG_OK)
        return cli_fail(&in->err);
    if (cli.quiet)
        return status;
    print_title(in);
    if (in->question.code)
        return cli_worse(status, print_parts(in));
    print_verdict(in);
    if (pg_store_n_weights(in->store)) {
        const int shown = print_table(in, o);
        status = cli_worse(status, shown);
    }
    if (in->verdict == PG_V_WRAPPER) {
        print_trouble(in);
        if (in->found.unsettled)
            cli_printf(stdout, "To order its layers, pgunwrap needs the one-device model: %s\n",
                       in->found.unsettled);
        print_next(in);
    } else if (in->found.next.what != PG_DO_NOTHING) {
        putchar('\n');
        print_next(in);
    }
    return status;
}

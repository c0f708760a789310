/* pgfit_report.c - the first lines of a run (model, data, devices) and the last ones: the course of
 * the loss, where the time went, and whether the devices were worth it. */
#include <math.h>
#include <string.h>

#include "json_out.h"
#include "pgfit.h"
#include "table.h"

/* ---- before ---- */

/* Divides a batch as multi_gpu_model does: the last device takes the rest. */
static void print_parts(const pg_run *r)
{
    const size_t each = r->batch_size / r->n_devices;
    printf("batch %zu", r->batch_size);
    for (size_t k = 0; r->n_devices > 1 && r->n_devices <= 8 && k < r->n_devices; k++)
        printf("%s%zu", k ? "+" : " = ", k + 1 < r->n_devices ? each : r->batch_size - k * each);
}

static void print_devices(const pg_run *r)
{
    const char *at = r->devices;
    size_t n_here = 1;
    printf("pgfit %s: %s ", pg_version(), cli_plural(r->n_devices, "device").s);
    if (r->n_ranks > 1)
        cli_printf(stdout, "of %zu ranks (%s; rank 0: ", r->n_ranks, r->mpi);
    else
        fputs("(", stdout);
    for (; *at; at++) {
        printf(*at == ',' ? "%c " : "%c", *at);
        n_here += *at == ',';
    }
    if (r->kind)
        cli_printf(stdout, ": %s), ", r->kind);
    else
        printf(": %s%s), ", cli_plural(r->n_cores / n_here, "core").s, n_here > 1 ? " each" : "");
    if (r->n_devices > 1)
        fputs("data-parallel, ", stdout);
    print_parts(r);
    puts(fit_args.train.deterministic ? ", deterministic" : "");
}

static cli_buf shape_text(const pg_shape *s)
{
    cli_buf out = {"1"};
    size_t at = 0;
    for (uint32_t k = 0; k < s->rank; k++) {
        const char *times = k ? "\xC3\x97" : "";
        if (s->dims[k] == PG_DIM_UNKNOWN)
            at += (size_t)snprintf(out.s + at, sizeof out.s - at, "%s?", times);
        else
            at += (size_t)snprintf(out.s + at, sizeof out.s - at, "%s%llu", times,
                                   (unsigned long long)s->dims[k]);
    }
    return out;
}

static void print_data(const pg_run *r)
{
    const char *slash = strrchr(fit_args.data, '/');
    const char *name = slash && slash[1] ? slash + 1 : fit_args.data;
    cli_printf(stdout, "%s: %s train", cli_name(name).s, cli_count(r->n_train).s);
    if (r->n_val > 0)
        cli_printf(stdout, ", %s validation", cli_count(r->n_val).s);
    cli_printf(stdout, ", %s%s \xE2\x86\x92 %s%s.  ", shape_text(&r->input).s,
               r->n_inputs > 1 ? ", ..." : "", shape_text(&r->output).s,
               r->n_outputs > 1 ? ", ..." : "");
    cli_printf(stdout, "model: %s, %s (%s), %s lr=%g\n", cli_plural(r->n_layers, "layer").s,
               cli_plural(r->n_params, "parameter").s, cli_size(r->n_param_bytes).s, r->optimizer,
               r->learning_rate);
}

static void print_json_start(const pg_run *r)
{
    printf("{\"event\": \"start\", \"version\": \"%s\"", pg_version());
    json_member("devices", r->devices);
    if (r->kind)
        json_member("gpu", r->kind);
    json_count("replicas", 1, r->n_devices);
    json_count("ranks", 1, r->n_ranks);
    if (r->mpi)
        json_member("mpi", r->mpi);
    json_count("cores", 1, r->n_cores);
    json_count("batch_size", 1, r->batch_size);
    json_count("batches", 1, r->n_batches);
    json_count("epochs", 1, r->n_epochs);
    json_count("train", 1, r->n_train);
    json_count("validation", 1, r->n_val);
    json_count("layers", 1, r->n_layers);
    json_count("parameters", 1, r->n_params);
    json_member("optimizer", r->optimizer);
    printf(", \"learning_rate\": %.9g}\n", r->learning_rate);
    fflush(stdout);
}

void fit_print_start(const pg_run *r)
{
    if (cli.json) {
        print_json_start(r);
    } else if (!cli.quiet) {
        print_devices(r);
        print_data(r);
        fflush(stdout);
    }
}

/* ---- after ---- */

/* The mean of the epochs that share column k of n. */
static double column(const fit_screen *s, size_t k, size_t n)
{
    const size_t from = s->n_history * k / n, to = s->n_history * (k + 1) / n;
    double sum = 0;
    for (size_t i = from; i < to; i++)
        sum += s->history[i];
    return sum / (double)(to - from);
}

/* One character per epoch, low for low values; NaN leaves a gap. */
static void print_curve(const fit_screen *s)
{
    static const char *const blocks[] = {"\xE2\x96\x81", "\xE2\x96\x82", "\xE2\x96\x83",
                                         "\xE2\x96\x84", "\xE2\x96\x85", "\xE2\x96\x86",
                                         "\xE2\x96\x87", "\xE2\x96\x88"};
    const size_t n = s->n_history < 60 ? s->n_history : 60;
    double low = INFINITY, high = -INFINITY;
    size_t best = 0;
    for (size_t i = 0; i < s->n_history; i++) {
        const double v = s->history[i];
        low = v < low ? v : low;
        high = isfinite(v) && v > high ? v : high;
        best = v < s->history[best] || isnan(s->history[best]) ? i : best;
    }
    if (n < 2 || !isfinite(low))
        return;
    cli_printf(stdout, "%s ", s->watched);
    for (size_t k = 0; k < n; k++) {
        const double v = column(s, k, n), share = high > low ? (v - low) / (high - low) : 0;
        cli_puts(stdout, isfinite(v) ? blocks[(size_t)(share * 7 + 0.5)] : " ");
    }
    cli_printf(stdout, "  %.4f \xE2\x86\x92 %.4f   best %.4f in epoch %zu\n", s->history[0],
               s->history[s->n_history - 1], s->history[best], s->first + best + 1);
}

static void print_speed(const pg_fit_report *r)
{
    cli_printf(stdout, "%s in %.1f s", cli_plural(r->n_epochs, "epoch").s, r->seconds);
    if (r->rows_per_second > 0)
        cli_printf(stdout, ", %s samples/s; all-reduce %.0f %%, input %.0f %%",
                   cli_count((uint64_t)r->rows_per_second).s, r->reduce * 100, r->input * 100);
    if (r->alone > 0)
        cli_printf(stdout, "; one device alone: %s samples/s (\xC3\x97%.1f)",
                   cli_count((uint64_t)r->alone).s, r->rows_per_second / r->alone);
    putchar('\n');
}

/* Warns if more devices did not help. */
static void print_advice(const fit_screen *s, const pg_fit_report *r)
{
    if (r->alone <= r->rows_per_second || r->rows_per_second <= 0 || r->seconds < 2)
        return; /* or too short to tell */
    fflush(stdout);
    cli_printf(stderr,
               "note: %zu devices are slower than 1 here (\xC3\x97%.1f): %.0f %% of the time is "
               "all-reduce; the model is small for this, or the cores are busy\ntry: a larger "
               "--batch-size, or one "
               "device\n",
               s->run.n_devices, r->rows_per_second / r->alone, r->reduce * 100);
}

/* The rank that waits least is the one that the others wait for. */
static void print_ranks(const pg_fit_report *r)
{
    static const char *const heads[] = {"rank", "host", "compute", "exchange", "waiting", "input"};
    table t = {.n_cols = 6, .right = 1u | 1u << 2 | 1u << 3 | 1u << 4 | 1u << 5};
    char text[32];
    if (!cli.verbose || r->n_ranks == 0)
        return;
    for (size_t k = 0; k < 6; k++)
        table_add(&t, heads[k]);
    for (size_t k = 0; k < r->n_ranks; k++) {
        const pg_rank_share *s = &r->ranks[k];
        const double shares[] = {s->compute, s->exchange, s->waiting, s->input};
        snprintf(text, sizeof text, "%zu", k);
        table_add(&t, text);
        table_add(&t, s->host);
        for (size_t i = 0; i < 4; i++) {
            snprintf(text, sizeof text, "%.0f %%", shares[i] * 100);
            table_add(&t, text);
        }
    }
    (void)table_print(&t, "  ", 0);
    table_free(&t);
}

static void print_json_ranks(const pg_fit_report *r)
{
    for (size_t k = 0; k < r->n_ranks; k++) {
        const pg_rank_share *s = &r->ranks[k];
        printf("%s{\"rank\": %zu", k ? ", " : ", \"ranks\": [", k);
        json_member("host", s->host);
        json_number("compute", s->compute);
        json_number("exchange", s->exchange);
        json_number("waiting", s->waiting);
        json_number("input", s->input);
        fputs(k + 1 < r->n_ranks ? "}" : "}]", stdout);
    }
}

/* Which of the ways to sum gradients was taken, and why. */
static void print_sums(const fit_screen *s)
{
    static const char *const words[][2] = {
        {"lanes", "over the lanes of one process"}, {"placed", "on the GPU of each variable"},
        {"copies", "by copies between GPUs"},       {"nccl", "over GPUs by NCCL"},
        {"hosts", "through the hosts' memory"},     {"mpi", "over processes by MPI"}};
    pg_sum_plan p;
    size_t k = 0;
    if (!cli.verbose || !pg_trainer_sums(s->trainer, &p))
        return;
    while (strcmp(words[k][0], p.way) != 0)
        k++;
    cli_printf(stdout, "gradients: summed %s%s", words[k][1],
               p.is_in_tree ? ", in the order of the tree" : "");
    if (p.n_buckets > 0)
        cli_printf(stdout, ", in %zu bucket%s", p.n_buckets, p.n_buckets == 1 ? "" : "s");
    cli_printf(stdout, ", %s the backward pass: %s\n", p.overlaps ? "during" : "after", p.why);
}

static void print_json_sums(const fit_screen *s)
{
    pg_sum_plan p;
    if (!pg_trainer_sums(s->trainer, &p))
        return;
    printf(", \"gradients\": {\"way\": \"%s\", \"in_tree\": %s, \"overlaps\": %s", p.way,
           p.is_in_tree ? "true" : "false", p.overlaps ? "true" : "false");
    json_count("buckets", 1, p.n_buckets);
    json_member("why", p.why);
    putchar('}');
}

static void print_json_end(const fit_screen *s, const pg_fit_report *r)
{
    printf("{\"event\": \"end\", \"epochs\": %zu", r->n_epochs);
    json_number("seconds", r->seconds);
    json_number("samples_per_second", r->rows_per_second);
    json_number("reduce", r->reduce);
    json_number("input", r->input);
    json_number("one_device", r->alone > 0 ? r->alone : NAN);
    json_number("speed_up", r->alone > 0 ? r->rows_per_second / r->alone : NAN);
    print_json_sums(s);
    print_json_ranks(r);
    puts("}");
    fflush(stdout);
}

void fit_print_end(fit_screen *s, const pg_fit_report *report)
{
    if (cli.json) {
        print_json_end(s, report);
    } else if (!cli.quiet) {
        print_curve(s);
        fit_print_kept(s);
        print_speed(report);
        print_ranks(report);
        print_sums(s);
        fit_print_use(s);
        print_advice(s, report);
        fflush(stdout);
    }
}

void fit_print_predicted(const char *path)
{
    if (cli.json) {
        fputs("{\"event\": \"predictions\"", stdout);
        json_member("file", path);
        puts("}");
    } else if (!cli.quiet) {
        cli_printf(stdout, "load it:  y = numpy.load(\"%s\")\n", cli_name(path).s);
    }
}

void fit_note_unquantized(void)
{
    fit_show_note("nothing is in int8: no dense layer or convolution for which it pays");
}

static void print_quantized_json(const pg_quantized *q)
{
    printf("{\"event\": \"quantized\", \"products\": %zu, \"rows\": %llu", q->n_products,
           (unsigned long long)q->n_rows);
    json_member("output", q->output);
    json_number("max_change", q->max_change);
    json_number("max_given", q->max_given);
    json_number("rel_change", q->rel_change);
    printf(", \"choices\": %llu, \"same\": %llu}\n", (unsigned long long)q->n_choices,
           (unsigned long long)q->n_same);
}

/* What int8 changes. */
void fit_print_quantized(const pg_quantized *q)
{
    if (cli.json) {
        print_quantized_json(q);
        return;
    }
    if (q->n_products == 0) {
        fit_note_unquantized();
        return;
    }
    cli_printf(stdout, "%s in int8; in the first %s", cli_plural(q->n_products, "product").s,
               cli_plural(q->n_rows, "row").s);
    if (q->output)
        cli_printf(stdout, ", %s changes by %.2g %%, a number of it by %.2g or less, of %.3g",
                   cli_name(q->output).s, 100 * q->rel_change, q->max_change, q->max_given);
    if (q->n_choices > 0)
        printf("; the largest number is the same in %llu of %llu", (unsigned long long)q->n_same,
               (unsigned long long)q->n_choices);
    putchar('\n');
}

/* How to load the saved file in Keras. */
void fit_print_saved(const char *path)
{
    const size_t n = strlen(path);
    const int full = fit_args.full_model || (n > 6 && strcmp(path + n - 6, ".keras") == 0);
    const int h5 = n > 3 && strcmp(path + n - 3, ".h5") == 0;
    if (cli.json) {
        fputs("{\"event\": \"checkpoint\"", stdout);
        json_member("file", path);
        puts("}");
    } else if (!cli.quiet && (full || h5)) {
        cli_printf(stdout, "load it:  %s(\"%s\")\n",
                   full ? "model = keras.models.load_model" : "model.load_weights",
                   cli_name(path).s);
    }
}

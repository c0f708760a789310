/* pgconvert - the same weights in another container. */
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "each.h"
#include "json_out.h"
#include "pg/onnx.h"
#include "rewrite.h"

static pg_convert_opts o;
static pg_onnx_opts onnx;
static const char *layout, *keras;
static unsigned opset, batch;
static int external;

static const cli_opt options[] = {
    {0, "to", "FORMAT", NULL, &o.to, NULL, "h5|weights.h5|keras|safetensors|npy|npz|onnx",
     "format of OUT, regardless of its suffix (npy, npz: a folder)"},
    {0, "model", "MODEL", NULL, &o.model, NULL, NULL,
     "the description, if IN has none: JSON (-: from standard input), full .h5 or .keras"},
    {0, "unwrap", NULL, &o.unwrap, NULL, NULL, NULL,
     "convert the one-device model inside a parallel wrapper's file"},
    {0, "layout", "LAYOUT", NULL, &layout, NULL, "keras|pytorch|nchw-input|nhwc-input",
     "pytorch: transpose kernels and give tensors PyTorch's names; nchw-input: the ONNX model "
     "takes and gives images with channels first"},
    {0, "rename", "MAP.json", NULL, &o.rename, NULL, NULL,
     "rename tensors of a safetensors output: {\"old\": \"new\"}"},
    {0, "dtype", "TYPE", NULL, &o.dtype, NULL, "float32|float16|bfloat16",
     "store weights in this type, and report the rounding error"},
    {0, "keras", "2|3", NULL, &keras, NULL, "2|3", "write the description for this Keras"},
    CLI_WEIGHTS,
    CLI_RULES,
    {0, "opset", "N", NULL, NULL, &opset, NULL,
     "the operators of an ONNX model, 13 to 24 (default: 13; bfloat16: 22)"},
    {0, "batch", "N", NULL, NULL, &batch, NULL, "rows that each run of the ONNX model gets"},
    {0, "sizes", "N,...", NULL, &onnx.sizes, NULL, NULL,
     "fix what the shapes of the inputs leave open (None), in order, for ONNX"},
    {0, "fold-bn", NULL, &onnx.fold_bn, NULL, NULL, NULL,
     "put BatchNormalization into the kernels before it, in ONNX"},
    {0, "external-data", NULL, &external, NULL, NULL, NULL,
     "put the tensors of an ONNX model into OUT.data, beside it; done anyway beyond 2 GB"},
    {0, "quantize", "TYPE", NULL, &onnx.quantize, NULL, "int8",
     "kernels of an ONNX model as int8, and say by how much that changes predictions"},
    {0, "check", "X.npy", NULL, &onnx.check, NULL, NULL,
     "write rows of this file and what the model gives for them beside an ONNX model, as OUT.test"},
    CLI_EACH,
    {0},
};

static const cli_example examples[] = {
    {"pgconvert model.h5 model.safetensors", "weights, order and description as safetensors"},
    {"pgconvert --model model.json old.h5 new.weights.h5",
     "make an old file load in today's load_weights()"},
    {"pgconvert model.h5 model.keras", "a full model in the newer container"},
    {"pgconvert --layout pytorch model.h5 model.safetensors", "for torch's load_state_dict()"},
    {"pgconvert --model model.json torch.safetensors model.weights.h5", "and back to Keras"},
    {"pgconvert --keras 3 old.keras new.keras", "a model of Keras 2 for Keras 3"},
    {"pgconvert --dtype bfloat16 model.h5 half.safetensors", "half the size"},
    {"pgconvert model.h5 model.onnx", "as it predicts, for ONNX Runtime and others"},
    {"pgconvert --check x.npy model.h5 model.onnx", "and rows to try any runtime with"},
    {"pgconvert --to safetensors --out-dir out *.h5", "each of them, as out/NAME.safetensors"},
    {0},
};

#define N_ABOUT 5
static char table[32][160];
static const char *about[N_ABOUT + 33] = {
    "OUT may be legacy .h5 (weights or full model), .weights.h5, .keras, safetensors, or a\n"
    "folder of .npy or .npz files; IN may be anything that pginfo reads. The suffix of OUT\n"
    "decides the format unless --to does. A legacy file lists layers by name, the other formats\n"
    "list them by class; to go from one to the other, pgconvert needs the model's description,\n"
    "from IN or --model. It converts the kernels of Keras 1 as Keras 2 does on loading.",
    "Optimizer state is kept if OUT stores it in the same order; otherwise it is left out, and\n"
    "pgconvert says so. OUT appears whole or not at all; pgconvert reads it back and compares it\n"
    "with a second conversion.",
    ("--keras rewrites the description in a .keras or full .h5 for the other Keras. A layer that\n"
     "this Keras lacks, or computes differently, is refused by name; weights alone go through\n"
     ".weights.h5."),
    CLI_SEVERAL,
    "--layout pytorch writes safetensors for load_state_dict(strict=True). With --model, a file\n"
    "in that layout goes back to Keras. Layers that are not listed here are refused:",
};

/* The library's table, as lines that are shown as they are. */
static void list_layouts(void)
{
    size_t n = 0;
    const pg_layout_row *rows = pg_layout_rows(&n);
    for (size_t i = 0; i < n && i < sizeof table / sizeof *table; i++) {
        snprintf(table[i], sizeof table[i], "  %s: %s\n    %s", rows[i].keras, rows[i].pytorch,
                 rows[i].tensors);
        about[N_ABOUT + i] = table[i];
    }
}

static const cli_tool tool = {
    .name = "pgconvert",
    .operands = "IN OUT | --out-dir DIR IN...",
    .summary = "writes the weights of a checkpoint in another container",
    .examples = examples,
    .about = about,
    .status_1 = "OUT needs a model description, the one given does not fit, or several parts of IN "
                "could be the model",
    .opts = options,
    .groups = CLI_WRITES | CLI_READS_PARTS,
    .min_operands = 2,
    .max_operands = 2,
    .out_dir = &each_dir,
};

static void print_kernels(const pg_convert_report *r)
{
    if (r->n_hwio)
        cli_printf(stdout, "; %s HWIO\u2192OIHW", cli_plural(r->n_hwio, "kernel").s);
    if (r->n_transposed)
        cli_printf(stdout, "%s %s transposed", r->n_hwio ? "," : ";",
                   cli_plural(r->n_transposed, "kernel").s);
}

static void print_proof(const pg_convert_report *r)
{
    if (strcmp(r->format, "npy-shards") == 0) {
        cli_puts(stdout, "; checksums in manifest.json");
        return;
    }
    cli_puts(stdout, "; ");
    cli_color(stdout, cli.skip_verify ? CLI_WARN : CLI_GOOD);
    if (cli.skip_verify)
        cli_puts(stdout, "not verified");
    else if (r->n_changed)
        cli_printf(stdout, "%s/%s as converted", cli_count(r->n_verified).s,
                   cli_count(r->n_written).s);
    else
        cli_printf(stdout, "%s/%s bit-equal", cli_count(r->n_verified).s,
                   cli_count(r->n_written).s);
    cli_color(stdout, CLI_PLAIN);
}

static void print_text(const pg_convert_report *r, const char *out)
{
    if (cli.dry_run)
        cli_printf(stdout, "%s: would write %s", cli_name(out ? out : "OUT").s, r->format);
    else
        cli_printf(stdout, "%s: %s", cli_name(out).s, r->format);
    cli_printf(stdout, ", %s, %s data", cli_plural(r->n_tensors, "tensor").s,
               cli_size(r->n_bytes).s);
    print_kernels(r);
    if (cli.dry_run)
        cli_puts(stdout, "; nothing written");
    else
        print_proof(r);
    if (o.dtype && !cli.dry_run)
        cli_printf(stdout, "; largest rounding error %.1e relative", r->max_rel_error);
    if (r->n_class_paths)
        cli_printf(stdout, "; config rewritten for Keras %d", o.keras);
    putchar('\n');
    if (r->n_overflow)
        cli_printf(stdout, "  note: %s too large for %s: now infinite\n",
                   cli_plural(r->n_overflow, "element").s, o.dtype);
    if (r->n_underflow)
        cli_printf(stdout, "  note: %s too small for %s: now zero\n",
                   cli_plural(r->n_underflow, "element").s, o.dtype);
    for (size_t i = 0; i < r->n_notes; i++)
        cli_printf(stdout, "  note: %s\n", r->notes[i]);
}

static void print_json(const pg_convert_report *r, const char *in, const char *out)
{
    fputs("{\"file\": ", stdout);
    json_quoted(out);
    json_member("input", in);
    json_member("format", r->format);
    json_count("tensors", 1, r->n_tensors);
    json_count("optimizer_tensors", 1, r->n_state);
    json_count("parameters", 1, r->n_params);
    json_count("bytes", 1, r->n_bytes);
    json_count("changed", 1, r->n_changed);
    json_count("verified", !cli.dry_run && !cli.skip_verify, r->n_verified);
    if (o.dtype && !cli.dry_run)
        printf(", \"max_relative_error\": %.9g", r->max_rel_error);
    json_count("overflowed", o.dtype && !cli.dry_run, r->n_overflow);
    json_count("underflowed", o.dtype && !cli.dry_run, r->n_underflow);
    printf(", \"written\": %s", cli.dry_run ? "false" : "true");
    json_strings("notes", r->notes, r->n_notes);
    puts("}");
}

/* ---- ONNX ---- */

static int to_onnx(const char *out)
{
    const size_t n = out ? strlen(out) : 0;
    return o.to ? strcmp(o.to, "onnx") == 0 : n > 5 && strcasecmp(out + n - 5, ".onnx") == 0;
}

/* What goes with a model as ONNX only, or with all other formats only. */
static int is_misplaced(int onnx_out)
{
    static const struct {
        const char *option;
        int of_onnx;
    } kinds[] = {{"opset", 1},    {"batch", 1}, {"sizes", 1},  {"fold-bn", 1}, {"external-data", 1},
                 {"quantize", 1}, {"check", 1}, {"rename", 0}, {"keras", 0}};
    const char *word = NULL;
    int of_onnx = 0;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds && !word; i++)
        if (cli_given(kinds[i].option) && kinds[i].of_onnx != onnx_out)
            word = kinds[i].option, of_onnx = kinds[i].of_onnx;
    if (!word && (onnx_out ? o.layout == PG_LAYOUT_PYTORCH : onnx.channels_first))
        word = onnx_out ? "layout pytorch" : "layout nchw-input", of_onnx = !onnx_out;
    if (word)
        (void)cli_complain(NULL, NULL,
                           of_onnx ? "--%s is for models as ONNX: give OUT the suffix .onnx"
                                   : "--%s is not for models as ONNX",
                           word);
    return word != NULL;
}

static void print_onnx(const pg_onnx_report *r, const char *out)
{
    cli_printf(stdout, cli.dry_run ? "%s: would write onnx" : "%s: onnx",
               cli_name(out ? out : "OUT").s);
    cli_printf(stdout, ", opset %d, %s, %s, %s data", r->opset, cli_plural(r->n_nodes, "node").s,
               cli_plural(r->n_inits, "initialiser").s, cli_size(r->n_bytes).s);
    if (cli.dry_run)
        cli_puts(stdout, "; nothing written");
    else if (cli.skip_verify)
        cli_puts(stdout, "; not verified");
    else
        cli_printf(stdout, "; %s/%s as converted", cli_count(r->n_verified).s,
                   cli_count(r->n_inits).s);
    if (o.dtype && !cli.dry_run)
        cli_printf(stdout, "; largest rounding error %.1e relative", r->max_rel_error);
    putchar('\n');
    if (r->data_file)
        cli_printf(stdout, "  %s: %s of tensors\n", cli_name(r->data_file).s,
                   cli_size(r->data_bytes).s);
    if (r->test_folder)
        cli_printf(stdout, "  %s: %s and what the model gives for them\n",
                   cli_name(r->test_folder).s, cli_plural(r->n_rows, "row").s);
    if (r->n_quantized && !cli.dry_run)
        cli_printf(stdout, "  %s as int8; predictions of %s%s change by %.1e or less, of %.3g\n",
                   cli_plural(r->n_quantized, "kernel").s, cli_plural(r->n_rows, "row").s,
                   onnx.check ? "" : ", made up,", r->max_change, r->max_given);
    for (size_t i = 0; i < r->n_notes; i++)
        cli_printf(stdout, "  note: %s\n", r->notes[i]);
}

static void json_onnx(const pg_onnx_report *r, const char *in, const char *out)
{
    fputs("{\"file\": ", stdout);
    json_quoted(out);
    json_member("input", in);
    json_member("format", "onnx");
    json_count("opset", 1, (size_t)r->opset);
    json_count("nodes", 1, r->n_nodes);
    json_count("tensors", 1, r->n_inits);
    json_count("parameters", 1, r->n_params);
    json_count("bytes", 1, r->n_bytes);
    json_count("verified", !cli.dry_run && !cli.skip_verify, r->n_verified);
    if (o.dtype && !cli.dry_run)
        printf(", \"max_relative_error\": %.9g", r->max_rel_error);
    if (r->data_file) {
        json_member("data", r->data_file);
        json_count("data_bytes", 1, r->data_bytes);
    }
    if (r->test_folder)
        json_member("test_data", r->test_folder);
    if (r->n_rows)
        json_count("rows", 1, r->n_rows);
    if (onnx.quantize)
        json_count("quantized", 1, r->n_quantized);
    if (onnx.quantize && !cli.dry_run)
        printf(", \"max_change\": %.9g, \"max_given\": %.9g", r->max_change, r->max_given);
    printf(", \"written\": %s", cli.dry_run ? "false" : "true");
    json_strings("notes", r->notes, r->n_notes);
    puts("}");
}

static int convert_onnx(const char *in, const char *out)
{
    pg_err err = {0};
    pg_onnx_report r = {0};
    int status = CLI_OK;
    onnx.write = rewrite_opts();
    onnx.model = o.model;
    onnx.model_text = o.model_text;
    onnx.dtype = o.dtype;
    err.code = pg_onnx_file(in, out, &onnx, &r, &err);
    cli_progress_end();
    if (err.code == PG_OK && !cli.dry_run)
        cli_did(out, "written");
    if (err.code != PG_OK)
        status = cli_fail(&err);
    else if (cli.json)
        json_onnx(&r, in, out);
    else if (!cli.quiet)
        print_onnx(&r, out);
    pg_onnx_report_fini(&r);
    return status;
}

static int convert(const char *in, const char *out)
{
    pg_err err = {0};
    if (is_misplaced(to_onnx(out)))
        return cli_status(PG_E_ARG);
    if (to_onnx(out))
        return convert_onnx(in, out);
    pg_convert_report r = {0};
    int status = CLI_OK;
    o.write = rewrite_opts();
    err.code = pg_convert_file(in, out, &o, &r, &err);
    cli_progress_end();
    if (err.code == PG_OK && !cli.dry_run)
        cli_did(out, "written");
    if (err.code != PG_OK)
        status = cli_fail(&err);
    else if (cli.json)
        print_json(&r, in, out);
    else if (!cli.quiet)
        print_text(&r, out);
    pg_convert_report_fini(&r);
    return status;
}

/* The suffix of outputs in --out-dir; NULL: that of each input. */
static const char *wanted_suffix(void)
{
    static char suffix[16];
    if (o.to && (strcmp(o.to, "npy") == 0 || strcmp(o.to, "npz") == 0))
        return ""; /* a folder */
    if (!o.to && o.layout == PG_LAYOUT_PYTORCH)
        return ".safetensors";
    snprintf(suffix, sizeof suffix, ".%s", o.to ? o.to : "");
    return o.to ? suffix : NULL;
}

int main(int argc, char **argv)
{
    pg_err err = {0};
    list_layouts();
    const size_t n = cli_parse(&tool, argc, argv);
    if (cli_model_text(o.model, &o.model_text, &err) != PG_OK)
        return cli_finish(cli_fail(&err));
    onnx.channels_first = layout && strcmp(layout, "nchw-input") == 0;
    onnx.opset = opset > INT_MAX ? INT_MAX : (int)opset;
    onnx.batch = batch;
    onnx.external_above = external ? 1 : 0;
    o.layout = layout && strcmp(layout, "pytorch") == 0 ? PG_LAYOUT_PYTORCH : PG_LAYOUT_KERAS;
    o.keras = keras ? *keras - '0' : 0;
    return cli_finish(each_dir ? each_input(argv + 1, n, wanted_suffix(), convert)
                               : convert(argv[1], rewrite_output(argv, n)));
}

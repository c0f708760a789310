/* pgunwrap - takes the one-device model out of a checkpoint that a parallel wrapper wrote. */
#include "each.h"
#include "rewrite.h"

static pg_unwrap_opts o;

static const cli_opt options[] = {
    {0, "like", "MODEL", NULL, &o.like, NULL, NULL,
     "make the output fit this model: JSON (-: from standard input), full .h5 or .keras; "
     "PyTorch: a file with the bare model's names"},
    {0, "template", "NAME", NULL, &o.template_name, NULL, NULL,
     "take out this nested model, whatever the verdict"},
    {0, "partial", NULL, &o.partial, NULL, NULL, NULL,
     "write even if layers are missing or extra (lists each)"},
    {0, "strip-prefix", "PREFIX", NULL, &o.strip_prefix, NULL, NULL,
     "PyTorch: remove this prefix instead of the one found"},
    {0, "weights-only", NULL, &o.weights_only, NULL, NULL, NULL,
     "leave out the model description and the optimizer"},
    {0, "no-optimizer", NULL, &o.no_optimizer, NULL, NULL, NULL, "leave out the optimizer state"},
    {0, "in-place", NULL, &cli.in_place, NULL, NULL, NULL,
     "change IN itself (legacy .h5): tensors stay where they are"},
    CLI_SHA256,
    CLI_RULES,
    CLI_EACH,
    {0},
};

static const cli_example examples[] = {
    {"pgunwrap parallel.h5 single.h5", "weights that load into the one-device model"},
    {"pgunwrap --like model.json any.h5 out.h5", "make a file fit this model (model.to_json())"},
    {"pgunwrap --in-place parallel.h5", "the same without a copy, however large the file is"},
    {"pgunwrap --out-dir fixed runs/*.h5", "each of them, as fixed/NAME"},
    {"pgunwrap -n parallel.h5", "what would be written?"},
    {"pgunwrap ddp.safetensors clean.safetensors", "remove PyTorch's \"module.\" prefix"},
    {0},
};

static const char *const about[] = {
    "Use it on files of multi_gpu_model and similar wrappers, when Keras reports one of:",
    "  You are trying to load a weight file containing 1 layers into a model with 4 layers.",
    "  Layer count mismatch when loading weights from file. Model expected 4 layers, found 1 saved "
    "layers.",
    "  Layer 'conv1' expected 2 variables, but received 0 variables during loading.",
    "  TypeError: arg 4 (defaults) must be None or tuple",
    "or when load_weights(..., by_name=True) says nothing and loads nothing. Layers, names and\n"
    "the order of weights come out as Keras writes them for the one-device model. The output\n"
    "keeps the format of IN; a full model keeps its training configuration and optimizer state.\n"
    "Python code in Lambda layers is never run and does not reach the output.",
    "OUT appears whole or not at all. pgunwrap reads it back and compares every tensor with its\n"
    "source. If the file alone does not settle the order of its weights, pgunwrap writes nothing\n"
    "(exit status 1) until --like names the model.",
    CLI_SEVERAL,
    CLI_KILLED,
    CLI_IN_PLACE,
    NULL,
};

static const cli_tool tool = {
    .name = "pgunwrap",
    .operands = "IN OUT | --in-place IN | --out-dir DIR IN...",
    .summary = "takes the one-device model out of a checkpoint of a parallel wrapper",
    .examples = examples,
    .about = about,
    .status_1 = "nothing to unwrap, not settled by the file, or does not fit the model",
    .opts = options,
    .groups = CLI_WRITES | CLI_READS_PARTS,
    .min_operands = 2,
    .max_operands = 2,
    .out_dir = &each_dir,
};

static int unwrap(const char *in, const char *out)
{
    pg_err err = {0};
    pg_rewrite_report report = {0};
    o.write = rewrite_opts();
    err.code = pg_unwrap_file(in, out, &o, &report, &err);
    return rewrite_print(&report, in, out, &err);
}

int main(int argc, char **argv)
{
    pg_err err = {0};
    const size_t n = cli_parse(&tool, argc, argv);
    if (cli_model_text(o.like, &o.like_text, &err) != PG_OK)
        return cli_finish(cli_fail(&err));
    return cli_finish(each_dir ? each_input(argv + 1, n, NULL, unwrap)
                               : unwrap(argv[1], rewrite_output(argv, n)));
}

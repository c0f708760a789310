/* pgwrap - makes the file of a parallel wrapper out of a one-device checkpoint. */
#include <stdlib.h>
#include <string.h>

#include "rewrite.h"

static pg_wrap_opts o;
static const char *gpus;

static const cli_opt options[] = {
    {0, "like", "FILE", NULL, &o.like, NULL, NULL,
     "wrap as in this file of the wrapper (weights only or full)"},
    {0, "gpus", "N", NULL, &gpus, NULL, NULL,
     "wrap as keras.utils.multi_gpu_model(model, gpus=N) does"},
    {0, "name", "NAME", NULL, &o.name, NULL, NULL, "--gpus: layer name of the template"},
    {0, "in-place", NULL, &cli.in_place, NULL, NULL, NULL,
     "change IN itself (legacy .h5): tensors stay where they are"},
    CLI_SHA256,
    {0},
};

static const cli_example examples[] = {
    {"pgwrap --like parallel.h5 single.h5 again.h5", "put changed weights back into a wrapper"},
    {"pgwrap --gpus 4 single.h5 parallel.h5", "weights for multi_gpu_model(model, gpus=4)"},
    {0},
};

static const char *const about[] = {
    "The reverse of pgunwrap. Use it when Keras reports:",
    "  You are trying to load a weight file containing 3 layers into a model with 1 layers.",
    "  Layer count mismatch when loading weights from file. Model expected 1 layers, found 3 saved "
    "layers.",
    "Give either --like or --gpus. OUT keeps the format of IN and appears whole or not at all;\n"
    "pgwrap reads it back and compares it with IN tensor by tensor.",
    CLI_KILLED,
    CLI_IN_PLACE,
    NULL,
};

static const cli_tool tool = {
    .name = "pgwrap",
    .operands = "IN OUT | --in-place IN",
    .summary = "turns a one-device checkpoint into the file of a parallel wrapper",
    .examples = examples,
    .about = about,
    .status_1 = "IN does not fit the wrapper, or is one already",
    .opts = options,
    .groups = CLI_WRITES | CLI_READS_PARTS,
    .min_operands = 2,
    .max_operands = 2,
};

int main(int argc, char **argv)
{
    pg_err err = {0};
    pg_rewrite_report report = {0};
    const size_t n = cli_parse(&tool, argc, argv);
    const char *in = argv[1], *out = rewrite_output(argv, n);

    if (!o.like == !gpus)
        return cli_complain(NULL, "pgwrap --help", "give either --like FILE or --gpus N");
    if (o.name && o.like)
        return cli_complain(NULL, NULL, "--name needs --gpus; --like takes the name from its file");
    if (o.like && strcmp(o.like, "-") == 0)
        return cli_complain(
            NULL, NULL, "--like -: a wrapper's file is read at many positions; give a file name");
    char *end = NULL;
    const unsigned long replicas = gpus ? strtoul(gpus, &end, 10) : 0;
    if (gpus && (gpus[0] < '0' || gpus[0] > '9' || *end || replicas < 2 || replicas > 1024))
        return cli_complain(NULL, NULL, "--gpus: \"%s\" is not a whole number from 2 to 1024",
                            cli_name(gpus).s);
    o.n_replicas = (unsigned)replicas;
    o.write = rewrite_opts();
    err.code = pg_wrap_file(in, out, &o, &report, &err);
    return cli_finish(rewrite_print(&report, in, out, &err));
}

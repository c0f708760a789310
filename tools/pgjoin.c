/* pgjoin - joins shards, or what the ranks of a job wrote, into one model. */
#include <string.h>

#include "json_out.h"
#include "shards.h"

static pg_join_opts o;
static const char *max_size, *jobs;
static unsigned n_threads;

static const cli_opt options[] = {
    {0, "only", "GLOB", NULL, &o.only, NULL, NULL,
     "join only matches: a layer, layer/weight, or path of a shard"},
    {0, "dtype", "TYPE", NULL, &o.dtype, NULL, "float32|float16|bfloat16",
     "store weights in this type, and report the rounding error"},
    {0, "max-shard-size", "SIZE", NULL, &max_size, NULL, NULL,
     "OUT is a folder of safetensors of at most SIZE (5GB), with an index"},
    {0, "jobs", "K/N", NULL, &jobs, NULL, NULL,
     "write the K-th of N shares of these shards; N machines at a time may"},
    {0, "finish", NULL, &o.finish, NULL, NULL, NULL,
     "after all jobs: prove their shards, and write the index"},
    {'j', "threads", "N", NULL, NULL, &n_threads, NULL,
     "read a checkpoint on N threads (default: all processors)"},
    CLI_WEIGHTS,
    CLI_RULES,
    {0},
};

static const cli_example examples[] = {
    {"pgjoin out/ back.h5", "restore the file that was split"},
    {"pgjoin model.safetensors.index.json all.safetensors", "shards of Hugging Face"},
    {"pgjoin model.weights.json all.weights.h5", "shards of Keras 3"},
    {"pgjoin checkpoint/ model.safetensors", "what the ranks of a job left: DCP, ZeRO, TensorFlow"},
    {"pgjoin --dtype bfloat16 checkpoint/ hub/", "the same as shards with an index, half the size"},
    {"pgjoin --only 'conv*' out/ part.h5", "some layers (load with by_name=True)"},
    {0},
};

static const char *const about[] = {
    "IN is the folder, its manifest.json or index, or one shard. pgjoin looks at all shards\n"
    "before it begins OUT, and lists every missing or damaged one. It compares checksums while\n"
    "copying; OUT appears only if all are right.",
    "IN may also be a checkpoint of parallel training: a folder of torch.distributed.checkpoint,\n"
    "DeepSpeed's ZeRO or Megatron-LM, a prefix or SavedModel of TensorFlow, msgpack of Flax. Its\n"
    "model becomes safetensors, with the names of the bare module (man pg-formats): one file, or,\n"
    "if OUT is a folder or ends with /, shards as Hugging Face's libraries load them.",
    "For a checkpoint that one machine would read for hours, start pgjoin --jobs K/N IN OUT for\n"
    "each K from 1 to N, on as many machines as you have (an array of Slurm will do), then once\n"
    "pgjoin --finish IN OUT. A job that failed can be started again.",
    "Shards of every format become the file that was split. If OUT ends with .safetensors (for\n"
    "safetensors shards) or .weights.h5 (for shards of a .keras archive), it gets the weights\n"
    "alone.",
    "A list of names that exceeds an HDF5 object header is divided as Keras divides it\n"
    "(layer_names0, layer_names1, ...), so Keras loads models of any number of layers.",
    NULL,
};

static const cli_tool tool = {
    .name = "pgjoin",
    .operands = "IN OUT",
    .summary = "joins shards, or what the ranks of a job wrote, into one model",
    .examples = examples,
    .about = about,
    .opts = options,
    .status_1 = "several parts could be the model (--part), or --rules must settle the layout",
    .groups = CLI_WRITES | CLI_READS_PARTS,
    .min_operands = 2,
    .max_operands = 2,
};

static void print_folder(const pg_shard_report *r, const char *out)
{
    const size_t n = strlen(out);
    cli_printf(stdout, "%s%s: ", cli_name(out).s, n && out[n - 1] == '/' ? "" : "/");
    if (o.n_jobs)
        cli_printf(stdout, "job %u of %u: ", o.job, o.n_jobs);
    shards_files(r, "safetensors");
    cli_printf(stdout, "%s%s %s, %s parameters", cli.dry_run ? " would be written" : "",
               o.n_jobs ? " of a model of" : ",", cli_plural(r->n_tensors, "tensor").s,
               cli_count(r->n_params).s);
    if (r->n_reused)
        cli_printf(stdout, "; %s %s", cli_count(r->n_reused).s,
                   o.finish ? "proven" : "already written");
    cli_puts(stdout, cli.dry_run ? "; nothing written (dry run)" : "");
    if (o.n_jobs && !cli.dry_run)
        cli_printf(stdout, "\n  after all %u jobs: the same with --finish instead of --jobs",
                   o.n_jobs);
}

/* Of --jobs. */
static int parse_jobs(const char *text)
{
    char end = 0;
    if (sscanf(text, "%u/%u%c", &o.job, &o.n_jobs, &end) == 2 && o.job >= 1 && o.job <= o.n_jobs)
        return 1;
    (void)cli_complain(NULL, NULL, "--jobs must be K/N with K from 1 to N, not \"%s\"",
                       cli_name(text).s);
    return 0;
}

static void print_file(const pg_shard_report *r, const char *out)
{
    cli_printf(stdout, "%s: %s%s, %s parameters; ", cli_name(out).s,
               cli.dry_run ? "would write " : "", cli_plural(r->n_tensors, "tensor").s,
               cli_count(r->n_params).s);
    if (cli.dry_run) {
        cli_puts(stdout, "nothing written (dry run)");
        return;
    }
    const int unproven = cli.skip_verify && !r->n_verified; /* shards have checksums of their own */
    cli_color(stdout, unproven ? CLI_WARN : CLI_GOOD);
    if (unproven)
        cli_puts(stdout, "not verified");
    else
        cli_printf(stdout, "%s/%s checksums equal", cli_count(r->n_verified).s,
                   cli_count(r->n_written).s);
    cli_color(stdout, CLI_PLAIN);
}

static void print_text(const pg_shard_report *r, const char *out, double seconds)
{
    if (r->n_files || o.n_jobs)
        print_folder(r, out);
    else
        print_file(r, out);
    shards_speed(r->n_bytes, seconds);
    if (r->n_chunked_lists)
        cli_printf(stdout,
                   "  %s of names exceed HDF5's 64 kB header and are cut in parts, as Keras does\n",
                   cli_plural(r->n_chunked_lists, "list").s);
    for (size_t i = 0; i < r->n_notes; i++)
        cli_printf(stdout, "  note: %s\n", r->notes[i]);
}

int main(int argc, char **argv)
{
    pg_err err = {0};
    pg_shard_report r = {0};
    int status = CLI_OK;
    const size_t n = cli_parse(&tool, argc, argv);
    const char *in = argv[1], *out = cli.output ? cli.output : n > 1 ? argv[2] : NULL;
    const double start = shards_now();
    o.write = (pg_write_opts){.force = cli.force,
                              .part = cli.part,
                              .rules = cli.rules,
                              .n_threads = n_threads,
                              .dry_run = cli.dry_run,
                              .no_sync = cli.no_sync,
                              .skip_verify = cli.skip_verify,
                              .cancel = cli_cancel(),
                              .progress = cli_progress()};
    if ((max_size && !shards_size(&o.max_shard_bytes, max_size)) || (jobs && !parse_jobs(jobs)))
        return cli_finish(CLI_TROUBLE);
    err.code = pg_join_file(in, out, &o, &r, &err);
    cli_progress_end();
    if (err.code == PG_OK && !cli.dry_run)
        cli_did(out, "written");
    if (err.code != PG_OK) {
        status = shards_fail(&r, &err);
    } else if (cli.json) {
        fputs("{\"file\": ", stdout);
        json_quoted(out);
        json_member("input", in);
        shards_json(&r);
        if (r.n_files || o.n_jobs)
            shards_list_json(&r);
        else
            json_count("verified", !cli.dry_run, r.n_verified);
        puts("}");
    } else if (!cli.quiet) {
        print_text(&r, out ? out : in, shards_now() - start);
    }
    pg_shard_report_fini(&r);
    return cli_finish(status);
}

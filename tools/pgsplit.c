/* pgsplit - cuts an oversized model into shards. */
#include <stdlib.h>
#include <string.h>

#include "json_out.h"
#include "shards.h"

static pg_split_opts o;
static const char *format = "npy", *max_size;
static unsigned max_tensors, n_threads;

static const cli_opt options[] = {
    {0, "max-shard-size", "SIZE", NULL, &max_size, NULL, NULL,
     "largest shard: 100MB, 100MiB, 1GB; npy: cut larger tensors along axis 0"},
    {0, "max-tensors", "N", NULL, NULL, &max_tensors, NULL,
     "most tensors in one shard (not for npy)"},
    {0, "format", "FORMAT", NULL, &format, NULL, "npy|npz|safetensors|keras",
     "format of the shards"},
    {0, "unwrap", NULL, &o.unwrap, NULL, NULL, NULL,
     "split the one-device model of a parallel wrapper's file"},
    {'j', "jobs", "N", NULL, NULL, &n_threads, NULL,
     "npy: write N files at a time (default 1); the files are the same"},
    {0, "sha256", NULL, &o.sha256, NULL, NULL, NULL, "also write SHA256SUMS, for sha256sum -c"},
    CLI_RULES,
    {0},
};

static const cli_example examples[] = {
    {"pgsplit big.h5 out/", "one .npy file per tensor, and manifest.json"},
    {"pgsplit -n --format safetensors --max-shard-size 2GB big.h5 out/", "what would be written?"},
    {"pgsplit --unwrap parallel.h5 out/", "the template of a wrapper, as shards"},
    {"pgjoin out/ back.h5", "restore the file"},
    {0},
};

static const char *const about[] = {
    "For models too large for one HDF5 file (\"object header message is too large\"), for copying\n"
    "in parts, and for loading tensor by tensor. The manifest records the order of the layers,\n"
    "types, shapes, checksums, configurations and attributes: pgjoin restores the file that was\n"
    "split.",
    "Hugging Face and Keras 3 load the formats safetensors and keras with their index;\n"
    "manifest.json lies beside it.",
    "The index or manifest is written last: a folder without it is an interrupted split, which\n"
    "the same command continues. If Keras left a file half-written, pgsplit saves what is there\n"
    "and lists what is lost on stderr.",
    "Loading without these tools:",
    "  numpy.load(\"out/conv1/kernel.npy\", mmap_mode=\"r\")",
    NULL,
};

static const cli_tool tool = {
    .name = "pgsplit",
    .operands = "IN DIR",
    .summary = "cuts an oversized model into shards",
    .examples = examples,
    .about = about,
    .status_1 = "several parts of IN could be the model; with --unwrap: nothing to unwrap, or not "
                "settled by the file",
    .opts = options,
    .groups = CLI_WRITES | CLI_READS_PARTS,
    .min_operands = 2,
    .max_operands = 2,
};

static void print_plan(const pg_shard_report *r)
{
    for (size_t i = 0; i < r->n_files; i++) {
        const pg_shard_file *f = &r->files[i];
        cli_printf(stdout, "  %-38s %8s ", cli_name(f->path).s, cli_count(f->n_tensors).s);
        if (shards_is_index(f))
            cli_puts(stdout, "entries\n");
        else
            cli_printf(stdout, "%-8s %s\n", f->n_tensors == 1 ? "tensor" : "tensors",
                       cli_size(f->n_bytes).s);
    }
    cli_puts(stdout, "nothing written (dry run)\n");
}

static void print_text(const pg_shard_report *r, const char *dir, double seconds)
{
    const size_t n = strlen(dir);
    if (cli.dry_run) {
        print_plan(r);
        return;
    }
    cli_printf(stdout, "%s%s: ", cli_name(dir).s, n && dir[n - 1] == '/' ? "" : "/");
    shards_files(r, strcmp(format, "keras") == 0 ? "weights.h5" : format);
    cli_printf(stdout, ", %s, %s parameters", cli_size(r->n_bytes).s, cli_count(r->n_params).s);
    if (r->n_reused)
        cli_printf(stdout, "; %s there already", cli_count(r->n_reused).s);
    shards_speed(r->n_bytes, seconds);
}

static void print_json(const pg_shard_report *r, const char *in, const char *dir)
{
    fputs("{\"folder\": ", stdout);
    json_quoted(dir);
    json_member("input", in);
    json_member("format", format);
    shards_json(r);
    json_count("reused", 1, r->n_reused);
    shards_list_json(r);
    json_strings("lost", r->damaged, r->n_damaged);
    puts("}");
}

static void print_lost(const pg_shard_report *r, const char *in)
{
    for (size_t i = 0; i < r->n_damaged; i++)
        cli_printf(stderr, "pgsplit: %s: %s\n", cli_name(in).s, r->damaged[i]);
    for (size_t i = 0; i < r->n_notes && !cli.json; i++)
        cli_printf(stderr, "pgsplit: note: %s\n", r->notes[i]);
}

int main(int argc, char **argv)
{
    pg_err err = {0};
    pg_shard_report r = {0};
    int status = CLI_OK;
    const size_t n = cli_parse(&tool, argc, argv);
    const char *in = argv[1], *dir = cli.output ? cli.output : n > 1 ? argv[2] : NULL;
    const double start = shards_now();
    o.write = (pg_write_opts){.force = cli.force,
                              .dry_run = cli.dry_run,
                              .no_sync = cli.no_sync,
                              .skip_verify = cli.skip_verify,
                              .part = cli.part,
                              .rules = cli.rules,
                              .cancel = cli_cancel(),
                              .progress = cli_progress()};
    o.max_tensors = max_tensors;
    o.n_threads = n_threads;
    (void)pg_shard_format_by_name(&o.format, format);
    if (max_size && !shards_size(&o.max_shard_bytes, max_size))
        return cli_finish(CLI_TROUBLE);
    if (!dir)
        return cli_finish(cli_complain(NULL, NULL, "a folder for the shards is missing"));
    err.code = pg_split_file(in, dir, &o, &r, &err);
    cli_progress_end();
    if (err.code == PG_OK && !cli.dry_run)
        cli_did(dir, "written");
    if (err.code != PG_OK) {
        status = shards_fail(&r, &err);
    } else {
        print_lost(&r, in);
        if (cli.json)
            print_json(&r, in, dir);
        else if (!cli.quiet)
            print_text(&r, dir, shards_now() - start);
    }
    pg_shard_report_fini(&r);
    return cli_finish(status);
}

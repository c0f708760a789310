/* rewrite.c - prints the report of pgunwrap and pgwrap, as text or JSON. */
#include "rewrite.h"

#include <string.h>

#include "json_out.h"

int rewrite_sha256;

pg_write_opts rewrite_opts(void)
{
    return (pg_write_opts){.force = cli.force,
                           .dry_run = cli.dry_run,
                           .no_sync = cli.no_sync,
                           .skip_verify = cli.skip_verify,
                           .part = cli.part,
                           .rules = cli.rules,
                           .in_place = cli.in_place,
                           .sha256 = rewrite_sha256,
                           .cancel = cli_cancel(),
                           .progress = cli_progress()};
}

const char *rewrite_output(char **argv, size_t n)
{
    return cli.output ? cli.output : n > 1 ? argv[2] : NULL;
}

static void print_joined(const char *label, char **items, size_t n)
{
    if (n == 0)
        return;
    cli_printf(stdout, "  %s: ", label);
    for (size_t i = 0; i < n; i++)
        cli_printf(stdout, "%s%s", i ? ", " : "", items[i]);
    putchar('\n');
}

static void print_each(const char *label, char **items, size_t n)
{
    for (size_t i = 0; i < n; i++)
        cli_printf(stdout, "  %s: %s\n", label, items[i]);
}

static void print_proof(const pg_rewrite_report *r)
{
    const int unproven = cli.skip_verify && !cli.in_place;
    cli_color(stdout, unproven ? CLI_WARN : CLI_GOOD);
    if (cli.in_place)
        cli_printf(stdout, "in place, %s/%s tensors where they were, %s added",
                   cli_count(r->n_verified).s, cli_count(r->n_written).s,
                   cli_size(r->added_bytes).s);
    else if (unproven)
        cli_puts(stdout, "not verified");
    else
        cli_printf(stdout, "%s/%s checksums equal", cli_count(r->n_verified).s,
                   cli_count(r->n_written).s);
    cli_color(stdout, CLI_PLAIN);
    putchar('\n');
}

/* template "model" of 2 replicas | "model" wrapped for 2 replicas | prefix "module." removed */
static void print_subject(const pg_rewrite_report *r)
{
    const char *name = r->template_name ? r->template_name : "";
    if (strcmp(r->action, "wrapped") == 0 && !r->replicas)
        cli_printf(stdout, "names as under wrappers (%s)", cli_name(name).s);
    else if (strcmp(r->action, "wrapped") == 0)
        cli_printf(stdout, "\"%s\" wrapped for %zu replicas", cli_name(name).s, r->replicas);
    else if (strcmp(r->action, "prefix removed") == 0)
        cli_printf(stdout, "prefix \"%s\" removed", cli_name(name).s);
    else if (strcmp(r->action, "words removed") == 0)
        cli_printf(stdout, "words of wrappers (%s) removed", cli_name(name).s);
    else if (*name)
        cli_printf(stdout, "template \"%s\"", cli_name(name).s);
    else
        cli_puts(stdout, r->action);
    if (r->replicas && strcmp(r->action, "unwrapped") == 0)
        cli_printf(stdout, " of %zu replicas", r->replicas);
}

static int is_unchanged(const pg_rewrite_report *r)
{
    return strcmp(r->action, "unchanged") == 0;
}

static void print_text(const pg_rewrite_report *r, const char *in, const char *out)
{
    if (is_unchanged(r)) {
        cli_printf(stdout, "%s: already in the wanted form; nothing changed\n", cli_name(in).s);
        print_each("note", r->notes, r->n_notes);
        return;
    }
    cli_printf(stdout, "%s: %s", cli_name(cli.dry_run || !out ? in : out).s,
               !cli.dry_run   ? ""
               : cli.in_place ? "would become "
                              : "would write ");
    print_subject(r);
    cli_puts(stdout, ": ");
    if (r->n_weighted && strcmp(r->action, "wrapped") != 0)
        cli_printf(stdout, "%s, ", cli_plural(r->n_weighted, "layer").s);
    cli_printf(stdout, "%s, %s parameters", cli_plural(r->n_tensors, "tensor").s,
               cli_count(r->n_params).s);
    if (cli.dry_run && cli.in_place) {
        cli_printf(stdout, "; in place, %s added, %s then; nothing written\n",
                   cli_size(r->added_bytes).s, cli_size(r->file_bytes).s);
    } else if (cli.dry_run) {
        cli_printf(stdout, ", %s; nothing written\n", cli_size(r->file_bytes).s);
    } else {
        cli_puts(stdout, "; ");
        print_proof(r);
    }
    print_each("missing", r->missing, r->n_missing);
    print_each("extra", r->extra, r->n_extra);
    if (r->n_kept || cli.verbose)
        print_joined("removed", r->removed, r->n_removed);
    print_joined("kept", r->kept, r->n_kept);
    print_each("note", r->notes, r->n_notes);
    if (r->sha256[0])
        cli_printf(stdout, "%s  %s\n", r->sha256, cli_name(out).s);
}

static void print_json(const pg_rewrite_report *r, const char *in, const char *out)
{
    fputs("{\"file\": ", stdout);
    json_quoted(cli.in_place ? in : out);
    json_member("input", in);
    json_member("action", r->action);
    json_member("template", r->template_name);
    json_count("replicas", r->replicas > 0, r->replicas);
    json_count("layers", 1, r->n_weighted);
    json_count("tensors", 1, r->n_tensors);
    json_count("optimizer_tensors", 1, r->n_state);
    json_count("parameters", 1, r->n_params);
    json_count("bytes", 1, r->n_bytes);
    json_count("verified", !cli.dry_run && !is_unchanged(r) && (!cli.skip_verify || cli.in_place),
               r->n_verified);
    json_count("file_bytes", !is_unchanged(r), r->file_bytes);
    json_count("added_bytes", cli.in_place, r->added_bytes);
    json_member("sha256", r->sha256[0] ? r->sha256 : NULL);
    printf(", \"written\": %s, \"in_place\": %s", cli.dry_run || is_unchanged(r) ? "false" : "true",
           cli.in_place ? "true" : "false");
    json_strings("removed", r->removed, r->n_removed);
    json_strings("kept", r->kept, r->n_kept);
    json_strings("notes", r->notes, r->n_notes);
    json_strings("missing", r->missing, r->n_missing);
    json_strings("extra", r->extra, r->n_extra);
    puts("}");
}

/* The report holds the lists that do not fit into an error. */
static int fail(const pg_rewrite_report *r, const pg_err *err)
{
    const cli_list lists[] = {{"missing", ": ", r->missing, r->n_missing},
                              {"extra", ": ", r->extra, r->n_extra}};
    return cli_fail_lists(err, lists, sizeof lists / sizeof *lists);
}

int rewrite_print(pg_rewrite_report *r, const char *in, const char *out, const pg_err *err)
{
    int status = CLI_OK;
    cli_progress_end();
    if (err->code == PG_OK && !cli.dry_run && !is_unchanged(r))
        cli_did(cli.in_place ? in : out, cli.in_place ? "changed" : "written");
    if (err->code != PG_OK)
        status = fail(r, err);
    else if (cli.json)
        print_json(r, in, out);
    else if (!cli.quiet)
        print_text(r, in, out);
    pg_rewrite_report_fini(r);
    return status;
}

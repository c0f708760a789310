/* shards.c - reports of pgsplit and pgjoin. */
#include "shards.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

#include "json_out.h"

int shards_fail(const pg_shard_report *r, const pg_err *err)
{
    const cli_list lists[] = {{"missing", "  ", r->missing, r->n_missing},
                              {"damaged", "  ", r->damaged, r->n_damaged}};
    return cli_fail_lists(err, lists, sizeof lists / sizeof *lists);
}

void shards_json(const pg_shard_report *r)
{
    json_count("layers", 1, r->n_layers);
    json_count("tensors", 1, r->n_tensors);
    json_count("optimizer_tensors", 1, r->n_state);
    json_count("parameters", 1, r->n_params);
    json_count("bytes", 1, r->n_bytes);
    printf(", \"written\": %s", cli.dry_run ? "false" : "true");
    json_strings("notes", r->notes, r->n_notes);
}

int shards_size(uint64_t *out, const char *text)
{
    pg_err err;
    if (pg_shard_size(out, text, &err) == PG_OK)
        return 1;
    (void)cli_complain(NULL, NULL, "--max-shard-size: %s", err.msg);
    return 0;
}

int shards_is_index(const pg_shard_file *f)
{
    const size_t n = strlen(f->path);
    return n > 5 && strcmp(f->path + n - 5, ".json") == 0;
}

void shards_files(const pg_shard_report *r, const char *suffix)
{
    size_t n = 0;
    const char *index = NULL;
    for (size_t i = 0; i < r->n_files; i++)
        if (shards_is_index(&r->files[i]))
            index = r->files[i].path;
        else
            n += strcmp(r->files[i].path, "SHA256SUMS") != 0;
    cli_printf(stdout, "%s .%s %s%s%s", cli_count(n).s, suffix, n == 1 ? "file" : "files",
               index ? " + " : "", index ? index : "");
}

void shards_list_json(const pg_shard_report *r)
{
    fputs(", \"files\": [", stdout);
    for (size_t i = 0; i < r->n_files; i++) {
        fputs(i ? ", {\"path\": " : "{\"path\": ", stdout);
        json_quoted(r->files[i].path);
        json_count("tensors", 1, r->files[i].n_tensors);
        json_count("bytes", 1, r->files[i].n_bytes);
        putchar('}');
    }
    putchar(']');
}

double shards_now(void)
{
    struct timespec t = {0};
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

void shards_speed(uint64_t n_bytes, double seconds)
{
    if (isatty(STDOUT_FILENO) && seconds > 0.05)
        cli_printf(stdout, "   %.1f s  %s/s", seconds,
                   cli_size((uint64_t)((double)n_bytes / seconds)).s);
    putchar('\n');
}

/* shards.c - reports of pgsplit and pgjoin. */
#include "shards.h"

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

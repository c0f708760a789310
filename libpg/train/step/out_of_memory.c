/* out_of_memory.c - which layer needs most memory, and a hint for a device that has no room for a
 * batch. */
#include "train/step/out_of_memory.h"

#include <stdio.h>

#include "base/str.h"

pg__size_text pg__size_text_of(uint64_t n_bytes)
{
    static const char *const units[] = {"kB", "MB", "GB"};
    double n = (double)n_bytes / 1e3;
    size_t k = 0;
    pg__size_text out;
    for (; k < 2 && n >= 999.95; k++)
        n /= 1e3;
    (void)snprintf(out.s, sizeof out.s, "%.1f %s", n, units[k]);
    return out;
}

static const pg__program *largest_program(const pg__trainer_programs *programs)
{
    const pg__program *most = NULL;
    for (size_t i = 0; i < programs->n_built; i++)
        if (!most ||
            pg__program_arena_bytes(programs->built[i].program) > pg__program_arena_bytes(most))
            most = programs->built[i].program;
    return most;
}

void pg__name_largest_layer(const pg_trainer *t, char *out, size_t n)
{
    const pg__program *p = largest_program(&t->programs);
    uint32_t leaf = 0;
    const uint64_t bytes = p ? pg__program_largest(p, &leaf) : 0;
    out[0] = '\0';
    if (bytes > 0 && leaf < t->net.leaves.n)
        (void)snprintf(out, n, " (layer %s: %s)", PG_SHOW(t->net.leaves.v[leaf].layer->name),
                       pg__size_text_of(bytes).s);
}

pg_status pg__explain_out_of_memory(const pg_trainer *t, uint64_t n_rows, pg_status st, pg_err *err)
{
    char layer[300];
    if (st != PG_E_NOMEM || !err || err->code != st || t->devs.backend->host_memory)
        return st;
    const pg_err why = *err;
    pg__name_largest_layer(t, layer, sizeof layer);
    (void)pg_fail(err, st, "%s, running a batch of %llu%s", why.msg, (unsigned long long)n_rows,
                  layer);
    if (n_rows > 1) {
        pg_err_do(err, PG_DO_SMALLER_BATCH, NULL);
        pg_err_arg(err, "batch_size", "%llu", (unsigned long long)n_rows / 2);
        pg_err_arg(err, "accumulate", "2");
    }
    return st;
}

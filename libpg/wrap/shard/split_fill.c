/* split_fill.c - assigns tensors to shards, by the rules of huggingface_hub's
 * split_state_dict_into_shards_factory(): in order, with a new shard if the next tensor no longer
 * fits, and a shard of its own for a tensor larger than a shard. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "wrap/shard/split.h"

#define DEFAULT_BYTES UINT64_C(5000000000) /* huggingface_hub's "5GB" */

pg_status pg__split_fill(pg__filling *out, const pg__split *s, size_t n_tensors, pg_err *err)
{
    const uint64_t max = s->o->max_shard_bytes ? s->o->max_shard_bytes : DEFAULT_BYTES;
    const size_t most = s->o->max_tensors ? s->o->max_tensors : SIZE_MAX;
    size_t *shard = pg__mem_array(n_tensors, sizeof *shard), open = PG_NONE, held = 0;
    uint64_t bytes = 0;
    if (!shard)
        return pg__nomem(err);
    *out = (pg__filling){.shard = shard};
    for (size_t i = 0; i < n_tensors; i++) {
        const uint64_t n = s->v[i].w.n_bytes;
        if (n > max) {
            shard[i] = out->n++;
            continue;
        }
        if (open == PG_NONE || n > max - bytes || held == most) {
            open = out->n++;
            bytes = held = 0;
        }
        shard[i] = open;
        bytes += n;
        held++;
    }
    if (out->n == 0)
        out->n = 1; /* a model without weights is one empty shard */
    return PG_OK;
}

size_t pg__filling_count(const pg__filling *f, size_t n_tensors, size_t shard)
{
    size_t n = 0;
    for (size_t i = 0; i < n_tensors; i++)
        n += f->shard[i] == shard;
    return n;
}

void pg__filling_fini(pg__filling *f)
{
    pg__mem_free(f->shard);
}

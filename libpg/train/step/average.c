/* average.c - see average.h. Between steps the average is the optimizer's last slot
 * (update_real.h). Source: keras/optimizers/optimizer.py of 2.15, base_optimizer.py of 3.6. */
#include "train/step/average.h"

#include "base/mem.h"
#include "base/try.h"
#include "train/step/model_parallel.h"
#include "train/step/optimizer_shard.h"

static size_t bytes_of(const pg_trainer *t)
{
    return (size_t)t->vars.offsets[t->vars.n_params] * t->devs.backend->real_bytes;
}

pg_status pg__average_begin(pg_trainer *t, pg_err *err)
{
    pg__flat *average = &t->vars.slots[PG_SLOT_AVERAGE];
    char *values = NULL;
    pg_status st = PG_OK;
    if (!average->mem)
        return PG_OK;
    values = pg__mem_array(bytes_of(t), 1);
    if (!values)
        PG_TRY(pg__nomem(err));
    PG_TRY(pg__flat_get(t, values, &t->vars.params, err));
    PG_TRY(pg__flat_put(t, average, 0, values, bytes_of(t), err));
done:
    pg__mem_free(values);
    return st;
}

void pg__average_move(char *param, char *average, size_t n, int swaps)
{
    for (size_t i = 0; i < n; i++) {
        const char was = param[i];
        param[i] = average[i];
        if (swaps)
            average[i] = was;
    }
}

static pg_status move_all(pg_trainer *t, int swaps, pg_err *err)
{
    const size_t each = t->devs.backend->real_bytes;
    pg__flat *average = &t->vars.slots[PG_SLOT_AVERAGE];
    char *values = NULL, *averages = NULL;
    pg_status st = PG_OK;
    if (pg__is_sharded(t->ranks))
        return pg__opt_shard_take(t, PG_SLOT_AVERAGE, swaps, err);
    values = pg__mem_array(bytes_of(t), 1);
    averages = pg__mem_array(bytes_of(t), 1);
    if (!values || !averages)
        PG_TRY(pg__nomem(err));
    PG_TRY(pg__flat_get(t, values, &t->vars.params, err));
    PG_TRY(pg__flat_get(t, averages, average, err));
    for (size_t i = 0; i < t->vars.n_params; i++)
        if (t->vars.trained[i])
            pg__average_move(values + t->vars.offsets[i] * each,
                             averages + t->vars.offsets[i] * each, t->vars.n_elems[i] * each,
                             swaps);
    PG_TRY(pg__flat_put(t, &t->vars.params, 0, values, bytes_of(t), err));
    if (swaps)
        PG_TRY(pg__flat_put(t, average, 0, averages, bytes_of(t), err));
    t->vars.version++;
done:
    pg__mem_free(values);
    pg__mem_free(averages);
    return st;
}

pg_status pg__average_swap(pg_trainer *t, pg_err *err)
{
    return move_all(t, 1, err);
}

pg_status pg__average_finish(pg_trainer *t, pg_err *err)
{
    return pg__optimizer_finalizes(&t->compiled.optimizer) ? move_all(t, 0, err) : PG_OK;
}

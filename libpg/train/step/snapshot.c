/* snapshot.c - parameters and slots copied to host memory. Copies are made between two steps, so
 * they must be quick: the trainer keeps the memory of a dropped copy for the next one, because
 * fresh pages cost more than the copying. */
#include "train/step/snapshot.h"

#include <stdatomic.h>
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "train/step/model_parallel.h"
#include "train/step/optimizer_shard.h"

static uint64_t flat_bytes(const pg_trainer *t)
{
    return t->vars.offsets[t->vars.n_params] * t->devs.backend->real_bytes;
}

static void destroy(pg__snapshot *s)
{
    if (!s)
        return;
    pg__mem_free(s->params);
    for (size_t k = 0; k < PG_MAX_SLOTS; k++)
        pg__mem_free(s->slots[k]);
    pg__mem_free(s);
}

void pg__snapshot_forget(pg_trainer *t)
{
    destroy(atomic_exchange(&t->vars.spare, NULL));
}

/* *mem: allocated if it is NULL. */
static pg_status copy(pg_trainer *t, void **mem, const pg__flat *from, size_t n, pg_err *err)
{
    if (!*mem)
        *mem = pg__mem_aligned(n);
    return *mem ? pg__flat_get(t, *mem, from, err) : pg__nomem(err);
}

static pg_status fill(pg__snapshot *s, pg_trainer *t, int with_slots, pg_err *err)
{
    pg_status st = PG_OK;
    atomic_store(&s->n_users, 1);
    s->t = t;
    s->optimizer = t->compiled.optimizer;
    s->n_moves = t->loop.n_moves;
    s->n_bytes = (size_t)flat_bytes(t);
    PG_TRY(copy(t, &s->params, &t->vars.params, s->n_bytes, err));
    for (size_t k = 0; k < PG_MAX_SLOTS; k++) {
        s->has_slot[k] = with_slots && t->vars.slots[k].mem;
        if (s->has_slot[k] && !pg__is_sharded(t->ranks)) {
            PG_TRY(copy(t, &s->slots[k], &t->vars.slots[k], s->n_bytes, err));
        } else { /* stale values must not look current */
            pg__mem_free(s->slots[k]);
            s->slots[k] = NULL;
        }
    }
done:
    return st;
}

pg_status pg__snapshot_take(pg__snapshot **out, pg_trainer *t, int with_slots, pg_err *err)
{
    pg__snapshot *s = atomic_exchange(&t->vars.spare, NULL);
    if (!s)
        s = pg__mem_array(1, sizeof *s);
    if (!s)
        return pg__nomem(err);
    const pg_status st = fill(s, t, with_slots, err);
    if (st != PG_OK)
        destroy(s);
    else
        *out = s;
    return st;
}

pg__snapshot *pg__snapshot_share(pg__snapshot *s)
{
    atomic_fetch_add(&s->n_users, 1);
    return s;
}

void pg__snapshot_drop(pg__snapshot *s)
{
    if (s && atomic_fetch_sub(&s->n_users, 1) == 1)
        destroy(atomic_exchange(&s->t->vars.spare, s));
}

pg_status pg__snapshot_read(const pg__snapshot *s, size_t slot, uint64_t at, void *buf, size_t n,
                            pg_err *err)
{
    const char *from = slot == PG_NONE ? s->params : s->slots[slot];
    if (!from)
        return pg__opt_shard_read(s->t, slot, at, buf, n, err);
    memcpy(buf, from + at, n);
    return PG_OK;
}

uint64_t pg__snapshot_place(const pg__snapshot *s, size_t param)
{
    return s->t->vars.offsets[param] * s->t->devs.backend->real_bytes;
}

uint64_t pg__snapshot_bytes(const pg_trainer *t, int with_slots)
{
    uint64_t n = flat_bytes(t);
    for (size_t k = 0; with_slots && k < PG_MAX_SLOTS && !pg__is_sharded(t->ranks); k++)
        n += t->vars.slots[k].mem ? flat_bytes(t) : 0;
    return n;
}

pg_status pg__snapshot_restore(const pg__snapshot *s, pg_trainer *t, pg_err *err)
{
    pg_status st = pg__flat_put(t, &t->vars.params, 0, s->params, s->n_bytes, err);
    t->vars.version++;
    for (size_t k = 0; k < PG_MAX_SLOTS && st == PG_OK; k++)
        if (s->slots[k] && t->vars.slots[k].mem)
            st = pg__flat_put(t, &t->vars.slots[k], 0, s->slots[k], s->n_bytes, err);
    return st;
}

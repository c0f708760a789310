/* workers.c - the threads of a trainer, and their memory. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "train/step/devices.h"
#include "train/step/graph_capture.h"
#include "train/step/profiled.h"
#include "train/step/ranks.h"
#include "train/step/result.h"

#define DEFAULT_LANES 8

/* "cpu:5" of a machine with two cores is a replica like any other, but hardly what was meant. */
static pg_status note_cores(pg_trainer *t, const char *devices, pg_err *err)
{
    size_t n_cores = 0;
    pg_status st = PG_OK;
    PG_TRY(t->backend->count(&n_cores, err));
    for (const char *s = devices; s && *s;) {
        const size_t len = strcspn(s, ",");
        const char *colon = memchr(s, ':', len);
        if (colon && strtoul(colon + 1, NULL, 10) >= n_cores) {
            PG_TRY(pg__strs_printf(&t->notes, err,
                                   "%.*s: this machine has %zu core%s, which the devices share",
                                   (int)len, s, n_cores, n_cores == 1 ? "" : "s"));
            break;
        }
        s += len + (s[len] == ',');
    }
done:
    return st;
}

/* Cores are dealt evenly over the replicas, at least one to each. */
pg_status pg__workers_open(pg_trainer *t, const pg_train_opts *o, pg_err *err)
{
    size_t cores = o->threads;
    pg_status st = PG_OK;
    if (cores == 0 && t->backend->host_memory) {
        PG_TRY(t->backend->count(&cores, err));
        if (t->ranks && t->ranks->n_sharing > 1)
            cores = cores > t->ranks->n_sharing ? cores / t->ranks->n_sharing : 1;
    }
    if (t->backend->host_memory)
        PG_TRY(note_cores(t, t->device_names, err));
    const size_t crew = t->assigned.n_devices ? t->assigned.n_devices : 1;
    if (!t->backend->host_memory) /* a queue each */
        cores = pg__replicas_here(&t->cut) * crew;
    cores = t->couples_rows && crew > 1 ? crew : cores; /* the rows of a batch stay together */
    t->bn_sync = o->batch_norm ? o->batch_norm == 2 : o->deterministic;
    t->cut.by_replica = t->couples_rows && !t->bn_sync;
    if (t->cut.by_replica && o->deterministic && t->cut.n_replicas > 1)
        PG_TRY(pg__strs_printf(
            &t->notes, err, "BatchNormalization by devices: their number is part of the result"));
    const size_t shares = pg__replicas_here(&t->cut) * crew;
    const size_t each = cores > shares ? cores / shares : 1;
    t->cut.n_workers = each * pg__replicas_here(&t->cut);
    if (o->lanes && !o->deterministic)
        PG_FAIL(PG_E_ARG, "lanes are of deterministic training, which is off");
    if (o->deterministic)
        t->cut.n_lanes = o->lanes ? o->lanes : DEFAULT_LANES;
    if (t->cut.n_lanes & (t->cut.n_lanes - 1) || t->cut.n_lanes > 1024)
        PG_FAIL(PG_E_ARG, "lanes: %zu is no power of two up to 1024", t->cut.n_lanes);
    if (t->cut.n_lanes && t->cut.n_replicas > t->cut.n_lanes) {
        st = pg_fail(err, PG_E_ARG, "%zu devices need at least as many lanes", t->cut.n_replicas);
        pg_err_hint(err, "--lanes %zu", pg__tree_top(t->cut.n_replicas));
        goto done;
    }
    PG_TRY(pg__workers_start(t, err));
done:
    return st;
}

pg_status pg__workers_start(pg_trainer *t, pg_err *err)
{
    t->n_threads = t->cut.n_workers * (t->assigned.n_devices ? t->assigned.n_devices : 1);
    t->workers = pg__mem_array(t->n_threads, sizeof *t->workers);
    t->arenas = pg__mem_array(t->cut.n_workers + t->cut.n_lanes, sizeof *t->arenas);
    t->landings = pg__mem_array(t->cut.n_workers + t->cut.n_lanes, sizeof *t->landings);
    if (!t->workers || !t->arenas || !t->landings)
        return pg__nomem(err);
    const pg_status st = pg__devices_staff(t, err);
    /* one thread gives work to all devices that share a lane, where they have queues of their own
     */
    const size_t n = t->is_split ? t->cut.n_workers : t->n_threads;
    return st == PG_OK ? pg__thread_pool_new(&t->team, n, err) : st;
}

void pg__workers_stop(pg_trainer *t)
{
    pg__thread_pool_free(t->team);
    pg__steps_drop(t);
    pg__profile_drop(t);
    for (size_t w = 0; t->workers && w < t->n_threads; w++) {
        if (t->workers[w].dev) {
            t->backend->free(t->workers[w].dev, t->workers[w].scratch.mem);
            t->backend->free(t->workers[w].dev, t->workers[w].arena.mem);
        }
        pg__mem_free(t->workers[w].args);
        pg__graph_capture_forget(t, &t->workers[w]);
        for (size_t k = 0; k < PG_MAX_PARTIALS; k++)
            pg__flat_free(t, &t->workers[w].grads[k]);
    }
    for (size_t k = 0; t->arenas && k < t->cut.n_workers + t->cut.n_lanes; k++)
        t->backend->free(t->devices[t->arenas[k].device].dev, t->arenas[k].mem);
    for (size_t k = 0; t->landings && k < t->cut.n_workers + t->cut.n_lanes; k++)
        pg__landing_free(t, &t->landings[k]);
    pg__devices_dismiss(t);
    pg__mem_free(t->landings);
    pg__mem_free(t->arenas);
    pg__mem_free(t->workers);
    t->team = NULL;
    t->arenas = NULL;
    t->landings = NULL;
    t->workers = NULL;
}

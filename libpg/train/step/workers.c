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

/* "cpu:5" on a machine with two cores works like any replica, but is hardly intended. */
static pg_status note_cores(pg_trainer *t, const char *devices, pg_err *err)
{
    size_t n_cores = 0;
    pg_status st = PG_OK;
    PG_TRY(t->devs.backend->count(&n_cores, err));
    for (const char *s = devices; s && *s;) {
        const size_t len = strcspn(s, ",");
        const char *colon = memchr(s, ':', len);
        if (colon && strtoul(colon + 1, NULL, 10) >= n_cores) {
            PG_TRY(pg__strs_printf(&t->report.notes, err,
                                   "%.*s: this machine has %zu core%s, which the devices share",
                                   (int)len, s, n_cores, n_cores == 1 ? "" : "s"));
            break;
        }
        s += len + (s[len] == ',');
    }
done:
    return st;
}

/* Divides the cores evenly over the replicas, at least one each. */
pg_status pg__workers_open(pg_trainer *t, const pg_train_opts *o, pg_err *err)
{
    size_t cores = o->threads;
    pg_status st = PG_OK;
    if (cores == 0 && t->devs.backend->host_memory) {
        PG_TRY(t->devs.backend->count(&cores, err));
        if (t->ranks && t->ranks->n_sharing > 1)
            cores = cores > t->ranks->n_sharing ? cores / t->ranks->n_sharing : 1;
    }
    if (t->devs.backend->host_memory)
        PG_TRY(note_cores(t, t->devs.device_names, err));
    const size_t crew = t->devs.assigned.n_devices ? t->devs.assigned.n_devices : 1;
    if (!t->devs.backend->host_memory) /* a queue each */
        cores = pg__replicas_here(&t->pool.cut) * crew;
    if ((t->net.couples_rows && crew > 1) || t->net.steps_first)
        cores = crew; /* the rows of a batch stay together */
    if (t->net.steps_first && t->pool.cut.n_replicas > 1)
        PG_FAIL(PG_E_UNSUPPORTED,
                "a layer has steps before rows (time_major), so a batch cannot be "
                "divided among devices");
    t->net.bn_sync = o->batch_norm ? o->batch_norm == 2 : o->deterministic;
    t->pool.cut.by_replica = t->net.couples_rows && !t->net.bn_sync;
    if (t->pool.cut.by_replica && o->deterministic && t->pool.cut.n_replicas > 1)
        PG_TRY(pg__strs_printf(&t->report.notes, err,
                               "BatchNormalization per device: their number affects the result"));
    const size_t shares = pg__replicas_here(&t->pool.cut) * crew;
    const size_t each = cores > shares ? cores / shares : 1;
    t->pool.cut.n_workers = each * pg__replicas_here(&t->pool.cut);
    if (o->lanes && !o->deterministic)
        PG_FAIL(PG_E_ARG, "lanes require deterministic training, which is off");
    if (o->deterministic)
        t->pool.cut.n_lanes = t->net.steps_first ? 1 : o->lanes ? o->lanes : DEFAULT_LANES;
    if (t->pool.cut.n_lanes & (t->pool.cut.n_lanes - 1) || t->pool.cut.n_lanes > 1024)
        PG_FAIL(PG_E_ARG, "lanes: %zu is not a power of two up to 1024", t->pool.cut.n_lanes);
    if (t->pool.cut.n_lanes && t->pool.cut.n_replicas > t->pool.cut.n_lanes) {
        st = pg_fail(err, PG_E_ARG, "%zu devices need at least as many lanes",
                     t->pool.cut.n_replicas);
        pg_err_set(err, "lanes", "%zu", pg__tree_top(t->pool.cut.n_replicas));
        goto done;
    }
    PG_TRY(pg__workers_start(t, err));
done:
    return st;
}

pg_status pg__workers_start(pg_trainer *t, pg_err *err)
{
    t->pool.n_threads =
        t->pool.cut.n_workers * (t->devs.assigned.n_devices ? t->devs.assigned.n_devices : 1);
    t->pool.workers = pg__mem_array(t->pool.n_threads, sizeof *t->pool.workers);
    t->pool.arenas =
        pg__mem_array(t->pool.cut.n_workers + t->pool.cut.n_lanes, sizeof *t->pool.arenas);
    t->pool.landings =
        pg__mem_array(t->pool.cut.n_workers + t->pool.cut.n_lanes, sizeof *t->pool.landings);
    if (!t->pool.workers || !t->pool.arenas || !t->pool.landings)
        return pg__nomem(err);
    const pg_status st = pg__devices_staff(t, err);
    /* one thread feeds all devices that share a lane, if they have queues of their own */
    const size_t n = t->devs.is_split ? t->pool.cut.n_workers : t->pool.n_threads;
    return st == PG_OK ? pg__thread_pool_new(&t->pool.threads, n, err) : st;
}

void pg__workers_stop(pg_trainer *t)
{
    pg__thread_pool_free(t->pool.threads);
    pg__steps_drop(&t->programs);
    pg__profile_drop(t);
    for (size_t w = 0; t->pool.workers && w < t->pool.n_threads; w++) {
        if (t->pool.workers[w].dev) {
            t->devs.backend->free(t->pool.workers[w].dev, t->pool.workers[w].scratch.mem);
            t->devs.backend->free(t->pool.workers[w].dev, t->pool.workers[w].arena.mem);
        }
        pg__mem_free(t->pool.workers[w].args);
        pg__graph_capture_forget(&t->devs, &t->pool.workers[w]);
        for (size_t k = 0; k < PG_MAX_PARTIALS; k++)
            pg__flat_free(&t->devs, &t->pool.workers[w].grads[k]);
    }
    for (size_t k = 0; t->pool.arenas && k < t->pool.cut.n_workers + t->pool.cut.n_lanes; k++)
        t->devs.backend->free(t->devs.devices[t->pool.arenas[k].device].dev, t->pool.arenas[k].mem);
    for (size_t k = 0; t->pool.landings && k < t->pool.cut.n_workers + t->pool.cut.n_lanes; k++)
        pg__landing_free(&t->devs, &t->pool.landings[k]);
    pg__devices_dismiss(t);
    pg__mem_free(t->pool.landings);
    pg__mem_free(t->pool.arenas);
    pg__mem_free(t->pool.workers);
    t->pool.threads = NULL;
    t->pool.arenas = NULL;
    t->pool.landings = NULL;
    t->pool.workers = NULL;
}

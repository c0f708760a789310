/* devices.c - opening devices, and keeping copies of the variables on the GPUs beyond the first. */
#include "train/step/devices.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "base/mem.h"
#include "base/try.h"
#include "train/step/ranks_devices.h"

/* ---- opening ---- */

/* Its index among the devices: one for each GPU, one for all CPUs. */
static size_t index_of(pg__trainer_devs *devs, size_t ordinal)
{
    for (size_t d = 0; d < devs->n_devices; d++)
        if (devs->backend->host_memory || devs->devices[d].ordinal == ordinal)
            return d;
    devs->devices[devs->n_devices].ordinal = ordinal;
    return devs->n_devices++;
}

static pg_status add_replica(pg_trainer *t, const char *name, size_t len, pg_err *err)
{
    const pg__backend *backend;
    char text[64];
    size_t ordinal = 0;
    pg_status st = PG_OK;
    if (len >= sizeof text || t->pool.cut.n_replicas == PG_MAX_REPLICAS)
        PG_FAIL(PG_E_ARG, "devices: too many or too long names");
    memcpy(text, name, len);
    text[len] = '\0';
    PG_TRY(pg__backend_of(&backend, &ordinal, text, err));
    if (t->devs.backend && t->devs.backend != backend)
        PG_FAIL(PG_E_UNSUPPORTED, "devices: %s and %s cannot share a batch", t->devs.backend->name,
                backend->name);
    t->devs.backend = backend;
    t->devs.device_of[t->pool.cut.n_replicas++] = index_of(&t->devs, ordinal);
done:
    return st;
}

/* All *n visible GPUs; if a machine runs several processes, each takes its own. */
static pg_status every_gpu(const pg_trainer *t, pg__str *out, size_t *n, pg_err *err)
{
    const pg__backend *gpus;
    size_t ordinal, first, end;
    pg_status st = PG_OK;
    char one[16];
    (void)snprintf(one, sizeof one, "%s:0", pg__gpu_name());
    PG_TRY(pg__backend_of(&gpus, &ordinal, one, err));
    PG_TRY(gpus->count(n, err));
    PG_TRY(pg__ranks_gpus(t, *n, &first, &end, err));
    for (size_t k = first; k < end; k++)
        PG_TRY(pg__str_printf(out, err, "%s%s:%zu", k > first ? "," : "", pg__gpu_name(), k));
done:
    return st;
}

/* "cuda:*" */
static int is_every_gpu(const char *asked)
{
    const size_t n = strlen(pg__gpu_name());
    return strncmp(asked, pg__gpu_name(), n) == 0 && strcmp(asked + n, ":*") == 0;
}

/* Names, one by one. "auto" is every GPU, or the CPU if there is none; a note says why. */
static pg_status name_devices(pg_trainer *t, const char *asked, pg_err *err)
{
    pg__str all = {0};
    pg_err why = {0};
    size_t n = 0;
    pg_status st = PG_OK;
    if (asked && strcmp(asked, "auto") == 0) {
        st = every_gpu(t, &all, &n, &why);
        if (st != PG_OK && n > 0) {
            if (err)
                *err = why;
            goto done;
        }
        if (st != PG_OK) {
            all.n = 0;
            PG_TRY(pg__strs_printf(&t->report.notes, err, "training on the CPU: %s", why.msg));
            PG_TRY(pg__str_puts(&all, "cpu:0", err));
        }
    } else if (asked && is_every_gpu(asked)) {
        PG_TRY(every_gpu(t, &all, &n, err));
    } else {
        PG_TRY(pg__str_puts(&all, asked && *asked ? asked : "cpu:0", err));
    }
    t->devs.device_names = pg__mem_strdup(all.s);
    if (!t->devs.device_names)
        PG_TRY(pg__nomem(err));
    if (all.n > 1 && t->devs.device_names[all.n - 1] == ',')
        t->devs.device_names[all.n - 1] = '\0';
done:
    pg__str_fini(&all);
    return st;
}

static pg_status open_group(pg_trainer *t, pg_err *err)
{
    pg__dev **devs = pg__mem_array(t->devs.n_devices, sizeof(pg__dev *));
    pg_status st = PG_OK;
    if (!devs)
        return pg__nomem(err);
    for (size_t d = 0; d < t->devs.n_devices; d++)
        devs[d] = t->devs.devices[d].dev;
    st = t->devs.backend->group.new(&t->sums.group, devs, t->devs.n_devices, NULL, err);
    if (st == PG_E_UNSUPPORTED) {
        pg_err_set(err, "cpu_merge", "%s", "");
        pg_err_arg(err, "note", "sums without it");
    }
    pg__mem_free(devs);
    return st;
}

static pg_status open_one(pg__trainer_devs *devs, size_t d, const pg_train_opts *o, pg_err *err)
{
    const pg__dev_opts opts = {.n_threads = 1,
                               .deterministic = o->deterministic,
                               .tune = o->gpu_tune,
                               .conv = o->conv,
                               .precision = o->precision == PG_TF32 ? PG_TF32 : PG_FLOAT32,
                               .warm = !o->for_prediction && d == 0,
                               .isa = pg__env("PG_ISA")};
    return devs->backend->open(&devs->devices[d].dev, devs->devices[d].ordinal, &opts, err);
}

pg_status pg__devices_add(pg__trainer_devs *devs, size_t ordinal, const pg_train_opts *o,
                          pg_err *err)
{
    devs->devices[devs->n_devices].ordinal = ordinal;
    return open_one(devs, devs->n_devices++, o, err);
}

pg_status pg__devices_open(pg_trainer *t, const pg_train_opts *o, pg_err *err)
{
    pg_status st = PG_OK;
    t->devs.devices = pg__mem_array(PG_MAX_REPLICAS, sizeof *t->devs.devices);
    t->devs.device_of = pg__mem_array(PG_MAX_REPLICAS, sizeof *t->devs.device_of);
    if (!t->devs.devices || !t->devs.device_of)
        PG_TRY(pg__nomem(err));
    PG_TRY(name_devices(t, o->devices, err));
    const char *at = t->devs.device_names;
    for (size_t len; *at != '\0'; at += len + (at[len] == ',')) {
        len = strcspn(at, ",");
        PG_TRY(add_replica(t, at, len, err));
    }
    for (size_t d = 0; d < t->devs.n_devices; d++)
        PG_TRY(open_one(&t->devs, d, o, err));
    t->devs.dev = t->devs.devices[0].dev;
    t->devs.tunes = o->gpu_tune;
    pg__sums_know(t, o);
    if (!t->ranks && pg__sums_by_group(&t->sums.facts))
        PG_TRY(open_group(t, err));
done:
    return st;
}

static void free_copies(pg__trainer_devs *devs, pg__device *d)
{
    pg__flat_free(devs, &d->params);
    pg__flat_free(devs, &d->incoming);
    for (size_t s = 0; s < PG_MAX_SLOTS; s++)
        pg__flat_free(devs, &d->slots[s]);
}

void pg__devices_close(pg_trainer *t)
{
    if (t->sums.group)
        t->devs.backend->group.free(t->sums.group);
    t->sums.group = NULL;
    for (size_t d = 0; d < t->devs.n_devices; d++) {
        if (!t->devs.devices[d].dev)
            continue;
        free_copies(&t->devs, &t->devs.devices[d]);
        t->devs.backend->close(t->devs.devices[d].dev);
    }
    pg__mem_free(t->devs.devices);
    pg__mem_free(t->devs.device_of);
    pg__mem_free(t->devs.device_names);
    t->devs.devices = NULL;
    t->devs.dev = NULL;
    t->devs.n_devices = 0;
}

/* ---- workers ---- */

/* The first worker of a device uses the device's own queue. */
pg_status pg__devices_staff(pg_trainer *t, pg_err *err)
{
    const size_t each = t->pool.cut.n_workers / pg__replicas_here(&t->pool.cut);
    pg_status st = PG_OK;
    for (size_t i = 0; i < t->pool.n_threads; i++) {
        pg__worker *w = &t->pool.workers[i];
        w->device = t->devs.is_split ? i / t->pool.cut.n_workers
                                     : t->devs.device_of[i % t->pool.cut.n_workers / each];
        pg__device *d = &t->devs.devices[w->device];
        if (!t->devs.backend->fork || d->n_workers == 0)
            w->dev = d->dev;
        else
            PG_TRY(t->devs.backend->fork(&w->dev, d->dev, err));
        d->n_workers++;
    }
done:
    return st;
}

void pg__devices_dismiss(pg_trainer *t)
{
    for (size_t i = 0; t->pool.workers && i < t->pool.n_threads; i++) {
        pg__worker *w = &t->pool.workers[i];
        if (w->dev && w->dev != t->devs.devices[w->device].dev)
            t->devs.backend->close(w->dev);
        w->dev = NULL;
    }
    for (size_t d = 0; d < t->devs.n_devices; d++)
        t->devs.devices[d].n_workers = 0;
}

pg_status pg__devices_join(pg_trainer *t, pg_err *err)
{
    pg_status st = PG_OK;
    for (size_t i = 0; i < t->pool.n_threads && st == PG_OK; i++) {
        pg__dev *d = t->pool.workers[i].dev;
        if (d != t->devs.devices[t->pool.workers[i].device].dev)
            st = pg__device_failed(&t->devs, d, t->devs.backend->sync(d), err);
    }
    return st;
}

pg_status pg__devices_settle(pg__trainer_devs *devs, pg_err *err)
{
    pg_status st = PG_OK;
    for (size_t d = 0; d < devs->n_devices && st == PG_OK; d++)
        if (devs->devices[d].n_workers > 1)
            st = pg__device_failed(devs, devs->devices[d].dev,
                                   devs->backend->sync(devs->devices[d].dev), err);
    return st;
}

pg_status pg__device_failed(const pg__trainer_devs *devs, pg__dev *d, pg_status st, pg_err *err)
{
    const pg_err *why = devs->backend->failure ? devs->backend->failure(d) : NULL;
    if (st == PG_OK)
        return PG_OK;
    if (!why || why->code == PG_OK)
        return pg_fail(err, st, "%s: a step failed", devs->backend->name);
    if (err)
        *err = *why;
    return why->code;
}

static int has_failed(const pg__trainer_devs *devs, pg__dev *d)
{
    const pg_err *why = devs->backend->failure && d ? devs->backend->failure(d) : NULL;
    return why && why->code != PG_OK;
}

pg_status pg__with_message(const pg_trainer *t, pg_status st, pg_err *err)
{
    pg__dev *failed = t->devs.dev;
    if (st == PG_OK || !err || err->code != PG_OK)
        return st;
    for (size_t i = 0; t->pool.workers && i < t->pool.n_threads; i++)
        if (!has_failed(&t->devs, failed) && has_failed(&t->devs, t->pool.workers[i].dev))
            failed = t->pool.workers[i].dev;
    return pg__device_failed(&t->devs, failed, st, err);
}

/* ---- copies of the variables ---- */

pg__flat *pg__params_on(pg_trainer *t, size_t d)
{
    return d == 0 ? &t->vars.params : &t->devs.devices[d].params;
}

pg__flat *pg__slots_on(pg_trainer *t, size_t d)
{
    return d == 0 ? t->vars.slots : t->devs.devices[d].slots;
}

static pg_status copy_flat(pg_trainer *t, size_t d, pg__flat *to, const pg__flat *from, pg_err *err)
{
    const size_t n = (size_t)t->vars.offsets[t->vars.n_params] * t->devs.backend->real_bytes;
    pg_status st = PG_OK;
    if (!from->mem)
        return PG_OK;
    if (!to->mem)
        PG_TRY(pg__flat_alloc_on(t, to, d, err));
    st = t->devs.backend->copy_from(t->devs.devices[d].dev, to->mem, t->devs.dev, from->mem, n);
    PG_TRY(pg__device_failed(&t->devs, t->devs.devices[d].dev, st, err));
done:
    return st;
}

pg_status pg__devices_mirror(pg_trainer *t, pg_err *err)
{
    pg_status st = PG_OK;
    const int has_others = t->devs.n_devices > 1 || (t->ranks && !t->devs.backend->host_memory);
    if (!has_others || t->devs.is_split || t->devs.mirrored == t->vars.version)
        return PG_OK;
    for (size_t d = 0; d < t->devs.n_devices; d++)
        if (!t->devs.devices[d].incoming.mem)
            PG_TRY(pg__flat_alloc_on(t, &t->devs.devices[d].incoming, d, err));
    st = pg__device_failed(&t->devs, t->devs.dev, t->devs.backend->sync(t->devs.dev), err);
    for (size_t d = 1; d < t->devs.n_devices && st == PG_OK; d++) {
        pg__device *to = &t->devs.devices[d];
        PG_TRY(copy_flat(t, d, &to->params, &t->vars.params, err));
        for (size_t s = 0; s < PG_MAX_SLOTS; s++)
            PG_TRY(copy_flat(t, d, &to->slots[s], &t->vars.slots[s], err));
        PG_TRY(pg__device_failed(&t->devs, to->dev, t->devs.backend->sync(to->dev), err));
    }
    pg__devices_mirrored(t);
done:
    return st;
}

void pg__devices_mirrored(pg_trainer *t)
{
    t->devs.mirrored = t->vars.version;
}

pg_status pg__flat_on(pg__trainer_devs *devs, size_t d, pg__flat *f, uint64_t from, uint64_t to,
                      pg__flat **out, pg_err *err)
{
    const size_t bytes = devs->backend->real_bytes;
    pg__device *on = &devs->devices[d], *of = &devs->devices[f->device];
    pg_status st = PG_OK;
    *out = f;
    if (f->device == d)
        return PG_OK;
    PG_TRY(pg__device_failed(devs, of->dev, devs->backend->sync(of->dev), err));
    st = devs->backend->copy_from(on->dev, (char *)on->incoming.mem + from * bytes, of->dev,
                                  (const char *)f->mem + from * bytes, (size_t)(to - from) * bytes);
    PG_TRY(pg__device_failed(devs, on->dev, st, err));
    *out = &on->incoming;
done:
    return st;
}

/* devices.c - opening devices, and keeping copies of the variables on the GPUs beyond the first. */
#include "train/step/devices.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "train/step/ranks_devices.h"

/* ---- opening ---- */

/* Its index among the devices: one for each GPU, one for all of the host. */
static size_t index_of(pg_trainer *t, size_t ordinal)
{
    for (size_t d = 0; d < t->n_devices; d++)
        if (t->backend->host_memory || t->devices[d].ordinal == ordinal)
            return d;
    t->devices[t->n_devices].ordinal = ordinal;
    return t->n_devices++;
}

static pg_status add_replica(pg_trainer *t, const char *name, size_t len, pg_err *err)
{
    const pg__backend *backend;
    char text[64];
    size_t ordinal = 0;
    pg_status st = PG_OK;
    if (len >= sizeof text || t->cut.n_replicas == PG_MAX_REPLICAS)
        PG_FAIL(PG_E_ARG, "devices: more or longer names than there can be devices");
    memcpy(text, name, len);
    text[len] = '\0';
    PG_TRY(pg__backend_of(&backend, &ordinal, text, err));
    if (t->backend && t->backend != backend)
        PG_FAIL(PG_E_UNSUPPORTED, "devices: %s and %s cannot share a batch", t->backend->name,
                backend->name);
    t->backend = backend;
    t->device_of[t->cut.n_replicas++] = index_of(t, ordinal);
done:
    return st;
}

/* All *n GPUs that can be seen; of several processes on a machine each has its own. */
static pg_status every_gpu(const pg_trainer *t, pg__str *out, size_t *n, pg_err *err)
{
    const pg__backend *cuda;
    size_t ordinal, first, end;
    pg_status st = PG_OK;
    PG_TRY(pg__backend_of(&cuda, &ordinal, "cuda:0", err));
    PG_TRY(cuda->count(n, err));
    PG_TRY(pg__ranks_gpus(t, *n, &first, &end, err));
    for (size_t k = first; k < end; k++)
        PG_TRY(pg__str_printf(out, err, "%scuda:%zu", k > first ? "," : "", k));
done:
    return st;
}

/* Names, one by one. "auto" is every GPU, or the CPU where there is none; what stands in the way is
 * told. */
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
            PG_TRY(pg__strs_printf(&t->notes, err, "training on the CPU: %s", why.msg));
            PG_TRY(pg__str_puts(&all, "cpu:0", err));
        }
    } else if (asked && strcmp(asked, "cuda:*") == 0) {
        PG_TRY(every_gpu(t, &all, &n, err));
    } else {
        PG_TRY(pg__str_puts(&all, asked && *asked ? asked : "cpu:0", err));
    }
    t->device_names = pg__mem_strdup(all.s);
    if (!t->device_names)
        PG_TRY(pg__nomem(err));
    if (all.n > 1 && t->device_names[all.n - 1] == ',')
        t->device_names[all.n - 1] = '\0';
done:
    pg__str_fini(&all);
    return st;
}

static pg_status open_group(pg_trainer *t, pg_err *err)
{
    pg__dev **devs = pg__mem_array(t->n_devices, sizeof(pg__dev *));
    pg_status st = PG_OK;
    if (!devs)
        return pg__nomem(err);
    for (size_t d = 0; d < t->n_devices; d++)
        devs[d] = t->devices[d].dev;
    st = t->backend->group_new(&t->sums.group, devs, t->n_devices, NULL, err);
    if (st == PG_E_UNSUPPORTED)
        pg_err_hint(err, "--cpu-merge sums without it");
    pg__mem_free(devs);
    return st;
}

static pg_status open_one(pg_trainer *t, size_t d, const pg_train_opts *o, pg_err *err)
{
    const pg__dev_opts opts = {.n_threads = 1,
                               .deterministic = o->deterministic,
                               .conv = o->conv,
                               .precision = o->precision == PG__TF32 ? PG__TF32 : PG__FLOAT32,
                               .isa = secure_getenv("PG_ISA")};
    return t->backend->open(&t->devices[d].dev, t->devices[d].ordinal, &opts, err);
}

pg_status pg__devices_add(pg_trainer *t, size_t ordinal, const pg_train_opts *o, pg_err *err)
{
    t->devices[t->n_devices].ordinal = ordinal;
    return open_one(t, t->n_devices++, o, err);
}

pg_status pg__devices_open(pg_trainer *t, const pg_train_opts *o, pg_err *err)
{
    pg_status st = PG_OK;
    t->devices = pg__mem_array(PG_MAX_REPLICAS, sizeof *t->devices);
    t->device_of = pg__mem_array(PG_MAX_REPLICAS, sizeof *t->device_of);
    if (!t->devices || !t->device_of)
        PG_TRY(pg__nomem(err));
    PG_TRY(name_devices(t, o->devices, err));
    const char *at = t->device_names;
    for (size_t len; *at != '\0'; at += len + (at[len] == ',')) {
        len = strcspn(at, ",");
        PG_TRY(add_replica(t, at, len, err));
    }
    for (size_t d = 0; d < t->n_devices; d++)
        PG_TRY(open_one(t, d, o, err));
    t->dev = t->devices[0].dev;
    pg__sums_know(t, o);
    if (!t->ranks && pg__sums_by_group(&t->sums.facts))
        PG_TRY(open_group(t, err));
done:
    return st;
}

static void free_copies(pg_trainer *t, pg__device *d)
{
    pg__flat_free(t, &d->params);
    pg__flat_free(t, &d->incoming);
    for (size_t s = 0; s < PG_MAX_SLOTS; s++)
        pg__flat_free(t, &d->slots[s]);
}

void pg__devices_close(pg_trainer *t)
{
    if (t->sums.group)
        t->backend->group_free(t->sums.group);
    t->sums.group = NULL;
    for (size_t d = 0; d < t->n_devices; d++) {
        if (!t->devices[d].dev)
            continue;
        free_copies(t, &t->devices[d]);
        t->backend->close(t->devices[d].dev);
    }
    pg__mem_free(t->devices);
    pg__mem_free(t->device_of);
    pg__mem_free(t->device_names);
    t->devices = NULL;
    t->dev = NULL;
    t->n_devices = 0;
}

/* ---- workers ---- */

/* The first worker of a device has its own queue. */
pg_status pg__devices_staff(pg_trainer *t, pg_err *err)
{
    const size_t each = t->cut.n_workers / pg__replicas_here(&t->cut);
    pg_status st = PG_OK;
    for (size_t i = 0; i < t->n_threads; i++) {
        pg__worker *w = &t->workers[i];
        w->device = t->is_split ? i / t->cut.n_workers : t->device_of[i % t->cut.n_workers / each];
        pg__device *d = &t->devices[w->device];
        if (!t->backend->fork || d->n_workers == 0)
            w->dev = d->dev;
        else
            PG_TRY(t->backend->fork(&w->dev, d->dev, err));
        d->n_workers++;
    }
done:
    return st;
}

void pg__devices_dismiss(pg_trainer *t)
{
    for (size_t i = 0; t->workers && i < t->n_threads; i++) {
        pg__worker *w = &t->workers[i];
        if (w->dev && w->dev != t->devices[w->device].dev)
            t->backend->close(w->dev);
        w->dev = NULL;
    }
    for (size_t d = 0; d < t->n_devices; d++)
        t->devices[d].n_workers = 0;
}

pg_status pg__devices_join(pg_trainer *t, pg_err *err)
{
    pg_status st = PG_OK;
    for (size_t i = 0; i < t->n_threads && st == PG_OK; i++) {
        pg__dev *d = t->workers[i].dev;
        if (d != t->devices[t->workers[i].device].dev)
            st = pg__device_failed(t, d, t->backend->sync(d), err);
    }
    return st;
}

pg_status pg__devices_settle(pg_trainer *t, pg_err *err)
{
    pg_status st = PG_OK;
    for (size_t d = 0; d < t->n_devices && st == PG_OK; d++)
        if (t->devices[d].n_workers > 1)
            st = pg__device_failed(t, t->devices[d].dev, t->backend->sync(t->devices[d].dev), err);
    return st;
}

pg_status pg__device_failed(const pg_trainer *t, pg__dev *d, pg_status st, pg_err *err)
{
    const pg_err *why = t->backend->failure ? t->backend->failure(d) : NULL;
    if (st == PG_OK)
        return PG_OK;
    if (!why || why->code == PG_OK)
        return pg_fail(err, st, "%s: a step failed", t->backend->name);
    if (err)
        *err = *why;
    return why->code;
}

static int has_failed(const pg_trainer *t, pg__dev *d)
{
    const pg_err *why = t->backend->failure && d ? t->backend->failure(d) : NULL;
    return why && why->code != PG_OK;
}

pg_status pg__told(const pg_trainer *t, pg_status st, pg_err *err)
{
    pg__dev *failed = t->dev;
    if (st == PG_OK || !err || err->code != PG_OK)
        return st;
    for (size_t i = 0; t->workers && i < t->n_threads; i++)
        if (!has_failed(t, failed) && has_failed(t, t->workers[i].dev))
            failed = t->workers[i].dev;
    return pg__device_failed(t, failed, st, err);
}

/* ---- copies of the variables ---- */

pg__flat *pg__params_on(pg_trainer *t, size_t d)
{
    return d == 0 ? &t->params : &t->devices[d].params;
}

pg__flat *pg__slots_on(pg_trainer *t, size_t d)
{
    return d == 0 ? t->slots : t->devices[d].slots;
}

static pg_status copy_flat(pg_trainer *t, size_t d, pg__flat *to, const pg__flat *from, pg_err *err)
{
    const size_t n = (size_t)t->offsets[t->n_params] * t->backend->real_bytes;
    pg_status st = PG_OK;
    if (!from->mem)
        return PG_OK;
    if (!to->mem)
        PG_TRY(pg__flat_alloc_on(t, to, d, err));
    st = t->backend->copy_from(t->devices[d].dev, to->mem, t->dev, from->mem, n);
    PG_TRY(pg__device_failed(t, t->devices[d].dev, st, err));
done:
    return st;
}

pg_status pg__devices_mirror(pg_trainer *t, pg_err *err)
{
    pg_status st = PG_OK;
    const int has_others = t->n_devices > 1 || (t->ranks && !t->backend->host_memory);
    if (!has_others || t->is_split || t->mirrored == t->version)
        return PG_OK;
    for (size_t d = 0; d < t->n_devices; d++)
        if (!t->devices[d].incoming.mem)
            PG_TRY(pg__flat_alloc_on(t, &t->devices[d].incoming, d, err));
    st = pg__device_failed(t, t->dev, t->backend->sync(t->dev), err);
    for (size_t d = 1; d < t->n_devices && st == PG_OK; d++) {
        pg__device *to = &t->devices[d];
        PG_TRY(copy_flat(t, d, &to->params, &t->params, err));
        for (size_t s = 0; s < PG_MAX_SLOTS; s++)
            PG_TRY(copy_flat(t, d, &to->slots[s], &t->slots[s], err));
        PG_TRY(pg__device_failed(t, to->dev, t->backend->sync(to->dev), err));
    }
    pg__devices_mirrored(t);
done:
    return st;
}

void pg__devices_mirrored(pg_trainer *t)
{
    t->mirrored = t->version;
}

pg_status pg__flat_on(pg_trainer *t, size_t d, pg__flat *f, uint64_t from, uint64_t to,
                      pg__flat **out, pg_err *err)
{
    const size_t bytes = t->backend->real_bytes;
    pg__device *on = &t->devices[d], *of = &t->devices[f->device];
    pg_status st = PG_OK;
    *out = f;
    if (f->device == d)
        return PG_OK;
    PG_TRY(pg__device_failed(t, of->dev, t->backend->sync(of->dev), err));
    st = t->backend->copy_from(on->dev, (char *)on->incoming.mem + from * bytes, of->dev,
                               (const char *)f->mem + from * bytes, (size_t)(to - from) * bytes);
    PG_TRY(pg__device_failed(t, on->dev, st, err));
    *out = &on->incoming;
done:
    return st;
}

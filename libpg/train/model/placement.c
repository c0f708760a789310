/* placement.c - device parallelism: "LAYER=DEVICE,LAYER#CALL=DEVICE". Weights are stored once: CPUs
 * share their memory, on GPUs they lie on the device of the layer's first call (model_parallel.h).
 * Gradients of a layer that is called on two devices are summed in the order of its calls, wherever
 * they ran. "cuda:0.1" is a second device on GPU 0, with memory and a queue of its own, so that a
 * placement for two GPUs can be tried on one. */
#include "train/model/placement.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/nearest.h"
#include "base/str.h"
#include "base/try.h"
#include "train/step/step.h"

#define MAX_DEVICES 16
#define MAX_NAME    64

typedef struct device_list {
    char names[MAX_DEVICES][MAX_NAME]; /* device 0: for everything that is not placed */
    size_t ordinals[MAX_DEVICES];
    uint32_t n;
} device_list;

/* Takes ".1" off "cuda:0.1"; returns whether it is a number. ".0" is the device itself. */
static int take_suffix(char *name, char suffix[MAX_NAME])
{
    char *dot = strchr(name, '.');
    suffix[0] = '\0';
    if (!dot)
        return 1;
    if (dot[1] == '\0' || strspn(dot + 1, "0123456789") != strlen(dot + 1))
        return 0;
    if (strspn(dot + 1, "0") != strlen(dot + 1))
        memcpy(suffix, dot, strlen(dot) + 1);
    *dot = '\0';
    return 1;
}

static pg_status refuse_kinds(const pg_trainer *t, const pg__backend *other, pg_err *err)
{
    (void)pg_fail(err, PG_E_UNSUPPORTED, "place: %s and %s cannot share a model",
                  t->devs.backend->name, other->name);
    pg_err_set(err, "devices", "%s:0", other->name);
    return PG_E_UNSUPPORTED;
}

/* The number of a device, added if it is new. "cpu" is "cpu:0". */
static pg_status number_of(device_list *c, const pg_trainer *t, const char *name, size_t len,
                           uint32_t *out, pg_err *err)
{
    char full[MAX_NAME + 2], suffix[MAX_NAME];
    const pg__backend *backend;
    size_t ordinal;
    pg_status st = PG_OK;
    if (len == 0 || len >= MAX_NAME)
        PG_FAIL(PG_E_ARG, "place: \"%.*s\" is not a device: write LAYER=cpu:1", (int)len, name);
    memcpy(full, name, len);
    memcpy(full + len, memchr(name, ':', len) ? "" : ":0", memchr(name, ':', len) ? 1 : 3);
    const int is_suffix = take_suffix(full, suffix);
    PG_TRY(pg__backend_of(&backend, &ordinal, full, err));
    if (backend != t->devs.backend)
        return refuse_kinds(t, backend, err);
    if (!is_suffix || (suffix[0] && backend->host_memory))
        PG_FAIL(PG_E_ARG, "place: \"%.*s\" is not a device: write LAYER=%s:1", (int)len, name,
                backend->name);
    memcpy(full + strlen(full), suffix, strlen(suffix) + 1);
    for (*out = 0; *out < c->n; (*out)++)
        if (strcmp(c->names[*out], full) == 0)
            return PG_OK;
    if (c->n == MAX_DEVICES)
        PG_FAIL(PG_E_LIMIT, "place: more than %d devices", MAX_DEVICES);
    c->ordinals[c->n] = ordinal;
    memcpy(c->names[c->n++], full, strlen(full) + 1);
done:
    return st;
}

/* "LAYER#CALL=DEVICE", len bytes. */
static pg_status read_one(pg_trainer *t, device_list *c, const char *text, size_t len, pg_err *err)
{
    const char *equals = memchr(text, '=', len);
    const size_t n_name = equals ? (size_t)(equals - text) : 0;
    const char *hash = equals ? pg__last_byte(text, '#', n_name) : NULL;
    pg__assignment *p = &t->devs.assigned.v[t->devs.assigned.n];
    pg_status st = PG_OK;
    if (!equals || n_name == 0)
        PG_FAIL(PG_E_ARG, "place: \"%.*s\": write LAYER=DEVICE or LAYER#CALL=DEVICE", (int)len,
                text);
    p->call = PG_EVERY_CALL;
    if (hash) {
        char *end = NULL;
        const unsigned long call = strtoul(hash + 1, &end, 10);
        if (hash[1] < '0' || hash[1] > '9' || end != equals || call >= PG_EVERY_CALL)
            PG_FAIL(PG_E_ARG, "place: \"%.*s\": the call is a number from 0 on", (int)len, text);
        p->call = (uint32_t)call;
    }
    PG_TRY(number_of(c, t, equals + 1, len - n_name - 1, &p->device, err));
    p->layer = pg__mem_strndup(text, hash ? (size_t)(hash - text) : n_name);
    if (!p->layer)
        PG_TRY(pg__nomem(err));
    t->devs.assigned.n++;
done:
    return st;
}

/* Opens devices with memory of their own; device 0 is open already. */
static pg_status open_devices(pg_trainer *t, const device_list *c, const pg_train_opts *o,
                              pg_err *err)
{
    pg_status st = PG_OK;
    t->devs.is_split = !t->devs.backend->host_memory && c->n > 1;
    for (uint32_t d = 1; t->devs.is_split && d < c->n; d++) {
        st = pg__devices_add(&t->devs, c->ordinals[d], o, err);
        if (st != PG_OK) {
            pg_err_prefix(err, "place");
            break;
        }
    }
    return st;
}

pg_status pg__placement_parse(pg_trainer *t, const pg_train_opts *o, pg_err *err)
{
    const char *first = t->devs.device_names;
    device_list *c = NULL;
    uint32_t zero;
    size_t n = 1;
    pg_status st = PG_OK;
    if (!o->place || !*o->place)
        return PG_OK;
    if (t->pool.cut.n_replicas > 1) {
        (void)pg_fail(err, PG_E_UNSUPPORTED,
                      "place: a model is placed on the devices of one replica: name one device");
        pg_err_set(err, "devices", "%.*s", (int)strcspn(first, ","), first);
        return PG_E_UNSUPPORTED;
    }
    c = pg__mem_array(1, sizeof *c);
    for (const char *s = o->place; *s != '\0'; s++)
        n += *s == ',';
    t->devs.assigned.v = pg__mem_array(n, sizeof *t->devs.assigned.v);
    if (!c || !t->devs.assigned.v)
        PG_TRY(pg__nomem(err));
    PG_TRY(number_of(c, t, first, strcspn(first, ","), &zero, err));
    for (const char *s = o->place; *s != '\0';) {
        const size_t len = strcspn(s, ",");
        PG_TRY(read_one(t, c, s, len, err));
        s += len + (s[len] == ',');
    }
    t->devs.assigned.n_devices = c->n;
    for (uint32_t d = 0; d < c->n; d++)
        PG_TRY(pg__strs_add(&t->devs.placed_on, c->names[d], strlen(c->names[d]), err));
    PG_TRY(open_devices(t, c, o, err));
done:
    pg__mem_free(c);
    return st;
}

static pg_status note_device(pg_trainer *t, uint32_t device, pg_err *err)
{
    pg__str line = {0};
    pg_status st = PG_OK;
    for (size_t i = 0; i < t->devs.assigned.n; i++) {
        const pg__assignment *p = &t->devs.assigned.v[i];
        if (p->device != device)
            continue;
        PG_TRY(pg__str_printf(&line, err, "%s%s", line.s ? ", " : "", PG_SHOW(p->layer)));
        if (p->call != PG_EVERY_CALL)
            PG_TRY(pg__str_printf(&line, err, "#%u", p->call));
    }
    PG_TRY(pg__strs_printf(&t->report.notes, err, "%s: %s%s%s", t->devs.placed_on.v[device],
                           line.s ? line.s : "", line.s && device == 0 ? ", " : "",
                           device == 0 ? "all that is not placed" : ""));
done:
    pg__str_fini(&line);
    return st;
}

/* The layer is not of this model, or not called so often. */
static pg_status refuse_layer(const pg_trainer *t, const pg__assignment *p, pg_err *err)
{
    const pg__model *m = t->net.graph->root;
    const char *near = NULL, **names = pg__mem_array(m->n_layers, sizeof *names);
    if (!names)
        return pg__nomem(err);
    for (size_t i = 0; i < m->n_layers; i++)
        names[i] = m->layers[i].name;
    if (p->call == PG_EVERY_CALL)
        near = pg__nearest(p->layer, names, m->n_layers);
    (void)pg_fail(err, PG_E_ARG, "place: the model calls no layer \"%s\"%s%s%s%s",
                  PG_SHOW(p->layer), p->call == PG_EVERY_CALL ? "" : " so often",
                  near ? "; did you mean " : "", near ? PG_SHOW(near) : "", near ? "?" : "");
    pg__mem_free(names);
    return PG_E_ARG;
}

pg_status pg__placement_check(pg_trainer *t, const pg_train_opts *o, pg_err *err)
{
    pg_status st = PG_OK;
    for (size_t i = 0; i < t->devs.assigned.n; i++)
        if (!t->devs.assigned.v[i].used)
            return refuse_layer(t, &t->devs.assigned.v[i], err);
    if (t->devs.assigned.n_devices > 1 && t->net.couples_rows && o->deterministic &&
        o->lanes != 1) {
        (void)pg_fail(err, PG_E_UNSUPPORTED,
                      "place: deterministic training of BatchNormalization is not supported on "
                      "placed devices, where its lanes would meet: train with one lane");
        pg_err_set(err, "lanes", "1");
        return PG_E_UNSUPPORTED;
    }
    for (uint32_t d = 0; d < t->devs.assigned.n_devices; d++)
        PG_TRY(note_device(t, d, err));
done:
    return st;
}

void pg__placement_free(pg_trainer *t)
{
    for (size_t i = 0; i < t->devs.assigned.n; i++)
        pg__mem_free(t->devs.assigned.v[i].layer);
    pg__mem_free(t->devs.assigned.v);
    pg__strs_fini(&t->devs.placed_on);
}

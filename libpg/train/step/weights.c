/* weights.c - a trainer's variables: their memory, and reading them from a checkpoint. */
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "model/fit/match.h"
#include "pg/convert.h"
#include "store/values.h"
#include "train/rules/rules.h"
#include "train/step/devices.h"
#include "train/step/model_parallel.h"
#include "train/step/optimizer_shard.h"

#define PIECE 4096 /* elements converted at a time */

pg_status pg__flat_alloc(pg_trainer *t, pg__flat *f, pg_err *err)
{
    return pg__flat_alloc_on(t, f, 0, err);
}

pg_status pg__flat_alloc_on(pg_trainer *t, pg__flat *f, size_t device, pg_err *err)
{
    const size_t bytes = t->devs.backend->real_bytes;
    pg_status st = PG_OK;
    f->at = pg__mem_array(t->vars.n_params, sizeof *f->at);
    if (!f->at)
        return pg__nomem(err);
    f->device = device;
    if (t->devs.is_split) {
        PG_TRY(pg__mp_alloc(t, f, err));
        goto done;
    }
    PG_TRY(t->devs.backend->alloc(t->devs.devices[device].dev, &f->mem,
                                  (size_t)t->vars.offsets[t->vars.n_params] * bytes, err));
    for (size_t i = 0; i < t->vars.n_params; i++)
        f->at[i] = (char *)f->mem + t->vars.offsets[i] * bytes;
done:
    if (st != PG_OK) /* the call may be tried again */
        pg__flat_free(&t->devs, f);
    return st;
}

pg_status pg__flat_fill(pg_trainer *t, pg__flat *f, double v)
{
    const size_t bytes = t->devs.backend->real_bytes;
    const float rounded = (float)v;
    double piece[PIECE]; /* of elements of either type */
    pg_status st = PG_OK;
    for (size_t k = 0; k < PIECE; k++)
        if (bytes == sizeof v)
            piece[k] = v;
        else
            ((float *)(void *)piece)[k] = rounded;
    for (size_t i = 0; i < t->vars.n_params; i++)
        for (size_t k = 0, n; k < t->vars.n_elems[i]; k += n) {
            n = t->vars.n_elems[i] - k < PIECE ? t->vars.n_elems[i] - k : PIECE;
            PG_TRY(t->devs.backend->put(t->devs.is_split ? pg__param_dev(t, i)
                                                         : t->devs.devices[f->device].dev,
                                        (char *)f->at[i] + k * bytes, piece, n * bytes));
        }
done:
    return st;
}

void pg__flat_free(pg__trainer_devs *devs, pg__flat *f)
{
    if (f->parts)
        pg__mp_release(devs, f);
    else if (f->mem)
        devs->backend->free(devs->devices[f->device].dev, f->mem);
    pg__mem_free(f->at);
    *f = (pg__flat){0};
}

/* Writes values into f's piece for parameter i, from element `at` on, in the device's type. */
static pg_status put_values(pg_trainer *t, pg__flat *f, size_t i, size_t at, const double *exact,
                            size_t n)
{
    const size_t bytes = t->devs.backend->real_bytes;
    float rounded[PIECE];
    for (size_t k = 0; k < n; k++)
        rounded[k] = (float)exact[k];
    const void *values = bytes == sizeof *exact ? (const void *)exact : (const void *)rounded;
    if (pg__opt_shard_is(t, f)) {
        pg__opt_shard_put(t, f, (t->vars.offsets[i] + at) * bytes, values, n * bytes);
        return PG_OK;
    }
    return t->devs.backend->put(pg__param_dev(t, i), (char *)f->at[i] + at * bytes, values,
                                n * bytes);
}

pg_status pg__param_put(pg_trainer *t, size_t i, const double *values)
{
    pg_status st = PG_OK;
    t->vars.version++;
    for (size_t at = 0, n; at < t->vars.n_elems[i]; at += n) {
        n = t->vars.n_elems[i] - at < PIECE ? t->vars.n_elems[i] - at : PIECE;
        PG_TRY(put_values(t, &t->vars.params, i, at, values + at, n));
    }
done:
    return st;
}

pg_status pg__trainer_initialise(pg_trainer *t, uint64_t seed, pg_err *err)
{
    double *values = NULL;
    pg_status st = PG_OK;
    for (size_t i = 0; i < t->vars.n_params; i++) {
        values = pg__mem_array(t->vars.n_elems[i], sizeof *values);
        if (!values)
            PG_TRY(pg__nomem(err));
        PG_TRY(pg__initial_values(values, &t->net.built_params.params[i], i, seed, err));
        PG_TRY(pg__with_message(t, pg__param_put(t, i, values), err));
        pg__mem_free(values);
        values = NULL;
    }
done:
    pg__mem_free(values);
    return st;
}

pg_status pg__param_read(pg_trainer *t, pg__flat *f, size_t param, pg_store *file, size_t i,
                         int state, pg_err *err)
{
    const pg_weight *w = state ? pg_store_state(file, i) : pg_store_weight(file, i);
    const size_t from_bytes = pg_dtype_bytes(w->dtype);
    unsigned char raw[PIECE * 8];
    double exact[PIECE];
    pg_status st = PG_OK;
    t->vars.version++;
    for (size_t at = 0, n; at < t->vars.n_elems[param]; at += n) {
        const uint64_t from = (uint64_t)at * from_bytes;
        n = t->vars.n_elems[param] - at < PIECE ? t->vars.n_elems[param] - at : PIECE;
        PG_TRY(state ? pg_store_read_state(file, i, from, raw, n * from_bytes, err)
                     : pg_store_read(file, i, from, raw, n * from_bytes, err));
        pg__values(exact, raw, n, w->dtype);
        PG_TRY(pg__with_message(t, put_values(t, f, param, at, exact, n), err));
    }
done:
    return st;
}

static pg_status same_shape(const pg__trainer_vars *vars, size_t param, const pg_weight *w,
                            pg_err *err)
{
    for (size_t i = 0; i < vars->n_params; i++) {
        const pg_weight *mine = &vars->weights[i];
        if (vars->order[i] != param)
            continue;
        const pg__dims a = pg__dims_of(mine->rank, mine->dims), b = pg__dims_of(w->rank, w->dims);
        if (!pg__dims_equal(&a, &b))
            return pg_fail(err, PG_E_MISMATCH, "%s is %s, the model expects %s", PG_SHOW(w->name),
                           PG_SHAPE(&b), PG_SHAPE(&a));
    }
    return PG_OK;
}

pg_status pg__weights_open(pg_store **out, pg__strs *notes, const char *path, const char *part,
                           const char *model_text, pg_err *err)
{
    const pg_convert_opts opts = {
        .write = {.part = part}, .unwrap = 1, .keep_keras1 = 1, .model_text = model_text};
    pg_convert_report rep = {0};
    pg_store *s = NULL;
    pg_status st = PG_OK;
    PG_TRY(pg_convert_open(&s, path, &opts, &rep, err));
    for (size_t i = 0; i < rep.n_notes && notes; i++)
        PG_TRY(pg__strs_printf(notes, err, "%s: %s", PG_SHOW(path), rep.notes[i]));
    *out = s;
    s = NULL;
done:
    pg_store_close(s);
    pg_convert_report_fini(&rep);
    return st;
}

typedef struct checked_visit {
    const pg_trainer *t;
    pg__weight_visit visit;
    void *ctx;
} checked_visit;

static pg_status visit_checked(void *ctx, size_t param, pg_store *file, size_t i, pg_err *err)
{
    const checked_visit *v = ctx;
    const pg_status st = same_shape(&v->t->vars, param, pg_store_weight(file, i), err);
    return st == PG_OK ? v->visit(v->ctx, param, file, i, err) : st;
}

pg_status pg__weights_walk(const pg_trainer *t, pg_store *file, const char *path,
                           pg__weight_visit visit, void *ctx, pg_err *err)
{
    checked_visit v = {t, visit, ctx};
    const pg_status st =
        pg__fit_walk(t->net.graph->root, &t->net.leaves, file, visit_checked, &v, err);
    if (st != PG_OK)
        pg_err_prefix(err, PG_SHOW(path));
    return st;
}

static pg_status take_weight(void *ctx, size_t param, pg_store *file, size_t i, pg_err *err)
{
    pg_trainer *t = ctx;
    pg_status st = PG_OK;
    PG_TRY(pg__param_read(t, &t->vars.params, param, file, i, 0, err));
    pg__mem_free(t->vars.file_names[param]);
    t->vars.file_names[param] = pg__mem_strdup(pg_store_weight(file, i)->name);
    if (!t->vars.file_names[param])
        PG_TRY(pg__nomem(err));
done:
    return st;
}

pg_status pg__trainer_load(pg_trainer *t, pg_store *file, const char *path, pg_err *err)
{
    return pg__weights_walk(t, file, path, take_weight, t, err);
}

/* ---- reading ---- */

size_t pg_trainer_n_weights(const pg_trainer *t)
{
    return t->vars.n_params;
}

const pg_weight *pg_trainer_weight(const pg_trainer *t, size_t i)
{
    return i < t->vars.n_params ? &t->vars.weights[i] : NULL;
}

static pg_status get_values(pg_trainer *t, const pg__flat *f, size_t i, double *out)
{
    const size_t bytes = t->devs.backend->real_bytes, n_elems = t->vars.n_elems[i];
    const char *from = f->at[i];
    float piece[PIECE];
    pg_status st = PG_OK;
    if (bytes == sizeof *out)
        return t->devs.backend->get(pg__param_dev(t, i), out, from, n_elems * bytes);
    for (size_t at = 0, n; at < n_elems; at += n) {
        n = n_elems - at < PIECE ? n_elems - at : PIECE;
        PG_TRY(t->devs.backend->get(pg__param_dev(t, i), piece, from + at * bytes, n * bytes));
        for (size_t k = 0; k < n; k++)
            out[at + k] = piece[k];
    }
done:
    return st;
}

pg_status pg__param_get(pg_trainer *t, size_t i, double *out)
{
    return get_values(t, &t->vars.params, i, out);
}

static pg_status read_flat(pg_trainer *t, const pg__flat *f, size_t i, double *out, size_t n_elems,
                           pg_err *err)
{
    if (i >= t->vars.n_params || n_elems != t->vars.n_elems[t->vars.order[i]])
        return pg_fail(err, PG_E_ARG, "no variable %zu of %zu elements", i, n_elems);
    return pg__with_message(t, get_values(t, f, t->vars.order[i], out), err);
}

pg_status pg_trainer_read(pg_trainer *t, size_t i, double *out, size_t n_elems, pg_err *err)
{
    return read_flat(t, &t->vars.params, i, out, n_elems, err);
}

pg_status pg_trainer_read_grad(pg_trainer *t, size_t i, double *out, size_t n_elems, pg_err *err)
{
    if (!t->vars.grads || (i < t->vars.n_params && !t->vars.trained[t->vars.order[i]]))
        return pg_fail(err, PG_E_ARG, "variable %zu has no gradient", i);
    return read_flat(t, t->vars.grads, i, out, n_elems, err);
}

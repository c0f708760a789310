/* save.c - a trainer's weights as a checkpoint: always of the model itself, as one device loads it.
 *
 * The trainer is shown as a store whose tensors are read from the device, and written by the same
 * code as the file tools' outputs: whole or not at all, and read back before it counts. */
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "format/format.h"
#include "train/trainer.h"

typedef struct shown {
    pg_trainer *t;
    size_t *param; /* per tensor of the store */
    size_t n;
} shown;

static pg_status read_tensor(void *ctx, size_t tensor, uint64_t off, void *buf, size_t n,
                             pg_err *err)
{
    const shown *s = ctx;
    pg_trainer *t = s->t;
    const char *from = t->params.at[s->param[tensor]];
    double exact[512];
    pg_status st = PG_OK;
    (void)err;
    if (t->backend->real_bytes == sizeof(float))
        return t->backend->get(t->dev, buf, from + off, n);
    for (size_t at = 0, some; at < n / sizeof(float); at += some) {
        some = n / sizeof(float) - at < 512 ? n / sizeof(float) - at : 512;
        PG_TRY(t->backend->get(t->dev, exact, from + (off / sizeof(float) + at) * sizeof *exact,
                               some * sizeof *exact));
        for (size_t k = 0; k < some; k++)
            ((float *)buf)[at + k] = (float)exact[k];
    }
done:
    return st;
}

static void close_shown(void *ctx)
{
    shown *s = ctx;
    pg__mem_free(s->param);
    pg__mem_free(s);
}

/* Variables of one layer of the model, those that are trained first, as Keras lists them. */
static pg_status show_layer(pg_store *store, shown *s, size_t top, pg_err *err)
{
    pg_trainer *t = s->t;
    pg__str name = {0};
    pg_status st = PG_OK;
    for (size_t i = 0; i < t->n_params; i++) {
        const size_t param = t->order[i];
        const pg__param *p = &t->built_params.params[param];
        if (p->leaf->top != top)
            continue;
        name.n = 0;
        if (t->file_names[param])
            PG_TRY(pg__str_puts(&name, t->file_names[param], err));
        else
            PG_TRY(pg__str_printf(&name, err, "%s:0", t->weights[i].name));
        const pg__tensor_desc d = {
            .name = name.s, .dtype = PG_F32, .rank = p->shape.rank, .dims = p->shape.d};
        PG_TRY(pg__store_add_weight(store, &d, err));
        s->param[s->n++] = param;
    }
done:
    pg__str_fini(&name);
    return st;
}

static pg_status show(pg_store **out, pg_trainer *t, pg_err *err)
{
    static const pg__store_io io = {.read = read_tensor, .close = close_shown};
    const pg__model *m = t->graph->root;
    pg_store *store = NULL;
    pg_status st = PG_OK;
    shown *s = pg__mem_array(1, sizeof *s);
    if (!s || !(s->param = pg__mem_array(t->n_params, sizeof *s->param)))
        PG_TRY(pg__nomem(err));
    s->t = t;
    PG_TRY(pg__store_new(&store, "trained", NULL, NULL, err));
    for (size_t top = 0; top < m->n_layers; top++) {
        if (!pg__layer_is_listed(m, top))
            continue;
        PG_TRY(pg__store_add_layer(store, m->layers[top].name, err));
        PG_TRY(show_layer(store, s, top, err));
    }
    pg__store_own(store, &io, s);
    *out = store;
    return PG_OK;
done:
    pg_store_close(store);
    if (s)
        close_shown(s);
    return st;
}

static int ends_with(const char *path, const char *suffix)
{
    const size_t n = strlen(path), k = strlen(suffix);
    return n > k && strcmp(path + n - k, suffix) == 0;
}

pg_status pg_trainer_check_output(const char *path, const pg_save_opts *opts, pg_err *err)
{
    const pg__sink_opts sink = {.force = opts && opts->force};
    if (ends_with(path, ".weights.h5") || !(ends_with(path, ".h5") || ends_with(path, ".hdf5")))
        return pg_fail(err, PG_E_UNSUPPORTED, "%s: trained weights are written as .h5", path);
    return pg__sink_check(path, &sink, err);
}

pg_status pg_trainer_save(pg_trainer *t, const char *path, const pg_save_opts *opts, pg_err *err)
{
    const pg__save_opts save = {.sink = {.force = opts && opts->force}};
    pg_store *store = NULL;
    pg__plan plan = {0};
    pg_status st = PG_OK;
    PG_TRY(pg_trainer_check_output(path, opts, err));
    PG_TRY(show(&store, t, err));
    PG_TRY(pg__plan_copy_of(&plan, store, err));
    PG_TRY(pg__format_save(&pg__fmt_keras_h5, path, &plan, &save, NULL, err));
done:
    pg__plan_fini(&plan);
    pg_store_close(store);
    return st;
}

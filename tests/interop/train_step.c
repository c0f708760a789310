/* train_step.c - what libpg computes for the cases of train_layers.py: each folder holds
 * model.json, weights (weights.h5 or w.weights.h5) and data.npz; predictions, the loss of one step,
 * gradients and the weights after it go to got.json. Plain C in double (ref:0), so that only
 * formulas can differ. usage: train_step OPTIMIZER LOSS FOLDER... */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "train/step/trainer.h"

typedef struct report {
    FILE *f;
    pg_trainer *t;
} report;

static void put_array(FILE *f, const double *v, uint64_t n)
{
    fputc('[', f);
    for (uint64_t i = 0; i < n; i++)
        fprintf(f, "%s%.17g", i ? "," : "", v[i]);
    fputc(']', f);
}

/* All rows of an array, as the model's input takes them. */
static pg_status read_input(void **out, const pg_data *data, size_t k, const pg__value *v,
                            pg_err *err)
{
    char key[32];
    pg_status st = PG_OK;
    uint64_t *rows = NULL;
    snprintf(key, sizeof key, "x%zu", k);
    const pg__array *a = pg__data_find(data, key);
    if (!a)
        return pg_fail(err, PG_E_MISMATCH, "data.npz has no %s", key);
    const pg__dims dims = a->dims;
    rows = pg__mem_array(dims.d[0], sizeof *rows);
    *out = pg__mem_array(pg__dims_elems(&dims), sizeof(double));
    if (!rows || !*out)
        PG_TRY(pg__nomem(err));
    for (uint64_t i = 0; i < dims.d[0]; i++)
        rows[i] = i;
    PG_TRY(pg__array_read(a, rows, dims.d[0], v->elem == PG_ELEM_INT ? PG_AS_I32 : PG_AS_F64, *out,
                          NULL, err));
done:
    pg__mem_free(rows);
    return st;
}

/* What stateful layers begin with. */
static pg_status zero_states(void ***out, const pg__lowered *m, pg_err *err)
{
    pg_status st = PG_OK;
    *out = pg__mem_array(m->n_states, sizeof **out);
    if (!*out)
        return pg__nomem(err);
    for (size_t k = 0; k < m->n_states; k++) {
        const pg__dims *d = &m->tape.values[m->states[k].before].shape;
        (*out)[k] = pg__mem_array((size_t)pg__dims_elems(d), sizeof(double));
        if (!(*out)[k])
            PG_TRY(pg__nomem(err));
    }
done:
    return st;
}

/* What the model says without training: "predictions": [[...], ...]. */
static pg_status predict(report *r, const pg_data *data, uint64_t n_rows, pg_err *err)
{
    pg_trainer *t = r->t;
    const pg__program *p = NULL;
    void **inputs = pg__mem_array(t->net.n_inputs, sizeof *inputs), **states = NULL;
    pg__frame f = {.params = t->vars.params.at, .inputs = (const void *const *)inputs};
    size_t at = 0;
    int meets = 0;
    pg_status st = PG_OK;
    if (!inputs)
        PG_TRY(pg__nomem(err));
    PG_TRY(pg__trainer_program(t, n_rows, PG_TESTS, &p, err));
    const pg__lowered *m = pg__program_model(p);
    PG_TRY(zero_states(&states, m, err));
    f.states = states;
    for (size_t k = 0; k < t->net.n_inputs; k++)
        PG_TRY(read_input(&inputs[k], data, k, &m->tape.values[m->inputs[k]], err));
    PG_TRY(t->devs.backend->alloc(t->devs.dev, &f.arena, (size_t)pg__program_arena_bytes(p), err));
    PG_TRY(t->devs.backend->alloc(t->devs.dev, &f.scratch, pg__program_scratch_bytes(p), err));
    f.args = pg__mem_array(pg__program_n_args(p), sizeof *f.args);
    if (!f.args)
        PG_TRY(pg__nomem(err));
    double *seeds = pg__mem_array(t->net.n_outputs + 1, sizeof *seeds);
    const void **no_weights = pg__mem_array(t->net.n_outputs, sizeof *no_weights);
    const void **seed_at = pg__mem_array(t->net.n_outputs + 1, sizeof *seed_at);
    void **targets = pg__mem_array(t->net.n_outputs, sizeof *targets);
    for (size_t k = 0; k < t->net.n_outputs; k++) {
        seed_at[k] = &seeds[k];
        targets[k] = pg__mem_array(pg__dims_elems(&pg__program_target(p, k)->shape), sizeof *seeds);
    }
    seed_at[t->net.n_outputs] = &seeds[t->net.n_outputs];
    f.seeds = seed_at;
    f.weights = no_weights;
    f.targets = (const void *const *)targets;
    PG_TRY(pg__program_run(p, &f, &at, &meets));
    fprintf(r->f, "\"predictions\": [");
    for (size_t k = 0; k < t->net.n_outputs; k++) {
        fputs(k ? "," : "", r->f);
        put_array(r->f, pg__program_prediction(p, &f, k),
                  pg__dims_elems(&m->tape.values[m->outputs[k]].shape));
        pg__mem_free(targets[k]);
    }
    fputs("],\n", r->f);
    pg__mem_free(targets);
    pg__mem_free(seed_at);
    pg__mem_free(no_weights);
    pg__mem_free(seeds);
done:
    for (size_t k = 0; inputs && k < t->net.n_inputs; k++)
        pg__mem_free(inputs[k]);
    for (size_t k = 0; states && k < pg__program_model(p)->n_states; k++)
        pg__mem_free(states[k]);
    pg__mem_free(states);
    pg__mem_free(inputs);
    t->devs.backend->free(t->devs.dev, f.arena);
    t->devs.backend->free(t->devs.dev, f.scratch);
    pg__mem_free(f.args);
    return st;
}

/* Gradients where there are any, else null; after the step, so weights are the new ones. */
static pg_status batch_end(void *user, size_t batch, const pg_logs *own, const pg_logs *running,
                           pg_err *err)
{
    report *r = user;
    pg_status st = PG_OK;
    (void)batch, (void)running;
    fprintf(r->f, "\"loss\": %.17g", own->values[0]);
    for (int what = 0; what < 2; what++) {
        fputs(what ? ",\n\"weights\": [" : ",\n\"gradients\": [", r->f);
        for (size_t i = 0; i < pg_trainer_n_weights(r->t); i++) {
            const pg_weight *w = pg_trainer_weight(r->t, i);
            const size_t n = (size_t)(w->n_bytes / sizeof(double));
            double *v = pg__mem_array(n, sizeof *v);
            if (!v)
                return pg__nomem(err);
            st = what ? pg_trainer_read(r->t, i, v, n, err)
                      : pg_trainer_read_grad(r->t, i, v, n, NULL);
            fputs(i ? "," : "", r->f);
            if (st == PG_OK)
                put_array(r->f, v, n);
            else
                fputs("null", r->f);
            pg__mem_free(v);
        }
        fputc(']', r->f);
    }
    return PG_OK;
}

static pg_status run_case(report *r, const char *optimizer, const char *loss, const char *folder,
                          pg_err *err)
{
    char model[4096], weights[4096], path[4096];
    pg_data *data = NULL;
    pg_status st = PG_OK;
    snprintf(model, sizeof model, "%s/model.json", folder);
    snprintf(weights, sizeof weights, "%s/weights.h5", folder);
    snprintf(path, sizeof path, "%s/data.npz", folder);
    const pg_train_opts opts = {.model = model,
                                .weights = weights,
                                .optimizer = optimizer,
                                .loss = loss,
                                .devices = "ref:0",
                                .threads = 1};
    const pg_callback cb = {.user = r, .batch_end = batch_end};
    PG_TRY(pg_trainer_open(&r->t, &opts, err));
    PG_TRY(pg_data_open(&data, path, err));
    const pg__dims dims = pg__data_find(data, "x0")->dims;
    for (size_t k = 0; k < r->t->net.n_inputs; k++) { /* sizes that the model leaves open */
        char key[32];
        snprintf(key, sizeof key, "x%zu", k);
        const pg__dims all = pg__data_find(data, key)->dims;
        for (uint32_t i = 1; i < all.rank && i < r->t->net.input_dims[k].rank; i++)
            r->t->net.input_dims[k].d[i] = all.d[i];
    }
    PG_TRY(predict(r, data, dims.d[0], err));
    PG_TRY(pg_fit(r->t, data,
                  &(pg_fit_opts){.batch_size = (size_t)dims.d[0], .epochs = 1, .no_shuffle = 1},
                  &cb, err));
done:
    pg_data_close(data);
    pg_trainer_close(r->t);
    return st;
}

int main(int argc, char **argv)
{
    for (int i = 3; i < argc; i++) {
        report r = {.f = NULL};
        pg_err err = {0};
        char path[4096];
        snprintf(path, sizeof path, "%s/got.json", argv[i]);
        r.f = fopen(path, "w");
        if (!r.f)
            return 2;
        fputs("{", r.f);
        const pg_status st = run_case(&r, argv[1], argv[2], argv[i], &err);
        fputs("}\n", r.f);
        fclose(r.f);
        if (st != PG_OK) {
            r.f = fopen(path, "w");
            fprintf(r.f, "error: %s %s\n", err.msg, err.detail);
            fclose(r.f);
        }
    }
    return 0;
}

/* gpu_profile MODEL LOSS ROWS DEVICE: how long a training step takes there, call by call, on inputs
 * and targets of zeros; with the buckets of buckets.c, as JSON for scaling.py. A call is repeated
 * without a pause, so that its launch is hidden as it is in a recorded step. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/mem.h"
#include "base/try.h"
#include "train/step/buckets.h"
#include "train/step/devices.h"

#define TIMES 10

static double now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* What a step works in. */
typedef struct room {
    pg__frame frame;
    const void **rows; /* inputs, targets, and seeds within `step` */
    void *step, *scratch;
    pg__flat grads;
} room;

/* Memory for a value, zeroed. */
static pg_status room_for(const pg_trainer *t, const pg__value *v, const void **out, pg_err *err)
{
    void *p = NULL;
    const pg_status st =
        v ? t->devs.backend->alloc(t->devs.dev, &p, (size_t)pg__dims_elems(&v->shape) * 8, err)
          : PG_OK;
    *out = p;
    return st;
}

static pg_status open_room(pg_trainer *t, const pg__program *p, room *r, pg_err *err)
{
    const pg__lowered *m = pg__program_model(p);
    const size_t n_ends = t->net.n_inputs + t->net.n_outputs;
    pg__frame *f = &r->frame;
    pg_status st = PG_OK;
    r->rows = pg__mem_array(n_ends + t->net.n_outputs + 1, sizeof *r->rows);
    f->args = pg__mem_array(pg__program_n_args(p), sizeof(void *));
    if (!r->rows || !f->args)
        PG_TRY(pg__nomem(err));
    for (size_t k = 0; k < t->net.n_inputs; k++)
        PG_TRY(room_for(t, &m->tape.values[m->inputs[k]], &r->rows[k], err));
    for (size_t k = 0; k < t->net.n_outputs; k++)
        PG_TRY(room_for(t, pg__program_target(p, k), &r->rows[t->net.n_inputs + k], err));
    PG_TRY(t->devs.backend->alloc(t->devs.dev, &r->step, 4096, err));
    for (size_t k = 0; k <= t->net.n_outputs; k++)
        r->rows[n_ends + k] = (char *)r->step + 1024;
    PG_TRY(t->devs.backend->alloc(t->devs.dev, &f->arena, (size_t)pg__program_arena_bytes(p), err));
    PG_TRY(t->devs.backend->alloc(t->devs.dev, &r->scratch, pg__program_scratch_bytes(p) + 1, err));
    PG_TRY(pg__flat_alloc(t, &r->grads, err));
    f->inputs = r->rows;
    f->targets = r->rows + t->net.n_inputs;
    f->seeds = r->rows + n_ends;
    f->params = t->vars.params.at;
    f->dev = t->devs.dev;
    f->step = r->step;
    f->scratch = r->scratch;
    f->grads = r->grads.at;
    st = pg__program_share(p, f, 0, 1);
done:
    return st;
}

static void close_room(pg_trainer *t, room *r)
{
    for (size_t k = 0; r->rows && k < t->net.n_inputs + t->net.n_outputs; k++)
        t->devs.backend->free(t->devs.dev, (void *)(uintptr_t)r->rows[k]);
    t->devs.backend->free(t->devs.dev, r->step);
    t->devs.backend->free(t->devs.dev, r->frame.arena);
    t->devs.backend->free(t->devs.dev, r->scratch);
    pg__flat_free(&t->devs, &r->grads);
    pg__mem_free(r->frame.args);
    pg__mem_free(r->rows);
}

/* Seconds of calls [from, to), the mean of TIMES runs. */
static pg_status time_calls(pg_trainer *t, const pg__program *p, const pg__frame *f, size_t from,
                            size_t to, double *seconds)
{
    pg_status st = t->devs.backend->sync(t->devs.dev);
    const double began = now();
    for (size_t i = 0; i < TIMES && st == PG_OK; i++)
        st = pg__program_run_calls(p, f, from, to);
    if (st == PG_OK)
        st = t->devs.backend->sync(t->devs.dev);
    *seconds = (now() - began) / TIMES;
    return st;
}

static pg_status time_update(pg_trainer *t, void *const *grads, double *seconds)
{
    const pg__update u = pg__optimizer_step(&t->compiled.optimizer);
    pg_status st = t->devs.backend->sync(t->devs.dev);
    const double began = now();
    for (size_t i = 0; i < t->vars.n_params && st == PG_OK; i++) {
        void *slots[PG_MAX_SLOTS];
        for (size_t s = 0; s < PG_MAX_SLOTS; s++)
            slots[s] = t->vars.slots[s].at ? t->vars.slots[s].at[i] : NULL;
        if (t->vars.trained[i])
            st = t->devs.backend->flat.update(
                t->devs.dev, pg__optimizer_kind_of(&t->compiled.optimizer), &u,
                t->vars.params.at[i], grads[i], slots, t->vars.n_elems[i]);
    }
    if (st == PG_OK)
        st = t->devs.backend->sync(t->devs.dev);
    *seconds = now() - began;
    return st;
}

static void print_buckets(pg_trainer *t, const pg__program *p)
{
    pg__buckets_cut(t);
    printf("],\n \"buckets\": [");
    for (size_t k = 0; k < t->sums.n_buckets; k++) {
        const pg__bucket *b = &t->sums.buckets[k];
        size_t settled = 0;
        for (size_t i = b->first; i < b->end; i++)
            if (pg__program_settled(p, i) > settled)
                settled = pg__program_settled(p, i);
        printf("%s{\"bytes\": %llu, \"settled\": %zu}", k ? ", " : "",
               (unsigned long long)(t->vars.offsets[b->end] - t->vars.offsets[b->first]) *
                   t->devs.backend->real_bytes,
               settled);
    }
    printf("]}\n");
}

static pg_status profile(pg_trainer *t, uint64_t rows, pg_err *err)
{
    const pg__program *p = NULL;
    room r = {0};
    const pg__frame *f = &r.frame;
    double whole, update, seconds;
    pg_status st = PG_OK;
    PG_TRY(pg__trainer_program(t, rows, PG_TRAINS, &p, err));
    PG_TRY(open_room(t, p, &r, err));
    const size_t n = pg__program_n_calls(p);
    PG_TRY(time_calls(t, p, f, 0, n, &whole)); /* libraries set themselves up */
    PG_TRY(time_calls(t, p, f, 0, n, &whole));
    PG_TRY(time_update(t, f->grads, &update));
    PG_TRY(time_update(t, f->grads, &update));
    printf("{\"device\": \"%s\", \"rows\": %llu, \"whole\": %.9f, \"update\": %.9f,\n \"calls\": [",
           t->devs.backend->kind(t->devs.dev), (unsigned long long)rows, whole, update);
    for (size_t i = 0; i < n; i++) {
        PG_TRY(time_calls(t, p, f, i, i + 1, &seconds));
        printf("%s%.9f", i ? ", " : "", seconds);
    }
    print_buckets(t, p);
done:
    st = pg__with_message(t, st, err);
    close_room(t, &r);
    return st;
}

int main(int argc, char **argv)
{
    pg_trainer *t = NULL;
    pg_err err = {0};
    if (argc != 5) {
        fprintf(stderr, "usage: gpu_profile MODEL LOSS ROWS DEVICE\n");
        return 2;
    }
    const pg_train_opts opts = {.model = argv[1],
                                .loss = argv[2],
                                .optimizer = "sgd:momentum=0.9",
                                .devices = argv[4],
                                .threads = 1};
    pg_status st = pg_trainer_open(&t, &opts, &err);
    if (st == PG_OK)
        st = profile(t, strtoull(argv[3], NULL, 10), &err);
    if (st != PG_OK)
        fprintf(stderr, "gpu_profile: %s\n", err.msg);
    pg_trainer_close(t);
    return st != PG_OK;
}

/* upload.c - from host memory to device memory. Addresses do not change from step to step, so that
 * recorded steps stay valid. */
#include "train/step/upload.h"

#include "train/exec/exec.h"
#include "train/step/states.h"

static uint64_t aligned(uint64_t n)
{
    return (n + PG_ALIGN - 1) / PG_ALIGN * PG_ALIGN;
}

static size_t bytes_of(const pg__trainer_devs *devs, const pg__value *v)
{
    const size_t each = pg__elem_bytes(v->elem, devs->backend->real_bytes);
    return (size_t)pg__dims_elems(&v->shape) * each;
}

/* Visits the pieces to upload: counts their bytes, or copies them. */
typedef struct stage {
    const pg_trainer *t;
    pg__dev *dev;
    char *to;    /* NULL: only counted */
    uint64_t at; /* offset from `to` */
    pg_status st;
} stage;

static const void *bring(stage *s, const void *from, size_t n)
{
    const uint64_t at = s->at;
    s->at += aligned(n);
    if (!s->to || !from || s->st != PG_OK)
        return from;
    s->st = s->t->devs.backend->put(s->dev, s->to + at, from, n);
    return s->to + at;
}

static void bring_rows(stage *s, const pg__program *p, pg__lane_frame *lf)
{
    const pg_trainer *t = s->t;
    const pg__lowered *m = pg__program_model(p);
    for (size_t k = 0; k < t->net.n_inputs; k++) {
        const void **to = lf ? &lf->rows[k] : NULL;
        const void *there =
            bring(s, to ? *to : NULL, bytes_of(&t->devs, &m->tape.values[m->inputs[k]]));
        if (to)
            *to = there;
    }
    for (size_t k = 0; k < t->net.n_outputs; k++) {
        const pg__value *target = pg__program_target(p, k), *loss = pg__program_loss_value(p, k);
        const void **to = lf ? &lf->rows[t->net.n_inputs + k] : NULL;
        const void **weight = lf ? to + t->net.n_outputs : NULL;
        if (!target || !loss)
            continue;
        const void *there = bring(s, to ? *to : NULL, bytes_of(&t->devs, target));
        const void *weights = bring(s, weight ? *weight : NULL, bytes_of(&t->devs, loss));
        if (to) {
            *to = there;
            *weight = weights;
        }
    }
}

static void bring_scalars(stage *s, pg__lane_frame *lf)
{
    const pg_trainer *t = s->t;
    for (size_t k = 0; k <= t->net.n_outputs; k++) {
        const void *there = bring(s, lf ? lf->seeds[k] : NULL, t->devs.backend->real_bytes);
        if (lf)
            lf->seeds[k] = there;
    }
    const void *there = bring(s, lf ? lf->f.step : NULL, PG_STEP_N * sizeof(int32_t));
    if (lf)
        lf->f.step = there;
}

/* States lie on device 0, for the whole batch. */
static void bring_states(stage *s, pg__lane_frame *lf, uint64_t n_rows, size_t device)
{
    const pg_trainer *t = s->t;
    for (size_t k = 0; k < t->net.built_params.n_states; k++) {
        const size_t n = (size_t)n_rows * pg__state_row_bytes(t, k);
        char *to = s->to ? s->to + s->at : NULL;
        s->at += aligned(n);
        if (!to || s->st != PG_OK)
            continue;
        s->st = device == 0 ? t->devs.backend->copy(s->dev, to, lf->states[k], n)
                            : t->devs.backend->copy_from(s->dev, to, t->devs.dev, lf->states[k], n);
        lf->staged[k] = to;
    }
}

uint64_t pg__upload_at(const pg__job *job)
{
    const int together = job->n_together > 1;
    const uint64_t a =
        together ? pg__program_lanes_bytes(job->program) : pg__program_arena_bytes(job->program);
    const uint64_t b = job->masks ? job->n_together * pg__program_arena_bytes(job->masks) : 0;
    return aligned(a > b ? a : b);
}

uint64_t pg__upload_bytes(const pg_trainer *t, const pg__program *p, uint64_t n_rows)
{
    stage s = {.t = t};
    if (t->devs.backend->host_memory)
        return 0;
    bring_rows(&s, p, NULL);
    bring_scalars(&s, NULL);
    bring_states(&s, NULL, n_rows, 0);
    return s.at;
}

pg_status pg__upload_in(const pg_trainer *t, pg__job *job)
{
    pg__lane_frame *lf = &job->frame;
    stage s = {.t = t, .dev = lf->f.dev, .to = (char *)job->arena->mem + pg__upload_at(job)};
    if (t->devs.backend->host_memory)
        return PG_OK;
    bring_rows(&s, job->program, lf);
    bring_scalars(&s, lf);
    bring_states(&s, lf, job->lane.n, job->arena->device);
    lf->f.states = lf->staged;
    return s.st;
}

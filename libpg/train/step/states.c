/* states.c - the states of stateful layers, kept from batch to batch: one row for each row of a
 * batch, in the batch's order. A lane owns its rows, so the number of lanes changes nothing. */
#include "train/step/states.h"

#include "base/mem.h"
#include "base/try.h"
#include "train/step/devices.h"

size_t pg__state_row_bytes(const pg_trainer *t, size_t k)
{
    const pg__lowered *m = &t->net.built_params;
    return (size_t)m->tape.values[m->states[k].before].shape.d[1] * t->devs.backend->real_bytes;
}

size_t pg__states_bytes(const pg_trainer *t, size_t k)
{
    return (size_t)t->loop.state_rows * pg__state_row_bytes(t, k);
}

pg_status pg__states_reserve(pg_trainer *t, uint64_t n_rows, pg_err *err)
{
    const size_t n = t->net.built_params.n_states;
    pg_status st = PG_OK;
    if (n == 0 || t->loop.state_rows == n_rows)
        return PG_OK;
    if (t->loop.state_rows > 0)
        return pg_fail(err, PG_E_MISMATCH,
                       "the model is stateful: batches of %llu and of %llu rows cannot follow each "
                       "other, the number of rows must be a multiple of the batch size",
                       (unsigned long long)t->loop.state_rows, (unsigned long long)n_rows);
    t->loop.states = pg__mem_array(n, sizeof *t->loop.states);
    if (!t->loop.states)
        return pg__nomem(err);
    for (size_t k = 0; k < n; k++)
        PG_TRY(t->devs.backend->alloc(t->devs.dev, &t->loop.states[k],
                                      (size_t)n_rows * pg__state_row_bytes(t, k), err));
    t->loop.state_rows = n_rows;
    PG_TRY(pg__states_reset(t, err));
done:
    return st;
}

void pg__states_free(pg_trainer *t)
{
    for (size_t k = 0; t->loop.states && k < t->net.built_params.n_states; k++)
        t->devs.backend->free(t->devs.dev, t->loop.states[k]);
    pg__mem_free(t->loop.states);
    t->loop.states = NULL;
    t->loop.state_rows = 0;
}

pg_status pg_trainer_reset_states(pg_trainer *t, pg_err *err)
{
    return pg__with_message(t, pg__states_reset(t, err), err);
}

pg_status pg__states_reset(pg_trainer *t, pg_err *err)
{
    pg_status st = PG_OK;
    for (size_t k = 0; t->loop.states && k < t->net.built_params.n_states && st == PG_OK; k++) {
        const size_t n = pg__states_bytes(t, k);
        void *zeros = pg__mem_array(n, 1);
        if (!zeros)
            return pg__nomem(err);
        st = t->devs.backend->put(t->devs.dev, t->loop.states[k], zeros, n);
        if (st == PG_OK)
            st = t->devs.backend->sync(t->devs.dev);
        pg__mem_free(zeros);
    }
    return st;
}

void pg__states_bind(const pg_trainer *t, uint64_t first, void **out)
{
    for (size_t k = 0; k < t->net.built_params.n_states; k++)
        out[k] = (char *)t->loop.states[k] + (size_t)first * pg__state_row_bytes(t, k);
}

/* A thread has only its own queue (rt.h), so states from another device go through the host, moved
 * by the trainer's own thread. */
pg_status pg__states_keep(const pg_trainer *t, const pg__program *p, const pg__frame *f,
                          size_t device, void *const *to, uint64_t n_rows, char **kept, pg_err *err)
{
    const size_t n_states = t->loop.is_trial ? 0 : t->net.built_params.n_states;
    size_t all = 0, at = 0;
    pg_status st = PG_OK;
    for (size_t k = 0; k < n_states; k++)
        all += (size_t)n_rows * pg__state_row_bytes(t, k);
    if (device > 0 && all > 0 && !(*kept = pg__mem_array(all, 1)))
        return pg__nomem(err);
    for (size_t k = 0; k < n_states && st == PG_OK; k++) {
        const size_t n = (size_t)n_rows * pg__state_row_bytes(t, k);
        const void *from = pg__program_state(p, f, k);
        st = device == 0 ? t->devs.backend->copy(f->dev, to[k], from, n)
                         : t->devs.backend->get(f->dev, *kept + at, from, n);
        at += n;
    }
    return st;
}

pg_status pg__states_land(const pg_trainer *t, void *const *to, uint64_t n_rows, const char *kept)
{
    pg_status st = PG_OK;
    for (size_t k = 0, at = 0; k < t->net.built_params.n_states && st == PG_OK; k++) {
        const size_t n = (size_t)n_rows * pg__state_row_bytes(t, k);
        st = t->devs.backend->put(t->devs.dev, to[k], kept + at, n);
        at += n;
    }
    return st == PG_OK ? t->devs.backend->sync(t->devs.dev) : st; /* other devices read it next */
}

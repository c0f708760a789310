/* trace.c - see trace.h. */
#include "train/exec/trace.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/try.h"

struct pg__trace {
    pg__trace_track *tracks; /* of workers, then the extras */
    size_t n_workers;
    _Atomic int is_on;
    pthread_mutex_t lock; /* of the extras, and of turning it on or off */
};

pg_status pg__trace_new(pg__trace **out, size_t n_workers, pg_err *err)
{
    pg__trace *tr = pg__mem_array(1, sizeof *tr);
    if (!tr)
        return pg__nomem(err);
    tr->n_workers = n_workers;
    tr->tracks = pg__mem_array(n_workers + PG_TRACE_EXTRA, sizeof *tr->tracks);
    if (!tr->tracks) {
        pg__mem_free(tr);
        return pg__nomem(err);
    }
    pthread_mutex_init(&tr->lock, NULL);
    *out = tr;
    return PG_OK;
}

void pg__trace_free(pg__trace *tr)
{
    if (!tr)
        return;
    for (size_t k = 0; k < pg__trace_n_tracks(tr); k++)
        pg__mem_free(tr->tracks[k].events);
    pthread_mutex_destroy(&tr->lock);
    pg__mem_free(tr->tracks);
    pg__mem_free(tr);
}

static void turn(pg__trace *tr, int on)
{
    pthread_mutex_lock(&tr->lock);
    for (size_t k = 0; on && k < pg__trace_n_tracks(tr); k++) {
        tr->tracks[k].n = 0;
        tr->tracks[k].n_lost = 0;
    }
    tr->is_on = on;
    pthread_mutex_unlock(&tr->lock);
}

void pg__trace_start(pg__trace *tr)
{
    turn(tr, 1);
}

void pg__trace_stop(pg__trace *tr)
{
    turn(tr, 0);
}

pg__trace_track *pg__trace_of_worker(pg__trace *tr, size_t worker)
{
    return tr && tr->is_on ? &tr->tracks[worker] : NULL;
}

void pg__trace_add(pg__trace_track *track, const pg__trace_event *e)
{
    if (track->n == PG_TRACE_MOST ||
        pg__mem_grow(&track->events, &track->cap, track->n + 1, sizeof *e))
        track->n_lost++;
    else
        track->events[track->n++] = *e;
}

double pg__trace_begin(const pg__trace *tr)
{
    return tr && tr->is_on ? pg__now() : 0;
}

void pg__trace_end(pg__trace *tr, size_t worker, double began, pg__trace_what what, uint32_t a,
                   uint64_t b)
{
    if (began > 0 && tr->is_on)
        pg__trace_add(&tr->tracks[worker], &(pg__trace_event){began, pg__now(), what, a, b});
}

void pg__trace_end_on(pg__trace *tr, pg__trace_extra track, const pg__trace_event *e)
{
    pg__trace_event whole = *e;
    if (!(e->began > 0))
        return;
    if (!(e->ended > 0))
        whole.ended = pg__now();
    pthread_mutex_lock(&tr->lock);
    if (tr->is_on)
        pg__trace_add(&tr->tracks[tr->n_workers + track], &whole);
    pthread_mutex_unlock(&tr->lock);
}

size_t pg__trace_n_tracks(const pg__trace *tr)
{
    return tr->n_workers + PG_TRACE_EXTRA;
}

const pg__trace_track *pg__trace_track_at(const pg__trace *tr, size_t k)
{
    return &tr->tracks[k];
}

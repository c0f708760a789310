/* traced.c - compares the clocks of ranks, and brings their events to rank 0 as soon as the last of
 * the steps is over: a rank that is lost later takes nothing with it. */
#include "train/step/traced.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/try.h"
#include "io/io.h"
#include "io/sink.h"
#include "train/step/ranks.h"

#define ROUNDS 8 /* trips to rank 0 and back; the shortest counts */

static const char what[] = "the trace";

/* ---- clocks ---- */

/* One trip between rank 0 and `rank`: its clock when the message was there is taken for the middle
 * of the trip. */
static pg_status trip(pg__comm *c, size_t rank, pg__trace_clock *best, pg_err *err)
{
    const double sent = pg__now();
    double there = 0;
    pg_status st = PG_OK;
    PG_TRY(pg__comm_move(c, &there, sizeof there, rank, 0, what, err));
    there = pg__now();
    PG_TRY(pg__comm_move(c, &there, sizeof there, 0, rank, what, err));
    const double back = pg__now(), error = (back - sent) / 2;
    if (best->error < 0 || error < best->error)
        *best = (pg__trace_clock){there - (sent + back) / 2, error};
done:
    return st;
}

/* Ranks begin the step together, not one after the other as their clocks were compared. */
static pg_status meet(pg__comm *c, pg_err *err)
{
    char *all = pg__mem_array(pg__comm_size(c), 1);
    const char mine = 0;
    const pg_status st = all ? pg__comm_gather(c, &mine, all, 1, what, err) : pg__nomem(err);
    pg__mem_free(all);
    return st;
}

pg_status pg__traced_start(pg_trainer *t, pg__trace_clock *clock, pg_err *err)
{
    const size_t own = pg__rank_of(t->ranks), n = t->ranks ? pg__comm_size(t->ranks->comm) : 1;
    pg_status st = PG_OK;
    *clock = (pg__trace_clock){0, own > 0 ? -1 : 0};
    for (size_t rank = 1; rank < n; rank++)
        for (int k = 0; k < ROUNDS && (own == 0 || own == rank); k++)
            PG_TRY(trip(t->ranks->comm, rank, clock, err));
    if (t->ranks)
        PG_TRY(meet(t->ranks->comm, err));
    if (own == 0)
        *clock = (pg__trace_clock){0, 0};
    pg__trace_start(t->report.trace);
done:
    return st;
}

/* ---- collecting ---- */

static pg__rank_trace describe(const pg_trainer *t, const pg__traced *of)
{
    pg__rank_trace r = {.n_workers = t->pool.n_threads, .clock = of->clock};
    snprintf(r.devices, sizeof r.devices, "%s", t->devs.device_names);
    return r;
}

static pg_status bring(pg_trainer *t, void *mem, size_t n_bytes, size_t rank, pg_err *err)
{
    return pg__comm_move(t->ranks->comm, mem, n_bytes, rank, 0, what, err);
}

static pg_status send_own(pg_trainer *t, const pg__traced *of, pg_err *err)
{
    const pg__trace *tr = t->report.trace;
    const size_t own = pg__rank_of(t->ranks);
    pg__rank_trace r = describe(t, of);
    pg_status st = PG_OK;
    PG_TRY(bring(t, &r, sizeof r, own, err));
    for (size_t k = 0; k < pg__trace_n_tracks(tr); k++) {
        const pg__trace_track *track = pg__trace_track_at(tr, k);
        uint64_t counts[2] = {track->n, track->n_lost};
        PG_TRY(bring(t, counts, sizeof counts, own, err));
        PG_TRY(bring(t, track->events, track->n * sizeof *track->events, own, err));
    }
done:
    return st;
}

/* One track at a time, so that memory does not grow with the number of ranks. */
static pg_status take_rank(pg_trainer *t, pg__traced *of, pg__trace_file *f, size_t rank,
                           pg_err *err)
{
    pg__rank_trace r;
    pg__trace_track track = {0};
    pg_status st = PG_OK;
    PG_TRY(bring(t, &r, sizeof r, rank, err));
    pg__trace_file_rank(f, rank, &r);
    for (uint64_t k = 0; k < r.n_workers + PG_TRACE_EXTRA; k++) {
        uint64_t counts[2];
        PG_TRY(bring(t, counts, sizeof counts, rank, err));
        if (pg__mem_grow(&track.events, &track.cap, counts[0], sizeof *track.events))
            PG_TRY(pg__nomem(err));
        track.n = counts[0];
        PG_TRY(bring(t, track.events, track.n * sizeof *track.events, rank, err));
        pg__trace_file_track(f, &track);
        of->n_lost += counts[1];
    }
done:
    pg__mem_free(track.events);
    return st;
}

static void take_own(pg_trainer *t, pg__traced *of, pg__trace_file *f)
{
    const pg__trace *tr = t->report.trace;
    const pg__rank_trace r = describe(t, of);
    pg__trace_file_rank(f, 0, &r);
    for (size_t k = 0; k < pg__trace_n_tracks(tr); k++) {
        pg__trace_file_track(f, pg__trace_track_at(tr, k));
        of->n_lost += pg__trace_track_at(tr, k)->n_lost;
    }
}

pg_status pg__traced_write(pg_trainer *t, pg__traced *of, pg_err *why, pg_err *err)
{
    const size_t n = t->ranks && !of->is_alone ? pg__comm_size(t->ranks->comm) : 1;
    pg__trace_file *f = NULL;
    pg_status st = PG_OK;
    pg__trace_stop(t->report.trace);
    if (pg__rank_of(t->ranks) > 0)
        return send_own(t, of, err);
    of->n_lost = 0;
    PG_TRY(pg__trace_file_new(&f, t, of, err));
    take_own(t, of, f);
    for (size_t rank = 1; rank < n; rank++)
        PG_TRY(take_rank(t, of, f, rank, err));
    (void)pg__trace_file_commit(f, why);
done:
    pg__trace_file_free(f);
    return st;
}

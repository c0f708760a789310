/* graph_capture.c - a recording belongs to a program, the memory it ran on (data that change from
 * step to step lie in the arena too, upload.h) and the outputs whose rows had weights. The first
 * run of a program is not recorded, since libraries initialise themselves in it. All pieces of a
 * run are recorded before the first of them runs: nothing that waits for another device may be
 * queued while a step is recorded. */
#include "train/step/graph_capture.h"

#include <string.h>

#include "base/mem.h"
#include "base/try.h"

/* A run's pieces: one before each stop, and the rest. */
static size_t n_pieces(const pg__stops *stops)
{
    return stops ? stops->n + 1 : 1;
}

static size_t end_of(const pg__program *p, const pg__stops *stops, size_t k)
{
    return stops && k < stops->n ? stops->ends[k] : pg__program_n_calls(p);
}

/* Kernels were recorded with the addresses of weights, or with none. */
static int has_same_weights(const pg__graph_capture *r, const pg__frame *f)
{
    for (size_t k = 0; k < pg__program_model(r->program)->n_outputs; k++)
        if (r->weighted[k] != (f->weights[k] != NULL))
            return 0;
    return 1;
}

static int is_of(const pg__graph_capture *r, const pg__program *p, const pg__frame *f,
                 size_t pieces)
{
    return r->program == p && r->arena == f->arena && r->scratch == f->scratch &&
           r->grads == f->grads && r->n_pieces == pieces && has_same_weights(r, f);
}

static void drop(pg__graph_capture *r)
{
    pg__mem_free(r->graphs);
    pg__mem_free(r->weighted);
}

static pg_status find(pg__worker *w, const pg__program *p, const pg__frame *f, size_t pieces,
                      pg__graph_capture **out)
{
    for (size_t i = 0; i < w->n_recordings; i++)
        if (is_of(&w->recordings[i], p, f, pieces)) {
            *out = &w->recordings[i];
            return PG_OK;
        }
    const size_t n_outputs = pg__program_model(p)->n_outputs;
    pg__graph_capture r = {.program = p,
                           .arena = f->arena,
                           .scratch = f->scratch,
                           .grads = f->grads,
                           .weighted = pg__mem_array(n_outputs, 1),
                           .graphs = pg__mem_array(pieces, sizeof(pg__graph_run *)),
                           .n_pieces = pieces};
    if (!r.weighted || !r.graphs ||
        pg__mem_grow(&w->recordings, &w->cap_recordings, w->n_recordings + 1,
                     sizeof *w->recordings)) {
        drop(&r);
        return PG_E_NOMEM;
    }
    for (size_t k = 0; k < n_outputs; k++)
        r.weighted[k] = f->weights[k] != NULL;
    *out = &w->recordings[w->n_recordings++];
    **out = r;
    return PG_OK;
}

/* The piece's graph stays NULL if a call cannot be recorded: nothing was executed then, and the
 * plain run that replaces it reports the error, if there is one. */
static void record(const pg__backend *b, pg__graph_capture *r, const pg__frame *f, size_t k,
                   size_t from, size_t to)
{
    if (b->capture.begin(f->dev) != PG_OK)
        return;
    const pg_status st = pg__program_run_calls(r->program, f, from, to);
    const pg_status end = b->capture.end(f->dev, &r->graphs[k]);
    if (r->graphs[k] && (st != PG_OK || end != PG_OK)) {
        b->capture.forget(r->graphs[k]);
        r->graphs[k] = NULL;
    }
}

static void record_all(const pg__backend *b, pg__graph_capture *r, const pg__frame *f,
                       const pg__stops *stops)
{
    for (size_t k = 0, at = 0; k < r->n_pieces; k++) {
        const size_t end = end_of(r->program, stops, k);
        if (end > at)
            record(b, r, f, k, at, end);
        at = end;
    }
}

pg_status pg__graph_capture_run(pg__trainer_devs *devs, pg__worker *w, const pg__program *p,
                                const pg__frame *f, const pg__stops *stops)
{
    const pg__backend *b = devs->backend;
    const size_t n = n_pieces(stops);
    pg__graph_capture *r = NULL;
    pg_status st = PG_OK;
    if (devs->tunes && b->capture.begin && !f->watch && !f->profile && !f->trace &&
        !pg__program_is_split(p))
        PG_TRY(find(w, p, f, n, &r));
    if (r && r->n_runs++ == 1)
        record_all(b, r, f, stops);
    for (size_t k = 0, at = 0; k < n; k++) {
        const size_t end = end_of(p, stops, k);
        PG_TRY(r && r->graphs[k] ? b->capture.replay(f->dev, r->graphs[k])
                                 : pg__program_run_calls(p, f, at, end));
        at = end;
        if (stops && k < stops->n)
            PG_TRY(stops->at(stops->ctx, k));
    }
done:
    return st;
}

void pg__graph_capture_forget(pg__trainer_devs *devs, pg__worker *w)
{
    for (size_t i = 0; i < w->n_recordings; i++) {
        pg__graph_capture *r = &w->recordings[i];
        for (size_t k = 0; k < r->n_pieces; k++)
            if (r->graphs[k])
                devs->backend->capture.forget(r->graphs[k]);
        drop(r);
    }
    pg__mem_free(w->recordings);
    w->recordings = NULL;
    w->n_recordings = w->cap_recordings = 0;
}

/* record.c - a recording belongs to a program and to the memory that it ran on (what changes from
 * step to step lies in the arena too, stage.h); the first run of a program is not recorded, since
 * libraries set themselves up in it. */
#include "train/record.h"

#include <string.h>

#include "base/mem.h"
#include "base/try.h"

static int is_of(const pg__recording *r, const pg__program *p, const pg__frame *f)
{
    return r->program == p && r->arena == f->arena && r->scratch == f->scratch &&
           r->grads == f->grads;
}

static pg_status find(pg__worker *w, const pg__program *p, const pg__frame *f, pg__recording **out)
{
    for (size_t i = 0; i < w->n_recordings; i++)
        if (is_of(&w->recordings[i], p, f)) {
            *out = &w->recordings[i];
            return PG_OK;
        }
    if (pg__mem_grow(&w->recordings, &w->cap_recordings, w->n_recordings + 1,
                     sizeof *w->recordings))
        return PG_E_NOMEM;
    *out = &w->recordings[w->n_recordings++];
    **out =
        (pg__recording){.program = p, .arena = f->arena, .scratch = f->scratch, .grads = f->grads};
    return PG_OK;
}

static pg_status run(const pg__program *p, const pg__frame *f)
{
    size_t at = 0;
    int meets = 0;
    return pg__program_run(p, f, &at, &meets);
}

/* r->graph stays NULL where a call cannot be recorded: nothing was done then, and the run that
 * follows in its place tells what is really wrong, if it is. */
static void record(const pg__backend *b, pg__recording *r, const pg__frame *f)
{
    if (b->record_begin(f->dev) != PG_OK)
        return;
    const pg_status st = run(r->program, f);
    const pg_status end = b->record_end(f->dev, &r->graph);
    if (r->graph && (st != PG_OK || end != PG_OK)) {
        b->forget(r->graph);
        r->graph = NULL;
    }
}

pg_status pg__record_run(pg_trainer *t, pg__worker *w, const pg__program *p, const pg__frame *f)
{
    const pg__backend *b = t->backend;
    pg__recording *r = NULL;
    pg_status st = PG_OK;
    if (!b->record_begin || f->watch)
        return run(p, f);
    PG_TRY(find(w, p, f, &r));
    if (!r->graph && r->n_runs++ == 1)
        record(b, r, f);
    st = r->graph ? b->replay(f->dev, r->graph) : run(p, f);
done:
    return st;
}

void pg__record_forget(pg_trainer *t, pg__worker *w)
{
    for (size_t i = 0; i < w->n_recordings; i++)
        if (w->recordings[i].graph)
            t->backend->forget(w->recordings[i].graph);
    pg__mem_free(w->recordings);
    w->recordings = NULL;
    w->n_recordings = w->cap_recordings = 0;
}

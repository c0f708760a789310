/* traced.h - the trace of some steps (train/exec/trace.h), of all ranks by one clock, as a file
 * that chrome://tracing and ui.perfetto.dev open. */
#ifndef PG_TRAIN_STEP_TRACED_H
#define PG_TRAIN_STEP_TRACED_H

#include "train/step/trainer.h"

/* A rank's clock beside rank 0's: what to add to its times, in seconds, and how far off that may
 * be. */
typedef struct pg__trace_clock {
    double add, error;
} pg__trace_clock;

/* Between two steps, in all ranks: compares the clocks and begins to record. */
pg_status pg__traced_start(pg_trainer *t, pg__trace_clock *clock, pg_err *err);

/* What the file says of itself. */
typedef struct pg__traced {
    const char *path;
    uint64_t first, last; /* steps, counted from 1 */
    pg__trace_clock clock;
    double origin;   /* on rank 0: its clock at the beginning */
    int is_alone;    /* without the events of other ranks: they are gone */
    uint64_t n_lost; /* by the last write: events beyond PG_TRACE_MOST, of all ranks */
} pg__traced;

/* Stops recording. Rank 0 writes the file with the events of all ranks, which all call this unless
 * is_alone. A failure to write is that of rank 0 only: *why gets it, and the others are not
 * affected. */
pg_status pg__traced_write(pg_trainer *t, pg__traced *of, pg_err *why, pg_err *err);

/* Could rank 0 write there? An existing trace may be replaced, other files may not. */
pg_status pg__traced_check(const char *path, pg_err *err);

/* ---- trace_file.c ---- */

/* A rank's events as they travel. */
typedef struct pg__rank_trace {
    uint64_t n_workers;
    pg__trace_clock clock;
    char devices[256];
} pg__rank_trace;

typedef struct pg__trace_file pg__trace_file;
/* A failure is kept until the end; nothing else is written then. */
pg_status pg__trace_file_new(pg__trace_file **out, const pg_trainer *t, const pg__traced *of,
                             pg_err *err);
void pg__trace_file_rank(pg__trace_file *f, size_t rank, const pg__rank_trace *r);
/* The next track of that rank. */
void pg__trace_file_track(pg__trace_file *f, const pg__trace_track *track);
pg_status pg__trace_file_commit(pg__trace_file *f, pg_err *err);
void pg__trace_file_free(pg__trace_file *f); /* NULL is allowed */

#endif

/* trace.h - what the threads of a run do, and when: events of some steps, kept in memory.
 *
 * Each worker has a track of its own. Other tracks may be used by several threads, one event after
 * the other. Nothing is recorded before pg__trace_start() or after pg__trace_stop(), which the main
 * thread calls between two steps. */
#ifndef PG_TRAIN_EXEC_TRACE_H
#define PG_TRAIN_EXEC_TRACE_H

#include <stddef.h>
#include <stdint.h>

#include "pg/err.h"

typedef enum pg__trace_what {
    PG_TRACE_OPERATION,  /* a: its leaf, b: its kind, and PG_TRACE_BACKWARD */
    PG_TRACE_STEP,       /* a: its number from 1, b: rows */
    PG_TRACE_VALIDATION, /* a: the batch's number from 1, b: rows */
    PG_TRACE_PREPARE,
    PG_TRACE_PASSES,  /* forward and backward of all lanes */
    PG_TRACE_FORWARD, /* the same in validation */
    PG_TRACE_SUM,     /* of gradients; over ranks, what is left of it after the passes */
    PG_TRACE_UPDATE,
    PG_TRACE_UPDATE_PART, /* of one worker */
    PG_TRACE_LOSS,
    PG_TRACE_WAIT_FOR_DATA,
    PG_TRACE_AFTER,  /* between two steps: callbacks, checkpoints */
    PG_TRACE_READ,   /* b: rows */
    PG_TRACE_WRITE,  /* a file */
    PG_TRACE_BUCKET, /* a: its number from 0, b: bytes */
    PG_TRACE_N
} pg__trace_what;

#define PG_TRACE_BACKWARD ((uint64_t)1 << 32)

typedef struct pg__trace_event {
    double began, ended; /* pg__now() */
    uint32_t what, a;
    uint64_t b;
} pg__trace_event;

#define PG_TRACE_MOST ((size_t)1 << 18) /* events of a track: 8 MB; later ones are counted only */

typedef struct pg__trace_track {
    pg__trace_event *events;
    size_t n, cap;
    uint64_t n_lost;
} pg__trace_track;

/* The tracks behind those of the workers. */
typedef enum pg__trace_extra {
    PG_TRACE_READING,
    PG_TRACE_WRITING,
    PG_TRACE_EXCHANGE,
    PG_TRACE_EXTRA
} pg__trace_extra;

typedef struct pg__trace pg__trace;

pg_status pg__trace_new(pg__trace **out, size_t n_workers, pg_err *err);
void pg__trace_free(pg__trace *tr); /* NULL is allowed */
/* No worker may be running. Starting discards earlier events. */
void pg__trace_start(pg__trace *tr);
void pg__trace_stop(pg__trace *tr);

/* The track of a worker, to which only that one adds; NULL: nothing is being recorded. tr may be
 * NULL. */
pg__trace_track *pg__trace_of_worker(pg__trace *tr, size_t worker);
void pg__trace_add(pg__trace_track *track, const pg__trace_event *e);

/* A span of time: the clock at its beginning, or 0 if nothing is being recorded; its end, which
 * does nothing for a span that began with 0. tr may be NULL. */
double pg__trace_begin(const pg__trace *tr);
void pg__trace_end(pg__trace *tr, size_t worker, double began, pg__trace_what what, uint32_t a,
                   uint64_t b);
/* The same on another track; one that has already ended may be given with its end. */
void pg__trace_end_on(pg__trace *tr, pg__trace_extra track, const pg__trace_event *e);

/* After stopping. */
size_t pg__trace_n_tracks(const pg__trace *tr); /* workers and extras */
const pg__trace_track *pg__trace_track_at(const pg__trace *tr, size_t k);

#endif

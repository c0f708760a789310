/* pick.h - chooses between a library's algorithms for the same work. The library lists them, the
 * one that it thinks best first; each of the first few is run on the device, on memory of its own,
 * and the fastest is kept. Those that fail are skipped. Choices are remembered as long as the
 * device is open, so equal work is tried once.
 *
 * Nothing is tried unless it is asked for (--gpu-tune), or if equal runs must give equal bits
 * (--deterministic), because the clock would affect them: then the first algorithm that exists is
 * chosen. The same holds once the device has
 * spent PG_PICK_SECONDS on trials, including making plans: so a first step begins within seconds.
 * Each GPU has that much time for itself; several spend it side by side. */
#ifndef PG_BACKEND_PICK_H
#define PG_BACKEND_PICK_H

#include "backend/cuda/rt.h"

struct pg__dev;

#define PG_PICK_WAYS    4 /* that are tried for one piece of work */
#define PG_PICK_SECONDS 1.5
#define PG_PICK_ARRAYS  4
#define PG_PICK_NUMBERS 56

/* A piece of work: the numbers that distinguish it, bytes of the arrays that it works on. */
typedef struct pg__pick_case {
    uint64_t key[PG_PICK_NUMBERS];
    size_t n_key;
    int is_too_long; /* more numbers than there is room for: the choice is not remembered */
    size_t bytes[PG_PICK_ARRAYS];
} pg__pick_case;

/* Adds numbers that identify the work. */
void pg__pick_add(pg__pick_case *c, const uint64_t *numbers, size_t n);

/* The library's ways 0 .. n - 1. */
typedef struct pg__ways {
    void *of;
    size_t n;
    /* Prepares way k for running; returns how much memory it needs. PG_E_NO: there is no such
     * way. */
    pg_status (*make)(void *of, size_t k, size_t *scratch_bytes, pg_err *err);
    /* Queues it, once it was made. */
    pg_status (*run)(void *of, size_t k, void *const *arrays, void *scratch);
    void (*drop)(void *of, size_t k); /* one that was made, and is not taken; NULL: nothing to do */
} pg__ways;

/* What a device has chosen so far. */
typedef struct pg__picks {
    struct pg__picked *v;
    size_t n, cap;
    double spent; /* seconds */
} pg__picks;

/* *chosen has been prepared, and no other way remains. PG_E_NO, with the reason: no way works. */
pg_status pg__pick(size_t *chosen, struct pg__dev *d, const pg__pick_case *c, const pg__ways *w,
                   pg_err *err);
void pg__picks_fini(pg__picks *p);

/* For a choice made elsewhere: the earlier choice, PG_PICK_NONE if there is none. */
#define PG_PICK_NONE ((size_t)-1)
size_t pg__picks_find(const pg__picks *p, const pg__pick_case *c);
/* Replaces an earlier choice for the same work. */
pg_status pg__picks_keep(pg__picks *p, const pg__pick_case *c, size_t way, pg_err *err);

#endif

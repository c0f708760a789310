/* comm_impl.h - shared by the files of comm/. */
#ifndef PG_COMM_IMPL_H
#define PG_COMM_IMPL_H

#include <pthread.h>

#include "comm/comm.h"
#include "comm/comm_mpi.h"

enum { PG_TAG_MOVE = 1, PG_TAG_TREE, PG_TAG_PRESENT, PG_TAG_SUMS = 1024 };

/* Where a rank runs. */
typedef struct pg__peer {
    char host[64];
    int64_t pid;
    int is_here; /* its process is visible from here */
} pg__peer;

/* Numbers [from, to) of a sum. */
typedef struct pg__sum_piece {
    pg__comm_sum_of *sum; /* NULL: finished */
    size_t from, to, level;
    int goes_up, tag;
    void *requests[2];
} pg__sum_piece;

#define PG_PIECES 64u /* in progress at once */

struct pg__comm {
    const pg__mpi *mpi;
    pg__mpi_job *job;
    size_t rank, size;
    size_t local, n_local; /* among those on this machine */
    double timeout, waited;
    double seen;          /* when this rank last checked for messages */
    double absent;        /* the longest time without such a check, up to a check in the current
                             wait */
    _Atomic int is_asked; /* result of pg__comm_ends() */
    const volatile int *cancel;
    char name[PG_MPI_MESSAGE];
    pg__peer *peers;
    pthread_mutex_t lock;            /* guards calls of MPI, and the sums below */
    pg__comm_sum_of *sums;           /* in progress, in the order in which they began */
    pg__sum_piece pieces[PG_PIECES]; /* piece k stands at k % PG_PIECES */
    size_t first_piece, next_piece;  /* the first that is not finished, and the next to begin */
    pg_status sums_st;               /* of those that nobody has waited for yet */
    pg_err sums_err;
    struct pg__mover *mover; /* or NULL */
    int has_no_thread;       /* it could not be started */
    _Atomic int is_broken;   /* some rank did not arrive: communication has ended */
};

/* comm.c: joins the job, before anybody has said whether it can continue. As pg__comm_open(). */
pg_status pg__comm_join(pg__comm **out, const pg__comm_opts *opts, pg_err *err);

/* All calls of MPI happen between these. */
void pg__mpi_lock(pg__comm *c);
int pg__mpi_try_lock(pg__comm *c); /* 0: another thread holds the lock */
void pg__mpi_unlock(pg__comm *c);

/* The caller of the functions below holds the lock, unless stated otherwise. */

/* Waits for n requests, and moves sums meanwhile. what: for messages. */
pg_status pg__comm_wait(pg__comm *c, void **requests, size_t n, const char *what, pg_err *err);
/* The same for anything that `look` moves and counts in *left, which ends at 0. */
typedef pg_status (*pg__comm_look)(pg__comm *c, void *ctx, size_t *left, const char *what,
                                   pg_err *err);
pg_status pg__comm_wait_for(pg__comm *c, pg__comm_look look, void *ctx, const char *what,
                            pg_err *err);
/* Is communication still possible? */
pg_status pg__comm_begin(pg__comm *c, const char *what, pg_err *err);

/* Turns MPI's error of a call into ours. */
pg_status pg__comm_failed(pg__comm *c, int error, const char *what, pg_err *err);

/* ---- comm_sums.c ---- */

/* Moves the first n of the pieces in progress, and begins others. A failure is stored until
 * somebody waits. */
void pg__sums_move(pg__comm *c, size_t n);
void pg__sums_forget(pg__comm *c);
pg_status pg__sums_failed(const pg__comm *c, pg_err *err);

/* ---- comm_bf16.c: lost gets what rounding takes, per number ---- */

void pg__bf16_put(uint16_t *to, const float *from, float *lost, size_t n);
void pg__bf16_round(float *x, float *lost, size_t n);
void pg__bf16_take(float *to, const uint16_t *from, size_t n, int adds);
void pg__bf16_repay(float *x, float *lost, size_t n); /* x += lost, which is 0 then */

/* ---- comm_mover.c ---- */

/* A sum is in progress: wakes the thread that moves sums, if there is or should be one. */
void pg__mover_wake(pg__comm *c);
void pg__mover_stop(pg__comm *c); /* without the lock */

/* ---- comm_tree.c ---- */

typedef struct pg__range {
    size_t from, to;
} pg__range;

/* The part of `all` that a rank keeps, and the part that goes to its partner, rank xor distance. */
pg__range pg__tree_half(pg__range all, size_t rank, size_t distance, pg__range *other);
void pg__tree_add(void *to, const void *more, size_t n, size_t real_bytes);

/* ---- comm_peers.c ---- */

/* Exchanges between all ranks where they run. */
pg_status pg__peers_exchange(pg__comm *c, pg_err *err);
/* This rank's number among those on its machine, from the launcher or from names of hosts. */
void pg__peers_count(pg__comm *c, const pg__job_place *place);
/* A rank whose process is gone, or c->size. */
size_t pg__peers_gone(const pg__comm *c);
/* Has another rank timed out? It asks who is there; a waiting rank answers at once, and then stops
 * waiting when that one does. */
int pg__peers_ask(const pg__comm *c);
/* The wait is over: finds out who is still there, and reports those that are not. */
pg_status pg__peers_missing(pg__comm *c, const char *what, double waited, pg_err *err);
/* Its process is gone. There is no message if the launcher has asked this process to stop: then
 * another one has ended, and that one or the launcher has said why. */
pg_status pg__peers_lost(pg__comm *c, size_t rank, const char *what, pg_err *err);
/* The same if this rank itself was absent for longer than the others wait. */
pg_status pg__peers_left(pg__comm *c, double absent, pg_err *err);

/* ---- tcp.c ---- */

const pg__mpi *pg__tcp(void);

/* ---- comm_plugin.c ---- */

/* Opens the plug-in for this launcher's MPI, which stays open. If that fails, one process of each
 * machine has a message. */
pg_status pg__plugin_mpi(const pg__mpi **out, pg__launcher by, pg_err *err);

#endif

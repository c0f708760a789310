/* comm_impl.h - between the files of comm/. */
#ifndef PG_COMM_IMPL_H
#define PG_COMM_IMPL_H

#include <pthread.h>

#include "comm/comm.h"
#include "comm/comm_mpi.h"

enum { PG__TAG_MOVE = 1, PG__TAG_TREE, PG__TAG_PRESENT, PG__TAG_SUMS = 1024 };

/* Where a rank is. */
typedef struct pg__peer {
    char host[64];
    int64_t pid;
    int is_here; /* its process can be seen from here */
} pg__peer;

struct pg__comm {
    const pg__mpi *mpi;
    pg__mpi_job *job;
    size_t rank, size;
    size_t local, n_local; /* among those on this machine */
    double timeout, waited;
    double seen;          /* when this rank last looked what others send */
    double absent;        /* the longest time that it did not, up to a look of the wait in hand */
    _Atomic int is_asked; /* what pg__comm_ends() found */
    const volatile int *cancel;
    char name[PG_MPI_MESSAGE];
    pg__peer *peers;
    pthread_mutex_t lock;  /* of calls of MPI, and of the sums below */
    pg__comm_sum_of *sums; /* under way, in the order in which they were begun */
    size_t n_sums;         /* that were begun by halves */
    pg_status sums_st;     /* of those that nobody waited for */
    pg_err sums_err;
    struct pg__mover *mover; /* or NULL */
    int has_no_thread;       /* none could be started */
    _Atomic int is_broken;   /* somebody did not come: nothing more can be said */
};

/* comm.c: joins the job; nobody has said yet whether it can go on. As pg__comm_open(). */
pg_status pg__comm_join(pg__comm **out, const pg__comm_opts *opts, pg_err *err);

/* Whoever calls MPI does it between these. */
void pg__mpi_lock(pg__comm *c);
int pg__mpi_try_lock(pg__comm *c); /* 0: somebody else is there */
void pg__mpi_unlock(pg__comm *c);

/* The rest is called by who has the lock, unless it says otherwise. */

/* Waits for n requests, and moves sums meanwhile. what: for messages. */
pg_status pg__comm_wait(pg__comm *c, void **requests, size_t n, const char *what, pg_err *err);
/* The same for whatever `look` moves on and counts into *left, 0 before. */
typedef pg_status (*pg__comm_look)(pg__comm *c, void *ctx, size_t *left, const char *what,
                                   pg_err *err);
pg_status pg__comm_wait_for(pg__comm *c, pg__comm_look look, void *ctx, const char *what,
                            pg_err *err);
/* Can anything be said at all? */
pg_status pg__comm_begin(pg__comm *c, const char *what, pg_err *err);

/* What MPI said of a call. */
pg_status pg__comm_failed(pg__comm *c, int error, const char *what, pg_err *err);

/* ---- comm_sums.c ---- */

/* Moves the first n of those that are under way. A failure is kept for whoever waits. */
void pg__sums_move(pg__comm *c, size_t n);
pg_status pg__sums_failed(const pg__comm *c, pg_err *err);

/* ---- comm_mover.c ---- */

/* A sum is under way: the thread looks after it, where there is one or ought to be. */
void pg__mover_wake(pg__comm *c);
void pg__mover_stop(pg__comm *c); /* without the lock */

/* ---- comm_tree.c ---- */

typedef struct pg__range {
    size_t from, to;
} pg__range;

/* What a rank keeps of `all`, and what goes to its partner, rank xor distance. */
pg__range pg__tree_half(pg__range all, size_t rank, size_t distance, pg__range *other);
void pg__tree_add(void *to, const void *more, size_t n, size_t real_bytes);

/* ---- comm_peers.c ---- */

/* Tells all where this one is, and learns where they are. */
pg_status pg__peers_meet(pg__comm *c, pg_err *err);
/* This rank's place among those on its machine, as the launcher says, or by the names of hosts. */
void pg__peers_count(pg__comm *c, const pg__job_place *place);
/* A rank whose process is gone, or c->size. */
size_t pg__peers_gone(const pg__comm *c);
/* Has another rank lost its patience? It asks who is there; whoever waits says so at once, and then
 * waits no longer than that one. */
int pg__peers_ask(const pg__comm *c);
/* Nobody waits any more: who else is there is found out, and those who are not are told of. */
pg_status pg__peers_missing(pg__comm *c, const char *what, double waited, pg_err *err);
/* Its process is gone. No message where the launcher has told this one to leave: somebody else has
 * ended then, and it or the launcher has said why. */
pg_status pg__peers_lost(pg__comm *c, size_t rank, const char *what, pg_err *err);
/* The same, where this rank itself was absent for longer than others wait. */
pg_status pg__peers_left(pg__comm *c, double absent, pg_err *err);

/* ---- tcp.c ---- */

const pg__mpi *pg__tcp(void);

/* ---- comm_plugin.c ---- */

/* The plug-in for the MPI of this launcher. It stays open. Where it cannot be had one process of
 * each machine has a message. */
pg_status pg__plugin_mpi(const pg__mpi **out, pg__launcher by, pg_err *err);

#endif

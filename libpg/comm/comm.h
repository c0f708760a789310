/* comm.h - processes that train together: ranks, one or several on each machine. They communicate
 * through a plug-in, one for each MPI (mpi.c), so a job of one process needs no MPI.
 *
 *   order    every rank makes the same calls in the same order; sums have an order of their own
 *   threads  any thread, but one at a time; sums between machines have a thread of their own
 *   waiting  always ends: PG_E_PEER names the ranks that did not arrive in time, and immediately
 *            one whose process is gone. After that, no communication is possible
 *
 * NULL is a job of one process: it has rank 0, and sums leave their numbers unchanged. */
#ifndef PG_COMM_COMM_H
#define PG_COMM_COMM_H

#include <stddef.h>
#include <stdint.h>

#include "pg/err.h"

typedef struct pg__comm pg__comm;

typedef struct pg__comm_opts {
    double timeout;             /* seconds that a rank waits for the others; 0: 300 */
    const volatile int *cancel; /* set when the launcher asks the remaining processes to leave; or
                                   NULL */
    int on_gpus;                /* NCCL sums the gradients, so this communication may be slow */
} pg__comm_opts;

/* Joins the job that this process was started in; *out is NULL if it is the only one. Returns when
 * all have arrived. PG_E_UNSUPPORTED: the launcher's MPI, or the plug-in for it, is missing. */
pg_status pg__comm_open(pg__comm **out, const pg__comm_opts *opts, pg_err *err);
/* Joins only to report that this process cannot take part, for the reason in *err. This call and
 * all that open the job fail with the message of the first such rank, which only rank 0 gets. *err
 * is unchanged if the others do not arrive in time. */
pg_status pg__comm_refuse(const pg__comm_opts *opts, pg_status mine, pg_err *err);
void pg__comm_close(pg__comm *c);
/* Abandons sums that are in progress: their memory is no longer touched and may be freed. To be
 * called before closing. */
void pg__comm_forget_sums(pg__comm *c);
/* Closes; afterwards this process joins no job any more. The others may end while it continues. */
void pg__comm_leave(pg__comm *c);
/* This rank has failed alone and will not communicate again: closing waits for nothing, and sums in
 * progress are no longer touched. */
void pg__comm_abandon(pg__comm *c);

size_t pg__comm_rank(const pg__comm *c);
size_t pg__comm_size(const pg__comm *c);
const char *pg__comm_host(const pg__comm *c, size_t rank);
/* "Open MPI 4.1.4" */
const char *pg__comm_name(const pg__comm *c);

/* This rank's number among those on its machine; *n: how many there are. */
size_t pg__comm_local(const pg__comm *c, size_t *n);
double pg__comm_timeout(const pg__comm *c);

/* Seconds spent waiting for other ranks so far. */
double pg__comm_waited(const pg__comm *c);

/* Gathers `n_bytes` of every rank, in their order. what: for messages, "the loss". */
pg_status pg__comm_gather(pg__comm *c, const void *mine, void *all, size_t n_bytes,
                          const char *what, pg_err *err);
/* Copies rank 0's memory to all. */
pg_status pg__comm_broadcast(pg__comm *c, void *mem, size_t n_bytes, const char *what, pg_err *err);
/* The same, for a report of rank 0 after it has written files, which may take an hour. */
pg_status pg__comm_await(pg__comm *c, void *mem, size_t n_bytes, const char *what, pg_err *err);
/* Copies pieces, each from one rank to all, in the same order everywhere; all are in progress at
 * once. */
typedef struct pg__comm_piece {
    void *mem;
    size_t n_bytes, from; /* n_bytes: at most INT_MAX */
} pg__comm_piece;
pg_status pg__comm_spread(pg__comm *c, const pg__comm_piece *pieces, size_t n, const char *what,
                          pg_err *err);
/* Copies n_bytes from rank `from` to rank `to`; other ranks do nothing. mem is read on `from` and
 * written on `to`. */
pg_status pg__comm_move(pg__comm *c, void *mem, size_t n_bytes, size_t from, size_t to,
                        const char *what, pg_err *err);

/* The same in both directions at once: `out` becomes the partner's `in`. n_bytes: at most
 * INT_MAX. */
pg_status pg__comm_swap(pg__comm *c, const void *out, void *in, size_t n_bytes, size_t partner,
                        const char *what, pg_err *err);

/* comm_link.c: seconds of a message between two ranks, and bytes per second of a sum, in each
 * direction. All ranks call it and get the result. */
pg_status pg__comm_link(pg__comm *c, size_t first, size_t second, double *latency,
                        double *bandwidth, pg_err *err);

/* Did any rank fail? Then all fail, with the message of the first one, which it names. A failure to
 * communicate stays this rank's own. */
pg_status pg__comm_agree(pg__comm *c, pg_status st, pg_err *err);

/* ---- while GPUs sum ---- */

/* A rank that is known to be gone, or else the number of ranks; from any thread. */
size_t pg__comm_gone(const pg__comm *c);
/* The same, or another rank has timed out: then this one must stop waiting, too, because its
 * pg__comm_missed() is the answer to that rank's question who is there. May be called by several
 * threads if none of them is in another call. */
int pg__comm_ends(pg__comm *c);
/* Other ranks did not arrive: PG_E_PEER, naming those that are gone or do not answer. */
pg_status pg__comm_missed(pg__comm *c, const char *what, pg_err *err);
int pg__comm_is_over(const pg__comm *c); /* some rank did not arrive */

/* ---- sums that run while others compute ---- */

#define PG_TO_ALL SIZE_MAX

/* Sums n floats (real_bytes 4) or doubles (8) over all ranks, in place; all ranks begin their sums
 * in the same order. The order of the additions is unspecified. The members below `work` belong to
 * comm_sums.c. */
typedef struct pg__comm_sum_of {
    void *mem;
    size_t n, real_bytes;
    size_t to;  /* the rank that gets the sum, while memory of the others stays as it is; or
                   PG_TO_ALL */
    void *work; /* NULL, or on all ranks memory for half of the numbers and 16 more: then a faster
                   way is used if the number of ranks is a power of two and all get the sum */
    float
        *lost; /* NULL, or on all ranks, if that way is used for floats: numbers travel as bfloat16;
                  what rounding takes from this rank's is added to its next sum, per number */
    const char *what;
    size_t n_begun, n_done; /* numbers */
    int in_halves;
    int is_under_way;    /* begun, but not finished */
    double began, ended; /* pg__now() */
    struct pg__comm_sum_of *next;
} pg__comm_sum_of;
/* The struct, its memory and `what` must stay until the sum is finished or communication has
 * ended. */
pg_status pg__comm_sum_begin(pg__comm *c, pg__comm_sum_of *sum, const char *what, pg_err *err);
/* Waits until all n of them are finished. */
pg_status pg__comm_sums_wait(pg__comm *c, pg__comm_sum_of *sums, size_t n, const char *what,
                             pg_err *err);
/* Moves the first sum in progress, without waiting; does nothing if a thread does that. */
pg_status pg__comm_poll(pg__comm *c, pg_err *err);

/* ---- comm_tree.c: sums that do not depend on the number of ranks ---- */

/* n floats or doubles of all ranks, in place, each element in the order of the tree over ranks
 * (lanes.h): ((0+1)+(2+3))+...; ranks: a power of two. work: as large as mem. has: whether this
 * rank contributes; absent numbers are not added. Afterwards *has is 0 if no rank did. */
pg_status pg__comm_tree_sum(pg__comm *c, void *mem, void *work, size_t n, size_t real_bytes,
                            int *has, const char *what, pg_err *err);

/* The two halves of pg__comm_tree_sum(). After the first, each rank has the sums of its own
 * elements, and undefined values elsewhere; the second copies each rank's elements to all. */
pg_status pg__comm_tree_halve(pg__comm *c, void *mem, void *work, size_t n, size_t real_bytes,
                              int *has, const char *what, pg_err *err);
pg_status pg__comm_tree_double(pg__comm *c, void *mem, size_t n, size_t real_bytes,
                               const char *what, pg_err *err);
/* The elements of a rank: [*from, *to). */
void pg__comm_tree_own(size_t rank, size_t n_ranks, size_t n, size_t *from, size_t *to);

/* ---- launch.c: how this process was started ---- */

typedef enum pg__launcher {
    PG_ALONE,
    PG_OPENMPI,
    PG_MPICH,
    PG_TORCHRUN, /* only an address is known (tcp.c) */
    PG_SRUN      /* the processes have nothing by which they could find each other */
} pg__launcher;

typedef struct pg__job_place {
    pg__launcher by;
    size_t rank, size;
    size_t local, n_local; /* on this machine; n_local 0: the launcher does not say */
} pg__job_place;
pg__job_place pg__job_place_of(void);
/* For problems with a machine, before ranks can agree on anything: one process there reports them
 * if the launcher says which it is, else rank 0 does for all. */
int pg__job_speaks(void);

/* Refuses a job on CPUs: says what to type, or to install. */
pg_status pg__comm_needs_mpi(pg__launcher by, pg_err *err);

#endif

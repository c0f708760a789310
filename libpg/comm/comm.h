/* comm.h - processes that train together: ranks, one or several on each machine. What they tell
 * each other goes through a plug-in, one for each MPI (mpi.c), so a job of one process needs no
 * MPI.
 *
 *   order    every rank makes the same calls in the same order; sums and all else are two orders
 *   threads  one at a time, whichever it is; between machines sums have one of their own
 *   waiting  none lasts for ever: PG_E_PEER names the ranks that did not come in time, and at once
 *            one whose process is gone. After that nothing can be said any more
 *
 * NULL is a job of one process: it has rank 0, and sums are what they were. */
#ifndef PG_COMM_COMM_H
#define PG_COMM_COMM_H

#include <stddef.h>
#include <stdint.h>

#include "pg/err.h"

typedef struct pg__comm pg__comm;

typedef struct pg__comm_opts {
    double timeout;             /* seconds that a rank waits for the others; 0: 300 */
    const volatile int *cancel; /* the launcher tells those that are left to leave; or NULL */
    int on_gpus;                /* gradients are summed without this: what it is told may be slow */
} pg__comm_opts;

/* Joins the job that this process was started in; *out is NULL where it is the only one. Returns
 * when all are there. PG_E_UNSUPPORTED: the launcher's MPI, or the plug-in for it, is not there. */
pg_status pg__comm_open(pg__comm **out, const pg__comm_opts *opts, pg_err *err);
/* Joins only to say that this process cannot take part, for the reason in *err: all that open the
 * job, and this, fail with the message of the first such rank, which rank 0 alone gets. Where they
 * do not come in time *err stays. */
pg_status pg__comm_refuse(const pg__comm_opts *opts, pg_status mine, pg_err *err);
void pg__comm_close(pg__comm *c);
/* Sums that are still under way are not touched any more: their memory may go. Before closing. */
void pg__comm_forget_sums(pg__comm *c);
/* Closes, and this process joins no job any more: the others may end, while it goes on. */
void pg__comm_leave(pg__comm *c);
/* This rank fails alone, and will not come any more: nothing is waited for when it closes, and sums
 * that are under way are not touched any more. */
void pg__comm_abandon(pg__comm *c);

size_t pg__comm_rank(const pg__comm *c);
size_t pg__comm_size(const pg__comm *c);
const char *pg__comm_host(const pg__comm *c, size_t rank);
/* "Open MPI 4.1.4" */
const char *pg__comm_name(const pg__comm *c);

/* This rank among those on its machine; *n: how many these are. */
size_t pg__comm_local(const pg__comm *c, size_t *n);
double pg__comm_timeout(const pg__comm *c);

/* Seconds that were spent waiting for others so far. */
double pg__comm_waited(const pg__comm *c);

/* `n_bytes` of every rank, in their order. what: for messages, "the loss". */
pg_status pg__comm_gather(pg__comm *c, const void *mine, void *all, size_t n_bytes,
                          const char *what, pg_err *err);
/* What rank 0 has comes to all. */
pg_status pg__comm_broadcast(pg__comm *c, void *mem, size_t n_bytes, const char *what, pg_err *err);
/* The same of what rank 0 tells when it has written files, which may take it an hour. */
pg_status pg__comm_await(pg__comm *c, void *mem, size_t n_bytes, const char *what, pg_err *err);
/* Pieces that one rank each has come to all, in one order everywhere; all are under way at once. */
typedef struct pg__comm_piece {
    void *mem;
    size_t n_bytes, from; /* n_bytes: at most INT_MAX */
} pg__comm_piece;
pg_status pg__comm_spread(pg__comm *c, const pg__comm_piece *pieces, size_t n, const char *what,
                          pg_err *err);
/* n_bytes of rank `from` to rank `to`, other ranks do nothing; mem is read there and written here.
 */
pg_status pg__comm_move(pg__comm *c, void *mem, size_t n_bytes, size_t from, size_t to,
                        const char *what, pg_err *err);

/* The same both ways at once: `out` becomes the partner's `in`. n_bytes: at most INT_MAX. */
pg_status pg__comm_swap(pg__comm *c, const void *out, void *in, size_t n_bytes, size_t partner,
                        const char *what, pg_err *err);

/* comm_link.c: seconds of a message between two ranks, and bytes per second of a sum, in each
 * direction. Called by all; all get it. */
pg_status pg__comm_link(pg__comm *c, size_t first, size_t second, double *latency,
                        double *bandwidth, pg_err *err);

/* Did any rank fail? Then all have: with the message of the first one, which is named. A failure to
 * communicate is nobody else's. */
pg_status pg__comm_agree(pg__comm *c, pg_status st, pg_err *err);

/* ---- what goes on beside this: sums of GPUs ---- */

/* A rank that is known to be gone, or the number of ranks; from any thread. */
size_t pg__comm_gone(const pg__comm *c);
/* The same, or another rank has lost its patience: then this one waits no longer either, since its
 * pg__comm_missed() is the answer to who is there. By several threads, of which none is in another
 * call. */
int pg__comm_ends(pg__comm *c);
/* Other ranks did not come to it: PG_E_PEER, naming those who are gone or do not answer. */
pg_status pg__comm_missed(pg__comm *c, const char *what, pg_err *err);
int pg__comm_is_over(const pg__comm *c); /* somebody did not come */

/* ---- sums that go on while others work ---- */

#define PG__TO_ALL SIZE_MAX

/* n floats (real_bytes 4) or doubles (8) of all ranks, in place; begun in the same order by all.
 * Which order they are added in is not told. What stands below `work` is comm_sums.c's. */
typedef struct pg__comm_sum_of {
    void *mem;
    size_t n, real_bytes;
    size_t to;  /* the rank that it comes to: others' memory stays as it is; or PG__TO_ALL */
    void *work; /* NULL, or on all ranks memory for half of the numbers and 16 more: a faster way,
                   where ranks are a power of two and the sum comes to all */
    const char *what;
    void *requests[2];
    size_t level;
    int in_halves, goes_up, tag;
    int is_under_way; /* begun, and not over */
    struct pg__comm_sum_of *next;
} pg__comm_sum_of;
/* The struct, what it points to and `what` stay until the sum is over, or nothing can be said any
 * more. */
pg_status pg__comm_sum_begin(pg__comm *c, pg__comm_sum_of *sum, const char *what, pg_err *err);
/* Until all n of them are over. */
pg_status pg__comm_sums_wait(pg__comm *c, pg__comm_sum_of *sums, size_t n, const char *what,
                             pg_err *err);
/* Moves the first of what is under way, without waiting; nothing where a thread does that. */
pg_status pg__comm_poll(pg__comm *c, pg_err *err);

/* ---- comm_tree.c: sums that do not depend on how many ranks there are ---- */

/* n floats or doubles of all ranks, in place, each element in the order of the tree over ranks
 * (lanes.h): ((0+1)+(2+3))+...; ranks: a power of two. work: as large as mem. has: does this rank
 * bring anything; what is absent is not added. *has is 0 afterwards if none did. */
pg_status pg__comm_tree_sum(pg__comm *c, void *mem, void *work, size_t n, size_t real_bytes,
                            int *has, const char *what, pg_err *err);

/* Its two halves. Behind the first each rank has the sums of its own elements, and of the others
 * something; the second brings what each rank has of its own to all. */
pg_status pg__comm_tree_halve(pg__comm *c, void *mem, void *work, size_t n, size_t real_bytes,
                              int *has, const char *what, pg_err *err);
pg_status pg__comm_tree_double(pg__comm *c, void *mem, size_t n, size_t real_bytes,
                               const char *what, pg_err *err);
/* Which elements those are: [*from, *to). */
void pg__comm_tree_own(size_t rank, size_t n_ranks, size_t n, size_t *from, size_t *to);

/* ---- launch.c: how this process was started ---- */

typedef enum pg__launcher {
    PG__ALONE,
    PG__OPENMPI,
    PG__MPICH,
    PG__TORCHRUN, /* an address and nothing else (tcp.c) */
    PG__SRUN      /* without anything by which the processes could find each other */
} pg__launcher;

typedef struct pg__job_place {
    pg__launcher by;
    size_t rank, size;
    size_t local, n_local; /* on this machine; n_local 0: the launcher does not say */
} pg__job_place;
pg__job_place pg__job_place_of(void);
/* Of what is wrong with a machine, before ranks can agree on anything, one process there speaks: as
 * far as the launcher tells which, else rank 0 for all. */
int pg__job_speaks(void);

/* Refuses it for CPUs: what to type, or to install. */
pg_status pg__comm_needs_mpi(pg__launcher by, pg_err *err);

#endif

/* tcp.h - communication between ranks that know only an address from their launcher (torchrun):
 * rank 0 listens there, the others connect to it, and messages between any two ranks go through it.
 * Messages are small: NCCL sums the gradients of GPUs. Each process has a thread that moves
 * messages.
 *
 *   tcp.c       the table of comm_mpi.h: which rank sends what to which
 *   tcp_wire.c  messages between two ranks
 *   tcp_rendezvous.c  how they find each other
 *   tcp_system.c      the calls for which systems differ
 */
#ifndef PG_COMM_TCP_H
#define PG_COMM_TCP_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "comm/comm_mpi.h"

/* ---- tcp_system.c ---- */

/* -1 with errno. What they open neither waits nor reaches a program that is started. */
int pg__tcp_socket(int family);
int pg__tcp_accept(int at);
int pg__tcp_pipe(int ends[2]);

/* For send(): no signal where nobody listens any more. */
#ifdef MSG_NOSIGNAL
#define PG_TCP_QUIET MSG_NOSIGNAL
#else
#define PG_TCP_QUIET 0
#endif

/* ---- tcp_rendezvous.c ---- */

/* fds: per rank; rank 0 has one for each other rank, the others have one for rank 0; -1: none.
 * Returns 0, or -1 and sets `said`. */
int pg__tcp_rendezvous(int *fds, size_t rank, size_t n_ranks, double timeout,
                       char said[PG_MPI_MESSAGE]);

/* ---- tcp_wire.c ---- */

typedef struct pg__wire pg__wire;

/* A message that is sent or received. Only pg__wire_begin() and pg__wire_move() touch its
 * memory. */
typedef struct pg__wire_part {
    struct pg__wire_part *next; /* of those to be received */
    size_t peer;
    uint32_t tag;
    int is_sent, is_done;
    char *mem;
    size_t n, at;
} pg__wire_part;

/* Takes over the fds. NULL: out of memory, or no thread. */
pg__wire *pg__wire_open(const int *fds, size_t rank, size_t n_ranks);
/* in_order: all ranks close; else the others have to find out. */
void pg__wire_close(pg__wire *w, int in_order);
/* Messages of one sender, receiver and tag arrive in the order in which they were sent; both sides
 * know their length. 0, or ENOMEM. */
int pg__wire_begin(pg__wire *w, pg__wire_part *p);
/* Moves what can be moved, without waiting. */
void pg__wire_move(pg__wire *w);
/* Has a message with this tag arrived that nobody has asked for? */
int pg__wire_has(pg__wire *w, uint32_t tag);
int pg__wire_lost(const pg__wire *w); /* a rank, or -1 */

#endif

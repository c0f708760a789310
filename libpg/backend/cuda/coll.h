/* coll.h - sums over devices, each driven by a thread of its own, of one process or of several:
 * NCCL (coll_nccl.c) or plain C (host_coll.c). Ranks are those of this process, from 0 on. */
#ifndef PG_BACKEND_COLL_H
#define PG_BACKEND_COLL_H

#include "backend/backend.h"
#include "backend/cuda/rt.h"

typedef struct pg__coll pg__coll; /* a group of devices, no two on one GPU */

/* An identifier by which processes find each other; NULL: is the library available? */
pg_status pg__coll_id(unsigned char id[PG_GROUP_ID], pg_err *err);

/* streams: one of each device, in the order of their ranks; they live as long as the group. among:
 * as in the back end's table. */
pg_status pg__coll_new(pg__coll **out, pg__rt *const *streams, size_t n,
                       const pg__group_place *among, pg_err *err);
void pg__coll_free(pg__coll *c);

/* Called by each rank's thread: p[0 .. n) becomes the sum over the ranks, which is the same bits on
 * all of them. Queued on the rank's stream; all ranks queue the same, in the same order. A rank
 * that waits too long for another one fails at pg__coll_check(), with PG_E_DEVICE, or PG_E_PEER if
 * the other may belong to another process. */
pg_status pg__coll_sum(pg__coll *c, size_t rank, float *p, size_t n, pg_err *err);
/* Every rank's p becomes that of rank `root`. */
pg_status pg__coll_broadcast(pg__coll *c, size_t rank, float *p, size_t n, size_t root,
                             pg_err *err);
/* Waits for the rank's stream. */
pg_status pg__coll_check(pg__coll *c, size_t rank, const pg__timeout *p, pg_err *err);

/* Abandons everything queued, on all ranks, so that no stream waits for another any more; later
 * sums fail. No rank's thread may be in a call. */
void pg__coll_drop(pg__coll *c);

#endif

/* coll.h - sums over the devices of one process, each driven by a thread of its own: NCCL
 * (coll_nccl.c) or plain C (host_coll.c). */
#ifndef PG_BACKEND_COLL_H
#define PG_BACKEND_COLL_H

#include "backend/cuda/rt.h"

typedef struct pg__coll pg__coll; /* a group of devices, no two on one GPU */

/* streams: one of each device, in the order of their ranks; they live as long as the group. */
pg_status pg__coll_new(pg__coll **out, pg__rt *const *streams, size_t n, pg_err *err);
void pg__coll_free(pg__coll *c);

/* Called by each rank's thread: p[0 .. n) becomes the sum over the ranks, which is the same bits on
 * all of them. Queued on the rank's stream; all ranks queue the same, in the same order. What waits
 * longer than `timeout` seconds for another rank fails with PG_E_DEVICE at pg__coll_check(). */
pg_status pg__coll_sum(pg__coll *c, size_t rank, float *p, size_t n, pg_err *err);
/* Every rank's p becomes that of rank `root`. */
pg_status pg__coll_broadcast(pg__coll *c, size_t rank, float *p, size_t n, size_t root,
                             pg_err *err);
/* Waits for the rank's stream. */
pg_status pg__coll_check(pg__coll *c, size_t rank, double timeout, pg_err *err);

/* Gives up all that is queued, on all ranks, so that no stream waits for another any more; sums
 * fail from now on. No rank's thread is in a call. */
void pg__coll_drop(pg__coll *c);

#endif

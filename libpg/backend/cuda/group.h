/* group.h - devices that sum their data, each on a stream beside its own: a sum runs while the
 * device continues its work. Implements the groups of the back end's table. */
#ifndef PG_BACKEND_CUDA_GROUP_H
#define PG_BACKEND_CUDA_GROUP_H

#include "backend/cuda/cuda.h"

pg_status pg__group_new(pg__group **out, pg__dev *const *devs, size_t n,
                        const pg__group_place *among, pg_err *err);
void pg__group_free(pg__group *g);
pg_status pg__group_sum(pg__group *g, size_t rank, pg__dev *d, void *p, size_t n);
pg_status pg__group_join(pg__group *g, size_t rank, pg__dev *d);
pg_status pg__group_wait(pg__group *g, size_t rank, const pg__timeout *p, pg_err *err);
void pg__group_drop(pg__group *g);

#endif

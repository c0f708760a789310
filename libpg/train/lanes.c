/* lanes.c - cutting batches. Slices of replicas: keras/utils/multi_gpu_utils.py of 2.3.1,
 * get_slice. */
#include "train/lanes.h"

size_t pg__lane_count(const pg__cut *cut)
{
    return cut->n_lanes ? cut->n_lanes : cut->n_workers;
}

/* Owner of lane k when n lanes are dealt to m in neighbouring, nearly equal shares: the first get
 * one more (8 lanes for 3: 3, 3, 2). */
static size_t owner_of(size_t k, size_t n, size_t m)
{
    const size_t share = n / m, more = n % m;
    const size_t in_larger = more * (share + 1);
    if (k < in_larger)
        return k / (share + 1);
    return share ? more + (k - in_larger) / share : m - 1;
}

static pg__lane even_lane(const pg__cut *cut, uint64_t n_rows, size_t k)
{
    const uint64_t n = cut->n_lanes;
    const uint64_t first = n_rows / n * k + n_rows % n * k / n;
    const uint64_t end = n_rows / n * (k + 1) + n_rows % n * (k + 1) / n;
    const size_t per = cut->n_workers / cut->n_replicas;
    const size_t replica = owner_of(k, cut->n_lanes, cut->n_replicas);
    size_t begin = 0, behind = 0; /* the replica's lanes */
    while (owner_of(begin, cut->n_lanes, cut->n_replicas) != replica)
        begin++;
    for (behind = begin; behind < cut->n_lanes; behind++)
        if (owner_of(behind, cut->n_lanes, cut->n_replicas) != replica)
            break;
    return (pg__lane){first, end - first, replica,
                      replica * per + owner_of(k - begin, behind - begin, per)};
}

/* The last replica takes what is left over; within a replica the rows are dealt evenly. */
static pg__lane slice_lane(const pg__cut *cut, uint64_t n_rows, size_t k)
{
    const size_t per = cut->n_workers / cut->n_replicas, replica = k / per, part = k % per;
    const uint64_t step = n_rows / cut->n_replicas, begin = step * replica;
    const uint64_t n = replica + 1 == cut->n_replicas ? n_rows - begin : step;
    const uint64_t first = n * part / per, end = n * (part + 1) / per;
    return (pg__lane){begin + first, end - first, replica, k};
}

pg__lane pg__lane_of(const pg__cut *cut, uint64_t n_rows, size_t k)
{
    return cut->n_lanes ? even_lane(cut, n_rows, k) : slice_lane(cut, n_rows, k);
}

size_t pg__tree_top(size_t n_lanes)
{
    size_t top = 1;
    while (top < n_lanes)
        top *= 2;
    return top;
}

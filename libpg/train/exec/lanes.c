/* lanes.c - cutting batches. Slices of replicas: keras/utils/multi_gpu_utils.py of 2.3.1,
 * get_slice. */
#include "train/exec/lanes.h"

size_t pg__replicas_here(const pg__cut *cut)
{
    return cut->n_here ? cut->n_here : cut->n_replicas;
}

size_t pg__lane_count(const pg__cut *cut)
{
    return cut->n_lanes ? cut->n_lanes : cut->n_workers;
}

/* Owner of lane k if n lanes are divided over m owners in contiguous, nearly equal shares: the
 * first get one more (8 lanes over 3: 3, 3, 2). */
static size_t owner_of(size_t k, size_t n, size_t m)
{
    const size_t share = n / m, more = n % m;
    const size_t in_larger = more * (share + 1);
    if (k < in_larger)
        return k / (share + 1);
    return share ? more + (k - in_larger) / share : m - 1;
}

/* Part k of n rows in m nearly equal parts. */
static void part_of(uint64_t n, size_t k, size_t m, uint64_t *first, uint64_t *end)
{
    *first = n / m * k + n % m * k / m;
    *end = n / m * (k + 1) + n % m * (k + 1) / m;
}

/* The slice of a replica; the last one takes the remainder. */
static void slice_of(const pg__cut *cut, uint64_t n_rows, size_t replica, uint64_t *first,
                     uint64_t *n)
{
    const uint64_t step = n_rows / cut->n_replicas;
    *first = step * replica;
    *n = replica + 1 == cut->n_replicas ? n_rows - *first : step;
}

static pg__lane even_lane(const pg__cut *cut, uint64_t n_rows, size_t k)
{
    const size_t per = cut->n_workers / pg__replicas_here(cut);
    const size_t replica = owner_of(k, cut->n_lanes, cut->n_replicas);
    const size_t here = replica - cut->first_here; /* out of range: of another process */
    size_t begin = 0, past = 0;                    /* the replica's lanes */
    uint64_t from = 0, n = n_rows, first, end;
    while (owner_of(begin, cut->n_lanes, cut->n_replicas) != replica)
        begin++;
    for (past = begin; past < cut->n_lanes; past++)
        if (owner_of(past, cut->n_lanes, cut->n_replicas) != replica)
            break;
    if (cut->by_replica) {
        slice_of(cut, n_rows, replica, &from, &n);
        part_of(n, k - begin, past - begin, &first, &end);
    } else {
        part_of(n, k, cut->n_lanes, &first, &end);
    }
    const size_t worker = here < pg__replicas_here(cut)
                              ? here * per + owner_of(k - begin, past - begin, per)
                              : PG_NO_WORKER;
    return (pg__lane){from + first, end - first, replica, worker};
}

static pg__lane slice_lane(const pg__cut *cut, uint64_t n_rows, size_t k)
{
    const size_t per = cut->n_workers / pg__replicas_here(cut), replica = cut->first_here + k / per;
    uint64_t from, n, first, end;
    slice_of(cut, n_rows, replica, &from, &n);
    part_of(n, k % per, per, &first, &end);
    return (pg__lane){from + first, end - first, replica, k};
}

pg__lane pg__lane_of(const pg__cut *cut, uint64_t n_rows, size_t k)
{
    return cut->n_lanes ? even_lane(cut, n_rows, k) : slice_lane(cut, n_rows, k);
}

void pg__rows_here(const pg__cut *cut, uint64_t n_rows, uint64_t *first, uint64_t *end)
{
    *first = n_rows;
    *end = 0;
    for (size_t k = 0; k < pg__lane_count(cut); k++) {
        const pg__lane lane = pg__lane_of(cut, n_rows, k);
        if (lane.worker == PG_NO_WORKER || lane.n == 0)
            continue;
        *first = lane.first < *first ? lane.first : *first;
        *end = lane.first + lane.n > *end ? lane.first + lane.n : *end;
    }
    if (*end == 0)
        *first = 0;
}

int pg__lanes_alike(const pg__lane *lanes, size_t n_lanes, size_t k, size_t n)
{
    const size_t first = k / n * n;
    for (size_t i = first; i < first + n; i++)
        if (i >= n_lanes || lanes[i].n == 0 || lanes[i].n != lanes[first].n ||
            lanes[i].worker != lanes[first].worker || lanes[i].worker == PG_NO_WORKER)
            return 0;
    return 1;
}

size_t pg__lanes_at_once(const pg__cut *cut, size_t most)
{
    const size_t per = cut->n_workers / pg__replicas_here(cut);
    size_t n = 1;
    while (n < most && 2 * n * per * cut->n_replicas <= cut->n_lanes)
        n *= 2;
    return n;
}

size_t pg__tree_top(size_t n_lanes)
{
    size_t top = 1;
    while (top < n_lanes)
        top *= 2;
    return top;
}

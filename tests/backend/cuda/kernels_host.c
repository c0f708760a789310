/* kernels_host.c - the kernels of kernels.def as loops. */
#include "backend/cuda/kernels.h"

#include <stdlib.h>
#include <string.h>

#include "host.h"

/* A GPU takes elements and rows in no order; FAKE_CUDA_ORDER=last or mixed, others than the first
 * comes to mind. */
enum order { FIRST, LAST, MIXED };

static enum order ordered(void)
{
    const char *order = getenv("FAKE_CUDA_ORDER");
    return !order ? FIRST : strcmp(order, "last") == 0 ? LAST : MIXED;
}

static uint64_t place(enum order order, uint64_t i, uint64_t n)
{
    const uint64_t prime = 2654435761u; /* more than there are */
    return order == FIRST ? i : order == LAST ? n - 1 - i : i * prime % n;
}

static _Thread_local enum order in_row;

uint64_t pgk_host_place(uint64_t i, uint64_t n)
{
    return place(in_row, i, n);
}

#define PGK_MAP(name)                                                                  \
    static void run_##name(const void *args, uint64_t n)                               \
    {                                                                                  \
        const enum order order = ordered();                                            \
        for (uint64_t i = 0; i < n; i++)                                               \
            pgk_##name##_at(args, place(order, i, n));                                 \
    }                                                                                  \
    int pgk_launch_##name(const void *args, uint64_t n, void *stream)                  \
    {                                                                                  \
        return pg__fake_queue(stream, #name, run_##name, args, sizeof(pgk_##name), n); \
    }

static _Thread_local unsigned team;

unsigned pgk_host_team(void)
{
    return team;
}

#define PGK_ROWS_BY(name, threads)                                                     \
    static void run_##name(const void *args, uint64_t n)                               \
    {                                                                                  \
        const pgk_##name *a = args;                                                    \
        team = (threads);                                                              \
        const enum order order = in_row = ordered();                                   \
        for (uint64_t r = 0; r < n; r++)                                               \
            pgk_##name##_row(a, place(order, r, n));                                   \
    }                                                                                  \
    int pgk_launch_##name(const void *args, uint64_t n, void *stream)                  \
    {                                                                                  \
        return pg__fake_queue(stream, #name, run_##name, args, sizeof(pgk_##name), n); \
    }
#define PGK_ROWS(name)  PGK_ROWS_BY(name, PGK_T)
#define PGK_LINES(name) PGK_ROWS_BY(name, pgk_team_for(a->n))

#include "backend/cuda/kernels.def"

/* FAKE_CUDA_KERNELS: the number of an error. */
int pgk_usable(void)
{
    const char *error = getenv("FAKE_CUDA_KERNELS");
    return error ? atoi(error) : 0;
}

/* kernels_host.c - the kernels of kernels.def as loops. */
#include "backend/cuda/kernels.h"

#include <stdlib.h>

#include "host.h"

#define PGK_MAP(name)                                                                  \
    static void run_##name(const void *args, uint64_t n)                               \
    {                                                                                  \
        for (uint64_t i = 0; i < n; i++)                                               \
            pgk_##name##_at(args, i);                                                  \
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
        for (uint64_t r = 0; r < n; r++)                                               \
            pgk_##name##_row(a, r);                                                    \
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

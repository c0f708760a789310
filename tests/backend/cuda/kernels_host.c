/* kernels_host.c - the kernels of kernels.def as loops. */
#include "backend/cuda/kernels.h"

#include "host.h"

#define PGK_MAP(name)                                                                       \
    static void run_##name(const void *args, uint64_t n)                                    \
    {                                                                                       \
        for (uint64_t i = 0; i < n; i++)                                                    \
            pgk_##name##_at(args, i);                                                       \
    }                                                                                       \
    int pgk_launch_##name(const void *args, uint64_t n, void *stream)                       \
    {                                                                                       \
        return pg__fake_queue(stream, #name, run_##name, args, sizeof(struct pgk_##name), n); \
    }

#define PGK_ROWS(name)                                                                      \
    static void run_##name(const void *args, uint64_t n)                                    \
    {                                                                                       \
        for (uint64_t r = 0; r < n; r++)                                                    \
            pgk_##name##_row(args, r);                                                      \
    }                                                                                       \
    int pgk_launch_##name(const void *args, uint64_t n, void *stream)                       \
    {                                                                                       \
        return pg__fake_queue(stream, #name, run_##name, args, sizeof(struct pgk_##name), n); \
    }

#include "backend/cuda/kernels.def"

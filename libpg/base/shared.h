/* shared.h - code that the CPU and the GPU share: functions marked PG_SHARED compile as C11 and as
 * CUDA C++17. */
#ifndef PG_BASE_SHARED_H
#define PG_BASE_SHARED_H

#ifdef __CUDACC__
#define PG_SHARED static inline __host__ __device__
#else
#define PG_SHARED static inline
#endif

#endif

/* engine.h - launching translated kernels, and the memory of the devices on which they run. */
#ifndef PG_TESTS_PTX_ENGINE_H
#define PG_TESTS_PTX_ENGINE_H

#include <pthread.h>
#include <setjmp.h>

#include "ptx.h"

/* Of all launches of the process: in which order blocks and threads are taken, and by how much what
 * is computed approximately is off, within what NVIDIA documents. 0: the order of their numbers,
 * the nearest result. PTX_SEED sets it. */
extern unsigned ptx_seed;

/* 0, or -1 and in `message` one line: the kernel, the place in the source, what was wrong. `device`
 * is what bits 56 to 62 of all addresses must be; 0: anything. */
int ptx_run(const ptx_kernel *k, const uint32_t grid[3], const uint32_t block[3],
            const void *params, unsigned device, char *message, size_t n);

const ptx_kernel *ptx_kernel_of(const ptx_module *m, const char *name);
/* The arguments of a call, one behind the other as the kernel wants them. */
void ptx_pack(const ptx_kernel *k, void *const *args, void *params);

/* n bytes at `device`, which lie at `host`, may be touched from now on; host NULL: no longer.
 * Unless it `is_known`, what is read must have been written before. */
void ptx_memory(uint64_t device, void *host, size_t n, int is_known);

/* ---- within the engine ---- */

/* Who touched two bytes last. */
typedef struct ptx_trace {
    uint32_t launch, block, interval, place;
    uint16_t thread, warp_interval;
} ptx_trace;

/* Memory that threads share. */
typedef struct ptx_region {
    uint64_t begin;
    size_t n;
    unsigned char *bytes;
    unsigned char *known;            /* a byte for each; NULL: all is */
    ptx_trace *written, *read, *met; /* by plain writes, reads and atomic ones */
    size_t trace_bytes;              /* of all three */
} ptx_region;

void ptx_region_init(ptx_region *r, uint64_t begin, unsigned char *bytes, size_t n, int is_known);
void ptx_region_fini(ptx_region *r);

typedef struct ptx_launch {
    const ptx_kernel *kernel;
    const unsigned char *params;
    unsigned device;
    uint32_t number, block, interval, n_threads;
    uint64_t random;
    ptx_region shared;
    ptx_thread *threads;
    uint16_t *order;
    unsigned char *memory; /* of all threads: registers and local memory */
    char *message;
    size_t message_bytes;
    jmp_buf fault;
} ptx_launch;

/* One launch at a time, and no change of what memory there is meanwhile. */
extern pthread_mutex_t ptx_lock;

uint64_t ptx_random(uint64_t *state);
void ptx_block_run(ptx_launch *l);

#endif

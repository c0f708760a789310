/* ptx.h - what the C that translate.py makes of PTX shares with the engine that runs it on the CPU.
 *
 * A thread of a kernel is a call of its function, which returns where the thread waits for others
 * and is called again to go on from there; what it must not forget meanwhile lies in `registers`.
 * Every access to memory goes through ptx_at(), which knows what may be touched. */
#ifndef PG_TESTS_PTX_H
#define PG_TESTS_PTX_H

#include <stddef.h>
#include <stdint.h>

typedef enum ptx_stop { PTX_ENDED, PTX_AT_BARRIER, PTX_AT_WARP } ptx_stop;
typedef enum ptx_space {
    PTX_GENERIC,
    PTX_GLOBAL,
    PTX_SHARED,
    PTX_LOCAL,
    PTX_PARAM,
    PTX_N_SPACES
} ptx_space;
typedef enum ptx_kind { PTX_READ, PTX_WRITE, PTX_ATOMIC } ptx_kind;
typedef enum ptx_exchange {
    PTX_SHFL_UP,
    PTX_SHFL_DOWN,
    PTX_SHFL_BFLY,
    PTX_SHFL_IDX,
    PTX_VOTE_ALL,
    PTX_VOTE_ANY,
    PTX_VOTE_UNI,
    PTX_VOTE_BALLOT,
    PTX_WARP_BARRIER
} ptx_exchange;

/* Generic addresses of memory that is no device's: a window for each space, whose own addresses
 * count from 0. Those of a device have bit 63. */
#define PTX_WINDOW(space) ((uint64_t)(space) << 56)
#define PTX_MODULE        PTX_WINDOW(PTX_N_SPACES) /* variables with their values */
#define PTX_DEVICE        ((uint64_t)1 << 63)

typedef struct ptx_thread ptx_thread;

typedef struct ptx_param {
    uint32_t at, n; /* bytes */
} ptx_param;

typedef struct ptx_kernel {
    const char *name;               /* as nvcc calls it */
    ptx_stop (*run)(ptx_thread *t); /* from t->pc */
    const ptx_param *params;
    uint32_t n_params, param_bytes, local_bytes, shared_bytes, register_bytes, max_threads;
    const char *const *places; /* of the source, by number */
    const unsigned char *module;
    size_t module_bytes;
} ptx_kernel;

/* Ends with a kernel without a name. */
typedef struct ptx_module {
    const ptx_kernel *kernels;
} ptx_module;

/* What a kernel's function sees of its thread. */
struct ptx_thread {
    uint32_t tid[3], ntid[3], ctaid[3], nctaid[3], lane;
    uint32_t pc; /* where it goes on: 0 at the begin */
    uint32_t at; /* the place at which it waits */
    void *registers;
    ptx_exchange exchange; /* at PTX_AT_WARP: */
    uint32_t mask, value, b, c, result;
    int truth;
    struct ptx_launch *launch; /* the rest is the engine's */
    unsigned char *local, *local_known;
    uint16_t number, warp_interval;
    uint8_t state;
};

/* Where n bytes lie that the thread touches from `place` on; ends the launch if it must not. */
void *ptx_at(ptx_thread *t, ptx_space space, uint64_t address, uint32_t n, ptx_kind kind,
             uint32_t place);
_Noreturn void ptx_fault(ptx_thread *t, uint32_t place, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif

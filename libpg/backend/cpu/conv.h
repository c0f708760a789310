/* conv.h - convolutions on the CPU: descriptions, and the implementations ("ways") that compute
 * them.
 *
 * Values are (rows, spatial, channels), as in Keras; kernels are (spatial, channels / groups,
 * filters). A convolution and its two gradients are three passes over the same geometry; a way may
 * implement some of them for some shapes. */
#ifndef PG_BACKEND_CPU_CONV_H
#define PG_BACKEND_CPU_CONV_H

#include "backend/cpu/conv_kernels.h"
#include "backend/cpu/cpu.h"

typedef enum pg__conv_pass {
    PG_CONV_Y, /* y from x, w and, if given, b */
    PG_CONV_X, /* x from y and w */
    PG_CONV_W  /* w and b (either may be unwanted) from x and y */
} pg__conv_pass;

/* Three spatial dimensions; unused ones come first and have size 1. */
typedef struct pg__conv {
    pg__conv_pass pass;
    int how;     /* pg__dev_opts.conv */
    int is_lane; /* of several that may run at once */
    int has_bias;
    int is_constant; /* the kernel is the same in all runs: preparing it costs nothing */
    int has_plus;    /* a value shaped as y is added; then the range applies */
    pg__range range; /* of y; ways that do not support ranges leave it, and that sum, to the
                        caller */
    pg__isa isa;
    pg__numbers numbers;             /* of both operands */
    const pg__conv_kernels *kernels; /* of that instruction set */
    size_t rows, in, out, groups;    /* in, out: channels of x, of y */
    size_t x[3], y[3], k[3], stride[3], dilation[3], before[3], after[3];
} pg__conv;

/* Operands and results of one run. */
typedef struct pg__conv_mem {
    float *x, *w, *b, *y;
    const float *plus;   /* see pg__conv.has_plus */
    const float *packed; /* made of w by pack() */
    void *scratch;
} pg__conv_mem;

typedef struct pg__conv_way {
    const char *name;
    /* *state stays NULL if this way does not support it. needs->shared_bytes: bytes that pack()
     * makes. */
    pg_status (*prepare)(void **state, const pg__conv *c, pg__needs *needs, pg_err *err);
    void (*release)(void *state);
    void (*pack)(const void *state, const float *w, float *packed);
    void (*run)(const void *state, const pg__conv_mem *m);
    int keeps_range; /* y stays within pg__conv.range */
    int adds;        /* pg__conv_mem.plus */
    /* for n lanes at once, see cpu.h; NULL: one by one */
    pg_status (*prepare_lanes)(void **state, const void *one, size_t n, size_t *scratch_bytes,
                               pg_err *err);
} pg__conv_way;

static inline size_t pg__conv_cells(const size_t d[3])
{
    return d[0] * d[1] * d[2];
}

/* Is every v[i] this number? */
static inline int pg__conv_all(const size_t v[3], size_t number)
{
    return v[0] == number && v[1] == number && v[2] == number;
}

#endif

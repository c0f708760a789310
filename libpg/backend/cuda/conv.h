/* conv.h - convolutions on a GPU: descriptions, and the implementations ("ways") that compute them.
 * The operands are (x, w, b or absent), (dy, w), (x, dy), as in product.h. */
#ifndef PG_BACKEND_CUDA_CONV_H
#define PG_BACKEND_CUDA_CONV_H

#include "backend/cuda/product.h"

typedef struct pg__conv {
    pg__pass pass;
    const pg__conv_attrs *attrs;
    pg__dims x, y;
    size_t n_in;
    int has_bias;
    uint64_t rows, y_cells; /* y_cells: of one row */
    uint64_t in, out, n_w;  /* channels of x, of y; elements of the kernel */
    pgk_type type, out_type;
} pg__conv;

/* release, share and run are those of a pg__cuda_op. */
typedef struct pg__conv_way {
    /* *state stays NULL if this way does not support it. */
    pg_status (*prepare)(void **state, const pg__cuda_inst *i, const pg__conv *c, pg__needs *needs,
                         pg_err *err);
    void (*release)(void *state);
    pg_status (*share)(pg__dev *d, const void *state, void *const *args, void *shared);
    pg_status (*run)(pg__dev *d, const void *state, void *const *args, void *scratch,
                     const void *shared);
} pg__conv_way;

extern const pg__conv_way pg__conv_by_product, pg__conv_by_channel, pg__conv_by_library,
    pg__conv_by_cell;

#endif

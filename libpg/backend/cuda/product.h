/* product.h - y = x w + b over the rows of x, and its gradients, as matrix products: dense layers,
 * and convolutions that are just that. The operands are (x, w, b or absent), (dy, w), (x, dy). */
#ifndef PG_BACKEND_PRODUCT_H
#define PG_BACKEND_PRODUCT_H

#include "backend/cuda/cuda.h"

typedef enum pg__pass {
    PG_PASS_Y, /* forward */
    PG_PASS_X, /* the gradient of x */
    PG_PASS_W  /* those of w and b; either may not be wanted */
} pg__pass;

typedef struct pg__product_size {
    pg__pass pass;
    uint64_t m, k, n; /* x is m x k, w is k x n */
} pg__product_size;

pg_status pg__product_new(void **state, const pg__cuda_inst *i, const pg__product_size *size,
                          pg__needs *needs, pg_err *err);
/* Members of a pg__cuda_op. */
void pg__product_release(void *state);
pg_status pg__product_share(pg__dev *d, const void *state, void *const *args, void *shared);
pg_status pg__product_run(pg__dev *d, const void *state, void *const *args, void *scratch,
                          const void *shared);

#endif

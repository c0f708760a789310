/* dense.h - matrix products by oneDNN. */
#ifndef PG_BACKEND_CPU_DENSE_H
#define PG_BACKEND_CPU_DENSE_H

#include "ops/op.h"

void pg__cpu_dense(const void *attrs, const pg__arg *in, size_t n_in, const pg__arg *out,
                   size_t n_out);
void pg__cpu_dense_dx(const void *attrs, const pg__arg *in, size_t n_in, const pg__arg *out,
                      size_t n_out);
void pg__cpu_dense_dw(const void *attrs, const pg__arg *in, size_t n_in, const pg__arg *out,
                      size_t n_out);

#endif

/* dense_int8.h - dense layers in 8 bits (int8.h). */
#ifndef PG_BACKEND_CPU_DENSE_INT8_H
#define PG_BACKEND_CPU_DENSE_INT8_H

#include "backend/cpu/cpu.h"

typedef struct pg__dense_int8 pg__dense_int8;

/* Is it worth while? */
int pg__dense_int8_pays(size_t cells, size_t n, size_t k);

/* y[batch x cells x n] = x[batch x cells x k] w (+ bias). *out stays NULL if a sum could overflow.
 */
pg_status pg__dense_int8_new(pg__dense_int8 **out, size_t batch, size_t cells, size_t n, size_t k,
                             pg__isa isa, pg__needs *needs, pg_err *err);
void pg__dense_int8_free(pg__dense_int8 *d);
void pg__dense_int8_pack(const pg__dense_int8 *d, const float *w, void *packed);
void pg__dense_int8_run(const pg__dense_int8 *d, const float *x, const void *packed,
                        const float *bias, float *y, void *scratch);

#endif

/* cpu.h - what the CPU does better than the plain C answers. */
#ifndef PG_BACKEND_CPU_H
#define PG_BACKEND_CPU_H

#include "ops/op.h"

/* A faster function for the operation, called as its plain answer is, or NULL. One thread each;
 * equal operands give equal bits. */
pg__ref_fn pg__cpu_fn(const pg__op *op);

#endif

/* warm.h - what a library prepares in its first call, done beside other work. */
#ifndef PG_BACKEND_CPU_WARM_H
#define PG_BACKEND_CPU_WARM_H

/* oneDNN generates its kernels of matrix products in the first product of a process, which takes
 * 30 ms. A thread makes one that nobody needs. */
typedef struct pg__warm pg__warm;

/* NULL: there is nothing to prepare, or no thread for it; the first product takes longer then. */
pg__warm *pg__warm_begin(void);
void pg__warm_end(pg__warm *w); /* waits for it; NULL is allowed */

#endif

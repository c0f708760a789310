/* thread.h - threads, and one job for many items on several of them. */
#ifndef PG_BASE_THREAD_H
#define PG_BASE_THREAD_H

#include <pthread.h>
#include <stddef.h>

#include "pg/err.h"

#define PG_MAX_THREADS 64u

size_t pg__processors(void); /* that this process may use; at least 1 */

/* The number of threads that a caller asked for: 0: one a processor. At most PG_MAX_THREADS. */
size_t pg__threads(size_t wanted);

/* As pthread_create(), for a thread that no signal interrupts: signals belong to the program's own.
 * 0, or errno's number. */
int pg__thread_begin(pthread_t *thread, void *(*run)(void *), void *arg);

/* Asks the kernel to run the calling thread as soon as it wakes. Since Linux 6.12 a thread that
 * asks for short slices of time interrupts others, whose slices last milliseconds; elsewhere
 * nothing changes. */
void pg__thread_hurry(void);

/* Does one item. worker: number of the thread, from 0, for resources that only one thread may use
 * at a time. */
typedef pg_status (*pg__item_fn)(void *ctx, size_t worker, size_t item, pg_err *err);

/* Does items 0 to n_items - 1, each once and started in this order, on n_threads threads (the
 * caller's among them; 1 starts none; at most PG_MAX_THREADS). After a failure no further item is
 * started. Returns the failure of the lowest item that failed, which is the same on any number of
 * threads. */
pg_status pg__parallel(size_t n_threads, size_t n_items, pg__item_fn job, void *ctx, pg_err *err);

#endif

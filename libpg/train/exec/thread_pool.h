/* thread_pool.h - threads that work together and meet at barriers; the caller is worker 0. */
#ifndef PG_TRAIN_EXEC_THREAD_POOL_H
#define PG_TRAIN_EXEC_THREAD_POOL_H

#include <stddef.h>

#include "pg/err.h"

typedef struct pg__thread_pool pg__thread_pool;

/* n >= 1 workers; starts n - 1 threads. PG_E_NOMEM, PG_E_IO. */
pg_status pg__thread_pool_new(pg__thread_pool **out, size_t n, pg_err *err);
void pg__thread_pool_free(pg__thread_pool *t); /* NULL is allowed */
size_t pg__thread_pool_size(const pg__thread_pool *t);

/* Calls work(arg, w) for every worker w, each in its thread, and returns when all have ended. */
typedef void (*pg__work)(void *arg, size_t worker);
void pg__thread_pool_run(pg__thread_pool *t, pg__work work, void *arg);

/* Within work(): returns when every worker has called it. */
void pg__thread_pool_barrier(pg__thread_pool *t);

/* Within work(): waits until *count, which another worker raises by pg__thread_pool_raise(), is at
 * least `want`. */
typedef _Atomic size_t pg__count;
void pg__thread_pool_await(pg__thread_pool *t, const pg__count *count, size_t want);
void pg__thread_pool_raise(pg__thread_pool *t, pg__count *count, size_t to);
void pg__thread_pool_add(pg__thread_pool *t, pg__count *count); /* one */

#endif

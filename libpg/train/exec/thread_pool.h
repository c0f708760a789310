/* thread_pool.h - threads that work together and meet: the caller is worker 0. */
#ifndef PG_TRAIN_EXEC_THREAD_POOL_H
#define PG_TRAIN_EXEC_THREAD_POOL_H

#include <stddef.h>

#include "pg/err.h"

typedef struct pg__team pg__team;

/* n >= 1 workers; n - 1 threads are started. PG_E_NOMEM, PG_E_IO. */
pg_status pg__team_new(pg__team **out, size_t n, pg_err *err);
void pg__team_free(pg__team *t); /* NULL is allowed */
size_t pg__team_size(const pg__team *t);

/* Calls work(arg, w) for every worker w, each in its thread, and returns when all have ended. */
typedef void (*pg__work)(void *arg, size_t worker);
void pg__team_run(pg__team *t, pg__work work, void *arg);

/* Within work(): returns when every worker has called it. */
void pg__team_meet(pg__team *t);

/* Within work(): waits until *count, which another worker raises by pg__team_raise(), is at least
 * `want`. */
typedef _Atomic size_t pg__count;
void pg__team_await(pg__team *t, const pg__count *count, size_t want);
void pg__team_raise(pg__team *t, pg__count *count, size_t to);
void pg__team_add(pg__team *t, pg__count *count); /* one */

#endif

/* watch.h - how a caller controls a running call: its request to stop, and the progress. */
#ifndef PG_BASE_WATCH_H
#define PG_BASE_WATCH_H

#include <stdint.h>

#include "pg/progress.h"

/* 1 once *flag is not 0; a signal handler or another thread sets it. NULL is allowed. */
int pg__cancelled(const volatile int *flag);

/* NULL is allowed in both. Adding is safe from any thread. */
void pg__progress_start(pg_progress *p, uint64_t n_total);
void pg__progress_add(pg_progress *p, uint64_t n_bytes);

#endif

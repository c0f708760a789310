/* rt.h - a GPU as its runtime shows it: memory, one stream of work in order, and steps that are
 * recorded once and replayed. What is queued runs later; pg__rt_sync() waits. A pg__rt is used by
 * one thread at a time; any thread may allocate and free memory, even while the stream records.
 * Failures: PG_E_UNSUPPORTED where a driver, a library or a device's ability is missing, PG_E_ARG
 * for a device that does not exist, PG_E_NOMEM, PG_E_DEVICE for one that failed while it worked. */
#ifndef PG_BACKEND_RT_H
#define PG_BACKEND_RT_H

#include <stddef.h>
#include <stdint.h>

#include "pg/err.h"

typedef struct pg__rt pg__rt;
typedef struct pg__rt_event pg__rt_event; /* a place in a stream */
typedef struct pg__rt_graph pg__rt_graph; /* recorded work */

pg_status pg__rt_count(size_t *n, pg_err *err);
const char *pg__rt_error(int code); /* what the number of an error means */
pg_status pg__rt_open(pg__rt **out, size_t ordinal, pg_err *err);
/* Another stream of the same device; if both have work that can start, work of this one does. */
pg_status pg__rt_open_beside(pg__rt **out, const pg__rt *of, pg_err *err);
void pg__rt_close(pg__rt *rt); /* waits for what is queued */
size_t pg__rt_ordinal(const pg__rt *rt);
void *pg__rt_stream(pg__rt *rt); /* as kernels are launched with: a cudaStream_t */
const char *pg__rt_name(const pg__rt *rt);
const char *pg__rt_bus(const pg__rt *rt); /* "0000:3b:00.0"; "": not known */
pg_status pg__rt_memory(pg__rt *rt, uint64_t *free_bytes, uint64_t *total_bytes, pg_err *err);

/* Memory of the device, zeroed; and memory of the host that copies go to and from at full speed and
 * without waiting. */
pg_status pg__rt_alloc(pg__rt *rt, void **p, size_t n, pg_err *err);
void pg__rt_free(pg__rt *rt, void *p);
pg_status pg__rt_host_alloc(pg__rt *rt, void **p, size_t n, pg_err *err);
void pg__rt_host_free(pg__rt *rt, void *p);

/* Queued. Host memory that is not from pg__rt_host_alloc() may be reused immediately after a put;
 * after a get, only when pg__rt_sync() has returned. */
pg_status pg__rt_put(pg__rt *rt, void *dst, const void *src, size_t n, pg_err *err);
pg_status pg__rt_get(pg__rt *rt, void *dst, const void *src, size_t n, pg_err *err);
pg_status pg__rt_copy(pg__rt *rt, void *dst, const void *src, size_t n, pg_err *err); /* within */
pg_status pg__rt_clear(pg__rt *rt, void *dst, size_t n, pg_err *err);
/* From another device's memory (or this one's). */
pg_status pg__rt_copy_from(pg__rt *rt, void *dst, const pg__rt *other, const void *src, size_t n,
                           pg_err *err);
pg_status pg__rt_sync(pg__rt *rt, pg_err *err);

/* How long the device takes for what work() queues, which waits for it; seconds of a clock that
 * begins somewhere. What work() returns, if it fails, is returned. Not while the stream records. */
pg_status pg__rt_time(pg__rt *rt, pg_status (*work)(void *of), void *of, double *seconds,
                      pg_err *err);
double pg__rt_now(pg__rt *rt);

/* An event marks everything queued so far; later work of another stream waits for it. */
pg_status pg__rt_event_new(pg__rt_event **out, pg__rt *rt, pg_err *err);
void pg__rt_event_free(pg__rt_event *e);
pg_status pg__rt_mark(pg__rt *rt, pg__rt_event *e, pg_err *err);
pg_status pg__rt_wait(pg__rt *rt, const pg__rt_event *e, pg_err *err);

/* Between begin and end work is recorded instead of run: kernels, matrix products, convolutions,
 * copies within the device. *out stays NULL where the runtime cannot record; the caller then queues
 * the work each time. */
pg_status pg__rt_record_begin(pg__rt *rt, pg_err *err);
pg_status pg__rt_record_end(pg__rt *rt, pg__rt_graph **out, pg_err *err);
pg_status pg__rt_replay(pg__rt *rt, pg__rt_graph *g, pg_err *err);
void pg__rt_graph_free(pg__rt_graph *g);

#endif

/* progress.h - how far a call has got, reported while it runs. */
#ifndef PG_PROGRESS_H
#define PG_PROGRESS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The caller sets tell and ctx and zeroes the rest; the struct must outlive the call. tell() is
 * called after every piece that was copied or compared (256 KiB, or up to 1 GiB if files share
 * blocks), often more than once a millisecond, so it should check a clock first. It may be called
 * from another thread than the caller's, but never from two at once, and it must not call the
 * library. */
typedef struct pg_progress {
    void (*tell)(void *ctx, uint64_t n_done, uint64_t n_total); /* bytes; n_done <= n_total */
    void *ctx;
    uint64_t n_done, n_total; /* the library's */
    int busy;
} pg_progress;

#ifdef __cplusplus
}
#endif

#endif

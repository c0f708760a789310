/* tiles.h - a tensor that is stored in rectangular pieces, in one file or in many: what a training
 * job leaves behind whose ranks each wrote their part.
 *
 * A piece is a box of the tensor, row-major and in one stretch of its source. Pieces must tile the
 * tensor. Rows are put together in a window of bounded size, so memory does not grow with the
 * tensor, and each source is read in long stretches. */
#ifndef PG_STORE_TILES_H
#define PG_STORE_TILES_H

#include "store/store_impl.h"

#define PG_TILES_THREADS 16u                 /* at most */
#define PG_TILES_FEW     ((uint64_t)1 << 20) /* bytes of a window that are not worth a thread */

typedef struct pg__tile {
    uint64_t start[PG_MAX_RANK], size[PG_MAX_RANK]; /* elements */
    size_t source;                                  /* for the caller's fetch */
} pg__tile;

typedef struct pg__tiled {
    const char *name; /* for messages; borrowed */
    size_t elem;      /* bytes of an element */
    uint32_t rank;
    uint64_t dims[PG_MAX_RANK];
    pg__tile *v; /* owned; sorted by pg__tiles_check(); NULL of a grid of several */
    size_t n;
    uint64_t step[PG_MAX_RANK]; /* extents of the pieces of a grid */
} pg__tiled;

/* Sorts the pieces and checks that each lies in the tensor and that every element is in just one.
 * PG_E_FORMAT names the tensor and the elements; empty pieces are dropped. */
pg_status pg__tiles_check(pg__tiled *t, pg_err *err);

/* Cuts the tensor into a regular grid of pieces of t->step, clipped to it; tile.source is the
 * number of a piece in row-major order. Takes no memory for pieces. PG_E_FORMAT, PG_E_LIMIT: also
 * for the tensor's size. */
pg_status pg__tiles_grid(pg__tiled *t, pg_err *err);

/* Reads n bytes from byte off of the row-major data of a piece. With a window of several threads,
 * several pieces of a grid at the same time. */
typedef pg_status (*pg__tile_fetch)(void *ctx, const pg__tile *piece, uint64_t off, void *buf,
                                    size_t n, pg_err *err);

/* What is kept between reads; starts as {0}. */
typedef struct pg__tile_window {
    unsigned char *rows; /* bytes off ... off + n of `tensor` */
    const pg__tiled *tensor;
    uint64_t off;
    size_t n, cap;
    size_t n_threads; /* that fetch pieces of a grid; 0: the caller's */
    struct {
        unsigned char *buf; /* the rows of one piece */
        size_t cap;
    } part[PG_TILES_THREADS]; /* by thread */
} pg__tile_window;

void pg__tile_window_fini(pg__tile_window *w);

/* n bytes of the row-major data of a checked tensor from byte off on, which it has. */
pg_status pg__tiles_read(pg__tile_window *w, const pg__tiled *t, pg__tile_fetch fetch, void *ctx,
                         uint64_t off, void *buf, size_t n, pg_err *err);

/* See pg_store_pieces(). */
pg_pieces pg__tiles_pieces(const pg__tiled *t);

/* The only piece of a tensor that is stored in one stretch, or NULL. */
const pg__tile *pg__tiles_whole(const pg__tiled *t);

#endif

/* relinked.h - a file that is another one with a new beginning and a new end: what relinking makes
 * (keras_h5_relink.c), and what a copy or the file itself is turned into (save.c). */
#ifndef PG_FORMAT_RELINKED_H
#define PG_FORMAT_RELINKED_H

#include "base/mem.h"
#include "io/io.h"

#define PG_RELINKED_HEAD 100u /* bytes of a superblock of version 1; version 0 has 96 */

typedef struct pg__relinked {
    pg__io *base; /* the old file; borrowed */
    uint64_t end; /* its first `end` bytes stay, less ... */
    unsigned char head[PG_RELINKED_HEAD];
    size_t n_head;       /* ... those that head replaces */
    uint64_t tail_at;    /* end, rounded up so that no old sector is written; zeros between */
    unsigned char *tail; /* owned */
    size_t n_tail;
    int clones; /* the file system shares blocks between base and a copy of it */
} pg__relinked;

static inline void pg__relinked_fini(pg__relinked *r)
{
    pg__mem_free(r->tail);
    *r = (pg__relinked){0};
}

/* When to relink a copy rather than to write it afresh. A relinked copy holds all bytes of its
 * source, also those that were out of reach there (an old description with its Python bytecode,
 * say), which a new file must not: so never, unless the caller knows the source. */
typedef enum pg__relink_when {
    PG__RELINK_NEVER,
    PG__RELINK_IF_CHEAPER,
    PG__RELINK_IF_POSSIBLE /* tests hold both ways against each other */
} pg__relink_when;

#endif

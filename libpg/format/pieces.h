/* pieces.h - a store of tensors that lie in pieces in several files, each a store itself: what a
 * training job's processes wrote one by one. A piece that several files hold must be the same in
 * all of them; that is checked while it is read. */
#ifndef PG_FORMAT_PIECES_H
#define PG_FORMAT_PIECES_H

#include "base/str.h"
#include "store/tiles.h"

typedef struct pg__rank_piece {
    const char *name; /* copied */
    pg_dtype dtype;
    uint32_t rank;
    uint64_t dims[PG_MAX_RANK]; /* of the whole; all 0: as far as its pieces reach */
    uint64_t start[PG_MAX_RANK], size[PG_MAX_RANK];
    size_t file, tensor; /* where it is: the n-th file that was added, its n-th tensor */
    size_t next;         /* 1 + another copy of it; 0: none */
} pg__rank_piece;

typedef struct pg__pieces pg__pieces;

/* folder: a descriptor of the folder with the files, taken over, also on failure. has_rules: the
 * user may give those of pg__pieces_take_first(), so an error about copies proposes one. */
pg_status pg__pieces_new(pg__pieces **out, int folder, int has_rules, pg_err *err);
void pg__pieces_free(pg__pieces *p);

/* Opens a file of that folder; of many, later ones are open only while they are read. */
pg_status pg__pieces_open(pg__io **out, pg__pieces *p, const char *name, pg_err *err);

/* Takes over s, also on failure. */
pg_status pg__pieces_add_file(pg__pieces *p, pg_store *s, const char *name, pg_err *err);
size_t pg__pieces_n_files(const pg__pieces *p);
const pg_store *pg__pieces_file(const pg__pieces *p, size_t file); /* borrowed */
pg_status pg__pieces_add(pg__pieces *p, const pg__rank_piece *x, pg_err *err);

/* Of a store's pieces: at most so many ranks cut its tensors, if along one axis in parts of one size
 * but for the last, as torch.chunk() does: a last part that is smaller tells. PG_NONE: none does. */
size_t pg__pieces_most_ranks(const pg__pieces *p);

/* Of a tensor whose name matches the pattern, the copy that was added first is taken, and the others
 * are not compared with it. Before pg__pieces_store(); *n: how many tensors match. */
pg_status pg__pieces_take_first(size_t *n, pg__pieces *p, const char *pattern, pg_err *err);

/* A store of all tensors, in the order in which they were added. PG_E_FORMAT if pieces of one do
 * not tile it, or files disagree about it. Takes over p if that succeeds. */
pg_status pg__pieces_store(pg_store **out, pg__pieces *p, const char *format, pg_err *err);

#endif

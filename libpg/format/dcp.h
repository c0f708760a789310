/* dcp.h - torch.distributed.checkpoint (DCP): a folder with .metadata, which says of every tensor
 * how it is cut, and of each of its chunks where it lies in which file (__RANK_N.distcp).
 * dcp_metadata.c reads the pickle of .metadata as data, dcp_layers.c takes apart what Megatron-Core
 * stacked (dcp_core.c: did it?), dcp_part.c finds the model, fmt_dcp.c reads the chunks.
 * FORMATS.md: "torch.distributed.checkpoint". */
#ifndef PG_FORMAT_DCP_H
#define PG_FORMAT_DCP_H

#include "base/pickle.h"
#include "base/str.h"
#include "io/io.h"
#include "store/tiles.h"

/* Where a chunk, or an object, is: n bytes of a file, one file of torch.save(). */
typedef struct pg__dcp_item {
    const char *file; /* not terminated, into the pickle */
    uint32_t n_file;
    int zstd;    /* a frame of Zstandard around it */
    int foreign; /* another extension of the writer changed it */
    uint64_t off, n;
} pg__dcp_item;

typedef struct pg__dcp_tensor {
    char *name;       /* owned */
    const char *type; /* torch's word, "float32": into the list of globals */
    int known;        /* `dtype` is its type */
    int is_complex;   /* its last dimension, of extent 2, is the real and the imaginary part */
    pg_dtype dtype;
    pg__tiled tiled; /* tile.source: of the items */
    char **path;     /* keys of the containers around it, then its own; owned */
    size_t n_path;
    int guessed;   /* .metadata has no keys, or one for all: they were made of its name */
    uint32_t lead; /* axes of extent 1 that its chunks have before its own: see dcp_layers.c */
} pg__dcp_tensor;

typedef struct pg__dcp {
    char *text;
    uint64_t budget; /* of what the text may become in memory */
    pg__pickle pickle;
    pg__dcp_tensor *v; /* in the order of .metadata */
    size_t n, cap;
    pg__dcp_item *items;
    size_t n_items, cap_items;
    pg__strs objects; /* names of what is no tensor */
} pg__dcp;

/* Whether its first bytes are those of such a .metadata. */
pg_status pg__dcp_is_metadata(int *is, pg__io *io, pg_err *err);

/* Reads .metadata. Every tensor's chunks are found and tile it. */
pg_status pg__dcp_read(pg__dcp *out, pg__io *io, pg_err *err);
void pg__dcp_fini(pg__dcp *d);

/* Makes t's path of its name: what is before byte `cut`, and what is after it; 0: the whole. */
pg_status pg__dcp_guess_path(pg__dcp *d, pg__dcp_tensor *t, size_t cut, pg_err *err);

/* ---- dcp_core.c: what says that Megatron-Core wrote a checkpoint (torch_dist) ---- */

typedef enum pg__dcp_experts {
    PG_DCP_EXPERTS_UNKNOWN,
    PG_DCP_EXPERTS_SEQUENTIAL, /* "local_experts.3.linear_fc1.weight" */
    PG_DCP_EXPERTS_GROUPED,    /* "linear_fc1.weight3" */
    PG_DCP_EXPERTS_STACKED     /* one tensor, transposed: not taken apart */
} pg__dcp_experts;

typedef struct pg__dcp_core {
    int is_core; /* its files, or the user, say that Megatron-Core wrote them */
    int as_saved;
    int is_local; /* layers without Transformer Engine have norms of their own */
    pg__dcp_experts experts;
    uint64_t n_layers; /* of the decoder, as the arguments say; 0: they do not */
} pg__dcp_core;

/* Reads metadata.json and common.pt beside `path`. rules: "as-saved", "unstack",
 * "experts=sequential", "experts=grouped", "spec=local", "spec=te", with commas between; NULL:
 * none. */
pg_status pg__dcp_core_of(pg__dcp_core *out, const char *path, const char *rules, pg_err *err);

/* ---- dcp_layers.c ---- */

/* Gives a Megatron-Core model's tensors the names and shapes that the model itself has: layers and
 * experts, which it saves stacked along leading axes, one by one. What is left stacked, and why,
 * goes to `note`. */
pg_status pg__dcp_unstack(pg__dcp *d, const pg__dcp_core *core, pg__str *note, pg_err *err);

/* ---- dcp_folder.c: see pg__format ---- */

pg_status pg__dcp_in_folder(char **out, const char *folder, pg_err *err);
pg_status pg__dcp_of_path(char **out, const char *path, pg_err *err); /* a .distcp */

/* ---- dcp_part.c ---- */

/* Which tensors belong to a part ("model", "app.model", "." for all; NULL: the only one that can be
 * the model), and their names in it. */
typedef struct pg__dcp_part {
    size_t *tensor;
    pg__strs names; /* by entry of `tensor` */
    size_t n;
    size_t *state; /* the rest that an optimizer or another part of training holds */
    size_t n_state;
    pg__str others; /* in words: "3 objects (train_state.step, ...)" */
} pg__dcp_part;

/* PG_E_AMBIGUOUS with the parts that could be meant; PG_E_ARG: no such part. */
pg_status pg__dcp_part_of(pg__dcp_part *out, const pg__dcp *d, const char *part, pg_err *err);
void pg__dcp_part_fini(pg__dcp_part *p);

/* Bytes of a name, keys joined with dots, before the dot that separates a key of training: after
 * "optimizer" in "optimizer.state.a", before "exp_avg" in "a.exp_avg"; 0: there is none. */
size_t pg__dcp_training_cut(const char *name);
/* The same for a slot alone: a model may have a module called "opt". */
size_t pg__dcp_slot_cut(const char *name);

#endif

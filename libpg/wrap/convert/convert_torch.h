/* convert_torch.h - PyTorch's layout: shared by its parts. */
#ifndef PG_WRAP_CONVERT_CONVERT_TORCH_H
#define PG_WRAP_CONVERT_CONVERT_TORCH_H

#include "wrap/convert/convert.h"

/* ---- convert_torch_table.c ---- */

/* Rows of pg_layout_rows(). */
typedef enum pg__torch_kind {
    PG_TORCH_DENSE,
    PG_TORCH_CONV,
    PG_TORCH_CONV_TRANSPOSE,
    PG_TORCH_DEPTHWISE,
    PG_TORCH_SEPARABLE,
    PG_TORCH_NORM,
    PG_TORCH_PRELU,
    PG_TORCH_EMBEDDING,
    PG_TORCH_RECURRENT,
    PG_TORCH_BIDIRECTIONAL,
    PG_TORCH_TIME_DISTRIBUTED,
    PG_TORCH_ATTENTION,
    PG_TORCH_NONE
} pg__torch_kind;
/* class_name: the name in later releases, see pg__modern_class(). */
pg__torch_kind pg__torch_kind_of(const char *class_name);

/* ---- convert_torch_flatten.c ---- */

/* If the inputs of a Dense layer come from a Flatten of (..., channels): PyTorch flattens
 * (channels, ...), so the kernel's rows have another order there. */
typedef enum pg__flattened {
    PG_FLAT_SAME,   /* no Flatten before it, or one that PyTorch flattens in the same order */
    PG_FLAT_TURNED, /* *channels is known */
    PG_FLAT_UNKNOWN /* the source of the Flatten could not be traced */
} pg__flattened;

pg__flattened pg__torch_flattened(uint64_t *channels, const pg__graph *g, const pg__layer *layer);
/* The same as if `layer` itself flattened what it gets. */
pg__flattened pg__torch_image_order(const pg__graph *g, const pg__layer *layer);
/* The same for the k-th output of the model. */
pg__flattened pg__torch_output_order(const pg__graph *g, size_t output);

/* ---- convert_torch.c ---- */

/* How many channels the n flattened inputs of a layer had, if PyTorch flattens them in another
 * order; otherwise 0. adds_note: add a note. */
pg_status pg__torch_channels(pg__convert *c, const pg__layer *l, uint64_t *channels, uint64_t n,
                             int adds_note, pg_err *err);

/* What PyTorch's recurrent modules cannot do, or NULL. reverse: l is the backward half of a
 * Bidirectional. */
const char *pg__torch_recurrent_lack(const pg__layer *l, int reverse);

/* "enc.dense": the name of the module of a leaf. */
pg_status pg__torch_module(pg__str *out, const pg__slots *s, size_t leaf, pg_err *err);

/* ---- convert_torch_back.c ---- */

/* 1 if names are PyTorch's: "enc.dense.weight". */
int pg__names_are_torch(const pg__outline *o);
/* Fills the slots of a model from tensors in PyTorch's layout, the reverse of pg__torch(). */
pg_status pg__fill_from_torch(pg__slots *s, pg__convert *c, pg_err *err);

#endif

/* pytorch.h - what PyTorch's pickles mean: which values are tensors and which of them are the
 * model's. The container around the pickle is fmt_pytorch.c's matter. */
#ifndef PG_FORMAT_PYTORCH_H
#define PG_FORMAT_PYTORCH_H

#include "base/pickle.h"
#include "base/str.h"
#include "store/strided.h"

/* Functions and classes that state_dicts and checkpoints name. */
extern const pg__pk_global pg__pt_globals[];

/* A storage: an array that tensors are views of, kept beside the pickle. */
typedef struct pg__pt_storage {
    const char *key; /* name of its data, n_key bytes in the pickle */
    uint32_t n_key;
    size_t size; /* of an element; 1 for bytes without a type */
    uint64_t n;  /* elements */
} pg__pt_storage;

typedef struct pg__pt_tensor {
    size_t name; /* where it begins in the tree's names */
    pg_dtype dtype;
    pg__strided view;
    pg__pt_storage storage;
} pg__pt_tensor;

typedef struct pg__pt_tree {
    pg__str names; /* each with its NUL */
    pg__pt_tensor *list;
    size_t n, cap;
    pg__str others; /* what else the file holds: "optimizer (14 tensors), epoch 3" */
} pg__pt_tree;

/* Finds the model's tensors: the state_dict, or that of a checkpoint under one of its usual keys.
 * Views are checked against their storages. Messages name the tensor. */
pg_status pg__pt_tree_read(pg__pt_tree *out, const pg__pickle *p, pg_err *err);
void pg__pt_tree_fini(pg__pt_tree *t);

/* The storage that value v is, if it is one; PG_E_FORMAT, PG_E_UNSUPPORTED. dtype may be NULL; it
 * is left alone for bytes without a type. */
pg_status pg__pt_storage_of(pg__pt_storage *out, pg_dtype *dtype, const pg__pickle *p,
                            const pg__pk_value *v, pg_err *err);

#endif

/* pytorch_impl.h - between pytorch_values.c and pytorch_tree.c. */
#ifndef PG_FORMAT_PYTORCH_IMPL_H
#define PG_FORMAT_PYTORCH_IMPL_H

#include "format/pytorch.h"

/* What a global is for (pg__pk_global.use); the bits above are a pg_dtype. */
enum {
    PG_PT_OTHER = 1, /* harmless, and not looked into */
    PG_PT_TENSOR,
    PG_PT_TENSOR_V3,
    PG_PT_PARAMETER, /* around a tensor */
    PG_PT_FROM_TYPE, /* the function and arguments of a tensor, for a subclass */
    PG_PT_STORAGE,
    PG_PT_UNTYPED, /* a storage of bytes */
    PG_PT_DTYPE
};

int pg__pt_is_tensor(const pg__pickle *p, const pg__pk_value *v);
pg_status pg__pt_read_tensor(pg__pt_tensor *t, const pg__pickle *p, const pg__pk_value *v,
                             pg_err *err);

#endif

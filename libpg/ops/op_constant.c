/* op_constant.c - constants, as the result of an operation without operands. */
#include "ops/attrs.h"
#include "ops/rules.h"

pg_status pg__shape_constant(const void *attrs, const pg__dims *const *in, size_t n_in,
                             pg__dims *out, pg_err *err)
{
    (void)in, (void)n_in, (void)err;
    *out = ((const pg__constant_attrs *)attrs)->shape;
    return PG_OK;
}

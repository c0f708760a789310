/* ref_reshape.c - a copy, for places where memory is not shared. */
#include "ops/real.h"

void PG_REF(reshape)(PG_REF_ARGS)
{
    PG_UNUSED(attrs_), PG_UNUSED(n_in), PG_UNUSED(n_out);
    memmove(out[0].p, in[0].p, (size_t)out[0].n * sizeof(real));
}

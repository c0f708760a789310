/* layer_none.c - layers without variables: activations, pooling, reshaping, merging, noise, and
 * calls of functions. */
#include "model/lower/layers.h"

pg_status pg__vars_none(pg__vars *out, const pg__layer *layer, int dialect, pg_err *err)
{
    (void)out, (void)layer, (void)dialect, (void)err;
    return PG_OK;
}

/* layer_preprocessing.c - tables made by adapt(). Only few kinds are weights; vocabularies are not.
 */
#include <string.h>

#include "model/layers.h"

pg_status pg__vars_discretization(pg__vars *out, const pg__layer *l, int dialect, pg_err *err)
{
    const uint64_t dims[] = {2, PG_DIM_ANY};
    if (dialect == 3 || pg__config_has(l, "bin_boundaries"))
        return PG_OK;
    return pg__vars_add(out, "summary", "", 0, 2, dims, err);
}

/* IntegerLookup, StringLookup, TextVectorization: weights only where words are weighted. */
pg_status pg__vars_lookup(pg__vars *out, const pg__layer *l, int dialect, pg_err *err)
{
    const char *mode = pg__json_get_str(l->config, "output_mode");
    (void)dialect, (void)err;
    return mode && strcmp(mode, "tf_idf") == 0 ? pg__vars_unknown(out) : PG_OK;
}

/* layer_wrapper.c - layers around another layer: its variables under other names, and sometimes
 * some of their own. */
#include <stdio.h>
#include <string.h>

#include "base/try.h"
#include "model/layers.h"

pg_status pg__vars_time_distributed(pg__vars *out, const pg__layer *l, int dialect, pg_err *err)
{
    if (!l->inner)
        return pg__vars_unknown(out);
    return pg__vars_add_inner(out, l->inner, l->inner->name, dialect, err);
}

/* forward_NAME, then backward_NAME. Keras 3 stores the name with its prefix. */
pg_status pg__vars_bidirectional(pg__vars *out, const pg__layer *l, int dialect, pg_err *err)
{
    const pg__json *other = pg__json_get(l->config, "backward_layer");
    const pg__json *config = pg__json_get(other, "config");
    const char *name = l->inner ? l->inner->name : "";
    char forward[80], backward[80];
    pg_status st = PG_OK;
    if (!l->inner || l->inner->model || l->inner->inner) /* nothing that nests further */
        return pg__vars_unknown(out);
    if (strncmp(name, "forward_", 8) == 0)
        name += 8;
    snprintf(forward, sizeof forward, "forward_%s", name);
    snprintf(backward, sizeof backward, "backward_%s", name);
    PG_TRY(pg__vars_add_inner(out, l->inner, forward, dialect, err));
    pg__layer reverse = *l->inner; /* the same with another name, unless the config has another */
    if (config && pg__json_get_str(other, "class_name")) {
        reverse = (pg__layer){.name = l->name,
                              .class_name = pg__json_get_str(other, "class_name"),
                              .config = config,
                              .trainable = pg__json_bool(pg__json_get(config, "trainable"), 1)};
        name = pg__json_get_str(config, "name");
        if (name)
            snprintf(backward, sizeof backward, "%s%s",
                     dialect == 3 || strncmp(name, "backward_", 9) == 0 ? "" : "backward_", name);
    }
    PG_TRY(pg__vars_add_inner(out, &reverse, backward, dialect, err));
done:
    return st;
}

pg_status pg__vars_spectral(pg__vars *out, const pg__layer *l, int dialect, pg_err *err)
{
    pg_status st = PG_OK;
    if (!l->inner)
        return pg__vars_unknown(out);
    PG_TRY(pg__vars_add_inner(out, l->inner, l->inner->name, dialect, err));
    PG_TRY(pg__vars_add(out, "vector_u", "sn_u", 0, 2, (uint64_t[]){1, PG_DIM_ANY}, err));
done:
    return st;
}

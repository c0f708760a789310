/* layer_activation.c - activations with parameters, one per input element or per shared axis; their
 * shape is the input's, so the config fixes no dimension. */
#include "base/try.h"
#include "model/layers.h"

static pg_status add_all(pg__vars *out, const char *const *names, size_t n, pg_err *err)
{
    pg_status st = PG_OK;
    for (size_t i = 0; i < n; i++)
        PG_TRY(pg__vars_add_any(out, names[i], "", 1, err));
done:
    return st;
}

pg_status pg__vars_prelu(pg__vars *out, const pg__layer *l, int dialect, pg_err *err)
{
    (void)l, (void)dialect;
    return pg__vars_add_any(out, "alpha", "alphas", 1, err);
}

pg_status pg__vars_softplus(pg__vars *out, const pg__layer *l, int dialect, pg_err *err)
{
    static const char *const names[] = {"alphas", "betas"};
    (void)l, (void)dialect;
    return add_all(out, names, 2, err);
}

pg_status pg__vars_srelu(pg__vars *out, const pg__layer *l, int dialect, pg_err *err)
{
    static const char *const names[] = {"t_left", "a_left", "t_right", "a_right"};
    (void)l, (void)dialect;
    return add_all(out, names, 4, err);
}

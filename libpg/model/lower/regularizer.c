/* regularizer.c - keras/regularizers.py of 1.2.2 and 2.15. */
#include "model/lower/regularizer.h"

#include <string.h>

#include "base/str.h"

pg__named pg__named_of(const pg__json *value)
{
    if (pg__json_type_of(value) == PG_J_OBJECT && !pg__json_get(value, "class_name"))
        return (pg__named){pg__json_get_str(value, "name"), value};
    if (pg__json_type_of(value) == PG_J_OBJECT)
        return (pg__named){pg__json_get_str(value, "class_name"), pg__json_get(value, "config")};
    return (pg__named){pg__json_str(value), NULL};
}

pg_status pg__regularizer_of(const pg__json *value, const char *layer, double *l1, double *l2,
                             pg_err *err)
{
    const pg__named r = pg__named_of(value);
    const size_t n = r.name ? strlen(r.name) : 0;
    *l1 = *l2 = 0;
    if (!r.name)
        return PG_OK;
    const int both = pg__same_name(r.name, n, "L1L2") ||
                     pg__same_name(r.name, n, "L1L2Regularizer") || /* Keras 1's */
                     pg__same_name(r.name, n, "WeightRegularizer");
    if (!both && !pg__same_name(r.name, n, "L1") && !pg__same_name(r.name, n, "L2"))
        return pg_fail(err, PG_E_UNSUPPORTED, "%s: regularizer \"%s\" is not supported",
                       PG_SHOW(layer), PG_SHOW(r.name));
    const double usual = r.config ? 0 : 0.01; /* the string forms */
    *l1 = both || pg__same_name(r.name, n, "L1") ? usual : 0;
    *l2 = both || pg__same_name(r.name, n, "L2") ? usual : 0;
    (void)pg__json_num(pg__json_get(r.config, "l1"), l1);
    (void)pg__json_num(pg__json_get(r.config, "l2"), l2);
    return PG_OK;
}

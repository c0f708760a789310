/* shard_size.c - sizes as people write them. */
#include <string.h>

#include "base/real.h"
#include "base/str.h"
#include "pg/shard.h"

pg_status pg_shard_size(uint64_t *out, const char *text, pg_err *err)
{
    static const struct {
        const char *unit;
        double bytes;
    } units[] = {{"B", 1},
                 {"kB", 1e3},
                 {"KB", 1e3},
                 {"MB", 1e6},
                 {"GB", 1e9},
                 {"TB", 1e12},
                 {"KiB", 1024},
                 {"MiB", 1048576},
                 {"GiB", 1073741824},
                 {"TiB", 1099511627776.0}};
    const size_t n = strspn(text, "0123456789.");
    const pg__shown shown = pg__show(text);
    double v = 0;
    if (text[0] == '.' || !pg__real_read(&v, text, n))
        return pg_fail(err, PG_E_ARG, "\"%s\" is not a size; write 100MB or 1GB", shown.s);
    if (text[n] == 0)
        return pg_fail(err, PG_E_ARG, "\"%s\" has no unit; write %sMB, %sMiB or 1GB", shown.s,
                       shown.s, shown.s);
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strcmp(text + n, units[i].unit) == 0 && v * units[i].bytes >= 1 &&
            v * units[i].bytes < 9e18) {
            *out = (uint64_t)(v * units[i].bytes);
            return PG_OK;
        }
    return pg_fail(err, PG_E_ARG, "\"%s\" is not a size; write 100MB or 1GB", shown.s);
}

/* part_name.c - see part_name.h. */
#include "store/part_name.h"

#include <string.h>
#include <strings.h>

#include "base/bsd.h"

#define MAX_ASKED 8u
#define MAX_NOTED 256u /* more are no parts */

pg_status pg__part_note(pg__strs *list, const char *name, size_t n, pg_err *err)
{
    for (size_t i = 0; i < list->n; i++)
        if (strncmp(list->v[i], name, n) == 0 && !list->v[i][n])
            return PG_OK;
    return list->n < MAX_NOTED ? pg__strs_add(list, name, n, err) : PG_OK;
}

/* "optim", "opt_state", "optimizers", "optimizer_state_dict", "generator_optimizer". */
static int is_optimizer(const char *name)
{
    const char *last = strrchr(name, '_');
    return strncasecmp(name, "optim", 5) == 0 || strcasecmp(name, "opt") == 0 ||
           strncasecmp(name, "opt_state", 9) == 0 ||
           (last && (strcasecmp(last, "_optimizer") == 0 || strcasecmp(last, "_opt") == 0));
}

pg_status pg__part_meant(const char **out, const char *part, const pg__strs *there, pg_err *err)
{
    size_t n = 0;
    for (size_t i = 0; i < there->n; i++)
        if (is_optimizer(there->v[i])) {
            *out = there->v[i];
            n++;
        }
    if (strcmp(part, "optimizer") == 0 && n == 1 && there->n < MAX_NOTED) /* else another may be */
        return PG_OK;
    (void)pg_fail(err, PG_E_ARG, "no part \"%s\" is in this checkpoint", PG_SHOW(part));
    for (size_t i = 0; i < there->n && i < MAX_ASKED; i++)
        pg_err_detail(err, "%s", PG_SHOW(there->v[i]));
    if (there->n > MAX_ASKED)
        pg_err_detail(err, "and %zu more", there->n - MAX_ASKED);
    return PG_E_ARG;
}

size_t pg__part_likely(const pg__strs *models)
{
    static const char *const others[] = {"ema",     "average", "avg",    "disc", "critic",
                                         "teacher", "target",  "loader", "loss"};
    for (size_t i = 0; i < models->n; i++) {
        int other = 0;
        for (size_t k = 0; k < sizeof others / sizeof *others; k++)
            other |= strcasestr(models->v[i], others[k]) != NULL;
        if (!other)
            return i;
    }
    return 0;
}

const char *pg__part_read(const char *part)
{
    return part && strcmp(part, "optimizer") == 0 ? "." : part;
}

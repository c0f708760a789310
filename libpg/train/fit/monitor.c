/* monitor.c - see monitor.h. */
#include "train/fit/monitor.h"

#include <string.h>

#include "base/mem.h"
#include "base/try.h"

int pg__is_score(const char *name)
{
    static const char *const words[] = {"acc",  "auc", "precision", "recall",   "iou",   "dice",
                                        "jacc", "f1",  "fbeta",     "r2_score", "cosine"};
    const size_t n = strlen(name);
    if (n >= 4 && strcmp(name + n - 4, "loss") == 0) /* "dice_loss" */
        return 0;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strstr(name, words[i]))
            return 1;
    return 0;
}

static pg_status read_mode(pg__monitor *m, const char *mode, pg__upward upward, pg_err *err)
{
    m->is_auto = strcmp(mode, "auto") == 0;
    m->up = m->is_auto ? upward(m->name) : strcmp(mode, "max") == 0;
    if (m->is_auto || m->up || strcmp(mode, "min") == 0)
        return PG_OK;
    return pg_fail(err, PG_E_ARG, "%s: unknown mode \"%s\" (auto, min, max)", m->who,
                   PG_SHOW(mode));
}

pg_status pg__monitor_open(pg__monitor *m, const char *who, pg__fit *f, pg__settings *s,
                           pg__upward upward, pg_err *err)
{
    const char *name = "val_loss", *mode = "auto";
    pg_status st = PG_OK;
    m->who = who;
    PG_TRY(pg__settings_text(s, "monitor", &name, err));
    PG_TRY(pg__settings_text(s, "mode", &mode, err));
    PG_TRY(pg__fit_check_monitor(f, who, name, err));
    m->name = pg__mem_strdup(name);
    if (!m->name)
        PG_TRY(pg__nomem(err));
    PG_TRY(read_mode(m, mode, upward, err));
done:
    return st;
}

void pg__monitor_fini(pg__monitor *m)
{
    pg__mem_free(m->name);
    m->name = NULL;
}

pg_status pg__monitor_note(const pg__monitor *m, pg__fit *f, pg_err *err)
{
    if (!m->is_auto || m->up || !pg__is_score(m->name))
        return PG_OK;
    return pg__fit_event(
        f, PG_EVENT_NOTE, NULL, err,
        "%s: mode auto assumes that less %s is better, as Keras does; mode=max reverses it", m->who,
        m->name);
}

int pg__monitor_get(const pg__monitor *m, const pg_logs *logs, double *out)
{
    double v = 0;
    if (!pg__logs_get(logs, m->name, &v))
        return 0;
    *out = (double)(float)v;
    return 1;
}

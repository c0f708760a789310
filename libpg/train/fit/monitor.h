/* monitor.h - what a callback watches: one of an epoch's logs, and which way is better. */
#ifndef PG_TRAIN_FIT_MONITOR_H
#define PG_TRAIN_FIT_MONITOR_H

#include "train/fit/callback.h"

typedef struct pg__monitor {
    const char *who; /* the callback's class */
    char *name;      /* owned */
    int up;          /* more is better */
    int is_auto;     /* `up` is Keras' guess */
} pg__monitor;

/* Does Keras take the name for "more is better" if the mode is "auto"? */
typedef int (*pg__upward)(const char *name);

/* The parameters monitor (else val_loss) and mode. PG_E_ARG: an unknown one. */
pg_status pg__monitor_open(pg__monitor *m, const char *who, pg__fit *f, pg__settings *s,
                           pg__upward upward, pg_err *err);
void pg__monitor_fini(pg__monitor *m);

/* Notes when Keras' guess is hardly what was meant: val_iou, minimised. */
pg_status pg__monitor_note(const pg__monitor *m, pg__fit *f, pg_err *err);

/* The epoch's value as Keras sees it, a float32; returns 0 if there is none. */
int pg__monitor_get(const pg__monitor *m, const pg_logs *logs, double *out);

/* Is more of a quantity with this name really better, whatever Keras guesses? */
int pg__is_score(const char *name);

#endif

/* report_page.h - the report of a run as a page. */
#ifndef PG_TRAIN_FIT_REPORT_PAGE_H
#define PG_TRAIN_FIT_REPORT_PAGE_H

#include "pg/page.h"
#include "train/fit/callback.h"

typedef enum pg__story_state {
    PG_STORY_RUNS,
    PG_STORY_DONE,
    PG_STORY_STOPPED, /* before the last epoch, by a callback */
    PG_STORY_BROKEN
} pg__story_state;

typedef struct pg__story_event {
    int kind;
    size_t epoch;
    char *file, *text; /* file: may be NULL */
} pg__story_event;

typedef struct pg__story {
    const pg__fit *fit;
    pg__story_state state;
    size_t first;             /* epoch of the first row, from 0 */
    size_t n_rows, n_columns; /* a row: fit's logs, then seconds */
    double *rows;
    double seconds; /* of the whole run */
    pg__story_event *events;
    size_t n_events;
} pg__story;

void pg__story_put(pg_page *p, const pg__story *s);

#endif

/* chart.h - numbers over the epochs as a drawing (SVG) in a page: lines, round scale marks, and the
 * values under the mouse. */
#ifndef PG_TRAIN_FIT_CHART_H
#define PG_TRAIN_FIT_CHART_H

#include "pg/page.h"

enum { PG_CHART_LINES = 2 };

typedef struct pg__chart {
    const char *title;
    size_t first;                        /* epoch of the first number, from 0 */
    size_t n;                            /* numbers of each line */
    size_t stride;                       /* from one number to the next */
    const double *lines[PG_CHART_LINES]; /* NULL: no line; NaN: no value in this epoch */
    const char *names[PG_CHART_LINES];
    size_t marked; /* index of the best one, or PG_NONE */
} pg__chart;

/* Style rules that drawings need besides those of pg_page_begin(). */
extern const char pg__chart_style[];

void pg__chart_put(pg_page *p, const pg__chart *c);

/* A number in few characters: 0.0412, 1.5e-05, 1,024. */
typedef struct pg__figure {
    char s[32];
} pg__figure;
pg__figure pg__figure_of(double v);

#endif

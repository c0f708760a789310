/* page.h - parts of an HTML page about a model: one file that any browser shows, even from a mail.
 * The page has no script and loads nothing, and its own policy forbids both, so a name that was not
 * escaped could do no harm. It is light or dark like the reader's system.
 *
 *     pg_page p = {0};
 *     p.st = pg_file_create(&p.file, "page.html", NULL, &p.err);
 *     pg_page_begin(&p, "my model", "my program", NULL);
 *     pg_page_text(&p, "anything <else>", PG_PAGE_ALL);
 *     if (p.st == PG_OK)
 *         p.st = pg_file_commit(p.file, NULL, &p.err);
 *     if (p.st != PG_OK)
 *         fprintf(stderr, "%s\n", p.err.msg);
 *     pg_file_close(p.file);
 */
#ifndef PG_PAGE_H
#define PG_PAGE_H

#include <stddef.h>

#include "pg/file.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The first failure stays, and later calls do nothing: check st once, at the end. */
typedef struct pg_page {
    pg_file *file;
    pg_status st;
    pg_err err;
} pg_page;

#define PG_PAGE_ALL ((size_t)-1)

/* Everything up to the heading: title is the page's title and heading, `by` the program that wrote
 * it, style further CSS rules or NULL. Available are the colours --bg --fg --mu (faint) --ln
 * (lines) --ac --wa --go --bx (of boxes), the classes m (faint), w (bad), g (good), k (a row of
 * figures), v (a box). */
PG_API void pg_page_begin(pg_page *p, const char *title, const char *by, const char *style);

/* HTML as is; formatted like printf, up to 1,023 bytes. */
PG_API void pg_page_put(pg_page *p, const char *html);
PG_API void pg_page_putf(pg_page *p, const char *fmt, ...) PG_PRINTF(2, 3);

/* Text from elsewhere, which is escaped: n bytes, or PG_PAGE_ALL up to its NUL. */
PG_API void pg_page_text(pg_page *p, const char *text, size_t n);

/* One of a row of figures; bad: shown in the colour of warnings. */
PG_API void pg_page_figure(pg_page *p, const char *value, const char *what, int bad);

#ifdef __cplusplus
}
#endif

#endif

/* json_scan.h - the check that comes before jansson, and what it changes in a copy. */
#ifndef PG_BASE_JSON_SCAN_H
#define PG_BASE_JSON_SCAN_H

#include "base/json.h"

/* Limits and syntax of text. With a copy (n bytes, equal to text), everything that Python writes
 * and jansson refuses is overwritten there in place; *odd (may be NULL) says whether there is such
 * a thing. */
pg_status pg__json_scan(const char *text, size_t n, char *copy, int *odd, pg_err *err);

/* Line and column, from 1 and in bytes, of the byte at. */
void pg__json_position(const char *text, size_t n, size_t at, size_t *line, size_t *column);

#endif

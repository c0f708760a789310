/* json_scan.h - the check that runs before jansson, and its changes to a copy of the text. */
#ifndef PG_BASE_JSON_SCAN_H
#define PG_BASE_JSON_SCAN_H

#include "base/json.h"

/* Checks limits and syntax of text. With a copy (n bytes, equal to text), everything that Python
 * writes and jansson refuses is overwritten in the copy; *odd (may be NULL) is set if there was
 * any. */
pg_status pg__json_scan(const char *text, size_t n, char *copy, int *odd, pg_err *err);

/* Line and column, from 1 and in bytes, of the byte at. */
void pg__json_position(const char *text, size_t n, size_t at, size_t *line, size_t *column);

#endif

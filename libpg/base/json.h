/* json.h - JSON as Keras, safetensors and we write it. jansson parses; a scan of our own comes
 * first, because jansson recurses, knows no byte positions and refuses what Python writes (NaN,
 * "\u0000").
 *
 * Text for an output is never printed from the parsed form, because numbers would change their
 * digits. It is cut out of the original text by byte range: pg__json_range(). */
#ifndef PG_BASE_JSON_H
#define PG_BASE_JSON_H

#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

typedef struct pg__json pg__json; /* borrowed view of a value (jansson's json_t) */

typedef enum pg__json_type {
    PG_J_NONE, /* of a NULL pointer: absent */
    PG_J_NULL,
    PG_J_BOOL,
    PG_J_INT,
    PG_J_REAL, /* NaN and Infinity arrive as numbers of the same length; do not rely on them */
    PG_J_STRING,
    PG_J_ARRAY,
    PG_J_OBJECT
} pg__json_type;

/* Checks limits (bytes, depth, tokens) and parses; duplicate keys are refused. The root is freed
 * with pg__json_free(). PG_E_FORMAT gives line and column; PG_E_LIMIT. Nothing recurses on input
 * depth before the limit has been checked. pg__json_check() checks limits and syntax without
 * parsing.
 *
 * Python's extensions to JSON are accepted: NaN and Infinity become numbers of the same length,
 * lone surrogates U+FFFD, integers beyond 64 bits reals, and a byte order mark is skipped. */
pg_status pg__json_parse(pg__json **out, const char *text, size_t n, pg_err *err);
pg_status pg__json_check(const char *text, size_t n, pg_err *err);
void pg__json_free(pg__json *root);

/* All accept NULL ("absent") and values of other types; they then return NULL, 0 or the default. */
pg__json_type pg__json_type_of(const pg__json *j);
const pg__json *pg__json_get(const pg__json *obj, const char *key);
const pg__json *pg__json_at(const pg__json *arr, size_t i);
size_t pg__json_len(const pg__json *j);      /* elements of an array, members of an object */
const char *pg__json_str(const pg__json *j); /* NULL if not a string; may hold NULs, see _bytes */
const char *pg__json_bytes(const pg__json *j, size_t *n);
const char *pg__json_get_str(const pg__json *obj, const char *key);
int pg__json_int(const pg__json *j, int64_t *out);  /* 1 if an integer, *out set */
int pg__json_num(const pg__json *j, double *out);   /* 1 if an integer or a real, *out set */
int pg__json_bool(const pg__json *j, int fallback); /* numbers as in Python: 0 is false */
/* Members of an object in file order: for (k = 0; pg__json_member(j, k, &key, &val); k++). Each
 * step is O(1) amortised for objects of any size. */
typedef struct pg__json_iter {
    const pg__json *obj;
    void *at;
    const char *key;
    size_t key_len;
    const pg__json *value;
} pg__json_iter;
int pg__json_next(pg__json_iter *it); /* start with {.obj = j}; 1 while there is a member */

/* Byte range of the value at a path. A path is a list of steps, ended by {0}. */
typedef struct pg__json_step {
    const char *key; /* member of an object, or NULL: */
    size_t index;    /* element of an array */
    int used;        /* 1; 0 ends the path */
} pg__json_step;
#define PG_JKEY(k)            \
    {                         \
        .key = (k), .used = 1 \
    }
#define PG_JINDEX(i)            \
    {                           \
        .index = (i), .used = 1 \
    }
typedef struct pg__json_span {
    size_t off, n; /* n == 0: the path leads nowhere */
} pg__json_span;
pg__json_span pg__json_range(const char *text, size_t n, const pg__json_step *path);

/* Walks the elements of an array or the members of an object, as spans, in one pass over its bytes:
 * start with pg__json_walk_of(), then call pg__json_walk_next() for as long as it returns 1.
 * Walking text that the check refused is harmless, but the results mean nothing. */
typedef struct pg__json_walk {
    const char *text;
    size_t at, end;
    int is_object;
    pg__json_span key, value; /* key: quotes included; of objects only */
} pg__json_walk;
pg__json_walk pg__json_walk_of(const char *text, pg__json_span container);
int pg__json_walk_next(pg__json_walk *w);

/* 1 if the string literal at `key` means `name`, escapes undone. */
int pg__json_key_is(const char *text, pg__json_span key, const char *name);

/* The value under a key of an object; n == 0 if `within` is not an object or has no such key. */
pg__json_span pg__json_member(const char *text, pg__json_span within, const char *key);
/* 1 if s is the string literal `word`; if it is null, or nothing (n == 0). */
int pg__json_is_text(const char *text, pg__json_span s, const char *word);
int pg__json_is_null(const char *text, pg__json_span s);

/* Appends the decoded string literal `s` of checked text; a lone surrogate is PG_E_FORMAT. */
pg_status pg__json_unquote(pg__str *out, const char *text, pg__json_span s, pg_err *err);

/* Appends s as a JSON string literal, quotes included; invalid UTF-8 becomes U+FFFD. */
pg_status pg__json_quote(pg__str *out, const char *s, size_t n, pg_err *err);

#endif

/* pickle.h - Python's pickle (protocols 2 to 5), read as data.
 *
 * A pickle is a program for a stack machine that can call any function of Python. This reader runs
 * the machine without calling anything: numbers, texts and containers become values, a call becomes
 * a value that says what would be called with what, and only for functions and classes on the
 * caller's list. Everything else is refused by name, wherever it stands. (Python's pickletools.py.)
 *
 * Values refer to each other by number and may form cycles; who walks them limits depth and steps.
 */
#ifndef PG_BASE_PICKLE_H
#define PG_BASE_PICKLE_H

#include <stddef.h>
#include <stdint.h>

#include "pg/err.h"

typedef enum pg__pk_kind {
    PG_PK_NONE,
    PG_PK_BOOL,  /* u.i */
    PG_PK_INT,   /* u.i */
    PG_PK_BIG,   /* an integer beyond 64 bits; only that it is one */
    PG_PK_FLOAT, /* u.f */
    PG_PK_BYTES, /* u.text, n bytes */
    PG_PK_STR,   /* u.text, n bytes, as in the file */
    PG_PK_TUPLE, /* u.items, n */
    PG_PK_LIST,
    PG_PK_SET,
    PG_PK_DICT,   /* u.items: key, value, key, value ...; n counts both */
    PG_PK_GLOBAL, /* u.i: index in the list of globals */
    PG_PK_PERSID, /* u.items[0]: an object that the pickle's owner keeps elsewhere */
    PG_PK_CALL    /* u.items: global, tuple of arguments, then key, value ... set afterwards */
} pg__pk_kind;

typedef struct pg__pk_value {
    pg__pk_kind kind;
    uint32_t n;
    union {
        int64_t i;
        double f;
        const char *text; /* into the pickle's bytes */
        uint32_t *items;  /* numbers of values */
    } u;
} pg__pk_value;

/* What a pickle may name. A list ends with {0}. */
typedef struct pg__pk_global {
    const char *module, *name;
    int is_dict; /* what its call returns takes keys and values */
    int use;     /* the caller's own meaning */
} pg__pk_global;

typedef struct pg__pickle {
    pg__pk_value *v;
    size_t n, cap;
    uint32_t root;
    const pg__pk_global *globals;
} pg__pickle;

/* Reads the pickle at the start of text[0..n), which must outlive *out; *used is its length, NULL:
 * it must end where the text does. PG_E_FORMAT, PG_E_LIMIT; PG_E_UNSUPPORTED names what is not on
 * the list; *cut (may be NULL) is 1 if it failed because the text ends too early. */
pg_status pg__pickle_read(pg__pickle *out, const char *text, size_t n, const pg__pk_global *globals,
                          size_t *used, int *cut, pg_err *err);
void pg__pickle_fini(pg__pickle *p);

/* The value that a dict holds for a text key, or NULL; the last one counts, as in Python. */
const pg__pk_value *pg__pickle_get(const pg__pickle *p, const pg__pk_value *dict, const char *key);

/* 1 if v is that text. */
int pg__pickle_is(const pg__pk_value *v, const char *text);

#endif

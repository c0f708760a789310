/* pickle.h - Python's pickle (protocols 2 to 5), read as data.
 *
 * A pickle is a program for a stack machine that can call any function of Python. This reader runs
 * the machine without calling anything: numbers, texts and containers become values, and a call
 * becomes a value that says what would be called with what. Functions and classes on the caller's
 * list have a meaning for the caller. All others are foreign: they keep their names and what was
 * put into them, and code that would need to understand them refuses them by name. (Python's
 * pickletools.py.)
 *
 * Values refer to each other by number and may form cycles; code that walks them must limit depth
 * and steps. */
#ifndef PG_BASE_PICKLE_H
#define PG_BASE_PICKLE_H

#include <stddef.h>
#include <stdint.h>

#include "pg/err.h"

typedef enum pg__pk_kind {
    PG_PK_NONE,
    PG_PK_BOOL,  /* u.i */
    PG_PK_INT,   /* u.i */
    PG_PK_BIG,   /* an integer beyond 64 bits; its value is not kept */
    PG_PK_FLOAT, /* u.f */
    PG_PK_BYTES, /* u.text, n bytes */
    PG_PK_STR,   /* u.text, n bytes, as in the file */
    PG_PK_TUPLE, /* u.items, n */
    PG_PK_LIST,
    PG_PK_SET,
    PG_PK_DICT,    /* u.items: key, value, key, value ...; n counts both */
    PG_PK_GLOBAL,  /* u.i: index in the list of globals */
    PG_PK_FOREIGN, /* u.i: index in foreign[] */
    PG_PK_PERSID,  /* u.items[0]: an object that the owner of the pickle stores elsewhere */
    /* u.items: global or foreign, tuple of arguments, then what was put into it later: key, value
     * ... for a dictionary; attributes and members one by one for anything else */
    PG_PK_CALL
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

/* What a pickle may name. {0} ends a list. */
typedef struct pg__pk_global {
    const char *module, *name;
    int takes; /* what may be put into the result of calling it; 0: nothing */
    int use;   /* the caller's own code for it */
} pg__pk_global;

enum {
    PG_PK_ENTRIES = 1,   /* keys and values, and it may be called with keys and values */
    PG_PK_LATER_ENTRIES, /* keys and values; its arguments are something else */
    PG_PK_ATTRIBUTES
};

/* A function or class that is not on the list: its name, as in the pickle. */
typedef struct pg__pk_foreign {
    const char *module, *name;
    uint32_t n_module, n_name;
} pg__pk_foreign;

typedef struct pg__pickle {
    pg__pk_value *v;
    size_t n, cap;
    uint32_t root;
    const pg__pk_global *globals;
    pg__pk_foreign *foreign;
    size_t n_foreign, cap_foreign;
} pg__pickle;

/* Reads the pickle at the start of text[0..n), which must outlive *out. *used gets its length;
 * NULL: it must end where the text does. PG_E_FORMAT, PG_E_LIMIT, PG_E_UNSUPPORTED; *cut (may be
 * NULL) is 1 if it failed because the text ends too early. */
pg_status pg__pickle_read(pg__pickle *out, const char *text, size_t n, const pg__pk_global *globals,
                          size_t *used, int *cut, pg_err *err);
/* The same for all of a text that a file holds as it is, not compressed: its length alone limits
 * how many opcodes and remembered values it has. */
pg_status pg__pickle_read_stored(pg__pickle *out, const char *text, size_t n,
                                 const pg__pk_global *globals, pg_err *err);
void pg__pickle_fini(pg__pickle *p);

/* The value of a text key in a dict, or NULL; the last one counts, as in Python. */
const pg__pk_value *pg__pickle_get(const pg__pickle *p, const pg__pk_value *dict, const char *key);

/* The function or class that v is, or was made by, if it is not on the list of globals; else
 * NULL. */
const pg__pk_foreign *pg__pickle_foreign(const pg__pickle *p, const pg__pk_value *v);

/* 1 if v is a dictionary, or an object on the list that takes keys and values. */
int pg__pickle_is_dict(const pg__pickle *p, const pg__pk_value *v);

/* 1 if v is the given text. */
int pg__pickle_is(const pg__pk_value *v, const char *text);

#endif

/* translate.h - shared by the files that translate a model's description for the other Keras. */
#ifndef PG_WRAP_DIALECT_TRANSLATE_H
#define PG_WRAP_DIALECT_TRANSLATE_H

#include "wrap/dialect/dialect.h"

typedef struct pg__edit {
    size_t off, n; /* bytes to remove */
    size_t seq;    /* number of the edit */
    char *text;    /* the replacement; owned */
} pg__edit;

typedef struct pg__translating {
    const char *text;
    int to;   /* 2 or 3 */
    int same; /* from an older release of the same Keras: only update what has changed since */
    pg__edit *edits;
    size_t n, cap;
    size_t n_classes; /* including module paths */
    pg__strs lacking; /* features that the other Keras does not have */
    pg_err *err;
} pg__translating;

/* ---- translate.c ---- */

/* Edits must not overlap; several at one offset keep their order. */
pg_status pg__edit_add(pg__translating *t, size_t off, size_t n, const char *text, size_t n_text);
pg_status pg__edit_replace(pg__translating *t, pg__json_span s, const char *text);
/* Inserts "key": text as the first member of an object. */
pg_status pg__edit_insert(pg__translating *t, pg__json_span object, const char *key,
                          const char *text);
/* Adds "what: why" to t->lacking, once. */
pg_status pg__edit_lack(pg__translating *t, const char *what, const char *why);

/* ---- translate_keys.c: members of a layer's config ---- */

/* Renames, drops and adds members of the config of a layer (or initializer) called name. */
pg_status pg__translate_keys(pg__translating *t, pg__json_span config, const char *class_name,
                             const char *name);

/* ---- translate_calls.c: who is called with what ---- */

/* The inbound_nodes of all layers of a model, and its inputs and outputs. config: the model's. */
pg_status pg__translate_calls(pg__translating *t, pg__json_span config);

#endif

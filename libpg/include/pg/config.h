/* config.h - settings that a program keeps in a JSON file, as a tree of texts. The program decides
 * what a value means.
 *
 *     pg_err err;
 *     pg_config *root = NULL;
 *     if (pg_config_open(&root, "model.json", &err) == PG_OK)
 *         for (size_t i = 0; i < root->n; i++)
 *             printf("%s: %s\n", root->items[i].key, root->items[i].text);
 *     pg_config_close(root);
 */
#ifndef PG_CONFIG_H
#define PG_CONFIG_H

#include <stddef.h>

#include "pg/err.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum pg_config_type {
    PG_CONFIG_NULL,
    PG_CONFIG_BOOL,
    PG_CONFIG_NUMBER,
    PG_CONFIG_TEXT,
    PG_CONFIG_LIST,
    PG_CONFIG_OBJECT
} pg_config_type;

typedef struct pg_config {
    pg_config_type type;
    const char *key;  /* in its object; NULL: it is not in one */
    const char *text; /* of a text its contents, of anything else the JSON as written */
    size_t n;         /* elements of a list, members of an object, in the order of the file */
    struct pg_config *items;
} pg_config;

/* Reads a file that holds one JSON object; the caller releases *out with pg_config_close().
 * PG_E_FORMAT: it is not one, a key occurs twice, or a text holds a NUL; PG_E_LIMIT: more than 1
 * MiB, or nested more than 32 deep; PG_E_IO. Messages start with the path. */
PG_API PG_MUST_USE pg_status pg_config_open(pg_config **out, const char *path, pg_err *err);
/* The same from memory: n bytes that messages call `name`. */
PG_API PG_MUST_USE pg_status pg_config_parse(pg_config **out, const char *text, size_t n,
                                             const char *name, pg_err *err);
PG_API void pg_config_close(pg_config *root); /* NULL is allowed */

#ifdef __cplusplus
}
#endif

#endif

/* plain_config.h - descriptions of models with plain lists. */
#ifndef PG_FORMAT_PLAIN_CONFIG_H
#define PG_FORMAT_PLAIN_CONFIG_H

#include "base/str.h"

/* Appends valid JSON, but with the list alone where Keras' legacy formats (json_utils.py) mark what
 * it was: {"class_name": "__tuple__" or "TensorShape", "items": [...]}. */
pg_status pg__plain_config(pg__str *out, const char *json, size_t n, pg_err *err);

#endif

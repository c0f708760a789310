/* safetensors.h - what the reader and the writer of safetensors share. */
#ifndef PG_FORMAT_SAFETENSORS_H
#define PG_FORMAT_SAFETENSORS_H

#include "base/json.h"
#include "format/format.h"

#define PG_ST_METADATA "__metadata__" /* the only key of the header that is not a tensor */
#define PG_ST_ALIGN    8u             /* of the first tensor, by spaces after the header */

/* The format's name for a type ("F32"). */
const char *pg__st_dtype_word(pg_dtype dtype);

/* Writer, and comparison of the metadata, of pg__fmt_safetensors. */
pg_status pg__st_write(pg__sink *sink, const pg__plan *plan, pg_err *err);
pg_status pg__st_verify(pg_store *out, const pg__plan *plan, pg_err *err);

#endif

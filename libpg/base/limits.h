/* limits.h - the limits that libpg sets for files from strangers; limits that concern one format or
 * layer only are beside their code. */
#ifndef PG_BASE_LIMITS_H
#define PG_BASE_LIMITS_H

#define PG_LIMIT_CHUNK_BYTES   ((uint64_t)1 << 30) /* one chunk of a chunked dataset */
#define PG_LIMIT_DEFLATE_RATIO 1032u               /* deflate's best: declared <= ratio * stored + slack */
#define PG_LIMIT_DEFLATE_SLACK 65536u
#define PG_LIMIT_ATTR_BYTES    ((uint64_t)64 << 20)
#define PG_LIMIT_GROUP_DEPTH   64u
#define PG_LIMIT_OBJECTS       1000000u
#define PG_LIMIT_ATTRS         65536u /* per object */
#define PG_LIMIT_STRINGS       5000000u /* in the attributes of an HDF5 file */
#define PG_LIMIT_KEPT_ATTRS    4096u /* copied per object; HDF5 takes quadratic time to write them */
#define PG_LIMIT_NAME_BYTES    65535u
#define PG_LIMIT_JSON_BYTES    ((uint64_t)64 << 20)
#define PG_LIMIT_MANIFEST_BYTES PG_LIMIT_JSON_BYTES
#define PG_LIMIT_JSON_DEPTH    512u
#define PG_LIMIT_JSON_TOKENS   5000000u
#define PG_LIMIT_JSON_MEMORY   ((uint64_t)320 << 20) /* of the parsed form */
#define PG_LIMIT_MODEL_DEPTH   32u /* models inside models */
#define PG_LIMIT_ST_HEADER     100000000u /* the safetensors reference's own cap */
#define PG_LIMIT_PICKLE_BYTES  ((uint64_t)256 << 20)
#define PG_LIMIT_PICKLE_OPS    10000000u
#define PG_LIMIT_PICKLE_STACK  1000000u
#define PG_LIMIT_PICKLE_MEMO   1000000u
#define PG_LIMIT_PICKLE_DEPTH  64u
#define PG_LIMIT_ZIP_MEMBERS   1000000u
#define PG_LIMIT_ZIP_DIR_BYTES ((uint64_t)256 << 20)
#define PG_LIMIT_IMAGE_BYTES   ((uint64_t)1 << 30) /* one picture, decoded */

#define PG_COPY_BYTES ((size_t)256 << 10) /* buffer for tensor bytes; larger ones measured slower */

#endif

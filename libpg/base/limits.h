/* limits.h - every ceiling that libpg sets for its input, in one place, each with its reason.
 * tests/base/test_limits.c meets those that a small file can. */
#ifndef PG_BASE_LIMITS_H
#define PG_BASE_LIMITS_H

/* clang-format off */

/* ---- HDF5 ---- */
#define PG_LIMIT_CHUNK_BYTES   ((uint64_t)1 << 30)   /* one chunk is decoded in memory */
#define PG_LIMIT_DECODED_BYTES ((size_t)256 << 20)   /* decoded chunks that are kept; fewer, of larger ones */
#define PG_LIMIT_DEFLATE_RATIO 1032u                 /* deflate's best: declared <= ratio * stored + slack */
#define PG_LIMIT_DEFLATE_SLACK 65536u                /* so that small members need not reach it */
#define PG_LIMIT_ATTR_BYTES    ((uint64_t)64 << 20)  /* an attribute is held in memory */
#define PG_LIMIT_GROUP_DEPTH   64u                   /* paths are walked in arrays of this size */
#define PG_LIMIT_BTREE_LEVEL   16u                   /* more than 2^64 entries need */
#define PG_LIMIT_OBJECTS       1000000u              /* each costs some hundred bytes while a file is open */
#define PG_LIMIT_ATTRS         65536u                /* of one object: their names are compared with each other */
#define PG_LIMIT_MESSAGES      (2 * PG_LIMIT_ATTRS)  /* of an object's header: its attributes and their gaps */
#define PG_LIMIT_STRINGS       5000000u              /* in the attributes of a file, each allocated */
#define PG_LIMIT_KEPT_ATTRS    4096u                 /* copied per object; HDF5 takes quadratic time to write them */
#define PG_LIMIT_NAME_BYTES    65535u                /* what a length of 16 bits can say */

/* ---- JSON, models ---- */
#define PG_LIMIT_JSON_BYTES     ((uint64_t)64 << 20) /* the text is held in memory */
#define PG_LIMIT_MANIFEST_BYTES PG_LIMIT_JSON_BYTES  /* it is JSON */
#define PG_LIMIT_JSON_DEPTH     512u                 /* arrays of this size keep what is open */
#define PG_LIMIT_JSON_TOKENS    5000000u             /* each becomes a value in memory */
#define PG_LIMIT_JSON_MEMORY    ((uint64_t)320 << 20) /* of the parsed form */
#define PG_LIMIT_MODEL_DEPTH    32u                  /* models inside models: functions call themselves for each */
#define PG_LIMIT_CATEGORIES     1048576              /* of a category layer: each is compared with each number */
#define PG_LIMIT_CONSTANT       (1u << 20)           /* elements in a description: more than any per-channel table */
#define PG_LIMIT_ORDER_STATES   ((size_t)1000000)    /* tried to prove an order of weights; beyond, it is not proven */

/* ---- PyTorch, NumPy, archives ---- */
#define PG_LIMIT_ST_HEADER     100000000u            /* the safetensors reference's own cap */
#define PG_LIMIT_NPY_HEADER    ((size_t)1 << 20)     /* a type and a shape need a hundred bytes */
#define PG_LIMIT_PICKLE_BYTES  ((uint64_t)256 << 20) /* the text is held in memory */
#define PG_LIMIT_PICKLE_OPS    10000000u             /* each takes time; of what may be compressed: loops of references make more of few bytes */
#define PG_LIMIT_PICKLE_STACK  1000000u              /* values and marks at a time */
#define PG_LIMIT_PICKLE_MEMO   1000000u              /* the highest number that a value may be remembered under */
#define PG_LIMIT_PICKLE_DEPTH  64u                   /* functions call themselves for each container */
#define PG_LIMIT_ZIP_MEMBERS   1000000u              /* each has an entry in memory */
#define PG_LIMIT_ZIP_DIR_BYTES ((uint64_t)256 << 20) /* the directory is held in memory */

/* ---- checkpoints of TensorFlow ---- */
#define PG_LIMIT_TF_INDEX_BYTES ((uint64_t)256 << 20) /* the index and its names are held in memory */
#define PG_LIMIT_TF_SHARDS      65536u               /* each is a file that stays open */

/* ---- checkpoints of many ranks ---- */
#define PG_LIMIT_TILE_PAIRS    ((uint64_t)100000000) /* of pieces that may overlap are compared: 14,000 side by side */
#define PG_LIMIT_NAMES_BYTES   ((uint64_t)256 << 20) /* of all names, once they are not shortened any more */

/* ---- folders, data, runs ---- */
#define PG_LIMIT_FOLDERS       32                    /* deep, searched for files: a link may lead back */
#define PG_LIMIT_SHARD_DEPTH   16u                   /* folders between an index and its shards; pgsplit makes fewer */
#define PG_LIMIT_IMAGE_BYTES   ((uint64_t)1 << 30)   /* one picture, decoded */
#define PG_LIMIT_PICTURE_BYTES ((uint64_t)1 << 30)   /* one picture's file, held in memory */
#define PG_LIMIT_CSV_LINE      ((size_t)64 << 20)    /* a line is held in memory */
#define PG_LIMIT_CLASSES       1000000               /* with a weight of their own, in an array up to the highest */
#define PG_LIMIT_RATES_BYTES   16000000u             /* of a table of learning rates: a million epochs */

/* clang-format on */

#ifdef __EMSCRIPTEN__
#define PG_COPY_BYTES ((size_t)1 << 20) /* each call waits for the browser */
#define PG_READS_DEAR 1 /* a file is read once, see pg__save_opts: twice took half of the time */
#else
#define PG_COPY_BYTES ((size_t)256 << 10) /* buffer for tensor bytes; larger ones are slower */
#define PG_READS_DEAR 0
#endif
#define PG_SUM_LEAST ((uint64_t)64 << 10) /* smaller tensors are read twice all the same */

/* Rows that are put together of pieces: from 256 files, each gives 32 KiB at a time. */
#define PG_TILES_WINDOW ((size_t)8 << 20)
#define PG_TILES_READ   ((size_t)64 << 10) /* from each of a few pieces */
#define PG_TILES_LEAST  ((size_t)512 << 10)
#define PG_TILES_DIRECT ((size_t)128 << 10) /* of a few pieces, without a window */

#endif

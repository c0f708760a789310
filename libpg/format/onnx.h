/* onnx.h - ONNX files (onnx.proto of ONNX 1.16, protobuf): fmt_onnx.c reads their initialisers as
 * tensors, onnx_write.c writes them. */
#ifndef PG_FORMAT_ONNX_H
#define PG_FORMAT_ONNX_H

#include "base/proto.h"
#include "format/format.h"

/* Numbers of fields. */
enum { /* ModelProto */
       PG_ONNX_IR_VERSION = 1,
       PG_ONNX_PRODUCER = 2,
       PG_ONNX_PRODUCER_VERSION = 3,
       PG_ONNX_DOC = 6,
       PG_ONNX_GRAPH = 7,
       PG_ONNX_OPSET = 8,
       PG_ONNX_METADATA = 14
};
enum { PG_ONNX_OPSET_DOMAIN = 1, PG_ONNX_OPSET_VERSION = 2 };
enum { PG_ONNX_KEY = 1, PG_ONNX_VALUE = 2 }; /* StringStringEntryProto */
enum {                                       /* GraphProto */
       PG_ONNX_NODE = 1,
       PG_ONNX_GRAPH_NAME = 2,
       PG_ONNX_INITIALIZER = 5,
       PG_ONNX_INPUT = 11,
       PG_ONNX_OUTPUT = 12,
       PG_ONNX_SPARSE = 15
};
enum { /* NodeProto */
       PG_ONNX_NODE_INPUT = 1,
       PG_ONNX_NODE_OUTPUT = 2,
       PG_ONNX_NODE_NAME = 3,
       PG_ONNX_NODE_OP = 4,
       PG_ONNX_NODE_ATTR = 5,
       PG_ONNX_NODE_DOMAIN = 7
};
enum { /* AttributeProto, and its values of `type` */
       PG_ONNX_ATTR_NAME = 1,
       PG_ONNX_ATTR_F = 2,
       PG_ONNX_ATTR_I = 3,
       PG_ONNX_ATTR_S = 4,
       PG_ONNX_ATTR_G = 6,
       PG_ONNX_ATTR_FLOATS = 7,
       PG_ONNX_ATTR_INTS = 8,
       PG_ONNX_ATTR_STRINGS = 9,
       PG_ONNX_ATTR_TYPE = 20
};
enum {
    PG_ONNX_FLOAT = 1,
    PG_ONNX_INT,
    PG_ONNX_STRING,
    PG_ONNX_GRAPH_ATTR = 5,
    PG_ONNX_FLOATS = 6,
    PG_ONNX_INTS,
    PG_ONNX_STRINGS
};
enum { /* TensorProto */
       PG_ONNX_DIMS = 1,
       PG_ONNX_DATA_TYPE = 2,
       PG_ONNX_FLOAT_DATA = 4,
       PG_ONNX_INT32_DATA = 5,
       PG_ONNX_STRING_DATA = 6,
       PG_ONNX_INT64_DATA = 7,
       PG_ONNX_TENSOR_NAME = 8,
       PG_ONNX_RAW = 9,
       PG_ONNX_DOUBLE_DATA = 10,
       PG_ONNX_UINT64_DATA = 11,
       PG_ONNX_EXTERNAL = 13,
       PG_ONNX_LOCATION = 14
};
enum { /* ValueInfoProto, TypeProto, TypeProto.Tensor, TensorShapeProto, Dimension */
       PG_ONNX_VALUE_NAME = 1,
       PG_ONNX_VALUE_TYPE = 2,
       PG_ONNX_TYPE_TENSOR = 1,
       PG_ONNX_ELEM_TYPE = 1,
       PG_ONNX_SHAPE = 2,
       PG_ONNX_DIM = 1,
       PG_ONNX_DIM_VALUE = 1,
       PG_ONNX_DIM_PARAM = 2
};

/* ---- onnx_message.c: fields of a message in a file ---- */

#define PG_ONNX_WINDOW     ((size_t)64 << 10)
#define PG_ONNX_TEXT_BYTES ((uint64_t)65535) /* of a name, a path, a type */

typedef struct pg__onnx_reader {
    pg__io *io;
    unsigned char *window; /* of PG_ONNX_WINDOW bytes */
    uint64_t first;        /* byte of the file where it begins */
    size_t n;
} pg__onnx_reader;

/* A message is a range of the file; a field of bytes is one, too. */
typedef struct pg__onnx_range {
    uint64_t at, end;
} pg__onnx_range;

typedef struct pg__onnx_field {
    uint32_t number;
    int type;
    uint64_t value;
    pg__onnx_range bytes;
} pg__onnx_field;

/* Up to n bytes from `at` on in memory, without a copy; *got: how many of them there are. */
pg_status pg__onnx_look(pg__onnx_reader *r, uint64_t at, uint64_t end, size_t n,
                        const unsigned char **out, size_t *got, pg_err *err);
/* The next field of m, which moves behind it; *is_end: there is none. */
pg_status pg__onnx_next(pg__onnx_reader *r, pg__onnx_range *m, pg__onnx_field *f, int *is_end,
                        pg_err *err);
/* The bytes of a field, at most PG_ONNX_TEXT_BYTES. */
pg_status pg__onnx_bytes(pg__onnx_reader *r, pg__onnx_range m, pg__str *out, pg_err *err);
/* Compares a message of the file with what it was to hold, in which fields `skipped` are passed
 * over. */
pg_status pg__onnx_same(pg__onnx_reader *r, pg__onnx_range m, pg__proto want, uint32_t skipped,
                        pg_err *err);
/* Compares a file with the plan that it was to hold, all but the initialisers. */
pg_status pg__onnx_verify(pg__io *io, const pg__plan *plan, pg_err *err);
/* Appends " (batch, 3) float32" for a TypeProto. */
pg_status pg__onnx_show_type(pg__str *out, const pg__field *type, pg_err *err);

/* ---- onnx_write.c ---- */

/* TensorProto.DataType of a type, and back: 0 if there is none. */
int64_t pg__onnx_type_of(pg_dtype dtype);
int pg__onnx_dtype_of(pg_dtype *out, uint64_t type);

/* Runtimes want small constants in the model itself, not in a file beside it. */
#define PG_ONNX_LEAST_OUTSIDE 1024 /* bytes */

/* Appends shape, type and name of a TensorProto. */
pg_status pg__onnx_tensor_head(pg__str *out, const pg_weight *w, const char *name, pg_err *err);

/* Writes a plan whose model_config is a ModelProto without initialisers; the plan's items become
 * these. */
pg_status pg__onnx_write(pg__sink *sink, const pg__plan *plan, pg_err *err);

#endif

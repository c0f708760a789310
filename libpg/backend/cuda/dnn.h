/* dnn.h - convolutions of NHWC images: cuDNN (dnn_cudnn.c) or plain loops (host_dnn.c). Kernels lie
 * in memory as (filters, spatial, channels / groups), which cuDNN calls KRSC: a caller whose
 * kernels are Keras' (spatial, channels / groups, filters) transposes them first. */
#ifndef PG_BACKEND_DNN_H
#define PG_BACKEND_DNN_H

#include "backend/cuda/cuda.h"

typedef enum pg__dnn_kind {
    PG_DNN_FORWARD, /* a: x, b: kernel, c: y */
    PG_DNN_DATA,    /* a: dy, b: kernel, c: dx */
    PG_DNN_FILTER   /* a: x, b: dy, c: dkernel */
} pg__dnn_kind;

typedef struct pg__dnn_conv {
    pg__dnn_kind kind;
    pg__conv_attrs conv;
    pg__dims x, y;     /* (rows, spatial, channels), (rows, spatial, filters) */
    int bias;          /* FORWARD: bias[filter] is added */
    int relu;          /* FORWARD: and what is below 0 becomes 0 */
    pgk_type type;     /* of x and y and kernel; the bias is float */
    pgk_type out_type; /* of c */
} pg__dnn_conv;

/* A convolution as a piece of work; its arrays are those of pg__dnn_run(). */
pg__pick_case pg__dnn_case(const pg__dnn_conv *c);

typedef struct pg__dnn_plan pg__dnn_plan;

/* What a device needs of the library, in d->dnn. */
pg_status pg__dnn_open(pg__dev *d, pg_err *err);
void pg__dnn_close(pg__dev *d);

/* needs->scratch_bytes: as for pg__blas_new(). PG_E_NO: no engine supports this shape. */
pg_status pg__dnn_new(pg__dnn_plan **out, pg__dev *d, const pg__dnn_conv *c, pg__needs *needs,
                      pg_err *err);
void pg__dnn_free(pg__dnn_plan *p);
/* The failure is the device's. */
pg_status pg__dnn_run(pg__dev *d, const pg__dnn_plan *p, const void *a, const void *b, void *c,
                      const void *bias, void *scratch);

#endif

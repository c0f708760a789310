/* predict.h - what the written model gives for some rows: for the test data beside an ONNX file,
 * and to say by how much rounded weights change a prediction. The trainer predicts; an ONNX file
 * itself is not run here. */
#ifndef PG_ONNX_PREDICT_H
#define PG_ONNX_PREDICT_H

#include <sys/stat.h>

#include "onnx/onnx.h"
#include "pg/predict.h"

/* Rows of all inputs, and what the model makes of them. */
typedef struct pg__onnx_rows {
    uint64_t n;
    pg_array *inputs;      /* of the graph's types; keys and values owned */
    pg_weight *outputs;    /* without names */
    unsigned char **given; /* values of each output, owned */
    size_t n_inputs, n_outputs;
    uint64_t open; /* of made-up rows: the size that the model leaves open */
    int has_open;  /* there is one */
} pg__onnx_rows;

/* The first rows of a file, .npy or .npz; path NULL: made-up rows. */
pg_status pg__onnx_rows_of(pg__onnx_rows *r, const pg__onnx *x, const char *path, pg_err *err);
void pg__onnx_rows_fini(pg__onnx_rows *r);

/* The file and o->model, which the trainer opens again by their names: PG_E_IO the second time if
 * one of them is another by then, so that the trainer's model may not be that of the graph. */
typedef struct pg__onnx_seen {
    struct stat of[2];
} pg__onnx_seen;
pg_status pg__onnx_see_sources(pg__onnx_seen *s, const char *in, const pg_onnx_opts *o,
                               pg_err *err);
pg_status pg__onnx_check_sources(const pg__onnx_seen *s, const char *in, const pg_onnx_opts *o,
                                 pg_err *err);

/* A trainer that predicts with the weights of the source; `in` is the file. */
pg_status pg__onnx_trainer(pg_trainer **out, const char *in, const pg_onnx_opts *o, pg_err *err);
/* Fills outputs and their values; call it again when the weights are others. */
pg_status pg__onnx_predict(pg__onnx_rows *r, pg_trainer *t, pg_err *err);

/* quantize.c: the trainer's weights become what the graph's are. */
pg_status pg__onnx_quantize_trainer(pg_trainer *t, const pg__onnx *x, pg_err *err);

/* test_data.c: a folder of test data as ONNX itself has them,
 * OUT.onnx.test/test_data_set_0/{input,output}_K.pb. */
typedef struct pg__onnx_test {
    pg__str path, temporary, older; /* the folder; where it is made; the one that it replaces */
    int lock;                       /* 1 + the temporary's descriptor; 0: none */
    int is_named, is_exchanged;     /* it has its name; in one step with `older` */
} pg__onnx_test;

/* Before anything is predicted: PG_E_ARG if the folder exists (without force), or has other files.
 */
pg_status pg__onnx_test_check(pg__onnx_test *t, const char *out, int force, pg_err *err);
/* Writes the folder under a temporary name. */
pg_status pg__onnx_test_write(pg__onnx_test *t, const pg__onnx *x, const pg__onnx_rows *r,
                              pg_err *err);
pg_status pg__onnx_test_commit(pg__onnx_test *t, pg_err *err);
/* has_model: the model has its name; if not, what was there before comes back. {0} is allowed. */
void pg__onnx_test_close(pg__onnx_test *t, int has_model);

#endif

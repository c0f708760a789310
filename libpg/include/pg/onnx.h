/* onnx.h - a model as ONNX, for what runs it elsewhere: ONNX Runtime, TensorRT, OpenVINO, browsers.
 *
 *     pg_err err;
 *     pg_onnx_report rep = {0};
 *     if (pg_onnx_file("model.h5", "model.onnx", NULL, &rep, &err) != PG_OK)
 *         fprintf(stderr, "%s\n", err.msg);
 *     pg_onnx_report_fini(&rep);
 */
#ifndef PG_ONNX_H
#define PG_ONNX_H

#include "pg/convert.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pg_onnx_opts {
    pg_write_opts write;
    const char *model;      /* the description, if `in` has none */
    const char *model_text; /* the text of one: `model` then only names it */
    const char *dtype;      /* "float32" (the same as NULL), "float16", "bfloat16": of the weights
                               and of what is computed, but for what ids and masks are made of.
                               Inputs keep theirs; outputs are float32 (or int32) */
    int opset;              /* 13 to 24; 0: 13, in bfloat16 22 */
    uint64_t batch;         /* rows that each run gets; 0: any number */
    const char *sizes;      /* "64,64": for dimensions of inputs that the model leaves open, in
                               order; NULL: they stay open */
    int channels_first;     /* images come and go as (rows, channels, height, width) */
    int fold_bn;            /* normalisations after convolutions go into the kernels */
    uint64_t
        external_above;   /* a model of more bytes has its tensors in OUT.data, beside it, each at
                             a multiple of 4096; 0: 2 GB, which is as large as one file may be */
    const char *check;    /* .npy or .npz with rows of the inputs: the first of them, at most 16,
                             and what the model gives for them are written into OUT.test, a folder
                             as ONNX keeps the data of its own tests; NULL: none */
    const char *quantize; /* "int8": kernels become int8 numbers with a scale for each output
                             channel, and float32 again before they are used; NULL: none */
} pg_onnx_opts;

typedef struct pg_onnx_report {
    int opset;
    size_t n_nodes, n_inits;    /* of the graph */
    size_t n_tensors;           /* variables of the model */
    size_t n_verified;          /* initialisers, read back and equal */
    uint64_t n_params, n_bytes; /* elements and bytes of initialisers */
    uint64_t file_bytes;        /* dry_run: 0 */
    char *data_file;            /* of tensors, beside the model; NULL: there is none */
    uint64_t data_bytes;
    char *test_folder; /* or NULL */
    uint64_t n_rows;   /* that were predicted, for the test data or to see what quantizing does */
    size_t n_quantized;
    double max_change;    /* of a number that the model gives for these rows, by quantizing */
    double max_given;     /* the largest of these numbers */
    double max_rel_error; /* of rounding, with dtype */
    char **notes;         /* one line each */
    size_t n_notes;
} pg_onnx_report;

/* Releases what a report owns and zeroes it. NULL and {0} are allowed. */
PG_API void pg_onnx_report_fini(pg_onnx_report *r);

/* Writes the model of `in`, a full model, or weights with a description, as it predicts. A
 * wrapper's file gives its one-device model. The output appears whole or not at all, with what lies
 * beside it; every initialiser is read back and compared with its source. opts and report may be
 * NULL; *report must be zeroed. Errors: PG_E_UNSUPPORTED names the layer that has no counterpart in
 * ONNX; those of pg_convert_open(). */
PG_API PG_MUST_USE pg_status pg_onnx_file(const char *in, const char *out, const pg_onnx_opts *opts,
                                          pg_onnx_report *report, pg_err *err);

/* *out: 1 if ONNX has operators for what a layer class computes in a prediction; some of its
 * configurations may still be refused. */
PG_API PG_MUST_USE pg_status pg_onnx_says(int *out, const char *class_name, pg_err *err);

#ifdef __cplusplus
}
#endif

#endif

/* Each thing that cuDNN demands is refused by its emulation where it is missing (cudnn_host.h), and
 * by the library itself where that can be asked without a GPU (-DREAL_CUDNN); what the back end
 * calls meets no refusal. */
#include "pg_test.h"

#include <cudnn.h>

#ifndef REAL_CUDNN
#include "backend/cuda/cudnn_graph.h"
#include "backend/cuda/dnn.h"
#include "backend/cuda/dnn_rnn.h"
#include "backend/cuda/plugin.h"
#include "cudnn_host.h"
#endif

#define TRY(call)                        \
    do {                                 \
        const cudnnStatus_t s_ = (call); \
        if (s_ != CUDNN_STATUS_SUCCESS)  \
            return s_;                   \
    } while (0)

/* What is called, and how it ends. Kinds of a bad parameter are not told apart: versions differ. */
typedef struct refused {
    const char *what;
    cudnnStatus_t (*call)(void);
    cudnnStatus_t by;
} refused;

static void check_all(const refused *all, size_t n)
{
    for (size_t k = 0; k < n; k++) {
        const cudnnStatus_t s = all[k].call();
        if (s / 1000 != all[k].by / 1000)
            fail_msg("%s: %s", all[k].what, cudnnGetErrorString(s));
    }
}

static cudnnBackendDescriptor_t made(cudnnBackendDescriptorType_t type)
{
    cudnnBackendDescriptor_t d = NULL;
    assert_int_equal(cudnnBackendCreateDescriptor(type, &d), CUDNN_STATUS_SUCCESS);
    return d;
}

static cudnnStatus_t set(cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
                         cudnnBackendAttributeType_t type, int64_t n, const void *v)
{
    return cudnnBackendSetAttribute(d, name, type, n, v);
}

static cudnnStatus_t ended(cudnnBackendDescriptor_t d, cudnnStatus_t s)
{
    (void)cudnnBackendDestroyDescriptor(d);
    return s;
}

/* ---- tensors ---- */

typedef struct wanted {
    int64_t align, n_strides;
    int has_uid;
    int64_t fewer, closer; /* rows than 4, elements from row to row than 32 */
} wanted;

static cudnnStatus_t tensor(cudnnBackendDescriptor_t *out, int64_t uid, wanted w)
{
    const int64_t dims[] = {4 - w.fewer, 8, 2, 2}, strides[] = {32 - w.closer, 1, 16, 8};
    const cudnnDataType_t type = CUDNN_DATA_FLOAT;
    cudnnBackendDescriptor_t t = *out = made(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    TRY(set(t, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type));
    TRY(set(t, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, dims));
    TRY(set(t, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, w.n_strides, strides));
    if (w.has_uid)
        TRY(set(t, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &uid));
    if (w.align)
        TRY(set(t, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &w.align));
    return cudnnBackendFinalize(t);
}

static cudnnStatus_t one_tensor(wanted w)
{
    cudnnBackendDescriptor_t t;
    const cudnnStatus_t s = tensor(&t, 1, w);
    return ended(t, s);
}

static cudnnStatus_t a_whole_tensor(void)
{
    return one_tensor((wanted){16, 4, 1, 0, 0});
}

static cudnnStatus_t no_alignment(void)
{
    return one_tensor((wanted){0, 4, 1, 0, 0});
}

static cudnnStatus_t an_odd_alignment(void)
{
    return one_tensor((wanted){3, 4, 1, 0, 0});
}

static cudnnStatus_t less_than_an_element(void)
{
    return one_tensor((wanted){2, 4, 1, 0, 0});
}

static cudnnStatus_t too_few_strides(void)
{
    return one_tensor((wanted){16, 3, 1, 0, 0});
}

static cudnnStatus_t less_than_no_rows(void)
{
    return one_tensor((wanted){16, 4, 1, 5, 0});
}

static cudnnStatus_t rows_that_run_backwards(void)
{
    return one_tensor((wanted){16, 4, 1, 0, 64});
}

static cudnnStatus_t set_when_finished(void)
{
    const int64_t align = 32;
    cudnnBackendDescriptor_t t;
    assert_int_equal(tensor(&t, 1, (wanted){16, 4, 1, 0, 0}), CUDNN_STATUS_SUCCESS);
    return ended(t, set(t, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &align));
}

static cudnnStatus_t finished_twice(void)
{
    cudnnBackendDescriptor_t t;
    assert_int_equal(tensor(&t, 1, (wanted){16, 4, 1, 0, 0}), CUDNN_STATUS_SUCCESS);
    return ended(t, cudnnBackendFinalize(t));
}

static cudnnStatus_t another_type(void)
{
    const int64_t type = CUDNN_DATA_FLOAT;
    cudnnBackendDescriptor_t t = made(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    return ended(t, set(t, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_INT64, 1, &type));
}

/* ---- convolutions ---- */

static cudnnStatus_t convolution(int64_t n_paddings)
{
    static const cudnnBackendAttributeName_t lists[] = {
        CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS,
        CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES};
    const int64_t rank = 2, ones[] = {1, 1};
    const cudnnDataType_t type = CUDNN_DATA_FLOAT;
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    cudnnBackendDescriptor_t c = made(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    TRY(set(c, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &rank));
    TRY(set(c, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type));
    TRY(set(c, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode));
    for (size_t k = 0; k < sizeof lists / sizeof *lists; k++)
        TRY(set(c, lists[k], CUDNN_TYPE_INT64, k == 0 ? n_paddings : rank, ones));
    return ended(c, cudnnBackendFinalize(c));
}

static cudnnStatus_t a_whole_convolution(void)
{
    return convolution(2);
}

static cudnnStatus_t fewer_paddings_than_dimensions(void)
{
    return convolution(1);
}

/* ---- operations and graphs ---- */

/* y = max(x, 0), and the graph of it. */
typedef struct ramp {
    cudnnBackendDescriptor_t x, y, how, op, graph;
} ramp;

static void drop(const ramp *r)
{
    const cudnnBackendDescriptor_t all[] = {r->graph, r->op, r->how, r->y, r->x};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++)
        if (all[k])
            (void)cudnnBackendDestroyDescriptor(all[k]);
}

static cudnnStatus_t draw(ramp *r, int64_t uid_y, int is_finished, int has_y)
{
    const cudnnPointwiseMode_t mode = CUDNN_POINTWISE_RELU_FWD;
    const cudnnDataType_t type = CUDNN_DATA_FLOAT;
    const cudnnBackendAttributeType_t link = CUDNN_TYPE_BACKEND_DESCRIPTOR;
    *r = (ramp){NULL, NULL, NULL, NULL, NULL};
    TRY(tensor(&r->x, 1, (wanted){16, 4, 1, 0, 0}));
    TRY(tensor(&r->y, uid_y, (wanted){16, 4, 1, 0, 0}));
    r->how = made(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    TRY(set(r->how, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode));
    TRY(set(r->how, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &type));
    TRY(cudnnBackendFinalize(r->how));
    r->op = made(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    TRY(set(r->op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, link, 1, &r->how));
    TRY(set(r->op, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, link, 1, &r->x));
    if (has_y)
        TRY(set(r->op, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, link, 1, &r->y));
    if (is_finished)
        TRY(cudnnBackendFinalize(r->op));
    r->graph = made(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    return set(r->graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, link, 1, &r->op);
}

static cudnnStatus_t drawn(int64_t uid_y, int is_finished, int has_y)
{
    ramp r;
    const cudnnStatus_t s = draw(&r, uid_y, is_finished, has_y);
    drop(&r);
    return s;
}

static cudnnStatus_t a_whole_operation(void)
{
    return drawn(2, 1, 1);
}

static cudnnStatus_t no_result(void)
{
    return drawn(2, 1, 0);
}

static cudnnStatus_t an_unfinished_operation(void)
{
    return drawn(2, 0, 1);
}

static cudnnStatus_t a_plan_of_nothing(void)
{
    cudnnBackendDescriptor_t p = made(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    return ended(p, cudnnBackendFinalize(p));
}

static cudnnStatus_t the_workspace_of_no_plan(void)
{
    int64_t n = 0, bytes = 0;
    cudnnBackendDescriptor_t p = made(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    return ended(p, cudnnBackendGetAttribute(p, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                             CUDNN_TYPE_INT64, 1, &n, &bytes));
}

/* ---- packs ---- */

static cudnnStatus_t pack(cudnnBackendDescriptor_t *out, int64_t n, const int64_t *ids,
                          int64_t n_at, void *const *at, void *const *workspace)
{
    cudnnBackendDescriptor_t v = *out = made(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    TRY(set(v, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, n, ids));
    TRY(set(v, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, n_at, at));
    TRY(set(v, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, workspace));
    return cudnnBackendFinalize(v);
}

static cudnnStatus_t fewer_addresses_than_ids(void)
{
    static char memory[256];
    const int64_t ids[] = {1, 2, 3};
    void *const at[] = {memory, memory + 64};
    cudnnBackendDescriptor_t v;
    const cudnnStatus_t s = pack(&v, 3, ids, 2, at, at);
    return ended(v, s);
}

/* ---- recurrent layers ---- */

typedef struct size {
    int32_t inputs, units, projected, layers;
} size;

static const size usual = {8, 16, 16, 1};

/* As the back end asks for it: 16 bits in tensor cores. */
static cudnnStatus_t layer(cudnnDataType_t type, cudnnDataType_t prec, size n)
{
    cudnnRNNDescriptor_t r = NULL;
    TRY(cudnnCreateRNNDescriptor(&r));
    const cudnnStatus_t s = cudnnSetRNNDescriptor_v8(
        r, CUDNN_RNN_ALGO_STANDARD, CUDNN_LSTM, CUDNN_RNN_NO_BIAS, CUDNN_UNIDIRECTIONAL,
        CUDNN_LINEAR_INPUT, type, prec,
        type == CUDNN_DATA_FLOAT ? CUDNN_FMA_MATH : CUDNN_TENSOR_OP_MATH, n.inputs, n.units,
        n.projected, n.layers, NULL, CUDNN_RNN_PADDED_IO_ENABLED);
    (void)cudnnDestroyRNNDescriptor(r);
    return s;
}

#define LAYER(name, type, prec, ...)                                     \
    static cudnnStatus_t name(void)                                      \
    {                                                                    \
        return layer(CUDNN_DATA_##type, CUDNN_DATA_##prec, __VA_ARGS__); \
    }
LAYER(a_whole_layer, FLOAT, FLOAT, usual)
LAYER(a_layer_in_float16, HALF, FLOAT, usual)
LAYER(a_layer_in_bfloat16, BFLOAT16, FLOAT, usual)
LAYER(no_inputs, FLOAT, FLOAT, (size){0, 16, 16, 1})
LAYER(no_units, FLOAT, FLOAT, (size){8, 0, 0, 1})
LAYER(no_layers, FLOAT, FLOAT, (size){8, 16, 16, 0})
LAYER(more_projected_than_there_are, FLOAT, FLOAT, (size){8, 16, 17, 1})
LAYER(sums_of_float_in_half, FLOAT, HALF, usual)
LAYER(sums_of_bfloat16_in_16_bits, BFLOAT16, BFLOAT16, usual)

static cudnnStatus_t sequences(const int *lengths, int steps, int rows, int width)
{
    cudnnRNNDataDescriptor_t d = NULL;
    TRY(cudnnCreateRNNDataDescriptor(&d));
    const cudnnStatus_t s =
        cudnnSetRNNDataDescriptor(d, CUDNN_DATA_FLOAT, CUDNN_RNN_DATA_LAYOUT_BATCH_MAJOR_UNPACKED,
                                  steps, rows, width, lengths, NULL);
    (void)cudnnDestroyRNNDataDescriptor(d);
    return s;
}

static cudnnStatus_t whole_sequences(void)
{
    return sequences((const int[]){5, 5, 5, 5}, 5, 4, 8);
}

static cudnnStatus_t a_longer_sequence(void)
{
    return sequences((const int[]){5, 6, 5, 5}, 5, 4, 8);
}

static cudnnStatus_t a_sequence_of_less_than_nothing(void)
{
    return sequences((const int[]){5, -1, 5, 5}, 5, 4, 8);
}

static cudnnStatus_t no_lengths(void)
{
    return sequences(NULL, 5, 4, 8);
}

static cudnnStatus_t no_steps(void)
{
    return sequences((const int[]){0, 0, 0, 0}, 0, 4, 8);
}

static cudnnStatus_t no_rows(void)
{
    return sequences((const int[]){5}, 5, 0, 8);
}

static cudnnStatus_t rows_of_nothing(void)
{
    return sequences((const int[]){5, 5, 5, 5}, 5, 4, 0);
}

static const refused described[] = {
    {"a whole tensor", a_whole_tensor, CUDNN_STATUS_SUCCESS},
    {"a tensor without an alignment", no_alignment, CUDNN_STATUS_BAD_PARAM},
    {"an alignment of 3", an_odd_alignment, CUDNN_STATUS_BAD_PARAM},
    {"an alignment less than an element", less_than_an_element, CUDNN_STATUS_BAD_PARAM},
    {"fewer strides than dimensions", too_few_strides, CUDNN_STATUS_BAD_PARAM},
    {"less than no rows", less_than_no_rows, CUDNN_STATUS_BAD_PARAM},
    {"rows that run backwards", rows_that_run_backwards, CUDNN_STATUS_BAD_PARAM},
    {"an attribute of what is finished", set_when_finished, CUDNN_STATUS_BAD_PARAM},
    {"finished twice", finished_twice, CUDNN_STATUS_BAD_PARAM},
    {"an attribute of another type", another_type, CUDNN_STATUS_BAD_PARAM},
    {"a whole convolution", a_whole_convolution, CUDNN_STATUS_SUCCESS},
    {"fewer paddings than dimensions", fewer_paddings_than_dimensions, CUDNN_STATUS_BAD_PARAM},
    {"a whole operation", a_whole_operation, CUDNN_STATUS_SUCCESS},
    {"an operation without a result", no_result, CUDNN_STATUS_BAD_PARAM},
    {"an operation that is not finished", an_unfinished_operation, CUDNN_STATUS_BAD_PARAM},
    {"a plan of nothing", a_plan_of_nothing, CUDNN_STATUS_BAD_PARAM},
    {"the workspace of no plan", the_workspace_of_no_plan, CUDNN_STATUS_NOT_INITIALIZED},
    {"fewer addresses than ids", fewer_addresses_than_ids, CUDNN_STATUS_BAD_PARAM},
    {"a whole layer", a_whole_layer, CUDNN_STATUS_SUCCESS},
    {"a layer in float16", a_layer_in_float16, CUDNN_STATUS_SUCCESS},
    {"a layer in bfloat16", a_layer_in_bfloat16, CUDNN_STATUS_SUCCESS},
    {"a layer without inputs", no_inputs, CUDNN_STATUS_BAD_PARAM},
    {"no layers", no_layers, CUDNN_STATUS_BAD_PARAM},
    {"a layer without units", no_units, CUDNN_STATUS_BAD_PARAM},
    {"more projected than there are", more_projected_than_there_are, CUDNN_STATUS_NOT_SUPPORTED},
    {"sums of float32 in 16 bits", sums_of_float_in_half, CUDNN_STATUS_NOT_SUPPORTED},
    {"sums of bfloat16 in 16 bits", sums_of_bfloat16_in_16_bits, CUDNN_STATUS_NOT_SUPPORTED},
    {"whole sequences", whole_sequences, CUDNN_STATUS_SUCCESS},
    {"a sequence that is too long", a_longer_sequence, CUDNN_STATUS_BAD_PARAM},
    {"no lengths", no_lengths, CUDNN_STATUS_BAD_PARAM},
    {"no steps", no_steps, CUDNN_STATUS_BAD_PARAM},
    {"a sequence of less than nothing", a_sequence_of_less_than_nothing, CUDNN_STATUS_BAD_PARAM},
    {"no rows", no_rows, CUDNN_STATUS_BAD_PARAM},
    {"rows of nothing", rows_of_nothing, CUDNN_STATUS_BAD_PARAM},
};

static void descriptions_are_refused(void **state)
{
    (void)state;
    check_all(described, sizeof described / sizeof *described);
}

#ifdef REAL_CUDNN
PG_TEST_MAIN(cmocka_unit_test(descriptions_are_refused))
#else

/* ---- what runs need ---- */

#define BYTES 65536

/* A device, and memory for all arrays of a run. */
typedef struct bench {
    pg__dev *d;
    char *at[12];
} bench;

static const pg__backend *backend(void)
{
    return pg_backend_get(PG_BACKEND_ABI);
}

static void open_bench(bench *b, pg__precision precision)
{
    const pg__dev_opts opts = {.n_threads = 1, .precision = precision};
    assert_ok(backend()->open(&b->d, 0, &opts, NULL));
    for (size_t k = 0; k < sizeof b->at / sizeof *b->at; k++) {
        void *p = NULL;
        assert_ok(pg__rt_alloc(b->d->rt, &p, BYTES, NULL));
        b->at[k] = p;
    }
}

static void close_bench(bench *b)
{
    for (size_t k = 0; k < sizeof b->at / sizeof *b->at; k++)
        pg__rt_free(b->d->rt, b->at[k]);
    backend()->close(b->d);
    assert_int_equal(host_cudnn_alive(), 0);
}

static void assert_refused(const bench *b, pg_status st, const char *why)
{
    if (st != PG_E_DEVICE || !strstr(b->d->failure.msg, why))
        fail_msg("%d, not %s: %s", (int)st, why, b->d->failure.msg);
    b->d->failure = (pg_err){0};
}

static void convolutions_run_as_cudnn_demands(void **state)
{
    static const uint64_t shape[] = {4, 8, 8, 16};
    bench b;
    (void)state;
    open_bench(&b, PG_FLOAT32);
    for (int kind = PG_DNN_FORWARD; kind <= PG_DNN_FILTER; kind++) {
        const int more = kind == PG_DNN_FORWARD;
        const pg__dnn_conv c = {.kind = (pg__dnn_kind)kind,
                                .conv = {.rank = 2,
                                         .kernel = {1, 1},
                                         .stride = {1, 1},
                                         .dilation = {1, 1},
                                         .groups = 1},
                                .x = pg__dims_of(4, shape),
                                .y = pg__dims_of(4, shape),
                                .bias = more,
                                .relu = more};
        pg__dnn_plan *p = NULL;
        pg__needs needs = {0};
        assert_ok(pg__dnn_new(&p, b.d, &c, &needs, NULL));
        char *const *at = b.at;
        assert_true(needs.scratch_bytes > 0);
        assert_ok(pg__dnn_run(b.d, p, at[0], at[1], at[2], at[3], at[4]));
        assert_refused(&b, pg__dnn_run(b.d, p, at[0] + 4, at[1], at[2], at[3], at[4]),
                       "MISALIGNED");
        assert_refused(&b, pg__dnn_run(b.d, p, at[0], at[1], at[2], at[3], at[4] + 64),
                       "MISALIGNED");
        assert_refused(&b, pg__dnn_run(b.d, p, at[0], NULL, at[2], at[3], at[4]), "NULL_POINTER");
        assert_refused(&b, pg__dnn_run(b.d, p, at[0], at[1], at[2], at[3], NULL), "NULL_POINTER");
        assert_ok(pg__rt_sync(b.d->rt, NULL));
        pg__dnn_free(p);
    }
    close_bench(&b);
}

static pg__dnn_attend_io arrays_of(const bench *b, const pg__dnn_attend *a)
{
    char *const *at = b->at;
    pg__dnn_attend_io io = {.q = at[0], .k = at[1], .v = at[2], .y = at[3], .work = at[4]};
    io.stats = a->trains ? (float *)(void *)at[5] : NULL;
    io.bias = a->masked ? at[6] : NULL;
    io.keep = a->masked ? (float *)(void *)at[7] : NULL;
    io.factors = a->has_factors ? at[8] : NULL;
    if (a->gradient) {
        io.dy = at[9];
        io.dq = at[10];
        io.dk = at[11];
        io.dv = at[11] + 1024;
    }
    return io;
}

static void attention_runs_as_cudnn_demands(void **state)
{
    bench b;
    (void)state;
    open_bench(&b, PG_FLOAT32);
    for (int k = 0; k < 16; k++) {
        const pg__dnn_attend a = {.rows = 2,
                                  .heads = 2,
                                  .t = 16,
                                  .s = 16,
                                  .a = 8,
                                  .b = 8,
                                  .scale = 1,
                                  .causal = k & 1,
                                  .masked = k >> 1 & 1,
                                  .has_factors = k >> 2 & 1,
                                  .trains = 1,
                                  .gradient = k >> 3,
                                  .type = PGK_BF16,
                                  .factor_type = PGK_F32};
        pg__dnn_attend_plan *p = NULL;
        size_t work = 0;
        assert_ok(pg__dnn_attend_new(&p, b.d, &a, BYTES, &work, NULL));
        assert_in_range(work, 1, BYTES);
        pg__dnn_attend_io io = arrays_of(&b, &a);
        assert_ok(pg__dnn_attend_run(b.d, p, &io));
        io.stats = NULL;
        assert_refused(&b, pg__dnn_attend_run(b.d, p, &io), "NULL_POINTER");
        io = arrays_of(&b, &a);
        io.q = b.at[0] + 8;
        assert_refused(&b, pg__dnn_attend_run(b.d, p, &io), "MISALIGNED");
        assert_ok(pg__rt_sync(b.d->rt, NULL));
        pg__dnn_attend_free(p);
    }
    close_bench(&b);
}

static pg__dnn_rnn_io states_of(const bench *b, int trains)
{
    char *const *at = b->at;
    return (pg__dnn_rnn_io){.weights = at[0],
                            .x = at[1],
                            .h0 = at[2],
                            .y = at[3],
                            .work = at[4],
                            .reserve = trains ? at[5] : NULL,
                            .dy = at[6],
                            .dx = at[7],
                            .dh0 = at[8],
                            .dweights = at[9]};
}

/* Matrices and biases lie one behind the other; those that do not exist, at the beginning. */
static void check_layout(const pg__dnn_rnn *r, const pg__dnn_rnn_layout *l)
{
    const uint64_t n = r->units, g = pg__dnn_gates(r->cell), in = g == 1 ? 0 : n * r->features;
    for (uint64_t k = 0; k < g; k++) {
        assert_int_equal(l->of_input[k], k * in);
        assert_int_equal(l->of_state[k], g * in + k * n * n);
        assert_int_equal(l->bias[k], r->cell == PG_DNN_GRU ? g * (in + n * n) + k * n : 0);
    }
    assert_true(l->work > 0 && l->weights >= g * (in + n * n));
}

static void run_layer(bench *b, const pg__dnn_rnn *r, int trains)
{
    pg__dnn_rnn_plan *p = NULL;
    pg__dnn_rnn_layout l;
    pg__dnn_rnn_io io = states_of(b, trains);
    assert_ok(pg__dnn_rnn_new(&p, b->d, r, trains, &l, NULL));
    check_layout(r, &l);
    assert_int_equal(l.reserve > 0, trains);
    assert_ok(pg__dnn_rnn_forward(b->d, p, &io));
    if (trains)
        assert_ok(pg__dnn_rnn_backward(b->d, p, &io));
    io.work = NULL;
    assert_refused(b, pg__dnn_rnn_forward(b->d, p, &io), "NULL_POINTER");
    io = states_of(b, trains);
    io.reserve = b->at[10]; /* in which no pass left anything */
    if (trains)
        assert_refused(b, pg__dnn_rnn_backward(b->d, p, &io), "BAD_PARAM");
    assert_ok(pg__rt_sync(b->d->rt, NULL));
    pg__dnn_rnn_free(p);
}

static void layers_run_as_cudnn_demands(void **state)
{
    static const pgk_type types[] = {PGK_F32, PGK_BF16, PGK_F16};
    (void)state;
    for (int fast = 0; fast < 2; fast++) {
        bench b;
        open_bench(&b, fast ? PG_TF32 : PG_FLOAT32);
        for (int cell = PG_DNN_TANH; cell <= PG_DNN_GRU; cell++)
            for (size_t k = 0; k < 3; k++) {
                const pg__dnn_rnn r = {(pg__dnn_cell)cell,          4,       5, 16,
                                       cell < PG_DNN_LSTM ? 16 : 8, types[k]};
                run_layer(&b, &r, 0);
                run_layer(&b, &r, 1);
            }
        close_bench(&b);
    }
}

/* ---- what no call of the back end does ---- */

static cudnnHandle_t handle;

/* The library takes these, its manual does not. */
static cudnnStatus_t no_handle_of_a_graph(void)
{
    ramp r;
    assert_int_equal(draw(&r, 2, 1, 1), CUDNN_STATUS_SUCCESS);
    const cudnnStatus_t s = cudnnBackendFinalize(r.graph);
    drop(&r);
    return s;
}

static cudnnStatus_t no_id(void)
{
    return one_tensor((wanted){16, 4, 0, 0, 0});
}

static cudnnStatus_t a_tensor_of_nothing(void)
{
    return one_tensor((wanted){16, 4, 1, 4, 0});
}

static cudnnStatus_t rows_upon_each_other(void)
{
    return one_tensor((wanted){16, 4, 1, 0, 32});
}

static cudnnStatus_t no_precision(void)
{
    const cudnnPointwiseMode_t mode = CUDNN_POINTWISE_RELU_FWD;
    cudnnBackendDescriptor_t p = made(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    TRY(set(p, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode));
    return ended(p, cudnnBackendFinalize(p));
}

static cudnnStatus_t a_pack_of_nothing(void)
{
    cudnnBackendDescriptor_t v = made(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    return ended(v, cudnnBackendFinalize(v));
}

/* NULL would do where a plan needs none. */
static cudnnStatus_t a_pack_without_memory_to_work_in(void)
{
    static char memory[64];
    const int64_t id = 1;
    void *const at = memory;
    cudnnBackendDescriptor_t v = made(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    TRY(set(v, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 1, &id));
    TRY(set(v, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 1, &at));
    return ended(v, cudnnBackendFinalize(v));
}

static cudnnStatus_t layer_by(cudnnDataType_t type, cudnnMathType_t math)
{
    cudnnRNNDescriptor_t r = NULL;
    TRY(cudnnCreateRNNDescriptor(&r));
    const cudnnStatus_t s =
        cudnnSetRNNDescriptor_v8(r, CUDNN_RNN_ALGO_STANDARD, CUDNN_LSTM, CUDNN_RNN_NO_BIAS,
                                 CUDNN_UNIDIRECTIONAL, CUDNN_LINEAR_INPUT, type, CUDNN_DATA_FLOAT,
                                 math, 8, 16, 16, 1, NULL, CUDNN_RNN_PADDED_IO_ENABLED);
    (void)cudnnDestroyRNNDescriptor(r);
    return s;
}

static cudnnStatus_t float_in_tensor_cores(void)
{
    return layer_by(CUDNN_DATA_FLOAT, CUDNN_TENSOR_OP_MATH);
}

static cudnnStatus_t float16_as_if_float32(void)
{
    return layer_by(CUDNN_DATA_HALF, CUDNN_FMA_MATH);
}

static cudnnStatus_t one_id_for_two_tensors(void)
{
    ramp r;
    cudnnStatus_t s = draw(&r, 1, 1, 1);
    if (s == CUDNN_STATUS_SUCCESS)
        s = set(r.graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
    if (s == CUDNN_STATUS_SUCCESS)
        s = cudnnBackendFinalize(r.graph);
    drop(&r);
    return s;
}

static cudnnStatus_t destroyed_twice(void)
{
    cudnnBackendDescriptor_t t = made(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    TRY(cudnnBackendDestroyDescriptor(t));
    return cudnnBackendDestroyDescriptor(t);
}

static cudnnStatus_t set_when_gone(void)
{
    const int64_t id = 1;
    cudnnBackendDescriptor_t t = made(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    TRY(cudnnBackendDestroyDescriptor(t));
    return set(t, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
}

/* How the pack of a run lacks something. */
typedef enum lack { NO_LACK, UNFINISHED, NO_Y, TWO_Y, NO_PLAN, NO_DEVICE } lack;

static cudnnStatus_t plan_of(ramp *r, cudnnBackendDescriptor_t of[3])
{
    const cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
    const cudnnBackendAttributeType_t link = CUDNN_TYPE_BACKEND_DESCRIPTOR;
    int64_t n;
    TRY(draw(r, 2, 1, 1));
    TRY(set(r->graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle));
    TRY(cudnnBackendFinalize(r->graph));
    of[0] = made(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    TRY(set(of[0], CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, link, 1, &r->graph));
    TRY(set(of[0], CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode));
    TRY(cudnnBackendFinalize(of[0]));
    of[1] = made(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    TRY(cudnnBackendGetAttribute(of[0], CUDNN_ATTR_ENGINEHEUR_RESULTS, link, 1, &n, &of[1]));
    of[2] = made(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    TRY(set(of[2], CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, link, 1, &of[1]));
    TRY(set(of[2], CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle));
    return cudnnBackendFinalize(of[2]);
}

static bench *on;

static cudnnStatus_t run_with(lack how)
{
    static char of_host[256];
    const int64_t ids[] = {1, how == NO_Y ? 3 : 2, 2};
    void *const at[] = {on->at[0], how == NO_DEVICE ? of_host : on->at[1], on->at[2]};
    void *const workspace = on->at[4];
    const int64_t n = how == TWO_Y ? 3 : 2;
    cudnnBackendDescriptor_t of[3] = {NULL}, v = NULL;
    ramp r;
    assert_int_equal(plan_of(&r, of), CUDNN_STATUS_SUCCESS);
    if (how == UNFINISHED)
        v = made(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    else
        assert_int_equal(pack(&v, n, ids, n, at, &workspace), CUDNN_STATUS_SUCCESS);
    if (how == NO_PLAN)
        (void)cudnnBackendDestroyDescriptor(of[2]);
    const cudnnStatus_t s = cudnnBackendExecute(handle, of[2], v);
    (void)cudnnBackendDestroyDescriptor(v);
    for (size_t k = 0; k < 3; k++)
        (void)cudnnBackendDestroyDescriptor(of[k]);
    drop(&r);
    return s;
}

static cudnnStatus_t a_whole_run(void)
{
    return run_with(NO_LACK);
}

static cudnnStatus_t a_pack_that_is_not_finished(void)
{
    return run_with(UNFINISHED);
}

static cudnnStatus_t a_pack_without_the_result(void)
{
    return run_with(NO_Y);
}

static cudnnStatus_t an_id_twice(void)
{
    return run_with(TWO_Y);
}

static cudnnStatus_t a_plan_that_is_gone(void)
{
    return run_with(NO_PLAN);
}

static cudnnStatus_t memory_of_the_host(void)
{
    return run_with(NO_DEVICE);
}

static cudnnStatus_t a_gradient_without_a_place(void)
{
    const pg__dnn_rnn r = {PG_DNN_LSTM, 4, 5, 16, 8, PGK_F32};
    pg__dnn_rnn_io io = states_of(on, 1);
    pg__dnn_rnn_plan *p = NULL;
    pg__dnn_rnn_layout l;
    io.reserve = on->at[11];
    assert_ok(pg__dnn_rnn_new(&p, on->d, &r, 1, &l, NULL));
    assert_ok(pg__dnn_rnn_forward(on->d, p, &io));
    io.dx = NULL; /* the first of two calls is refused, the second not made */
    const pg_status st = pg__dnn_rnn_backward(on->d, p, &io);
    on->d->failure = (pg_err){0};
    pg__dnn_rnn_free(p);
    return st == PG_OK ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

/* A layer's forward pass, in which one thing is not as it must be. */
typedef enum fault {
    NO_FAULT,
    OTHER_ROWS,
    OTHER_LENGTHS,
    EMPTY_SEQUENCE,
    OTHER_WIDTH,
    NOT_PADDED,
    NOT_DENSE,
    NO_CELLS,
    LENGTHS_ON_DEVICE,
    FEW_WEIGHTS,
    LITTLE_WORK,
    LITTLE_RESERVE,
    KEPT_AT_INFERENCE,
    WEIGHTS_FIRST,
    WEIGHTS_SET
} fault;

static cudnnStatus_t describe(fault f, cudnnRNNDescriptor_t r, cudnnRNNDataDescriptor_t x,
                              cudnnRNNDataDescriptor_t y, cudnnTensorDescriptor_t state)
{
    const cudnnRNNDataLayout_t layout = CUDNN_RNN_DATA_LAYOUT_BATCH_MAJOR_UNPACKED;
    const int lengths[] = {5, f == EMPTY_SEQUENCE ? 0 : 5, 5, 5}, others_[] = {5, 4, 5, 5};
    const int dims[] = {1, 4, 16}, strides[] = {64, f == NOT_DENSE ? 32 : 16, 1};
    TRY(cudnnSetRNNDescriptor_v8(
        r, CUDNN_RNN_ALGO_STANDARD, CUDNN_LSTM, CUDNN_RNN_NO_BIAS, CUDNN_UNIDIRECTIONAL,
        CUDNN_LINEAR_INPUT, CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT, CUDNN_FMA_MATH, 8, 16, 16, 1, NULL,
        f == NOT_PADDED ? CUDNN_RNN_PADDED_IO_DISABLED : CUDNN_RNN_PADDED_IO_ENABLED));
    TRY(cudnnSetRNNDataDescriptor(x, CUDNN_DATA_FLOAT, layout, 5, f == OTHER_ROWS ? 3 : 4,
                                  f == OTHER_WIDTH ? 16 : 8, lengths, NULL));
    TRY(cudnnSetRNNDataDescriptor(y, CUDNN_DATA_FLOAT, layout, 5, 4, 16,
                                  f == OTHER_LENGTHS ? others_ : lengths, NULL));
    return cudnnSetTensorNdDescriptor(state, CUDNN_DATA_FLOAT, 3, dims, strides);
}

static cudnnStatus_t pass_with(fault f)
{
    cudnnRNNDescriptor_t r;
    cudnnRNNDataDescriptor_t x, y;
    cudnnTensorDescriptor_t state;
    const int trains = f != KEPT_AT_INFERENCE;
    char *const *at = on->at;
    TRY(cudnnCreateRNNDescriptor(&r));
    TRY(cudnnCreateRNNDataDescriptor(&x));
    TRY(cudnnCreateRNNDataDescriptor(&y));
    TRY(cudnnCreateTensorDescriptor(&state));
    assert_int_equal(describe(f, r, x, y, state), CUDNN_STATUS_SUCCESS);
    cudnnStatus_t s = cudnnRNNForward(
        handle, r, trains ? CUDNN_FWD_MODE_TRAINING : CUDNN_FWD_MODE_INFERENCE,
        f == LENGTHS_ON_DEVICE ? (const int32_t *)(const void *)at[5] : NULL, x, at[0], y, at[1],
        state, NULL, NULL, f == NO_CELLS ? NULL : state, NULL, NULL, f == FEW_WEIGHTS ? 64 : BYTES,
        at[2], f == LITTLE_WORK ? 64 : BYTES, at[3], f == LITTLE_RESERVE ? 64 : BYTES, at[4]);
    if (f >= WEIGHTS_FIRST)
        s = cudnnRNNBackwardWeights_v8(
            handle, r, f == WEIGHTS_SET ? CUDNN_WGRAD_MODE_SET : CUDNN_WGRAD_MODE_ADD, NULL, x,
            at[0], state, NULL, y, at[1], BYTES, at[2], BYTES, at[3], BYTES, at[4]);
    (void)cudnnDestroyTensorDescriptor(state);
    (void)cudnnDestroyRNNDataDescriptor(y);
    (void)cudnnDestroyRNNDataDescriptor(x);
    (void)cudnnDestroyRNNDescriptor(r);
    return s;
}

#define PASS_WITH(name, fault)      \
    static cudnnStatus_t name(void) \
    {                               \
        return pass_with(fault);    \
    }
PASS_WITH(a_whole_pass, NO_FAULT)
PASS_WITH(fewer_rows_than_results, OTHER_ROWS)
PASS_WITH(lengths_that_differ, OTHER_LENGTHS)
PASS_WITH(a_sequence_of_nothing, EMPTY_SEQUENCE)
PASS_WITH(wider_rows_than_the_layer_has, OTHER_WIDTH)
PASS_WITH(padded_and_not_said_so, NOT_PADDED)
PASS_WITH(states_with_gaps, NOT_DENSE)
PASS_WITH(no_cells, NO_CELLS)
PASS_WITH(lengths_on_the_device, LENGTHS_ON_DEVICE)
PASS_WITH(too_few_weights, FEW_WEIGHTS)
PASS_WITH(too_little_work, LITTLE_WORK)
PASS_WITH(too_little_reserve, LITTLE_RESERVE)
PASS_WITH(a_reserve_at_inference, KEPT_AT_INFERENCE)
PASS_WITH(weights_before_data, WEIGHTS_FIRST)
PASS_WITH(gradients_that_are_set, WEIGHTS_SET)

static cudnnStatus_t an_input_that_is_added_and_not_as_wide(void)
{
    cudnnRNNDescriptor_t r = NULL;
    TRY(cudnnCreateRNNDescriptor(&r));
    const cudnnStatus_t s = cudnnSetRNNDescriptor_v8(
        r, CUDNN_RNN_ALGO_STANDARD, CUDNN_RNN_TANH, CUDNN_RNN_NO_BIAS, CUDNN_UNIDIRECTIONAL,
        CUDNN_SKIP_INPUT, CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT, CUDNN_FMA_MATH, 8, 16, 16, 1, NULL,
        CUDNN_RNN_PADDED_IO_ENABLED);
    (void)cudnnDestroyRNNDescriptor(r);
    return s;
}

/* kind 0: of a gate that there is not, 1: from no address, 2: of too small a space. */
static cudnnStatus_t weights_of(int kind)
{
    cudnnRNNDescriptor_t r;
    cudnnRNNDataDescriptor_t x, y;
    cudnnTensorDescriptor_t m, b;
    void *m_at, *b_at;
    TRY(cudnnCreateRNNDescriptor(&r));
    TRY(cudnnCreateRNNDataDescriptor(&x));
    TRY(cudnnCreateRNNDataDescriptor(&y));
    TRY(cudnnCreateTensorDescriptor(&m));
    TRY(cudnnCreateTensorDescriptor(&b));
    assert_int_equal(describe(NO_FAULT, r, x, y, m), CUDNN_STATUS_SUCCESS);
    const cudnnStatus_t s =
        cudnnGetRNNWeightParams(handle, r, 0, kind == 2 ? 64 : BYTES, kind == 1 ? NULL : on->at[2],
                                kind == 0 ? 8 : 7, m, &m_at, b, &b_at);
    (void)cudnnDestroyTensorDescriptor(b);
    (void)cudnnDestroyTensorDescriptor(m);
    (void)cudnnDestroyRNNDataDescriptor(y);
    (void)cudnnDestroyRNNDataDescriptor(x);
    (void)cudnnDestroyRNNDescriptor(r);
    return s;
}

static cudnnStatus_t weights_of_no_gate(void)
{
    return weights_of(0);
}

static cudnnStatus_t weights_from_no_address(void)
{
    return weights_of(1);
}

static cudnnStatus_t weights_of_too_small_a_space(void)
{
    return weights_of(2);
}

static const refused others[] = {
    {"an added input of another width", an_input_that_is_added_and_not_as_wide,
     CUDNN_STATUS_BAD_PARAM},
    {"a whole pass", a_whole_pass, CUDNN_STATUS_SUCCESS},
    {"fewer rows than results", fewer_rows_than_results, CUDNN_STATUS_BAD_PARAM},
    {"lengths that differ", lengths_that_differ, CUDNN_STATUS_BAD_PARAM},
    {"a sequence of nothing", a_sequence_of_nothing, CUDNN_STATUS_BAD_PARAM},
    {"wider rows", wider_rows_than_the_layer_has, CUDNN_STATUS_BAD_PARAM},
    {"padded and not said so", padded_and_not_said_so, CUDNN_STATUS_BAD_PARAM},
    {"states with gaps", states_with_gaps, CUDNN_STATUS_BAD_PARAM},
    {"no cells", no_cells, CUDNN_STATUS_BAD_PARAM},
    {"lengths on the device", lengths_on_the_device, CUDNN_STATUS_BAD_PARAM},
    {"too few weights", too_few_weights, CUDNN_STATUS_BAD_PARAM},
    {"too little work", too_little_work, CUDNN_STATUS_BAD_PARAM},
    {"too little reserve", too_little_reserve, CUDNN_STATUS_BAD_PARAM},
    {"a reserve at inference", a_reserve_at_inference, CUDNN_STATUS_BAD_PARAM},
    {"weights before data", weights_before_data, CUDNN_STATUS_BAD_PARAM},
    {"gradients that are set", gradients_that_are_set, CUDNN_STATUS_NOT_SUPPORTED},
    {"weights of no gate", weights_of_no_gate, CUDNN_STATUS_BAD_PARAM},
    {"weights from no address", weights_from_no_address, CUDNN_STATUS_BAD_PARAM},
    {"weights of too small a space", weights_of_too_small_a_space, CUDNN_STATUS_BAD_PARAM},
    {"a graph without a handle", no_handle_of_a_graph, CUDNN_STATUS_BAD_PARAM},
    {"a tensor without an id", no_id, CUDNN_STATUS_BAD_PARAM},
    {"a tensor of nothing", a_tensor_of_nothing, CUDNN_STATUS_BAD_PARAM},
    {"rows upon each other", rows_upon_each_other, CUDNN_STATUS_BAD_PARAM},
    {"a function without a precision", no_precision, CUDNN_STATUS_BAD_PARAM},
    {"a pack of nothing", a_pack_of_nothing, CUDNN_STATUS_BAD_PARAM},
    {"a pack without memory to work in", a_pack_without_memory_to_work_in, CUDNN_STATUS_BAD_PARAM},
    {"float32 behind the word for 16 bits", float_in_tensor_cores, CUDNN_STATUS_NOT_SUPPORTED},
    {"float16 behind the word for float32", float16_as_if_float32, CUDNN_STATUS_NOT_SUPPORTED},
    {"one id for two tensors", one_id_for_two_tensors, CUDNN_STATUS_BAD_PARAM},
    {"destroyed twice", destroyed_twice, CUDNN_STATUS_BAD_PARAM},
    {"an attribute of what is gone", set_when_gone, CUDNN_STATUS_BAD_PARAM},
    {"a whole run", a_whole_run, CUDNN_STATUS_SUCCESS},
    {"a pack that is not finished", a_pack_that_is_not_finished, CUDNN_STATUS_BAD_PARAM},
    {"a pack without the result", a_pack_without_the_result, CUDNN_STATUS_BAD_PARAM},
    {"an id twice", an_id_twice, CUDNN_STATUS_BAD_PARAM},
    {"a plan that is gone", a_plan_that_is_gone, CUDNN_STATUS_BAD_PARAM},
    {"memory of the host", memory_of_the_host, CUDNN_STATUS_BAD_PARAM},
    {"a gradient without a place", a_gradient_without_a_place, CUDNN_STATUS_BAD_PARAM},
};

static void runs_are_refused(void **state)
{
    bench b;
    (void)state;
    open_bench(&b, PG_FLOAT32);
    on = &b;
    assert_int_equal(cudnnCreate(&handle), CUDNN_STATUS_SUCCESS);
    assert_int_equal(cudnnSetStream(handle, pg__rt_stream(b.d->rt)), CUDNN_STATUS_SUCCESS);
    check_all(others, sizeof others / sizeof *others);
    assert_int_equal(cudnnDestroy(handle), CUDNN_STATUS_SUCCESS);
    assert_int_equal(cudnnDestroy(handle), CUDNN_STATUS_BAD_PARAM);
    assert_ok(pg__rt_sync(b.d->rt, NULL));
    close_bench(&b);
}

PG_TEST_MAIN(cmocka_unit_test(descriptions_are_refused), cmocka_unit_test(runs_are_refused),
             cmocka_unit_test(convolutions_run_as_cudnn_demands),
             cmocka_unit_test(attention_runs_as_cudnn_demands),
             cmocka_unit_test(layers_run_as_cudnn_demands))
#endif

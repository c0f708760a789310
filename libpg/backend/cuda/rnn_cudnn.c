/* rnn_cudnn.c - dnn_rnn.h over cuDNN 9. A plan's descriptors are only read by runs, so several
 * threads may run it, each with its own handle. */
#include "backend/cuda/dnn_rnn.h"

#include "backend/cuda/cudnn_graph.h"
#include "base/mem.h"
#include "base/try.h"

struct pg__dnn_rnn_plan {
    cudnnRNNDescriptor_t rnn;
    cudnnRNNDataDescriptor_t x, y;
    cudnnTensorDescriptor_t state;
    int trains, has_cells;
    size_t weights, work, reserve;
};

#define TRY(call)                        \
    do {                                 \
        const cudnnStatus_t s_ = (call); \
        if (s_ != CUDNN_STATUS_SUCCESS)  \
            return s_;                   \
    } while (0)

static cudnnDataType_t data_type(pgk_type t)
{
    return t == PGK_F32 ? CUDNN_DATA_FLOAT : t == PGK_BF16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_HALF;
}

/* Float32 that is not to be TF32 has to be asked for; tensor cores are for 16 bits alone. */
static cudnnMathType_t math_of(const pg__dev *d, const pg__dnn_rnn *r)
{
    return r->type != PGK_F32                ? CUDNN_TENSOR_OP_MATH
           : d->opts.precision == PG_FLOAT32 ? CUDNN_FMA_MATH
                                             : CUDNN_DEFAULT_MATH;
}

static cudnnStatus_t describe(pg__dnn_rnn_plan *p, const pg__dev *d, const pg__dnn_rnn *r,
                              const int *lengths)
{
    static const cudnnRNNMode_t modes[] = {CUDNN_RNN_TANH, CUDNN_RNN_RELU, CUDNN_LSTM, CUDNN_GRU};
    const int rows = (int)r->rows, steps = (int)r->steps, units = (int)r->units;
    const int dims[] = {1, rows, units}, strides[] = {rows * units, units, 1};
    const int adds = pg__dnn_gates(r->cell) == 1;
    const cudnnDataType_t type = data_type(r->type);
    TRY(cudnnCreateRNNDescriptor(&p->rnn));
    TRY(cudnnSetRNNDescriptor_v8(
        p->rnn, CUDNN_RNN_ALGO_STANDARD, modes[r->cell],
        r->cell == PG_DNN_GRU ? CUDNN_RNN_SINGLE_REC_BIAS : CUDNN_RNN_NO_BIAS, CUDNN_UNIDIRECTIONAL,
        adds ? CUDNN_SKIP_INPUT : CUDNN_LINEAR_INPUT, type, CUDNN_DATA_FLOAT, math_of(d, r),
        (int32_t)r->features, units, units, 1, NULL, CUDNN_RNN_PADDED_IO_ENABLED));
    TRY(cudnnCreateRNNDataDescriptor(&p->x));
    TRY(cudnnSetRNNDataDescriptor(p->x, type, CUDNN_RNN_DATA_LAYOUT_BATCH_MAJOR_UNPACKED, steps,
                                  rows, (int)r->features, lengths, NULL));
    TRY(cudnnCreateRNNDataDescriptor(&p->y));
    TRY(cudnnSetRNNDataDescriptor(p->y, type, CUDNN_RNN_DATA_LAYOUT_BATCH_MAJOR_UNPACKED, steps,
                                  rows, units, lengths, NULL));
    TRY(cudnnCreateTensorDescriptor(&p->state));
    return cudnnSetTensorNdDescriptor(p->state, type, 3, dims, strides);
}

/* From the beginning of the weights; what does not exist has no address. */
static uint64_t distance(const void *from, const void *to)
{
    return to ? (uintptr_t)to - (uintptr_t)from : 0;
}

/* Where the matrices lie. Nothing is read at the address that stands for the weights. */
static cudnnStatus_t read_layout(const pg__dnn_rnn_plan *p, cudnnHandle_t h, const pg__dnn_rnn *r,
                                 cudnnTensorDescriptor_t m, cudnnTensorDescriptor_t b,
                                 pg__dnn_rnn_layout *out)
{
    static _Alignas(256) const char first = 0;
    const int32_t n = (int32_t)pg__dnn_gates(r->cell);
    const size_t size = r->type == PGK_F32 ? 4 : 2;
    for (int32_t k = 0; k < 2 * n; k++) {
        void *matrix = NULL, *bias = NULL;
        TRY(cudnnGetRNNWeightParams(h, p->rnn, 0, p->weights, &first, k, m, &matrix, b, &bias));
        *(k < n ? &out->of_input[k] : &out->of_state[k - n]) = distance(&first, matrix) / size;
        if (k >= n)
            out->bias[k - n] = distance(&first, bias) / size;
    }
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t measure(pg__dnn_rnn_plan *p, cudnnHandle_t h, const pg__dnn_rnn *r,
                             pg__dnn_rnn_layout *out)
{
    cudnnTensorDescriptor_t m = NULL, b = NULL;
    cudnnStatus_t s;
    TRY(cudnnGetRNNWeightSpaceSize(h, p->rnn, &p->weights));
    TRY(cudnnGetRNNTempSpaceSizes(h, p->rnn,
                                  p->trains ? CUDNN_FWD_MODE_TRAINING : CUDNN_FWD_MODE_INFERENCE,
                                  p->x, &p->work, &p->reserve));
    s = cudnnCreateTensorDescriptor(&m);
    if (s == CUDNN_STATUS_SUCCESS)
        s = cudnnCreateTensorDescriptor(&b);
    if (s == CUDNN_STATUS_SUCCESS)
        s = read_layout(p, h, r, m, b, out);
    if (m)
        (void)cudnnDestroyTensorDescriptor(m);
    if (b)
        (void)cudnnDestroyTensorDescriptor(b);
    out->weights = p->weights;
    out->work = p->work;
    out->reserve = p->trains ? p->reserve : 0;
    return s;
}

pg_status pg__dnn_rnn_new(pg__dnn_rnn_plan **out, pg__dev *d, const pg__dnn_rnn *r, int trains,
                          pg__dnn_rnn_layout *layout, pg_err *err)
{
    pg__dnn_rnn_plan *p = pg__mem_array(1, sizeof *p);
    int *lengths = pg__mem_array(r->rows, sizeof *lengths);
    cudnnStatus_t s;
    pg_status st = PG_OK;
    *layout = (pg__dnn_rnn_layout){0};
    if (!p || !lengths)
        PG_TRY(pg__nomem(err));
    for (size_t k = 0; k < r->rows; k++)
        lengths[k] = (int)r->steps;
    p->trains = trains;
    p->has_cells = r->cell == PG_DNN_LSTM;
    (void)pg__rt_stream(d->rt);
    s = describe(p, d, r, lengths);
    if (s == CUDNN_STATUS_SUCCESS)
        s = measure(p, d->dnn->h, r, layout);
    if (s != CUDNN_STATUS_SUCCESS)
        PG_FAIL(s == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED ? PG_E_NOMEM : PG_E_NO,
                "cuDNN has no algorithm for this layer: %s", cudnnGetErrorString(s));
    *out = p;
    p = NULL;
done:
    pg__mem_free(lengths);
    pg__dnn_rnn_free(p);
    return st;
}

void pg__dnn_rnn_free(pg__dnn_rnn_plan *p)
{
    if (!p)
        return;
    if (p->state)
        (void)cudnnDestroyTensorDescriptor(p->state);
    if (p->y)
        (void)cudnnDestroyRNNDataDescriptor(p->y);
    if (p->x)
        (void)cudnnDestroyRNNDataDescriptor(p->x);
    if (p->rnn)
        (void)cudnnDestroyRNNDescriptor(p->rnn);
    pg__mem_free(p);
}

static pg_status checked(pg__dev *d, cudnnStatus_t s)
{
    if (s == CUDNN_STATUS_SUCCESS)
        return PG_OK;
    return pg_fail(&d->failure, PG_E_DEVICE, "cuda:%zu: recurrent layer: %s", pg__rt_ordinal(d->rt),
                   cudnnGetErrorString(s));
}

pg_status pg__dnn_rnn_forward(pg__dev *d, const pg__dnn_rnn_plan *p, const pg__dnn_rnn_io *io)
{
    cudnnTensorDescriptor_t cells = p->has_cells ? p->state : NULL;
    (void)pg__rt_stream(d->rt);
    return checked(d,
                   cudnnRNNForward(d->dnn->h, p->rnn,
                                   p->trains ? CUDNN_FWD_MODE_TRAINING : CUDNN_FWD_MODE_INFERENCE,
                                   NULL, p->x, io->x, p->y, io->y, p->state, io->h0, NULL, cells,
                                   io->c0, io->c, p->weights, io->weights, p->work, io->work,
                                   p->trains ? p->reserve : 0, p->trains ? io->reserve : NULL));
}

pg_status pg__dnn_rnn_backward(pg__dev *d, const pg__dnn_rnn_plan *p, const pg__dnn_rnn_io *io)
{
    cudnnTensorDescriptor_t cells = p->has_cells ? p->state : NULL;
    pg_status st = PG_OK;
    (void)pg__rt_stream(d->rt);
    PG_TRY(checked(d, cudnnRNNBackwardData_v8(d->dnn->h, p->rnn, NULL, p->y, io->y, io->dy, p->x,
                                              io->dx, p->state, io->h0, io->dh, io->dh0, cells,
                                              io->c0, io->dc, io->dc0, p->weights, io->weights,
                                              p->work, io->work, p->reserve, io->reserve)));
    if (io->dweights)
        PG_TRY(checked(d, cudnnRNNBackwardWeights_v8(d->dnn->h, p->rnn, CUDNN_WGRAD_MODE_ADD, NULL,
                                                     p->x, io->x, p->state, io->h0, p->y, io->y,
                                                     p->weights, io->dweights, p->work, io->work,
                                                     p->reserve, io->reserve)));
done:
    return st;
}

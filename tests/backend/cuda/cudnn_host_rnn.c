/* cudnn_host_rnn.c - recurrent layers of cudnn_host.c: one layer in one direction. A pass behind
 * another one needs what that one left in the reserve. */
#include "cudnn_host.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define WORK 640

struct cudnnTensorStruct {
    int is_set, n, dims[8], strides[8];
    cudnnDataType_t type;
};

struct cudnnRNNDataStruct {
    int is_set, steps, rows, width, has_empty;
    uint64_t lengths; /* their hash */
    cudnnDataType_t type;
};

struct cudnnRNNStruct {
    int is_set, input, units;
    cudnnRNNMode_t mode;
    cudnnRNNBiasMode_t bias;
    cudnnRNNInputMode_t input_mode;
    cudnnDataType_t type;
    uint32_t flags;
};

#define OBJECT(Name, pointer, kind)                     \
    cudnnStatus_t cudnnCreate##Name(pointer *p)         \
    {                                                   \
        if (!p)                                         \
            return CUDNN_STATUS_BAD_PARAM_NULL_POINTER; \
        *p = host_cudnn_born(sizeof **p, kind);         \
        return CUDNN_STATUS_SUCCESS;                    \
    }                                                   \
    cudnnStatus_t cudnnDestroy##Name(pointer p)         \
    {                                                   \
        if (!host_cudnn_dies(p, kind))                  \
            return CUDNN_STATUS_BAD_PARAM;              \
        free(p);                                        \
        return CUDNN_STATUS_SUCCESS;                    \
    }
OBJECT(TensorDescriptor, cudnnTensorDescriptor_t, HOST_CUDNN_TENSOR)
OBJECT(RNNDescriptor, cudnnRNNDescriptor_t, HOST_CUDNN_RNN)
OBJECT(RNNDataDescriptor, cudnnRNNDataDescriptor_t, HOST_CUDNN_RNN_DATA)

/* ---- describing ---- */

cudnnStatus_t cudnnSetTensorNdDescriptor(cudnnTensorDescriptor_t t, cudnnDataType_t type, int n,
                                         const int dims[], const int strides[])
{
    if (!host_cudnn_lives(t, HOST_CUDNN_TENSOR) || n < 1 || n > CUDNN_DIM_MAX || !dims || !strides)
        return CUDNN_STATUS_BAD_PARAM;
    *t = (struct cudnnTensorStruct){.is_set = 1, .n = n, .type = type};
    for (int k = 0; k < n; k++) {
        t->dims[k] = dims[k];
        t->strides[k] = strides[k];
        t->is_set &= dims[k] > 0 && strides[k] > 0;
    }
    return t->is_set ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

/* Tensor cores that change float32 must not be hidden behind the word for those that do not; 16
 * bits have no word for multiplying without them. */
static int is_math(cudnnDataType_t type, cudnnDataType_t prec, cudnnMathType_t math)
{
    if (type == CUDNN_DATA_FLOAT)
        return prec == CUDNN_DATA_FLOAT && math != CUDNN_TENSOR_OP_MATH;
    return math != CUDNN_FMA_MATH &&
           ((type == CUDNN_DATA_HALF && prec == CUDNN_DATA_HALF) || prec == CUDNN_DATA_FLOAT);
}

cudnnStatus_t cudnnSetRNNDescriptor_v8(cudnnRNNDescriptor_t r, cudnnRNNAlgo_t algo,
                                       cudnnRNNMode_t mode, cudnnRNNBiasMode_t bias,
                                       cudnnDirectionMode_t direction, cudnnRNNInputMode_t input,
                                       cudnnDataType_t type, cudnnDataType_t prec,
                                       cudnnMathType_t math, int32_t n_input, int32_t units,
                                       int32_t projected, int32_t n_layers,
                                       cudnnDropoutDescriptor_t dropout, uint32_t flags)
{
    if (!host_cudnn_lives(r, HOST_CUDNN_RNN) || n_input < 1 || units < 1 || n_layers < 1)
        return CUDNN_STATUS_BAD_PARAM;
    if (!is_math(type, prec, math) || projected != units || algo != CUDNN_RNN_ALGO_STANDARD ||
        direction != CUDNN_UNIDIRECTIONAL || n_layers != 1 || dropout)
        return CUDNN_STATUS_NOT_SUPPORTED;
    if (input == CUDNN_SKIP_INPUT && n_input != units)
        return CUDNN_STATUS_BAD_PARAM;
    *r = (struct cudnnRNNStruct){1, n_input, units, mode, bias, input, type, flags};
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetRNNDataDescriptor(cudnnRNNDataDescriptor_t d, cudnnDataType_t type,
                                        cudnnRNNDataLayout_t layout, int steps, int rows, int width,
                                        const int lengths[], void *fill)
{
    if (!host_cudnn_lives(d, HOST_CUDNN_RNN_DATA) || steps < 1 || rows < 1 || width < 1 || !lengths)
        return CUDNN_STATUS_BAD_PARAM;
    if (layout != CUDNN_RNN_DATA_LAYOUT_BATCH_MAJOR_UNPACKED || fill)
        return CUDNN_STATUS_NOT_SUPPORTED;
    uint64_t hash = 14695981039346656037u;
    int has_empty = 0;
    for (int k = 0; k < rows; k++) {
        if (lengths[k] < 0 || lengths[k] > steps)
            return CUDNN_STATUS_BAD_PARAM;
        has_empty |= lengths[k] == 0;
        hash = (hash ^ (uint64_t)lengths[k]) * 0x100000001b3u;
    }
    *d = (struct cudnnRNNDataStruct){1, steps, rows, width, has_empty, hash, type};
    return CUDNN_STATUS_SUCCESS;
}

/* ---- sizes ---- */

static int gates(cudnnRNNMode_t mode)
{
    return mode == CUDNN_LSTM ? 4 : mode == CUDNN_GRU ? 3 : 1;
}

static size_t size_of(cudnnDataType_t type)
{
    return type == CUDNN_DATA_FLOAT ? 4 : 2;
}

static int is_rnn(cudnnHandle_t h, cudnnRNNDescriptor_t r)
{
    return host_cudnn_lives(h, HOST_CUDNN_HANDLE) && host_cudnn_lives(r, HOST_CUDNN_RNN) &&
           r->is_set;
}

/* Elements of one input matrix; there is none where the input is added. */
static size_t input_matrix(const struct cudnnRNNStruct *r)
{
    return r->input_mode == CUDNN_SKIP_INPUT ? 0 : (size_t)r->units * (size_t)r->input;
}

static size_t weights(const struct cudnnRNNStruct *r)
{
    const size_t n = (size_t)r->units, g = (size_t)gates(r->mode);
    const size_t biases = r->bias == CUDNN_RNN_NO_BIAS ? 0 : g * n;
    return (g * (input_matrix(r) + n * n) + biases) * size_of(r->type);
}

static size_t reserve(const struct cudnnRNNStruct *r, const struct cudnnRNNDataStruct *x)
{
    return 6 * (size_t)x->rows * (size_t)x->steps * (size_t)r->units * size_of(r->type) + 256;
}

cudnnStatus_t cudnnGetRNNWeightSpaceSize(cudnnHandle_t h, cudnnRNNDescriptor_t r, size_t *n)
{
    if (!is_rnn(h, r) || !n)
        return CUDNN_STATUS_BAD_PARAM;
    *n = weights(r);
    return CUDNN_STATUS_SUCCESS;
}

static int is_data(cudnnRNNDataDescriptor_t d, const struct cudnnRNNStruct *r, int width)
{
    return host_cudnn_lives(d, HOST_CUDNN_RNN_DATA) && d->is_set && d->width == width &&
           d->type == r->type;
}

cudnnStatus_t cudnnGetRNNTempSpaceSizes(cudnnHandle_t h, cudnnRNNDescriptor_t r,
                                        cudnnForwardMode_t mode, cudnnRNNDataDescriptor_t x,
                                        size_t *n_work, size_t *n_reserve)
{
    if (!is_rnn(h, r) || !is_data(x, r, r->input))
        return CUDNN_STATUS_BAD_PARAM;
    if (n_work)
        *n_work = WORK;
    if (n_reserve)
        *n_reserve = mode == CUDNN_FWD_MODE_TRAINING ? reserve(r, x) : 0;
    return CUDNN_STATUS_SUCCESS;
}

/* An address is not looked at; what does not exist has none. */
cudnnStatus_t cudnnGetRNNWeightParams(cudnnHandle_t h, cudnnRNNDescriptor_t r, int32_t layer,
                                      size_t n, const void *space, int32_t id,
                                      cudnnTensorDescriptor_t m, void **m_at,
                                      cudnnTensorDescriptor_t b, void **b_at)
{
    if (!is_rnn(h, r) || layer != 0 || id < 0 || id >= 2 * gates(r->mode) || n < weights(r) ||
        !space || !host_cudnn_lives(m, HOST_CUDNN_TENSOR) || !m_at ||
        !host_cudnn_lives(b, HOST_CUDNN_TENSOR) || !b_at)
        return CUDNN_STATUS_BAD_PARAM;
    const size_t g = (size_t)gates(r->mode), k = (size_t)id % g, size = size_of(r->type);
    const size_t units = (size_t)r->units, states = g * input_matrix(r);
    const uintptr_t at = (uintptr_t)space;
    const int of_input = (size_t)id < g;
    const size_t matrix = of_input ? k * input_matrix(r) : states + k * units * units;
    const size_t bias = states + (g * units + k) * units;
    *m_at = of_input && input_matrix(r) == 0 ? NULL : (void *)(at + matrix * size); /* NOLINT */
    *b_at =
        of_input || r->bias == CUDNN_RNN_NO_BIAS ? NULL : (void *)(at + bias * size); /* NOLINT */
    return CUDNN_STATUS_SUCCESS;
}

/* ---- runs ---- */

/* What the last pass left in a reserve. */
typedef enum phase { NOTHING, FORWARD, BACKWARD } phase;

/* Sets it, where it is not NOTHING; what it was. */
static phase passed(const void *reserve_at, phase to)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct {
        const void *at;
        phase is;
    } all[64];
    static size_t n;
    phase was = NOTHING;
    pthread_mutex_lock(&lock);
    size_t k = 0;
    while (k < 64 && all[k].at != reserve_at)
        k++;
    if (k < 64)
        was = all[k].is;
    else if (to != NOTHING)
        k = n++ % 64;
    if (to != NOTHING) {
        all[k].at = reserve_at;
        all[k].is = to;
    }
    pthread_mutex_unlock(&lock);
    return was;
}

/* What all passes have alike. */
typedef struct pass {
    cudnnHandle_t h;
    cudnnRNNDescriptor_t r;
    cudnnRNNDataDescriptor_t x, y;
    cudnnTensorDescriptor_t state, cells;
    size_t n_weights, n_work, n_reserve;
    const void *weights, *work, *reserve;
    const void *needed[5]; /* further addresses */
    int has_reserve;
} pass;

/* Dense, and (1, rows, units). */
static int is_state(const pass *p, cudnnTensorDescriptor_t t)
{
    return host_cudnn_lives(t, HOST_CUDNN_TENSOR) && t->is_set && t->n == 3 &&
           t->type == p->r->type && t->dims[0] == 1 && t->dims[1] == p->x->rows &&
           t->dims[2] == p->r->units && t->strides[2] == 1 && t->strides[1] == p->r->units &&
           t->strides[0] == p->x->rows * p->r->units;
}

static int are_described(const pass *p)
{
    return is_rnn(p->h, p->r) && p->h->stream && is_data(p->x, p->r, p->r->input) &&
           is_data(p->y, p->r, p->r->units) && p->x->rows == p->y->rows &&
           p->x->steps == p->y->steps && p->x->lengths == p->y->lengths && !p->x->has_empty &&
           (p->r->flags & CUDNN_RNN_PADDED_IO_ENABLED) && is_state(p, p->state) &&
           (p->r->mode != CUDNN_LSTM || is_state(p, p->cells));
}

static cudnnStatus_t refusal(const pass *p)
{
    if (!are_described(p))
        return CUDNN_STATUS_BAD_PARAM;
    if (p->n_weights < weights(p->r) || p->n_work < WORK ||
        (p->has_reserve && p->n_reserve < reserve(p->r, p->x)))
        return CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT;
    if (!host_cudnn_on_device(p->weights) || !host_cudnn_on_device(p->work) ||
        (p->has_reserve && !host_cudnn_on_device(p->reserve)))
        return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
    for (size_t k = 0; k < 5 && p->needed[k] != p; k++)
        if (!host_cudnn_on_device(p->needed[k]))
            return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnRNNForward(cudnnHandle_t h, cudnnRNNDescriptor_t r, cudnnForwardMode_t mode,
                              const int32_t lengths[], cudnnRNNDataDescriptor_t dx, const void *x,
                              cudnnRNNDataDescriptor_t dy, void *y, cudnnTensorDescriptor_t dh,
                              const void *hx, void *hy, cudnnTensorDescriptor_t dc, const void *cx,
                              void *cy, size_t n_weights, const void *w, size_t n_work, void *work,
                              size_t n_reserve, void *kept)
{
    const int trains = mode == CUDNN_FWD_MODE_TRAINING;
    const pass p = {h,      r,         dx, dy,   dh,   dc,         n_weights,
                    n_work, n_reserve, w,  work, kept, {x, y, &p}, trains};
    (void)hx, (void)hy, (void)cx, (void)cy;
    const cudnnStatus_t s = refusal(&p);
    if (s != CUDNN_STATUS_SUCCESS || lengths || (!trains && kept))
        return s != CUDNN_STATUS_SUCCESS ? s : CUDNN_STATUS_BAD_PARAM;
    if (trains)
        (void)passed(kept, FORWARD);
    return host_cudnn_run(h, "rnn_forward", work, WORK);
}

cudnnStatus_t cudnnRNNBackwardData_v8(cudnnHandle_t h, cudnnRNNDescriptor_t r,
                                      const int32_t lengths[], cudnnRNNDataDescriptor_t dy,
                                      const void *y, const void *dy_at, cudnnRNNDataDescriptor_t dx,
                                      void *dx_at, cudnnTensorDescriptor_t dh, const void *hx,
                                      const void *dhy, void *dhx, cudnnTensorDescriptor_t dc,
                                      const void *cx, const void *dcy, void *dcx, size_t n_weights,
                                      const void *w, size_t n_work, void *work, size_t n_reserve,
                                      void *kept)
{
    const pass p = {
        h, r, dx, dy, dh, dc, n_weights, n_work, n_reserve, w, work, kept, {y, dy_at, dx_at, &p},
        1};
    (void)hx, (void)dhy, (void)dhx, (void)cx, (void)dcy, (void)dcx;
    const cudnnStatus_t s = refusal(&p);
    if (s != CUDNN_STATUS_SUCCESS || lengths || passed(kept, NOTHING) == NOTHING)
        return s != CUDNN_STATUS_SUCCESS ? s : CUDNN_STATUS_BAD_PARAM;
    (void)passed(kept, BACKWARD);
    return host_cudnn_run(h, "rnn_backward_data", work, WORK);
}

cudnnStatus_t cudnnRNNBackwardWeights_v8(cudnnHandle_t h, cudnnRNNDescriptor_t r,
                                         cudnnWgradMode_t add, const int32_t lengths[],
                                         cudnnRNNDataDescriptor_t dx, const void *x,
                                         cudnnTensorDescriptor_t dh, const void *hx,
                                         cudnnRNNDataDescriptor_t dy, const void *y,
                                         size_t n_weights, void *dw, size_t n_work, void *work,
                                         size_t n_reserve, void *kept)
{
    const pass p = {h,      r,         dx, dy,   dh,   dh,         n_weights,
                    n_work, n_reserve, dw, work, kept, {x, y, &p}, 1};
    (void)hx;
    const cudnnStatus_t s = refusal(&p);
    if (s != CUDNN_STATUS_SUCCESS)
        return s;
    if (add != CUDNN_WGRAD_MODE_ADD)
        return CUDNN_STATUS_NOT_SUPPORTED;
    if (lengths || passed(kept, NOTHING) != BACKWARD)
        return CUDNN_STATUS_BAD_PARAM;
    return host_cudnn_run(h, "rnn_backward_weights", work, WORK);
}

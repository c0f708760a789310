/* weights.c - between the tensors of a file and the initialisers of a graph. */
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "onnx/onnx.h"

/* ---- which tensor a variable is ---- */

static pg_status note_tensor(void *ctx, size_t param, pg_store *file, size_t i, pg_err *err)
{
    pg__onnx *x = ctx;
    const pg_weight *w = pg_store_weight(file, i);
    const pg__param *p = &x->low->params[param];
    const pg__dims has = pg__dims_of(w->rank, w->dims);
    if (p->is_built && !pg__dims_equal(&has, &p->shape))
        return pg_fail(err, PG_E_MISMATCH, "%s is %s, the model expects %s", PG_SHOW(w->name),
                       PG_SHAPE(&has), PG_SHAPE(&p->shape));
    x->tensors[param] = i;
    return PG_OK;
}

pg_status pg__onnx_bind(pg__onnx *x, pg_err *err)
{
    pg_status st = PG_OK;
    x->tensors = pg__mem_array(x->low->n_params, sizeof *x->tensors);
    if (!x->tensors)
        return pg__nomem(err);
    for (size_t k = 0; k < x->low->n_params; k++)
        x->tensors[k] = PG_NONE;
    PG_TRY(pg__fit_walk(x->model->root, x->leaves, x->weights, note_tensor, x, err));
    for (size_t k = 0; k < x->low->n_params; k++) {
        const pg__param *p = &x->low->params[k];
        if (p->value != PG_NO_VAL && x->tensors[k] == PG_NONE)
            PG_FAIL(PG_E_MISMATCH, "%s: the file has no %s of it", PG_SHOW(p->leaf->layer->name),
                    p->var->name);
    }
done:
    return st;
}

/* ---- initialisers as a store ---- */

typedef struct view {
    const pg__onnx *x;
    pg__taker *taker;
    unsigned char *piece; /* PIECE elements, as large as doubles */
    double *values;       /* the same as numbers */
} view;

#define PIECE \
    ((size_t)65536) /* as many as are copied at a time: a take reads its source anew for each */

/* Elements first ... first + n of a tensor that is held in memory. */
static void put_values(const pg__onnx_init *t, uint64_t first, size_t n, unsigned char *to)
{
    const size_t each = pg_dtype_bytes(t->dtype);
    for (size_t k = 0; k < n; k++) {
        const double v = t->values[first + k];
        const int whole = t->dtype == PG_I64 || t->dtype == PG_I32;
        const int64_t number = whole ? (int64_t)v : 0;
        const int32_t narrow = (int32_t)number;
        switch (t->dtype) {
        case PG_I64: memcpy(to + k * each, &number, each); break;
        case PG_I32: memcpy(to + k * each, &narrow, each); break;
        case PG_BOOL: to[k] = v != 0; break;
        default: pg__round(to + k * each, t->dtype, &v, PG_F64, 1, NULL);
        }
    }
}

/* Multiplies elements from `first` on by the factors of their rows. */
static void scale(double *v, const pg__onnx_init *t, uint64_t first, size_t n, uint64_t row)
{
    for (size_t k = 0, end; k < n; k = end) {
        const uint64_t at = (first + k) / row, left = (at + 1) * row - (first + k);
        end = left < n - k ? k + (size_t)left : n;
        for (size_t i = k; i < end; i++)
            v[i] *= t->factors[at];
    }
}

/* The same of a view whose channels have a factor each, or are quantized. */
static pg_status put_scaled(view *v, size_t tensor, uint64_t first, size_t n, unsigned char *to,
                            pg_err *err)
{
    const pg__onnx_init *t = &v->x->g.inits[tensor];
    const size_t from = pg_dtype_bytes(t->take.from), each = pg_dtype_bytes(t->dtype);
    pg__take take = t->take;
    uint64_t row = 1;
    pg_status st = PG_OK;
    take.to = take.from;
    for (uint32_t k = 1; k < t->rank; k++)
        row *= t->dims[k];
    for (size_t at = 0, m; at < n; at += m) {
        m = n - at < PIECE ? n - at : PIECE;
        PG_TRY(
            pg__taker_read(v->taker, &take, tensor, (first + at) * from, v->piece, m * from, err));
        pg__values(v->values, v->piece, m, take.from);
        if (t->factors)
            scale(v->values, t, first + at, m, row);
        for (size_t k = 0; t->scales && k < m; k++)
            to[at + k] = (unsigned char)pg__onnx_quantized(t, first + at + k, v->values[k]);
        if (!t->scales)
            pg__round(to + at * each, t->dtype, v->values, PG_F64, m, NULL);
    }
done:
    return st;
}

/* Ranges are cut at whole elements. */
static pg_status read_elements(view *v, size_t tensor, uint64_t first, size_t n, unsigned char *to,
                               pg_err *err)
{
    const pg__onnx_init *t = &v->x->g.inits[tensor];
    if (t->factors || t->scales)
        return put_scaled(v, tensor, first, n, to, err);
    put_values(t, first, n, to);
    return PG_OK;
}

static pg_status read_init(void *ctx, size_t tensor, uint64_t off, void *buf, size_t n, pg_err *err)
{
    view *v = ctx;
    const pg__onnx_init *t = &v->x->g.inits[tensor];
    const size_t each = pg_dtype_bytes(t->dtype);
    unsigned char *to = buf, one[8];
    pg_status st = PG_OK;
    if (!t->values && !t->factors && !t->scales)
        return pg__taker_read(v->taker, &t->take, tensor, off, buf, n, err);
    while (n > 0) {
        const size_t skip = (size_t)(off % each), whole = skip || n < each ? 0 : n / each;
        size_t m = whole * each;
        if (whole > 0) {
            PG_TRY(read_elements(v, tensor, off / each, whole, to, err));
        } else {
            m = each - skip < n ? each - skip : n;
            PG_TRY(read_elements(v, tensor, off / each, 1, one, err));
            memcpy(to, one + skip, m);
        }
        off += m, to += m, n -= m;
    }
done:
    return st;
}

static void close_view(void *ctx)
{
    view *v = ctx;
    pg__taker_free(v->taker);
    pg__mem_free(v->piece);
    pg__mem_free(v->values);
    pg__mem_free(v);
}

static pg_status fill(pg_store *s, const pg__onnx *x, pg_err *err)
{
    pg_status st = PG_OK;
    for (size_t k = 0; k < x->g.n_inits; k++) {
        const pg__onnx_init *t = &x->g.inits[k];
        const pg__tensor_desc d = {.name = x->g.names.v[t->name],
                                   .dtype = t->dtype,
                                   .big_endian = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__,
                                   .rank = t->rank,
                                   .dims = t->dims};
        PG_TRY(pg__store_add_weight(s, &d, err));
    }
    PG_TRY(pg__store_set_path(s, pg__store_path(x->weights), err));
    pg__store_set_source(s, pg__store_source(x->weights));
done:
    return st;
}

pg_status pg__onnx_inits_store(pg_store **out, pg__onnx *x, const pg__rounding **rounding,
                               pg_err *err)
{
    static const pg__store_io io = {.read = read_init, .close = close_view};
    pg_store *s = NULL;
    pg_status st = PG_OK;
    view *v = pg__mem_array(1, sizeof *v);
    if (!v)
        return pg__nomem(err);
    v->x = x;
    v->piece = pg__mem_array(PIECE, sizeof(double));
    v->values = pg__mem_array(PIECE, sizeof *v->values);
    if (!v->piece || !v->values)
        PG_TRY(pg__nomem(err));
    PG_TRY(pg__taker_new(&v->taker, x->weights, x->g.n_inits, err));
    PG_TRY(pg__store_new(&s, PG_CONVERTED, &io, v, err));
    *rounding = pg__taker_rounding(v->taker);
    v = NULL; /* the store's */
    PG_TRY(fill(s, x, err));
    *out = s;
    s = NULL;
done:
    pg_store_close(s);
    if (v)
        close_view(v);
    return st;
}

/* layer_local.c - LocallyConnected1D, LocallyConnected2D: every position has a kernel of its own.
 * Sources: keras/layers/locally_connected of 2.15, conv_kernel_idxs() for the order of weights that
 * "implementation" 3 stores, bias_add() for the bias. */
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "model/lower/layers.h"
#include "model/lower/spatial.h"

#define MAX_WHOLE 16777216 /* so many whole numbers a float holds */

enum { MAX_LOCAL = 2 };

typedef struct local {
    const pg__layer *l;
    uint32_t rank;
    int first, keras1; /* channels first; of Keras 1 */
    uint64_t k[MAX_LOCAL], stride[MAX_LOCAL], before[MAX_LOCAL], after[MAX_LOCAL];
    uint64_t in[MAX_LOCAL], out[MAX_LOCAL];     /* cells */
    uint64_t channels, filters, places, window; /* window: numbers that one place sees */
} local;

static pg__tape *tape(pg__lowering *lw)
{
    return &lw->to->tape;
}

/* ---- the config ---- */

static pg_status read_kernel(local *c, const pg__layer *l, pg_err *err)
{
    static const char *const rows[] = {"filter_length", "nb_row"}, *const subsample[] = {
                                                                       "subsample_length",
                                                                       "subsample"};
    pg_status st = PG_OK;
    c->keras1 = pg__config_has(l, "nb_filter");
    if (c->keras1) {
        PG_TRY(pg__config_dim(&c->filters, l, "nb_filter", err));
        PG_TRY(pg__config_dim(&c->k[0], l, rows[c->rank - 1], err));
        if (c->rank == 2)
            PG_TRY(pg__config_dim(&c->k[1], l, "nb_col", err));
    } else {
        PG_TRY(pg__config_dim(&c->filters, l, "filters", err));
        PG_TRY(pg__config_dim_list(c->k, c->rank, l, "kernel_size", err));
    }
    PG_TRY(pg__config_dims_or(c->stride, c->rank, l, c->keras1 ? subsample[c->rank - 1] : "strides",
                              1, err));
done:
    return st;
}

/* Cells that are added for "same": half a kernel in front, regardless of strides. */
static pg_status read_places(local *c, int same, pg_err *err)
{
    for (uint32_t i = 0; i < c->rank; i++) {
        const uint64_t n = c->in[i], k = c->k[i], s = c->stride[i];
        if (!same && n < k)
            return pg_fail(err, PG_E_MISMATCH,
                           "\"kernel_size\" %llu is larger than the input, %llu",
                           (unsigned long long)k, (unsigned long long)n);
        c->out[i] = same ? (n - 1) / s + 1 : (n - k) / s + 1;
        c->before[i] = same ? k / 2 : 0;
        const uint64_t spanned = (c->out[i] - 1) * s + k, there = n + c->before[i];
        c->after[i] = same && spanned > there ? spanned - there : 0;
    }
    return PG_OK;
}

static pg_status read_local(local *c, pg__lowering *lw, const pg__layer *l, pg__val x,
                            int64_t *implementation, pg_err *err)
{
    const pg__dims *d = pg__dims_at(lw, x);
    pg__padding padding;
    pg_status st = PG_OK;
    *c = (local){.l = l, .rank = pg__spatial_rank(l->class_name), .places = 1};
    c->first = pg__is_channels_first(l);
    if (d->rank != c->rank + 2)
        PG_FAIL(PG_E_MISMATCH, "input %s does not have %u spatial dimensions", PG_SHAPE(d),
                c->rank);
    for (uint32_t i = 1; i < d->rank; i++)
        if (d->d[i] == PG_DIM_ANY || d->d[i] == 0 || d->d[i] > INT32_MAX)
            PG_FAIL(PG_E_MISMATCH, "input %s needs known sizes", PG_SHAPE(d));
    PG_TRY(read_kernel(c, l, err));
    c->channels = d->d[c->first ? 1 : c->rank + 1];
    c->window = c->channels;
    for (uint32_t i = 0; i < c->rank; i++)
        c->in[i] = d->d[i + (c->first ? 2 : 1)];
    *implementation = 1;
    if (pg__config_has(l, "implementation") &&
        (!pg__json_int(pg__json_get(l->config, "implementation"), implementation) ||
         *implementation < 1 || *implementation > 3))
        PG_FAIL(PG_E_FORMAT, "%s: \"implementation\" must be one of 1, 2, 3", PG_SHOW(l->name));
    PG_TRY(pg__config_padding(&padding, l, err));
    if (padding == PG_PAD_CAUSAL || (padding == PG_PAD_SAME && *implementation == 1))
        PG_FAIL(PG_E_FORMAT, "%s: \"padding\" is not for this \"implementation\"",
                PG_SHOW(l->name));
    PG_TRY(read_places(c, padding == PG_PAD_SAME, err));
    for (uint32_t i = 0; i < c->rank; i++) {
        c->window = pg__dim_mul(c->window, c->k[i]);
        c->places = pg__dim_mul(c->places, c->out[i]);
    }
    if (pg__dim_mul(c->window, c->window) > PG_MAX_CONSTANT ||
        pg__dim_mul(c->places, pg__dim_mul(c->window, c->filters)) > INT32_MAX)
        PG_FAIL(PG_E_LIMIT, "%s: its kernels have more weights than are supported",
                PG_SHOW(l->name));
done:
    return st;
}

/* ---- kernels, as (places, window, filters), the window as (cells, channels) ---- */

/* Implementation 1 stores them so; with channels first the window is (channels, cells). */
static pg_status stored_kernels(const local *c, pg__lowering *lw, pg__val *out, pg_err *err)
{
    static const uint32_t swap[PG_MAX_RANK] = {0, 2, 1, 3};
    const uint64_t cells = c->window / c->channels;
    const uint64_t stored[] = {c->places, c->window, c->filters};
    const pg__dims turned =
        pg__dims_of(4, (const uint64_t[]){c->places, c->channels, cells, c->filters});
    const pg__dims flat = pg__dims_of(3, stored);
    pg_status st = PG_OK;
    PG_TRY(pg__lower_param(lw, "kernel", 3, stored, out, err));
    if (!c->first)
        goto done;
    PG_TRY(pg__lower_reshape(lw, *out, &turned, out, err));
    PG_TRY(pg__lower_transpose(lw, *out, swap, out, err));
    PG_TRY(pg__lower_reshape(lw, *out, &flat, out, err));
done:
    return st;
}

/* The part of a position's window inside the input, in cells of the window. */
typedef struct inside {
    uint64_t first[MAX_LOCAL], end[MAX_LOCAL], n;
} inside;

static inside inside_of(const local *c, uint64_t place)
{
    inside w = {.n = 1};
    for (uint32_t i = c->rank; i-- > 0;) {
        const uint64_t begin = place % c->out[i] * c->stride[i]; /* in cells from -before on */
        const uint64_t last = c->in[i] + c->before[i];
        place /= c->out[i];
        w.first[i] = begin < c->before[i] ? c->before[i] - begin : 0;
        w.end[i] = begin + c->k[i] > last ? last - begin : c->k[i];
        w.n *= w.end[i] > w.first[i] ? w.end[i] - w.first[i] : 0;
    }
    return w;
}

/* Number of a window's cell among those inside the input, from 1; 0: it is outside. */
static uint64_t rank_inside(const local *c, const inside *w, uint64_t cell)
{
    uint64_t at[MAX_LOCAL] = {0}, n = 0;
    for (uint32_t i = c->rank; i-- > 0; cell /= c->k[i])
        at[i] = cell % c->k[i];
    for (uint32_t i = 0; i < c->rank; i++) {
        if (at[i] < w->first[i] || at[i] >= w->end[i])
            return 0;
        n = n * (w->end[i] - w->first[i]) + at[i] - w->first[i];
    }
    return n + 1;
}

/* Implementation 3 stores the weights between existing cells, ordered by target, then by source.
 * Returns their number; ids (or NULL): for each weight of the kernels its index among them,
 * `n_stored` if it is not stored. */
static uint64_t number_weights(const local *c, double *ids, uint64_t n_stored)
{
    const uint64_t cells = c->window / c->channels;
    uint64_t before = 0;
    for (uint64_t p = 0; p < c->places; p++) {
        const inside w = inside_of(c, p);
        const uint64_t n = w.n * c->channels;
        for (uint64_t cell = 0; ids && cell < cells; cell++) {
            const uint64_t rank = rank_inside(c, &w, cell);
            for (uint64_t ch = 0; ch < c->channels; ch++)
                for (uint64_t f = 0; f < c->filters; f++, ids++) {
                    const uint64_t from =
                        c->first ? ch * w.n + rank - 1 : (rank - 1) * c->channels + ch;
                    const uint64_t to = c->first ? f * (n_stored / c->filters) + before
                                                 : before * c->filters + f * n;
                    *ids = (double)(rank ? to + from : n_stored);
                }
        }
        before += n;
    }
    return before * c->filters;
}

static pg_status listed_kernels(const local *c, pg__lowering *lw, pg__val *out, pg_err *err)
{
    const uint64_t all = c->places * c->window * c->filters;
    const uint64_t n = all <= PG_MAX_CONSTANT ? number_weights(c, NULL, 0) : MAX_WHOLE;
    const pg__dims flat = pg__dims_of(1, &all), table = pg__dims_of(2, (const uint64_t[]){n, 1});
    const pg__dims kernels = pg__dims_of(3, (const uint64_t[]){c->places, c->window, c->filters});
    const pg__pad_attrs zero = {.after = {1}};
    double *ids = NULL;
    pg__val which;
    pg_status st = PG_OK;
    if (n == 0 || n >= MAX_WHOLE)
        PG_FAIL(PG_E_LIMIT, "%s: \"implementation\" 3 is supported with 1 to %d weights",
                PG_SHOW(c->l->name), MAX_WHOLE - 1);
    ids = pg__mem_array((size_t)all, sizeof *ids);
    if (!ids)
        PG_TRY(pg__nomem(err));
    (void)number_weights(c, ids, n);
    PG_TRY(pg__lower_constant(lw, &flat, ids, &which, err));
    PG_TRY(pg__lower_as_ids(lw, which, &which, err));
    PG_TRY(pg__lower_param(lw, "kernel", 1, &n, out, err));
    PG_TRY(pg__lower_reshape(lw, *out, &table, out, err));
    PG_TRY(pg__emit1(tape(lw), PG_OP_pad, &zero, *out, out, err));
    PG_TRY(pg__emit2(tape(lw), PG_OP_embedding, NULL, which, *out, out, err));
    PG_TRY(pg__lower_reshape(lw, *out, &kernels, out, err));
done:
    pg__mem_free(ids);
    return st;
}

/* ---- products ---- */

/* The window of each position: a convolution whose filters pick one number each. */
static pg_status windows(const local *c, pg__lowering *lw, pg__val x, pg__val *out, pg_err *err)
{
    pg__conv_attrs a = {.rank = c->rank, .groups = 1};
    pg__dims shape = {.rank = c->rank + 2};
    pg__val in[3] = {x, PG_NO_VAL, PG_NO_VAL};
    pg_status st = PG_OK;
    double *pick = pg__mem_array((size_t)(c->window * c->window), sizeof *pick);
    if (!pick)
        return pg__nomem(err);
    for (uint32_t i = 0; i < c->rank; i++) {
        shape.d[i] = a.kernel[i] = c->k[i];
        a.stride[i] = c->stride[i];
        a.dilation[i] = 1;
        a.before[i] = c->before[i];
        a.after[i] = c->after[i];
    }
    shape.d[c->rank] = c->channels;
    shape.d[c->rank + 1] = c->window;
    for (uint64_t i = 0; i < c->window; i++)
        pick[i * c->window + i] = 1;
    PG_TRY(pg__lower_constant(lw, &shape, pick, &in[1], err));
    PG_TRY(pg__emit(tape(lw), PG_OP_conv, &a, in, 3, out, err));
done:
    pg__mem_free(pick);
    return st;
}

/* A convolution over nothing with a group for each place. */
static pg_status by_places(const local *c, pg__lowering *lw, pg__val x, pg__val kernels,
                           pg__val *out, pg_err *err)
{
    static const uint32_t window_first[PG_MAX_RANK] = {1, 0, 2};
    const pg__conv_attrs a = {
        .rank = 1, .groups = c->places, .kernel = {1}, .stride = {1}, .dilation = {1}};
    pg__val in[3] = {x, kernels, PG_NO_VAL};
    pg_status st = PG_OK;
    PG_TRY(pg__to_channels_last(lw, c->l, c->rank, x, &in[0], err));
    const uint64_t rows = pg__dims_at(lw, in[0])->d[0];
    const pg__dims seen = pg__dims_of(3, (const uint64_t[]){rows, 1, c->places * c->window});
    const pg__dims w = pg__dims_of(3, (const uint64_t[]){1, c->window, c->places * c->filters});
    pg__dims y = {.rank = c->rank + 2, .d = {rows}};
    for (uint32_t i = 0; i < c->rank; i++)
        y.d[i + 1] = c->out[i];
    y.d[c->rank + 1] = c->filters;
    PG_TRY(windows(c, lw, in[0], &in[0], err));
    PG_TRY(pg__lower_reshape(lw, in[0], &seen, &in[0], err));
    PG_TRY(pg__lower_transpose(lw, in[1], window_first, &in[1], err));
    PG_TRY(pg__lower_reshape(lw, in[1], &w, &in[1], err));
    PG_TRY(pg__emit(tape(lw), PG_OP_conv, &a, in, 3, out, err));
    PG_TRY(pg__lower_reshape(lw, *out, &y, out, err));
    PG_TRY(pg__from_channels_last(lw, c->l, *out, out, err));
done:
    return st;
}

/* Which cell of the input each place sees: 1, else 0. */
static void see(const local *c, double *mask)
{
    uint64_t n_in = 1;
    for (uint32_t i = 0; i < c->rank; i++)
        n_in *= c->in[i];
    for (uint64_t cell = 0; cell < n_in; cell++)
        for (uint64_t p = 0; p < c->places; p++, mask++) {
            uint64_t at = cell, to = p;
            *mask = 1;
            for (uint32_t i = c->rank; i-- > 0; at /= c->in[i], to /= c->out[i]) {
                const uint64_t begin = to % c->out[i] * c->stride[i];
                const uint64_t here = at % c->in[i] + c->before[i];
                if (here < begin || here >= begin + c->k[i])
                    *mask = 0;
            }
        }
}

/* Implementation 2: one matrix between all numbers, most of which is unused. */
static pg_status by_matrix(const local *c, pg__lowering *lw, pg__val x, pg__val *out, pg_err *err)
{
    const uint32_t half = c->rank + 1;
    pg__dims kernel = {.rank = 2 * half}, seen = kernel, y = {.rank = half + 1};
    uint64_t n_in = c->channels, cells = 1;
    double *mask = NULL;
    pg__val w, sees;
    pg_status st = PG_OK;
    y.d[0] = pg__dims_at(lw, x)->d[0];
    for (uint32_t i = 0; i < half; i++) {
        const uint32_t at = c->first ? i - 1 : i; /* which of the spatial ones; none: channels */
        const int spatial = at < c->rank;
        kernel.d[i] = spatial ? c->in[at] : c->channels;
        kernel.d[half + i] = y.d[i + 1] = spatial ? c->out[at] : c->filters;
        seen.d[i] = spatial ? c->in[at] : 1;
        seen.d[half + i] = spatial ? c->out[at] : 1;
        cells = pg__dim_mul(cells, spatial ? c->in[at] : 1);
    }
    n_in = pg__dim_mul(n_in, cells);
    const uint64_t n_out = pg__dim_mul(c->places, c->filters);
    if (pg__dim_mul(n_in, n_out) > INT32_MAX || pg__dim_mul(cells, c->places) > PG_MAX_CONSTANT)
        PG_FAIL(PG_E_LIMIT, "%s: its kernel has more weights than are supported",
                PG_SHOW(c->l->name));
    mask = pg__mem_array((size_t)(cells * c->places), sizeof *mask);
    if (!mask)
        PG_TRY(pg__nomem(err));
    see(c, mask);
    const pg__dims matrix = pg__dims_of(2, (const uint64_t[]){n_in, n_out});
    const pg__dims flat = pg__dims_of(2, (const uint64_t[]){y.d[0], n_in});
    PG_TRY(pg__lower_constant(lw, &seen, mask, &sees, err));
    PG_TRY(pg__lower_param(lw, "kernel", kernel.rank, kernel.d, &w, err));
    PG_TRY(pg__lower_binary(lw, PG_MULTIPLY, w, sees, &w, err));
    PG_TRY(pg__lower_reshape(lw, w, &matrix, &w, err));
    PG_TRY(pg__lower_reshape(lw, x, &flat, &x, err));
    PG_TRY(pg__emit2(tape(lw), PG_OP_dense, NULL, x, w, out, err));
    PG_TRY(pg__lower_reshape(lw, *out, &y, out, err));
done:
    pg__mem_free(mask);
    return st;
}

/* The bias is (places, filters). With channels first, Keras 2 reads the same numbers as (filters,
 * places), which is how Keras 1 stores them. */
static pg_status add_bias(const local *c, pg__lowering *lw, pg__val *y, pg_err *err)
{
    pg__dims stored = {.rank = c->rank + 1}, used = stored;
    const int first = c->keras1 && c->first;
    pg__val bias;
    pg_status st = PG_OK;
    for (uint32_t i = 0; i < c->rank; i++) {
        stored.d[i + (first ? 1 : 0)] = c->out[i];
        used.d[i + (c->first ? 1 : 0)] = c->out[i];
    }
    stored.d[first ? 0 : c->rank] = used.d[c->first ? 0 : c->rank] = c->filters;
    if (!pg__config_bool(c->l, c->keras1 ? "bias" : "use_bias", 1))
        goto done;
    PG_TRY(pg__lower_param(lw, "bias", stored.rank, stored.d, &bias, err));
    PG_TRY(pg__lower_reshape(lw, bias, &used, &bias, err));
    PG_TRY(pg__lower_binary(lw, PG_ADD, *y, bias, y, err));
done:
    return st;
}

pg_status pg__lower_local_conv(pg__lowering *lw, const pg__layer *l, const pg__val *in, size_t n_in,
                               pg__results *out, pg_err *err)
{
    int64_t implementation;
    local c;
    pg__val kernels, y;
    pg_status st = PG_OK;
    PG_TRY(pg__lower_one_input(l, n_in, err));
    PG_TRY(read_local(&c, lw, l, in[0], &implementation, err));
    if (implementation == 2) {
        PG_TRY(by_matrix(&c, lw, in[0], &y, err));
    } else {
        PG_TRY((implementation == 1 ? stored_kernels : listed_kernels)(&c, lw, &kernels, err));
        PG_TRY(by_places(&c, lw, in[0], kernels, &y, err));
    }
    PG_TRY(add_bias(&c, lw, &y, err));
    out->n = 1;
    PG_TRY(
        pg__lower_activation_of(lw, l, pg__json_get(l->config, "activation"), y, &out->v[0], err));
done:
    return st;
}

/* dense_int8.c - dense layers in 8 bits. With many cells, each row of the batch is made into bytes
 * and multiplied while those are near; with few, the rows are multiplied together. */
#include "backend/cpu/dense_int8.h"

#include "backend/cpu/int8.h"
#include "base/mem.h"

#define MANY 16

struct pg__dense_int8 {
    pg__int8_product product;
    const pg__int8_kernels *kernels;
    size_t batch, cells, k, at_once; /* rows of the batch */
};

static const size_t first_byte = 0;

static size_t whole(size_t n_bytes)
{
    return (n_bytes + 63) / 64 * 64;
}

static size_t padded(size_t k)
{
    return (k + 3) / 4 * 4;
}

static size_t bytes_of(const pg__dense_int8 *d)
{
    return whole(d->at_once * d->cells * d->product.run_bytes);
}

int pg__dense_int8_pays(size_t cells, size_t n, size_t k)
{
    return pg__int8_pays(&(pg__int8_size){
        .rows = cells, .n = n, .k = k, .k_bytes = padded(k), .operand = cells * k});
}

pg_status pg__dense_int8_new(pg__dense_int8 **out, size_t batch, size_t cells, size_t n, size_t k,
                             pg__isa isa, pg__needs *needs, pg_err *err)
{
    if (!pg__int8_fits(k))
        return PG_OK;
    pg__dense_int8 *d = pg__mem_array(1, sizeof *d);
    if (!d)
        return pg__nomem(err);
    *d = (pg__dense_int8){
        .product = {.n = n, .n_runs = 1, .run_bytes = padded(k), .run_at = &first_byte},
        .kernels = pg__int8_kernels_of(isa),
        .batch = batch,
        .cells = cells,
        .k = k,
        .at_once = cells >= MANY ? 1 : batch};
    needs->shared_bytes = pg__int8_packed_bytes(&d->product);
    needs->scratch_bytes = bytes_of(d) + d->at_once * cells * sizeof(pg__int8_scale);
    needs->in_int8 = 1;
    *out = d;
    return PG_OK;
}

void pg__dense_int8_free(pg__dense_int8 *d)
{
    pg__mem_free(d);
}

void pg__dense_int8_pack(const pg__dense_int8 *d, const float *w, void *packed)
{
    const pg__int8_w of = {.cells = 1, .channels = d->k, .w = w};
    d->kernels->pack(&d->product, &of, packed);
}

/* The cells of one row of the batch, which share a scale. */
static void put_row(const pg__dense_int8 *d, const float *x, uint8_t *to, pg__int8_scale *scales)
{
    const size_t each = d->product.run_bytes;
    const pg__int8_scale by = d->kernels->scale(x, d->cells * d->k);
    for (size_t i = 0; i < d->cells; i++)
        scales[i] = by;
    if (each == d->k) {
        d->kernels->quantise(x, d->cells * d->k, by, to);
        return;
    }
    for (size_t i = 0; i < d->cells; i++) {
        for (size_t pad = d->k; pad < each; pad++)
            to[i * each + pad] = 0;
        d->kernels->quantise(x + i * d->k, d->k, by, to + i * each);
    }
}

void pg__dense_int8_run(const pg__dense_int8 *d, const float *x, const void *packed,
                        const float *bias, float *y, void *scratch)
{
    const size_t each = d->product.run_bytes;
    uint8_t *const bytes = scratch;
    pg__int8_scale *const scales = (void *)(bytes + bytes_of(d));
    for (size_t at = 0, some; at < d->batch; at += some) {
        some = d->batch - at < d->at_once ? d->batch - at : d->at_once;
        for (size_t i = 0; i < some; i++)
            put_row(d, x + (at + i) * d->cells * d->k, bytes + i * d->cells * each,
                    scales + i * d->cells);
        const pg__int8_rows r = {.a = bytes,
                                 .n_lines = 1,
                                 .m = some * d->cells,
                                 .row_bytes = each,
                                 .scales = scales,
                                 .scale_step = 1,
                                 .bias = bias,
                                 .c = y + at * d->cells * d->product.n};
        d->kernels->multiply(&d->product, packed, &r);
    }
}

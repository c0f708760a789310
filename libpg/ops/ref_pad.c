/* ref_pad.c - adds zeros around an array, or cuts cells off it: copies the part that both have. */
#include "ops/real.h"
#include "ops/strides.h"

void PG_REF(pad)(PG_REF_ARGS)
{
    const pg__pad_attrs *a = attrs_;
    const pg__dims *x = in[0].shape, *y = out[0].shape;
    pg__dims both = *x;
    pg__rowwalk w = {.off = {0, 0}};
    PG_UNUSED(n_in), PG_UNUSED(n_out);
    memset(out[0].p, 0, (size_t)out[0].n * sizeof(real));
    size_t step[2] = {1, 1};
    for (uint32_t i = x->rank; i-- > 0;) {
        const int64_t first = a->before[i] < 0 ? -a->before[i] : 0; /* of x that is kept */
        const int64_t cut = first + (a->after[i] < 0 ? -a->after[i] : 0);
        both.d[i] = (int64_t)x->d[i] > cut ? x->d[i] - (uint64_t)cut : 0;
        w.stride[0][i] = step[0];
        w.stride[1][i] = step[1];
        w.off[0] += (size_t)first * step[0];
        w.off[1] += (size_t)(a->before[i] > 0 ? a->before[i] : 0) * step[1];
        step[0] *= (size_t)x->d[i];
        step[1] *= (size_t)y->d[i];
    }
    for (uint32_t i = 0; i < both.rank; i++)
        if (both.d[i] == 0)
            return;
    for (size_t r = pg__n_rows(&both); r-- > 0; pg__rowwalk_next(&w, &both))
        memcpy(pg__reals_out(&out[0]) + w.off[1], pg__reals(&in[0]) + w.off[0],
               pg__last(&both) * sizeof(real));
}

/* pad_into_conv.c - turns zeros into a convolution's own padding; see pad_into_conv.h. */
#include "ops/pad_into_conv.h"

#include "base/mem.h"
#include "base/try.h"
#include "ops/attrs.h"

#define NOBODY UINT32_MAX

static pg__elem elem_of(const pg__elem *elems, size_t n, const pg__inst *i)
{
    return elems && i->origin < n ? elems[i->origin] : PG_ELEM_REAL;
}

static void count_readers(const pg__tape *t, uint32_t *n_readers)
{
    for (uint32_t at = 0; at < t->n_insts; at++)
        for (uint32_t k = 0; k < t->insts[at].n_in; k++)
            if (pg__in(t, &t->insts[at], k) != PG_NO_VAL)
                n_readers[pg__in(t, &t->insts[at], k)]++;
}

/* Zeros along spatial axes only. A kernel must reach the image from every cell of the padding:
 * libraries do not support anything else. */
static int fits(const pg__pad_attrs *pad, const pg__conv_attrs *conv)
{
    for (uint32_t i = 0; i < PG_MAX_RANK; i++) {
        const int spatial = i > 0 && i <= conv->rank;
        if (pad->before[i] < 0 || pad->after[i] < 0 ||
            (!spatial && pad->before[i] + pad->after[i] > 0))
            return 0;
    }
    for (uint32_t i = 0; i < conv->rank; i++) {
        const uint64_t reach = (conv->kernel[i] - 1) * conv->dilation[i];
        if (conv->before[i] + (uint64_t)pad->before[i + 1] > reach ||
            conv->after[i] + (uint64_t)pad->after[i + 1] > reach)
            return 0;
    }
    return 1;
}

static pg_status join(pg__tape *t, const pg__inst *pad, pg__inst *conv, pg_err *err)
{
    const pg__pad_attrs *zeros = pad->attrs;
    pg__conv_attrs *both = pg__mem_array(1, sizeof *both);
    if (!both)
        return pg__nomem(err);
    *both = *(const pg__conv_attrs *)conv->attrs;
    for (uint32_t i = 0; i < both->rank; i++) {
        both->before[i] += (uint64_t)zeros->before[i + 1];
        both->after[i] += (uint64_t)zeros->after[i + 1];
    }
    t->operands[conv->in] = pg__in(t, pad, 0);
    conv->attrs = both;
    return pg__tape_own(t, both, err);
}

pg_status pg__tape_pad_into_conv(pg__tape *t, const unsigned char *kept, const pg__elem *elems,
                                 size_t n_elems, pg_err *err)
{
    uint32_t *maker = pg__mem_array(t->n_values, sizeof *maker);
    uint32_t *n_readers = pg__mem_array(t->n_values, sizeof *n_readers);
    unsigned char *gone = pg__mem_array((size_t)t->n_insts + 1, 1);
    pg_status st = PG_OK;
    uint32_t n = 0;
    if (!maker || !n_readers || !gone)
        PG_TRY(pg__nomem(err));
    for (pg__val v = 0; v < t->n_values; v++)
        maker[v] = NOBODY;
    count_readers(t, n_readers);
    for (uint32_t at = 0; at < t->n_insts; at++) {
        pg__inst *conv = &t->insts[at];
        for (uint32_t k = 0; k < conv->n_out; k++)
            maker[pg__out(t, conv, k)] = at;
        if (conv->op != pg__op_of(PG_OP_conv))
            continue;
        const pg__val between = pg__in(t, conv, 0);
        if (maker[between] == NOBODY || n_readers[between] != 1 || kept[between])
            continue;
        const pg__inst *pad = &t->insts[maker[between]];
        if (pad->op != pg__op_of(PG_OP_pad) || pad->device != conv->device ||
            elem_of(elems, n_elems, pad) != elem_of(elems, n_elems, conv) ||
            !fits(pad->attrs, conv->attrs))
            continue;
        PG_TRY(join(t, pad, conv, err));
        gone[maker[between]] = 1;
    }
    for (uint32_t at = 0; at < t->n_insts; at++)
        if (!gone[at])
            t->insts[n++] = t->insts[at];
    t->n_insts = n;
done:
    pg__mem_free(gone);
    pg__mem_free(n_readers);
    pg__mem_free(maker);
    return st;
}

/* crop_first.c - moves cuts up to the operands; see crop_first.h. Goes from the last instruction to
 * the first: when it reaches an instruction, all readers of its results are known, including the
 * cuts that have moved up to it. */
#include "ops/crop_first.h"

#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "ops/attrs.h"

typedef struct work {
    pg__tape *t;
    const unsigned char *kept;
    uint32_t n_kept; /* values that it reports on; the others belong to the tape alone */
    const pg__elem *elems;
    size_t n_elems;
    pg__inst *later; /* instructions already visited, the last one first */
    uint32_t n_later;
    size_t cap_later;
} work;

static int is_kept(const work *w, pg__val v)
{
    return v < w->n_kept && w->kept[v];
}

static pg__elem elem_of(const work *w, const pg__inst *i)
{
    return w->elems && i->origin < w->n_elems ? w->elems[i->origin] : PG_ELEM_REAL;
}

/* Cuts only, and only on the axes of a row. */
static int is_crop(const pg__inst *i)
{
    const pg__pad_attrs *a = i->attrs;
    int any = 0;
    if (i->op != pg__op_of(PG_OP_pad) || a->before[0] != 0 || a->after[0] != 0)
        return 0;
    for (uint32_t k = 1; k < PG_MAX_RANK; k++) {
        if (a->before[k] > 0 || a->after[k] > 0)
            return 0;
        any |= a->before[k] < 0 || a->after[k] < 0;
    }
    return any;
}

static int is_same_crop(const pg__inst *a, const pg__inst *b)
{
    const pg__pad_attrs *x = a->attrs, *y = b->attrs;
    return memcmp(x->before, y->before, sizeof x->before) == 0 &&
           memcmp(x->after, y->after, sizeof x->after) == 0;
}

/* The last n axes, and those beyond them, are not cut. */
static int leaves_last(const pg__pad_attrs *a, uint32_t rank, uint32_t n)
{
    for (uint32_t k = rank - n; k < PG_MAX_RANK; k++)
        if (a->before[k] != 0 || a->after[k] != 0)
            return 0;
    return 1;
}

/* ---- which operands are cut instead ---- */

#define OPERAND(k) (1u << (k))

enum { QUERY = 0, QUERY_MASK = 3, SCORE_MASK = 6, FACTORS = 7 }; /* of attention */

static int reads(const work *w, pg__val v)
{
    for (uint32_t at = 0; at < w->n_later; at++)
        for (uint32_t k = 0; k < w->later[at].n_in; k++)
            if (pg__in(w->t, &w->later[at], k) == v)
                return 1;
    return 0;
}

/* Steps of a query are independent, unless their probabilities are read or a mask refers to them by
 * place. */
static unsigned attention_operands(const work *w, const pg__inst *i, const pg__pad_attrs *crop)
{
    const pg__val p = pg__out(w->t, i, 1);
    if (((const pg__attention_attrs *)i->attrs)->causal || is_kept(w, p) || reads(w, p) ||
        pg__in(w->t, i, SCORE_MASK) != PG_NO_VAL || pg__in(w->t, i, FACTORS) != PG_NO_VAL ||
        !leaves_last(crop, 3, 1))
        return 0;
    return OPERAND(QUERY) | (pg__in(w->t, i, QUERY_MASK) != PG_NO_VAL ? OPERAND(QUERY_MASK) : 0);
}

/* 0: the instruction does not treat the cut axis element by element. */
static unsigned operands_of(const work *w, const pg__inst *i, const pg__pad_attrs *crop)
{
    const pg__value *v = w->t->values;
    const pg__dims *y = &v[pg__out(w->t, i, 0)].shape;
    switch ((pg__op_kind)i->op->kind) {
    case PG_OP_act:
    case PG_OP_affine: return OPERAND(0);
    case PG_OP_add: return OPERAND(0) | OPERAND(1);
    case PG_OP_binary:
        return pg__dims_equal(&v[pg__in(w->t, i, 0)].shape, y) &&
                       pg__dims_equal(&v[pg__in(w->t, i, 1)].shape, y)
                   ? OPERAND(0) | OPERAND(1)
                   : 0;
    case PG_OP_dense: return leaves_last(crop, y->rank, 1) ? OPERAND(0) : 0;
    case PG_OP_layer_norm:
        return leaves_last(crop, y->rank, ((const pg__layer_norm_attrs *)i->attrs)->n_axes)
                   ? OPERAND(0)
                   : 0;
    case PG_OP_attention: return attention_operands(w, i, crop);
    default: return 0;
    }
}

/* ---- moving ---- */

/* The cut that all readers of the result make, or NULL. It must leave less than half, to be worth
 * the copies of several operands. If one of the cuts' results is kept, that one is returned. */
static const pg__inst *common_crop(const work *w, const pg__inst *i)
{
    const pg__val v = pg__out(w->t, i, 0);
    const pg__inst *found = NULL;
    for (uint32_t at = 0; at < w->n_later; at++) {
        const pg__inst *r = &w->later[at];
        for (uint32_t k = 0; k < r->n_in; k++) {
            if (pg__in(w->t, r, k) != v)
                continue;
            if (!is_crop(r) || (found && !is_same_crop(found, r)) || r->device != i->device ||
                elem_of(w, r) != elem_of(w, i) ||
                (found && is_kept(w, pg__out(w->t, found, 0)) && is_kept(w, pg__out(w->t, r, 0))))
                return NULL;
            if (!found || is_kept(w, pg__out(w->t, r, 0)))
                found = r;
        }
    }
    if (!found || is_kept(w, v))
        return NULL;
    const uint64_t whole = pg__dims_elems(&w->t->values[v].shape);
    const uint64_t part = pg__dims_elems(&w->t->values[pg__out(w->t, found, 0)].shape);
    return part < whole / 2 ? found : NULL;
}

/* All readers of `was` now read `now`; so do other names for the same memory. */
static void read_instead(work *w, pg__val was, pg__val now)
{
    for (pg__val v = 0; v < w->t->n_values; v++)
        if (w->t->values[v].alias == was)
            w->t->values[v].alias = now;
    for (uint32_t at = 0; at < w->n_later; at++)
        for (uint32_t k = 0; k < w->later[at].n_in; k++)
            if (pg__in(w->t, &w->later[at], k) == was)
                w->t->operands[w->later[at].in + k] = now;
}

/* Removes equal cuts of v, whose readers read `to` instead; kept ones only if they are `to`. */
static void drop_crops(work *w, pg__val v, const pg__inst *like, pg__val to)
{
    uint32_t n = 0;
    for (uint32_t at = 0; at < w->n_later; at++) {
        const pg__inst i = w->later[at];
        const pg__val y = pg__out(w->t, &i, 0);
        if (is_crop(&i) && pg__in(w->t, &i, 0) == v && is_same_crop(&i, like) &&
            i.device == like->device && elem_of(w, &i) == elem_of(w, like) &&
            (y == to || !is_kept(w, y)))
            read_instead(w, y, to);
        else
            w->later[n++] = i;
    }
    w->n_later = n;
}

static pg_status push(work *w, const pg__inst *i, pg_err *err)
{
    if (pg__mem_grow(&w->later, &w->cap_later, (size_t)w->n_later + 1, sizeof *w->later))
        return pg__nomem(err);
    w->later[w->n_later++] = *i;
    return PG_OK;
}

/* Cuts v before everything that was visited; all that make the same cut read this one. */
static pg_status crop_value(work *w, pg__val v, const pg__inst *like, pg__val *out, pg_err *err)
{
    pg__tape *t = w->t;
    pg_status st = PG_OK;
    t->origin = like->origin;
    t->device = like->device;
    PG_TRY(pg__emit1(t, PG_OP_pad, like->attrs, v, out, err));
    const pg__inst crop = t->insts[--t->n_insts];
    drop_crops(w, v, &crop, *out);
    PG_TRY(push(w, &crop, err));
done:
    return st;
}

/* Shapes of the other results follow the operands. */
static pg_status update_shapes(const work *w, const pg__inst *i, pg_err *err)
{
    const pg__dims *in[8] = {NULL};
    pg__dims out[8];
    for (uint32_t k = 0; k < i->n_in; k++)
        if (pg__in(w->t, i, k) != PG_NO_VAL)
            in[k] = &w->t->values[pg__in(w->t, i, k)].shape;
    const pg_status st = i->op->shape(i->attrs, in, i->n_in, out, err);
    for (uint32_t k = 1; k < i->n_out && st == PG_OK; k++)
        w->t->values[pg__out(w->t, i, k)].shape = out[k];
    return st;
}

static pg_status take(work *w, const pg__inst *i, pg_err *err)
{
    const pg__inst *found = common_crop(w, i);
    const unsigned which = found ? operands_of(w, i, found->attrs) : 0;
    pg_status st = PG_OK;
    if (which == 0)
        return push(w, i, err);
    const pg__inst crop = *found;
    const pg__val v = pg__out(w->t, i, 0), y = pg__out(w->t, &crop, 0);
    drop_crops(w, v, &crop, y);
    w->t->operands[i->out] = y;
    PG_TRY(push(w, i, err));
    for (uint32_t k = 0; k < i->n_in; k++) {
        pg__val part;
        if (!(which & OPERAND(k)))
            continue;
        PG_TRY(crop_value(w, pg__in(w->t, i, k), &crop, &part, err));
        w->t->operands[i->in + k] = part;
    }
    PG_TRY(update_shapes(w, i, err));
done:
    return st;
}

static int has_crop(const pg__tape *t)
{
    for (uint32_t at = 0; at < t->n_insts; at++)
        if (is_crop(&t->insts[at]))
            return 1;
    return 0;
}

/* Replaces the tape's instructions. */
static pg_status put_back(const work *w, pg_err *err)
{
    pg__tape *t = w->t;
    if (pg__mem_grow(&t->insts, &t->cap_insts, w->n_later, sizeof *t->insts))
        return pg__nomem(err);
    for (uint32_t at = 0; at < w->n_later; at++)
        t->insts[at] = w->later[w->n_later - 1 - at];
    t->n_insts = w->n_later;
    return PG_OK;
}

pg_status pg__tape_crop_first(pg__tape *t, const unsigned char *kept, const pg__elem *elems,
                              size_t n_elems, pg_err *err)
{
    work w = {.t = t, .kept = kept, .n_kept = t->n_values, .elems = elems, .n_elems = n_elems};
    const uint32_t n = t->n_insts, origin = t->origin, device = t->device;
    pg__inst *insts = NULL;
    pg_status st = PG_OK;
    if (!has_crop(t))
        return PG_OK;
    insts = pg__mem_array(n, sizeof *insts);
    if (!insts)
        PG_TRY(pg__nomem(err));
    memcpy(insts, t->insts, n * sizeof *insts);
    for (uint32_t at = n; at-- > 0;)
        PG_TRY(take(&w, &insts[at], err));
    PG_TRY(put_back(&w, err));
    t->origin = origin;
    t->device = device;
done:
    pg__mem_free(insts);
    pg__mem_free(w.later);
    return st;
}

/* exact.c - which values stay float32 in a model of float16 or bfloat16. These round whole numbers
 * above 2048 or 256, and a mask's value may lie beyond them: a wrong id or a lost mask changes all
 * that follows. */
#include "base/mem.h"
#include "onnx/onnx.h"

/* What a value is made of. */
enum { CONSTANTS, IDS, NUMBERS };

static unsigned char made_of(const pg__onnx *x, const pg__inst *i, const unsigned char *of)
{
    unsigned char most = CONSTANTS;
    if (i->op->kind == PG_OP_mask_steps)
        return IDS;
    for (uint32_t k = 0; k < i->n_in; k++) {
        const pg__val v = pg__onnx_in(x, i, k);
        if (v != PG_NO_VAL && of[v] > most)
            most = of[v];
    }
    return most;
}

static void mark_operands(pg__onnx *x, const pg__inst *i)
{
    for (uint32_t k = 0; k < i->n_in; k++)
        if (pg__onnx_in(x, i, k) != PG_NO_VAL)
            x->values[pg__onnx_in(x, i, k)].is_exact = 1;
}

/* Outputs that are ids, or how many there are of each. */
static void mark_outputs(pg__onnx *x, unsigned char *of)
{
    const pg__tape *t = x->tape;
    for (pg__val v = 0; v < t->n_values; v++)
        of[v] = t->values[v].elem == PG_ELEM_INT ? IDS : NUMBERS;
    for (uint32_t at = 0; at < t->n_insts; at++)
        for (uint32_t k = 0; k < t->insts[at].n_out; k++) {
            const pg__val v = pg__out(t, &t->insts[at], k);
            if (t->values[v].elem != PG_ELEM_INT)
                of[v] = made_of(x, &t->insts[at], of);
        }
    for (size_t k = 0; k < x->low->n_outputs; k++)
        x->values[x->low->outputs[k]].is_exact = of[x->low->outputs[k]] == IDS;
}

/* What exact values are made of is exact, too. */
static void mark_makers(pg__onnx *x)
{
    const pg__tape *t = x->tape;
    for (uint32_t at = t->n_insts; at-- > 0;) {
        const pg__inst *i = &t->insts[at];
        int exact =
            i->op->kind == PG_OP_mask_steps ||
            (i->op->kind == PG_OP_cast && ((const pg__cast_attrs *)i->attrs)->to == PG_ELEM_INT);
        for (uint32_t k = 0; k < i->n_out; k++)
            exact |= x->values[pg__out(t, i, k)].is_exact;
        if (exact)
            mark_operands(x, i);
    }
}

/* A state is exact after a step if it is before one. */
static int mark_states(pg__onnx *x)
{
    int any = 0;
    for (size_t k = 0; k < x->low->n_states; k++) {
        const pg__state *s = &x->low->states[k];
        if (x->values[s->before].is_exact && !x->values[s->after].is_exact)
            any = x->values[s->after].is_exact = 1;
    }
    return any;
}

void pg__onnx_find_exact(pg__onnx *x)
{
    unsigned char *of;
    if (x->asked == PG_F32)
        return;
    of = pg__mem_array(x->tape->n_values, 1);
    if (!of) {
        pg__onnx_check(x, pg__nomem(x->err));
        return;
    }
    mark_outputs(x, of);
    do
        mark_makers(x);
    while (mark_states(x));
    pg__mem_free(of);
}

/* compact.c - see compact.h. First goes backwards to find what must be float32, then forwards,
 * instruction by instruction: an operand of another type than the operation takes is cast (once for
 * all that use the cast), and results get their types. */
#include "ops/compact.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/try.h"

/* ---- what operations take ---- */

#define MAX_RULES 12

/* A letter for each operand and each result; the last one also applies to all others: a any, c the
 * layer's type, d that or float32, f float32, p as the operands. */
typedef struct rule {
    const char in[MAX_RULES], out[MAX_RULES];
} rule;

/* Libraries multiply operands of the same type; kernels read and write any. Kernels of convolutions
 * are transposed, and cast in the same step, when they are used (backend/cuda/kernel_copy.h). */
static const rule rules[PG_N_OPS] = {
    [PG_OP_activity] = {"a", "f"},
    [PG_OP_attention] = {"ccca", "c"},
    [PG_OP_attention_grad] = {"cccacca", "c"},
    [PG_OP_bn_stats] = {"a", "f"},
    [PG_OP_bn_sums] = {"a", "pf"},
    [PG_OP_bn_var] = {"a", "f"},
    [PG_OP_constant] = {"a", "f"},
    [PG_OP_conv] = {"caf", "c"},
    [PG_OP_conv_dw] = {"c", "f"},
    [PG_OP_conv_dx] = {"ca", "c"},
    [PG_OP_dense] = {"ccf", "d"},
    [PG_OP_dense_dw] = {"c", "f"},
    [PG_OP_dense_dx] = {"c", "d"},
    [PG_OP_dropout] = {"a", "d"},
    [PG_OP_embedding] = {"a", "d"},
    [PG_OP_embedding_dw] = {"a", "f"},
    [PG_OP_gru] = {"acaca", "c"},
    [PG_OP_gru_grad] = {"acacaaaaaac", "ffc"},
    [PG_OP_hash_ids] = {"a", "f"},
    [PG_OP_layer_norm] = {"a", "pf"},
    [PG_OP_layer_norm_grad] = {"a", "pf"},
    [PG_OP_loss] = {"fa", "f"},
    [PG_OP_loss_grad] = {"fa", "p"},
    [PG_OP_lstm] = {"acaca", "c"},
    [PG_OP_lstm_grad] = {"acacaaaaaac", "fc"},
    [PG_OP_mask_ids] = {"a", "f"},
    [PG_OP_mask_steps] = {"a", "f"},
    [PG_OP_mask_weights] = {"a", "f"},
    [PG_OP_matmul] = {"c", "d"},
    [PG_OP_meet_stats] = {"f", "f"},
    [PG_OP_meet_sums] = {"f", "f"},
    [PG_OP_normal] = {"a", "f"},
    [PG_OP_rnn] = {"acaca", "c"},
    [PG_OP_uniform] = {"a", "f"},
    [PG_OP_warp] = {"af", "p"},
    [PG_OP_rnn_grad] = {"acacaaaaaac", "fc"},
};

static pg__wants_elem letter(const char *of, uint32_t k, char otherwise)
{
    const size_t n = strlen(of);
    switch (n == 0 ? otherwise : of[k < n ? k : n - 1]) {
    case 'c': return PG_OWN;
    case 'd': return PG_OWN_OR;
    case 'f': return PG_FLOAT;
    case 'p': return PG_FOLLOWS;
    default: return PG_ANY;
    }
}

pg__wants_elem pg__operand_elem(const pg__op *op, uint32_t k)
{
    return letter(rules[op->kind].in, k, 'a');
}

pg__wants_elem pg__result_elem(const pg__op *op, uint32_t k)
{
    return letter(rules[op->kind].out, k, 'p');
}

/* ---- rounding ---- */

int pg__commutes_with_rounding(const pg__act_attrs *act)
{
    return act->kind == PG_ACT_RELU && act->a == INFINITY && act->b == 0 && act->c == 0;
}

/* Are results only numbers of operands, or 0? */
static int moves_numbers(const pg__inst *i)
{
    if (i->op->kind == PG_OP_act || i->op->kind == PG_OP_act_grad)
        return pg__commutes_with_rounding(i->attrs);
    return i->op->tol_f32 == 0;
}

int pg__is_rounded(const pg__tape *t, const pg__inst *i, uint32_t k)
{
    if (t->values[pg__out(t, i, k)].elem != PG_ELEM_AS_BF16 || !moves_numbers(i))
        return 0;
    for (uint32_t v = 0; v < i->n_in; v++)
        if (pg__in(t, i, v) != PG_NO_VAL && t->values[pg__in(t, i, v)].elem != PG_ELEM_AS_BF16)
            return 0;
    return 1;
}

/* ---- what must be float32 ---- */

static pg__val root_of(const pg__tape *t, pg__val v)
{
    while (t->values[v].alias != PG_NO_VAL)
        v = t->values[v].alias;
    return v;
}

static int is_compact(const pg__tape *t, pg__val v)
{
    return t->values[v].elem != PG_ELEM_REAL && t->values[v].elem != PG_ELEM_INT;
}

/* If a result is float32, must the operand be float32, too? */
static int passes_on(const pg__op *op)
{
    return op->kind == PG_OP_act || op->kind == PG_OP_add || op->kind == PG_OP_reshape ||
           op->kind == PG_OP_softmax;
}

static void find_floats(const pg__tape *t, const pg__val *floats, size_t n_floats,
                        unsigned char *is_float)
{
    for (size_t k = 0; k < n_floats; k++)
        if (floats[k] != PG_NO_VAL)
            is_float[root_of(t, floats[k])] = 1;
    for (uint32_t at = t->n_insts; at-- > 0;) {
        const pg__inst *i = &t->insts[at];
        const int all = passes_on(i->op) && is_float[root_of(t, pg__out(t, i, 0))];
        for (uint32_t k = 0; k < i->n_in; k++)
            if (pg__in(t, i, k) != PG_NO_VAL && (all || pg__operand_elem(i->op, k) == PG_FLOAT))
                is_float[root_of(t, pg__in(t, i, k))] = 1;
    }
}

/* ---- casts ---- */

typedef struct pass {
    pg__tape *t;
    const unsigned char *is_float; /* per value of the original tape */
    pg__val *casts[PG_N_ELEMS];    /* per value: the same value in that type, or PG_NO_VAL */
} pass;

static pg_status cast(pass *p, pg__val v, pg__elem to, pg__val *out, pg_err *err)
{
    const pg__cast_attrs a = {.from = p->t->values[v].elem, .to = to};
    return pg__emit1(p->t, PG_OP_cast, &a, v, out, err);
}

static pg_status take_as(pass *p, const pg__inst *i, uint32_t k, pg__elem to, pg_err *err)
{
    const pg__val v = pg__in(p->t, i, k);
    pg__val own = p->casts[to][v];
    pg_status st = PG_OK;
    if (own == PG_NO_VAL)
        PG_TRY(cast(p, v, to, &own, err));
    p->casts[to][v] = own;
    p->t->operands[i->in + k] = own;
done:
    return st;
}

/* Only GPUs cast the kernel of a convolution while they read it. */
static pg__wants_elem wants_of(const pg__op *op, uint32_t k, pg__elem own)
{
    const int is_kernel = k == 1 && (op->kind == PG_OP_conv || op->kind == PG_OP_conv_dx);
    return is_kernel && own == PG_ELEM_AS_BF16 ? PG_OWN : pg__operand_elem(op, k);
}

static pg_status take_operands(pass *p, const pg__inst *i, pg__elem own, pg_err *err)
{
    pg_status st = PG_OK;
    for (uint32_t k = 0; k < i->n_in; k++) {
        const pg__val v = pg__in(p->t, i, k);
        const pg__wants_elem wants = wants_of(i->op, k, own);
        const pg__elem to = wants == PG_OWN ? own : PG_ELEM_REAL;
        if (v != PG_NO_VAL && wants != PG_ANY && p->t->values[v].elem != PG_ELEM_INT &&
            p->t->values[v].elem != to)
            PG_TRY(take_as(p, i, k, to, err));
    }
done:
    return st;
}

/* ---- results ---- */

static int has_compact_operand(const pg__tape *t, const pg__inst *i)
{
    for (uint32_t k = 0; k < i->n_in; k++)
        if (pg__in(t, i, k) != PG_NO_VAL && is_compact(t, pg__in(t, i, k)))
            return 1;
    return 0;
}

/* Results that the operation produces in another type than the one required: made beside, then
 * cast. */
static pg_status make_beside(pass *p, const pg__inst *i, uint32_t k, pg__elem own, pg_err *err)
{
    const pg__dims shape = p->t->values[pg__out(p->t, i, k)].shape; /* the array moves */
    return pg__tape_value(p->t, &shape, own, PG_TEMP, 0, 0, &p->t->operands[i->out + k], err);
}

static pg_status make_results(pass *p, const pg__inst *i, pg__elem own, int has_compact,
                              pg_err *err)
{
    pg__tape *t = p->t;
    pg_status st = PG_OK;
    for (uint32_t k = 0; k < i->n_out; k++) {
        const pg__val v = pg__out(t, i, k);
        const pg__wants_elem wants = pg__result_elem(i->op, k);
        const int asked = p->is_float[v];
        const int follows = wants == PG_FOLLOWS && has_compact && !asked;
        const int is_own = wants == PG_OWN || (wants == PG_OWN_OR && !asked) || follows;
        t->values[v].elem = is_own && !asked ? own : PG_ELEM_REAL;
        if (is_own && asked && own != PG_ELEM_REAL)
            PG_TRY(make_beside(p, i, k, own, err));
    }
done:
    return st;
}

/* Casts the results that were made beside. made: the results before the cast. */
static pg_status cast_results(pass *p, const pg__inst *i, const pg__val *made, pg_err *err)
{
    pg_status st = PG_OK;
    for (uint32_t k = 0; k < i->n_out; k++) {
        pg__val unused;
        if (pg__out(p->t, i, k) == made[k])
            continue;
        PG_TRY(cast(p, pg__out(p->t, i, k), PG_ELEM_REAL, &unused, err));
        p->t->operands[p->t->insts[p->t->n_insts - 1].out] = made[k];
    }
done:
    return st;
}

#define MAX_OUT 8

static pg_status take_inst(pass *p, const pg__inst *i, pg__elem own, pg_err *err)
{
    pg__tape *t = p->t;
    const pg__val first = pg__out(t, i, 0);
    const int is_alias = t->values[first].alias != PG_NO_VAL;
    const int has_compact = has_compact_operand(t, i);
    pg__val made[MAX_OUT];
    pg_status st = PG_OK;
    t->origin = i->origin;
    t->device = i->device;
    for (uint32_t k = 0; k < i->n_out; k++)
        made[k] = pg__out(t, i, k);
    if (is_alias)
        t->values[first].elem = t->values[root_of(t, first)].elem;
    else if (i->op->kind != PG_OP_cast) {
        PG_TRY(take_operands(p, i, own, err));
        PG_TRY(make_results(p, i, own, has_compact, err));
    }
    if (pg__mem_grow(&t->insts, &t->cap_insts, (size_t)t->n_insts + 1, sizeof *t->insts))
        PG_TRY(pg__nomem(err));
    t->insts[t->n_insts++] = *i;
    PG_TRY(cast_results(p, i, made, err));
done:
    return st;
}

static pg_status take_all(pass *p, const pg__inst *insts, uint32_t n, const pg__elem *elems,
                          size_t n_elems, pg_err *err)
{
    const uint32_t n_forward = p->t->n_forward;
    pg_status st = PG_OK;
    p->t->n_insts = 0;
    for (uint32_t at = 0; at < n; at++) {
        if (at == n_forward)
            p->t->n_forward = p->t->n_insts;
        PG_TRY(take_inst(p, &insts[at],
                         insts[at].origin < n_elems ? elems[insts[at].origin] : PG_ELEM_REAL, err));
    }
    if (n <= n_forward)
        p->t->n_forward = p->t->n_insts;
done:
    return st;
}

pg_status pg__tape_compact(pg__tape *t, const pg__elem *elems, size_t n, const pg__val *floats,
                           size_t n_floats, pg_err *err)
{
    const uint32_t n_insts = t->n_insts;
    pg__inst *insts = pg__mem_array(n_insts, sizeof *insts);
    unsigned char *is_float = pg__mem_array(t->n_values, 1);
    pass p = {.t = t, .is_float = is_float};
    pg_status st = PG_OK;
    for (size_t e = 0; e < PG_N_ELEMS; e++) {
        p.casts[e] = pg__mem_array(t->n_values, sizeof **p.casts);
        if (!p.casts[e])
            PG_TRY(pg__nomem(err));
        memset(p.casts[e], 0xff, t->n_values * sizeof **p.casts);
    }
    if (!insts || !is_float)
        PG_TRY(pg__nomem(err));
    if (n_insts > 0)
        memcpy(insts, t->insts, n_insts * sizeof *insts);
    find_floats(t, floats, n_floats, is_float);
    PG_TRY(take_all(&p, insts, n_insts, elems, n, err));
done:
    for (size_t e = 0; e < PG_N_ELEMS; e++)
        pg__mem_free(p.casts[e]);
    pg__mem_free(is_float);
    pg__mem_free(insts);
    return st;
}

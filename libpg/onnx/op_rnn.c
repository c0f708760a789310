/* op_rnn.c - recurrent layers as LSTM, GRU and RNN of ONNX, which take the product with the kernel
 * along and have the steps first.
 *
 * ONNX says how many steps a row has; a mask of Keras may leave out any of them, and texts are
 * mostly padded in front. So the unmasked steps are moved to the front, in order, and afterwards
 * each step takes the output that was there when it was reached. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "onnx/onnx.h"

enum { ZX, KERNEL, BIAS, H0, C0, MASK, FACTORS };
enum { ALL, LAST, STATE, CELL }; /* results */

typedef struct kind {
    const char *op;
    uint32_t gates, order[4]; /* gate k of ONNX is gate order[k] of Keras */
    uint32_t n_acts;
} kind;

static const kind lstm = {"LSTM", 4, {0, 3, 1, 2}, 3};
static const kind gru = {"GRU", 3, {0, 1, 2}, 2};
static const kind simple = {"RNN", 1, {0}, 1};

typedef struct recurrence {
    pg__onnx *x;
    const pg__inst *i;
    const kind *k;
    const pg__rnn_attrs *a;
    uint64_t units;
    pg__onnx_steps *steps; /* of the mask, or NULL */
} recurrence;

static int is_recurrent(const pg__inst *i)
{
    return i->op->kind == PG_OP_lstm || i->op->kind == PG_OP_gru || i->op->kind == PG_OP_rnn;
}

static const pg__inst *maker_of(const pg__onnx *x, pg__val v)
{
    return x->values[v].maker ? &x->tape->insts[x->values[v].maker - 1] : NULL;
}

static int has_operator(const pg__inst *i);

int pg__onnx_feeds_recurrence(const pg__onnx *x, pg__val v)
{
    const uint32_t user = x->values[v].user;
    const pg__inst *product = maker_of(x, v), *i = user ? &x->tape->insts[user - 1] : NULL;
    return i && is_recurrent(i) && has_operator(i) && pg__onnx_in(x, i, ZX) == v && product &&
           pg__onnx_is_static(x, pg__onnx_in(x, product, 1)) &&
           (pg__onnx_in(x, product, 2) == PG_NO_VAL ||
            pg__onnx_is_static(x, pg__onnx_in(x, product, 2)));
}

/* The product that is taken along, or NULL. */
static const pg__inst *product_of(const recurrence *r)
{
    const pg__val zx = pg__onnx_in(r->x, r->i, ZX);
    return r->x->values[zx].uses == 1 && pg__onnx_feeds_recurrence(r->x, zx) ? maker_of(r->x, zx)
                                                                             : NULL;
}

/* ---- kernels ---- */

/* A kernel (rows, gates * units) held in memory, as (1, gates * units, rows). */
static pg__onnx_name computed_kernel(recurrence *r, const double *v, uint64_t rows)
{
    const uint64_t n = r->k->gates * r->units;
    const uint64_t dims[] = {1, n, rows};
    pg__onnx_name out = 0;
    if (pg__dim_mul(n, rows) > PG_MAX_CONSTANT) {
        pg__onnx_refuse(r->x, "computes a kernel of %llu x %llu, which is too large",
                        (unsigned long long)n, (unsigned long long)rows);
        return 0;
    }
    double *to = pg__mem_array((size_t)(n * rows), sizeof *to);
    if (!to) {
        pg__onnx_check(r->x, pg__nomem(r->x->err));
        return 0;
    }
    for (uint64_t c = 0; c < n; c++) {
        const uint64_t from = r->k->order[c / r->units] * r->units + c % r->units;
        for (uint64_t row = 0; row < rows; row++)
            to[c * rows + row] = v ? v[row * n + from] : (double)(row == from);
    }
    out = pg__onnx_const(r->x, "kernel", r->x->real, 3, dims, to);
    pg__mem_free(to);
    return out;
}

/* The same of a static value; a view of the source stays one. */
static pg__onnx_name kernel_of(recurrence *r, pg__val v)
{
    pg__onnx *x = r->x;
    const pg__onnx_value *value = &x->values[v];
    const uint64_t dims[] = {1, pg__onnx_dims(x, v)->d[1], pg__onnx_dims(x, v)->d[0]};
    pg__str name = {0};
    pg__onnx_name out = 0;
    pg__take t = value->take;
    if (!value->has_take || !value->param || !pg__dtype_is_float(t.from))
        return computed_kernel(r, pg__onnx_data(x, v), dims[2]);
    pg__take_permute(&t, (const uint32_t[]){1, 0});
    if (r->k->gates > 1 && !pg__take_reorder(&t, 0, r->k->gates, r->k->order))
        return computed_kernel(r, pg__onnx_data(x, v), dims[2]);
    if (!pg__take_show(&t, 3, dims) || x->st != PG_OK)
        return 0;
    pg__onnx_check(x, pg__onnx_param_name(&name, x, value->param - 1, x->err));
    if (x->st == PG_OK)
        pg__onnx_check(x, pg__onnx_new_name(&x->g, name.s, &out, x->err));
    if (x->st == PG_OK)
        pg__onnx_check(x, pg__onnx_add_take(x, &t, out, x->err));
    pg__str_fini(&name);
    return out;
}

/* The biases of the product and of the recurrence, (1, 2 gates * units). */
static pg__onnx_name biases(recurrence *r, pg__val input, pg__val recurrent)
{
    pg__onnx *x = r->x;
    const uint64_t n = r->k->gates * r->units, dims[] = {1, 2 * n};
    const pg__val from[] = {input, recurrent};
    pg__onnx_name out = PG_ONNX_ABSENT;
    if (input == PG_NO_VAL && recurrent == PG_NO_VAL)
        return out;
    double *to = pg__mem_array((size_t)(2 * n), sizeof *to);
    if (!to) {
        pg__onnx_check(x, pg__nomem(x->err));
        return out;
    }
    for (size_t half = 0; half < 2; half++) {
        const double *v = from[half] == PG_NO_VAL ? NULL : pg__onnx_data(x, from[half]);
        for (uint64_t c = 0; v && c < n; c++)
            to[half * n + c] = v[r->k->order[c / r->units] * r->units + c % r->units];
    }
    out = pg__onnx_const(x, "bias", x->real, 2, dims, to);
    pg__mem_free(to);
    return out;
}

/* ---- activations ---- */

typedef struct acts {
    const char *names[3];
    double alpha[3], beta[3];
    size_t n_alpha, n_beta;
} acts;

static int name_act(acts *to, size_t k, const pg__act_attrs *a)
{
    to->names[k] = NULL;
    switch (a->kind) {
    case PG_ACT_TANH: to->names[k] = "Tanh"; break;
    case PG_ACT_SIGMOID: to->names[k] = "Sigmoid"; break;
    case PG_ACT_SOFTSIGN: to->names[k] = "Softsign"; break;
    case PG_ACT_SOFTPLUS: to->names[k] = "Softplus"; break;
    case PG_ACT_HARD_SIGMOID:
        to->names[k] = "HardSigmoid";
        to->alpha[to->n_alpha++] = a->a;
        to->beta[to->n_beta++] = a->b;
        break;
    case PG_ACT_ELU:
        to->names[k] = "Elu";
        to->alpha[to->n_alpha++] = a->a;
        break;
    case PG_ACT_RELU:
        if ((a->b != 0 && a->b != 1) || a->c != 0 || !isinf(a->a))
            return 0;
        to->names[k] = a->b == 0 ? "Relu" : "Affine"; /* 1: linear */
        if (a->b == 1) {
            to->alpha[to->n_alpha++] = 1;
            to->beta[to->n_beta++] = 0;
        }
        break;
    default: return 0;
    }
    return 1;
}

/* Do the recurrent operators have its activations? */
static int has_operator(const pg__inst *i)
{
    const pg__rnn_attrs *a = i->attrs;
    acts list = {.n_alpha = 0};
    return name_act(&list, 0, &a->act) &&
           (i->op->kind == PG_OP_rnn || name_act(&list, 1, &a->gate));
}

static void add_acts(recurrence *r, pg__str *attrs)
{
    const pg__act_attrs *of[] = {r->k->n_acts > 1 ? &r->a->gate : &r->a->act, &r->a->act,
                                 &r->a->act};
    static const char *const usual[] = {"Sigmoid", "Tanh", "Tanh"};
    acts list = {.n_alpha = 0};
    int differs = 0;
    for (size_t k = 0; k < r->k->n_acts; k++) {
        (void)name_act(&list, k, of[k]); /* has_operator() has seen to it */
        differs |= strcmp(list.names[k], usual[r->k->n_acts > 1 ? k : 1]) != 0;
    }
    if (!differs)
        return;
    pg__onnx_texts(r->x, attrs, "activations", list.names, r->k->n_acts);
    if (list.n_alpha)
        pg__onnx_floats(r->x, attrs, "activation_alpha", list.alpha, list.n_alpha);
    if (list.n_beta)
        pg__onnx_floats(r->x, attrs, "activation_beta", list.beta, list.n_beta);
}

/* ---- masks ---- */

/* 0, 1, ... (steps,) as numbers. */
static pg__onnx_name positions(pg__onnx *x, pg__val mask)
{
    const int64_t ends[] = {0, 1};
    const pg__onnx_name from = pg__onnx_squeeze(x, pg__onnx_numbers(x, &ends[0], 1), 0);
    const pg__onnx_name by = pg__onnx_squeeze(x, pg__onnx_numbers(x, &ends[1], 1), 0);
    const pg__onnx_name size = pg__onnx_squeeze(x, pg__onnx_size(x, mask, 1), 0);
    return pg__onnx_cast(x, pg__onnx_op3(x, "Range", from, size, by), PG_F32);
}

static pg__onnx_name number32(pg__onnx *x, double v)
{
    return pg__onnx_const(x, "const", PG_F32, 0, (const uint64_t[]){0}, &v);
}

/* Positions of the unmasked steps, then those of the others: both in order. */
static pg__onnx_name order_of(pg__onnx *x, pg__val mask, pg__onnx_name m)
{
    const pg__onnx_name size = pg__onnx_size(x, mask, 1);
    const pg__onnx_name far = pg__onnx_op2(x, "Mul", pg__onnx_cast(x, size, PG_F32), m);
    const pg__onnx_name key = pg__onnx_op2(x, "Sub", far, positions(x, mask));
    const pg__onnx_name in[] = {key, size};
    pg__onnx_name out[] = {0, 0};
    pg__onnx_ops(x, "TopK", NULL, in, 2, out, 2);
    return pg__onnx_unsqueeze(x, out[1], 2);
}

static pg__onnx_steps *steps_of(pg__onnx *x, pg__val mask)
{
    const int64_t last = 1;
    for (size_t k = 0; k < x->n_steps; k++)
        if (x->steps[k].mask == mask)
            return &x->steps[k];
    if (pg__mem_grow(&x->steps, &x->cap_steps, x->n_steps + 1, sizeof *x->steps)) {
        pg__onnx_check(x, pg__nomem(x->err));
        return NULL;
    }
    const pg__onnx_name m = pg__onnx_cast(x, pg__onnx_get(x, mask), PG_F32);
    pg__onnx_steps s = {.mask = mask, .place = {PG_ONNX_ABSENT, PG_ONNX_ABSENT}};
    s.order = order_of(x, mask, m);
    const pg__onnx_name n = pg__onnx_reduce(x, "ReduceSum", m, &last, 1, 0);
    s.any = pg__onnx_op2(x, "Greater", n, number32(x, 0));
    s.lengths = pg__onnx_cast(x, pg__onnx_op2(x, "Max", n, number32(x, 1)), PG_I32);
    s.mask32 = m;
    x->steps[x->n_steps] = s;
    return &x->steps[x->n_steps++];
}

/* Where the output of each step is among the unmasked ones: that of the last one reached. */
static void find_places(recurrence *r, int reverse)
{
    pg__onnx *x = r->x;
    pg__onnx_steps *s = r->steps;
    const int64_t last = 1;
    pg__str attrs = {0};
    if (s->place[reverse] != PG_ONNX_ABSENT)
        return;
    if (reverse)
        pg__onnx_int(x, &attrs, "exclusive", 1);
    const pg__onnx_name axis = pg__onnx_squeeze(x, pg__onnx_numbers(x, &last, 1), 0);
    const pg__onnx_name in[] = {s->mask32, axis};
    pg__onnx_name at = pg__onnx_op(x, "CumSum", &attrs, in, 2);
    const pg__onnx_name n = pg__onnx_reduce(x, "ReduceSum", s->mask32, &last, 1, 1);
    if (!reverse)
        at = pg__onnx_op2(x, "Sub", at, number32(x, 1));
    s->shown[reverse] = reverse ? pg__onnx_op2(x, "Less", at, n)
                                : pg__onnx_op2(x, "GreaterOrEqual", at, number32(x, 0));
    if (reverse)
        at = pg__onnx_op2(x, "Min", at, pg__onnx_op2(x, "Sub", n, number32(x, 1)));
    at = pg__onnx_op2(x, "Max", at, number32(x, 0));
    s->place[reverse] = pg__onnx_unsqueeze(x, pg__onnx_cast(x, at, PG_I64), 2);
}

/* Rows of steps taken from other places. */
static pg__onnx_name gather(pg__onnx *x, pg__onnx_name v, pg__onnx_name places)
{
    const pg__onnx_name in[] = {v, places};
    pg__str attrs = {0};
    pg__onnx_int(x, &attrs, "batch_dims", 1);
    return pg__onnx_op(x, "GatherND", &attrs, in, 2);
}

/* ---- the node ---- */

static const pg__onnx_perm steps_first = {.p = {1, 0, 2}};

static pg__onnx_name input_of(recurrence *r, pg__val v)
{
    pg__onnx *x = r->x;
    if (!r->steps)
        return pg__onnx_as(x, v, &steps_first);
    return pg__onnx_transpose(x, gather(x, pg__onnx_get(x, v), r->steps->order), steps_first.p, 3);
}

static pg__onnx_name state_of(recurrence *r, size_t k)
{
    const pg__val v = pg__onnx_in(r->x, r->i, k);
    return v == PG_NO_VAL ? PG_ONNX_ABSENT : pg__onnx_unsqueeze(r->x, pg__onnx_get(r->x, v), 0);
}

static pg__onnx_name zero_unless(recurrence *r, pg__onnx_name open, pg__onnx_name v,
                                 pg__onnx_name otherwise)
{
    return pg__onnx_op3(r->x, "Where", open, v, otherwise);
}

static pg__onnx_name reversed(pg__onnx *x, pg__onnx_name v, int64_t axis)
{
    const int64_t from = -1, to = -(INT64_C(1) << 31), by = -1;
    return pg__onnx_slice(x, v, &from, &to, &axis, &by, 1);
}

/* Outputs of all steps. y: (steps, 1, rows, units). */
static void set_all(recurrence *r, pg__onnx_name y)
{
    pg__onnx *x = r->x;
    const pg__rnn_attrs *a = r->a;
    const pg__val out = pg__out(x->tape, r->i, ALL);
    const int turns = (a->reverse != 0) != (a->flip != 0);
    y = pg__onnx_squeeze(x, y, 1);
    if (!r->steps) {
        pg__onnx_set(x, out, &steps_first, turns ? reversed(x, y, 0) : y);
        return;
    }
    find_places(r, a->reverse != 0);
    const pg__onnx_name rows = pg__onnx_transpose(x, y, steps_first.p, 3);
    const pg__onnx_name open = a->zero_masked ? pg__onnx_cast(x, r->steps->mask32, PG_BOOL)
                                              : r->steps->shown[a->reverse != 0];
    const pg__onnx_name shown =
        zero_unless(r, pg__onnx_unsqueeze(x, open, 2),
                    gather(x, rows, r->steps->place[a->reverse != 0]), pg__onnx_number(x, 0));
    pg__onnx_set_plain(x, out, turns ? reversed(x, shown, 1) : shown);
}

/* 1 for rows whose last step, in the order of processing, has an output. */
static pg__onnx_name last_shown(recurrence *r)
{
    pg__onnx *x = r->x;
    const int64_t from = r->a->reverse ? 0 : -1, to = r->a->reverse ? 1 : INT64_C(1) << 31;
    const int64_t axis = 1;
    if (!r->a->zero_masked)
        return pg__onnx_unsqueeze(x, r->steps->any, 1);
    const pg__onnx_name last = pg__onnx_slice(x, r->steps->mask32, &from, &to, &axis, NULL, 1);
    return pg__onnx_cast(x, last, PG_BOOL);
}

/* The last output and the states. h, c: (1, rows, units). */
static void set_ends(recurrence *r, pg__onnx_name h, pg__onnx_name c)
{
    pg__onnx *x = r->x;
    const pg__onnx_name ends[] = {h, c};
    for (size_t k = 0; k < 2; k++) {
        const pg__val h0 = pg__onnx_in(x, r->i, H0 + k);
        if (ends[k] == PG_ONNX_ABSENT)
            continue;
        const pg__onnx_name end = pg__onnx_squeeze(x, ends[k], 0);
        pg__onnx_name state = end;
        if (r->steps) { /* rows without any step keep their state */
            const pg__onnx_name any = pg__onnx_unsqueeze(x, r->steps->any, 1);
            state = zero_unless(r, any, end,
                                h0 == PG_NO_VAL ? pg__onnx_number(x, 0) : pg__onnx_get(x, h0));
        }
        pg__onnx_set_plain(x, pg__out(x->tape, r->i, STATE + k), state);
        if (k == 0)
            pg__onnx_set_plain(x, pg__out(x->tape, r->i, LAST),
                               r->steps ? zero_unless(r, last_shown(r), end, pg__onnx_number(x, 0))
                                        : end);
    }
}

static int is_used(const recurrence *r, size_t k)
{
    return r->x->values[pg__out(r->x->tape, r->i, k)].uses > 0;
}

static void add_attrs(recurrence *r, pg__str *attrs)
{
    pg__onnx_int(r->x, attrs, "hidden_size", (int64_t)r->units);
    if (r->a->reverse)
        pg__onnx_text(r->x, attrs, "direction", "reverse");
    if (r->k == &gru && r->a->reset_after)
        pg__onnx_int(r->x, attrs, "linear_before_reset", 1);
    add_acts(r, attrs);
}

static void translate(pg__onnx *x, const pg__inst *i, const kind *k)
{
    if (!has_operator(i)) {
        pg__onnx_scan(x, i);
        return;
    }
    const pg__val kernel = pg__onnx_in(x, i, KERNEL), mask = pg__onnx_in(x, i, MASK);
    recurrence r = {.x = x, .i = i, .k = k, .a = i->attrs, .units = pg__onnx_dims(x, kernel)->d[0]};
    const pg__inst *product = product_of(&r);
    const uint64_t width = k->gates * r.units;
    pg__str attrs = {0};
    if (!pg__onnx_is_static(x, kernel)) {
        pg__onnx_refuse(x, "its recurrent kernel is computed");
        return;
    }
    if (mask != PG_NO_VAL)
        r.steps = steps_of(x, mask);
    if (x->st != PG_OK)
        return;
    const pg__onnx_name in[] = {
        input_of(&r, product ? pg__onnx_in(x, product, 0) : pg__onnx_in(x, i, ZX)),
        product ? kernel_of(&r, pg__onnx_in(x, product, 1)) : computed_kernel(&r, NULL, width),
        kernel_of(&r, kernel),
        biases(&r, product ? pg__onnx_in(x, product, 2) : PG_NO_VAL, pg__onnx_in(x, i, BIAS)),
        r.steps ? r.steps->lengths : PG_ONNX_ABSENT,
        state_of(&r, H0),
        k == &lstm ? state_of(&r, C0) : PG_ONNX_ABSENT};
    const int ends = is_used(&r, LAST) || is_used(&r, STATE);
    pg__onnx_name out[] = {is_used(&r, ALL) ? 0 : PG_ONNX_ABSENT, ends ? 0 : PG_ONNX_ABSENT,
                           k == &lstm && is_used(&r, CELL) ? 0 : PG_ONNX_ABSENT};
    size_t n_out = out[2] != PG_ONNX_ABSENT ? 3 : ends ? 2 : 1;
    add_attrs(&r, &attrs);
    pg__onnx_ops(x, k->op, &attrs, in, 7, out, n_out);
    if (out[0] != PG_ONNX_ABSENT)
        set_all(&r, out[0]);
    set_ends(&r, out[1], out[2]);
}

void pg__onnx_lstm(pg__onnx *x, const pg__inst *i)
{
    translate(x, i, &lstm);
}

void pg__onnx_gru(pg__onnx *x, const pg__inst *i)
{
    translate(x, i, &gru);
}

void pg__onnx_rnn(pg__onnx *x, const pg__inst *i)
{
    translate(x, i, &simple);
}

/* op_scan.c - recurrent layers that no recurrent operator of ONNX is, because of their activations:
 * a Scan, whose body is one step. It has any number of steps, and takes masks as they come. */
#include "onnx/onnx.h"

enum { ZX, KERNEL, BIAS, H0, C0, MASK };
enum { ALL, LAST, STATE, CELL }; /* results */

#define MOST_STATES 3 /* h, of an LSTM c, under a mask the output */

typedef struct scan {
    pg__onnx *x;
    const pg__inst *i;
    const pg__rnn_attrs *a;
    uint64_t units;
    pg__onnx_name kernel, bias, gates_kernel,
        own_kernel; /* gru: U of the gates, of the candidate */
    pg__onnx_name before[MOST_STATES], after[MOST_STATES];
    size_t n_states, shown; /* shown: which state is the output */
    pg__onnx_name zx, mask; /* of one step; mask: (rows, 1), or absent */
} scan;

static int is_kind(const scan *s, pg__op_kind kind)
{
    return s->i->op->kind == kind;
}

static pg__onnx_name act(scan *s, pg__onnx_name v, const pg__act_attrs *a)
{
    return pg__onnx_activation(s->x, v, a);
}

/* Parts of equal size along axis 1. */
static void split(scan *s, pg__onnx_name v, pg__onnx_name *out, size_t n)
{
    pg__str attrs = {0};
    pg__onnx_int(s->x, &attrs, "axis", 1);
    if (s->x->opset >= 18)
        pg__onnx_int(s->x, &attrs, "num_outputs", (int64_t)n);
    for (size_t k = 0; k < n; k++)
        out[k] = 0;
    pg__onnx_ops(s->x, "Split", &attrs, &v, 1, out, n);
}

/* ---- one step: the new state, unless the step is masked ---- */

static pg__onnx_name simple_step(scan *s)
{
    const pg__onnx_name u = pg__onnx_op2(s->x, "MatMul", s->before[0], s->kernel);
    return act(s, pg__onnx_op2(s->x, "Add", s->zx, u), &s->a->act);
}

static pg__onnx_name lstm_step(scan *s, pg__onnx_name *cell)
{
    pg__onnx *x = s->x;
    const pg__onnx_name u = pg__onnx_op2(x, "MatMul", s->before[0], s->kernel);
    pg__onnx_name z[4]; /* i, f, g, o */
    split(s, pg__onnx_op2(x, "Add", s->zx, u), z, 4);
    for (size_t k = 0; k < 4; k++)
        z[k] = act(s, z[k], k == 2 ? &s->a->act : &s->a->gate);
    const pg__onnx_name kept = pg__onnx_op2(x, "Mul", z[1], s->before[1]);
    *cell = pg__onnx_op2(x, "Add", kept, pg__onnx_op2(x, "Mul", z[0], z[2]));
    return pg__onnx_op2(x, "Mul", z[3], act(s, *cell, &s->a->act));
}

/* z h + (1 - z) g, as g + z (h - g) */
static pg__onnx_name gru_step(scan *s)
{
    pg__onnx *x = s->x;
    const pg__onnx_name h = s->before[0];
    pg__onnx_name in[3], u[3], gates[2], part;
    split(s, s->zx, in, 3);
    if (s->a->reset_after) {
        pg__onnx_name all = pg__onnx_op2(x, "MatMul", h, s->kernel);
        if (s->bias != PG_ONNX_ABSENT)
            all = pg__onnx_op2(x, "Add", all, s->bias);
        split(s, all, u, 3);
    } else {
        split(s, pg__onnx_op2(x, "MatMul", h, s->gates_kernel), u, 2);
    }
    for (size_t k = 0; k < 2; k++)
        gates[k] = act(s, pg__onnx_op2(x, "Add", in[k], u[k]), &s->a->gate);
    if (s->a->reset_after)
        part = pg__onnx_op2(x, "Mul", gates[1], u[2]);
    else
        part = pg__onnx_op2(x, "MatMul", pg__onnx_op2(x, "Mul", gates[1], h), s->own_kernel);
    const pg__onnx_name g = act(s, pg__onnx_op2(x, "Add", in[2], part), &s->a->act);
    const pg__onnx_name by = pg__onnx_op2(x, "Mul", gates[0], pg__onnx_op2(x, "Sub", h, g));
    return pg__onnx_op2(x, "Add", g, by);
}

static pg__onnx_name unless_masked(scan *s, pg__onnx_name v, pg__onnx_name otherwise)
{
    return s->mask == PG_ONNX_ABSENT ? v : pg__onnx_op3(s->x, "Where", s->mask, v, otherwise);
}

/* The results of the body: states, and then what is shown of this step. */
static void step(scan *s)
{
    pg__onnx_name cell = PG_ONNX_ABSENT;
    const pg__onnx_name h = is_kind(s, PG_OP_lstm)  ? lstm_step(s, &cell)
                            : is_kind(s, PG_OP_gru) ? gru_step(s)
                                                    : simple_step(s);
    s->after[0] = unless_masked(s, h, s->before[0]);
    if (cell != PG_ONNX_ABSENT)
        s->after[1] = unless_masked(s, cell, s->before[1]);
    if (s->shown > 0)
        s->after[s->shown] =
            unless_masked(s, h, s->a->zero_masked ? pg__onnx_number(s->x, 0) : s->before[s->shown]);
}

/* ---- the loop ---- */

static const pg__onnx_perm steps_first = {.p = {1, 0, 2}};

/* Zeros for each row. */
static pg__onnx_name zeros(scan *s)
{
    const int64_t units = (int64_t)s->units;
    const pg__onnx_name parts[] = {pg__onnx_size(s->x, pg__onnx_in(s->x, s->i, ZX), 0),
                                   pg__onnx_numbers(s->x, &units, 1)};
    return pg__onnx_op2(s->x, "Expand", pg__onnx_number(s->x, 0),
                        pg__onnx_concat(s->x, parts, 2, 0));
}

static pg__onnx_name initial(scan *s, size_t k)
{
    const pg__val v = k == s->shown && k > 0 ? PG_NO_VAL : pg__onnx_in(s->x, s->i, H0 + k);
    return v == PG_NO_VAL ? zeros(s) : pg__onnx_get(s->x, v);
}

static pg__onnx_name columns(scan *s, int64_t from, int64_t to)
{
    const int64_t axis = 1;
    return pg__onnx_slice(s->x, s->kernel, &from, &to, &axis, NULL, 1);
}

/* What the body reads from outside. */
static void take_kernels(scan *s)
{
    pg__onnx *x = s->x;
    const pg__val bias = pg__onnx_in(x, s->i, BIAS);
    const int64_t units = (int64_t)s->units;
    s->kernel = pg__onnx_get(x, pg__onnx_in(x, s->i, KERNEL));
    s->bias = bias == PG_NO_VAL ? PG_ONNX_ABSENT : pg__onnx_get(x, bias);
    if (is_kind(s, PG_OP_gru) && !s->a->reset_after) {
        s->gates_kernel = columns(s, 0, 2 * units);
        s->own_kernel = columns(s, 2 * units, 3 * units);
    }
}

static void add_attrs(const scan *s, pg__str *attrs, size_t n_in)
{
    const int64_t backwards[] = {1, 1}, prepends = 1;
    pg__onnx_int(s->x, attrs, "num_scan_inputs", (int64_t)n_in);
    if (s->a->reverse)
        pg__onnx_ints(s->x, attrs, "scan_input_directions", backwards, n_in);
    if (s->a->flip)
        pg__onnx_ints(s->x, attrs, "scan_output_directions", &prepends, 1);
}

static void set_results(const scan *s, const pg__onnx_name *out)
{
    static const size_t of_state[] = {STATE, CELL};
    const size_t n = is_kind(s, PG_OP_lstm) ? 2 : 1;
    for (size_t k = 0; k < n; k++)
        pg__onnx_set_plain(s->x, pg__out(s->x->tape, s->i, of_state[k]), out[k]);
    pg__onnx_set_plain(s->x, pg__out(s->x->tape, s->i, LAST), out[s->shown]);
    pg__onnx_set(s->x, pg__out(s->x->tape, s->i, ALL), &steps_first, out[s->n_states]);
}

void pg__onnx_scan(pg__onnx *x, const pg__inst *i)
{
    const pg__val mask = pg__onnx_in(x, i, MASK);
    const size_t n_in = mask == PG_NO_VAL ? 1 : 2;
    scan s = {.x = x, .i = i, .a = i->attrs, .mask = PG_ONNX_ABSENT};
    pg__onnx_name in[MOST_STATES + 2], inner[MOST_STATES + 2], results[MOST_STATES + 1];
    pg__onnx_name out[MOST_STATES + 1] = {0};
    pg__str attrs = {0};
    s.units = pg__onnx_dims(x, pg__onnx_in(x, i, KERNEL))->d[0];
    s.n_states = is_kind(&s, PG_OP_lstm) ? 2 : 1;
    if (mask != PG_NO_VAL)
        s.shown = s.n_states++;
    take_kernels(&s);
    for (size_t k = 0; k < s.n_states; k++)
        in[k] = initial(&s, k);
    in[s.n_states] = pg__onnx_as(x, pg__onnx_in(x, i, ZX), &steps_first);
    if (mask != PG_NO_VAL)
        in[s.n_states + 1] = pg__onnx_cast(x, pg__onnx_as(x, mask, &steps_first), PG_BOOL);
    pg__onnx_body_begin(x, inner, s.n_states + n_in);
    for (size_t k = 0; k < s.n_states; k++)
        s.before[k] = inner[k];
    s.zx = inner[s.n_states];
    if (mask != PG_NO_VAL)
        s.mask = pg__onnx_unsqueeze(x, inner[s.n_states + 1], 1);
    step(&s);
    for (size_t k = 0; k < s.n_states; k++)
        results[k] = s.after[k];
    results[s.n_states] = pg__onnx_op1(x, "Identity", s.after[s.shown]);
    add_attrs(&s, &attrs, n_in);
    pg__onnx_ops(x, "Scan", &attrs, in, s.n_states + n_in, out, s.n_states + 1);
    pg__onnx_body_end(x, inner, s.n_states + n_in, results, s.n_states + 1);
    if (x->st == PG_OK)
        set_results(&s, out);
}

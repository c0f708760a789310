/* op_run.h - running the cases of op_cases.h, forward and backward, by the plain answers or by a
 * back end, and comparing what comes out. */
#ifndef PG_TESTS_OP_RUN_H
#define PG_TESTS_OP_RUN_H

#include "pg_test.h"

#include <math.h>

#include "backend/backend.h"
#include "backend/cuda/pgk.h"
#include "base/mem.h"
#include "ops/op_cases.h"
#include "ops/overwrite.h"

/* xorshift: the same numbers on every machine. */
static double uniform(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return (double)(*state >> 11) / 9007199254740992.0;
}

/* Many different ones, 0 for every third, sometimes -1. */
static double id_at(uint64_t i)
{
    const uint64_t mixed = (i + 1) * 2654435761u >> 7;
    return i % 97 == 50 ? -1 : i % 3 == 0 ? 0 : (double)(mixed % 3000);
}

static int is_whole(fill f)
{
    return f == CLASS || f == STEP || f == IDS;
}

static void fill_values(double *v, uint64_t n, const operand *o, uint64_t *state)
{
    const uint64_t last = o->shape.rank ? o->shape.d[o->shape.rank - 1] : 1;
    for (uint64_t i = 0; i < n; i++) {
        const double u = uniform(state);
        const double sign = uniform(state) < 0.5 ? -1 : 1;
        const double value = o->fill == NORMAL || o->fill == SCALAR ? sign * (0.05 + 1.7 * u)
                             : o->fill == SMALL                     ? sign * 0.3 * u
                             : o->fill == ONE_HOT ? (double)(i % last == (i / last) % last)
                             : o->fill == CLASS   ? (double)(i % 5)
                             : o->fill == MASK    ? (double)(i % 3 != 1)
                             : o->fill == OPEN    ? 1
                             : o->fill == STEP    ? (double)(i * i + 3)
                             : o->fill == IDS     ? id_at(i)
                                                  : 0.1 + 0.8 * u;
        v[i] = (float)value; /* the same operands for both types */
    }
}

/* The tape of a case: its operands are parameters, so that all have gradients. */
typedef struct built {
    pg__tape tape;
    pg__val in[MAX_IN], out[MAX_OUT];
    pg__val missing; /* an operand that has no memory */
    size_t n_read;
    uint32_t n_forward;
    double *in_values[MAX_IN];
    double **values; /* per value of the tape */
} built;

static uint64_t elems(const built *b, pg__val v)
{
    return pg__dims_elems(&b->tape.values[v].shape);
}

/* Operands x, gamma, beta, mask: normalised with x's own statistics. */
static void emit_batch_norm(built *b, const void *attrs)
{
    pg__val stats[3], variance;
    assert_ok(pg__emit2(&b->tape, PG_OP_bn_stats, NULL, b->in[0], b->in[3], stats, NULL));
    assert_ok(pg__emit2(&b->tape, PG_OP_bn_var, attrs, stats[1], stats[2], &variance, NULL));
    const pg__val in[] = {b->in[0], stats[0], variance, b->in[1], b->in[2], stats[2], b->in[3]};
    assert_ok(pg__emit(&b->tape, PG_OP_bn_apply, attrs, in, 7, b->out, NULL));
}

static int has_grad(const operand *o)
{
    return o->fill != NONE && o->fill != MISSING && !is_whole(o->fill) && o->fill != MASK &&
           o->fill != OPEN;
}

static void build(built *b, const op_case *c)
{
    const pg__op *op = pg__op_of(c->kind);
    uint64_t state = 0x9E3779B97F4A7C15u;
    *b = (built){.missing = PG_NO_VAL};
    for (size_t k = 0; k < c->n_in; k++) {
        b->in[k] = PG_NO_VAL;
        if (c->in[k].fill == NONE)
            continue;
        assert_ok(pg__tape_value(
            &b->tape, &c->in[k].shape, is_whole(c->in[k].fill) ? PG_ELEM_INT : PG_ELEM_REAL,
            PG_PARAM, (uint32_t)k, k < c->n_grads % LARGE && has_grad(&c->in[k]), &b->in[k], NULL));
    }
    if (c->kind == PG_OP_bn_stats)
        emit_batch_norm(b, c->attrs);
    else
        assert_ok(pg__emit(&b->tape, c->kind, c->attrs, b->in, c->n_in, b->out, NULL));
    b->n_forward = b->tape.n_insts;
    b->n_read = c->kind == PG_OP_bn_stats    ? 1
                : c->kind == PG_OP_attention ? op->n_out
                                             : op->n_out - op->n_kept;
    for (size_t k = 0; k < c->n_in; k++)
        if (c->in[k].fill == MISSING)
            b->missing = b->in[k];
        else if (b->in[k] != PG_NO_VAL) {
            b->in_values[k] = pg__mem_array(elems(b, b->in[k]), sizeof(double));
            fill_values(b->in_values[k], elems(b, b->in[k]), &c->in[k], &state);
        }
}

/* Who computes: the plain answers, or a back end. */
typedef struct engine {
    int f64;
    const pg__backend *backend; /* NULL: the plain answers */
    const char *isa;            /* of the CPU's kernels */
    size_t *n_missing;          /* counts what the back end does not cover; NULL: nothing is */
    pg__dev *dev;               /* an open device; NULL: one is opened for each instruction */
    double slack; /* of a precision below float: bound where the operation's is less */
} engine;
#define FLOAT     ((engine){0})
#define DOUBLE    ((engine){.f64 = 1})
#define CPU(name) ((engine){.backend = &pg__backend_cpu, .isa = (name)})

/* What memory holds before anything is written to it. */
static unsigned char held = 0;

static pgk_type type_of(pg__elem elem)
{
    return elem == PG_ELEM_F16 ? PGK_F16 : PGK_BF16;
}

/* Numbers in the element type of a run; those of 16 bits are the same in double. */
static void store(void *p, pg__elem elem, int f64, uint64_t i, double v)
{
    if (elem == PG_ELEM_INT) {
        ((int32_t *)p)[i] = (int32_t)v;
        return;
    }
    const int is_compact = elem != PG_ELEM_REAL;
    const uint16_t bits = is_compact ? pgk_to_16(type_of(elem), (float)v) : 0;
    if (f64)
        ((double *)p)[i] = is_compact ? (double)pgk_of_16(type_of(elem), bits) : v;
    else if (elem == PG_ELEM_AS_BF16)
        ((float *)p)[i] = pgk_of_16(PGK_BF16, bits);
    else if (is_compact)
        ((uint16_t *)p)[i] = bits;
    else
        ((float *)p)[i] = (float)v;
}

static double load(const void *p, pg__elem elem, int f64, uint64_t i)
{
    if (elem == PG_ELEM_INT)
        return ((const int32_t *)p)[i];
    if (f64)
        return ((const double *)p)[i];
    if (elem != PG_ELEM_REAL && elem != PG_ELEM_AS_BF16)
        return (double)pgk_of_16(type_of(elem), ((const uint16_t *)p)[i]);
    return (double)((const float *)p)[i];
}

static size_t bytes_of(const built *b, pg__val v)
{
    return (size_t)elems(b, v) * pg__elem_bytes(b->tape.values[v].elem, sizeof(float));
}

static void run_plain(const built *b, const pg__inst *i, int f64, void **mem)
{
    pg__arg in[MAX_IN] = {{0}}, out[MAX_IN] = {{0}};
    for (uint32_t k = 0; k < i->n_in; k++) {
        const pg__val v = pg__in(&b->tape, i, k);
        if (v != PG_NO_VAL)
            in[k] = (pg__arg){&b->tape.values[v].shape, mem[v], elems(b, v)};
    }
    for (uint32_t k = 0; k < i->n_out; k++) {
        const pg__val v = pg__out(&b->tape, i, k);
        out[k] = (pg__arg){&b->tape.values[v].shape, mem[v], elems(b, v)};
    }
    (f64 ? i->op->ref_f64 : i->op->ref_f32)(i->attrs, in, i->n_in, out, i->n_out);
}

/* Memory as the device has it; what lies in one place there lies in one place here. */
static void *on_device(const pg__backend *on, pg__dev *dev, void *const *host, void *const *there,
                       uint32_t k, size_t n_bytes)
{
    void *p;
    if (on->host_memory)
        return host[k];
    for (uint32_t j = 0; j < k; j++)
        if (host[j] == host[k])
            return there[j];
    assert_ok(on->alloc(dev, &p, n_bytes + 1, NULL));
    assert_ok(on->put(dev, p, host[k], n_bytes));
    return p;
}

static void off_device(const pg__backend *on, pg__dev *dev, void *const *host, void *const *there,
                       uint32_t k, size_t n_bytes)
{
    for (uint32_t j = 0; j < k; j++)
        if (host[j] == host[k])
            return;
    if (on->host_memory || !there[k])
        return;
    assert_ok(on->get(dev, host[k], there[k], n_bytes));
    on->free(dev, there[k]);
}

static pg__val value_of(const built *b, const pg__inst *i, uint32_t k)
{
    return k < i->n_in ? pg__in(&b->tape, i, k) : pg__out(&b->tape, i, k - i->n_in);
}

/* What a kernel works in. */
static void *junk_of(const pg__backend *on, pg__dev *dev, size_t n_bytes)
{
    void *junk = pg__mem_aligned(n_bytes + 1), *p;
    memset(junk, held, n_bytes + 1);
    assert_ok(on->alloc(dev, &p, n_bytes + 1, NULL));
    assert_ok(on->put(dev, p, junk, n_bytes));
    pg__mem_free(junk);
    return p;
}

static void run_kernel(const built *b, const pg__inst *i, const pg__backend *on, pg__dev *dev,
                       const pg__kernel *kernel, const pg__needs *needs, void **mem)
{
    const uint32_t n = i->n_in + i->n_out;
    void *host[2 * MAX_IN] = {NULL}, *args[2 * MAX_IN] = {NULL}, *params[2 * MAX_IN] = {NULL};
    void *scratch = junk_of(on, dev, needs->scratch_bytes), *shared = NULL;
    for (uint32_t k = 0; k < n; k++) {
        const pg__val v = value_of(b, i, k);
        host[k] = v != PG_NO_VAL ? mem[v] : NULL;
        if (!host[k])
            continue;
        args[k] = on_device(on, dev, host, args, k, bytes_of(b, v));
        params[k] = b->tape.values[v].role == PG_PARAM ? args[k] : NULL;
    }
    if (needs->shared_bytes) {
        shared = junk_of(on, dev, needs->shared_bytes);
        assert_ok(on->share(dev, kernel, params, shared));
    }
    assert_ok(on->run(dev, kernel, args, scratch, shared));
    for (uint32_t k = n; k-- > 0;)
        if (host[k])
            off_device(on, dev, host, args, k, bytes_of(b, value_of(b, i, k)));
    on->free(dev, scratch);
    on->free(dev, shared);
}

/* As a program does it. PG_E_UNSUPPORTED: the back end does not cover it. */
static pg_status run_on_device(const built *b, const pg__inst *i, engine e, void **mem)
{
    const pg__backend *on = e.backend;
    pg__dev *dev = e.dev;
    pg__kernel *kernel = NULL;
    pg__needs needs;
    pg_err err = {0};
    if (!dev)
        assert_ok(on->open(&dev, 0, &(pg__dev_opts){.n_threads = 1, .isa = e.isa}, NULL));
    const pg_status st = on->prepare(&kernel, dev, &b->tape, i, &needs, &err);
    if (st == PG_OK)
        run_kernel(b, i, on, dev, kernel, &needs, mem);
    else if (st != PG_E_UNSUPPORTED)
        fail_msg("%s: %s", i->op->name, err.msg);
    on->release(kernel);
    if (!e.dev)
        on->close(dev);
    return st;
}

/* What only programs of host back ends are rewritten to. */
static int is_for_hosts(uint32_t kind)
{
    return kind == PG_OP_conv_norm;
}

/* What a back end does not cover the plain answer does in its place. */
static void run_one(const built *b, const pg__inst *i, engine e, void **mem)
{
    if (e.backend && run_on_device(b, i, e, mem) == PG_OK)
        return;
    if (e.backend) {
        assert_non_null(e.n_missing);
        *e.n_missing += !is_for_hosts(i->op->kind);
    }
    run_plain(b, i, e.f64, mem);
}

static void run_all(built *b, engine e, void **mem)
{
    for (uint32_t at = 0; at < b->tape.n_insts; at++)
        run_one(b, &b->tape.insts[at], e, mem);
}

/* A result of sums that nothing reads is not asked for. */
static int is_unwanted(const built *b, pg__val v)
{
    int is_through = 0;
    for (uint32_t at = 0; at < b->tape.n_insts; at++) {
        const pg__inst *i = &b->tape.insts[at];
        is_through |= i->op == pg__op_of(PG_OP_bn_sums) && pg__out(&b->tape, i, 0) == v;
        for (uint32_t k = 0; k < i->n_in; k++)
            if (pg__in(&b->tape, i, k) == v)
                return 0;
    }
    return is_through;
}

static void **alloc_all(const built *b, engine e)
{
    void **mem = pg__mem_array(b->tape.n_values, sizeof *mem);
    for (pg__val v = 0; v < b->tape.n_values; v++) {
        if (v == b->missing || is_unwanted(b, v))
            continue;
        mem[v] = pg__mem_aligned((size_t)elems(b, v) * sizeof(double));
        memset(mem[v], held, (size_t)elems(b, v) * sizeof(double));
        for (size_t k = 0; k < MAX_IN; k++)
            if (b->in_values[k] && b->in[k] == v)
                for (uint64_t i = 0; i < elems(b, v); i++)
                    store(mem[v], b->tape.values[v].elem, e.f64, i, b->in_values[k][i]);
    }
    return mem;
}

static void free_all(const built *b, void **mem)
{
    for (pg__val v = 0; v < b->tape.n_values; v++)
        pg__mem_free(mem[v]);
    pg__mem_free(mem);
}

static void drop(built *b)
{
    for (size_t k = 0; k < MAX_IN; k++)
        pg__mem_free(b->in_values[k]);
    pg__tape_fini(&b->tape);
}

/* The number whose gradient is checked: the sum of all results, each times a number of its own; the
 * weights of a loss are part of it, its seed is the common factor. */
static double factor(const built *b, uint64_t i)
{
    const int is_loss = b->tape.insts[0].op == pg__op_of(PG_OP_loss);
    if (b->tape.insts[0].op == pg__op_of(PG_OP_activity))
        return b->in_values[1][0];
    return is_loss ? b->in_values[3][0] : (float)(0.3 + 0.1 * (double)(i % 7));
}

/* Adds the backward pass; results of no loss get the factors as their gradients. */
static void add_backward(built *b)
{
    if (b->tape.insts[0].op != pg__op_of(PG_OP_loss))
        for (size_t k = 0; k < b->n_read; k++) {
            const pg__dims shape = b->tape.values[b->out[k]].shape; /* the array moves */
            pg__val seed;
            assert_ok(pg__tape_value(&b->tape, &shape, PG_ELEM_REAL, PG_SEED, 0, 0, &seed, NULL));
            b->tape.values[b->out[k]].grad = seed;
        }
    assert_ok(pg__tape_backward(&b->tape, NULL));
}

static void **run_case(built *b, engine e)
{
    void **mem = alloc_all(b, e);
    for (pg__val v = 0; v < b->tape.n_values; v++)
        for (uint64_t i = 0; b->tape.values[v].role == PG_SEED && i < elems(b, v); i++)
            store(mem[v], b->tape.values[v].elem, e.f64, i, factor(b, i));
    run_all(b, e, mem);
    return mem;
}

static void compare_value(const built *b, pg__val v, const pg__op *op, size_t c, double slack,
                          void **exact, void **mem)
{
    double top = 0, worst = 0;
    const pg__elem elem = b->tape.values[v].elem;
    for (uint64_t e = 0; e < elems(b, v); e++) {
        const double want = load(exact[v], elem, 1, e), got = load(mem[v], elem, 0, e);
        top = fmax(top, fabs(want));
        worst = fmax(worst, fabs(want - got));
        if (isnan(got) != isnan(want))
            worst = INFINITY;
    }
    if (!(worst <= fmax(op->tol_f32, slack) * top))
        fail_msg("case %zu, %s, value %u: off by %.3g of %.3g", c, op->name, v, worst, top);
}

/* What an operation keeps for its gradient is its own business; not so gradients that it keeps
 * because it works in them. */
static void compare(const built *b, size_t c, double slack, void **exact, void **mem)
{
    const pg__inst *last = &b->tape.insts[b->tape.n_insts - 1];
    for (uint32_t at = 0; at < b->tape.n_insts; at++) {
        const pg__inst *i = &b->tape.insts[at];
        for (uint32_t k = 0; k < i->n_out - i->op->n_kept; k++)
            if (mem[pg__out(&b->tape, i, k)])
                compare_value(b, pg__out(&b->tape, i, k), i->op, c, slack, exact, mem);
    }
    for (size_t k = 0; k < MAX_IN; k++)
        if (b->in_values[k] && b->tape.values[b->in[k]].grad != PG_NO_VAL)
            compare_value(b, b->tape.values[b->in[k]].grad, last->op, c, slack, exact, mem);
}

/* Of the checks below, only cases of this operation; NULL: all. */
static const char *only_op;

static inline int is_wanted(size_t c)
{
    return !only_op || strcmp(pg__op_of(cases[c].kind)->name, only_op) == 0;
}

static inline void agrees_with_double(engine e)
{
    for (size_t c = 0; c < N_CASES; c++) {
        built b;
        if (!is_wanted(c))
            continue;
        build(&b, &cases[c]);
        add_backward(&b);
        void **exact = run_case(&b, DOUBLE), **mem = run_case(&b, e);
        compare(&b, c, e.slack, exact, mem);
        free_all(&b, mem);
        free_all(&b, exact);
        drop(&b);
    }
}

static void same_bits(const built *b, size_t c, pg__val v, void **one, void **other)
{
    if (memcmp(one[v], other[v], bytes_of(b, v)) != 0)
        fail_msg("case %zu, %s, value %u: other bits", c, b->tape.insts[0].op->name, v);
}

/* Whatever memory held. */
static inline void gives_equal_bits(engine e)
{
    for (size_t c = 0; c < N_CASES; c++) {
        built b;
        if (!is_wanted(c))
            continue;
        build(&b, &cases[c]);
        add_backward(&b);
        void **one = run_case(&b, e);
        held = 0xff; /* NaN */
        void **other = run_case(&b, e);
        held = 0;
        for (size_t k = 0; k < b.n_read; k++)
            same_bits(&b, c, b.out[k], one, other);
        for (size_t k = 0; k < MAX_IN; k++)
            if (b.in_values[k] && b.tape.values[b.in[k]].grad != PG_NO_VAL)
                same_bits(&b, c, b.tape.values[b.in[k]].grad, one, other);
        free_all(&b, one);
        free_all(&b, other);
        drop(&b);
    }
}

/* The result of one instruction once more, in the place of an operand. */
static void check_overwriting(const built *b, const pg__inst *i, engine e, void **mem)
{
    const pg__val result = pg__out(&b->tape, i, 0);
    const size_t bytes = e.f64 ? (size_t)elems(b, result) * sizeof(double) : bytes_of(b, result);
    uint32_t operands[2];
    for (size_t k = mem[result] ? pg__overwrites(&b->tape, i, operands) : 0; k-- > 0;) {
        const pg__val v = pg__in(&b->tape, i, operands[k]);
        void *own = mem[v], *want = mem[result];
        mem[v] = mem[result] = pg__mem_aligned(bytes);
        memcpy(mem[v], own, bytes);
        run_one(b, i, e, mem);
        if (memcmp(mem[v], want, bytes) != 0)
            fail_msg("%s cannot write over its operand %u", i->op->name, operands[k]);
        pg__mem_free(mem[v]);
        mem[v] = own;
        mem[result] = want;
    }
}

/* Results in the place of operands, wherever pg__overwrites() lets them lie there; how many. */
static inline size_t writes_over_operands(engine e)
{
    size_t n = 0;
    for (size_t c = 0; c < N_CASES; c++) {
        built b;
        uint32_t unused[2];
        if (!is_wanted(c))
            continue;
        build(&b, &cases[c]);
        add_backward(&b);
        void **mem = run_case(&b, e);
        for (uint32_t at = 0; at < b.tape.n_insts; at++) {
            check_overwriting(&b, &b.tape.insts[at], e, mem);
            n += pg__overwrites(&b.tape, &b.tape.insts[at], unused);
        }
        free_all(&b, mem);
        drop(&b);
    }
    return n;
}

#endif

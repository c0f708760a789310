/* bn.c - batch normalisation, bound by memory: statistics and sums by parts of the rows
 * (columns.h), and passes over the images. Steps and formulas: ops/op_bn.c. */
#include "backend/cuda/columns.h"
#include "base/mem.h"

typedef struct bn {
    pg__bn_attrs attrs;
    pgk_bn_size z;
    size_t n_args;
    size_t parts, parts_too, counts; /* in scratch */
    pgk_real reals[10];              /* of the operands and results, without addresses */
} bn;

/* mask: the operand that is one, or none there. */
static bn *bn_new(const pg__cuda_inst *i, size_t mask)
{
    bn *b = pg__mem_array(1, sizeof *b);
    if (!b)
        return NULL;
    if (i->inst->op->kind != PG_OP_bn_stats) /* which has none */
        b->attrs = *(const pg__bn_attrs *)i->attrs;
    b->n_args = (size_t)i->inst->n_in + i->inst->n_out;
    b->z.rows = pg__cuda_rows(i, 0);
    b->z.width = pg__cuda_last(i, 0);
    b->z.parts = (b->z.rows + PGK_BN_SOME - 1) / PGK_BN_SOME;
    b->z.inner = 1;
    if (mask < i->inst->n_in && pg__cuda_n(i, mask) > 0)
        b->z.inner = b->z.rows / pg__cuda_n(i, mask);
    for (size_t k = 0; k < b->n_args; k++)
        b->reals[k] = pg__cuda_real(i, k);
    return b;
}

/* The same, for sums by parts. */
static bn *bn_parts(const pg__cuda_inst *i, size_t mask, pg__needs *needs)
{
    bn *b = bn_new(i, mask);
    if (!b)
        return NULL;
    b->z.parts = pg__columns_parts(b->z.rows, b->z.width);
    const size_t bytes = (size_t)(b->z.parts * b->z.width) * sizeof(float);
    b->parts = pg__cuda_reserve(needs, bytes);
    b->parts_too = pg__cuda_reserve(needs, bytes);
    b->counts = pg__cuda_reserve(needs, (size_t)b->z.parts * sizeof(float));
    return b;
}

static pgk_real arg(const bn *b, void *const *args, size_t k)
{
    return (pgk_real){k < b->n_args ? args[k] : NULL, k < b->n_args ? b->reals[k].type : PGK_F32};
}

static pgk_real floats_at(void *scratch, size_t at)
{
    return (pgk_real){(char *)scratch + at, PGK_F32};
}

#define PREPARE(fn, make)                       \
    PG_CUDA_PREPARE(fn)                         \
    {                                           \
        *state = make;                          \
        (void)needs;                            \
        return *state ? PG_OK : pg__nomem(err); \
    }

/* ---- statistics: x, mask -> mean, squared distances, count ---- */

static pg_status run_stats(pg__dev *d, const void *state, void *const *args, void *scratch,
                           const void *shared)
{
    const bn *b = state;
    const size_t out = b->n_args - 3;
    const pgk_bn_part part = {.x = arg(b, args, 0),
                              .mask = out > 1 ? arg(b, args, 1) : (pgk_real){NULL, PGK_F32},
                              .mean = floats_at(scratch, b->parts),
                              .m2 = floats_at(scratch, b->parts_too),
                              .count = floats_at(scratch, b->counts),
                              .z = b->z};
    const pgk_bn_stats join = {.x = part.x,
                               .part_mean = part.mean,
                               .part_m2 = part.m2,
                               .part_count = part.count,
                               .mean = arg(b, args, out),
                               .m2 = arg(b, args, out + 1),
                               .count = arg(b, args, out + 2),
                               .n = b->z.parts,
                               .width = b->z.width};
    (void)shared;
    const pg_status st = PG_LAUNCH(d, bn_part, &part, b->z.parts * b->z.width);
    return st == PG_OK ? PG_LAUNCH(d, bn_stats, &join, b->z.width) : st;
}
PREPARE(prepare_stats, bn_parts(i, 1, needs))
const pg__cuda_op pg__cuda_bn_stats = {.prepare = prepare_stats, .run = run_stats};

PG_CUDA_PREPARE(prepare_var)
{
    const pgk_bn_var a = {.attrs = *(const pg__bn_attrs *)i->attrs};
    (void)needs;
    return PG_ONE(bn_var, &a, pg__cuda_n(i, 0));
}
const pg__cuda_op pg__cuda_bn_var = PG_CUDA_ONE(prepare_var);

/* ---- x, mean, variance, gamma, beta, count, mask -> y ---- */

static pg_status run_apply(pg__dev *d, const void *state, void *const *args, void *scratch,
                           const void *shared)
{
    const bn *b = state;
    const size_t out = b->n_args - 1;
    pgk_bn_apply a = {.x = arg(b, args, 0),
                      .mean = arg(b, args, 1),
                      .variance = arg(b, args, 2),
                      .y = arg(b, args, out),
                      .z = b->z,
                      .epsilon = (float)b->attrs.epsilon};
    (void)scratch, (void)shared;
    if (out > 3)
        a.gamma = arg(b, args, 3);
    if (out > 4)
        a.beta = arg(b, args, 4);
    return PG_LAUNCH(d, bn_apply, &a, b->z.parts * b->z.width);
}
PREPARE(prepare_apply, bn_new(i, i->inst->n_in))
const pg__cuda_op pg__cuda_bn_apply = {.prepare = prepare_apply, .run = run_apply};

/* ---- gradient: x, dy, mean, variance -> nothing that is asked for, sums of dy and of dy times the
 * normalised x ---- */

static pg_status run_sums(pg__dev *d, const void *state, void *const *args, void *scratch,
                          const void *shared)
{
    const bn *b = state;
    const pgk_bn_sums_part part = {.x = arg(b, args, 0),
                                   .dy = arg(b, args, 1),
                                   .mean = arg(b, args, 2),
                                   .sum = floats_at(scratch, b->parts),
                                   .sum_x = floats_at(scratch, b->parts_too),
                                   .z = b->z};
    const pgk_bn_sums join = {.part = part.sum,
                              .part_x = part.sum_x,
                              .variance = arg(b, args, 3),
                              .sum = arg(b, args, 5),
                              .sum_x = arg(b, args, 6),
                              .n = b->z.parts,
                              .width = b->z.width,
                              .epsilon = (float)b->attrs.epsilon};
    (void)shared;
    const pg_status st = PG_LAUNCH(d, bn_sums_part, &part, b->z.parts * b->z.width);
    return st == PG_OK ? PG_LAUNCH(d, bn_sums, &join, b->z.width) : st;
}
PREPARE(prepare_sums, bn_parts(i, i->inst->n_in, needs))
const pg__cuda_op pg__cuda_bn_sums = {.prepare = prepare_sums, .run = run_sums};

/* ---- x, dy, mean, variance, gamma, sum, sum, count, mask -> dx ---- */

static pg_status run_dx(pg__dev *d, const void *state, void *const *args, void *scratch,
                        const void *shared)
{
    const bn *b = state;
    const pgk_bn_dx a = {.x = arg(b, args, 0),
                         .dy = arg(b, args, 1),
                         .mean = arg(b, args, 2),
                         .variance = arg(b, args, 3),
                         .gamma = arg(b, args, 4),
                         .sum = arg(b, args, 5),
                         .sum_x = arg(b, args, 6),
                         .count = arg(b, args, 7),
                         .mask = arg(b, args, 8),
                         .dx = arg(b, args, 9),
                         .z = b->z,
                         .epsilon = (float)b->attrs.epsilon};
    (void)scratch, (void)shared;
    return PG_LAUNCH(d, bn_dx, &a, b->z.parts * b->z.width);
}
PREPARE(prepare_dx, bn_new(i, 8))
const pg__cuda_op pg__cuda_bn_dx = {.prepare = prepare_dx, .run = run_dx};

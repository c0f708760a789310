/* move.c - moves elements to other places. */
#include "backend/cuda/kernel_copy.h"
#include "backend/cuda/turn.h"
#include "backend/cuda/walk.h"
#include "base/mem.h"

/* ---- the same elements ---- */

typedef struct copied {
    pgk_retype a;
    uint64_t n;
} copied;

/* Ids have 4 bytes, as floats do. */
PG_CUDA_PREPARE(prepare_reshape)
{
    copied *c = pg__mem_array(1, sizeof *c);
    (void)needs;
    if (!c)
        return pg__nomem(err);
    c->a = (pgk_retype){.x = pg__cuda_real(i, 0), .y = pg__cuda_real(i, 1)};
    c->n = pg__cuda_n(i, 0);
    *state = c;
    return PG_OK;
}

/* Mostly the result is the operand's memory. */
static pg_status run_reshape(pg__dev *d, const void *state, void *const *args, void *scratch,
                             const void *shared)
{
    const copied *c = state;
    pgk_retype a = c->a;
    (void)scratch, (void)shared;
    if (args[0] == args[1])
        return PG_OK;
    if (a.x.type == a.y.type)
        return pg__rt_copy(d->rt, args[1], args[0], pgk_bytes(a.x.type, c->n), &d->failure);
    a.x.p = args[0];
    a.y.p = args[1];
    return PG_LAUNCH(d, retype, &a, c->n);
}
const pg__cuda_op pg__cuda_reshape = {.prepare = prepare_reshape, .run = run_reshape};

/* ---- repeated, and in another order ---- */

static pg_status prepare_gather(void **state, const pg__cuda_inst *i, pgk_walk from, pg_err *err)
{
    pgk_gather a = {.from = from};
    a.wide = pg__walk_widen(&a.from);
    return PG_ONE(gather, &a, pg__cuda_n(i, 1) / (a.wide ? 4 : 1));
}

PG_CUDA_PREPARE(prepare_spread)
{
    (void)needs;
    return prepare_gather(state, i, pg__walk_along(&i->shapes[1], &i->shapes[0], NULL), err);
}
const pg__cuda_op pg__cuda_spread = PG_CUDA_ONE(prepare_spread);

/* Planes of axis 0 of the walk, the last one, and of axis `across`. */
static pgk_turn turn_of(const pgk_walk *w, uint32_t across)
{
    const pgk_axis *m = &w->axis[0], *n = &w->axis[across];
    pgk_turn a = pg__turn_of(m->n.by, n->n.by, m->step[0], n->step[1]);
    for (uint32_t k = 1; k < w->rank; k++)
        if (k != across)
            a.others.axis[a.others.rank++] = w->axis[k];
    return a;
}

PG_CUDA_PREPARE(prepare_transpose)
{
    const uint32_t *perm = ((const pg__transpose_attrs *)i->attrs)->perm;
    const pg__dims *y = &i->shapes[1];
    uint64_t of_x[PG_MAX_RANK], of_y[PG_MAX_RANK];
    pg__axes axes = {.rank = 0};
    (void)needs;
    pg__steps_of(of_x, &i->shapes[0]);
    pg__steps_of(of_y, y);
    for (uint32_t k = 0; k < y->rank; k++)
        pg__axes_add(&axes, y->d[k], of_x[perm[k]], of_y[k]);
    const pgk_walk w = pg__walk_of(&axes);
    uint32_t across = 0;
    while (across < w.rank && w.axis[across].step[0] != 1)
        across++;
    if (across == 0 || across == w.rank) /* the last axis stays the last */
        return prepare_gather(state, i, w, err);
    const pgk_turn a = turn_of(&w, across);
    return PG_ONE(turn, &a, pg__turn_n(&a));
}
const pg__cuda_op pg__cuda_transpose = PG_CUDA_ONE(prepare_transpose);

/* ---- padded and cut ---- */

/* Units of four, where rows and edges are made of them. */
static int widen_pad(pgk_pad *a)
{
    pgk_edge *last = &a->axis[0];
    if (a->rank == 0 || last->n.by % 4 || last->had % 4 || last->before % 4)
        return 0;
    last->n = pg__div_of(last->n.by / 4);
    last->had /= 4;
    last->before /= 4;
    for (uint32_t k = 1; k < a->rank; k++)
        a->axis[k].step /= 4;
    return 1;
}

/* An axis with no edge of its own is a part of the one before it. */
PG_CUDA_PREPARE(prepare_pad)
{
    const pg__pad_attrs *attrs = i->attrs;
    const pg__dims *x = &i->shapes[0], *y = &i->shapes[1];
    pgk_pad a = {.rank = 0};
    uint64_t step[PG_MAX_RANK], whole = 1; /* elements of axes that are not taken apart */
    (void)needs;
    pg__steps_of(step, x);
    for (uint32_t k = x->rank; k-- > 0;) {
        whole *= y->d[k];
        if (k > 0 && attrs->before[k] == 0 && attrs->after[k] == 0)
            continue;
        const uint64_t each = whole / y->d[k];
        a.axis[a.rank++] = (pgk_edge){.n = pg__div_of(whole),
                                      .before = attrs->before[k] * (int64_t)each,
                                      .had = x->d[k] * each,
                                      .step = step[k] / each};
        whole = 1;
    }
    a.wide = widen_pad(&a);
    return PG_ONE(pad, &a, pg__cuda_n(i, 1) / (a.wide ? 4 : 1));
}
const pg__cuda_op pg__cuda_pad = PG_CUDA_ONE(prepare_pad);

/* ---- joined ---- */

typedef struct joined {
    uint32_t n_in;
    uint64_t rows;
    pgk_join parts[];
} joined;

/* Elements of operand (or result) k that are adjacent in a row of the result. */
static uint64_t block_of(const pg__cuda_inst *i, size_t k)
{
    uint64_t n = 1;
    for (uint32_t d = ((const pg__concat_attrs *)i->attrs)->axis; d < i->shapes[k].rank; d++)
        n *= i->shapes[k].d[d];
    return n;
}

static int all_in_fours(const pg__cuda_inst *i)
{
    for (uint32_t k = 0; k < i->inst->n_in; k++)
        if (block_of(i, k) % 4)
            return 0;
    return 1;
}

/* Operands from `from` on, whose blocks begin at `first`. */
static pgk_join join_of(const pg__cuda_inst *i, uint32_t from, uint64_t first, int wide)
{
    const uint32_t n_in = i->inst->n_in;
    const uint64_t unit = wide ? 4 : 1;
    pgk_join a = {.y = pg__cuda_real(i, n_in), .wide = wide};
    uint32_t n = 0;
    for (; n < PGK_PIECES && from + n < n_in; n++) {
        a.x[n] = pg__cuda_real(i, from + n);
        a.begin[n + 1] = a.begin[n] + block_of(i, from + n) / unit;
    }
    a.first = first;
    a.row = block_of(i, n_in) / unit;
    a.n = pg__div_of(a.begin[n]);
    return a;
}

PG_CUDA_PREPARE(prepare_concat)
{
    const uint32_t n_in = i->inst->n_in;
    const size_t n_parts = (n_in + PGK_PIECES - 1) / PGK_PIECES;
    const uint64_t row = block_of(i, n_in);
    const int wide = all_in_fours(i);
    joined *j = pg__mem_array(1, sizeof *j + n_parts * sizeof *j->parts);
    uint64_t first = 0;
    (void)needs;
    if (!j)
        return pg__nomem(err);
    j->n_in = n_in;
    j->rows = row > 0 ? pg__cuda_n(i, n_in) / row : 0;
    for (size_t p = 0; p < n_parts; p++) {
        j->parts[p] = join_of(i, (uint32_t)p * PGK_PIECES, first, wide);
        first += j->parts[p].n.by;
    }
    *state = j;
    return PG_OK;
}

static pg_status run_concat(pg__dev *d, const void *state, void *const *args, void *scratch,
                            const void *shared)
{
    const joined *j = state;
    pg_status st = PG_OK;
    (void)scratch, (void)shared;
    for (uint32_t from = 0; st == PG_OK && from < j->n_in; from += PGK_PIECES) {
        pgk_join a = j->parts[from / PGK_PIECES];
        for (uint32_t k = 0; k < PGK_PIECES && from + k < j->n_in; k++)
            a.x[k].p = args[from + k];
        a.y.p = args[j->n_in];
        st = PG_LAUNCH(d, join, &a, j->rows * a.n.by);
    }
    return st;
}
const pg__cuda_op pg__cuda_concat = {.prepare = prepare_concat, .run = run_concat};

/* recur_library.c - see recur_library.h. */
#include "backend/cuda/recur_library.h"

#include <limits.h>
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "ops/rnn_room.h"

typedef struct pg__recur_library library;

#define MAX_WIDTH 4096u /* of the matrix of the inputs, which is square */

/* ---- preparing ---- */

static pg__dnn_rnn shape_of(const pg__recur *k)
{
    const pgk_rnn_step *z = &k->z;
    const uint32_t kind = k->cell->kind;
    return (pg__dnn_rnn){.cell = kind == PG_OP_lstm                 ? PG_DNN_LSTM
                                 : kind == PG_OP_gru                ? PG_DNN_GRU
                                 : z->attrs.act.kind == PG_ACT_TANH ? PG_DNN_TANH
                                                                    : PG_DNN_RELU,
                         .rows = z->rows,
                         .steps = z->steps,
                         .units = z->units,
                         .features = z->width,
                         .type = k->reals[KERNEL].type};
}

/* Numbers that it counts with have 31 bits; the operation's own results are of one type. */
static int is_covered(const pg__recur *k)
{
    const pgk_rnn_step *z = &k->z;
    return pg__rnn_is_usual(k->cell->kind, &z->attrs, k->has_mask, z->n_factors > 0) &&
           z->width <= MAX_WIDTH && z->rows < INT_MAX && z->steps < INT_MAX &&
           z->rows * z->steps < INT_MAX / MAX_WIDTH && k->reals[ZX].type == k->reals[KERNEL].type;
}

static size_t size_of(const pg__recur *k)
{
    return k->reals[KERNEL].type == PGK_F32 ? 4 : 2;
}

#define ALIGNED 256u /* as memory is handed out; values lie closer to each other */

/* Is there as much memory as the library keeps, wherever it begins? */
static int has_room(library *l, const pg__recur *k, const pg__cuda_inst *i)
{
    const pg__dims *d = &i->shapes[k->cell->is_gradient ? k->cell->room : k->n_in + k->cell->room];
    const pg__rnn_room room = pg__rnn_room_of(k->cell->kind);
    l->room = (size_t)(k->z.rows * k->z.steps * k->z.units * room.from) * size_of(k);
    return l->room + ALIGNED - 1 + l->layout.reserve <= (size_t)pg__dims_elems(d) * size_of(k);
}

static void reserve(library *l, const pg__recur *k, pg__needs *needs)
{
    const pgk_rnn_step *z = &k->z;
    const size_t state = (size_t)(z->rows * z->units) * size_of(k);
    l->weights = pg__cuda_reserve(needs, l->layout.weights);
    l->work = pg__cuda_reserve(needs, l->layout.work);
    if (z->attrs.reverse)
        l->x = pg__cuda_reserve(needs, (size_t)(z->rows * z->steps * z->width) * size_of(k));
    if (!k->cell->is_gradient)
        return;
    l->all = pg__cuda_reserve(needs, state * (size_t)z->steps);
    l->last = pg__cuda_reserve(needs, state);
    if (k->cell->dbias)
        l->dweights = pg__cuda_reserve(needs, l->layout.weights);
}

pg_status pg__recur_library_new(library **out, const pg__recur *k, const pg__cuda_inst *i,
                                int trains, pg__needs *needs, pg_err *err)
{
    library *l = NULL;
    pg_status st = PG_OK;
    if (!is_covered(k) || (pg__cuda_has(i, C0) && k->reals[C0].type != k->reals[KERNEL].type))
        return pg_fail(err, PG_E_NO, "this layer is not one that a library knows");
    l = pg__mem_array(1, sizeof *l);
    if (!l)
        return pg__nomem(err);
    l->shape = shape_of(k);
    PG_TRY(pg__dnn_rnn_new(&l->plan, i->dev, &l->shape, trains, &l->layout, err));
    if (trains && !has_room(l, k, i))
        PG_FAIL(PG_E_NO, "there is no room for what the library keeps");
    reserve(l, k, needs);
    *out = l;
    l = NULL;
done:
    pg__recur_library_free(l);
    return st;
}

void pg__recur_library_free(library *l)
{
    if (!l)
        return;
    pg__dnn_rnn_free(l->plan);
    pg__mem_free(l);
}

/* ---- running ---- */

static pgk_real in_scratch(const pg__recur_run *run, size_t at)
{
    return (pgk_real){run->scratch + at, run->k->reals[KERNEL].type};
}

static pgk_rnn_layout layout_of(const pg__recur_run *run)
{
    static const uint64_t lstm[] = {0, 1, 2, 3}, gru[] = {1, 0, 2, 3};
    const library *l = run->k->library;
    const int has_gates = pg__dnn_gates(l->shape.cell) > 1;
    pgk_rnn_layout to = {.units = l->shape.units,
                         .width = run->z.width,
                         .features = has_gates ? l->shape.features : 0,
                         .has_bias = l->shape.cell == PG_DNN_GRU};
    memcpy(to.of_input, l->layout.of_input, sizeof to.of_input);
    memcpy(to.of_state, l->layout.of_state, sizeof to.of_state);
    memcpy(to.bias, l->layout.bias, sizeof to.bias);
    memcpy(to.gate, l->shape.cell == PG_DNN_GRU ? gru : lstm, sizeof to.gate);
    return to;
}

static uint64_t outputs_of(const pg__recur_run *run)
{
    return pg__dnn_gates(run->k->library->shape.cell) * run->z.units;
}

static pg_status turn(pg__recur_run *run, pgk_real from, pgk_real to)
{
    const pgk_rnn_turn a = {.from = from, .to = to, .steps = run->z.steps, .n = run->z.width};
    return PG_LAUNCH(run->d, rnn_turn, &a, run->z.rows * run->z.steps * run->z.width);
}

/* What forward and backward begin with: the weights, the input in the order of the steps. */
static pg_status begin(pg__recur_run *run, pg__dnn_rnn_io *io)
{
    const library *l = run->k->library;
    const pgk_rnn_pack a = {.kernel = run->v[KERNEL],
                            .bias = run->v[BIAS],
                            .to = in_scratch(run, l->weights),
                            .l = layout_of(run)};
    pg_status st = PG_OK;
    *io = (pg__dnn_rnn_io){.weights = a.to.p,
                           .x = run->v[ZX].p,
                           .h0 = run->v[H0].p,
                           .c0 = run->k->cell->cell ? run->v[C0].p : NULL,
                           .work = run->scratch + l->work};
    PG_TRY(PG_LAUNCH(run->d, rnn_pack, &a, outputs_of(run) * (a.l.features + a.l.units + 1)));
    if (run->z.attrs.reverse) {
        io->x = run->scratch + l->x;
        PG_TRY(turn(run, run->v[ZX], in_scratch(run, l->x)));
    }
done:
    return st;
}

/* Where what the library keeps begins, the same for forward and backward. */
static char *kept(const library *l, pgk_real result)
{
    char *from = (char *)result.p + l->room;
    return from + (-(uintptr_t)from & (ALIGNED - 1));
}

static pg_status forward(pg__recur_run *run)
{
    const pg__recur_cell *cell = run->k->cell;
    const pgk_rnn_show a = {.states = run->out[cell->states],
                            .y = run->out[Y],
                            .last = run->out[LAST],
                            .state = run->out[STATE],
                            .steps = run->z.steps,
                            .units = run->z.units,
                            .flip = run->z.attrs.flip};
    pg__dnn_rnn_io io;
    pg_status st = PG_OK;
    PG_TRY(begin(run, &io));
    io.y = a.states.p;
    io.c = cell->cell ? run->out[cell->cell].p : NULL;
    io.reserve =
        run->k->library->layout.reserve ? kept(run->k->library, run->out[cell->room]) : NULL;
    PG_TRY(pg__dnn_rnn_forward(run->d, run->k->library->plan, &io));
    PG_TRY(PG_LAUNCH(run->d, rnn_show, &a, pg__recur_units(run) * run->z.steps));
done:
    return st;
}

/* From the library's weights; where the gradient of the kernel is made of that of x, ours. */
static pg_status parameters(pg__recur_run *run)
{
    const pg__recur_cell *cell = run->k->cell;
    if (!cell->dbias)
        return cell->parameters(run);
    const pgk_rnn_unpack a = {.from = in_scratch(run, run->k->library->dweights),
                              .kernel = run->out[0],
                              .bias = run->out[cell->dbias],
                              .l = layout_of(run)};
    return PG_LAUNCH(run->d, rnn_unpack, &a, outputs_of(run) * (a.l.units + 1));
}

static pg_status gather(pg__recur_run *run, pg__dnn_rnn_io *io)
{
    const library *l = run->k->library;
    const pgk_rnn_gather a = {.dy = run->v[DY],
                              .dlast = run->v[DLAST],
                              .dstate = run->v[DSTATE],
                              .all = in_scratch(run, l->all),
                              .last = in_scratch(run, l->last),
                              .steps = run->z.steps,
                              .units = run->z.units,
                              .flip = run->z.attrs.flip};
    io->dy = a.all.p;
    io->dh = a.last.p;
    return PG_LAUNCH(run->d, rnn_gather, &a, pg__recur_units(run) * run->z.steps);
}

static pg_status backward(pg__recur_run *run)
{
    const library *l = run->k->library;
    const pg__recur_cell *cell = run->k->cell;
    const int reverse = run->z.attrs.reverse;
    pg__dnn_rnn_io io;
    pg_status st = PG_OK;
    PG_TRY(begin(run, &io));
    PG_TRY(gather(run, &io));
    io.y = run->v[cell->states].p;
    io.reserve = kept(l, run->v[cell->room]);
    io.dc = cell->cell ? run->v[cell->cell].p : NULL;
    io.dx = run->out[cell->dzx].p;
    io.dh0 = run->out[cell->dh0].p;
    io.dc0 = cell->dc0 ? run->out[cell->dc0].p : NULL;
    if (cell->dbias) {
        io.dweights = run->scratch + l->dweights;
        PG_TRY(pg__rt_clear(run->d->rt, io.dweights, l->layout.weights, &run->d->failure));
    }
    PG_TRY(pg__dnn_rnn_backward(run->d, l->plan, &io));
    if (reverse) { /* of what was turned, by way of where that lies */
        PG_TRY(turn(run, run->out[cell->dzx], in_scratch(run, l->x)));
        PG_TRY(pg__rt_copy(run->d->rt, io.dx, run->scratch + l->x,
                           (size_t)(run->z.rows * run->z.steps * run->z.width) * size_of(run->k),
                           &run->d->failure));
    }
    PG_TRY(parameters(run));
done:
    return st;
}

pg_status pg__recur_library_go(pg__recur_run *run)
{
    return run->k->cell->is_gradient ? backward(run) : forward(run);
}

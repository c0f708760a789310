/* batch_order.c - epochs, passes and batches as numbers of rows. Keras' rules, measured on 2.15:
 * steps_per_epoch cuts an endless stream of passes, validation always begins at its first row. */
#include "train/data/batch_order.h"

#include "base/mem.h"
#include "base/try.h"
#include "train/data/shuffle.h"

struct pg__batch_order {
    pg__batch_order_opts o;
    uint64_t *order;  /* of the training rows in this pass; NULL: not shuffled */
    uint64_t *blocks; /* for PG_SHUFFLE_BATCHES */
    size_t pass;      /* pass over the training rows; the first of a run has the number of its first
                         epoch */
    uint64_t at;      /* rows of the pass used so far */
    size_t epoch, batch;
    int in_validation, is_shuffled;
};

static size_t batches_of(const pg__batch_order_opts *o, uint64_t n_rows)
{
    const uint64_t whole = n_rows / o->batch_size;
    return (size_t)(whole + (!o->whole_only && n_rows % o->batch_size != 0));
}

static pg_status check(const pg__batch_order_opts *o, pg_err *err)
{
    const size_t train = batches_of(o, o->n_train), val = batches_of(o, o->n_val);
    const char *what = o->steps > train ? "steps per epoch" : "validation steps";
    if ((o->n_train > 0 && o->steps > train) || (o->n_val > 0 && o->val_steps > val)) {
        const size_t have = o->n_train > 0 && o->steps > train ? train : val;
        (void)pg_fail(err, PG_E_MISMATCH,
                      "%zu %s asked for; the data holds only %zu batch%s of %zu",
                      o->steps > train ? o->steps : o->val_steps, what, have, have == 1 ? "" : "es",
                      o->batch_size);
        return PG_E_MISMATCH;
    }
    if ((o->n_train > 0 && train == 0) || (o->n_val > 0 && val == 0))
        return pg_fail(err, PG_E_MISMATCH, "there are fewer rows than one batch of %zu",
                       o->batch_size);
    return PG_OK;
}

pg_status pg__batch_order_new(pg__batch_order **out, const pg__batch_order_opts *opts, pg_err *err)
{
    pg_status st = PG_OK;
    pg__batch_order *c = pg__mem_array(1, sizeof *c);
    if (!c)
        return pg__nomem(err);
    c->o = *opts;
    c->epoch = c->pass = opts->first_epoch;
    PG_TRY(check(opts, err));
    if (opts->n_train > 0 && opts->shuffling != PG_SHUFFLE_NONE) {
        c->order = pg__mem_array(opts->n_train, sizeof *c->order);
        c->blocks = pg__mem_array(opts->n_train / opts->batch_size + 1, sizeof *c->blocks);
        if (!c->order || !c->blocks)
            PG_TRY(pg__nomem(err));
    }
    *out = c;
    c = NULL;
done:
    pg__batch_order_free(c);
    return st;
}

void pg__batch_order_free(pg__batch_order *c)
{
    if (!c)
        return;
    pg__mem_free(c->order);
    pg__mem_free(c->blocks);
    pg__mem_free(c);
}

size_t pg__batch_order_steps(const pg__batch_order *c)
{
    return c->o.steps > 0 ? c->o.steps : batches_of(&c->o, c->o.n_train);
}

/* Shuffles whole blocks; the short one stays last. */
static void shuffle_batches(pg__batch_order *c)
{
    const size_t size = c->o.batch_size;
    const uint64_t n_blocks = c->o.n_train / size;
    uint64_t *to = c->order;
    pg__shuffle(c->blocks, n_blocks, c->o.seed, c->pass);
    for (uint64_t b = 0; b <= n_blocks; b++) {
        const uint64_t first = (b < n_blocks ? c->blocks[b] : b) * size;
        const uint64_t n = b < n_blocks ? size : c->o.n_train - first;
        pg__shuffle(to, n, c->o.seed + 1 + first, c->pass);
        for (uint64_t i = 0; i < n; i++)
            *to++ += first;
    }
}

static void begin_pass(pg__batch_order *c)
{
    if (c->order && c->o.shuffling == PG_SHUFFLE_BATCHES)
        shuffle_batches(c);
    else if (c->order)
        pg__shuffle(c->order, c->o.n_train, c->o.seed, c->pass);
    c->is_shuffled = 1;
}

static int validates(const pg__batch_order *c)
{
    const size_t every = c->o.val_every > 0 ? c->o.val_every : 1;
    return c->o.n_val > 0 && (c->epoch + 1) % every == 0;
}

/* Rows at .. at + n of a pass of n_rows. */
static size_t take(pg__batch_order *c, uint64_t n_rows, const uint64_t *order, uint64_t *rows)
{
    const uint64_t left = n_rows - c->at;
    const size_t n = left < c->o.batch_size ? (size_t)left : c->o.batch_size;
    for (size_t i = 0; i < n; i++)
        rows[i] = order ? order[c->at + i] : c->at + i;
    c->at += n;
    return n;
}

static void train_turn(pg__batch_order *c, pg__turn *turn, uint64_t *rows)
{
    if (!c->is_shuffled)
        begin_pass(c);
    turn->n_rows = take(c, c->o.n_train, c->order, rows);
    turn->is_last = ++c->batch == pg__batch_order_steps(c);
    if (c->at >= c->o.n_train || (c->o.whole_only && c->o.n_train - c->at < c->o.batch_size)) {
        c->at = 0;
        c->pass++;
        c->is_shuffled = 0;
    }
}

/* Validation begins anew each time; the position in training is kept. */
static void validation_turn(pg__batch_order *c, pg__turn *turn, uint64_t *rows)
{
    const size_t n = c->o.val_steps > 0 ? c->o.val_steps : batches_of(&c->o, c->o.n_val);
    const uint64_t kept = c->at;
    c->at = (uint64_t)c->batch * c->o.batch_size;
    turn->n_rows = take(c, c->o.n_val, NULL, rows);
    c->at = kept;
    turn->is_last = ++c->batch == n;
}

int pg__batch_order_next(pg__batch_order *c, pg__turn *turn, uint64_t *rows)
{
    if (c->epoch >= c->o.epochs)
        return 0;
    if (c->o.n_train == 0)
        c->in_validation = 1;
    *turn = (pg__turn){.validation = c->in_validation, .epoch = c->epoch, .batch = c->batch};
    if (c->in_validation)
        validation_turn(c, turn, rows);
    else
        train_turn(c, turn, rows);
    turn->ends_epoch = turn->is_last && (c->in_validation || !validates(c));
    if (turn->is_last) {
        c->batch = 0;
        c->in_validation = !turn->ends_epoch;
        c->epoch += (size_t)turn->ends_epoch;
    }
    return 1;
}

pg__point pg__point_after(const pg__turn *turn)
{
    if (turn->ends_epoch)
        return (pg__point){.epoch = turn->epoch + 1};
    if (turn->is_last)
        return (pg__point){.epoch = turn->epoch, .in_validation = 1};
    return (pg__point){turn->epoch, turn->batch + 1, turn->validation};
}

/* Epochs are sections of one stream of passes. */
void pg__batch_order_seek(pg__batch_order *c, const pg__point *p)
{
    const size_t steps = pg__batch_order_steps(c), of_pass = batches_of(&c->o, c->o.n_train);
    const uint64_t gone =
        (uint64_t)(p->epoch - c->o.first_epoch) * steps + (p->in_validation ? steps : p->batch);
    c->epoch = p->epoch;
    c->batch = p->batch;
    c->in_validation = p->in_validation;
    c->pass = c->o.first_epoch + (size_t)(of_pass ? gone / of_pass : 0);
    c->at = (of_pass ? gone % of_pass : 0) * c->o.batch_size;
}

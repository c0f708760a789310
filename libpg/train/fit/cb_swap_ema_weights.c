/* cb_swap_ema_weights.c - Keras 3's SwapEMAWeights: validation, and with swap_on_epoch everything
 * at the end of an epoch, uses the moving averages of the weights. Source:
 * keras/src/callbacks/swap_ema_weights.py (3.6.0). Keras on TensorFlow swaps by adding and
 * subtracting, which rounds; here the training's own weights come back to the bit.
 *
 * While they are swapped, the optimizer's slot holds the weights, in full checkpoints too. With
 * swap_on_epoch, a run that ends before its last epoch ends with the weights, not the averages, as
 * in Keras. */
#include "base/real.h"
#include "base/try.h"
#include "train/fit/callback.h"
#include "train/step/step.h"

typedef struct swapper {
    int on_epoch;
    int has_begun, has_ended; /* the trainer's weights are this run's, and final */
    int is_swapped;           /* from here on: state */
    int is_final;             /* weights and slot both hold the averages */
} swapper;

static pg_status refuse(const pg__optimizer *o, pg_err *err)
{
    if (o->legacy)
        return pg_fail(
            err, PG_E_ARG,
            "SwapEMAWeights: optimizer %s by the rules of Keras to 2.10 keeps no averages "
            "of the weights",
            o->name);
    (void)pg_fail(err, PG_E_ARG,
                  "SwapEMAWeights: optimizer %s keeps no averages of the weights without use_ema",
                  o->name);
    pg_err_set(err, "optimizer", "%s:learning_rate=%s,use_ema", o->name, PG_REAL32(o->lr));
    return PG_E_ARG;
}

static pg_status open(void *self, pg__fit *f, pg__settings *s, pg_err *err)
{
    swapper *w = self;
    pg_status st = PG_OK;
    PG_TRY(pg__settings_flag(s, "swap_on_epoch", &w->on_epoch, err));
    if (!f->t->compiled.optimizer.use_ema)
        PG_TRY(refuse(&f->t->compiled.optimizer, err));
    if (!pg__is_sharded(f->t->ranks))
        f->n_held += 2 * pg__snapshot_bytes(f->t, 0);
done:
    return st;
}

static pg_status train_begin(void *self, pg__fit *f, pg_err *err)
{
    (void)f;
    (void)err;
    ((swapper *)self)->has_begun = 1;
    return PG_OK;
}

static pg_status swap(swapper *w, pg__fit *f, int wanted, pg_err *err)
{
    pg_status st = PG_OK;
    if (w->is_swapped == wanted)
        return PG_OK;
    PG_TRY(pg__fit_changes(f, err));
    PG_TRY(pg__average_swap(f->t, err));
    w->is_swapped = wanted;
    w->is_final = 0;
done:
    return st;
}

static pg_status epoch_begin(void *self, pg__fit *f, pg_err *err)
{
    swapper *w = self;
    return w->on_epoch ? swap(w, f, 0, err) : PG_OK;
}

static pg_status test_begin(void *self, pg__fit *f, pg_err *err)
{
    return swap(self, f, 1, err);
}

static pg_status test_end(void *self, pg__fit *f, pg_err *err)
{
    return swap(self, f, 0, err);
}

/* At the end of fit() weights are set to the slot. */
static pg_status epoch_end(void *self, pg__fit *f, const pg_logs *logs, pg_err *err)
{
    swapper *w = self;
    pg_status st = PG_OK;
    (void)logs;
    if (!w->on_epoch)
        return PG_OK;
    PG_TRY(swap(w, f, 1, err));
    if (f->epoch + 1 < f->run->n_epochs)
        return PG_OK;
    PG_TRY(pg__average_begin(f->t, err));
    w->is_final = 1;
done:
    return st;
}

static pg_status train_end(void *self, pg__fit *f, pg_err *err)
{
    swapper *w = self;
    w->has_ended = 1;
    if (!w->is_swapped || w->is_final)
        return PG_OK;
    return pg__fit_event(f, PG_EVENT_NOTE, NULL, err,
                         "SwapEMAWeights: stopped before the last epoch; with swap_on_epoch the "
                         "weights come back then, as in Keras, not their averages");
}

static void keep(void *self, pg__fit *f, pg__archive *a)
{
    swapper *w = self;
    (void)f;
    pg__archive_int(a, &w->is_swapped);
    pg__archive_int(a, &w->is_final);
}

/* After an interruption swaps the weights back; not with sharded slots, since the other ranks may
 * be gone. */
static void close(void *self, pg__fit *f)
{
    const swapper *w = self;
    if (w->has_begun && !w->has_ended && w->is_swapped && !pg__is_sharded(f->t->ranks))
        (void)pg__average_swap(f->t, NULL);
}

const pg__cb_type pg__cb_swap_ema_weights = {.name = "SwapEMAWeights",
                                             .n_bytes = sizeof(swapper),
                                             .open = open,
                                             .train_begin = train_begin,
                                             .epoch_begin = epoch_begin,
                                             .test_begin = test_begin,
                                             .test_end = test_end,
                                             .epoch_end = epoch_end,
                                             .train_end = train_end,
                                             .keep = keep,
                                             .close = close};

/* cb_terminate_on_nan.c - Keras' name for pg_fit_opts.terminate_on_nan. It checks each batch's own
 * loss, Keras the mean since the epoch began, which comes to the same. */
#include "train/fit/callback.h"

static pg_status open(void *self, pg__fit *f, pg__settings *s, pg_err *err)
{
    (void)self;
    (void)s;
    (void)err;
    f->terminates_on_nan = 1;
    return PG_OK;
}

const pg__cb_type pg__cb_terminate_on_nan = {.name = "TerminateOnNaN", .open = open};

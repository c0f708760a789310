/* check_predict_none.c - what check_predict.c does, in a build without the trainer. */
#include "check/check_impl.h"

pg_status pg__check_predictions(pg__checking *c, pg_err *err)
{
    (void)c;
    return pg_fail(err, PG_E_UNSUPPORTED,
                   "this build of libpg does not predict; use one that has the trainer");
}

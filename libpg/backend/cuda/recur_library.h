/* recur_library.h - recurrent layers by a library (dnn_rnn.h) instead of a loop of ours. The
 * product of the inputs comes before them, as in our loop, so the library's input matrix passes
 * each gate its part unchanged. */
#ifndef PG_BACKEND_RECUR_LIBRARY_H
#define PG_BACKEND_RECUR_LIBRARY_H

#include "backend/cuda/dnn_rnn.h"
#include "backend/cuda/recur.h"

struct pg__recur_library {
    pg__dnn_rnn shape;
    pg__dnn_rnn_layout layout;
    pg__dnn_rnn_plan *plan;
    size_t room;                                  /* in bytes: where the reserve begins */
    size_t weights, work, x, all, last, dweights; /* in scratch */
};

/* trains: there is a gradient. PG_E_NO: it is none that the library does. */
pg_status pg__recur_library_new(struct pg__recur_library **out, const pg__recur *k,
                                const pg__cuda_inst *i, int trains, pg__needs *needs, pg_err *err);
void pg__recur_library_free(struct pg__recur_library *l);

/* A run, forward or backward. */
pg_status pg__recur_library_go(pg__recur_run *run);

/* recur_trial.c: k->library is set if the library is used. The forward pass tries it beside ours,
 * including the gradient, on the same random numbers: it must agree with ours and be faster. A
 * gradient follows the choice of its forward pass. */
pg_status pg__recur_choose(pg__recur *k, const pg__cuda_inst *i, pg__needs *needs, pg_err *err);

#endif

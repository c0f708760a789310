/* attend_library.h - attention by a library (dnn_attend.h) instead of products and kernels of ours:
 * for 16 bits, if only the gradient reads the probabilities. Their memory holds what the gradient
 * needs: results, statistics of the scores and the masks, as the library takes them. */
#ifndef PG_BACKEND_ATTEND_LIBRARY_H
#define PG_BACKEND_ATTEND_LIBRARY_H

#include "backend/cuda/dnn_attend.h"

/* Operands and results of attention, and of its gradient. */
enum {
    PG_ATTEND_Q,
    PG_ATTEND_K,
    PG_ATTEND_V,
    PG_ATTEND_Q_MASK,
    PG_ATTEND_V_MASK,
    PG_ATTEND_K_MASK,
    PG_ATTEND_MASK,
    PG_ATTEND_FACTORS,
    PG_ATTEND_Y,
    PG_ATTEND_P,
    PG_ATTEND_G_FACTORS = 3,
    PG_ATTEND_G_P,
    PG_ATTEND_G_DY,
    PG_ATTEND_G_DP,
    PG_ATTEND_DQ,
    PG_ATTEND_DK,
    PG_ATTEND_DV,
    PG_ATTEND_ARGS = 12 /* most of either */
};

typedef struct pg__attend_library pg__attend_library;

/* forward: the instruction itself, or that whose gradient it is. PG_E_NO: it is none that the
 * library does. */
pg_status pg__attend_library_new(pg__attend_library **out, const pg__cuda_inst *i,
                                 const pg__inst *forward, int trains, pg__needs *needs,
                                 pg_err *err);
void pg__attend_library_free(pg__attend_library *l);
pg_status pg__attend_library_run(pg__dev *d, const pg__attend_library *l, void *const *args,
                                 void *scratch);

/* Does a program allocate memory for a result? */
int pg__attend_is_read(const pg__tape *t, pg__val v);

/* The shape of the masks, without addresses. */
pgk_attend pg__attend_masks(const pg__cuda_inst *i);

/* attend_trial.c: *out is set if the library is used. pg__attend_known() returns an earlier choice.
 * If there is none, pg__attend_choose() runs it beside our prepared implementation, including the
 * gradient, on the same random numbers: it must agree with ours and be faster. needs: as they were
 * before ours. A gradient follows the choice of its forward pass. */
pg_status pg__attend_known(pg__attend_library **out, const pg__cuda_inst *i, pg__needs *needs,
                           pg_err *err);
pg_status pg__attend_choose(pg__attend_library **out, const pg__cuda_inst *i, const void *ours,
                            const pg__needs *before, pg__needs *needs, pg_err *err);

#endif

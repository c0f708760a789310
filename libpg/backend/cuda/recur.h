/* recur.h - what recurrent layers share on a GPU: a loop over the steps, in each of which a product
 * of the state with the recurrent kernel is followed by a kernel over all units of all rows
 * (k_rnn.h). The gradient of the recurrent kernel is one product over all steps, behind the loop.
 *
 * Factors of the state for each gate make a product for each gate, on a copy of the state; one
 * batch of products does them. */
#ifndef PG_BACKEND_RECUR_H
#define PG_BACKEND_RECUR_H

#include "backend/cuda/blas.h"
#include "backend/cuda/columns.h"
#include "backend/cuda/cuda.h"
#include "ops/rnn_real.h"

#define PG__RECUR_ARGS 20

/* Results that all three have, and the operands that their gradients have in the same places. */
enum { Y, LAST, STATE, DY = N_IN, DLAST, DSTATE };

typedef struct pg__recur {
    pgk_rnn_step z;  /* without addresses */
    uint64_t gates;  /* of the product of a step */
    uint64_t blocks; /* products: one, or one for each of those gates */
    uint64_t n_in, n_args;
    int has_h0, has_mask;
    pgk_real reals[PG__RECUR_ARGS];
    pg__blas_plan *first, *next; /* the product of the first step, of the others */
    pg__blas_plan *back;         /* from the gates' gradients to that of the state */
    pg__blas_plan *kernel;       /* from all steps' to that of the recurrent kernel */
    pg__blas_plan *reset;        /* gru: the candidate's, where the reset gate acts before it */
    pg__blas_plan *reset_kernel;
    size_t shown, copies, products, reset_at; /* in scratch */
    pg__columns bias;
} pg__recur;

/* A run of it. */
typedef struct pg__recur_run {
    pg__dev *d;
    const pg__recur *k;
    pgk_real v[PG__RECUR_ARGS]; /* operands, then results */
    char *scratch;
    pgk_rnn_step z; /* of the step that is done now */
} pg__recur_run;

/* gates: of the product of a step. PG_E_UNSUPPORTED: operands whose types do not go together. */
pg_status pg__recur_new(pg__recur **out, const pg__cuda_inst *i, uint64_t gates, pg_err *err);
void pg__recur_release(void *state);

/* Plans the products of all steps, forward or backward, then asks for the scratch. */
pg_status pg__recur_plan_forward(pg__recur *k, pg__dev *d, pg__needs *needs, pg_err *err);
pg_status pg__recur_plan_backward(pg__recur *k, pg__dev *d, pg__needs *needs, pg_err *err);
pg__blas_shape pg__recur_shape(const pg__recur *k, uint64_t m, uint64_t n, uint64_t inner);

/* Begins a run: addresses, and the steps from which on outputs are shown. */
pg_status pg__recur_begin(pg__recur_run *run, pg__dev *d, const pg__recur *k, void *const *args,
                          void *scratch);
void pg__recur_at(pg__recur_run *run, uint64_t s);
static inline uint64_t pg__recur_units(const pg__recur_run *run)
{
    return run->z.rows * run->z.units;
}

/* Has the state before this step anything in it? */
static inline int pg__recur_has_state(const pg__recur_run *run)
{
    return run->z.s > 0 || run->k->has_h0;
}

/* to, in the place of this step, = the state before it, of `states`, times the recurrent kernel. */
pg_status pg__recur_multiply(pg__recur_run *run, pgk_real states, pgk_real to);
/* The gradient of the state before this step, by that of its products, which `dz` holds. */
pg_status pg__recur_multiply_back(pg__recur_run *run, pgk_real dz, pgk_real dh);
/* What comes to the state of a step from elsewhere; and the end of it, for the initial state. */
pgk_rnn_incoming pg__recur_incoming(const pg__recur_run *run, pgk_real dh);
pg_status pg__recur_finish(pg__recur_run *run, pgk_real dh);
/* The gradient of the kernel's columns of the gates; dz: of all products. */
pg_status pg__recur_kernel(pg__recur_run *run, pgk_real states, pgk_real dz, void *dkernel);
/* The states before all steps, times the factors of a block and the reset gate of `gates`. */
pg_status pg__recur_befores(pg__recur_run *run, pgk_real states, pgk_real gates, uint64_t block);

/* The number at[n] and what follows it. */
static inline pgk_real pg__past(pgk_real at, uint64_t n)
{
    at.p = (char *)at.p + n * (at.type == PGK_F32 ? 4 : 2);
    return at;
}
static inline pgk_real pg__recur_scratch(const pg__recur_run *run, size_t at)
{
    return (pgk_real){run->scratch + at, run->k->reals[KERNEL].type};
}

#endif

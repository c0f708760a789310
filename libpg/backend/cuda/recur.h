/* recur.h - what recurrent layers share on a GPU: a loop over the steps, in each of which a product
 * of the state with the recurrent kernel is followed by a kernel over all units of all rows
 * (k_rnn.h). The gradient of the recurrent kernel is one product over all steps, after the loop.
 *
 * With factors of the state for each gate, there is a product for each gate, on a copy of the
 * state; one batch of products computes them. */
#ifndef PG_BACKEND_RECUR_H
#define PG_BACKEND_RECUR_H

#include "backend/cuda/blas.h"
#include "backend/cuda/columns.h"
#include "backend/cuda/cuda.h"
#include "ops/rnn_real.h"

#define PG_RECUR_ARGS 20

/* Results that all three have, and the operands that their gradients have in the same places. */
enum { Y, LAST, STATE, DY = N_IN, DLAST, DSTATE };

typedef struct pg__recur_run pg__recur_run;

/* What one of the three does by itself, forward or backward. */
typedef struct pg__recur_cell {
    uint32_t kind; /* the operation, forward */
    int is_gradient;
    uint64_t gates;
    int has_reset;   /* gru: a gate that may act before the candidate's product, which is apart then
                      */
    size_t states;   /* forward the result, backward the operand that holds all states */
    size_t room;     /* likewise: where a library keeps what it wants to (ops/rnn_room.h) */
    size_t cell;     /* likewise, lstm: the last cell state, its gradient; 0: none */
    size_t products; /* forward: the result that the products with the states come to */
    size_t dzx, dh0; /* backward: results */
    size_t dc0, dbias;                     /* those that not all have; 0: none */
    pg_status (*step)(pg__recur_run *run); /* after the products, or with those of a gradient */
    pg_status (*parameters)(pg__recur_run *run); /* after all steps of a gradient */
} pg__recur_cell;

typedef struct pg__recur {
    const pg__recur_cell *cell;
    struct pg__recur_library *library; /* NULL: our loop is used */
    pgk_rnn_step z;                    /* without addresses */
    uint64_t gates;                    /* of the product of a step */
    uint64_t blocks;                   /* products: one, or one for each of those gates */
    uint64_t n_in, n_args;
    int has_h0, has_mask;
    pgk_real reals[PG_RECUR_ARGS];
    pg__blas_plan *first, *next; /* the product of the first step, of the others */
    pg__blas_plan *back;         /* from the gates' gradients to that of the state */
    pg__blas_plan *kernel;       /* from all steps' to that of the recurrent kernel */
    pg__blas_plan *reset;        /* gru: the candidate's, where the reset gate acts before it */
    pg__blas_plan *reset_kernel;
    size_t shown, copies, products, reset_at; /* in scratch; reset_at: gru's */
    pg__columns bias;
} pg__recur;

/* A run of it. */
struct pg__recur_run {
    pg__dev *d;
    const pg__recur *k;
    pgk_real v[PG_RECUR_ARGS]; /* operands, then results */
    const pgk_real *out;       /* the results */
    char *scratch;
    pgk_rnn_step z; /* of the step that is done now */
};

/* An operation of a cell: pg__cuda_<op>. PG_E_UNSUPPORTED: operands whose types do not go together.
 */
pg_status pg__recur_prepare(void **state, const pg__cuda_inst *i, const pg__recur_cell *cell,
                            pg__needs *needs, pg_err *err);
void pg__recur_release(void *state);
pg_status pg__recur_go(pg__dev *d, const void *state, void *const *args, void *scratch,
                       const void *shared);
#define PG_RECUR(op, cell)                                       \
    PG_CUDA_PREPARE(prepare_##op)                                \
    {                                                            \
        return pg__recur_prepare(state, i, &(cell), needs, err); \
    }                                                            \
    const pg__cuda_op pg__cuda_##op = {                          \
        .prepare = prepare_##op, .release = pg__recur_release, .run = pg__recur_go}

/* For the cells. */

static inline uint64_t pg__recur_units(const pg__recur_run *run)
{
    return run->z.rows * run->z.units;
}

/* Is the state before this step nonzero? */
static inline int pg__recur_has_state(const pg__recur_run *run)
{
    return run->z.s > 0 || run->k->has_h0;
}

/* Where a step's state goes. */
static inline pgk_rnn_outputs pg__recur_outputs(const pg__recur_run *run)
{
    return (pgk_rnn_outputs){run->out[run->k->cell->states], run->out[Y], run->out[LAST],
                             run->out[STATE]};
}
/* The gradient that a step's state gets from elsewhere. */
pgk_rnn_incoming pg__recur_incoming(const pg__recur_run *run);
/* The gradient of the state before this step, by that of its products, which `dz` holds. */
pg_status pg__recur_multiply_back(pg__recur_run *run, pgk_real dz);
/* The gradient of the kernel's columns of the gates; dz: of all products. */
pg_status pg__recur_kernel(pg__recur_run *run, pgk_real dz);
/* `parameters` where that is all. */
pg_status pg__recur_one_kernel(pg__recur_run *run);
/* The states before all steps, times the factors of a block and the reset gate of `gates`. */
pg_status pg__recur_befores(pg__recur_run *run, pgk_real gates, uint64_t block);

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

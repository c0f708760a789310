/* recur.h - shared by lstm.c, gru.c and rnn.c. Blocks of rows go through the sequence together, so
 * that every step is one matrix product for all of them; the recurrent kernel's gradient is added
 * up at the end, in products over hundreds of steps. Operands, results and what is kept for the
 * gradient are those of the plain C references (ops/ref_*.c). */
#ifndef PG_BACKEND_CPU_RECUR_H
#define PG_BACKEND_CPU_RECUR_H

#include "backend/cpu/cpu.h"
#include "backend/cpu/gemm.h"
#include "backend/cpu/lines.h"
#include "backend/cpu/pointwise.h"
#include "ops/rnn_real.h"

#define PG_RECUR_BLOCK 64u /* rows that go together: enough for a product to be fast */
#define PG_RECUR_PART                                                         \
    512u /* steps that the recurrent kernel's gradient is summed over at once \
          */

/* A prepared instruction. */
typedef struct pg__recur pg__recur;

/* One run of it. The operands after those of rnn_real.h belong to the gradient. */
typedef struct pg__recur_run {
    const pg__rnn_attrs *a;
    const pg__lines *lines;
    rnn_sizes z;
    const pg__arg *in, *out;
    const pg__pointwise *products; /* NULL: oneDNN's */
    const pg__pointwise *sums_of;  /* of the recurrent kernel's gradient; NULL: oneDNN's */
    int grad;
    float *sums;   /* a block's products, [rows x width] */
    float *kernel; /* the recurrent kernel as its products read it; of gradients, transposed */
    float *work;   /* of recur.c */
    float *more;   /* [rows of a block or steps of a part x units], scratch for the caller */
    size_t shown_from[PG_RECUR_BLOCK]; /* a block's rows: the first step that is not masked */
} pg__recur_run;

/* Rows from `first` on that take step s as number t of the input. */
typedef struct pg__recur_step {
    size_t first, n;
    size_t s, t;
} pg__recur_step;

typedef void (*pg__recur_fn)(const pg__recur_run *run, size_t first, size_t n);

/* The parts of a pg__cpu_kernel: prepare, for a gradient or not; release; run calls fn for every
 * block of rows, then finish (or NULL). together: gates of one product, unless each has factors of
 * its own; those after them are another one. */
pg_status pg__recur_prepare(void **state, const pg__cpu_inst *i, int grad, size_t together,
                            pg__needs *needs, pg_err *err);
void pg__recur_release(void *state);
void pg__recur_go(const void *state, void *const *args, void *scratch, pg__recur_fn fn,
                  void (*finish)(const pg__recur_run *run));

/* The step before number s of a row, from a kept value or the initial one; NULL if it is zero. */
const float *pg__recur_before(const pg__recur_run *run, const pg__arg *kept, const pg__arg *initial,
                              size_t row, size_t s);

/* c += x kernel of `n_gates` gates from number `gate` on, or c = it; of a gradient, x kernel'.
 * Gates that a cell multiplies apart are asked for apart (see pg__recur_prepare). */
void pg__recur_multiply(const pg__recur_run *run, size_t rows, size_t gate, size_t n_gates,
                        const float *x, size_t ldx, int add, float *c, size_t ldc);

/* run->sums = (h factors) kernel, of the first `gates` gates; if h is zero, returns 0 and does
 * nothing. */
int pg__recur_forward(const pg__recur_run *run, const pg__recur_step *at, const pg__arg *states,
                      size_t gates);
/* dh += (dz kernel') factors, of the first `gates` gates; rows of dz are `ld` apart. */
void pg__recur_backward(const pg__recur_run *run, const pg__recur_step *at, size_t gates,
                        const float *dz, size_t ld, float *dh);

/* For functions that only ask for data: compilers take a call of them for one that does nothing. */
#define PG_RECUR_AHEAD static inline __attribute__((always_inline)) void

/* Asks for n numbers that the next step reads or writes. The rows of a step are far apart in
 * memory, where no processor expects them; they come into the second-level cache while products are
 * made. */
PG_RECUR_AHEAD pg__recur_ahead(const float *p, size_t n)
{
    for (size_t i = 0; i < n; i += 16)
        __builtin_prefetch(p + i, 0, 2);
}

/* The same for the inputs of a row's next step: x W + b or, of a gradient, the place of its
 * result. */
PG_RECUR_AHEAD pg__recur_ahead_of(const pg__recur_run *run, const float *zx, size_t row, size_t s)
{
    const rnn_sizes *z = &run->z;
    pg__recur_ahead(zx + (row * z->steps + pg__step_in(run->a, z, s)) * z->width, z->width);
}

/* Writes the outputs of these rows once their states are known. */
void pg__recur_show(const pg__recur_run *run, const pg__arg *states, size_t first, size_t n);
/* Adds the outputs' gradient to dh, a row's gradient of the state after the step. 0: the step is
 * masked, so dh is that of the state before. */
int pg__recur_reaches(const pg__recur_run *run, const pg__recur_step *at, size_t row, float *dh);

/* to = the states before `n` steps from number `from` on, all steps of a row before those of the
 * next and as the input has them, times the factors of block b (see rnn_real.h). */
void pg__recur_states(const pg__recur_run *run, const pg__arg *states, size_t b, size_t from,
                      size_t n, float *to);
/* dkernel = sum over all steps of (h factors)' dz, of the first `gates` gates. */
void pg__recur_kernel(const pg__recur_run *run, const pg__arg *states, const float *dz,
                      size_t gates);

#endif

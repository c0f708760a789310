/* recur.c - see recur.h. */
#include "backend/cpu/recur.h"

#include "base/mem.h"

enum { MAX_ARGS = 20 };

#define LEAST_STEPS 16 /* that make up for a kernel in panels */

/* Measured on Zen 4: oneDNN copies its operands in every call. But it has kernels for one row, and
 * for processors without AVX2. */
static const pg__pointwise *products_of(const pg__cpu_inst *i, const rnn_sizes *z)
{
    const int pays = i->isa != PG_ISA_BASE && z->rows > 1 && z->steps >= LEAST_STEPS;
    return pays && z->units > 0 ? pg__pointwise_of(i->isa) : NULL;
}

/* Measured with oneDNN 2.6: for AVX2 it reads rows that lie a multiple of 2 KB apart at half the
 * speed, unless they are so many that it copies them; else it is faster by a tenth. */
static const pg__pointwise *sums_of(const pg__cpu_inst *i, const rnn_sizes *z)
{
    const int pays = i->isa == PG_ISA_AVX2 && z->width % 512 == 0 && z->units * z->width <= 1 << 18;
    return pays ? products_of(i, z) : NULL;
}

struct pg__recur {
    const void *attrs;
    const pg__lines *lines;
    const pg__pointwise *products; /* NULL: oneDNN's */
    const pg__pointwise *sums_of;  /* the same, of the recurrent kernel's gradient */
    size_t together;               /* gates of one product */
    size_t n_in, n_out;
    rnn_sizes z;
    int grad;
    pg__dims shapes[MAX_ARGS];
    uint64_t n[MAX_ARGS];
};

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* ---- preparing ---- */

/* Numbers in the parts of the scratch memory, each beginning at a cache line. */
typedef struct areas {
    size_t sums, kernel, work, more, all;
} areas;

static size_t whole_lines(size_t n)
{
    return (n + 15) / 16 * 16;
}

/* Numbers of one gate in panels: those of some gates do not take more than as many of these. */
static size_t gate_floats(const pg__pointwise *products, const rnn_sizes *z)
{
    return products->packed_floats(z->units, z->units);
}

static size_t kernel_floats(const pg__recur *k)
{
    const rnn_sizes *z = &k->z;
    if (k->products) {
        const size_t n = pg__dim_mul(z->width / z->units, gate_floats(k->products, z));
        const size_t sum = k->sums_of ? k->sums_of->scratch_floats(0, z->width, z->units) : 0;
        return n > sum ? n : sum;
    }
    return k->grad ? z->units * z->width : 0;
}

static areas areas_of(const pg__recur *k)
{
    const rnn_sizes *z = &k->z;
    const size_t rows = smaller(z->rows, PG_RECUR_BLOCK);
    const size_t part = smaller(pg__dim_mul(z->rows, z->steps), PG_RECUR_PART);
    const size_t longest = k->grad && part > rows ? part : rows;
    areas a = {.sums = whole_lines(rows * z->width)};
    a.kernel = whole_lines(kernel_floats(k));
    a.work = whole_lines(longest * z->units);
    a.more = a.work;
    a.all = a.sums + a.kernel + a.work + a.more;
    return a;
}

pg_status pg__recur_prepare(void **state, const pg__cpu_inst *i, int grad, size_t together,
                            pg__needs *needs, pg_err *err)
{
    pg__recur *k = pg__mem_array(1, sizeof *k);
    pg__arg sizes[N_IN];
    if (!k)
        return pg__nomem(err);
    *k = (pg__recur){.attrs = i->attrs,
                     .lines = pg__isa_fns_of(i->isa)->lines,
                     .n_in = i->inst->n_in,
                     .n_out = i->inst->n_out,
                     .grad = grad};
    for (size_t v = 0; v < k->n_in + k->n_out; v++) {
        k->shapes[v] = i->shapes[v];
        k->n[v] = pg__dims_elems(&k->shapes[v]);
    }
    for (size_t v = 0; v < N_IN; v++) /* any pointer stands for "is there" */
        sizes[v] = (pg__arg){&k->shapes[v], pg__cpu_has(i, v) ? k : NULL, k->n[v]};
    k->z = pg__rnn_sizes(sizes);
    k->together = k->z.n_factors > 1 ? 1 : together;
    k->products = products_of(i, &k->z);
    k->sums_of = grad ? sums_of(i, &k->z) : NULL;
    needs->scratch_bytes = areas_of(k).all * sizeof(float);
    *state = k;
    return PG_OK;
}

void pg__recur_release(void *state)
{
    pg__mem_free(state);
}

/* ---- running ---- */

/* In blocks, so that each line that is read or written is used up before it leaves the cache. */
static void turn(const float *from, size_t rows, size_t columns, float *to)
{
    for (size_t c0 = 0; c0 < columns; c0 += 16)
        for (size_t r0 = 0; r0 < rows; r0 += 16)
            for (size_t c = c0; c < smaller(c0 + 16, columns); c++)
                for (size_t r = r0; r < smaller(r0 + 16, rows); r++)
                    to[c * rows + r] = from[r * columns + c];
}

/* The recurrent kernel as run->kernel. */
static void pack_kernel(const pg__recur *k, const float *kernel, const pg__recur_run *run)
{
    const size_t units = k->z.units, width = k->z.width;
    const size_t gates = units > 0 ? width / units : 0;
    for (size_t g = 0, n; k->products && g < gates; g += n) {
        const size_t columns = (n = smaller(k->together, gates - g)) * units;
        k->products->pack(k->grad ? columns : units, k->grad ? units : columns, kernel + g * units,
                          width, k->grad, run->kernel + g * gate_floats(k->products, &k->z));
    }
    if (!k->products && k->grad)
        turn(kernel, units, width, run->kernel);
}

void pg__recur_go(const void *state, void *const *args, void *scratch, pg__recur_fn fn,
                  void (*finish)(const pg__recur_run *run))
{
    const pg__recur *k = state;
    const areas a = areas_of(k);
    pg__arg v[MAX_ARGS];
    for (size_t i = 0; i < k->n_in + k->n_out; i++)
        v[i] = (pg__arg){&k->shapes[i], args[i], k->n[i]};
    pg__recur_run run = {.a = k->attrs,
                         .lines = k->lines,
                         .products = k->products,
                         .sums_of = k->sums_of,
                         .grad = k->grad,
                         .z = k->z,
                         .in = v,
                         .out = v + k->n_in,
                         .sums = scratch};
    run.kernel = run.sums + a.sums;
    run.work = run.kernel + a.kernel;
    run.more = run.work + a.work;
    pack_kernel(k, pg__reals(&v[KERNEL]), &run);
    for (size_t first = 0; first < k->z.rows; first += PG_RECUR_BLOCK) {
        const size_t n = smaller(PG_RECUR_BLOCK, k->z.rows - first);
        for (size_t r = 0; r < n; r++)
            run.shown_from[r] =
                pg__rnn_shown(run.a, &k->z, pg__row_of(&v[MASK], first + r, k->z.steps)).first;
        fn(&run, first, n);
    }
    if (finish)
        finish(&run);
}

/* ---- one step ---- */

const float *pg__recur_before(const pg__recur_run *run, const pg__arg *kept, const pg__arg *initial,
                              size_t row, size_t s)
{
    const size_t n = run->z.units;
    if (s > 0)
        return pg__reals(kept) + (row * run->z.steps + s - 1) * n;
    return pg__row_of(initial, row, n);
}

void pg__recur_multiply(const pg__recur_run *run, size_t rows, size_t gate, size_t n_gates,
                        const float *x, size_t ldx, int add, float *c, size_t ldc)
{
    const rnn_sizes *z = &run->z;
    const size_t columns = n_gates * z->units;
    const size_t n = run->grad ? z->units : columns, k = run->grad ? columns : z->units;
    const size_t first = gate * z->units;
    if (run->products) {
        run->products->multiply_near(
            rows, n, k, x, ldx, run->kernel + gate * gate_floats(run->products, z), add, c, ldc);
        return;
    }
    const pg__mat kernel = run->grad ? (pg__mat){run->kernel + first * z->units, z->units, 0}
                                     : (pg__mat){pg__reals(&run->in[KERNEL]) + first, z->width, 0};
    pg__gemm(rows, n, k, 1, (pg__mat){x, ldx, 0}, kernel, (float)add, c, ldc);
}

/* A row's factors of block b, or NULL. */
static const float *factors_of(const pg__recur_run *run, size_t row, size_t b)
{
    const rnn_sizes *z = &run->z;
    const float *f = pg__row_of(&run->in[FACTORS], row, z->n_factors * z->units);
    return f ? f + b * z->units : NULL;
}

int pg__recur_forward(const pg__recur_run *run, const pg__recur_step *at, const pg__arg *states,
                      size_t gates)
{
    const rnn_sizes *z = &run->z;
    const float *h = pg__recur_before(run, states, &run->in[H0], at->first, at->s);
    const size_t ld = at->s > 0 ? z->steps * z->units : z->units;
    if (!h)
        return 0;
    for (size_t b = 0, n = pg__n_blocks(z, gates); b < n; b++) {
        for (size_t r = 0; z->n_factors > 0 && r < at->n; r++)
            run->lines->product(run->work + r * z->units, h + r * ld,
                                factors_of(run, at->first + r, b), z->units);
        const int own = z->n_factors > 0;
        pg__recur_multiply(run, at->n, b, gates / n, own ? run->work : h, own ? z->units : ld, 0,
                           run->sums + b * z->units, z->width);
    }
    return 1;
}

void pg__recur_backward(const pg__recur_run *run, const pg__recur_step *at, size_t gates,
                        const float *dz, size_t ld, float *dh)
{
    const rnn_sizes *z = &run->z;
    if (z->n_factors == 0) {
        pg__recur_multiply(run, at->n, 0, gates, dz, ld, 1, dh, z->units);
        return;
    }
    for (size_t b = 0, n = pg__n_blocks(z, gates); b < n; b++) {
        pg__recur_multiply(run, at->n, b, gates / n, dz + b * z->units, ld, 0, run->work, z->units);
        for (size_t r = 0; r < at->n; r++) {
            float *w = run->work + r * z->units;
            run->lines->times(w, factors_of(run, at->first + r, b), z->units);
            run->lines->add(dh + r * z->units, w, z->units);
        }
    }
}

/* ---- outputs ---- */

enum { Y, LAST, STATE, DY = N_IN, DLAST };

void pg__recur_show(const pg__recur_run *run, const pg__arg *states, size_t first, size_t n)
{
    const rnn_sizes *z = &run->z;
    const size_t all = z->steps * z->units;
    for (size_t row = first; row < first + n; row++)
        pg__rnn_show(run->a, z, pg__row_of(&run->in[MASK], row, z->steps),
                     pg__row_of(states, row, all), pg__row_out(&run->out[Y], row, all),
                     pg__row_out(&run->out[LAST], row, z->units),
                     pg__row_out(&run->out[STATE], row, z->units));
}

int pg__recur_reaches(const pg__recur_run *run, const pg__recur_step *at, size_t row, float *dh)
{
    const rnn_sizes *z = &run->z;
    const float *mask = pg__row_of(&run->in[MASK], row, z->steps);
    const rnn_shown shown = {mask, run->shown_from[row - at->first]};
    pg__rnn_add_shown(run->a, z, &shown, at->s, pg__row_of(&run->in[DY], row, z->steps * z->units),
                      pg__row_of(&run->in[DLAST], row, z->units), dh);
    return !pg__is_masked(mask, at->t);
}

/* ---- all steps ---- */

void pg__recur_states(const pg__recur_run *run, const pg__arg *states, size_t b, size_t from,
                      size_t n, float *to)
{
    const rnn_sizes *z = &run->z;
    for (size_t i = 0; i < n; i++, to += z->units) {
        const size_t row = (from + i) / z->steps, t = (from + i) % z->steps;
        const size_t s = pg__step_in(run->a, z, t); /* its own inverse */
        const float *h = pg__recur_before(run, states, &run->in[H0], row, s);
        const float *f = factors_of(run, row, b);
        if (h && f)
            run->lines->product(to, h, f, z->units);
        else
            pg__copy_or_zero(to, h, z->units);
    }
}

void pg__recur_kernel(const pg__recur_run *run, const pg__arg *states, const float *dz,
                      size_t gates)
{
    const rnn_sizes *z = &run->z;
    float *dkernel = pg__reals_out(&run->out[0]);
    const size_t all = z->rows * z->steps;
    for (size_t b = 0; dkernel && b < pg__n_blocks(z, gates); b++) {
        const rnn_block block = pg__block(z, NULL, NULL, gates, b);
        for (size_t from = 0; from < all; from += PG_RECUR_PART) {
            const size_t n = smaller(PG_RECUR_PART, all - from);
            pg__recur_states(run, states, b, from, n, run->work);
            const float *d = dz + from * z->width + block.first;
            if (run->sums_of) /* after the last product with the kernel */
                run->sums_of->gradient_part(n, block.n, z->units, run->work, d, z->width, from > 0,
                                            dkernel + block.first, z->width, run->kernel);
            else
                pg__gemm(z->units, block.n, n, 1, (pg__mat){run->work, z->units, 1},
                         (pg__mat){d, z->width, 0}, from > 0, dkernel + block.first, z->width);
        }
    }
}

/* rows_at_once.c - with few rows at a time, activations stay in a core's cache; with more rows,
 * weights that exceed the caches are read less often. Measured with predictions on one core, time
 * per row relative to 16 or 32 rows at a time: MobileNetV2 with 1 row 0.6, ResNet-50 with 8 rows
 * 0.97. The cache sizes are those of a typical server, not of the machine, so that results do not
 * depend on where they were computed. */
#include "train/model/rows_at_once.h"

#include <string.h>

#define OWN_CACHE    ((uint64_t)1 << 20)  /* bytes of a core's own cache */
#define OF_STEPS     32                   /* rows for recurrent layers */
#define SHARED_CACHE ((uint64_t)16 << 20) /* of the shared cache */

/* Bytes of one row of a value; 0: it has no rows. *known: its other dimensions are known. */
static uint64_t row_bytes(const pg_trainer *t, pg__val v, int *known)
{
    uint64_t n = t->devs.backend->real_bytes;
    if (v == PG_NO_VAL)
        return 0;
    const pg__dims *d = &t->net.built_params.tape.values[v].shape;
    if (d->rank == 0 || d->d[0] != PG_DIM_ANY)
        return 0;
    for (uint32_t k = 1; k < d->rank; k++) {
        *known = *known && d->d[k] != PG_DIM_ANY;
        n *= d->d[k];
    }
    return n;
}

/* The most bytes that any operation of the forward pass reads and writes per row. */
static uint64_t most_bytes(const pg_trainer *t, int *known)
{
    const pg__tape *tape = &t->net.built_params.tape;
    uint64_t most = 0;
    for (uint32_t i = 0; i < tape->n_insts; i++) {
        const pg__inst *inst = &tape->insts[i];
        uint64_t n = 0;
        for (uint32_t k = 0; k < inst->n_in; k++)
            n += row_bytes(t, pg__in(tape, inst, k), known);
        for (uint32_t k = 0; k < inst->n_out; k++)
            n += row_bytes(t, pg__out(tape, inst, k), known);
        most = n > most ? n : most;
    }
    return most;
}

/* Bytes of the weights that every row needs as a whole. In int8 those of most models are
 * of one byte. */
static uint64_t weight_bytes(const pg_trainer *t)
{
    const uint64_t each = t->loop.in_int8 ? 1 : t->devs.backend->real_bytes;
    uint64_t n = 0;
    for (size_t i = 0; i < t->vars.n_params; i++)
        if (strcmp(t->net.built_params.params[i].leaf->layer->class_name, "Embedding") != 0)
            n += t->vars.n_elems[i] * each;
    return n;
}

/* A step of a recurrent layer is a product of as many rows, which are few bytes. */
static int has_recurrent(const pg_trainer *t)
{
    static const pg__op_kind kinds[] = {PG_OP_gru, PG_OP_lstm, PG_OP_rnn};
    const pg__tape *tape = &t->net.built_params.tape;
    for (uint32_t i = 0; i < tape->n_insts; i++)
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
            if (tape->insts[i].op == pg__op_of(kinds[k]))
                return 1;
    return 0;
}

size_t pg__rows_at_once(const pg_trainer *t)
{
    int known = 1;
    const uint64_t row = most_bytes(t, &known), weights = weight_bytes(t);
    if (!known || row == 0 || !t->devs.backend->host_memory)
        return 0;
    uint64_t n = OWN_CACHE / row;
    if (weights > SHARED_CACHE && (weights - SHARED_CACHE) / (2 * row) + 1 > n)
        n = (weights - SHARED_CACHE) / (2 * row) + 1;
    if (n < OF_STEPS && has_recurrent(t))
        n = OF_STEPS;
    size_t rows = 1;
    while (rows < n)
        rows *= 2;
    return rows;
}

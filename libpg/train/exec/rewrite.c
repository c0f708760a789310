/* rewrite.c - rewrites a forward pass before its backward pass is added. */
#include "base/mem.h"
#include "ops/crop_first.h"
#include "ops/fold_add.h"
#include "ops/fold_norm.h"
#include "ops/norm_act.h"
#include "ops/pad_into_conv.h"
#include "ops/pool_first.h"
#include "train/exec/program_impl.h"

/* Values read from outside the tape, or by instructions yet to be added. */
static unsigned char *kept_of(const pg__lowered *m)
{
    unsigned char *kept = pg__mem_array((size_t)m->tape.n_values + 1, 1);
#define KEEP(v) kept[(v) == PG_NO_VAL ? m->tape.n_values : (v)] = 1
    for (size_t k = 0; kept && k < m->n_outputs; k++)
        KEEP(m->outputs[k]);
    for (size_t i = 0; kept && i < m->n_moving; i++)
        KEEP(m->moving[i].value);
    for (size_t i = 0; kept && i < m->n_states; i++)
        KEEP(m->states[i].after);
    for (pg__val v = 0; kept && v < m->tape.n_values && v < m->cap_origins; v++) {
        KEEP(m->origins[v].logits);
        KEEP(m->origins[v].mask);
    }
#undef KEEP
    return kept;
}

pg_status pg__program_rewrite(pg__program *p, const pg__program_opts *opts, pg_err *err)
{
    unsigned char *kept = kept_of(&p->model);
    /* A GPU's library fuses operations by itself; emulation (op.h) rounds between them as there,
     * which is the same for what the first of these passes makes one. */
    const int fuses = p->backend->host_memory && !opts->elems;
    if (!kept)
        return pg__nomem(err);
    pg_status st = pg__tape_pool_first(&p->model.tape, kept, err);
    /* Not on GPUs: the gain there has not been measured. */
    if (st == PG_OK && p->backend->host_memory)
        st = pg__tape_crop_first(&p->model.tape, kept, opts->elems, opts->lower.leaves->n, err);
    if (st == PG_OK && p->backend->host_memory)
        st = pg__tape_norm_act(&p->model.tape, kept, opts->elems, opts->lower.leaves->n, err);
    if (st == PG_OK && p->backend->host_memory)
        st = pg__tape_pad_into_conv(&p->model.tape, kept, opts->elems, opts->lower.leaves->n, err);
    if (st == PG_OK && !opts->lower.training && fuses)
        st = pg__tape_fold_norm(&p->model.tape, kept, err);
    if (st == PG_OK && !opts->lower.training && fuses)
        st = pg__tape_fold_add(&p->model.tape, kept, opts->elems, opts->lower.leaves->n, err);
    pg__mem_free(kept);
    return st;
}

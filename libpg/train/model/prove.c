/* prove.c - does a file hold what was trained? Opens it as a trainer opens a checkpoint, finds its
 * variables by the same strict match, and compares the values that the trainer would take with the
 * snapshot. This proves that the file can be read back on one device, not just that bytes were
 * stored. */
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "train/model/save.h"
#include "train/model/slots.h"

#define PIECE 4096 /* elements compared at a time */

typedef struct proving {
    const pg__snapshot *s;
    unsigned char *seen; /* per parameter: found in the file */
} proving;

static pg_status read_some(pg_store *file, size_t i, int state, size_t at, float *out, size_t n,
                           pg_err *err)
{
    const uint64_t off = (uint64_t)at * sizeof *out;
    return state ? pg_store_read_state(file, i, off, out, n * sizeof *out, err)
                 : pg_store_read(file, i, off, out, n * sizeof *out, err);
}

/* *is_same: do n elements equal the snapshot's, from element `at` on? */
static pg_status same(const pg__snapshot *s, size_t slot, size_t param, size_t at, const float *got,
                      size_t n, int *is_same, pg_err *err)
{
    const size_t bytes = s->t->devs.backend->real_bytes;
    double exact[PIECE];
    float want[PIECE];
    pg_status st = PG_OK;
    PG_TRY(pg__snapshot_read(s, slot, pg__snapshot_place(s, param) + at * bytes,
                             bytes == sizeof *want ? (void *)want : (void *)exact, n * bytes, err));
    for (size_t k = 0; k < n && bytes != sizeof *want; k++)
        want[k] = (float)exact[k];
    *is_same = memcmp(want, got, n * sizeof *got) == 0;
done:
    return st;
}

static pg_status compare(const pg__snapshot *s, size_t slot, size_t param, pg_store *file, size_t i,
                         pg_err *err)
{
    const int state = slot != PG_NONE;
    const pg_weight *w = state ? pg_store_state(file, i) : pg_store_weight(file, i);
    const size_t n_elems = s->t->vars.n_elems[param];
    float got[PIECE];
    pg_status st = PG_OK;
    int is_same = 0;
    if (w->dtype != PG_F32)
        PG_FAIL(PG_E_MISMATCH, "%s: its type differs from that of the weights", PG_SHOW(w->name));
    for (size_t at = 0, n; at < n_elems; at += n) {
        n = n_elems - at < PIECE ? n_elems - at : PIECE;
        PG_TRY(read_some(file, i, state, at, got, n, err));
        PG_TRY(same(s, slot, param, at, got, n, &is_same, err));
        if (!is_same)
            PG_FAIL(PG_E_MISMATCH, "%s: read back, it differs from what was trained",
                    PG_SHOW(w->name));
    }
done:
    return st;
}

static pg_status prove_weight(void *ctx, size_t param, pg_store *file, size_t i, pg_err *err)
{
    const proving *p = ctx;
    p->seen[param] = 1;
    return compare(p->s, PG_NONE, param, file, i, err);
}

static pg_status prove_entry(void *ctx, const pg__state_entry *e, pg_store *file, size_t i,
                             pg_err *err)
{
    const proving *p = ctx;
    const pg__optimizer *o = &p->s->optimizer;
    const double want = e->kind == PG_STATE_STEPS  ? (double)o->iterations
                        : e->kind == PG_STATE_RATE ? (double)(float)o->lr
                                                   : (double)(float)o->nadam_product;
    double got = 0;
    pg_status st = PG_OK;
    if (e->kind == PG_STATE_SLOT)
        return compare(p->s, e->slot, e->param, file, i, err);
    if (e->kind > PG_STATE_SLOT)
        return PG_OK;
    PG_TRY(pg__state_number(&got, file, i, err));
    if (memcmp(&got, &want, sizeof got) != 0)
        PG_FAIL(PG_E_MISMATCH, "%s: read back, it is %g and not %g",
                PG_SHOW(pg_store_state(file, i)->name), got, want);
done:
    return st;
}

static pg_status prove_state(proving *p, pg_store *file, pg_err *err)
{
    pg_status st = PG_OK;
    size_t n = 0;
    int found = 0;
    PG_TRY(pg__state_walk(&found, &n, p->s->t, file, prove_entry, p, err));
    if (!found)
        PG_FAIL(PG_E_MISMATCH, "read back, its optimizer state (%zu tensors) is not that of %s", n,
                p->s->optimizer.name);
done:
    return st;
}

pg_status pg__prove(pg_trainer *t, const pg__snapshot *s, const char *path, int full, pg_err *err)
{
    proving p = {.s = s, .seen = pg__mem_array(t->vars.n_params, 1)};
    pg_store *file = NULL;
    pg_status st = PG_OK;
    if (!p.seen)
        return pg__nomem(err);
    PG_TRY(pg__weights_open(&file, NULL, path, NULL, t->net.graph->text, err));
    PG_TRY(pg__weights_walk(t, file, path, prove_weight, &p, err));
    for (size_t i = 0; i < t->vars.n_params; i++)
        if (!p.seen[i])
            PG_FAIL(PG_E_MISMATCH, "read back, a variable is missing: %s",
                    PG_SHOW(t->vars.weights[t->vars.order[i]].name));
    if (full)
        PG_TRY(prove_state(&p, file, err));
done:
    pg_store_close(file);
    pg__mem_free(p.seen);
    return st;
}

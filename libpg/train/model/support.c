/* support.c - which kinds of devices can train a layer class: looks up the operations, forward and
 * backward, that a small model with it becomes. */
#include "backend/backend.h"
#include "base/try.h"
#include "model/lower/lower.h"
#include "pg/train.h"

/* In float and double: the CPU's back end falls back on these. */
static int is_everywhere_on_hosts(const pg__op *op)
{
    return op->ref_f32 && op->ref_f64;
}

pg_status pg_layer_support_of(pg_layer_support *out, size_t i, pg_err *err)
{
    int trained = 0, found = 0;
    const char *name = pg_layer_class(i, &trained);
    unsigned char used[PG_N_OPS] = {0};
    pg_status st = PG_OK;
    *out = (pg_layer_support){.why = NULL};
    if (!name)
        return pg_fail(err, PG_E_ARG, "there is no layer class %zu", i);
    if (!trained) {
        out->why = pg__why_untrained(name);
        out->why = out->why ? out->why : "not supported";
        return PG_OK;
    }
    PG_TRY(pg__sample_ops(used, &found, name, 1, err));
    out->cpu = out->ref = out->cuda = found;
    for (int kind = 0; kind < PG_N_OPS; kind++) {
        const pg__op *op = pg__op_of((pg__op_kind)kind);
        if (!used[kind])
            continue;
        out->cuda &= pg__cuda_computes((pg__op_kind)kind);
        out->cpu &= is_everywhere_on_hosts(op);
        out->ref &= is_everywhere_on_hosts(op);
    }
done:
    return st;
}

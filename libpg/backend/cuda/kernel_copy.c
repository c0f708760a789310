/* kernel_copy.c - see kernel_copy.h. */
#include "backend/cuda/kernel_copy.h"

#include "backend/cuda/turn.h"

pg__kernel_copy pg__kernel_copy_new(const pg__cuda_inst *i, size_t k, uint64_t rows, uint64_t cols,
                                    int turned, pgk_type to, pg__needs *needs)
{
    pg__kernel_copy c = {.operand = k,
                         .is_turned = turned && rows > 1 && cols > 1,
                         .rows = rows,
                         .cols = cols,
                         .from = pg__cuda_real(i, k).type,
                         .to = to};
    c.is_copied = c.is_turned || c.from != c.to;
    c.is_shared = c.is_copied && pg__cuda_is_param(i, k);
    if (c.is_shared) {
        c.at = (needs->shared_bytes + 255) / 256 * 256;
        needs->shared_bytes = c.at + pgk_bytes(to, rows * cols);
    } else if (c.is_copied)
        c.at = pg__cuda_reserve(needs, pgk_bytes(to, rows * cols));
    return c;
}

static pg_status copy(pg__dev *d, const pg__kernel_copy *c, void *const *args, void *to)
{
    const pgk_retype a = {.x = {args[c->operand], c->from}, .y = {to, c->to}};
    return c->is_turned ? pg__turn(d, a.x, a.y, c->rows, c->cols)
                        : PG_LAUNCH(d, retype, &a, c->rows * c->cols);
}

pg_status pg__kernel_copy_share(pg__dev *d, const pg__kernel_copy *c, void *const *args,
                                void *shared)
{
    return c->is_shared ? copy(d, c, args, (char *)shared + c->at) : PG_OK;
}

pg_status pg__kernel_copy_run(pg__dev *d, const pg__kernel_copy *c, void *const *args,
                              void *scratch, const void *shared, const void **out)
{
    void *own = (char *)scratch + c->at;
    *out = !c->is_copied ? args[c->operand] : c->is_shared ? (const char *)shared + c->at : own;
    return c->is_copied && !c->is_shared ? copy(d, c, args, own) : PG_OK;
}

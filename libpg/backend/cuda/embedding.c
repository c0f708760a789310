/* embedding.c - rows of a table by their ids, and the table's gradient. */
#include "backend/cuda/kernel_copy.h"
#include "backend/cuda/walk.h"
#include "base/mem.h"

#define SHIFT 10u /* blocks that are sorted by counting have 2^SHIFT tokens */

PG_CUDA_PREPARE(prepare_embedding)
{
    const pgk_embedding a = {.n = pg__div_of(pg__cuda_last(i, 1)), .rows = i->shapes[1].d[0]};
    (void)needs;
    return PG_ONE(embedding, &a, pg__cuda_n(i, 2));
}
const pg__cuda_op pg__cuda_embedding = PG_CUDA_ONE(prepare_embedding);

/* Tokens, in scratch: first as they are sorted, then where blocks are merged to, in turns. */
typedef struct table_grad {
    pgk_tokens_sum a;
    size_t at[2], heads, tails; /* in scratch */
} table_grad;

static uint64_t n_pieces(const pgk_tokens_sum *a)
{
    return (a->n + PGK_PIECE - 1) / PGK_PIECE;
}

PG_CUDA_PREPARE(prepare_grad)
{
    const uint64_t n = pg__cuda_n(i, 0), rows = i->shapes[2].d[0], columns = pg__cuda_last(i, 2);
    table_grad *g;
    if (n > INT32_MAX || rows > INT32_MAX)
        return pg_fail(err, PG_E_UNSUPPORTED,
                       "the gradient of a table of %llu rows by %llu ids is not supported on a "
                       "GPU: at most 2147483647",
                       (unsigned long long)rows, (unsigned long long)n);
    g = pg__mem_array(1, sizeof *g);
    if (!g)
        return pg__nomem(err);
    g->a = (pgk_tokens_sum){.dy = pg__cuda_real(i, 1),
                            .dw = pg__cuda_real(i, 3),
                            .columns = pg__div_of(columns),
                            .n = n,
                            .rows = rows};
    for (size_t k = 0; k < 2; k++)
        g->at[k] = pg__cuda_reserve(needs, (size_t)n * 2 * sizeof(int32_t));
    g->heads = pg__cuda_reserve(needs, (size_t)(n_pieces(&g->a) * columns) * sizeof(float));
    g->tails = pg__cuda_reserve(needs, (size_t)(n_pieces(&g->a) * columns) * sizeof(float));
    *state = g;
    return PG_OK;
}

static pgk_real in_scratch(void *scratch, size_t at)
{
    return (pgk_real){(char *)scratch + at, PGK_F32};
}

static pgk_tokens tokens_at(const table_grad *g, void *scratch, size_t which)
{
    return (pgk_tokens){in_scratch(scratch, g->at[which]),
                        in_scratch(scratch, g->at[which] + (size_t)g->a.n * sizeof(int32_t))};
}

/* Sorted tokens. */
static pg_status sort(pg__dev *d, const table_grad *g, void *ids, void *scratch, pgk_tokens *out)
{
    const pgk_tokens_sort blocks = {.ids = {ids, PGK_F32},
                                    .to = tokens_at(g, scratch, 0),
                                    .n = g->a.n,
                                    .rows = g->a.rows,
                                    .shift = SHIFT};
    pg_status st = PG_LAUNCH(d, tokens_sort, &blocks, g->a.n);
    size_t now = 0;
    for (uint32_t k = SHIFT; st == PG_OK && (uint64_t)1 << k < g->a.n; k++, now ^= 1u) {
        const pgk_tokens_merge m = {.from = tokens_at(g, scratch, now),
                                    .to = tokens_at(g, scratch, now ^ 1u),
                                    .n = g->a.n,
                                    .shift = k};
        st = PG_LAUNCH(d, tokens_merge, &m, g->a.n);
    }
    *out = tokens_at(g, scratch, now);
    return st;
}

/* Rows that no id asks for are 0. */
static pg_status run_grad(pg__dev *d, const void *state, void *const *args, void *scratch,
                          const void *shared)
{
    const table_grad *g = state;
    pgk_tokens_sum a = g->a;
    const uint64_t n = n_pieces(&a) * a.columns.by;
    (void)shared;
    a.dy.p = args[1];
    a.dw.p = args[3];
    a.heads = in_scratch(scratch, g->heads);
    a.tails = in_scratch(scratch, g->tails);
    pg_status st =
        pg__rt_clear(d->rt, a.dw.p, pgk_bytes(a.dw.type, a.rows * a.columns.by), &d->failure);
    if (st == PG_OK)
        st = sort(d, g, args[0], scratch, &a.sorted);
    if (st == PG_OK)
        st = PG_LAUNCH(d, tokens_sum, &a, n);
    return st == PG_OK ? PG_LAUNCH(d, tokens_join, &a, n) : st;
}
const pg__cuda_op pg__cuda_embedding_dw = {.prepare = prepare_grad, .run = run_grad};

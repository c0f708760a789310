/* k_embedding.h - rows of a table by their ids, and the gradient of the table: tokens are sorted by
 * their ids, so that those of one row of the table are adjacent, in the order of the batch, and are
 * summed run by run. */
#ifndef PG_BACKEND_K_EMBEDDING_H
#define PG_BACKEND_K_EMBEDDING_H

#include "backend/cuda/k_index.h"

typedef struct pgk_embedding {
    pgk_real ids, table, y;
    pgk_div n; /* columns */
    uint64_t rows;
} pgk_embedding;

/* An id that is not in the table gives NaN, which nobody can overlook. */
PGK_FN void pgk_embedding_at(const pgk_embedding *a, uint64_t i)
{
    uint64_t token = i;
    const uint64_t column = pgk_take(a->n, &token);
    const int32_t id = pgk_int(a->ids, token);
    const int is_there = id >= 0 && (uint64_t)id < a->rows;
    pgk_set(a->y, i, is_there ? pgk_get(a->table, (uint64_t)id * a->n.by + column) : NAN);
}

/* ---- sorting ---- */

/* Tokens with the ids that they are sorted by; those that the table does not have come last, as
 * `rows`. */
typedef struct pgk_tokens {
    pgk_real ids, places; /* integers; places: in the batch */
} pgk_tokens;

/* Blocks of 2^shift tokens, each sorted by counting which others come before a token. */
typedef struct pgk_tokens_sort {
    pgk_real ids;
    pgk_tokens to;
    uint64_t n, rows;
    uint32_t shift;
} pgk_tokens_sort;

PGK_FN int32_t pgk_token_id(const pgk_tokens_sort *a, uint64_t at)
{
    const int32_t id = pgk_int(a->ids, at);
    return id >= 0 && (uint64_t)id < a->rows ? id : (int32_t)a->rows;
}

PGK_FN void pgk_tokens_sort_at(const pgk_tokens_sort *a, uint64_t i)
{
    const uint64_t begin = i >> a->shift << a->shift;
    const uint64_t end = begin + pgk_chunk(begin, (uint64_t)1 << a->shift, a->n);
    const int32_t id = pgk_token_id(a, i);
    uint64_t to = begin;
    for (uint64_t k = begin; k < i; k++)
        to += pgk_token_id(a, k) <= id;
    for (uint64_t k = i + 1; k < end; k++)
        to += pgk_token_id(a, k) < id;
    pgk_set_int(a->to.ids, to, id);
    pgk_set_int(a->to.places, to, (int32_t)i);
}

/* Merges pairs of sorted blocks: a token is placed after those tokens of the other block that sort
 * before it. Of equal ids, the block on the left comes first. */
typedef struct pgk_tokens_merge {
    pgk_tokens from, to;
    uint64_t n;
    uint32_t shift;
} pgk_tokens_merge;

/* How many of begin .. end have smaller ids; or_same: or the same one. */
PGK_FN uint64_t pgk_tokens_before(const pgk_tokens *t, uint64_t begin, uint64_t end, int32_t id,
                                  int or_same)
{
    uint64_t low = begin, high = end;
    while (low < high) {
        const uint64_t middle = low + (high - low) / 2;
        const int32_t other = pgk_int(t->ids, middle);
        if (other < id || (or_same && other == id))
            low = middle + 1;
        else
            high = middle;
    }
    return low - begin;
}

PGK_FN void pgk_tokens_merge_at(const pgk_tokens_merge *a, uint64_t i)
{
    const uint64_t size = (uint64_t)1 << a->shift, begin = i >> a->shift << a->shift;
    const int on_right = (int)(i >> a->shift & 1);
    const uint64_t other = on_right ? begin - size : begin + size;
    const int32_t id = pgk_int(a->from.ids, i);
    const uint64_t before =
        pgk_tokens_before(&a->from, other, other + pgk_chunk(other, size, a->n), id, on_right);
    const uint64_t to = (on_right ? i - size : i) + before;
    pgk_set_int(a->to.ids, to, id);
    pgk_set_int(a->to.places, to, pgk_int(a->from.places, i));
}

/* ---- summing ---- */

/* PGK_PIECE sorted tokens are a piece; threads go through them, one for each column. A run of one
 * id that lies within a piece is a row of dw. One that goes on has a sum in each of its pieces: in
 * `tails` where it begins, then in `heads`, and is added up by tokens_join. */
#define PGK_PIECE 32u

typedef struct pgk_tokens_sum {
    pgk_real dy, dw;
    pgk_tokens sorted;
    pgk_real heads, tails; /* (pieces, columns) */
    pgk_div columns;
    uint64_t n, rows;
} pgk_tokens_sum;
typedef pgk_tokens_sum pgk_tokens_join;

/* Has the token before `at` (after it) the same id? */
PGK_FN int pgk_goes_back(const pgk_tokens_sum *a, uint64_t at, int32_t id)
{
    return at > 0 && pgk_int(a->sorted.ids, at - 1) == id;
}
PGK_FN int pgk_goes_on(const pgk_tokens_sum *a, uint64_t at, int32_t id)
{
    return at + 1 < a->n && pgk_int(a->sorted.ids, at + 1) == id;
}

PGK_FN void pgk_tokens_sum_at(const pgk_tokens_sum *a, uint64_t i)
{
    uint64_t piece = i;
    const uint64_t columns = a->columns.by, column = pgk_take(a->columns, &piece);
    const uint64_t begin = piece * PGK_PIECE, end = begin + pgk_chunk(begin, PGK_PIECE, a->n);
    int32_t id = pgk_int(a->sorted.ids, begin);
    int is_head = pgk_goes_back(a, begin, id);
    float sum = 0;
    for (uint64_t at = begin; at < end && (uint64_t)id < a->rows; at++) {
        const uint64_t place = (uint64_t)pgk_int(a->sorted.places, at);
        const int goes_on = pgk_goes_on(a, at, id);
        sum += pgk_get(a->dy, place * columns + column);
        if (goes_on && at + 1 < end)
            continue;
        if (is_head)
            pgk_set(a->heads, i, sum);
        else if (goes_on)
            pgk_set(a->tails, i, sum);
        else
            pgk_set(a->dw, (uint64_t)id * columns + column, sum);
        sum = 0;
        is_head = 0;
        id = at + 1 < end ? pgk_int(a->sorted.ids, at + 1) : id;
    }
}

/* The run that begins in this piece and goes on, if there is one: its sums in the pieces that
 * follow. */
PGK_FN void pgk_tokens_join_at(const pgk_tokens_join *a, uint64_t i)
{
    uint64_t piece = i;
    const uint64_t columns = a->columns.by, column = pgk_take(a->columns, &piece);
    const uint64_t begin = piece * PGK_PIECE;
    uint64_t last = begin + pgk_chunk(begin, PGK_PIECE, a->n) - 1;
    const int32_t id = pgk_int(a->sorted.ids, last);
    const int is_whole = pgk_int(a->sorted.ids, begin) == id;
    if (!pgk_goes_on(a, last, id) || (is_whole && pgk_goes_back(a, begin, id)) ||
        (uint64_t)id >= a->rows)
        return;
    float sum = pgk_get(a->tails, i);
    for (uint64_t at = i + columns; pgk_goes_on(a, last, id); at += columns) {
        sum += pgk_get(a->heads, at);
        last += pgk_chunk(last + 1, PGK_PIECE, a->n);
        if (pgk_int(a->sorted.ids, last) != id)
            break;
    }
    pgk_set(a->dw, (uint64_t)id * columns + column, sum);
}

#endif

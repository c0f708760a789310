/* attend_cases.h - attention as a library does it (backend/cuda/dnn_attend.h), in 16 bits. */
#ifndef PG_TESTS_ATTEND_CASES_H
#define PG_TESTS_ATTEND_CASES_H

#include "ops/op_compact.h"

#define ATTEND(...)              \
    &(const pg__attention_attrs) \
    {                            \
        __VA_ARGS__              \
    }
#define NO_MASKS ABSENT, ABSENT, ABSENT, ABSENT

/* What the library does. Uneven sizes, another number of keys than of queries, other features of
 * values than of keys; rows of scores that are masked everywhere, alone and all of a sample's. */
static const op_case own[] = {
    {PG_OP_attention,
     ATTEND(.heads = 3, .scale = 0.3),
     {{NORMAL, S(2, 33, 24)}, {NORMAL, S(2, 33, 24)}, {NORMAL, S(2, 33, 24)}, NO_MASKS, ABSENT},
     8,
     3},
    {PG_OP_attention,
     ATTEND(.heads = 2, .scale = 0.25, .causal = 1),
     {{NORMAL, S(3, 37, 32)}, {NORMAL, S(3, 37, 32)}, {NORMAL, S(3, 37, 16)}, NO_MASKS, ABSENT},
     8,
     3},
    {PG_OP_attention,
     ATTEND(.heads = 4, .scale = 0.2),
     {{NORMAL, S(1, 5, 32)}, {NORMAL, S(1, 61, 32)}, {NORMAL, S(1, 61, 64)}, NO_MASKS, ABSENT},
     8,
     3},
    {PG_OP_attention,
     ATTEND(.heads = 4, .scale = 0.3),
     {{NORMAL, S(2, 19, 32)},
      {NORMAL, S(2, 48, 32)},
      {NORMAL, S(2, 48, 32)},
      {MASK, S(2, 19)},
      {MASK, S(2, 48)},
      {MASK, S(2, 48)},
      {MASK, S(2, 19, 1)},
      ABSENT},
     8,
     3},
    {PG_OP_attention,
     ATTEND(.heads = 4, .scale = 0.3, .causal = 1),
     {{NORMAL, S(3, 40, 32)},
      {NORMAL, S(3, 40, 32)},
      {NORMAL, S(3, 40, 32)},
      ABSENT,
      ABSENT,
      ABSENT,
      {MASK, S(3, 1, 1, 40)},
      {POSITIVE, S(3, 4, 40, 40)}},
     8,
     3},
    {PG_OP_attention, /* the middle row sees nothing */
     ATTEND(.heads = 4, .scale = 0.3),
     {{NORMAL, S(3, 23, 32)},
      {NORMAL, S(3, 40, 32)},
      {NORMAL, S(3, 40, 32)},
      ABSENT,
      ABSENT,
      ABSENT,
      {MASK, S(3, 1, 1)},
      {POSITIVE, S(3, 4, 23, 40)}},
     8,
     3},
};

#define N_OWN (sizeof own / sizeof *own)

/* PG_ELEM_REAL: not in 16 bits. Only the first result is read. */
static inline void build_case(built *b, const op_case *c, pg__elem elem, int trains)
{
    build(b, c);
    b->n_read = 1;
    if (trains)
        add_backward(b);
    if (elem != PG_ELEM_REAL) {
        squeeze(b, elem, ALL);
        round_operands(b, elem);
    }
}

static inline double slack_of(pg__elem elem)
{
    return elem == PG_ELEM_BF16 ? BF16_BOUND : elem == PG_ELEM_F16 ? F16_BOUND : 0;
}

#endif

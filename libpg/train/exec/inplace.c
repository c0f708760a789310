/* inplace.c - visits the instructions in order: if an operand that may be overwritten
 * (ops/overwrite.h) dies, the result takes its memory. */
#include "train/exec/inplace.h"

#include "ops/overwrite.h"

/* Do other operands of the instruction lie in the same memory? They would be overwritten too. */
static int is_read_twice(const pg__tape *t, const pg__inst *i, uint32_t k, const pg__val *host)
{
    int n = 0;
    for (uint32_t other = 0; other < i->n_in; other++) {
        const pg__val v = pg__in(t, i, other);
        n += v != PG_NO_VAL && other != k &&
             host[pg__tape_root(t, v)] == host[pg__tape_root(t, pg__in(t, i, k))];
    }
    return n > 0;
}

void pg__lie_in_place(const pg__tape *t, const unsigned char *in_arena, const uint32_t *first,
                      uint32_t *last, pg__val *host)
{
    for (pg__val v = 0; v < t->n_values; v++)
        host[v] = v;
    for (uint32_t at = 0; at < t->n_insts; at++) {
        const pg__inst *i = &t->insts[at];
        const pg__val result = pg__out(t, i, 0);
        uint32_t operands[2];
        const size_t n = pg__overwrites(t, i, operands);
        if (!in_arena[result] || first[result] != at)
            continue;
        for (size_t k = 0; k < n && host[result] == result; k++) {
            const pg__val v = pg__tape_root(t, pg__in(t, i, operands[k])), to = host[v];
            if (!in_arena[to] || last[to] != at || is_read_twice(t, i, operands[k], host))
                continue;
            host[result] = to;
            last[to] = last[result];
        }
    }
}

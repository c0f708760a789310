#include "pg_test.h"

#include "train/exec/arena.h"

static int overlap(const pg__span_of *a, const pg__span_of *b)
{
    const int at_once = a->first <= b->last && b->first <= a->last;
    return at_once && a->off < b->off + b->n_bytes && b->off < a->off + a->n_bytes;
}

static void values_alive_together_do_not_share_memory(void **state)
{
    pg__span_of s[200];
    uint64_t arena, total = 0;
    uint32_t random = 12345;
    (void)state;
    for (size_t i = 0; i < 200; i++) {
        random = random * 1664525u + 1013904223u;
        const uint32_t first = (random >> 8) % 100;
        s[i] = (pg__span_of){
            .n_bytes = (random >> 16) % 5000, .first = first, .last = first + (random >> 24) % 20};
        total += s[i].n_bytes;
    }
    assert_ok(pg__arena_plan(s, 200, &arena, NULL));
    for (size_t i = 0; i < 200; i++) {
        assert_true(s[i].off % PG_ALIGN == 0 && s[i].off + s[i].n_bytes <= arena);
        for (size_t k = 0; k < i; k++)
            assert_false(overlap(&s[i], &s[k]));
    }
    assert_true(arena < total / 2);
}

static void a_chain_needs_two_buffers(void **state)
{
    pg__span_of s[10];
    uint64_t arena;
    (void)state;
    for (uint32_t i = 0; i < 10; i++)
        s[i] = (pg__span_of){.n_bytes = 1000, .first = i, .last = i + 1};
    assert_ok(pg__arena_plan(s, 10, &arena, NULL));
    assert_int_equal(arena, 2 * 1024);
}

static void sizes_beyond_all_memory_are_refused(void **state)
{
    pg__span_of s = {.n_bytes = UINT64_MAX};
    uint64_t arena;
    pg_err err;
    (void)state;
    assert_fails(PG_E_LIMIT, pg__arena_plan(&s, 1, &arena, &err), &err);
}

PG_TEST_MAIN(cmocka_unit_test(values_alive_together_do_not_share_memory),
             cmocka_unit_test(a_chain_needs_two_buffers),
             cmocka_unit_test(sizes_beyond_all_memory_are_refused))

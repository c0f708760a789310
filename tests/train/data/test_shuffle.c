#include "pg_test.h"

#include "train/data/shuffle.h"

#define N 1000

static void is_a_permutation(void **state)
{
    uint64_t order[N];
    unsigned char seen[N] = {0};
    (void)state;
    pg__shuffle(order, N, 7, 3);
    for (size_t i = 0; i < N; i++) {
        assert_true(order[i] < N && !seen[order[i]]);
        seen[order[i]] = 1;
    }
}

static void depends_on_seed_and_epoch_alone(void **state)
{
    uint64_t a[N], again[N], seed[N], epoch[N];
    (void)state;
    pg__shuffle(a, N, 7, 3);
    pg__shuffle(again, N, 7, 3);
    pg__shuffle(seed, N, 8, 3);
    pg__shuffle(epoch, N, 7, 4);
    assert_memory_equal(a, again, sizeof a);
    assert_memory_not_equal(a, seed, sizeof a);
    assert_memory_not_equal(a, epoch, sizeof a);
}

/* All six orders of three rows, each about as often. */
static void gives_every_order_its_share(void **state)
{
    unsigned count[27] = {0};
    (void)state;
    for (uint64_t seed = 0; seed < 6000; seed++) {
        uint64_t o[3];
        pg__shuffle(o, 3, seed, 0);
        count[o[0] * 9 + o[1] * 3 + o[2]]++;
    }
    for (size_t i = 0; i < 27; i++)
        assert_true(count[i] == 0 || (count[i] > 850 && count[i] < 1150));
    assert_true(count[0 * 9 + 1 * 3 + 2] > 0 && count[2 * 9 + 1 * 3 + 0] > 0);
}

PG_TEST_MAIN(cmocka_unit_test(is_a_permutation), cmocka_unit_test(depends_on_seed_and_epoch_alone),
             cmocka_unit_test(gives_every_order_its_share))

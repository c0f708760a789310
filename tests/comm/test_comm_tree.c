/* comm_tree.c - which elements a rank sums, and that halving adds them in the order of the tree.
 * Messages between real processes: tests/ranks/run.py. */
#include "pg_test.h"

#include "comm/comm_impl.h"

enum { RANKS = 8, N = 1000 };

static void every_element_has_one_owner(void **state)
{
    static const size_t sizes[] = {0, 1, 15, 16, 17, 127, 1000, 100003};
    (void)state;
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
        for (size_t n_ranks = 1; n_ranks <= RANKS; n_ranks *= 2) {
            size_t sum = 0;
            for (size_t r = 0; r < n_ranks; r++) {
                size_t from, to, from2, to2;
                pg__comm_tree_own(r, n_ranks, sizes[k], &from, &to);
                assert_true(from <= to && to <= sizes[k]);
                assert_true(from % 16 == 0 ||
                            from == to); /* vectors begin where they would in all of it */
                sum += to - from;
                for (size_t q = 0; q < r; q++) {
                    pg__comm_tree_own(q, n_ranks, sizes[k], &from2, &to2);
                    assert_true(to2 <= from || to <= from2);
                }
            }
            assert_int_equal(sum, sizes[k]);
        }
}

static void partners_share_a_range_without_rest(void **state)
{
    const pg__range all = {32, 932};
    (void)state;
    for (size_t distance = 1; distance < RANKS; distance *= 2)
        for (size_t r = 0; r < RANKS; r++) {
            pg__range his, mine = pg__tree_half(all, r, distance, &his), theirs;
            const pg__range of_partner = pg__tree_half(all, r ^ distance, distance, &theirs);
            assert_memory_equal(&of_partner, &his, sizeof his);
            assert_memory_equal(&theirs, &mine, sizeof mine);
            assert_int_equal(mine.from < his.from ? mine.from : his.from, all.from);
            assert_int_equal(mine.to > his.to ? mine.to : his.to, all.to);
        }
}

/* Rounding shows in which order these are added. */
static double number(size_t rank, size_t i)
{
    static const double of[RANKS] = {1, 0x1p-24, 3e7, -3e7, 0.1, 0x1p-25, 7, 1e-3};
    return of[rank] * (double)(1 + i % 5);
}

static float tree(size_t lo, size_t size, size_t i)
{
    return size == 1 ? (float)number(lo, i)
                     : tree(lo, size / 2, i) + tree(lo + size / 2, size / 2, i);
}

/* What halve() does, with memory instead of messages. */
static void halving_adds_in_the_order_of_the_tree(void **state)
{
    static float mem[RANKS][N], work[RANKS][N];
    pg__range own[RANKS], other;
    (void)state;
    for (size_t r = 0; r < RANKS; r++) {
        own[r] = (pg__range){0, N};
        for (size_t i = 0; i < N; i++)
            mem[r][i] = (float)number(r, i);
    }
    for (size_t distance = 1; distance < RANKS; distance *= 2) {
        memcpy(work, mem, sizeof mem);
        for (size_t r = 0; r < RANKS; r++) {
            own[r] = pg__tree_half(own[r], r, distance, &other);
            pg__tree_add(mem[r] + own[r].from, work[r ^ distance] + own[r].from,
                         own[r].to - own[r].from, sizeof(float));
        }
    }
    for (size_t r = 0; r < RANKS; r++)
        for (size_t i = own[r].from; i < own[r].to; i++) {
            const float want = tree(0, RANKS, i);
            assert_memory_equal(&mem[r][i], &want, sizeof want);
        }
}

static void doubles_are_added_as_doubles(void **state)
{
    double a[] = {1, 2, 3};
    const double b[] = {0x1p-50, 1, 1};
    (void)state;
    pg__tree_add(a, b, 2, sizeof(double));
    assert_true(a[0] == 1 + 0x1p-50 && a[1] == 3 && a[2] == 3);
}

static void a_job_of_one_keeps_its_numbers(void **state)
{
    float mem[] = {1, 2}, work[2] = {0};
    int has = 1;
    (void)state;
    assert_ok(pg__comm_tree_sum(NULL, mem, work, 2, sizeof *mem, &has, "numbers", NULL));
    assert_true(has && mem[0] == 1 && mem[1] == 2);
    has = 0;
    assert_ok(pg__comm_tree_sum(NULL, mem, work, 2, sizeof *mem, &has, "numbers", NULL));
    assert_false(has);
}

PG_TEST_MAIN(cmocka_unit_test(every_element_has_one_owner),
             cmocka_unit_test(partners_share_a_range_without_rest),
             cmocka_unit_test(halving_adds_in_the_order_of_the_tree),
             cmocka_unit_test(doubles_are_added_as_doubles),
             cmocka_unit_test(a_job_of_one_keeps_its_numbers))
